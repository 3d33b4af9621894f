"""Tests of the tests: planted mistakes must be found."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from compiling import assert_near, call, compiled, plan_of, run_compiled, run_reference, var
from hybridjit._core.config import override
from hybridjit._core.types import type_of
from hybridjit.codegen.call import Address
from hybridjit.codegen.emit import generate
from hybridjit.codegen.emit.link import link
from hybridjit.codegen.kinds.parts import program
from hybridjit.compilation import compile_graph
from hybridjit.compiler import new_log
from hybridjit.errors import InternalError
from hybridjit.ir.node import Output
from hybridjit.ir.plan import Plan
from hybridjit.ops import lookup
from hybridjit.passes.plan.verify_plan import verify_plan
from hybridjit.runtime.executable import Executable
from hybridjit.runtime.instance import INSTANCES, Instance

X = np.linspace(-1, 1, 50, dtype=np.float32)  # not a multiple of the vector length


def squared() -> list[Output]:
    return [call("square", var("x"))]


def two_branches() -> list[Output]:
    """Two intermediates that are alive together."""
    x = var("x")
    total = call("elemwise_add", call("softmax", x), call("log_softmax", x), name="total")
    return [call("softmax", total, name="last")]


# --- a wrong scalar rule ---


@pytest.fixture
def wrong_square(monkeypatch, nothing_stored):
    """``square`` compiled as x * x + 1e-3, while the reference stays right."""
    wrong = replace(lookup("square"), scalar=lambda b, x: b.add(b.mul(x, x), b.const(1e-3)))
    monkeypatch.setattr(program, "lookup", lambda name: wrong if name == "square" else lookup(name))
    monkeypatch.setattr(generate, "_KERNELS", {})


def test_comparison_finds_a_wrong_scalar_rule(wrong_square):
    found = run_compiled(squared(), {"x": X})
    with pytest.raises(AssertionError, match="output 0 differs by 0.001"):
        assert_near(found, run_reference(squared(), {"x": X}))


def test_check_mode_finds_a_wrong_scalar_rule(wrong_square):
    executable = compiled(squared(), {"x": X})
    with override(check=True), pytest.raises(InternalError, match="step 0 .pointwise: square"):
        executable([X])


def test_the_rule_is_right_again():
    assert_near(run_compiled(squared(), {"x": X}), run_reference(squared(), {"x": X}))


# --- compiled objects of one run ---


def fetched(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """How the kernel of a graph was found in a process that has not loaded it."""
    monkeypatch.setattr(generate, "_KERNELS", {})
    log = new_log()
    compile_graph(squared(), {"x": type_of(X)}, {}, log=log)
    return {how for how, what, _ in log.details if what != "driver"}


def test_a_kernel_that_another_test_compiled_is_stored(monkeypatch):
    fetched(monkeypatch)
    assert fetched(monkeypatch) == {"cached"}


def test_a_test_of_compilation_finds_no_kernel(nothing_stored, monkeypatch):
    assert fetched(monkeypatch) == {"kernel"}
    assert fetched(monkeypatch) == {"kernel"}


# --- overlapping buffers ---


def overlapping(plan: Plan) -> Plan:
    """The plan with all buffers of its arena in one place."""
    return replace(plan, buffers=tuple(replace(b, offset=0) for b in plan.buffers))


def with_plan(executable: Executable, plan: Plan) -> Executable:
    code = executable.code
    other = Executable(plan, replace(code, image=link(plan, code.calls)))
    other.bind({})
    return other


def test_verifier_finds_overlapping_buffers():
    plan = plan_of(two_branches(), {"x": X})
    verify_plan(plan)
    with pytest.raises(InternalError, match="P1 buffers . and . overlap while both are alive"):
        verify_plan(overlapping(plan))


def test_overlapping_buffers_give_wrong_numbers():
    """Errors that the verifier finds are real: comparison and check mode find them too."""
    executable = compiled(two_branches(), {"x": X})
    wanted = run_reference(two_branches(), {"x": X})
    assert_near(executable([X]), wanted)
    broken = with_plan(executable, overlapping(executable.plan))
    with pytest.raises(AssertionError, match="differs by"):
        assert_near(broken([X]), wanted)
    with override(check=True), pytest.raises(InternalError, match="which another step overwrote"):
        broken([X])


# --- memory ---


def redirected(executable: Executable, position: int, step: int, to: int, offset: int) -> None:
    """Let a kernel's argument ``position`` point to element ``offset`` of buffer ``to``."""
    calls = list(executable.code.calls)
    (kernel_call,) = calls[step]
    argument = kernel_call.args[position]
    assert isinstance(argument, Address)
    there = Address(replace(argument.view, buffer=to, offset=offset))
    args = (*kernel_call.args[:position], there, *kernel_call.args[position + 1 :])
    calls[step] = (replace(kernel_call, args=args),)
    image = link(executable.plan, tuple(calls))
    executable.code = replace(executable.code, calls=tuple(calls), image=image)
    executable.tables = image.tables(len(executable.plan.graph.inputs))


def buffer_numbers(executable: Executable, kind: str) -> list[int]:
    return [b.number for b in executable.plan.buffers if b.kind == kind]


def test_check_mode_finds_a_write_beyond_the_arena():
    """The first branch's result lies eight floats too far back: canaries there are broken."""
    executable = compiled(two_branches(), {"x": X})
    first = next(b for b in executable.plan.buffers if b.kind == "arena" and b.offset == 0)
    step = next(s for s in executable.plan.steps if s.writes[0].buffer == first.number)
    redirected(executable, 1, step.number, first.number, -8)
    with override(check=True), pytest.raises(InternalError) as caught:
        executable([X])
    (instance,) = (i for i in INSTANCES if i.binding is executable.binding)
    assert caught.tb is not None, "what holds an instance that is not given back"
    with pytest.raises(InternalError, match="wrote outside the arena"):
        instance.arena.check_canaries("the planted step")


def test_check_mode_finds_a_written_input():
    executable = compiled(two_branches(), {"x": X})
    (source,) = buffer_numbers(executable, "input")
    redirected(executable, 1, len(executable.plan.steps) - 1, source, 0)
    with override(check=True), pytest.raises(InternalError):
        executable([X.copy()])


def test_check_mode_finds_reads_of_dead_buffers():
    """The last step reads the first branch, which ended before: NaN has taken its place."""
    executable = compiled(two_branches(), {"x": X})
    last = len(executable.plan.steps) - 1
    dead = next(b for b in executable.plan.buffers if b.kind == "arena" and b.last < last)
    redirected(executable, 0, last, dead.number, 0)
    with override(check=True), pytest.raises(InternalError, match="differs from its reference"):
        executable([X])


def scribbling(executable: Executable, scribble: Callable[[Instance], None]) -> Executable:
    """The same executable, whose last native step also does this."""
    original = executable.run_steps

    def run_steps(instance: Instance, first: int, last: int) -> None:
        original(instance, first, last)
        if last == sum(len(row) for row in executable.code.calls):
            scribble(instance)

    executable.run_steps = run_steps
    return executable


def memory_of_output(executable: Executable, instance: Instance) -> int:
    """The address of the output, behind that of the only input."""
    slot, offset = next(place[1:] for place in executable.tables.places.tolist() if place[0] == 1)
    return int(instance.slots[slot]) - offset


@pytest.mark.parametrize("off", [0.0, 0.1], ids=["right", "wrong"])
def test_check_mode_admits_the_rounding_of_terms_that_cancel(off: float, monkeypatch):
    """Where a sum is 0 up to rounding, the terms say how much that is; more is an error still."""
    data = np.random.default_rng(0).normal(size=(4000, 2)).astype(np.float32)
    data = (data - data.mean(0)).astype(np.float32)
    executable = compiled([call("sum", var("x"), axis=(0,))], {"x": data})
    exact = executable.reference

    def reference(step, reads):
        """The same sums in another order, with a mistake where nothing is made absolute."""
        found = exact(step, [x[::-1].copy() for x in reads])
        mistake = 0.0 if (reads[0] >= 0).all() else off
        return [y + np.float32(1e-4 + mistake) for y in found]

    monkeypatch.setattr(executable, "reference", reference)
    with override(check=True):
        if off:
            with pytest.raises(InternalError, match="differs from its reference"):
                executable([data])
        else:
            executable([data])


@pytest.mark.parametrize("place", [-1, X.nbytes], ids=["before", "behind"])
def test_check_mode_finds_a_write_around_an_output(place: int):
    executable = compiled(squared(), {"x": X})
    scribbling(executable, lambda i: ctypes.memset(memory_of_output(executable, i) + place, 7, 1))
    with override(check=True), pytest.raises(InternalError, match="step 0 .*wrote outside"):
        executable([X])


def test_check_mode_finds_a_write_beside_the_results():
    """Into the arena, where a buffer is that died."""
    executable = compiled(two_branches(), {"x": X})
    scribbling(executable, lambda instance: ctypes.memset(instance.arena.address + 5, 7, 1))
    with override(check=True), pytest.raises(InternalError, match="wrote beside its results"):
        executable([X])


def test_check_mode_finds_a_written_weight():
    outputs = [call("broadcast_add", var("x"), var("w"))]
    executable = compiled(outputs, {"x": X, "w": X}, ["w"])
    with override(check=True):
        executable([X])
    weight = executable.binding.arrays()[0]
    scribbling(executable, lambda instance: weight.__setitem__(3, 7.0))
    with override(check=True), pytest.raises(InternalError, match="wrote to a weight"):
        executable([X])


def test_check_mode_finds_a_life_that_ends_too_early():
    """Nothing took the place yet, so the numbers are right; they would not stay so."""
    executable = compiled(two_branches(), {"x": X})
    early = tuple(replace(b, last=b.first) for b in executable.plan.buffers)
    broken = with_plan(executable, replace(executable.plan, buffers=early))
    assert_near(broken([X]), run_reference(two_branches(), {"x": X}))
    with override(check=True), pytest.raises(InternalError, match="which another step overwrote"):
        broken([X])


# --- the comparison itself ---

RIGHT = [np.array([1, -2, 4], np.float32)]


@pytest.mark.parametrize(
    "wrong",
    [
        np.array([1, -2, 4.0001], np.float32),
        np.array([1, -2, np.nan], np.float32),
        np.array([1, -2, np.inf], np.float32),
        np.array([1, -2], np.float32),
        np.array([1, -2, 4], np.float64),
        np.array([[1, -2, 4]], np.float32),
    ],
    ids=["value", "nan", "inf", "shape", "dtype", "rank"],
)
def test_comparison_refuses(wrong: np.ndarray):
    with pytest.raises(AssertionError):
        assert_near([wrong], RIGHT)


def test_comparison_wants_the_same_special_values():
    special = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    assert_near([special.copy()], [special])
    for index in range(3):
        other = special.copy()
        other[index] = 0
        with pytest.raises(AssertionError):
            assert_near([other], [special])


def test_comparison_accepts_rounding_and_wants_every_output():
    assert_near([np.array([1, -2, 4.00002], np.float32)], RIGHT)
    with pytest.raises(AssertionError):
        assert_near([], RIGHT)
    with pytest.raises(AssertionError):
        assert_near([np.array([1, 3])], [np.array([1, 2])])

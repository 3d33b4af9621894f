"""Purposes of a graph besides returning its outputs: updates of inputs, saved outputs, and
destinations that the caller gives."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest
from test_plan import purpose_for, with_inputs

import hybridjit
from compiling import Arrays, assert_near, call, compiled, plan_of, run_reference, var
from hybridjit._core.config import override
from hybridjit._core.types import type_of
from hybridjit.compilation import compile_graph
from hybridjit.compiler import new_log
from hybridjit.errors import DTypeError, MXNetError, ShapeError
from hybridjit.ir.mode import Purpose
from hybridjit.ir.node import Output
from hybridjit.profiling import measure
from hybridjit.runtime.arena import ALIGNMENT, aligned_pages
from hybridjit.runtime.executable import Executable
from hybridjit.runtime.saved import SAVED
from hybridjit.runtime.split_batch import SplitBatch
from hybridjit.runtime.threads import threads
from random_graphs import random_graph


class Case(NamedTuple):
    """Outputs, an array for each input, and which output updates which input."""

    outputs: list[Output]
    arrays: dict[str, np.ndarray]
    updates: tuple[tuple[int, str], ...]


def arrays(*shapes: tuple[int, ...], seed: int = 1) -> dict[str, np.ndarray]:
    """``a``, ``b``, ... of these shapes."""
    random = np.random.default_rng(seed)
    return {
        name: random.normal(0, 1, shape).astype(np.float32) for name, shape in zip("abcd", shapes)
    }


A, B, C = var("a"), var("b"), var("c")


def momentum(shape: tuple[int, ...] = (33, 70)) -> Case:
    """A step of gradient descent: the weight ``a``, the gradient ``b``, the momentum ``c``."""
    kept = call("_mul_scalar", C, scalar=0.9)
    moved = call("elemwise_sub", kept, call("_mul_scalar", B, scalar=0.1), name="moved")
    new = call("elemwise_add", A, moved, name="new")
    return Case([new, moved], arrays(shape, shape, shape), ((0, "a"), (1, "c")))


def product_and_sum(size: int = 300) -> Case:
    """A gradient with respect to a weight, added to the previous one; large enough for several
    threads."""
    product = call("dot", B, C, transpose_a=True)
    total = call("elemwise_add", A, product)
    return Case([total], arrays((size, size), (200, size), (200, size)), ((0, "a"),))


def read_later() -> Case:
    new = call("softmax", call("elemwise_add", A, B))
    return Case([call("dot", new, A), new], arrays((6, 6), (6, 6)), ((1, "a"),))


CASES: dict[str, Callable[[], Case]] = {
    "momentum": momentum,
    "momentum-large": lambda: momentum((700, 900)),
    "sum": product_and_sum,
    "read-later": read_later,
    "swap": lambda: Case([B, A], arrays((5, 3), (5, 3)), ((0, "a"), (1, "b"))),
    "cycle": lambda: Case([B, C, A], arrays(*[(2, 3)] * 3), ((0, "a"), (1, "b"), (2, "c"))),
    "in-turn": lambda: Case([C, A], arrays(*[(2, 3)] * 3), ((0, "b"), (1, "c"))),
    "itself": lambda: Case([A], arrays((4,)), ((0, "a"),)),
    "transposed": lambda: Case([call("transpose", A)], arrays((5, 5)), ((0, "a"),)),
    "reshaped": lambda: Case(
        [call("Reshape", call("exp", call("Reshape", A, shape=(12,))), shape=(3, 4))],
        arrays((3, 4)),
        ((0, "a"),),
    ),
    "old-and-new": lambda: Case([call("exp", A), A], arrays((4, 5)), ((0, "a"),)),
    "twice": lambda: Case(
        [call("exp", A), call("exp", A)], arrays((4,), (4,)), ((0, "a"), (1, "b"))
    ),
    "returned-too": lambda: Case([call("exp", A), call("exp", A)], arrays((4,)), ((1, "a"),)),
    "joined": lambda: Case(
        [call("Concat", call("exp", B), call("relu", C), dim=1, num_args=2)],
        arrays((2, 7), (2, 3), (2, 4)),
        ((0, "a"),),
    ),
    "joined-and-read": lambda: Case(
        [call("Concat", call("exp", B), call("slice_axis", A, axis=1, begin=0, end=4), dim=1,
              num_args=2)],
        arrays((2, 7), (2, 3)),
        ((0, "a"),),
    ),
    "host": lambda: Case([call("sort", A)], arrays((4, 9)), ((0, "a"),)),
    "broadcast": lambda: Case(
        [call("broadcast_add", A, call("sum", A, axis=(0,), keepdims=True))],
        arrays((4, 9)),
        ((0, "a"),),
    ),
}  # fmt: skip


def executable_of(case: Case, saved: int = 0) -> Executable:
    return compiled(case.outputs, case.arrays, purpose=Purpose(updates=case.updates, saved=saved))


def copies(arrays: Arrays) -> list[np.ndarray]:
    return [array.copy() for array in arrays.values()]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_an_update_is_the_input_s_array_after_the_call(name: str, check: bool):
    case = CASES[name]()
    wanted = run_reference(case.outputs, case.arrays)
    given, names = copies(case.arrays), [*case.arrays]
    updated = [name for _, name in case.updates]
    for array, key in zip(given, names):
        array.flags.writeable = key in updated  # nothing else is ever written
    with override(check=check):
        found = executable_of(case)(given)
    assert_near(found, wanted, 2e-5)
    for number, key in case.updates:
        assert found[number] is given[names.index(key)]
    for array, key in zip(given, names):
        if key not in updated:
            assert array.tobytes() == case.arrays[key].tobytes()


@pytest.mark.parametrize("name", CASES)
def test_any_number_of_threads(name: str, monkeypatch):
    case = CASES[name]()
    executable = executable_of(case)
    monkeypatch.setattr(executable, "is_small", False)
    monkeypatch.setattr(executable, "_is_quick", False)
    found = []
    for count in (1, 1, 2, 3, 4):
        with threads(count):
            found.append([y.tobytes() for y in executable(copies(case.arrays))])
    assert all(outputs == found[0] for outputs in found)


def test_a_quick_call_and_one_that_is_not_give_the_same(monkeypatch):
    case = momentum((3, 5))
    executable = executable_of(case, saved=0)
    assert executable._is_quick
    executable(copies(case.arrays))  # leaves an instance for the quick way
    quick = executable(copies(case.arrays))
    monkeypatch.setattr(executable, "_is_quick", False)
    assert [y.tobytes() for y in executable(copies(case.arrays))] == [y.tobytes() for y in quick]


def test_steps_on_steps():
    """Ten steps in place are ten steps: every call starts from the result of the previous one."""
    case = momentum()
    executable, given = executable_of(case), copies(case.arrays)
    for _ in range(10):
        executable(given)
    a, b, c = (array.astype(np.float64) for array in case.arrays.values())
    for _ in range(10):
        c = 0.9 * c - 0.1 * b
        a = a + c
    assert_near(given, [a.astype(np.float32), case.arrays["b"], c.astype(np.float32)])


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_random_graphs_that_update_their_inputs(first: int):
    for seed in range(first, first + 5):
        case = random_graph(seed)
        outputs = with_inputs(case, plan_of(case.outputs, case.arrays), seed)
        purpose = purpose_for(plan_of(outputs, case.arrays), seed)
        executable = compiled(outputs, case.arrays, purpose=purpose)
        given = [np.array(array, order="C") for array in case.arrays.values()]
        with override(check=True):
            found = executable(given)
        is_half = any(array.dtype == np.float16 for array in case.arrays.values())
        tolerance = 2.0**-9 if is_half else 1e-4  # fused float16 operators round once
        assert_near(found, run_reference(outputs, case.arrays), tolerance)


# --- errors, before anything is written ---


def wrong_dtype(given: list[np.ndarray]) -> None:
    given[0] = given[0].astype(np.float64)


def wrong_shape(given: list[np.ndarray]) -> None:
    given[0] = given[0][:-1]


def strided(given: list[np.ndarray]) -> None:
    given[0] = np.asfortranarray(given[0])


def read_only(given: list[np.ndarray]) -> None:
    given[2].flags.writeable = False


def one_array_twice(given: list[np.ndarray]) -> None:
    given[1] = given[0]


def overlapping(given: list[np.ndarray]) -> None:
    whole = np.zeros((34, 70), np.float32)
    given[0], given[1] = whole[1:], whole[:-1]


def no_array(given: list) -> None:
    given[0] = given[0].tolist()


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (wrong_dtype, DTypeError, "input 'a', which output 0 updates, has type float32, got flo"),
        (wrong_shape, ShapeError, r"input 'a', which .* has shape \(33,70\), got \(32,70\)"),
        (strided, MXNetError, "input 'a', .* the array is not C-contiguous"),
        (read_only, MXNetError, "input 'c', which output 1 updates, .* the array is read-only"),
        (one_array_twice, MXNetError, "must not share memory .* input 'a' and input 'b' do"),
        (overlapping, MXNetError, "must not share memory .* input 'b' and input 'a' do"),
        (no_array, MXNetError, "input 'a', .* is a NumPy array, got list"),
    ],
)
def test_arrays_that_cannot_be_updated(spoil, error, message):
    case = momentum()
    executable, given = executable_of(case), copies(case.arrays)
    spoil(given)
    before = [np.array(array) for array in given]
    for run in (executable, lambda given: executable.connected(given, [None, None])()):
        with pytest.raises(error, match=message):
            run(given)
    assert all(np.array_equal(old, new) for old, new in zip(before, given))


@pytest.mark.parametrize(
    ("purpose", "message"),
    [
        (Purpose(updates=((0, "d"),)), "output 0 updates 'd', which is not an input: a, b"),
        (Purpose(updates=((2, "a"),)), "an update's output is between 0 and 1, got 2 for 'a'"),
        (Purpose(updates=((1, "a"),), saved=1), "an update's output is between 0 and 0, got 1"),
        (Purpose(updates=((1, "a"),)), r"output 1 updates input 'a' and has its shape \(2,3\)"),
        (Purpose(updates=((0, "a"), (0, "c"))), "an update's output may occur only once, 0 is"),
        (Purpose(updates=((0, "a"), (0, "a"))), "an update's output may occur only once"),
        (Purpose(saved=3), "saved is between 0 and 2 outputs, got 3"),
    ],
)
def test_purposes_that_do_not_fit(purpose: Purpose, message: str):
    given = {**arrays((2, 3), (2, 3)), "c": np.ones((2, 3), np.float32)}
    outputs = [call("elemwise_add", A, B), call("dot", A, C, transpose_b=True)]
    if message.endswith("a, b"):
        given.pop("c")
        outputs = [call("elemwise_add", A, B)] * 2
    with pytest.raises(MXNetError, match=message):
        compiled(outputs, given, purpose=purpose)


def test_an_update_has_the_input_s_element_type():
    half = call("Cast", A, dtype="float16")
    with pytest.raises(DTypeError, match="updates input 'a' and has its type float32, got float16"):
        compiled([half], arrays((3,)), purpose=Purpose(updates=((0, "a"),)))


# --- destinations ---


def test_outputs_go_where_the_caller_says():
    given = arrays((4, 5), (4, 5))
    executable = compiled([call("elemwise_add", A, B), call("elemwise_sub", A, B)], given)
    place = np.full((4, 5), np.nan, np.float32)
    for outs in ([place, None], [None, place]):
        found = executable([*given.values()], outs)
        assert found[outs.index(place) if outs[0] is place else 1] is place
        assert_near(found, [given["a"] + given["b"], given["a"] - given["b"]])
    with override(check=True):
        found = executable([*given.values()], [place, None])
    assert found[0] is place
    assert_near(found, [given["a"] + given["b"], given["a"] - given["b"]])


@pytest.mark.parametrize("number", [0, 1])
def test_outputs_that_were_right_before_are_looked_at_again(number: int):
    given = arrays((4, 5), (4, 5))
    executable = compiled([call("elemwise_add", A, B), call("elemwise_sub", A, B)], given)
    places = [np.empty((4, 5), np.float32) for _ in range(2)]
    for _ in range(2):
        executable([*given.values()], places)
    apart = [given["a"].copy(), given["b"].copy()]
    sums = [given["a"] + given["b"], given["a"] - given["b"]]
    assert_near(executable(apart, places), sums)
    apart[number] = places[1 - number]
    with pytest.raises(MXNetError, match=rf"input '{'ab'[number]}' and outs.{1 - number}. do"):
        executable(apart, places)
    places[number].flags.writeable = False
    with pytest.raises(MXNetError, match="the array is read-only"):
        executable([*given.values()], places)
    assert_near(places, sums)


@pytest.mark.parametrize(
    ("outs", "message"),
    [
        (lambda given, new: [new], "outs has one entry for each of 2 outputs, got 1"),
        (lambda given, new: [new.astype(np.float64), None], "outs.0. has type float32, got floa"),
        (lambda given, new: [None, new[1:]], r"outs.1. has shape \(4,5\), got \(3,5\)"),
        (lambda given, new: [new, new], r"must not share memory .* outs\[0\] and outs\[1\] do"),
        (lambda given, new: [given[1], None], r"must not share memory .*input 'b'"),
        (lambda given, new: [None, np.broadcast_to(new[0], (4, 5))], "outs.1. is written .* not C"),
    ],
)
def test_destinations_that_are_refused(outs, message):
    given = arrays((4, 5), (4, 5))
    executable = compiled([call("elemwise_add", A, B), call("elemwise_sub", A, B)], given)
    inputs, before = copies(given), copies(given)
    with pytest.raises(MXNetError, match=message):
        executable(inputs, outs(inputs, np.zeros((4, 5), np.float32)))
    assert all(np.array_equal(old, new) for old, new in zip(before, inputs))


def test_a_destination_of_an_update_is_the_input():
    case = momentum()
    executable, given = executable_of(case), copies(case.arrays)
    assert executable(given, [given[0], None])[0] is given[0]
    with pytest.raises(MXNetError, match=r"receives the output: outs\[0\] must be None or it"):
        executable(given, [np.empty_like(given[0]), None])


# --- saved outputs ---


def saving(shape: tuple[int, ...] = (64, 128)) -> tuple[Executable, list[np.ndarray]]:
    given = arrays(shape)
    hidden = call("exp", A)
    outputs = [call("sum", hidden, axis=(1,)), hidden]
    return compiled(outputs, given, purpose=Purpose(saved=1)), [*given.values()]


def held() -> tuple[int, int]:
    stats = hybridjit.memory_stats()
    return stats["saved_bytes"], stats["saved_idle_bytes"]


@pytest.fixture
def counted() -> Iterator[tuple[int, int]]:
    """Memory of others, the baseline of comparisons."""
    gc.collect()  # executables of earlier tests, whose memory may wait as long as they live
    yield held()


def test_saved_memory_is_reused_once_unreferenced(counted):
    executable, given = saving()
    size = given[0].nbytes
    first = executable(given)[1]
    place, view = first.ctypes.data, first.reshape(-1)[5:]
    assert held()[0] == counted[0] + size
    del first
    other = executable(given)[1]
    assert other.ctypes.data != place, "a view keeps the memory"
    assert held()[0] == counted[0] + 2 * size
    assert_near([view], [np.exp(given[0]).reshape(-1)[5:]])
    del view
    assert executable(given)[1].ctypes.data == place


def test_waiting_memory_is_bounded_and_goes_with_the_executable(counted):
    executable, given = saving()
    size = given[0].nbytes
    many = [executable(given)[1] for _ in range(5)]
    assert held()[0] == counted[0] + 5 * size
    del many
    assert held() == (counted[0], max(counted[1], size))
    small, other = saving((3, 4))
    small(other)
    assert held()[1] <= max(counted[1], size)
    del executable, small
    assert held()[0] == counted[0]
    assert held()[1] <= max(counted[1], SAVED._limit())  # the bound for calls of others


def test_saved_outputs_belong_to_the_caller(monkeypatch):
    executable, given = saving((5, 7))
    first, second = executable(given), executable(given)
    first[1][...] = 0
    np.testing.assert_array_equal(second[1], executable(given)[1])
    assert second[1].flags.writeable and second[1].flags.c_contiguous
    with override(check=True):
        checked = executable(given)
    assert_near(checked, second)


def test_an_exception_gives_saved_memory_back(monkeypatch, counted):
    executable, given = saving()
    monkeypatch.setattr(executable, "_is_quick", False)

    def fail(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(executable, "run_segments", fail)
    with pytest.raises(KeyboardInterrupt):
        executable(given)
    assert held()[0] == counted[0]


def test_saved_memory_keeps_its_bound_when_sizes_change():
    """Signatures in turn: together they hold no more than the largest call."""
    made = [saving((rows, 64)) for rows in (10, 100, 30)]
    for _ in range(3):
        for executable, given in made:
            executable(given)
            assert SAVED.nbytes()[1] <= 100 * 64 * 4


def test_saved_memory_of_a_large_call_serves_smaller_ones():
    """Sizes that vary from call to call do not have new pages each time."""
    (large, large_given), (small, given) = (saving((rows, 64)) for rows in (900, 30))
    place = large(large_given)[1].ctypes.data
    assert small(given)[1].ctypes.data == place
    assert large(large_given)[1].ctypes.data == place


@pytest.mark.parametrize("nbytes", [1, 1000, 130 << 20])
def test_saved_memory_can_be_written_on_a_boundary(nbytes):
    pages = aligned_pages(nbytes)
    pages[:10] = pages[-10:] = 7
    assert pages.nbytes == nbytes and pages.ctypes.data % ALIGNMENT == 0


@pytest.mark.parametrize("nbytes", [1 << 62, 1 << 64])
def test_saved_memory_that_is_too_large_is_refused_as_by_numpy(nbytes):
    with pytest.raises(MemoryError, match=f"unable to allocate {nbytes + ALIGNMENT} bytes"):
        aligned_pages(nbytes)


# --- around them ---


def test_a_batch_is_not_run_sample_by_sample(monkeypatch):
    """It is where nothing is updated or saved."""
    given = {"a": np.ones((16, 32, 80, 80), np.float32)}
    layer = call("exp", call("relu", call("Pooling", A, kernel=(3, 3), pad=(1, 1))))
    outputs = [call("relu", call("Pooling", layer, kernel=(3, 3), pad=(1, 1)))]
    types = {"a": type_of(given["a"])}
    for purpose in (Purpose(), Purpose(updates=((0, "a"),)), Purpose(saved=1), Purpose(True)):
        made = compile_graph(outputs, types, {}, log=new_log(), purpose=purpose)
        assert isinstance(made, SplitBatch) == (purpose == Purpose())


def test_a_profile_leaves_the_arrays_as_they_were():
    case = momentum()
    executable, given = executable_of(case), copies(case.arrays)
    report = measure(executable, given, seconds=0.01)
    assert "pointwise" in str(report)
    assert all(np.array_equal(x, y) for x, y in zip(given, case.arrays.values()))


def test_connected_calls_update_in_place():
    case = momentum((3, 4))
    executable, given = executable_of(case), copies(case.arrays)
    wanted = executable(copies(case.arrays))
    executable.connected(given, [given[0], given[2]])()
    assert_near([given[0], given[2]], wanted, 0)


def test_explain_reports_updated_and_saved_outputs():
    log = new_log()
    case = read_later()
    plan_of(case.outputs, case.arrays, log=log, purpose=Purpose(updates=case.updates))
    assert "output 1 updates input 0 a, copied by step 3" in log.notes
    log = new_log()
    plan_of(case.outputs, case.arrays, log=log, purpose=Purpose(saved=1))
    assert "output 1 is saved, 144 B: softmax" in log.notes

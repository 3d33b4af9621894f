"""The gradients of a fuzz case: compiled, by NumPy, on the tape, and along random directions.

A case is trained as its seed says: with gradients of all floating variables or of its parameters
alone, of which some are frozen, in training mode or not. The tape and compiled code move the same
states, and leave alone the same. Next to a kink rounding alone decides which way a gradient goes;
for other numbers it does not, so a case is wrong only if it is wrong for those, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fuzz_cases import (
    CANCELLED,
    MORE_THAN_NUMPY,
    OF_FLOAT64,
    TOLERANCE,
    gap_of,
    in_float64,
    largest_of,
    shaken_values,
)  # fmt: skip
from gradient_cases import CONSTANTS, NO_SLOPE
from hybridjit._core.recording import recording_as
from hybridjit._core.types import type_of
from hybridjit.compilation import compile_training
from hybridjit.context import cpu
from hybridjit.errors import DTypeError
from hybridjit.ir.graph import Use, Value, from_symbol, uses_of
from hybridjit.ir.interpret import run_in_order, run_value
from hybridjit.ir.mode import Purpose
from hybridjit.ir.node import Output
from hybridjit.nd import NDArray
from hybridjit.nd.interpreter import interpret_nodes
from hybridjit.nd.tape import Entry, Leaf
from hybridjit.nd.taped import run_backward, untouched_zeros
from hybridjit.ops.gradient import NoGradientError
from hybridjit.ops.registry import run_ref
from hybridjit.passes.infer import infer_node_types
from hybridjit.passes.training.differentiate import Joint, differentiate
from hybridjit.passes.training.enter_training import as_purposed
from hybridjit.runtime.executable import Executable
from hybridjit.sym.outputs import auxiliary_nodes
from hybridjit.trained import Trained
from random_graphs import RandomGraph

Arrays = Mapping[str, np.ndarray]
Results = Mapping[Use, np.ndarray]

STEP = 1e-6
# How far a slope may be from the gradient, as a part of the terms that it is a sum of.
OF_SLOPES = 1e-4
# How far the tape may be off, as a part of the largest term: of the coarsest type on the way.
_UNITS = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}
# Other numbers that are tried before a case is called wrong.
RETRIES = 2


class Training(NamedTuple):
    """How a case is trained: whose gradients, from which head gradients, in which mode."""

    case: RandomGraph
    wanted: tuple[str, ...]
    is_training: bool
    seed: int

    def joint(self, outputs: list[Output], arrays: Arrays) -> Joint:
        """Forward and backward of these outputs as one graph."""
        types = {name: type_of(array) for name, array in arrays.items()}
        known = infer_node_types(outputs, types)
        graph = from_symbol(outputs, types, known, "case", Purpose(training=self.is_training))
        return differentiate(as_purposed(graph), self.wanted)

    def heads(self, joint: Joint) -> dict[str, np.ndarray]:
        """The same numbers for each type."""
        random = np.random.default_rng((self.seed, 1))
        return {
            value.name: random.normal(size=value.shape).astype(value.type.dtype)
            for value in joint.graph.inputs[len(joint.forward.inputs) :]
        }


def gradient_difference(
    case: RandomGraph, after_compiling: Callable[[Executable], None] = lambda _: None
) -> str:
    """Description of a case's wrong gradients, or nothing."""
    wrong = ""
    for attempt in range(1 + RETRIES):
        random = np.random.default_rng((max(case.seed, 0), case.variant, attempt))
        is_training, with_inputs = random.random() < 0.6, random.random() < 0.7
        frozen = _frozen(case)
        if attempt:
            case = replace(case, arrays={n: _other(a, random) for n, a in case.arrays.items()})
        wanted = tuple(
            name
            for name, array in case.arrays.items()
            if array.dtype.kind == "f"
            and name not in frozen
            and (with_inputs or name in case.params)
        )
        wrong = _wrong(Training(case, wanted, is_training, attempt), after_compiling)
        if not wrong:
            return ""
    return wrong


def _frozen(case: RandomGraph) -> set[str]:
    """Variables whose gradients nothing asks for: none, some or most of them."""
    random = np.random.default_rng((max(case.seed, 0), case.variant, 99))
    share = random.choice([0.0, 0.3, 0.8])
    return {name for name in case.arrays if random.random() < share}


def _other(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Other numbers of the same kind: whole ones stay, for they count or choose something."""
    if array.dtype.kind != "f" or _is_whole(array):
        return array
    return np.asarray(array * random.uniform(0.8, 1.2, array.shape), array.dtype)


def _wrong(training: Training, after_compiling: Callable[[Executable], None]) -> str:
    case, wanted = training.case, training.wanted
    types = {name: type_of(array) for name, array in case.arrays.items()}
    try:
        joint = training.joint(case.outputs, case.arrays)
    except NoGradientError as error:
        return _refused_alone(training, error)
    except DTypeError:
        if not _adds_bools(training):
            raise
        return ""
    trained = compile_training(case.outputs, types, wanted, training.is_training, name=case.name)
    heads = training.heads(joint)
    found = [_call(trained, case.arrays, heads, after_compiling) for _ in range(2)]
    if [a.tobytes() for a in found[0]] != [a.tobytes() for a in found[1]]:
        return "the second call has other bits"
    near = _run(joint, {**case.arrays, **heads})
    exact = _in_float64(training)
    return (
        _off_numpy(training, joint, near, exact, found[0])
        or _off_tape(training, joint, near, heads)
        or _off_slopes(training, exact)
    )


def _refused_alone(training: Training, error: NoGradientError) -> str:
    """Whether the tape has gradients where the joint graph has none."""
    ends = [y for y in _recorded(training).ends if y._entry]
    heads = [NDArray(np.ones_like(y._data), cpu()) for y in ends]
    try:
        run_backward(ends, heads, False, training.is_training)
    except NoGradientError:
        return ""
    return f"the tape has gradients, the joint graph says {error}"


def _adds_bools(training: Training) -> bool:
    """Whether a value of bools may have two gradients to be added, which MXNet refuses as well."""
    types = {name: type_of(array) for name, array in training.case.arrays.items()}
    found = infer_node_types(training.case.outputs, types)
    return any(t.dtype == np.bool_ for each in found.values() for t in each)


def _call(
    trained: Trained, arrays: Arrays, heads: Arrays, after_compiling: Callable[[Executable], None]
) -> list[np.ndarray]:
    """Outputs, gradients and new states as compiled code gives them."""
    visible = len(trained.joint.forward.outputs)
    if trained.forward.binding is None:
        for executable in filter(None, (trained.forward, trained.backward)):
            executable.bind({})
            after_compiling(executable)
    made = trained.forward([np.ascontiguousarray(a) for a in arrays.values()])
    if trained.backward is None:
        return made[:visible]
    given = dict(zip(trained.joint.heads, heads.values()))
    reads = [np.ascontiguousarray(arrays[name]) for name in trained.parts.reads]
    reads += [*made[visible:], *(given[number] for number in trained.parts.heads)]
    return [*made[:visible], *trained.backward(reads)]


def _run(joint: Joint, arrays: Arrays) -> dict[tuple, np.ndarray]:
    """All values of a joint graph, by NumPy."""
    given = {(value, 0): arrays[value.name] for value in joint.graph.inputs}
    return run_in_order(joint.graph.values, given, run_value)


class Exact(NamedTuple):
    """A joint graph in double precision, its arrays, and all its values."""

    joint: Joint
    arrays: dict[str, np.ndarray]
    values: dict[Use, np.ndarray]


def _in_float64(training: Training) -> Exact:
    wide = {
        name: array.astype(np.float64) if array.dtype.kind == "f" else array
        for name, array in training.case.arrays.items()
    }
    joint = training.joint(in_float64(training.case.outputs), wide)
    arrays = {**wide, **training.heads(joint)}
    return Exact(joint, arrays, _run(joint, arrays))


def _names(joint: Joint) -> list[str]:
    return [
        *(f"output {use.value.name}" for use in joint.forward.outputs),
        *(f"the gradient of {name}" for name in joint.gradients),
        *(f"the new {name}" for name in joint.updates),
    ]


def _off_numpy(
    training: Training, joint: Joint, near: Results, wide: Exact, found: list[np.ndarray]
) -> str:
    is_double = any(array.dtype == np.float64 for array in training.case.arrays.values())
    unit, epsilon = (OF_FLOAT64, 2.0**-52) if is_double else (1.0, 2.0**-23)
    exact, moved = wide.values, shaken_values(wide.joint.graph, wide.arrays, epsilon)
    pairs = zip(_names(joint), found, joint.graph.outputs, wide.joint.graph.outputs, strict=True)
    for name, mine, use, of_wide in pairs:
        right, plain = exact[of_wide].astype(np.float64), near[use]
        if mine.shape != right.shape or mine.dtype != plain.dtype:
            return f"{name} is {mine.dtype}{mine.shape}, not {plain.dtype}{right.shape}"
        lost = max(gap_of(plain, right), gap_of(moved[of_wide], right))
        terms = max((largest_of(exact[each]) for each in of_wide.value.inputs), default=0.0)
        allowed = unit * (TOLERANCE * largest_of(right) + CANCELLED * terms)
        allowed += MORE_THAN_NUMPY * lost
        worst = gap_of(mine, right)
        if not worst <= (allowed if mine.dtype.kind == "f" else 0.0):
            return f"{name} {mine.shape} differs by {worst:.3g}, allowed is {allowed:.3g}"
    return ""


def _off_tape(training: Training, joint: Joint, near: Results, heads: Arrays) -> str:
    """Whether eager mode's gradients are those of the joint graph, which adds in another order."""
    types = {use.type.dtype for value in joint.graph.values for use in uses_of(value)}
    unit = max(_UNITS.get(dtype.name, 0.0) for dtype in types if dtype is not None)
    *on_tape, states = _on_tape(training, joint, heads)
    for name, use, right in zip(joint.gradients, _gradients(joint), on_tape):
        scale = max(largest_of(right), *(largest_of(near[each]) for each in _terms(use)), 0.0)
        allowed = unit * scale
        worst = gap_of(near[use].astype(np.float64), right)
        if not worst <= allowed:
            return (
                f"the gradient of {name} differs from the tape's by {worst:.3g}, not {allowed:.3g}"
            )
    return _off_states(training, joint, near, states, unit)


def _off_states(
    training: Training, joint: Joint, near: Results, states: Arrays, unit: float
) -> str:
    """Whether the tape left other states behind than the joint graph."""
    new = joint.graph.outputs[len(joint.graph.outputs) - len(joint.updates) :]
    moved = dict(zip(joint.updates, new))
    for name, found in states.items():
        right = near[moved[name]] if name in moved else training.case.arrays[name]
        worst = gap_of(found.astype(np.float64), right)
        if not worst <= (unit * largest_of(right) if name in moved else 0.0):
            how = "differs" if name in moved else "moved"
            return f"the state {name} {how} on the tape by {worst:.3g}"
    return ""


def _terms(use: Use) -> Iterator[Use]:
    """The operands of a value, and recursively those of unary operands."""
    yield from use.value.inputs
    if len(use.value.inputs) == 1:
        yield from _terms(use.value.inputs[0])


def _gradients(joint: Joint) -> tuple[Use, ...]:
    visible = len(joint.forward.outputs)
    return joint.graph.outputs[visible : visible + len(joint.gradients)]


def _on_tape(training: Training, joint: Joint, heads: Arrays) -> Iterator[Any]:
    """The gradients, then the states by name."""
    named, leaves, ends = _recorded(training)
    pairs = [(y, NDArray(d, cpu())) for y, d in zip(ends, heads.values()) if y._entry]
    if pairs:
        run_backward([y for y, _ in pairs], [d for _, d in pairs], False, training.is_training)
    for name in joint.gradients:
        yield leaves[name].grad.asnumpy()
    states = sorted(node.name for node in auxiliary_nodes(training.case.outputs))
    yield {name: named[name].asnumpy() for name in states}


class _Recorded(NamedTuple):
    """A case on the tape: its variables, those with gradients, and its results."""

    named: dict[str, NDArray]
    leaves: dict[str, Leaf]
    ends: list[NDArray]


def _recorded(training: Training) -> _Recorded:
    case = training.case
    named = {name: NDArray(array.copy(), cpu()) for name, array in case.arrays.items()}
    leaves = {name: Leaf(untouched_zeros(named[name]), "write") for name in training.wanted}
    for name, leaf in leaves.items():
        named[name]._entry = Entry(leaf)
    types = infer_node_types(case.outputs, {n: type_of(a) for n, a in case.arrays.items()})
    with recording_as(True, training.is_training):
        made = interpret_nodes(case.outputs, named, types, cpu())
        ends = [y.copy() for y in made]
    return _Recorded(named, leaves, ends)


def _off_slopes(training: Training, wide: Exact) -> str:
    """Whether gradients in double precision are the slopes of the differentiated function."""
    joint, arrays, exact = wide
    random = np.random.default_rng((training.seed, 2))
    found = dict(zip(joint.gradients, (exact[use] for use in _gradients(joint))))
    fixed = _constants(joint)
    moving = {
        name: random.normal(size=d.shape)
        for name, d in found.items()
        if name not in fixed and not _is_whole(arrays[name])
    }
    terms = [found[name] * direction for name, direction in moving.items()]
    if not terms or _has_no_slope(joint) or _has_ties(joint, exact):
        return ""

    def value(step: float) -> float:
        moved = {name: arrays[name] + step * d for name, d in moving.items()}
        results = _run(forward, {**arrays, **moved})
        return sum(
            float((results[joint.forward.outputs[number]] * arrays[head]).sum())
            for number, head in zip(joint.heads, heads)
        )

    heads = [v.name for v in joint.graph.inputs[len(joint.forward.inputs) :]]
    forward = replace(joint, graph=joint.graph.with_outputs(joint.forward.outputs))
    if not np.isfinite(value(0.0)):  # the mean of no elements
        return ""
    slope = (value(STEP) - value(-STEP)) / (2 * STEP)
    scale = sum(float(np.abs(term).sum()) for term in terms) + 1e-3 * abs(value(0.0)) + 1e-6
    wrong = abs(sum(float(term.sum()) for term in terms) - slope)
    if not wrong <= OF_SLOPES * scale:
        return f"the slope is {slope:.6g}, gradients are off it by {wrong:.3g} of {scale:.3g}"
    return ""


def _constants(joint: Joint) -> set[str]:
    """Variables that a gradient takes for constants although results depend on them."""
    return {
        value.inputs[position].value.name
        for value in joint.graph.values
        if value.op is not None
        for position in (*value.op.aux_positions(value.attrs), *CONSTANTS.get(value.op.name, ()))
    }


def _has_no_slope(joint: Joint) -> bool:
    """Whether a gradient is not the slope, in MXNet either."""
    return any(v.op is not None and v.op.name in NO_SLOPE for v in joint.graph.values)


def _has_ties(joint: Joint, exact: Results) -> bool:
    """Whether several numbers are the largest or smallest: as in MXNet each gets all there is."""
    for value in joint.graph.values:
        if value.op is not None and value.op.name == "Pooling":
            if value.attrs["pool_type"] == "max" and _chooses(exact, value):
                return True
        elif value.op is not None and value.op.name in ("max", "min"):
            (x,) = (exact[use] for use in value.inputs)
            (found,) = run_ref(value.op, [x], {**value.attrs, "keepdims": True})
            if (x == found).sum() > found.size:
                return True
    return False


def _chooses(exact: Results, value: Value) -> bool:
    """Whether a largest number of a window may be in it twice: the first one gets the gradient."""
    x, y = exact[value.inputs[0]], exact[Use(value, 0)]
    _, counts = np.unique(x[np.isin(x, y)], return_counts=True)
    return bool((counts > 1).any())


def _is_whole(array: np.ndarray) -> bool:
    return bool((array == np.rint(array)).all())

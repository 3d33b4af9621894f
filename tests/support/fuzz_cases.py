"""A fuzz case: run it, compare it, keep it in files, and read it back.

A case is ``NAME.json`` (the graph as symbol JSON) and ``NAME.npz`` (an array for every variable;
``inputs`` lists those other than parameters).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from compiling import compiled, run_reference
from hybridjit._core.types import type_of
from hybridjit.ir.graph import Graph, Value, from_symbol
from hybridjit.ir.interpret import run_in_order, run_value
from hybridjit.ir.node import Node, Output, apply, topological
from hybridjit.passes.infer import infer_node_types
from hybridjit.runtime.executable import Executable
from hybridjit.sym import Symbol, load
from random_graphs import RandomGraph

# Allowed difference as a part of the largest value, besides rounding errors of float32.
TOLERANCE = 1e-5
# Allowed difference after cancellation, as a part of the last operands.
CANCELLED = 2e-7
# Factor on the rounding errors that are measured on each case: those of NumPy's float32, and the
# effects of changes in the last bit of every intermediate value.
MORE_THAN_NUMPY = 20
# Both for an output that follows from float64 alone.
OF_FLOAT64 = 1e-8
EPSILON, EPSILON_OF_FLOAT64 = 2.0**-23, 2.0**-52


def difference(
    case: RandomGraph, after_compiling: Callable[[Executable], None] = lambda _: None
) -> str:
    """Compile and run a case; return a description of the first wrong output, or nothing."""
    executable = compiled(case.outputs, case.arrays, case.params)
    after_compiling(executable)
    inputs = [case.arrays[name] for name in case.inputs]
    found, again = executable(inputs), executable(inputs)
    for output, mine, twice, right in zip(case.outputs, found, again, expected(case)):
        if mine.shape != right.values.shape or mine.dtype != right.dtype:
            wanted = f"{right.dtype}{right.values.shape}"
            return f"{output.name} is {mine.dtype}{mine.shape}, not {wanted}"
        if mine.tobytes() != twice.tobytes():
            return f"{output.name} has other bits in the second call"
        worst = gap_of(mine, right.values)
        if not worst <= right.allowed:
            return (
                f"{output.name} {mine.shape} differs by {worst:.3g}, allowed is {right.allowed:.3g}"
            )
    return ""


class Expected(NamedTuple):
    """An output as it should be: in float64, its own type, and how far one may be from it."""

    values: np.ndarray
    dtype: np.dtype
    allowed: float


def expected(case: RandomGraph) -> list[Expected]:
    """The outputs by the references."""
    doubles = [is_of_float64(output, case.arrays) for output in case.outputs]
    wide = {name: array.astype(np.float64) for name, array in case.arrays.items()}
    operands = [edge for output in case.outputs for edge in output.node.inputs]
    exact = run_reference(in_float64([*case.outputs, *operands]), wide)
    largest = {edge: largest_of(a) for edge, a in zip(operands, exact[-len(operands) :])}
    near = run_reference(case.outputs, case.arrays)
    epsilons = {is_: EPSILON_OF_FLOAT64 if is_ else EPSILON for is_ in doubles}
    moved = {is_: shaken(in_float64(case.outputs), wide, e) for is_, e in epsilons.items()}
    found = []
    for i, (output, right, is_double) in enumerate(zip(case.outputs, exact, doubles)):
        right, others = right.astype(np.float64), (near[i], moved[is_double][i])
        unit = OF_FLOAT64 if is_double else 1.0
        lost = max(gap_of(other, right) for other in others)
        cancelled = CANCELLED * max(map(largest.__getitem__, output.node.inputs), default=0.0)
        allowed = unit * (TOLERANCE * largest_of(right) + cancelled) + MORE_THAN_NUMPY * lost
        dtype = others[0].dtype
        # Types other than floats come from integers only.
        found.append(Expected(right, dtype, allowed if dtype.kind == "f" else 0.0))
    return found


def is_of_float64(output: Output, arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether an output follows from numbers of float64, and from no others but integers."""
    read = {node.name for node in topological([output]) if node.is_variable}
    found = {arrays[name].dtype for name in read if arrays[name].dtype.kind == "f"}
    return found == {np.dtype(np.float64)}


def largest_of(array: np.ndarray) -> float:
    """The largest absolute value; NaN, as means of no elements are, counts as 0."""
    return float(np.nan_to_num(np.abs(array), nan=0.0, posinf=np.inf).max(initial=0.0))


def gap_of(found: np.ndarray, right: np.ndarray) -> float:
    """The largest difference; infinite if one is NaN where the other is not."""
    if (np.isnan(found) != np.isnan(right)).any():
        return np.inf
    apart = np.where(found == right, 0.0, found - right)
    return largest_of(apart)


def shaken(
    outputs: Sequence[Output], arrays: Mapping[str, np.ndarray], epsilon: float
) -> list[np.ndarray]:
    """The results when every number on the way is off by ``epsilon`` of itself, up or down.

    Integers do not change: they may be counts or indices.
    """

    given = {name: type_of(array) for name, array in arrays.items()}
    graph = from_symbol(outputs, given, infer_node_types(outputs, given))
    results = shaken_values(graph, arrays, epsilon)
    return [results[use] for use in graph.outputs]


def shaken_values(
    graph: Graph, arrays: Mapping[str, np.ndarray], epsilon: float
) -> dict[tuple[Value, int], np.ndarray]:
    """The same for all values of a graph."""

    def off(array: np.ndarray) -> np.ndarray:
        if array.dtype.kind != "f" or (array == np.rint(array)).all():
            return array
        signs = np.resize([1, -1, 0], array.size).reshape(array.shape)
        return np.asarray(array * (1 + epsilon * signs))

    given = {(value, 0): off(arrays[value.name]) for value in graph.inputs}
    return run_in_order(
        graph.values, given, lambda value, operands: [off(a) for a in run_value(value, operands)]
    )


def in_float64(outputs: Sequence[Output]) -> list[Output]:
    """The same graph with every Cast to a floating type one to float64."""
    new: dict[Node, Node] = {}
    for old in topological(outputs):
        inputs = tuple(Output(new[edge.node], edge.index) for edge in old.inputs)
        if old.op is not None and old.op.name == "Cast" and old.attrs["dtype"].kind == "f":
            new[old] = apply(old.op, old.name, inputs, {"dtype": "float64"})
        else:
            new[old] = replace(old, inputs=inputs)
    return [Output(new[output.node], output.index) for output in outputs]


def save(case: RandomGraph, folder: Path) -> Path:
    """Write a case; the path of its JSON file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.name}.json"
    Symbol(tuple(case.outputs)).save(str(path))
    np.savez(path.with_suffix(".npz"), inputs=np.array(case.inputs), **case.arrays)
    return path


def read(path: Path) -> RandomGraph:
    """The case whose JSON file is ``path``."""
    with np.load(path.with_suffix(".npz")) as stored:
        arrays = {name: stored[name] for name in stored.files}
    inputs = [str(name) for name in arrays.pop("inputs")]
    seed, _, variant = path.stem.removeprefix("seed-").partition("-")
    outputs = list(load(str(path)).outputs)
    numbers = (int(seed) if seed.isdigit() else -1, int(variant) if variant.isdigit() else 0)
    return RandomGraph(*numbers, outputs, arrays, inputs)

"""A fuzz case: run it, compare it, keep it in files, and read it back.

A case is ``NAME.json`` (the graph as symbol JSON) and ``NAME.npz`` (an array for every variable;
``inputs`` lists those that are no parameters).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from compiling import compiled, run_reference
from hybridjit.ir.node import Node, Output, apply, topological
from hybridjit.runtime.executable import Executable
from hybridjit.sym import Symbol, load
from random_graphs import RandomGraph

# Allowed difference as a part of the largest value, besides what float32 itself loses.
TOLERANCE = 1e-5
# What is left, as a part of the last operands, where numbers cancel each other.
CANCELLED = 2e-7
# How much more a kernel may lose than NumPy's own float32, which is measured on each case.
MORE_THAN_NUMPY = 20


def difference(
    case: RandomGraph, after_compiling: Callable[[Executable], None] = lambda _: None
) -> str:
    """Compile and run a case; what is wrong with the first wrong output, or nothing."""
    executable = compiled(case.outputs, case.arrays, case.params)
    after_compiling(executable)
    inputs = [case.arrays[name] for name in case.inputs]
    found, again = executable(inputs), executable(inputs)
    near = run_reference(case.outputs, case.arrays)
    wide = {name: array.astype(np.float64) for name, array in case.arrays.items()}
    operands = [edge for output in case.outputs for edge in output.node.inputs]
    exact = run_reference(in_float64([*case.outputs, *operands]), wide)
    largest = {
        edge: np.abs(a).max(initial=0.0) for edge, a in zip(operands, exact[-len(operands) :])
    }
    for output, mine, twice, rounded, right in zip(case.outputs, found, again, near, exact):
        if mine.shape != right.shape or mine.dtype != rounded.dtype:
            return f"{output.name} is {mine.dtype}{mine.shape}, not {rounded.dtype}{right.shape}"
        if mine.tobytes() != twice.tobytes():
            return f"{output.name} has other bits in the second call"
        right = right.astype(np.float64)
        lost = float(np.abs(rounded - right).max(initial=0.0))
        allowed = TOLERANCE * float(np.abs(right).max(initial=0.0)) + MORE_THAN_NUMPY * lost
        allowed += CANCELLED * max(map(largest.__getitem__, output.node.inputs), default=0.0)
        if mine.dtype.kind != "f":
            allowed = 0.0  # they come from whole numbers alone
        worst = float(np.abs(mine - right).max(initial=0.0))
        if not worst <= allowed:
            return f"{output.name} {right.shape} differs by {worst:.3g}, allowed is {allowed:.3g}"
    return ""


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
    path = folder / f"seed-{case.seed}.json"
    Symbol(tuple(case.outputs)).save(str(path))
    np.savez(path.with_suffix(".npz"), inputs=np.array(case.inputs), **case.arrays)
    return path


def read(path: Path) -> RandomGraph:
    """The case whose JSON file is ``path``."""
    with np.load(path.with_suffix(".npz")) as stored:
        arrays = {name: stored[name] for name in stored.files}
    inputs = [str(name) for name in arrays.pop("inputs")]
    seed = path.stem.removeprefix("seed-")
    outputs = list(load(str(path)).outputs)
    return RandomGraph(int(seed) if seed.isdigit() else -1, outputs, arrays, inputs)

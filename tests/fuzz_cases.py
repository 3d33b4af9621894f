"""A fuzz case: run it, compare it, keep it in files, and read it back.

A case is ``NAME.json`` (the graph as symbol JSON) and ``NAME.npz`` (an array for every variable;
``inputs`` lists those that are no parameters).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from compiling import compiled, run_reference
from hybridjit.sym import Symbol, load
from random_graphs import RandomGraph

# Allowed difference as a part of the largest value, besides what float32 itself loses.
TOLERANCE = 1e-5
# How much more a kernel may lose than NumPy's own float32, which is measured on each case.
MORE_THAN_NUMPY = 20


def difference(case: RandomGraph) -> str:
    """Compile and run a case; what is wrong with the first wrong output, or nothing."""
    executable = compiled(case.outputs, case.arrays, case.params)
    found = executable([case.arrays[name] for name in case.inputs])
    near = run_reference(case.outputs, case.arrays)
    exact = run_reference(case.outputs, {n: a.astype(np.float64) for n, a in case.arrays.items()})
    for output, mine, rounded, right in zip(case.outputs, found, near, exact):
        if mine.shape != right.shape or mine.dtype != rounded.dtype:
            return f"{output.name} is {mine.dtype}{mine.shape}, not {rounded.dtype}{right.shape}"
        lost = float(np.abs(rounded - right).max(initial=0.0))
        allowed = TOLERANCE * float(np.abs(right).max(initial=0.0)) + MORE_THAN_NUMPY * lost
        worst = float(np.abs(mine - right).max(initial=0.0))
        if not worst <= allowed:
            return f"{output.name} {right.shape} differs by {worst:.3g}, allowed is {allowed:.3g}"
    return ""


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

"""Recorded graphs at sizes that vary: each axis of the inputs that a graph leaves open.

An axis is open if the graph accepts other sizes of it, alone or together with all axes of the
inputs that have the same size. Each is called at five sizes, in a random order and in the reverse.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import hybridjit
from fuzz_sizes import Axis, axes_of_size, calls_at, order_difference
from hybridjit import gluon
from hybridjit.ir.node import Output

FIXTURES = Path(__file__).parent.parent / "fixtures"
FOLDERS = [FIXTURES / "recorded", FIXTURES / "recorded_int8"]
SIZES = 5
Call = dict[str, np.ndarray]


@dataclass
class Recorded:
    """A recorded graph; ``arrays`` has one array for each variable."""

    name: str
    outputs: Sequence[Output]
    arrays: dict[str, np.ndarray]
    params: list[str]
    seed: int = 0
    variant: int = 0

    @property
    def inputs(self) -> list[str]:
        return [name for name in self.arrays if name not in self.params]


def cases(folders: Sequence[Path] = FOLDERS) -> list[tuple[Path, str, list[str]]]:
    """Folder, name and inputs of each recorded graph."""
    found: list[tuple[Path, str, list[str]]] = []
    for folder in folders:
        rows = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
        found += [(folder, row["name"], row["inputs"]) for row in rows]
    return found


def read(folder: Path, name: str, inputs: Sequence[str]) -> Recorded:
    """The recorded graph of this name."""
    stem = folder / name
    block = gluon.SymbolBlock.imports(f"{stem}-symbol.json", inputs, f"{stem}-0000.params")
    params = {n: p.data().asnumpy() for n, p in block.collect_params().items()}
    recorded = np.load(f"{stem}-io.npz")
    arrays = {n: recorded[n] for n in inputs}
    return Recorded(name, block._trace.outputs, {**arrays, **params}, [*params])


def candidates(size: int) -> list[int]:
    """Sizes near this one, its multiples, and small ones, for graphs that reshape or pad."""
    near = (size, size + 1, 2 * size, 1, size + 3, 3 * size, size - 1, 4 * size, size + 8, 2, 5)
    return [n for n in dict.fromkeys(near) if n > 0]


def open_axes(case: Recorded) -> Iterator[tuple[list[Axis], list[Call]]]:
    """The axes that vary together, with the calls."""
    seen: list[list[Axis]] = []
    for name in case.inputs:
        for i, size in enumerate(case.arrays[name].shape):
            for axes in ([(name, i)], axes_of_size(case, case.inputs, size)):
                calls = calls_at(case, case.inputs, axes, candidates(size))[:SIZES]
                if len(calls) > 1:
                    if axes not in seen:
                        seen.append(axes)
                        yield axes, calls
                    break


@dataclass(frozen=True)
class Outcome:
    """``difference`` of bits, "" without one, and graphs that were compiled for ``sizes``."""

    axes: str
    difference: str
    sizes: int
    compiled: int

    @property
    def is_constant(self) -> bool:
        """Whether each size needs a compilation."""
        return self.compiled >= max(3, self.sizes)


def outcomes(case: Recorded, gradients: bool = False) -> Iterator[Outcome]:
    """An outcome for the axes of each input that the graph leaves open."""
    random = np.random.default_rng(zlib.crc32(case.name.encode()))
    for axes, calls in open_axes(case):
        before = hybridjit.compile_stats()["compilations"]
        inputs = case.inputs
        wrong = order_difference(case, inputs, calls, gradients, lambda _: None, random)
        # Of these, one for each size was that of the specialised executable.
        made = hybridjit.compile_stats()["compilations"] - before - len(calls)
        names = ", ".join(f"axis {i} of {name}" for name, i in axes)
        yield Outcome(names, wrong, len(calls), int(made))

"""Recorded graphs at sizes that vary: each axis of the inputs that a graph leaves open.

An axis is open if the graph accepts other sizes of it, alone or together with all axes of the
inputs that have the same size. Each is called at five sizes, in a random order and in the reverse.
ONNX files name their open axes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import hybridjit
import hybridjit.onnx
from fuzz_sizes import Axis, axes_of_size, calls_at, order_difference
from hybridjit import gluon, nd
from hybridjit.errors import MXNetError
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


def file_outcomes(path: Path) -> Iterator[Outcome]:
    """An outcome for each axis that an ONNX file of one input leaves open, and for all at once."""
    recorded = np.load(path.with_suffix(".npz"))
    x, y = recorded["x"], recorded["y"]
    found = hybridjit.onnx.load(path)(nd.array(x, dtype=x.dtype)).asnumpy()
    np.testing.assert_allclose(found, y, rtol=0, atol=1e-3 * np.abs(y).max())
    (shape,) = hybridjit.onnx.load(path).input_shapes.values()
    axes = [i for i, n in enumerate(shape or x.ndim * (None,)) if n is None]
    for varied in [*([i] for i in axes), *([axes] if len(axes) > 1 else [])]:
        yield _file_outcome(path, x, varied)


def _file_outcome(path: Path, x: np.ndarray, axes: Sequence[int]) -> Outcome:
    """Calls of a fresh block in a random order and in the reverse, beside a compilation of each."""
    fixed, sized = hybridjit.onnx.load(path), hybridjit.onnx.load(path)
    fixed.hybridize(dynamic=False)
    expected: list[tuple[np.ndarray, bytes]] = []
    for sizes in zip(*(_wider_candidates(x.shape[i]) for i in axes)):
        shape = [dict(zip(axes, sizes)).get(i, n) for i, n in enumerate(x.shape)]
        given = np.ascontiguousarray(np.resize(x, shape))
        with suppress(MXNetError):  # the graph refuses this size
            expected.append((given, _bits(fixed, given)))
        if len(expected) == SIZES:
            break
    order = np.random.default_rng(zlib.crc32(path.stem.encode())).permutation(len(expected))
    before = hybridjit.compile_stats()["compilations"]
    wrong = [
        f"shape {expected[number][0].shape} in the order {order.tolist()}"
        for number in (*order, *reversed(order))
        if _bits(sized, expected[number][0]) != expected[number][1]
    ]
    made = hybridjit.compile_stats()["compilations"] - before
    return Outcome(f"axes {list(axes)}", "; ".join(wrong), len(expected), int(made))


def _wider_candidates(size: int) -> list[int]:
    """As ``candidates``, but smaller than images and sounds, to which networks take long."""
    smaller = (size, size // 2, size + 1, size * 3 // 4, size - 7, size // 4, size + 32)
    return candidates(size) if size <= 40 else list(smaller)


def _bits(block: gluon.Block, given: np.ndarray) -> bytes:
    return block(nd.array(given, dtype=given.dtype)).asnumpy().tobytes()

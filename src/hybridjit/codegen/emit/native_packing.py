"""Packing by machine code: 175 MB of ResNet-50's weights in a third of NumPy's time.

Input: a packing, weights, and a destination. Output: the same bits that ``packing.pack`` writes.
NumPy packs the layouts that the machine code does not support.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..._core.target import Target
from ..._core.types import FLOAT32, product
from ..kinds.weights.spec import tile_floats
from ..llvm.library import Library
from ..packing import (
    ConvPacking,
    Packing,
    PairPacking,
    QuadPacking,
    StrassenPacking,
    WinogradPacking,
    whole_vectors,
)
from .packers import COMBINED, SIZES, TRANSPOSED, is_combined, is_plain

_TRANSPOSE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 8)
_FILTERS = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)
_COMBINE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, *[ctypes.c_int64] * 4)
_TAPS = 9


class _Rows(NamedTuple):
    """Filters whose elements are contiguous, channel by channel or tap by tap."""

    weight: np.ndarray
    step: int  # distance between two filters
    channels: int
    taps: int
    is_tap_minor: bool


class NativePacking:
    """The functions of ``emit_packer``, from their objects. They release the GIL while they run."""

    def __init__(self, target: Target) -> None:
        self._lanes, self._target = target.lanes, target
        self._libraries: list[Library] = []
        self._transpose: Callable[..., None] | None = None
        self._combine: Callable[..., None] | None = None
        self._filters: dict[int, Callable[..., None]] = {}
        self.names: set[str] = set()

    def load(self, name: str, code: bytes) -> None:
        """Add a function."""
        library = Library([code], self._target, [name])
        self._libraries.append(library)
        if name == TRANSPOSED:
            self._transpose = _TRANSPOSE(library.address(name))
        elif name == COMBINED:
            self._combine = _COMBINE(library.address(name))
        else:
            self._filters[SIZES[name]] = _FILTERS(library.address(name))
        self.names.add(name)

    def pack(self, packing: Packing, weight: np.ndarray, out: np.ndarray) -> None:
        """Do the same as ``packing.pack(weight, out)``."""
        if isinstance(packing, PairPacking | QuadPacking):
            # Words are moved like floats.
            words = packing.words(weight).view(FLOAT32)
            return self.pack(packing.inner, words, out.view(FLOAT32))
        rows = self._rows(packing, weight) if weight.dtype == out.dtype else None
        if rows is None:
            packing.pack(weight, out)
        elif isinstance(packing, WinogradPacking) and packing.lines:
            self._pack_combined(packing, rows, out)
        elif isinstance(packing, WinogradPacking):
            self._pack_winograd(packing, rows, out)
        elif isinstance(packing, ConvPacking):
            steps = (1, rows.taps) if packing.taps else (rows.channels, 1)
            columns = whole_vectors(len(weight), packing.lanes)
            self._transpose_rows(rows, out, columns, packing.rows, steps)
        elif isinstance(packing, StrassenPacking):
            self._pack_quarters(packing, rows, out)

    def _pack_winograd(self, packing: WinogradPacking, rows: _Rows, out: np.ndarray) -> None:
        width, size = packing.rows, packing.rows * rows.channels
        scratch = np.empty(size * _TAPS + tile_floats(packing.m), FLOAT32)
        blocks = out.reshape(-1, (packing.m + 2) ** 2 * size)
        for number, block in enumerate(blocks):
            filters = rows.weight[number * width : (number + 1) * width]
            self._transpose_rows(rows._replace(weight=filters), scratch, width, width, (1, _TAPS))
            self._filters[packing.m](_address(scratch), _address(block), rows.channels, width)

    def _pack_combined(self, packing: WinogradPacking, rows: _Rows, out: np.ndarray) -> None:
        width, terms = packing.rows, _terms_of(packing.matrix)
        scratch = np.empty(width * rows.channels * rows.taps, FLOAT32)
        numbers = (packing.points, rows.channels, rows.taps, width)
        assert self._combine is not None
        for number, block in enumerate(out.reshape(-1, packing.points * width * rows.channels)):
            filters = rows.weight[number * width : (number + 1) * width]
            some = rows._replace(weight=filters)
            self._transpose_rows(some, scratch, width, width, (1, rows.taps))
            self._combine(_address(scratch), _address(block), *map(_address, terms), *numbers)

    def _pack_quarters(self, packing: StrassenPacking, rows: _Rows, out: np.ndarray) -> None:
        width, half = packing.nv * packing.lanes, rows.channels // 2
        for filters, block in packing.blocks(rows.weight, out):
            if not len(filters):
                block[...] = 0
                continue
            some = rows._replace(weight=filters, channels=half)
            self._transpose_rows(some, block, width, width, (half, 1))
        packing.add_up(half, out)

    def _transpose_rows(
        self, rows: _Rows, out: np.ndarray, columns: int, width: int, steps: tuple[int, int]
    ) -> None:
        """``steps``: the strides of taps and channels in the result, in rows of filters."""
        tap, channel = steps
        digits = (rows.taps, tap, channel) if rows.is_tap_minor else (rows.channels, channel, tap)
        numbers = (len(rows.weight), columns, width, rows.taps * rows.channels, rows.step)
        assert self._transpose is not None
        self._transpose(_address(rows.weight), _address(out), *numbers, *digits)

    def _transforms(self, packing: WinogradPacking) -> bool:
        """Whether the function for these filters is loaded."""
        if is_plain(packing):
            return packing.m in self._filters
        return is_combined(packing) and self._combine is not None

    def _rows(self, packing: Packing, weight: np.ndarray) -> _Rows | None:
        """The weights as rows; None for another layout or an unsupported packing."""
        if isinstance(packing, WinogradPacking) and not self._transforms(packing):
            return None
        if not isinstance(packing, StrassenPacking) and not (
            isinstance(packing, (ConvPacking, WinogradPacking)) and packing.rows
        ):
            return None
        *window, channels = weight.shape[1:]
        taps = product(tuple(window))
        together = channels // 2 if isinstance(packing, StrassenPacking) else taps * channels
        is_large = together >= self._lanes == packing.lanes
        if not is_large or not weight.size or weight.dtype != FLOAT32:
            return None
        step, *steps = (stride // FLOAT32.itemsize for stride in weight.strides)
        if _is_contiguous((channels, *window), (steps[-1], *steps[:-1])):
            return _Rows(weight, step, channels, taps, True)
        if _is_contiguous((*window, channels), steps):
            return _Rows(weight, step, channels, taps, False)
        return None


def _terms_of(g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nonzero elements of a matrix: where those of each row begin, columns, and factors."""
    rows, columns = np.nonzero(g)
    stops = np.searchsorted(rows, np.arange(len(g) + 1))
    return stops.astype(np.int64), columns.astype(np.int64), g[rows, columns]


def _is_contiguous(shape: Sequence[int], steps: Sequence[int]) -> bool:
    expected = 1
    for size, step in zip(reversed(shape), reversed(steps)):
        if size > 1 and step != expected:
            return False
        expected *= size
    return True


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])

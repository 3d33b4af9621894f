"""The plan: steps in order with their views, and the position of every buffer.

A :class:`View` describes how a step sees a tensor: a buffer, an offset and a stride per axis, in
elements. Views, slices, joined channels and broadcasts are strides, not copies.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from .._core.frozen import dataclass
from .._core.symbolic import is_one, is_surely_equal
from .._core.types import Shape
from .graph import Graph, Group


@dataclass(frozen=True)
class Buffer:
    """A buffer. kind: ``input``, ``weight``, ``output``, ``saved`` or ``arena``.

    index   the number of the input, weight or output; a saved output is counted among all outputs
    offset  bytes from the arena's start, for an arena buffer
    first, last  the steps between which it is alive
    """

    number: int
    kind: str
    index: int
    nbytes: int
    offset: int = 0
    first: int = 0
    last: int = 0

    def __str__(self) -> str:
        if self.kind == "arena":
            return f"arena+{self.offset}"
        return f"{self.kind} {self.index}"


@dataclass(frozen=True)
class View:
    """A tensor in a buffer: offset and strides count elements of ``dtype``."""

    buffer: int
    offset: int
    shape: Shape
    strides: tuple[int, ...]
    dtype: np.dtype

    @property
    def is_contiguous(self) -> bool:
        """Whether strides are those of a contiguous array: for all values of symbolic sizes."""
        return all(
            is_surely_equal(stride, full) or is_one(size)
            for stride, full, size in zip(self.strides, contiguous_strides(self.shape), self.shape)
        )


@dataclass(frozen=True)
class Step:
    """One execution of a group: views that it reads (as in ``group.inputs``) and writes."""

    number: int
    kind: str
    name: str
    group: Group
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    note: str = ""


@dataclass(frozen=True)
class Plan:
    """Steps in order and the arena that they share."""

    graph: Graph
    steps: tuple[Step, ...]
    buffers: tuple[Buffer, ...]
    outputs: tuple[View, ...]
    arena_bytes: int
    live_bytes: int = field(default=0)


def extent(view: View) -> tuple[int, int]:
    """The lowest and highest element that a view contains; (0, -1) if it is empty."""
    if 0 in view.shape:
        return 0, -1
    reaches = [(size - 1) * stride for size, stride in zip(view.shape, view.strides)]
    low = view.offset + sum(r for r in reaches if r < 0)
    return low, view.offset + sum(r for r in reaches if r > 0)


def strided(memory: np.ndarray, view: View) -> np.ndarray:
    """``view`` as an array over the memory of its buffer, which is contiguous."""
    size = view.dtype.itemsize
    strides = [stride * size for stride in view.strides]
    array: np.ndarray = np.ndarray(view.shape, view.dtype, memory, size * view.offset, strides)
    return array


def contiguous_strides(shape: Shape) -> tuple[int, ...]:
    """Strides, in elements, of a C-contiguous array."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))

"""Which memory the operands of each step come from: how much was touched since they were, in a run.

A network is called again and again. The distance of a step's operand is the number of the bytes
that passed since it was last read or written, by this run or by the one before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hybridjit._core.target import Target
from hybridjit._core.types import product
from hybridjit.codegen.families import family_of
from hybridjit.ir.plan import View
from hybridjit.ir.plan_image import Packed
from hybridjit.runtime.executable import Executable

_PAGE = 1024  # bytes of a buffer whose last use is noted together
_PARTS = (0.125, 0.375, 0.625, 0.875)  # the pages of a view, by how long ago they were used


@dataclass(frozen=True)
class Levels:
    """Bytes that come from the second-level cache, from the third-level one, and from memory."""

    second: float = 0.0
    third: float = 0.0
    memory: float = 0.0

    def __add__(self, other: Levels) -> Levels:
        pairs = zip(self.each, other.each)
        return Levels(*(a + b for a, b in pairs))

    @property
    def each(self) -> tuple[float, float, float]:
        return self.second, self.third, self.memory

    def cycles(self, target: Target) -> float:
        family = family_of(target)
        rates = (family.second_level, family.third_level, family.alone)
        return sum(nbytes / rate for nbytes, rate in zip(self.each, rates))


@dataclass(frozen=True)
class Operands:
    """Bytes that a step reads and writes, and of its weights."""

    read: Levels = Levels()
    written: Levels = Levels()
    weights: Levels = Levels()


def bytes_of(view: View) -> int:
    sizes = (size for size, stride in zip(view.shape, view.strides) if stride)
    return product(tuple(sizes)) * view.dtype.itemsize


def level_of(nbytes: float, distance: float, target: Target) -> Levels:
    """Bytes that were last used before ``distance`` other bytes."""
    if distance <= target.l2_bytes:
        return Levels(second=nbytes)
    is_cached = distance <= family_of(target).third_bytes
    return Levels(third=nbytes) if is_cached else Levels(memory=nbytes)


def operands_of(executable: Executable) -> dict[int, Operands]:
    """Of each step, by its number."""
    weights = dict(_weights(executable))
    passed, target = _Passed(executable), executable.code.target
    found: dict[int, Operands] = {}
    for step in (*executable.plan.steps, *executable.plan.steps):  # as in the second of two runs
        packed = weights[step.number]
        reads = [v for v in step.reads if not (packed and passed.is_weight(v))]
        writes = [v for v in step.writes if v not in reads]  # in place: it comes once
        passed.begin(packed, sum(map(bytes_of, (*reads, *writes))))
        read = sum((passed.levels(v, target) for v in reads), Levels())
        written = sum((passed.levels(v, target) for v in writes), Levels())
        all_bytes = sum(weights.values()) + executable.plan.arena_bytes
        found[step.number] = Operands(read, written, level_of(packed, all_bytes, target))
        passed.end((*reads, *step.writes))
    return found


def _weights(executable: Executable) -> Iterator[tuple[int, int]]:
    """Bytes of packed weights of each step."""
    assert executable.binding is not None
    for step, calls in zip(executable.plan.steps, executable.code.calls):
        arguments = [a for call in calls or () for a in call.args if isinstance(a, Packed)]
        yield step.number, sum(executable.binding.packed_array(a).nbytes for a in arguments)


class _Passed:
    """The bytes that passed when each page was last used: of weights, and of all else.

    Weights are all different; of operands no more than the arena has.
    """

    def __init__(self, executable: Executable) -> None:
        self.buffers, self.arena = executable.plan.buffers, executable.plan.arena_bytes
        pages = 2 + max(b.offset + b.nbytes for b in self.buffers) // _PAGE
        self.last: dict[str, np.ndarray] = defaultdict(lambda: np.full((2, pages), -np.inf))
        self.now, self.half = np.zeros((2, 1)), np.zeros((2, 1))

    def is_weight(self, view: View) -> bool:
        return self.buffers[view.buffer].kind == "weight"

    def begin(self, weights: int, operands: int) -> None:
        """To the middle of a step that moves this number of bytes."""
        self.half = np.array([[weights / 2], [operands / 2]])
        self.now = self.now + self.half

    def end(self, views: Sequence[View]) -> None:
        for view in views:
            self._pages(view)[:] = self.now
        self.now = self.now + self.half

    def levels(self, view: View, target: Target) -> Levels:
        weights, operands = self.now - self._pages(view)
        distances = weights + np.minimum(operands, self.arena)
        parts = np.quantile(distances, _PARTS, method="lower")
        part = bytes_of(view) / len(_PARTS)
        return sum((level_of(part, distance, target) for distance in parts), Levels())

    def _pages(self, view: View) -> np.ndarray:
        buffer, size = self.buffers[view.buffer], view.dtype.itemsize
        start = view.offset * size
        extent = sum((n - 1) * abs(s) for n, s in zip(view.shape, view.strides)) + 1
        name = "arena" if buffer.kind == "arena" else str(buffer)
        start += buffer.offset if name == "arena" else 0
        return self.last[name][:, start // _PAGE : -(-(start + extent * size) // _PAGE)]

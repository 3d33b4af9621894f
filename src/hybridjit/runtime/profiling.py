"""Times of the kernel calls of a plan within a run: each from the end of the previous call.

Input: a bound executable, inputs, outputs. Output: a :class:`Profile`. Timed runs alternate with
untimed runs for comparison: the sum of the parts must equal the whole. The calling thread reads the
clock within native code (about 25 ns each), and the workers run unchanged code.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.types import product
from ..ir.plan import Plan, Step, View
from .instance import Instance, Segment
from .threads import THREADS

if TYPE_CHECKING:
    from .executable import Executable

_LEAST_ROUNDS = 8
_MOST_ROUNDS = 4000


@dataclass(frozen=True)
class Part:
    """One kernel call, or a host step (``call`` None), and its seconds."""

    step: Step
    call: Any
    seconds: float


@dataclass(frozen=True)
class Profile:
    """All parts in order; all times are means over the faster half of the rounds.

    start  seconds outside of all parts: waking threads, entering and leaving native code
    whole  seconds of an untimed run
    """

    plan: Plan
    parts: tuple[Part, ...]
    start: float
    whole: float
    threads: int
    rounds: int

    @property
    def total(self) -> float:
        """The sum of the parts, in seconds."""
        return sum(part.seconds for part in self.parts)

    @property
    def excess(self) -> float:
        """Relative difference between the parts plus the start and the whole."""
        return (self.total + self.start) / self.whole - 1


class Profiler:
    """Timed and untimed runs of one executable on one set of arrays."""

    def __init__(
        self,
        executable: Executable,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        assert executable.binding is not None, "bind() comes before a profile"
        self.executable = executable
        self.arrays = (inputs, outputs)
        self.threads = executable.thread_count
        self.instance = Instance(executable, executable.binding, self.threads)
        self.instance.connect(*inputs, *outputs)
        steps = len(executable.code.image.calls)
        self._stamps = (ctypes.c_int64 * (2 * (steps + 1)))()

    def profile(self, seconds: float = 2.0) -> Profile:
        """Measure for about ``seconds``, after a warm-up. Writes the outputs as any call does."""
        self.run_watched()
        whole: list[float] = []
        rounds: list[list[float]] = []
        deadline = time.perf_counter() + seconds
        while len(rounds) < _LEAST_ROUNDS or (
            len(rounds) < _MOST_ROUNDS and time.perf_counter() < deadline
        ):
            # An uncounted run before each counted one, so that both find warm caches and awake
            # workers.
            self.run_whole()
            whole.append(self.run_whole())
            self.run_whole()
            rounds.append(self.run_watched())
        *means, start = faster_means(rounds)
        parts = [Part(step, call, mean) for (step, call), mean in zip(self._calls(), means)]
        (together,) = faster_means([[t] for t in whole])
        return Profile(
            self.executable.plan, tuple(parts), start, together, self.threads, len(rounds)
        )

    def least(self, seconds: float) -> list[float]:
        """The least time of each step of the plan, over runs of about ``seconds``, at least two."""
        deadline = time.perf_counter() + seconds
        least = self.run_watched()
        while True:
            least = list(map(min, least, self.run_watched()))
            if time.perf_counter() >= deadline:
                return self._by_step(least)

    def _by_step(self, parts: Sequence[float]) -> list[float]:
        """Seconds of each step: the sum over its calls."""
        left = iter(parts)
        rows = (row or (None,) for row in self.executable.code.calls)
        return [sum(next(left) for _ in row) for row in rows]

    def run_whole(self) -> float:
        """Seconds of an untimed run."""
        start = time.perf_counter()
        for segment in self.executable.segments:
            self._run_segment(segment, 0)
        return time.perf_counter() - start

    def run_watched(self) -> list[float]:
        """Seconds of each part of a run, in order, and then of the time outside of all parts."""
        found: list[float] = []
        rest = 0.0
        for segment in self.executable.segments:
            start = time.perf_counter()
            self._run_segment(segment, ctypes.addressof(self._stamps))
            took = time.perf_counter() - start
            parts = [took] if segment.host is not None else self._noted(segment)
            found += parts
            rest += took - sum(parts)
        return [*found, rest]

    def _run_segment(self, segment: Segment, stamps: int) -> None:
        instance = self.instance
        if segment.host is not None:
            step = self.executable.plan.steps[segment.host]
            self.executable.run_host(step, instance, *self.arrays)
            return
        pool = THREADS.pool(self.executable.code.driver)
        pool.run(instance.steps_address, segment.first, segment.last, self.threads, stamps)

    def _noted(self, segment: Segment) -> list[float]:
        """Seconds from the end of the previous step (or the start) to the end of each step."""
        stamps = self._stamps
        count = segment.last - segment.first + 1
        whole, parts = stamps[0], range(count)
        times = [stamps[2 * i] - whole + 1e-9 * stamps[2 * i + 1] for i in parts]
        return [after - before for before, after in zip(times, times[1:])]

    def _calls(self) -> list[tuple[Step, Any]]:
        plan, rows = self.executable.plan, self.executable.code.calls
        return [(step, call) for step, row in zip(plan.steps, rows) for call in (row or (None,))]


def faster_means(rounds: Sequence[Sequence[float]]) -> list[float]:
    """Each column's mean over the half of the rounds with the smallest sums.

    Unlike medians, means add up: the sum of the columns is the time of those rounds. In the slower
    half, other programs used the machine.
    """
    ordered = sorted(rounds, key=sum)
    faster = ordered[: (len(ordered) + 1) // 2]
    return [sum(column) / len(faster) for column in zip(*faster)]


def bytes_moved(step: Step) -> int:
    """Bytes that a step reads and writes, each element once."""
    return sum(_view_bytes(view) for view in (*step.reads, *step.writes))


def _view_bytes(view: View) -> int:
    """Bytes of a view; elements that it repeats (stride 0) count once."""
    sizes = tuple(size for size, stride in zip(view.shape, view.strides) if stride)
    return product(sizes) * view.dtype.itemsize

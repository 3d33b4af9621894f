"""Times of the kernel calls of a plan within a run: each from the end of the previous call.

Input: a bound executable, inputs, outputs. Output: a :class:`Profile`. Timed runs alternate with
untimed runs for comparison: the sum of the parts must equal the whole. All threads read the clock
within native code, before and after their part of a step. A single thread reads its CPU time, so
that other programs do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from .._core.frozen import replace
from .._core.symbolic import value_of
from .._core.types import product
from ..ir.plan import Plan, Step, View
from ..ir.sized import SizedPlan, sized
from .instance import Instance, Segment
from .stamps import Stamps
from .threads import THREADS

if TYPE_CHECKING:
    from .executable import Executable

T = TypeVar("T")
_LEAST_ROUNDS = 8
_MOST_ROUNDS = 4000


class _Clock(NamedTuple):
    """The system's number of a clock, and a function that reads it in seconds."""

    number: int
    now: Callable[[], float]


_ELAPSED = _Clock(time.CLOCK_MONOTONIC, time.perf_counter)
_CPU = _Clock(time.CLOCK_THREAD_CPUTIME_ID, time.thread_time)
# Seconds of a run from which on CPU time is measured. Reading it is a system call (0.3 us against
# 25 ns), and a shorter run is seldom interrupted by another program.
_LONG_RUN = 2e-3


class Span(NamedTuple):
    """One thread's part of a kernel call, in seconds from the beginning of the call.

    A thread that did not wait for the previous call's others may begin before it: ``begin`` < 0.
    """

    thread: int
    begin: float
    end: float


@dataclass(frozen=True)
class Part:
    """One kernel call, or a host step (``call`` None), and its seconds: mean, and in one run.

    once    seconds in the run in the middle of the faster half
    spans   the threads' parts in that run, the calling thread's first
    """

    step: Step
    call: Any
    seconds: float
    once: float
    spans: tuple[Span, ...]


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
    def once(self) -> float:
        """The sum of the parts in the run whose threads' spans are kept, in seconds."""
        return sum(part.once for part in self.parts)

    @property
    def excess(self) -> float:
        """Relative difference between the parts plus the start and the whole."""
        return (self.total + self.start) / self.whole - 1


@dataclass(frozen=True)
class Round:
    """One timed run.

    parts   seconds of each part, and of the time outside of all parts
    spans   seconds from a part's beginning to the begin and end of each thread's part of it:
            (parts, threads, 2); NaN for absent threads
    """

    parts: list[float]
    spans: np.ndarray


class Profiler:
    """Timed and untimed runs of one executable on one set of arrays.

    It runs twice at first, to load what is loaded late, and to choose the clock.
    """

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
        self._stamps = Stamps(len(executable.code.image.calls), self.threads)
        self._clock = _ELAPSED
        self.run_whole()
        if self.threads == 1 and self.run_whole() >= _LONG_RUN:
            self._clock = _CPU

    def profile(self, seconds: float = 2.0) -> Profile:
        """Measure for about ``seconds``. Writes the outputs as any call does."""
        whole: list[float] = []
        rounds: list[Round] = []
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
        faster = _faster_half(rounds, lambda found: sum(found.parts))
        *means, start = _means([found.parts for found in faster])
        one = faster[len(faster) // 2]
        rows = zip(self._calls(), means, one.parts, map(_spans, one.spans))
        parts = [Part(*found, mean, once, spans) for found, mean, once, spans in rows]
        (together,) = faster_means([[t] for t in whole])
        return Profile(
            self.executable.plan, tuple(parts), start, together, self.threads, len(rounds)
        )

    def least(self, seconds: float) -> list[float]:
        """The least time of each step of the plan, over runs of about ``seconds``, at least two."""
        deadline = time.perf_counter() + seconds
        least = self.run_watched().parts
        while True:
            least = list(map(min, least, self.run_watched().parts))
            if time.perf_counter() >= deadline:
                return self._by_step(least)

    def _by_step(self, parts: Sequence[float]) -> list[float]:
        """Seconds of each step: the sum over its calls."""
        left = iter(parts)
        return [sum(next(left) for _ in row) for row in self._rows()]

    def run_whole(self) -> float:
        """Seconds of an untimed run."""
        start = self._clock.now()
        for segment in self.executable.segments:
            self._run_segment(segment, 0)
        return self._clock.now() - start

    def run_watched(self) -> Round:
        """Run once, and take the times."""
        found: list[float] = []
        spans = []
        rest = 0.0
        for segment in self.executable.segments:
            stamps = self._stamps.clear(self._clock.number)
            start = self._clock.now()
            self._run_segment(segment, stamps)
            took = self._clock.now() - start
            parts, of_threads = self._noted(segment, took)
            found += parts
            spans.append(of_threads)
            rest += took - sum(parts)
        return Round([*found, rest], np.concatenate(spans))

    def _run_segment(self, segment: Segment, stamps: int) -> None:
        instance = self.instance
        if segment.host is not None:
            step = self.executable.plan.steps[segment.host]
            self.executable.run_host(step, instance, *self.arrays)
            return
        pool = THREADS.pool(self.executable.code.driver)
        pool.run(instance.steps_address, segment.first, segment.last, self.threads, stamps)

    def _noted(self, segment: Segment, took: float) -> tuple[list[float], np.ndarray]:
        """Seconds from the end of the previous step (or the start) to the end of each step, and
        the spans of threads in them."""
        if segment.host is not None:
            return [took], np.full((1, self.threads, 2), np.nan)
        count = segment.last - segment.first
        bounds, times = self._stamps.bounds(count), self._stamps.spans(count)
        spans = np.where(times, 1e-9 * (times - bounds[:-1, None, None]), np.nan)
        return (1e-9 * np.diff(bounds)).tolist(), spans

    def _calls(self) -> list[tuple[Step, Any]]:
        rows = zip(self.executable.plan.steps, self._rows())
        return [(step, call) for step, row in rows for call in row]

    def _rows(self) -> list[list[Any]]:
        """The calls of each step, in each round of repeated ones; None for a host step."""
        plan = self.executable.plan
        values: Mapping[str, int] = plan.values if isinstance(plan, SizedPlan) else {}
        rows = self.executable.code.calls
        return [[each for call in row for each in _rounds(call, values)] or [None] for row in rows]


def _rounds(call: Any, values: Mapping[str, int]) -> list[Any]:
    """The calls that a run makes for these sizes, each with its own work."""
    work = sized(call.work, values)
    if call.repeat is None:
        return [replace(call, work=work)]
    count = max(0, value_of(call.repeat.high, values) - call.repeat.low)
    return [replace(call, work=work // count, repeat=None)] * count


def faster_means(rounds: Sequence[Sequence[float]]) -> list[float]:
    """Each column's mean over the half of the rounds with the smallest sums.

    Unlike medians, means add up: the sum of the columns is the time of those rounds. In the slower
    half, other programs used the machine.
    """
    return _means(_faster_half(rounds, sum))


def _faster_half(rounds: Sequence[T], seconds: Callable[[T], float]) -> list[T]:
    return sorted(rounds, key=seconds)[: (len(rounds) + 1) // 2]


def _means(rounds: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(rounds) for column in zip(*rounds)]


def _spans(times: np.ndarray) -> tuple[Span, ...]:
    """The spans of the threads that took part in a run."""
    return tuple(Span(i, *span) for i, span in enumerate(times.tolist()) if span[0] == span[0])


def bytes_moved(step: Step) -> int:
    """Bytes that a step reads and writes, each element once; of a table the rows that it takes."""
    written = sum(map(_view_bytes, step.writes))
    reads = map(_view_bytes, step.reads)
    if step.kind == "gather":
        return written + sum(min(size, written) for size in reads)
    return written + sum(reads)


def _view_bytes(view: View) -> int:
    """Bytes of a view; elements that it repeats (stride 0) count once."""
    sizes = tuple(size for size, stride in zip(view.shape, view.strides) if stride)
    return product(sizes) * view.dtype.itemsize

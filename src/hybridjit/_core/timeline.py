"""Events of ``mx.profiler``: spans, counter values and marks, with their times.

Input: names and times from the code that runs something. Output: events in the order in which they
ended, and sums of them by category and name. :mod:`..profiler` writes files and tables.
The clock is the system's monotonic one, in nanoseconds; native code uses the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

from .async_safety import holding, restoring
from .fork_locks import Rank, held_at_fork
from .frames import user_line

P = ParamSpec("P")
R = TypeVar("R")

MOST_EVENTS = 500_000  # limit of kept events, some 100 MB; sums continue

_lock = held_at_fork(Rank.NOTING)
now = time.monotonic_ns


class Event(NamedTuple):
    """An event with a time.

    kind      "span", "part" (of a span, by one of several threads), "counter" or "mark"
    number    a span's nanoseconds, a counter's value
    thread    the thread's identity; the negative number of a worker, which Python does not know
    details   further values, by name
    """

    kind: str
    category: str
    name: str
    start: int
    number: int
    thread: int
    details: Mapping[str, str]


class Sum:
    """Count, total and extremes of numbers."""

    def __init__(self) -> None:
        self.count, self.total, self.least, self.most = 0, 0, 0, 0

    def add(self, number: int) -> None:
        """Add one number."""
        self.least = min(self.least, number) if self.count else number
        self.most = max(self.most, number) if self.count else number
        self.count += 1
        self.total += number


class _Place(threading.local):
    """The position of this thread.

    is_inside  within a span that stands for all operators that it calls
    custom     the operator written in Python whose code runs, or ""
    operators  nanoseconds of the operators that this code called
    """

    is_inside = False
    custom = ""
    operators = 0


PLACE = _Place()


class Timeline:
    """The events of this process.

    eager   whether eager operators are noted
    graphs  whether the steps of compiled graphs are noted
    marks   whether events that programs note are kept
    sums    by kind and category, then by name, without marks and parts; None where they are not
            wanted
    lost    number of events beyond the limit
    """

    def __init__(self) -> None:
        self.eager = self.graphs = self.marks = False
        self.events: list[Event] = []
        self.sums: dict[tuple[str, str], dict[str, Sum]] | None = None
        self.lost = 0

    def switch(self, eager: bool, graphs: bool, marks: bool) -> None:
        """Note these kinds from now on."""
        self.eager, self.graphs, self.marks = eager, graphs, marks

    @holding(_lock)
    def add(
        self,
        kind: str,
        category: str,
        name: str,
        start: int,
        number: int,
        worker: int = 0,
        **details: str,
    ) -> None:
        """Keep one event, of this thread or of a worker with a number."""
        thread = -worker if worker else threading.get_ident()
        event = Event(kind, category, name, start, number, thread, details)
        if len(self.events) < MOST_EVENTS:
            self.events.append(event)
        else:
            self.lost += 1
        if self.sums is not None and kind not in ("mark", "part"):
            names = self.sums.setdefault((kind, category), {})
            names.setdefault(name, Sum()).add(number)

    @holding(_lock)
    def clear(self) -> None:
        """Drop the events, not their sums."""
        self.events, self.lost = [], 0

    @restoring(PLACE)
    def operator(self, name: str, run: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``run`` and return its result: a call of operator ``name`` with its inner calls."""
        before, PLACE.is_inside = PLACE.is_inside, True
        start = now()
        result = run(*args, **kwargs)
        took = now() - start
        PLACE.is_inside = before
        PLACE.operators += took
        if PLACE.custom:
            self.add("span", "Custom Operator", f"{PLACE.custom}::{name}", start, took)
        else:
            self.add("span", "operator", name, start, took, line=user_line())
        return result

    @restoring(PLACE)
    def custom(self, name: str, run: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
        """Call ``run``, Python code of operator ``name``; the span excludes operators inside."""
        before = (PLACE.is_inside, PLACE.custom, PLACE.operators)
        PLACE.is_inside, PLACE.custom, PLACE.operators = False, name, 0
        start = now()
        result = run(*args, **kwargs)
        took = now() - start - PLACE.operators
        PLACE.is_inside, PLACE.custom, PLACE.operators = before
        self.add("span", "Custom Operator", f"{name}::pure_python", start, took)
        return result


TIMELINE = Timeline()

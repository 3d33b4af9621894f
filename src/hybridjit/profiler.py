"""``mx.profiler``: executed operators and their durations, as a Chrome trace and as a table.

Input: ``set_config``, ``set_state``, and records that programs add: tasks, frames, events,
counters, marks. Output: a file for chrome://tracing or ui.perfetto.dev, and the result of
``dumps``. Each eager operator is a span, and so is each step of a compiled graph, under the name of
its operator; the span's ``args`` list the fused operators. Where several threads compute a step,
the process "threads" of the file has a lane for each, with its part. Memory is that of the whole
process.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ._core import timeline
from ._core.frames import public, warn
from ._core.timeline import TIMELINE, Sum, now
from .errors import MXNetError
from .formats.atomic import write_atomically
from .runtime.memory import memory_stats

_SETTINGS: dict[str, Any] = {
    "profile_all": False,
    "profile_symbolic": True,
    "profile_imperative": True,
    "profile_memory": True,
    "profile_api": True,
    "filename": "profile.json",
    "continuous_dump": True,
    "dump_period": 1.0,
    "aggregate_stats": False,
    "profile_process": "worker",
}
_YES, _NO = ("True", "true", "1"), ("False", "false", "0")
_MEMORY = "Device Storage"
_STATES = {"stop": False, "run": True}
_PROCESSES = {"worker": 0, "server": 1}
_SCOPES = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}


class _Profiler:
    """Configuration and state of the profiler."""

    def __init__(self) -> None:
        self.settings = dict(_SETTINGS)
        self.is_running = self.is_paused = self.is_known_at_exit = False

    def switch(self) -> None:
        """Apply the settings and the state to the timeline."""
        on = self.is_running and not self.is_paused
        both = self.settings["profile_all"]
        TIMELINE.switch(
            eager=on and (both or self.settings["profile_imperative"]),
            graphs=on and (both or self.settings["profile_symbolic"]),
            marks=on,
        )

    def note_memory(self) -> None:
        """Record the memory of the process on the timeline."""
        wanted = self.settings["profile_all"] or self.settings["profile_memory"]
        if TIMELINE.marks and wanted:
            held = memory_stats()["resident_bytes"]
            TIMELINE.add("counter", _MEMORY, "Memory: cpu/0", now(), held)


_PROFILER = _Profiler()


# ---- configuration and state --------------------------------------------------------------------


@public
def set_config(**kwargs: object) -> None:
    """Configure recording and the output file, with MXNet's keywords.

    filename            the file, initially "profile.json"
    profile_symbolic    steps of compiled graphs; profile_imperative: eager operators;
                        profile_memory: the memory of the process; profile_all: all of these
    aggregate_stats     whether :func:`dumps` returns statistics
    profile_api, continuous_dump, dump_period   accepted without effect: a C API does not exist, and
                        the file is written by :func:`dump` and at the end of the program

    Raises MXNetError for another keyword, an invalid value, or ``profile_process="server"``.
    """
    settings = dict(_SETTINGS)
    for name, value in kwargs.items():
        if name not in settings:
            names = ", ".join(settings)
            raise MXNetError(f"Cannot find argument '{name}', Possible Arguments: {names}")
        settings[name] = _parsed(name, str(value))
    _require_worker(settings["profile_process"])
    _PROFILER.settings = settings
    TIMELINE.sums = (TIMELINE.sums or {}) if settings["aggregate_stats"] else None
    _PROFILER.switch()


def _parsed(name: str, text: str) -> bool | str | float:
    kind = type(_SETTINGS[name])
    if kind is bool:
        if text not in (*_YES, *_NO):
            raise MXNetError(
                f"Invalid Parameter format for {name} expect boolean but value='{text}'"
            )
        return text in _YES
    try:
        return kind(text)
    except ValueError:
        raise MXNetError(
            f"Invalid Parameter format for {name} expect float but value='{text}'"
        ) from None


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """The older form of :func:`set_config`: ``mode`` is "symbolic", "imperative" or "all"."""
    _warn("profiler_set_config", "set_config")
    set_config(**{f"profile_{mode}": True, "filename": filename})


@public
def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Start ("run") or stop ("stop") recording.

    A program that ends while recording writes the file. Raises KeyError for another word,
    MXNetError for ``profile_process="server"``.
    """
    is_running = _STATES[state]
    _require_worker(profile_process)
    _PROFILER.note_memory()
    _PROFILER.is_running, _PROFILER.is_paused = is_running, False
    _PROFILER.switch()
    _PROFILER.note_memory()
    if is_running and not _PROFILER.is_known_at_exit:
        atexit.register(_write_at_exit)
        _PROFILER.is_known_at_exit = True


def profiler_set_state(state: str = "stop") -> None:
    """The older form of :func:`set_state`."""
    _warn("profiler_set_state", "set_state")
    set_state(state)


def pause(profile_process: str = "worker") -> None:
    """Suspend recording until :func:`resume`."""
    _require_worker(profile_process)
    _PROFILER.is_paused = True
    _PROFILER.switch()


def resume(profile_process: str = "worker") -> None:
    """Continue after :func:`pause`."""
    _require_worker(profile_process)
    _PROFILER.is_paused = False
    _PROFILER.switch()


def set_kvstore_handle(handle: object) -> None:
    """No effect: stores have no servers to profile."""


def _require_worker(process: str) -> None:
    """Raise KeyError for an unknown kind of process, MXNetError for "server"."""
    if _PROCESSES[process]:
        raise MXNetError(
            "profile_process 'server' is not supported, because stores have no servers: use "
            "'worker'"
        )


def _warn(old: str, new: str) -> None:
    warn(f"profiler.{old}() is deprecated. Please use profiler.{new}() instead")


# ---- the file -----------------------------------------------------------------------------------


@public
def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the records so far to the configured file.

    With ``finished`` they are then discarded, and the profiler stops. Raises MXNetError if it has
    not run since the latest dump, and if the file cannot be written.
    """
    _require_worker(profile_process)
    if not _PROFILER.is_running and not TIMELINE.events:
        raise MXNetError("Profiler hasn't been run. Config and start profiler first")
    _PROFILER.note_memory()
    _write()
    if finished:
        TIMELINE.clear()
        _PROFILER.is_running = False
        _PROFILER.switch()


def dump_profile() -> None:
    """The older form of :func:`dump`."""
    _warn("dump_profile", "dump")
    dump(True)


def _write_at_exit() -> None:
    if _PROFILER.is_running and TIMELINE.events:
        _write()


def _write() -> None:
    """Write the file: one process for each category, times in microseconds."""
    events = list(TIMELINE.events)
    categories = {event.category: None for event in events}
    numbers = {category: number for number, category in enumerate(categories)}
    names = [
        {"name": "process_name", "ph": "M", "pid": number, "args": {"name": category}}
        for category, number in numbers.items()
    ]
    shown = [_as_trace(event, numbers[event.category]) for event in events]
    lanes = {(numbers[event.category], event.thread): None for event in events}
    document = {
        "traceEvents": [*names, *map(_lane, lanes, _names_of_threads(lanes)), *shown],
        "displayTimeUnit": "ms",
        "otherData": {"events_lost": TIMELINE.lost},
    }
    path = os.path.expanduser(_PROFILER.settings["filename"])
    write_atomically(path, [json.dumps(document).encode()])


def _names_of_threads(lanes: Iterable[tuple[int, int]]) -> Iterator[str]:
    """The name of each lane's thread; its number if it has ended."""
    alive = {thread.ident: thread.name for thread in threading.enumerate()}
    for _, thread in lanes:
        yield f"worker {-thread}" if thread < 0 else alive.get(thread, f"thread {thread}")


def _lane(lane: tuple[int, int], name: str) -> dict[str, object]:
    process, thread = lane
    shape = {"name": "thread_name", "ph": "M", "pid": process, "tid": abs(thread)}
    return {**shape, "args": {"name": name}}


def _as_trace(event: timeline.Event, process: int) -> dict[str, object]:
    found: dict[str, object] = {
        "name": event.name,
        "cat": event.category,
        "pid": process,
        "tid": abs(event.thread),
        "ts": 1e-3 * event.start,
    }
    if event.kind in ("span", "part"):
        details = {key: text for key, text in event.details.items() if text}
        return {**found, "ph": "X", "dur": 1e-3 * event.number, "args": details}
    if event.kind == "counter":
        return {**found, "ph": "C", "args": {event.name: event.number}}
    return {**found, "ph": "i", "s": event.details["scope"]}


# ---- statistics ---------------------------------------------------------------------------------

_BY: dict[str, Callable[[Sum], float]] = {
    "total": lambda found: found.total,
    "avg": lambda found: found.total / found.count,
    "min": lambda found: found.least,
    "max": lambda found: found.most,
    "count": lambda found: found.count,
}
_UNITS = {"Time": 1e-6, "Memory": 1e-3, "Counter": 1}  # from nanoseconds, bytes, counts
_HEADINGS = {
    "Time": ("Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)"),
    "Memory": ("", "Min Use  (kB)", "Max Use  (kB)", "Avg Use  (kB)"),
    "Counter": ("", "Min Value", "Max Value", "Avg Value"),
}


@public
def dumps(
    reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False
) -> str:
    """Statistics by category and name since the latest ``reset``, as a table or as JSON.

    "" without ``aggregate_stats``. Times are in milliseconds, memory is in kB (1000 bytes). Sorted
    by "total", "avg", "min", "max" or "count". Raises AssertionError for another word.
    """
    assert format in ("table", "json"), (
        f"Invalid value provided for format: {format}. Support: 'table', 'json'"
    )
    assert sort_by in _BY, (
        f"Invalid value provided for sort_by: {sort_by}. Support: {', '.join(map(repr, _BY))}"
    )
    for name, given in (("ascending", ascending), ("reset", reset)):
        assert given in (False, True), (
            f"Invalid value provided for {name}: {given}. Support: False, True"
        )
    _PROFILER.note_memory()
    sums = TIMELINE.sums
    if sums is None:
        return ""
    if reset:
        TIMELINE.sums = {}
    parts = [
        (_part(kind, category), category, _sorted(names, sort_by, ascending))
        for (kind, category), names in sorted(sums.items())
    ]
    return _as_json(parts) if format == "json" else _as_table(parts)


_Parts = list[tuple[str, str, list[tuple[str, Sum]]]]


def _part(kind: str, category: str) -> str:
    return "Memory" if category == _MEMORY else {"counter": "Counter"}.get(kind, "Time")


def _sorted(names: Mapping[str, Sum], by: str, ascending: bool) -> list[tuple[str, Sum]]:
    return sorted(names.items(), key=lambda item: _BY[by](item[1]), reverse=not ascending)


def _as_json(parts: _Parts) -> str:
    found: dict[str, dict[str, object]] = {"Time": {}, "Memory": {}, "Counter": {}}
    for part, category, items in parts:
        found[part][category] = {name: _figures(part, total) for name, total in items}
    return json.dumps({**found, "Unit": {"Time": "ms", "Memory": "kB"}}, indent=4)


def _figures(part: str, found: Sum) -> dict[str, float]:
    """The columns of one name; only times have a total."""
    unit = _UNITS[part]
    figures: dict[str, float] = {"Count": found.count}
    if part == "Time":
        figures["Total"] = unit * found.total
    average = found.total / found.count
    return {**figures, "Min": unit * found.least, "Max": unit * found.most, "Avg": unit * average}


def _as_table(parts: _Parts) -> str:
    lines = ["", "Profile Statistics:"]
    for part, category, items in parts:
        lines += [category, "================="]
        headings = ["Name", "Total Count", *(h for h in _HEADINGS[part] if h)]
        lines += [_line(headings), _line(["-" * len(heading) for heading in headings])]
        lines += [_line([name, *_cells(_figures(part, total))]) for name, total in items]
        lines.append("")
    return "\n".join(lines) + "\n"


def _cells(figures: Mapping[str, float]) -> Iterator[str]:
    count, *others = figures.values()
    yield str(count)
    yield from (f"{number:.4f}" for number in others)


def _line(cells: list[str]) -> str:
    first, second, *others = cells
    return f"{first:<25}{second:>16}" + "".join(f" {cell:>16}" for cell in others)


# ---- records of programs ------------------------------------------------------------------------


class Domain:
    """A name that groups tasks, frames, counters and marks in a viewer."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """A :class:`Task` of this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """A :class:`Frame` of this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: int | None = None) -> Counter:
        """A :class:`Counter` of this domain."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """A :class:`Marker` of this domain."""
        return Marker(self, name)


class _Duration:
    """A span from ``start`` to ``stop``, which may be called repeatedly."""

    def __init__(self, category: str, name: str) -> None:
        self.name = name
        self._category = category
        self._start: int | None = None

    def __str__(self) -> str:
        return self.name

    def start(self) -> None:
        """Begin the span."""
        self._start = now() if TIMELINE.marks else None

    def stop(self) -> None:
        """End the span. No effect if it has not begun, or while the profiler does not run."""
        start, self._start = self._start, None
        if start is not None and TIMELINE.marks:
            TIMELINE.add("span", self._category, self.name, start, now() - start)
            _PROFILER.note_memory()


class Task(_Duration):
    """A span of a domain, for one unit of work."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(domain.name, name)


class Frame(_Duration):
    """A span of a domain, for one of many consecutive units."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(f"{domain.name},frame", name)


class Event(_Duration):
    """A span without a domain."""

    def __init__(self, name: str) -> None:
        super().__init__("event", name)


class Counter:
    """An integer of a domain whose changes are recorded. ``+=`` and ``-=`` also change it."""

    def __init__(self, domain: Domain, name: str, value: int | None = None) -> None:
        self.name = name
        self._category = domain.name
        self._value = 0
        if value is not None:
            self.set_value(value)

    def __str__(self) -> str:
        return self.name

    def set_value(self, value: float) -> None:
        """Set the counter to ``int(value)``."""
        self._value = int(value)
        if TIMELINE.marks:
            TIMELINE.add("counter", self._category, self.name, now(), self._value)

    def increment(self, delta: float = 1) -> None:
        """Add ``int(delta)``."""
        self.set_value(self._value + int(delta))

    def decrement(self, delta: float = 1) -> None:
        """Take ``int(delta)`` away."""
        self.set_value(self._value - int(delta))

    def __iadd__(self, delta: float) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: float) -> Counter:
        self.decrement(delta)
        return self


class Marker:
    """An instant of a domain."""

    def __init__(self, domain: Domain, name: str) -> None:
        self.name = name
        self._category = f"{domain.name},instant_marker"

    def mark(self, scope: str = "process") -> None:
        """Record the mark; ``scope`` is "global", "process", "thread", "task" or "marker", for
        viewers.

        Raises MXNetError for another scope.
        """
        if scope not in _SCOPES:
            raise MXNetError(f"Invalid Input: '{scope}', valid values are: {sorted(_SCOPES)}")
        if TIMELINE.marks:
            TIMELINE.add("mark", self._category, self.name, now(), 0, scope=_SCOPES[scope])

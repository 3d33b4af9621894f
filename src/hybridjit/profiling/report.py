"""Profile of an executable: the time of every step of its plan, with its source line.

Input: a bound executable and arrays. Output: a :class:`Report`, which prints as a table and can be
written as a Chrome trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.html_text import html_code, html_table
from .._core.symbolic import hint_of
from .._core.target import Target
from .._core.text_table import milliseconds, table
from ..codegen.emit.module import kernel_name
from ..codegen.peak import measure_flops
from ..formats.atomic import write_atomically
from ..ir.plan import Step
from ..runtime.executable import Executable
from ..runtime.profiling import Part, Profile, Profiler, bytes_moved
from ..runtime.split_batch import SplitBatch, take_sample

_HEADING = (
    "step", "ms", "share", "GFLOP/s", "of peak", "GB/s", "algorithm", "operator", "fused", "line",
)  # fmt: skip
Event = dict[str, Any]
# Lanes of a trace: kernels, steps in Python, updates of parameters, and from THREAD on one for each
# thread.
NATIVE, HOST, UPDATE, THREAD = range(4)
_CLOSE = 0.05
_NAMED = 6  # number of inputs to name: of a training step all parameters are inputs
_LAST = "the last layers, for all samples at once"
_LONG = 1e-3  # seconds: for longer runs the sum of the steps must match an unwatched run


def measure(
    executable: Executable | SplitBatch, inputs: Sequence[np.ndarray], seconds: float
) -> Report:
    """The report of a bound executable on these inputs; if samples run one by one, that of one
    sample, with that of the last layers for all samples.

    Inputs that the executable updates are copied first: a profile has no side effects.
    """
    if isinstance(executable, SplitBatch):
        of_one = measure(executable.one, take_sample(inputs, 0), seconds)
        if executable.last is None:
            return of_one
        given = [np.zeros(shape, dtype) for shape, dtype in executable.types_between]
        return replace(of_one, last=measure(executable.last, given, seconds))
    updated = executable.results.updated
    inputs = [a.copy() if i in updated.values() else a for i, a in enumerate(inputs)]
    outputs = executable.results.arrays(inputs)
    target = executable.code.target
    found = Profiler(executable, inputs, outputs).profile(seconds)
    return Report(found, target, measure_flops(target))


@dataclass(frozen=True)
class Report:
    """A profile with reference rates.

    peak  operations per second of one core
    last  the report of the last layers of a batch, whose other layers run sample by sample
    """

    profile: Profile
    target: Target
    peak: float
    last: Report | None = None

    @property
    def most(self) -> float:
        """Peak operations per second of all threads together."""
        return self.peak * self.profile.threads

    def __str__(self) -> str:
        text = "\n".join([self._title(), self._table(), self._sums(), self._difference()])
        return text if self.last is None else f"{text}\n{_LAST}: {self.last}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The report for notebooks."""
        rows, heading, right = self._shown()
        lines = map(html_code, (self._title(), self._sums(), self._difference()))
        title, *rest = lines
        text = "".join([title, html_table(rows, heading, right), *rest])
        return text if self.last is None else text + html_code(_LAST) + self.last._repr_html_()

    def document(self) -> dict[str, Any]:
        """The report as a JSON document: seconds, operations per second, bytes."""
        found = self.profile
        facts = {"graph": found.plan.graph.name, "target": str(self.target)}
        sums = {"total": found.total, "whole": found.whole, "start": found.start}
        steps = [self._record(part) for part in found.parts]
        last = {} if self.last is None else {"last": self.last.document()}
        own = {"threads": found.threads, "peak": self.most, **sums, "steps": steps}
        return {**facts, **own, **last}

    def _record(self, part: Part) -> dict[str, Any]:
        step = part.step
        return {
            "step": step.number,
            "operator": step.name,
            "algorithm": part_name(part),
            "fused": [*fused_operators(step)],
            "line": user_source(step),
            "seconds": part.seconds,
            "flops": flops(part),
            "bytes": bytes_moved(step),
        }

    def write_trace(self, path: str) -> None:
        """Write the steps as a Chrome trace, for chrome://tracing or ui.perfetto.dev."""
        write_events(path, self.events())

    def events(self) -> Iterator[Event]:
        """The steps of one run as complete events of the Trace Event Format, in microseconds.

        Metadata events name the process after the graph and the lanes after the code that runs
        there: native code on all threads, Python on the calling thread, and each thread's part of
        the native code.
        """
        name = self.profile.plan.graph.name
        yield from named_lanes(f"{name} on {self.target}", lanes_of([self.profile]))
        yield from _events(self.profile.parts)

    def _title(self) -> str:
        graph = self.profile.plan.graph
        given = [f"{value.name} {value.type}" for value in graph.inputs[:_NAMED]]
        if (more := len(graph.inputs) - _NAMED) > 0:
            given.append(f"{more} more")
        threads = _count(self.profile.threads, "thread")
        return f"{graph.name} ({', '.join(given)}) on {self.target}, {threads}"

    def _table(self) -> str:
        return table(*self._shown())

    def _shown(self) -> tuple[list[tuple[str, ...]], list[str], list[int]]:
        """Rows, heading, and the columns of numbers; empty columns are left out."""
        calls: dict[tuple[int, str], list[Part]] = {}
        for part in self.profile.parts:
            calls.setdefault((part.step.number, part_name(part)), []).append(part)
        rows = [self._row(parts) for parts in calls.values()]
        used = [i for i in range(len(_HEADING)) if any(row[i] for row in rows)]
        shown = [tuple(row[i] for i in used) for row in rows]
        right = [column for column, i in enumerate(used) if i < 6]
        return shown, [_HEADING[i] for i in used], right

    def _row(self, parts: Sequence[Part]) -> tuple[str, ...]:
        """One algorithm of a step; a recurrent layer calls its kernel once for each time step."""
        step, seconds = parts[0].step, sum(part.seconds for part in parts)
        is_whole = sum(other.step is step for other in self.profile.parts) == len(parts)
        rate = sum(map(flops, parts)) / seconds if seconds else 0.0
        calls = f", {len(parts)} calls" if len(parts) > 1 else ""
        return (
            str(step.number),
            milliseconds(seconds),
            f"{100 * seconds / self.profile.total:.1f}%",
            f"{1e-9 * rate:.1f}" if rate else "",
            f"{100 * sum(map(lane_flops, parts)) / seconds / self.most:.0f}%" if rate else "",
            f"{1e-9 * bytes_moved(step) / seconds:.1f}" if is_whole and seconds else "",
            part_name(parts[0]) + calls,
            step.name,
            ", ".join(fused_operators(step)),
            user_source(step),
        )

    def _sums(self) -> str:
        """Rates of all kernels together, without host steps."""
        native = [part for part in self.profile.parts if part.call is not None]
        seconds = sum(part.seconds for part in native)
        host = self.profile.total - seconds
        peak = f"peak {1e-9 * self.most:.0f} GFLOP/s on {_count(self.profile.threads, 'thread')}"
        parts = [peak]
        if seconds:
            rate = sum(map(flops, native)) / seconds
            used = sum(map(lane_flops, native)) / seconds / self.most
            share = f"{1e-9 * rate:.1f} GFLOP/s, {100 * used:.0f}% of peak"
            parts.append(f"kernels {milliseconds(seconds)} ms, {share}")
        if len(native) < len(self.profile.parts):
            parts.append(f"host steps {milliseconds(host)} ms")
        return "; ".join(parts)

    def _difference(self) -> str:
        """Comparison of the sum of the steps with runs that were not watched."""
        found = self.profile
        text = (
            f"steps together {milliseconds(found.total)} ms, starting them "
            f"{milliseconds(found.start)} ms; a run that was not watched "
            f"{milliseconds(found.whole)} ms: {100 * found.excess:+.1f}% "
            f"in {_count(found.rounds, 'round')}"
        )
        if found.whole < _LONG:
            return text
        if abs(found.excess) <= _CLOSE:
            return text + ", within 5%"
        return text + ", MORE THAN 5%: another program used the machine, run it again"


def part_name(part: Part) -> str:
    """The algorithm, or the operator that NumPy computes."""
    if part.call is not None:
        return algorithm(part.call.spec)
    op = part.step.group.anchor.op
    return f"host {op.name if op else 'copy'}"


def algorithm(spec: Any) -> str:
    """Algorithm of a kernel from its spec: kind, window, register tile. ``conv 3x3/2 tile 7x2``."""
    words = [spec.kind]
    if spec.kind in ("winograd", "byte_winograd"):
        words.append(f"F({'x'.join(str(line.m) for line in spec.lines)})")
        if spec.window != (3, 3) or spec.stride != (1, 1) or spec.depth[0] > 1:
            window = _axes((spec.depth[0], *spec.window))
            words.append("x".join(map(str, window)) + _stride(spec.stride))
    if spec.kind == "winograd_weight":
        words.append("F(3x3,4x4)")
    how = getattr(spec, "how", None)
    if isinstance(how, str):
        words.append(how)
    window = getattr(spec, "kernel", ())
    if any(size != 1 for size in window):
        words.append("x".join(map(str, _axes(window))) + _stride(getattr(spec, "stride", ())))
    rows = getattr(spec, "mr", None) or getattr(spec, "cols", None)
    if rows and getattr(spec, "nv", None):
        words.append(f"tile {rows}x{spec.nv}")
    return " ".join(words)


def _axes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Per-axis sizes without a leading 1 of an absent depth axis."""
    return sizes[1:] if len(sizes) == 3 and sizes[0] == 1 else sizes


def _stride(stride: tuple[int, ...]) -> str:
    steps = sorted(set(_axes(stride)))
    return "" if steps in ([], [1]) else "/" + ",".join(map(str, steps))


def flops(part: Part) -> float:
    """Operations of a step, two for a multiply-add; none for a host step."""
    return 0.0 if part.call is None else 2.0 * float(hint_of(part.call.work))


def lane_flops(part: Part) -> float:
    """Operations in float32 lanes, the unit of the peak: one of float64 takes two."""
    is_double = part.call is not None and part.call.spec.element.computed == "float64"
    return flops(part) * (2 if is_double else 1)


def fused_operators(step: Step) -> list[str]:
    """The operators that a step's kernel computes before it stores its result."""
    return [value.op.name for value in step.group.epilogue if value.op]


def user_source(step: Step) -> str:
    """The user's line that the step comes from; empty for a graph from a file."""
    return next((value.source for value in step.group.members if value.source), "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def write_events(path: str, events: Iterable[Event]) -> None:
    """Write a Chrome trace."""
    document = {"traceEvents": list(events), "displayTimeUnit": "ms"}
    write_atomically(path, [json.dumps(document).encode()])


def named_lanes(process: str, lanes: Mapping[int, str]) -> Iterator[Event]:
    """Metadata events with the names of a process and of its lanes, in this order."""
    yield {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": process}}
    for number, name in lanes.items():
        shape = {"ph": "M", "pid": 0, "tid": number}
        yield {"name": "thread_name", **shape, "args": {"name": name}}
        yield {"name": "thread_sort_index", **shape, "args": {"sort_index": number}}


def lanes_of(profiles: Sequence[Profile]) -> dict[int, str]:
    """The names of the lanes of these profiles' events; one lane for each of several threads."""
    count = max(found.threads for found in profiles)
    parts = [part for found in profiles for part in found.parts]
    lanes = {NATIVE: f"native code on {_count(count, 'thread')}"}
    if any(part.call is None for part in parts):
        lanes[HOST] = "host steps on the calling thread"
    threads = {span.thread for part in parts for span in part.spans} if count > 1 else set()
    return lanes | {THREAD + i: _thread_name(i) for i in sorted(threads)}


def _thread_name(number: int) -> str:
    return f"thread {number}, a worker" if number else "thread 0, the caller"


def _events(parts: Sequence[Part]) -> Iterator[Event]:
    now = 0.0
    has_threads = any(len(part.spans) > 1 for part in parts)
    for part in parts:
        call, step = part.call, part.step
        details = {
            "step": step.number,
            "kernel": "" if call is None else kernel_name(call.spec),
            "spec": "" if call is None else str(call.spec),
            "fused": ", ".join(fused_operators(step)),
            "GFLOP/s": 1e-9 * flops(part) / part.seconds if part.seconds else 0.0,
            "bytes": bytes_moved(step),
            "line": user_source(step),
        }
        lane = HOST if call is None else NATIVE
        shape = {"name": step.name, "cat": part_name(part), "ph": "X", "pid": 0}
        yield {**shape, "tid": lane, "ts": 1e6 * now, "dur": 1e6 * part.once, "args": details}
        for thread, begin, end in part.spans if has_threads else ():
            span = {"tid": THREAD + thread, "ts": 1e6 * (now + begin), "dur": 1e6 * (end - begin)}
            yield {**shape, **span, "args": {"step": step.number}}
        now += part.once

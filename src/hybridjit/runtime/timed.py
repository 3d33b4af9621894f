"""A run of an executable that records a span on the timeline for each step.

Input: an executable, a connected instance, arrays. Output: the results of a run, and spans named by
operator, like those of eager calls; on several threads also each thread's part of a kernel call.
Native code takes the times: see :mod:`.threads`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .._core.timeline import TIMELINE, now
from ..ir.plan import Step
from .instance import Instance, Prepared, Segment
from .stamps import Stamps


def run_timed(
    executable: Prepared,
    instance: Instance,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
) -> None:
    """Run the whole plan on a connected instance."""

    def run_host(number: int) -> None:
        start, step = now(), executable.plan.steps[number]
        executable.run_host(step, instance, inputs, outputs)
        _note(executable, step, start, now())

    counts = executable.code.image.counts
    steps = [step for step, count in zip(executable.plan.steps, counts) for _ in range(count)]
    stamps = Stamps(len(steps), instance.threads)
    instance.flag.value = 0  # as in any run
    for segment in executable.segments:
        if segment.host is not None:
            run_host(segment.host)
        else:
            executable.run_steps(instance, segment.first, segment.last, stamps.clear())
            count = segment.last - segment.first
            for step, start, end in _joined(segment, steps, stamps.bounds(count).tolist()):
                _note(executable, step, start, end)
            if instance.threads > 1:
                _note_parts(steps[segment.first : segment.last], stamps.spans(count))
        if segment.flagged is not None and instance.flag.value:
            instance.flag.value = 0
            run_host(segment.flagged)


def _joined(
    segment: Segment, steps: Sequence[Step], times: Sequence[int]
) -> Iterator[tuple[Step, int, int]]:
    """The steps of a segment with their start and end times; calls of one step are joined."""
    count = segment.last - segment.first
    begun = times[0]
    for i, end in enumerate(times[1:]):
        number = segment.first + i
        if i + 1 == count or steps[number + 1] is not steps[number]:
            yield steps[number], begun, end
            begun = end


def _note(executable: Prepared, step: Step, start: int, end: int) -> None:
    group = step.group
    fused = ", ".join(value.op.name for value in group.epilogue if value.op)
    line = next((value.source for value in group.members if value.source), "")
    graph, node, name = executable.plan.graph.name, step.name, _operator(step)
    took = end - start
    TIMELINE.add(
        "span", "operator", name, start, took, graph=graph, node=node, fused=fused, line=line
    )


def _operator(step: Step) -> str:
    op = step.group.anchor.op
    return op.name if op else step.group.kind


def _note_parts(steps: Sequence[Step], spans: np.ndarray) -> None:
    """Record each thread's part of the steps; a worker without a part of a step has no times."""
    if not spans[:, 1:].any():
        return
    for step, of_threads in zip(steps, spans.tolist()):
        for worker, (start, end) in enumerate(of_threads):
            if start:
                name = _operator(step)
                TIMELINE.add("part", "threads", name, start, end - start, worker, node=step.name)

"""Invariants of a plan, with lifetimes recomputed from its steps.

P1  two buffers that are alive at the same step share no byte of the arena
P2  every offset is a multiple of 64, and every buffer ends inside the arena
P3  every view stays inside its buffer
P4  an arena buffer is written before it is read
P5  weights are not written; inputs are written only if they are updated, each by its update
P6  a step that reads an input finds the old value where the graph reads the input, and the new one
    where it reads the update; a step that overwrites its operand does so element by element
P7  every output is in the memory that its kind states
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush

from ...errors import InternalError
from ...ir.graph import Value
from ...ir.plan import Plan, Step, View, extent
from ...ir.print import plan_text
from ..training.updates import read_in_place, shown_by_views
from .offsets import ALIGNMENT


def verify_plan(plan: Plan) -> None:
    """Raise InternalError, with the plan's dump, if it breaks an invariant."""
    found = [*_overlaps(plan), *_placements(plan), *_extents(plan), *_order(plan)]
    found += [*_written_sources(plan), *_updates(plan), *_outputs(plan)]
    if found:
        lines = ["bug in hybridjit: the memory plan is invalid", plan_text(plan), *found]
        raise InternalError("\n".join(lines))


def lifetimes(plan: Plan) -> dict[int, tuple[int, int]]:
    """First and last step that touches each buffer."""
    lives: dict[int, tuple[int, int]] = {}
    for step in plan.steps:
        for view in (*step.reads, *step.writes):
            first, _ = lives.get(view.buffer, (step.number, 0))
            lives[view.buffer] = (first, step.number)
    return lives


def _overlaps(plan: Plan) -> Iterator[str]:
    """Compare each buffer, when its lifetime begins, with its neighbours among the live ones.

    Live buffers do not overlap, so that a buffer between its neighbours overlaps no other.
    """
    lives = lifetimes(plan)
    arena = [b for b in plan.buffers if b.kind == "arena" and b.number in lives and b.nbytes]
    living: list[tuple[int, int, int]] = []  # begin, end and number, sorted by begin
    ends: list[tuple[int, tuple[int, int, int]]] = []  # by the last step
    for b in sorted(arena, key=lambda b: lives[b.number]):
        first, last = lives[b.number]
        while ends and ends[0][0] < first:
            _, dead = heappop(ends)
            living.pop(bisect_left(living, dead))
        place = (b.offset, b.offset + b.nbytes, b.number)
        at = bisect_left(living, place)
        near = living[max(at - 1, 0) : at + 1]
        met = [number for begin, end, number in near if begin < place[1] and place[0] < end]
        for number in met:
            low, high = sorted((number, b.number))
            yield f"P1 buffers {low} and {high} overlap while both are alive"
        if not met:
            living.insert(at, place)
            heappush(ends, (last, place))


def _placements(plan: Plan) -> Iterator[str]:
    for b in plan.buffers:
        if b.kind == "arena" and (b.offset % ALIGNMENT or b.offset + b.nbytes > plan.arena_bytes):
            yield f"P2 buffer {b.number} at {b.offset}, {b.nbytes} B, arena {plan.arena_bytes} B"


def _extents(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        for view in (*step.reads, *step.writes):
            low, high = extent(view)
            size = plan.buffers[view.buffer].nbytes // view.dtype.itemsize
            if high >= low and (low < 0 or high >= size):
                yield f"P3 step {step.number} reaches elements {low}..{high} of {size}"


def _order(plan: Plan) -> Iterator[str]:
    written: set[int] = set()
    for step in plan.steps:
        for view in step.reads:
            if plan.buffers[view.buffer].kind == "arena" and view.buffer not in written:
                yield f"P4 step {step.number} reads buffer {view.buffer} before it is written"
        written.update(view.buffer for view in step.writes)


def _written_sources(plan: Plan) -> Iterator[str]:
    updated = set(plan.graph.updated.values())
    for step in plan.steps:
        for view in step.writes:
            buffer = plan.buffers[view.buffer]
            if buffer.kind == "weight" or (buffer.kind == "input" and buffer.index not in updated):
                yield f"P5 step {step.number} writes {buffer}"


def _updates(plan: Plan) -> Iterator[str]:
    """Simulate the steps' reads of inputs and writes to them."""
    shown = shown_by_views(plan.graph)
    written: set[int] = set()
    for step in plan.steps:
        for value, view in _reads(step):
            buffer = plan.buffers[view.buffer]
            if buffer.kind != "input":
                continue
            is_old = shown.get(value, value) is plan.graph.inputs[buffer.index]
            if is_old == (view.buffer in written):
                age = "old" if is_old else "new"
                yield f"P6 step {step.number} does not find the {age} value of {buffer}"
        own = [view for view in step.writes if plan.buffers[view.buffer].kind == "input"]
        for view in own:
            if step.kind != "copy" and not read_in_place(step.group, step.reads, view):
                buffer = plan.buffers[view.buffer]
                yield f"P6 step {step.number} writes over what it reads of {buffer}"
        written.update(view.buffer for view in own)
    for output, number in plan.graph.updated.items():
        use = plan.graph.outputs[output]
        stays = shown.get(use.value, use.value) is plan.graph.inputs[number]
        if not stays and plan.outputs[output].buffer not in written:
            yield f"P5 nothing writes output {output} to input {number}"


def _reads(step: Step) -> Iterator[tuple[Value, View]]:
    """Each operand's value with its view; a copy has one operand, which its group does not list."""
    values = [step.group.anchor] if step.kind == "copy" else [u.value for u in step.group.inputs]
    yield from zip(values, step.reads, strict=True)


def _outputs(plan: Plan) -> Iterator[str]:
    visible = len(plan.outputs) - plan.graph.purpose.saved
    for number, view in enumerate(plan.outputs):
        buffer = plan.buffers[view.buffer]
        wanted = ("output" if number < visible else "saved", number)
        if number in plan.graph.updated:
            wanted = ("input", plan.graph.updated[number])
        if (buffer.kind, buffer.index) != wanted or view.offset or not view.is_contiguous:
            yield f"P7 output {number} lies in {buffer}, not whole in {' '.join(map(str, wanted))}"

"""Invariants of a plan, with lifetimes computed anew from its steps.

P1  two buffers that are alive at one step share no byte of the arena
P2  every offset is a multiple of 64, and every buffer ends inside the arena
P3  every view stays inside its buffer
P4  an arena buffer is written before it is read
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import InternalError
from ..ir.plan import Plan, View
from ..ir.print import plan_text
from .plan_memory import ALIGNMENT


def verify_plan(plan: Plan) -> None:
    """Raise InternalError, with the plan's text, if it breaks an invariant."""
    found = [*_overlaps(plan), *_placements(plan), *_extents(plan), *_order(plan)]
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
    lives = lifetimes(plan)
    arena = [b for b in plan.buffers if b.kind == "arena" and b.number in lives]
    for i, a in enumerate(arena):
        for b in arena[i + 1 :]:
            (a0, a1), (b0, b1) = lives[a.number], lives[b.number]
            together = a0 <= b1 and b0 <= a1
            if together and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes:
                yield f"P1 buffers {a.number} and {b.number} overlap while both are alive"


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


def extent(view: View) -> tuple[int, int]:
    """The lowest and highest element that a view reaches; (0, -1) when it is empty."""
    if 0 in view.shape:
        return 0, -1
    reaches = [(size - 1) * stride for size, stride in zip(view.shape, view.strides)]
    low = view.offset + sum(r for r in reaches if r < 0)
    return low, view.offset + sum(r for r in reaches if r > 0)


def _order(plan: Plan) -> Iterator[str]:
    written: set[int] = set()
    for step in plan.steps:
        for view in step.reads:
            if plan.buffers[view.buffer].kind == "arena" and view.buffer not in written:
                yield f"P4 step {step.number} reads buffer {view.buffer} before it is written"
        written.update(view.buffer for view in step.writes)

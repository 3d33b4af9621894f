"""Barriers: after which kernel calls threads wait for each other.

In: a plan and its calls. Out: for each call of how many threads each may go on to the next one
before others have done their part: none, but between calls that threads share by rows.

That these need no barrier is shown from addresses. Calls between two barriers are a *stretch*:
threads may be at different calls of it at the same time. So of any two calls of a stretch, nothing
that a thread writes in one may be touched by another thread in the other: what they touch are other
bytes, or nobody writes them, or they are rows of one array, of which each thread has the same in
both.

Other calls that read no result of each other could do without barriers too. Nothing is gained by
that in the training of LeNet, ResNet-20 and a transformer: threads wait less often, but longer. And
more would have to be shown: a thread's scratch memory lies over another one's in the next kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...ir.plan import Plan, View, extent
from ...ir.plan_image import Packed
from ..call import Address, ByRows, Call, Shared

# More threads than there are; behind every byte.
_ANY, _END = 1 << 30, 1 << 62
_SHARED = ("shared", 0)

Calls = Sequence[Sequence[Call]]


class _Region(NamedTuple):
    """Bytes [low, high) of a memory.

    ``rows`` are equal where the same bytes of two regions belong to the same one of up to
    ``threads`` threads; None where any thread may touch any byte.
    """

    memory: tuple[str, int]
    low: int
    high: int
    is_written: bool
    rows: tuple[object, ...] | None = None
    threads: int = 0


def unfenced(plan: Plan, calls: Calls) -> list[int]:
    """For each call in order: of so many threads or fewer, each goes on to the next without
    waiting; 0 where all wait.
    """
    found: list[int] = []
    stretch, touched = _Stretch(), _Touched(plan)
    for row in calls:
        for call in row or (None,):
            regions = touched.by(call)
            threads = stretch.most(regions)
            if found:
                found[-1] = threads
            if not threads:
                stretch = _Stretch()
            stretch.add(regions)
            if call is not None:
                found.append(0)
    return found


class _Stretch:
    """What the calls since a barrier touch, by memory: each region with the most threads for which
    a further call may touch it too.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], dict[_Region, int]] = {}

    def most(self, regions: Sequence[_Region]) -> int:
        """Of how many threads each may go on to a call that touches these; 0 for a barrier.

        Nothing is known of a call that touches none, nor of one before it.
        """
        if not self._known or not regions:
            return 0
        found = _ANY
        for region in regions:
            others = self._known.get(region.memory, {})
            known = others.get(region)
            each = (_together(region, other) for other in others)
            found = min(found, min(each, default=_ANY) if known is None else known)
        return found

    def add(self, regions: Sequence[_Region]) -> None:
        """A call that touches these is one of the stretch."""
        for region in regions:
            others = self._known.setdefault(region.memory, {})
            if region in others:
                continue
            others[region] = _ANY
            for other in others:
                most = _together(region, other)
                others[region] = min(others[region], most)
                others[other] = min(others[other], most)


def _together(one: _Region, other: _Region) -> int:
    """Of how many threads each may be at a call with either without waiting for the others; both
    are of one memory.
    """
    is_read = not one.is_written and not other.is_written
    if is_read or one.high <= other.low or other.high <= one.low:
        return _ANY
    if one.rows is not None and one.rows == other.rows:
        return min(one.threads, other.threads)
    return 0


class _Touched:
    """What calls touch that threads share by rows. Many calls of a step touch the same."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._last: ByRows | None = None
        self._regions: tuple[_Region, ...] = ()
        self._buffers: set[int] = set()

    def by(self, call: Call | None) -> tuple[_Region, ...]:
        """None where that is not known: of other calls, of steps of the host, and where an argument
        leads to what is not spoken of.
        """
        known = call.by_rows if call is not None else None
        if call is None or known is None:
            return ()
        if known is not self._last:
            self._last, self._regions = known, tuple(self._rows(known))
            self._buffers = {view.buffer for view, _ in (*known.reads, *known.writes)}
        are_known = all(self._is_known(argument, known) for argument in call.args)
        return self._regions if are_known else ()

    def _is_known(self, argument: object, known: ByRows) -> bool:
        """Parameters are packed before a call, and nobody writes to them."""
        if isinstance(argument, Address):
            return argument.view.buffer in self._buffers
        return isinstance(argument, (int, Packed)) or argument in known.common

    def _rows(self, known: ByRows) -> Iterator[_Region]:
        for sides, is_written in ((known.reads, False), (known.writes, True)):
            for view, axis in sides:
                region = self._region(view, is_written)
                if _are_apart(view) and view.shape[axis] == known.rows:
                    place = (view.buffer, view.offset, view.shape, view.strides, view.dtype, axis)
                    rows = (*place, known.rows, known.tiles)
                    region = region._replace(rows=rows, threads=known.threads)
                yield region
        for shared in known.common:
            if isinstance(shared, Shared):
                yield _Region(_SHARED, shared.offset, shared.nbytes, False)

    def _region(self, view: View, is_written: bool) -> _Region:
        """Inputs may be one array, or parts of one: nobody looks whether they are."""
        buffer, size = self._plan.buffers[view.buffer], view.dtype.itemsize
        if buffer.kind == "input":
            return _Region(("input", 0), 0, _END, is_written)
        low, high = extent(view)
        is_arena = buffer.kind == "arena"
        base, index = (buffer.offset, 0) if is_arena else (0, buffer.index)
        memory = (buffer.kind, index)
        return _Region(memory, base + size * low, base + size * (high + 1), is_written)


def _are_apart(view: View) -> bool:
    """Whether no two elements of a view are at one place, so that no two rows are."""
    reach = 0
    for stride, size in sorted(zip(map(abs, view.strides), view.shape)):
        if size > 1 and stride <= reach:
            return False
        reach += (size - 1) * stride
    return True

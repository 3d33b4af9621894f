"""Barriers: after which kernel calls threads wait for each other.

Input: a plan and its calls. Output: for each call, up to how many threads may continue with the
next one before the others have finished: 0, except between calls that threads divide by rows.

Addresses prove that no barrier is necessary. Calls between two barriers are a *stretch*: threads
may execute different calls of it at the same time. So for any two calls of a stretch, no thread may
write memory in one call that another thread accesses in the other: the accesses are to different
bytes, or all are reads, or they are to rows of one array that belong to the same thread in both
calls.

Other independent calls could run without barriers too. This gains nothing in the training of LeNet,
ResNet-20 and a transformer: threads wait less often, but longer. And the proof would have to cover
more: a thread's scratch memory overlaps another one's in the next kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...ir.plan import Plan, View, extent
from ...ir.plan_image import Packed
from ..call import Address, ByRows, Call, Shared

# More threads than exist; an address after every byte.
_ANY, _END = 1 << 30, 1 << 62
_SHARED = ("shared", 0)

Calls = Sequence[Sequence[Call]]


class _Region(NamedTuple):
    """Bytes [low, high) of a memory.

    ``rows`` are equal if the same bytes of two regions belong to the same one of up to ``threads``
    threads; None if any thread may access any byte.
    """

    memory: tuple[str, int]
    low: int
    high: int
    is_written: bool
    rows: tuple[object, ...] | None = None
    threads: int = 0


def unfenced(plan: Plan, calls: Calls) -> list[int]:
    """For each call in order, up to how many threads continue with the next one without waiting; 0
    for a barrier.
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
    """The regions that calls since a barrier access, by memory, each with the largest number of
    threads for which another call may access it without a barrier.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], dict[_Region, int]] = {}

    def most(self, regions: Sequence[_Region]) -> int:
        """Up to how many threads may continue with a call that accesses ``regions``; 0 for a
        barrier.

        Empty regions mean unknown accesses, before or in the call.
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
        """Add a call that accesses ``regions`` to the stretch."""
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
    """Up to how many threads may be in calls that access either region without waiting; both are in
    the same memory.
    """
    is_read = not one.is_written and not other.is_written
    if is_read or one.high <= other.low or other.high <= one.low:
        return _ANY
    if one.rows is not None and one.rows == other.rows:
        return min(one.threads, other.threads)
    return 0


class _Touched:
    """The regions accessed by calls that threads divide by rows. Many calls share them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._last: ByRows | None = None
        self._regions: tuple[_Region, ...] = ()
        self._buffers: set[int] = set()

    def by(self, call: Call | None) -> tuple[_Region, ...]:
        """The regions of a call; () if they are unknown: for other calls, for host steps, and if an
        argument addresses memory that is not described.
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
        """Whether the accesses through an argument are described. Parameters are never written."""
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
        """The bytes of a view. Inputs are one memory, because they may overlap unchecked."""
        buffer, size = self._plan.buffers[view.buffer], view.dtype.itemsize
        if buffer.kind == "input":
            return _Region(("input", 0), 0, _END, is_written)
        low, high = extent(view)
        is_arena = buffer.kind == "arena"
        base, index = (buffer.offset, 0) if is_arena else (0, buffer.index)
        memory = (buffer.kind, index)
        return _Region(memory, base + size * low, base + size * (high + 1), is_written)


def _are_apart(view: View) -> bool:
    """Whether no two elements of a view have the same address, so that rows do not overlap."""
    reach = 0
    for stride, size in sorted(zip(map(abs, view.strides), view.shape)):
        if size > 1 and stride <= reach:
            return False
        reach += (size - 1) * stride
    return True

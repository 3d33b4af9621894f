"""Updates: results that are written to the memory of an input.

Input: views, and the value that each must hold at the end. Output: whether a kernel may write there
directly, and the order of final copies that is correct even if inputs exchange values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ..._core.frozen import dataclass
from ...ir.graph import Graph, Group, Use, Value
from ...ir.kinds import KIND_NAMED, POINTWISE, VIEW
from ...ir.plan import View


@dataclass(frozen=True)
class Move:
    """A pending copy of ``use`` from ``source`` to ``target``; ``reason``: why it is necessary."""

    use: Use
    source: View
    target: View
    reason: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the value is at its target already."""
        source, target = self.source, self.target
        together = source.buffer == target.buffer and source.offset == target.offset
        return together and source.is_contiguous


def in_turn(moves: list[Move], room: Callable[[Move], View]) -> Iterator[Move]:
    """The moves in an order in which none overwrites memory that another still reads.

    A cycle is broken by a copy to ``room``, a temporary buffer.
    """
    pending = [move for move in moves if not move.is_done]
    while pending:
        free = next((m for m in pending if not _is_awaited(m, pending)), None)
        if free is not None:
            pending.remove(free)
            yield free
        else:
            first, *pending = pending
            aside = replace(first, target=room(first), reason="out of the way of another update")
            yield aside
            pending.append(replace(first, source=aside.target))


def _is_awaited(move: Move, pending: list[Move]) -> bool:
    """Whether a pending move, or this one, still reads the target's memory."""
    return any(other.source.buffer == move.target.buffer for other in pending)


def read_in_place(group: Group, reads: tuple[View, ...], place: View) -> bool:
    """Whether the group may write to ``place`` although it reads ``reads``.

    It may read the same elements in its pointwise part only: each element is read before the same
    element is written, by the same thread.
    """
    found = [(u, v) for u, v in zip(group.inputs, reads) if v.buffer == place.buffer]
    if not found:
        return True
    ((use, view), *more), kind = found, KIND_NAMED[group.kind]
    if more or not kind.is_in_place or view.shape != place.shape:
        return False
    is_anchored = kind is not POINTWISE and use in group.anchor.inputs
    return not is_anchored and view.is_contiguous and view.offset == place.offset


def shown_by_views(graph: Graph) -> Mapping[Value, Value]:
    """For each view, by its value, the value whose elements it shows."""
    shown: dict[Value, Value] = {}
    for group in graph.groups:
        if group.kind == VIEW.name:
            source = group.anchor.inputs[0].value
            shown[group.anchor] = shown.get(source, source)
    return shown

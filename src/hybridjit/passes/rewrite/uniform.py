"""Arrays whose elements follow from their places, with symbolic sizes: views of constants.

An array of one value whose shape has a size that calls give becomes a constant of one element, and
a view that repeats it. Integers from one size to another become a part of a constant table. So a
new size computes nothing with parameters, and a library needs no operators that fill arrays.
"""

from __future__ import annotations

from ..._core.symbolic import Size, hint_of
from ...ir.building import building
from ...ir.graph import Graph, Value
from ...ir.rewrite import Match, Replacement, replace_values
from ...ir.sized import has_sizes
from ...ops.registry import lookup
from ...ops.tensor.primitives import broadcast, part

_FILLED = tuple(map(lookup, ("_zeros", "_ones", "_full")))
_ARANGE = lookup("_arange")
# Integers of the smallest table, and by which factor the next one is larger.
_FEW, _FACTOR = 1 << 12, 16


def fill_by_views(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Replace arrays of one value, and of integers in order, that have symbolic sizes."""
    graph = replace_values(graph, _repeated, fired, _FILLED)
    return replace_values(graph, _counted, fired, (_ARANGE,))


def _repeated(value: Value, match: Match) -> tuple[str, Replacement]:
    if not has_sizes(value):
        return "", None
    assert value.op is not None
    g = building(value)
    one = {**value.attrs, "shape": (1,) * len(value.shape)}
    element = g.op(value.op, at="element", **one)
    return "full(shape)  =>  broadcast_to(full(1))", broadcast(g, element, value.shape)


def _counted(value: Value, match: Match) -> tuple[str, Replacement]:
    if not has_sizes(value) or (value.attrs["step"], value.attrs["repeat"]) != (1, 1):
        return "", None
    start, stop = map(_whole, (value.attrs["start"], value.attrs["stop"]))
    if start is None or stop is None or start < 0:
        return "", None
    most = _FEW
    while most < hint_of(stop):
        most *= _FACTOR
    if stop > most:
        return "", None
    g = building(value)
    table = g.op(_ARANGE, at="table", **{**value.attrs, "start": 0.0, "stop": float(most)})
    return "arange(a, b)  =>  slice(arange(n), a, b)", part(g, table, (start,), (stop,))


def _whole(bound: Size | float | None) -> int | None:
    """A bound as an integer or a symbolic size; None if it is neither."""
    if isinstance(bound, Size):
        return bound  # type: ignore[return-value]
    return int(bound) if bound is not None and bound == int(bound) else None

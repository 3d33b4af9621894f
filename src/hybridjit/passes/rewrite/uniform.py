"""Uniform arrays of a library: one element that is repeated.

A library has no operators that fill arrays. An array of one value whose shape has a size that calls
give becomes a constant of one element, and a view that repeats it.
"""

from __future__ import annotations

from ...ir.building import building
from ...ir.graph import Graph, Value
from ...ir.rewrite import Match, Replacement, replace_values
from ...ir.sized import has_sizes
from ...ops.registry import lookup
from ...ops.tensor.primitives import broadcast

_FILLED = tuple(map(lookup, ("_zeros", "_ones", "_full")))


def repeat_uniform(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Replace arrays of one value with symbolic sizes by one repeated element."""
    return replace_values(graph, _repeated, fired, _FILLED)


def _repeated(value: Value, match: Match) -> tuple[str, Replacement]:
    if not has_sizes(value):
        return "", None
    assert value.op is not None
    g = building(value)
    one = {**value.attrs, "shape": (1,) * len(value.shape)}
    element = g.op(value.op, at="element", **one)
    return "full(shape)  =>  broadcast_to(full(1))", broadcast(g, element, value.shape)

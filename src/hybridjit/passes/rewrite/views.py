"""Views: compose adjacent reshapes and transposes; drop identities."""

from __future__ import annotations

from ..._core.symbolic import is_one
from ..._core.types import Shape
from ...ir.building import building
from ...ir.graph import Graph, Value
from ...ir.rewrite import Match, Replacement, rewrite, rule
from ...ops.tensor.primitives import RESHAPE_TO, TRANSPOSE, permutation, reshape, transpose


def merge_views(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Merge reshapes of reshapes and transposes of transposes; replace transposes of unit axes."""
    return rewrite(graph, (merge_reshapes, merge_transposes, transpose_of_ones), fired)


@rule("_reshape_to(_reshape_to(x, a), b)  =>  _reshape_to(x, b)", RESHAPE_TO)
def merge_reshapes(value: Value, match: Match) -> Replacement:
    if value.inputs[0].value.op is not RESHAPE_TO:
        return None
    return reshape(building(value), value.inputs[0].value.inputs[0], value.shape)


@rule("transpose(transpose(x, a), b)  =>  transpose(x, a then b)", TRANSPOSE)
def merge_transposes(value: Value, match: Match) -> Replacement:
    if value.inputs[0].value.op is not TRANSPOSE:
        return None
    inner = value.inputs[0].value
    axes = tuple(_order(inner)[a] for a in _order(value))
    return transpose(building(value), inner.inputs[0], axes)


@rule("transpose(x) that keeps the order of all sizes but 1  =>  _reshape_to(x)", TRANSPOSE)
def transpose_of_ones(value: Value, match: Match) -> Replacement:
    sizes = value.inputs[0].type.dims
    moved = [a for a in _order(value) if not is_one(sizes[a])]
    if moved != sorted(moved):
        return None
    return reshape(building(value), value.inputs[0], value.shape)


def _order(value: Value) -> Shape:
    """The axes of a transpose; reversed if absent, as in graphs that ``expand`` did not process."""
    return permutation(len(value.shape), value.attrs["axes"])

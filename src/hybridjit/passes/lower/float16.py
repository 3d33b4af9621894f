"""Half: op(float16 x) -> Cast(op(Cast(x, float32)), float16) for operators that compute in float32.

Their references widen the operands and round the result once; their kernels take float32.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import FLOAT32, TensorType
from ...ir.building import building
from ...ir.graph import Graph, Value
from ...ir.rewrite import Match, Replacement, rewrite, rule
from ...ops.elementwise.element_type import cast

_HALF = np.dtype("float16")


def lower_float16(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The graph with float32 inside these operators."""
    if not any(t.dtype == _HALF for value in graph.values for t in value.types):
        return graph
    return rewrite(graph, (half_in_single,), fired)


def _is_float(t: TensorType) -> bool:
    return t.dtype is not None and t.dtype.kind == "f"


def _is_narrow(t: TensorType) -> bool:
    return t.dtype in (_HALF, FLOAT32)


@rule("op(float16 x)  =>  Cast(op(Cast(x, float32)), float16)")
def half_in_single(value: Value, match: Match) -> Replacement:
    if value.op is None or not value.op.traits.in_single or value.type.dtype != _HALF:
        return None
    given = [use.type for use in value.inputs]
    types = (*value.types, *given)
    if any(t.size == 0 or not _is_narrow(t) and _is_float(t) for t in types):
        return None
    if not any(t.dtype == _HALF for t in given):
        return None
    g = building(value)
    wide = (
        cast(g, use, FLOAT32, at=f"wide{i}") if _is_narrow(use.type) else use
        for i, use in enumerate(value.inputs)
    )
    results = g.outputs(value.op, *wide, at="single", **value.attrs)
    return tuple(
        cast(g, use, t.dtype, at=str(i) if i else "")
        for i, (use, t) in enumerate(zip(results, value.types))
    )

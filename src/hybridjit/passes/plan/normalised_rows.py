"""Normalised rows: find dense layers whose rows are divided by their norms.

Strassen's algorithm combines two rows: it computes a row of zeros, such as padding, as rounding
errors of the other row. A division by the norm, which cosine attention has, turns these errors into
a row as long as all others. Where a constant is added to the norm, they stay as small as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...ir.graph import Graph, Use, Value
from ...ops.nn.matrix_products import FULLY_CONNECTED
from ...ops.record import OpDef
from ...ops.registry import lookup

# Kernels of operators that a row passes element by element.
_ELEMENTS = frozenset({"pointwise", "view", "gather"})
_ADDED = lookup("_plus_scalar")
_RATIOS = {lookup("broadcast_div"), lookup("elemwise_div")}
_INVERSES = {lookup("rsqrt"), lookup("reciprocal"), lookup("_rdiv_scalar")}
# Least constant beside a sum of squares below which errors of 1e-6 disappear.
_LEAST_ADDED = 1e-8


def layers_with_normalised_rows(graph: Graph) -> set[Value]:
    """The dense layers whose results are divided by a function of sums over themselves."""
    params = set(graph.params)
    layers = (value for value in graph.values if value.op is FULLY_CONNECTED)
    return {value for value in layers if _is_normalised(value, graph, params)}


def _is_normalised(layer: Value, graph: Graph, params: Collection[Value]) -> bool:
    rows, sums = {layer}, set[Value]()
    waiting = list(graph.uses[layer])
    for value in waiting:  # grows meanwhile
        if value in rows or value in sums or value.op is None:
            continue
        given = _given(value.inputs, params)
        if value.op.kernel in _ELEMENTS and given <= rows:
            rows.add(value)
        elif _is_sum(value) and given <= rows or value.op.kernel in _ELEMENTS and given <= sums:
            if value.op is _ADDED and abs(value.attrs["scalar"]) >= _LEAST_ADDED:
                continue
            sums.add(value)
        elif given & sums and given & rows and (value.op in _RATIOS or _ops(sums) & _INVERSES):
            return True
        else:
            continue
        waiting += graph.uses[value]
    return False


def _given(uses: Iterable[Use], params: Collection[Value]) -> set[Value]:
    """The operands apart from parameters."""
    return {use.value for use in uses} - set(params)


def _ops(values: Iterable[Value]) -> set[OpDef | None]:
    return {value.op for value in values}


def _is_sum(value: Value) -> bool:
    return value.op is not None and value.op.kernel == "reduce"

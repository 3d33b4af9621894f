"""Hoist: values that depend on parameters only move into the bind graph.

NumPy runs the bind graph once, and again when a parameter changes; the run graph reads its results
as parameters. Machine code therefore contains no weights.
"""

from __future__ import annotations

from dataclasses import replace

from ..._core.types import BFLOAT16
from ...errors import MXNetError
from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import rebuild
from ...ir.sized import has_sizes
from .uniform import repeat_uniform


def hoist(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The run graph, with ``bind``: the graph that computes its parameters, in order."""
    if graph.purpose.is_library:
        graph = repeat_uniform(graph, fired)
        _require_movable(graph)
    fixed = _fixed_values(graph)
    frontier = _frontier(graph, fixed)
    stand_in = {use: _parameter(use) for use in frontier}
    mapped: dict[Use, Use] = {use: Use(value) for use, value in stand_in.items()}
    for value in graph.values:
        if value in fixed or value.op is None:
            continue
        new = rebuild(value, tuple(mapped.get(u, u) for u in value.inputs))
        if new is not value:
            mapped.update((Use(value, i), Use(new, i)) for i in range(len(value.types)))
    bind = Graph((), graph.params, tuple(frontier), (), f"{graph.name}.bind")
    run = replace(
        graph,
        params=tuple(stand_in.values()),
        outputs=tuple(mapped.get(u, u) for u in graph.outputs),
        bind=bind,
    )
    if fired is not None:
        moved = sum(1 for v in fixed if v.op is not None)
        fired.append(f"{moved} values moved into the bind graph")
    return run


def _fixed_values(graph: Graph) -> set[Value]:
    """Parameters, and the values computed from parameters only."""
    fixed: set[Value] = set(graph.params)
    for value in graph.values:
        if value.op is None or value.op.is_random:
            continue
        if graph.purpose.is_library and has_sizes(value):
            continue
        if all(use.value in fixed for use in value.inputs):
            fixed.add(value)
    return fixed


# Kernels that move bits, and those that add in another order if an operand is not constant.
_MOVING = frozenset({"view", "concat", "gather", "pad"})
_ADDING = frozenset({"gemm", "conv", "deconv", "byte_product"})


def _is_exact(value: Value) -> bool:
    """Whether NumPy and kernels compute the same bits in any case: moves, and integers."""
    assert value.op is not None
    if value.op.kernel in _MOVING:
        return True
    types = [*value.types, *(use.type for use in value.inputs)]
    are_whole = all(
        t.dtype != BFLOAT16 and t.dtype is not None and t.dtype.kind in "iub" for t in types
    )
    return value.op.is_pointwise and are_whole


def _require_movable(graph: Graph) -> None:
    """Raise MXNetError unless values that depend on parameters and sizes alone are moved, or exact.

    Without a library NumPy computes them, with other bits than kernels.
    """
    fixed: set[Value] = set(graph.params)
    sized: set[Value] = set()
    for value in graph.values:
        if value.op is None:
            continue
        is_fixed = not value.op.is_random and all(use.value in fixed for use in value.inputs)
        operands = {use.value for use in value.inputs}
        if is_fixed:
            fixed.add(value)
            if has_sizes(value) or any(use.value in sized for use in value.inputs):
                sized.add(value)
        is_moved = value not in sized or _is_exact(value)
        if not is_moved or value.op.kernel in _ADDING and not operands.isdisjoint(sized):
            raise MXNetError(
                "a library only moves values that depend on parameters and on sizes which calls "
                f"give, and '{value.name}' ({value.op.name}) computes with them"
            )


def _frontier(graph: Graph, fixed: set[Value]) -> list[Use]:
    """The fixed values that another value reads or the graph returns."""
    found: dict[Use, None] = {}
    for value in graph.values:
        if value not in fixed:
            found.update((use, None) for use in value.inputs if use.value in fixed)
    found.update((use, None) for use in graph.outputs if use.value in fixed)
    return list(found)


def _parameter(use: Use) -> Value:
    value = use.value
    name = value.name if use.index == 0 else f"{value.name}.{use.index}"
    return Value(None, name, {}, (), (use.type,), value.source)

"""Hoist: values that depend on parameters only move into the bind graph.

NumPy runs the bind graph once, and again when a parameter changes; the run graph reads its results
as parameters. Machine code therefore contains no weights. A value that also depends on symbolic
sizes stays in the run graph if kernels compute it with the same bits, because NumPy would compute
it for each new size: 1.3 ms per token for 18 such values of a small GPT-2 with a growing cache.
"""

from __future__ import annotations

from dataclasses import replace

from ..._core.types import BFLOAT16
from ...errors import MXNetError
from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import rebuild
from ...ir.sized import has_sizes
from ...ops.registry import lookup
from .uniform import fill_by_views


def hoist(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The run graph, with ``bind``: the graph that computes its parameters, in order."""
    graph = fill_by_views(graph, fired)
    fixed = _fixed_values(graph)
    sized = _sized(graph, fixed)
    if graph.purpose.is_library:
        _require_movable(graph, sized)
    fixed -= sized if graph.purpose.is_library else _left_in_calls(graph, sized)
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
        if all(use.value in fixed for use in value.inputs):
            fixed.add(value)
    return fixed


def _sized(graph: Graph, fixed: set[Value]) -> set[Value]:
    """The fixed values that depend on symbolic sizes."""
    found: set[Value] = set()
    for value in graph.values:
        if value.op is None or value not in fixed:
            continue
        if has_sizes(value) or any(use.value in found for use in value.inputs):
            found.add(value)
    return found


# Kernels that move bits, and kernels whose order of additions depends on constant operands.
_MOVING = frozenset({"view", "concat", "gather", "pad"})
_ADDING = frozenset({"gemm", "conv", "deconv", "byte_product"})
# Kernels without operands that are prepared when parameters are bound.
_UNPREPARED = _MOVING | {"pointwise", "attention"}
_WHERE = lookup("where")


def _is_exact(value: Value) -> bool:
    """Whether NumPy and kernels always compute the same bits: moves, selections, integers."""
    assert value.op is not None
    if value.op.kernel in _MOVING or value.op is _WHERE:
        return True
    types = [*value.types, *(use.type for use in value.inputs)]
    are_whole = all(
        t.dtype != BFLOAT16 and t.dtype is not None and t.dtype.kind in "iub" for t in types
    )
    return value.op.is_pointwise and are_whole


def _left_in_calls(graph: Graph, sized: set[Value]) -> set[Value]:
    """The sized values that kernels compute in each call without changing the bits of any result.

    They exclude values that a remaining bind value reads, and values without symbolic sizes that
    read bind values only.
    """
    computable: set[Value] = set()
    for value in reversed(graph.values):
        if value in sized and _is_exact(value):
            readers = graph.uses[value]
            if all(reader in computable or _reads_any(reader, sized) for reader in readers):
                computable.add(value)
    left: set[Value] = set()
    for value in graph.values:
        if value in computable and (has_sizes(value) or any(u.value in left for u in value.inputs)):
            left.add(value)
    return left


def _reads_any(reader: Value, sized: set[Value]) -> bool:
    """Whether a value of the run graph has the same bits for constant and for computed operands."""
    assert reader.op is not None
    return reader not in sized and reader.op.kernel in _UNPREPARED


def _require_movable(graph: Graph, sized: set[Value]) -> None:
    """Raise MXNetError unless values that depend on parameters and sizes only are moved or exact.

    Outside of a library, NumPy computes these values, with other bits than kernels.
    """
    for value in graph.values:
        if value.op is None:
            continue
        operands = {use.value for use in value.inputs}
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

"""Enter training: each operator replaced by the one that stands for it in training mode.

BatchNorm takes the batch's own statistics, Dropout drops. What that operator gives besides (the
statistics, the mask) is there for the way back. Nothing behind this pass knows of modes.
"""

from __future__ import annotations

from ..ir.graph import Graph, Use, Value, make, uses_of
from ..ir.rewrite import Match, Replacement, replace_values


def as_purposed(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The graph in the mode that its purpose names."""
    return enter_training(graph, fired) if graph.purpose.training else graph


def enter_training(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The same graph as training mode computes it."""
    return replace_values(graph, _trained, fired)


def _trained(value: Value, match: Match) -> tuple[str, Replacement]:
    if value.op is None or value.op.traits.training is None:
        return "", None
    op = value.op.traits.training(value.attrs)
    if op is None:
        return "", None
    made = make(op, value.name, value.inputs, value.source, **value.attrs)
    visible: tuple[Use, ...] = uses_of(made)[: len(value.types)]
    return f"{value.op.name}  =>  {op.name}", visible

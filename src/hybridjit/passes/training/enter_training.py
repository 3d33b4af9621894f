"""Enter training: operator -> its training-mode operator.

BatchNorm uses the batch's own statistics, Dropout drops elements. Further outputs of these
operators (statistics, masks) are for the backward pass. Later passes do not depend on the mode.
"""

from __future__ import annotations

from ...ir.graph import Graph, Use, Value, make, uses_of
from ...ir.rewrite import Replacement, replace_values


def as_purposed(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The graph in the mode that its purpose names."""
    return enter_training(graph, fired) if graph.purpose.training else graph


def as_differentiated(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The graph in its own mode, with the outputs that gradients read, for differentiation."""
    return _in_mode(graph, graph.purpose.training, fired)


def enter_training(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The graph in training mode."""
    return _in_mode(graph, True, fired)


def _in_mode(graph: Graph, training: bool, fired: list[str] | None) -> Graph:
    return replace_values(graph, lambda value, match: _standing_for(value, training), fired)


def _standing_for(value: Value, training: bool) -> tuple[str, Replacement]:
    op = value.op and value.op.in_mode(value.attrs, training)
    if value.op is None or op is None or op is value.op:
        return "", None
    made = make(op, value.name, value.inputs, value.source, **value.attrs)
    visible: tuple[Use, ...] = uses_of(made)[: len(value.types)]
    return f"{value.op.name}  =>  {op.name}", visible

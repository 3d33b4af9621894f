"""Equal nodes of a symbol as one node, which MXNet's executors share before they run."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable

from .._core.frozen import replace
from ..ir.node import Node, Output, topological
from ..ops.registry import lookup


def are_shared() -> bool:
    """Whether ``MXNET_ELIMINATE_COMMON_EXPR``, MXNet's variable, is not 0."""
    return os.environ.get("MXNET_ELIMINATE_COMMON_EXPR", "1") != "0"


def without_repeats(outputs: Iterable[Output]) -> list[Output]:
    """The outputs of a graph without equal operators on equal operands; variables stay.

    Random draws and operators with auxiliary states are never equal. An output that becomes equal
    to an earlier one is a copy of it, as in MXNet, so that each keeps its own array.
    """
    wanted = tuple(outputs)
    made: dict[Node, Node] = {}
    known: dict[Hashable, Node] = {}
    for node in topological(wanted):
        inputs = tuple(Output(made[each.node], each.index) for each in node.inputs)
        new = node if inputs == node.inputs else replace(node, inputs=inputs)
        made[node] = known.setdefault(_key(new), new)
    found: list[Output] = []
    for old in wanted:
        output = Output(made[old.node], old.index)
        found.append(_copied(output, old.node.name) if output in found else output)
    return found


def _key(node: Node) -> Hashable:
    """Equal keys compute equal values. Operators around graphs, such as branches, share a name."""
    op = node.op
    if op is None or op.in_mode(node.attrs, True).is_random or op.aux_positions(node.attrs):
        return id(node)
    return op, tuple(sorted(node.text.items())), node.inputs


def _copied(output: Output, name: str) -> Output:
    return Output(Node(lookup("_copy"), f"{name}_copy", {}, (output,), {}))

"""Copies of graphs with replaced nodes, for the passes of this package.

Graphs are outputs of immutable nodes. A pass visits the nodes in topological order and maps each
output of the old graph to one of the new graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...ir.node import Node, Output, apply, topological
from ...ops import lookup

Outputs = tuple[Output, ...]
Replaced = dict[Output, Output]


def is_op(node: Node, *names: str) -> bool:
    """Whether the node applies one of these operators."""
    return node.op is not None and node.op.name in names


def created(op: str, name: str, inputs: Sequence[Output], text: Mapping[str, str]) -> Node:
    """A new node of a registered operator."""
    return apply(lookup(op), name, inputs, text)


def copied(node: Node, new: Replaced) -> Node:
    """The node with its operands in the new graph; the same object if none changed."""
    inputs = tuple(new.get(source, source) for source in node.inputs)
    return node if inputs == node.inputs else replace(node, inputs=inputs)


def keep(node: Node, instead: Node, new: Replaced) -> None:
    """Map all outputs of ``node`` to those of ``instead``."""
    if instead is not node:
        new.update((Output(node, i), Output(instead, i)) for i in range(len(node.output_names)))


def mapped(outputs: Sequence[Output], new: Replaced) -> Outputs:
    """The outputs in the new graph."""
    return tuple(new.get(output, output) for output in outputs)


def consumers(outputs: Sequence[Output]) -> dict[Node, list[Node | None]]:
    """For each node the nodes that read it, each once, in order; None for the graph's outputs."""
    found: dict[Node, list[Node | None]] = defaultdict(list)
    for node in topological(outputs):
        for source in dict.fromkeys(source.node for source in node.inputs):
            found[source].append(node)
    for node in dict.fromkeys(output.node for output in outputs):
        found[node].append(None)
    return found


def only_consumer(node: Node, readers: Mapping[Node, Sequence[Node | None]]) -> Node | None:
    """The node that alone reads ``node``; None if there are others, or it is an output."""
    found = readers.get(node, ())
    return found[0] if len(found) == 1 else None


def six_digits(value: float) -> str:
    """A range's end as MXNet writes it."""
    return f"{float(value):f}"

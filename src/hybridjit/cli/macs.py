"""Multiply-adds of a graph's nodes: what convolutions, products of matrices and RNNs cost.

In: a node and the types of the graph's nodes. Out: how many multiplications with an addition its
definition asks for, padding and all; 0 for operators whose cost is that of moving data.
"""

from __future__ import annotations

from ..ir.node import Node
from ..passes.infer import NodeTypes


def multiply_adds(node: Node, types: NodeTypes) -> int | None:
    """The node's multiply-adds; None when a shape that they follow from is unknown."""
    rule = None if node.op is None else node.op.traits.multiply_adds
    if rule is None:
        return 0
    ins = tuple(types[edge.node][edge.index] for edge in node.inputs)
    outs = tuple(types[node])
    if not all(t.is_known for t in (*ins, *outs[:1])):
        return None
    return rule(ins, outs, **node.attrs)

"""Multiply-adds of a graph's nodes: convolutions, matrix products and recurrent layers.

Input: a node and the types of the graph's nodes. Output: the number of multiply-adds in the
operator's definition, including those with padding; 0 for operators that only move data.
"""

from __future__ import annotations

from ..ir.node import Node
from ..passes.infer import NodeTypes


def multiply_adds(node: Node, types: NodeTypes) -> int | None:
    """The node's multiply-adds; None if a required shape is unknown."""
    rule = None if node.op is None else node.op.traits.multiply_adds
    if rule is None:
        return 0
    ins = tuple(types[edge.node][edge.index] for edge in node.inputs)
    outs = tuple(types[node])
    if not all(t.is_known for t in (*ins, *outs[:1])):
        return None
    return rule(ins, outs, **node.attrs)

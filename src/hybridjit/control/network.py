"""``_CachedOp``: a network as one operator, which the symbol of a recorded call contains.

Input: the network's graph. Output: an operator whose operands are the graph's variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import MXNetError
from ..ir.node import Output
from ..ops.building import ON_ARRAYS
from ..ops.record import OpDef
from ..ops.rules import Types
from .body import Body
from .operators import Arrays, Made, Operator


class _Network(Operator):
    """A graph that runs once."""

    name = "_CachedOp"

    def __init__(self, body: Body) -> None:
        self.body = body
        super().__init__([body], len(body.variables), len(body.outputs))

    def infer(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        return self.body.types(ins, outs)

    def forward(self, training: bool, arrays: Arrays) -> Made:
        return tuple(self.body.run(ON_ARRAYS, arrays, training))

    def backward(self, training: bool, arrays: Arrays, heads: Arrays) -> list[np.ndarray]:
        pulled = self.body.pull(arrays, heads, training)
        return [np.zeros_like(x) if d is None else d for x, d in zip(arrays, pulled)]


def network(body: Body) -> OpDef:
    """``_CachedOp`` for a graph; its operands are in the order of the body's variables."""
    return _Network(body).record()


def made_from_text(name: str, text: Mapping[str, str], graphs: Sequence[Sequence[Output]]) -> OpDef:
    """The operator of a node in a file. Raises MXNetError unless the node has its graph."""
    if len(graphs) != 1:
        raise MXNetError(f"{name} has 1 subgraph, got {len(graphs)}")
    return network(Body(graphs[0]))

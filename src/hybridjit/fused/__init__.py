"""Operators of MXNet's oneDNN backend that contain a fused graph.

Input: an operator's name, its attribute strings and the graph in its node: a layer, batch norm, the
sum with a residual and activations. Output: an ordinary operator, for bytes or for float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import MXNetError
from ..ir.node import Output
from ..ops.record import OpDef
from .convolution import fused_convolution
from .dense import fused_dense

MAKERS = {
    "_sg_mkldnn_conv": fused_convolution,
    "_sg_mkldnn_fully_connected": fused_dense,
}


def made_from_text(name: str, text: Mapping[str, str], graphs: Sequence[Sequence[Output]]) -> OpDef:
    """The operator of a node in a file. Raises MXNetError for attributes that do not fit."""
    if len(graphs) != 1 or len(graphs[0]) != 1:
        raise MXNetError(f"{name} has 1 subgraph with 1 output, got {len(graphs)} subgraphs")
    return MAKERS[name](text, graphs[0])


__all__ = ["made_from_text"]

"""Multiply-adds of a graph's nodes: what convolutions, products of matrices and RNNs cost.

In: a node and the types of the graph's nodes. Out: how many multiplications with an addition its
definition asks for, padding and all; 0 for operators whose cost is that of moving data.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..ir.node import Node
from ..passes.infer import NodeTypes
from ..types import TensorType

Types = list[TensorType]


def multiply_adds(node: Node, types: NodeTypes) -> int | None:
    """The node's multiply-adds; None when a shape that they follow from is unknown."""
    rule = None if node.op is None else _RULES.get(node.op.name)
    if rule is None:
        return 0
    inputs = [types[edge.node][edge.index] for edge in node.inputs]
    outputs = list(types[node])
    if not all(t.is_known for t in inputs + outputs[:1]):
        return None
    return rule(node, inputs, outputs)


def _convolution(node: Node, inputs: Types, outputs: Types) -> int:
    """Each output element reads one filter."""
    weight = inputs[node.input_names.index("weight")]
    return outputs[0].size * weight.size // weight.dims[0]


def _deconvolution(node: Node, inputs: Types, outputs: Types) -> int:
    """Each input element is spread by its channel's filters."""
    return inputs[0].size * inputs[1].size // inputs[1].dims[0]


def _fully_connected(node: Node, inputs: Types, outputs: Types) -> int:
    return outputs[0].size * inputs[1].dims[1]


def _product(node: Node, inputs: Types, outputs: Types) -> int:
    """Each output element is a sum over the axis that both operands share."""
    is_dot = node.op is not None and node.op.name == "dot"
    turned = bool(node.attrs.get("transpose_a"))
    return outputs[0].size * inputs[0].dims[(0 if is_dot else -2) if turned else -1]


def _recurrent(node: Node, inputs: Types, outputs: Types) -> int:
    """Every weight is used once per step and sample; biases are added only."""
    data, parameters = inputs[0], inputs[1]
    gates = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}[node.attrs["mode"]]
    directions = 2 if node.attrs["bidirectional"] else 1
    rows = gates * node.attrs["state_size"]
    biases = 2 * rows * directions * node.attrs["num_layers"]
    return math.prod(data.dims[:2]) * (parameters.size - biases)


_RULES: dict[str, Callable[[Node, Types, Types], int]] = {
    "Convolution": _convolution,
    "Convolution_v1": _convolution,
    "Deconvolution": _deconvolution,
    "FullyConnected": _fully_connected,
    "RNN": _recurrent,
    "_contrib_DeformableConvolution": _convolution,
    "_contrib_ModulatedDeformableConvolution": _convolution,
    "_linalg_gemm": _product,
    "_linalg_gemm2": _product,
    "batch_dot": _product,
    "dot": _product,
}

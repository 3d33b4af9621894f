"""Networks in 8 bits as ONNX files: QuantizeLinear and DequantizeLinear around float operators.

Input: a float32 graph, its parameters and calibrated ranges. Output: a graph whose layers multiply
dequantized bytes, with the weights as int8; programs that recognize the form multiply bytes. Batch
norms are folded into convolutions before, because weights are quantized after that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..errors import MXNetError
from ..ir.calibrated import LAYERS, Ranges, layers_of, with_ranges
from ..ir.node import Node, Output, apply, topological, variable
from ..ops.nn.convolution import CONVOLUTION
from ..ops.nn.window_geometry import is_channel_last
from ..ops.quantized import (
    FILTER_BYTES,
    FILTER_SCALE,
    FROM_BYTES,
    RANGED,
    TO_BYTES,
    WEIGHT_FROM_BYTES,
)
from ..ops.registry import run_ref
from ..passes.lower.quantize import scale_of
from .export import Arrays, Path, write_graph

Outputs = tuple[Output, ...]


def write_quantized(
    path: Path,
    outputs: Sequence[Output],
    params: Arrays,
    ranges: Ranges,
    arrays: Arrays,
    exclude: Collection[str] = (),
) -> None:
    """Write a graph in 8 bits, with a symbolic batch where ``arrays`` have one.

    Raises MXNetError for ranges of another network, and as :func:`.export.write_graph`.
    """
    heads, held = quantized(tuple(outputs), params, ranges, exclude)
    wanted = {name: ("N", *x.shape[1:]) for name, x in arrays.items() if x.ndim}
    write_graph(path, heads, held, arrays, bool(wanted), wanted)


def quantized(
    outputs: Outputs, params: Arrays, ranges: Ranges, exclude: Collection[str] = ()
) -> tuple[Outputs, dict[str, np.ndarray]]:
    """The graph whose layers multiply dequantized bytes, and its parameters."""
    held = dict(params)
    folded = _folded(outputs, held)
    chosen = [name for name in layers_of(folded, held) if name not in exclude]
    ranged = with_ranges(folded, held, ranges, exclude)
    made: dict[Node, Node] = {}
    for node in topological(ranged):
        inputs = [Output(made[use.node], use.index) for use in node.inputs]
        if node.op is RANGED:
            made[node] = _bytes(node, inputs[0])
            continue
        if node.op in LAYERS and node.name in chosen:
            inputs[1] = _filters(inputs[1].node, held)
        made[node] = replace(node, inputs=tuple(inputs)) if inputs else node
    return tuple(Output(made[use.node], use.index) for use in ranged), held


def _bytes(node: Node, data: Output) -> Node:
    scale, dtype = scale_of(node.attrs["low"], node.attrs["high"])
    text = {"scale": repr(scale), "zero": "0"}
    stored = apply(TO_BYTES, f"{node.name}_bytes", [data], {**text, "dtype": dtype.name})
    return apply(FROM_BYTES, node.name, [Output(stored)], text)


def _filters(weight: Node, held: dict[str, np.ndarray]) -> Output:
    names = [f"{weight.name}_{part}" for part in ("int8", "scale")]
    array = held[weight.name]
    try:
        (scale,) = run_ref(FILTER_SCALE, [array], {})
    except MXNetError as error:  # infinite or NaN elements
        raise MXNetError(f"parameter {weight.name}: {error}") from None
    (stored,) = run_ref(FILTER_BYTES, [array, scale], {})
    held.update(zip(names, (stored, scale)))
    parts = [Output(variable(name)) for name in names]
    return Output(apply(WEIGHT_FROM_BYTES, f"{weight.name}_values", parts, {"axis": "0"}))


def _folded(outputs: Outputs, held: dict[str, np.ndarray]) -> Outputs:
    """The graph without batch norms that follow convolutions."""
    order = topological(outputs)
    reads = Counter(use for node in order for use in node.inputs) + Counter(outputs)
    made: dict[Node, Node] = {}
    for node in order:
        inputs = tuple(Output(made[use.node], use.index) for use in node.inputs)
        made[node] = replace(node, inputs=inputs) if inputs else node
        if _folds(node, reads, held):
            made[node] = _with_norm(inputs[0].node, node, held)
    return tuple(Output(made[use.node], use.index) for use in outputs)


def _folds(node: Node, reads: Mapping[Output, int], held: Arrays) -> bool:
    """Whether a batch norm alone reads a convolution, on its channels, with fixed parameters."""
    if node.op is None or node.op.name != "BatchNorm" or node.attrs["output_mean_var"]:
        return False
    layer = node.inputs[0].node
    if layer.op is not CONVOLUTION or reads[node.inputs[0]] > 1:
        return False
    fixed = all(use.node.name in held for use in (*node.inputs[1:], *layer.inputs[1:]))
    axes = len(layer.attrs["kernel"]) + 2
    channel = axes - 1 if is_channel_last(layer.attrs["layout"], axes - 2) else 1
    return fixed and node.attrs["axis"] % axes == channel


def _with_norm(layer: Node, norm: Node, held: dict[str, np.ndarray]) -> Node:
    """The convolution with the factors and the offsets of the batch norm."""
    gamma, beta, mean, variance = (held[use.node.name] for use in norm.inputs[1:])
    factor = 1 / np.sqrt(variance.astype(np.float64) + norm.attrs["eps"])
    factor *= 1 if norm.attrs["fix_gamma"] else gamma
    weight, *biases = (held[use.node.name] for use in layer.inputs[1:])
    bias = beta + ((biases[0] if biases else 0) - mean) * factor
    column = factor.reshape(-1, *(1,) * (weight.ndim - 1))
    names = [f"{layer.name}_{norm.name}_{part}" for part in ("weight", "bias")]
    held.update(zip(names, ((weight * column).astype(np.float32), bias.astype(np.float32))))
    inputs = [layer.inputs[0], *(Output(variable(name)) for name in names)]
    return apply(CONVOLUTION, layer.name, inputs, {**layer.text, "no_bias": "False"}, layer.source)

"""Ranges of the values that layers multiply, in a graph.

Input: a graph and the range of each layer's data, by the layer's name; of a product of two computed
matrices also that of the second one, by its name and ``:rhs``. Output: a graph whose operators
``_ranged`` state the ranges; they compute nothing, and the pass ``quantize`` reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from .._core.types import Shape, product
from ..errors import MXNetError, did_you_mean
from ..ops.nn.convolution import CONVOLUTION
from ..ops.nn.matrix_products import BATCH_DOT, FULLY_CONNECTED
from ..ops.quantized import RANGED, has_kernel, prefers_floats
from ..ops.registry import lookup
from .node import Node, Output, apply, topological

# The least and the greatest value of a layer's data.
Ranges = Mapping[str, tuple[float, float]]
LAYERS = (CONVOLUTION, FULLY_CONNECTED)
_MATRICES = (BATCH_DOT, lookup("_linalg_gemm2"))
_SECOND = ":rhs"


def layers_of(outputs: Iterable[Output], params: Collection[str]) -> dict[str, list[Output]]:
    """The data of each layer that multiplies by a parameter, by the name of the layer, and both
    operands of products of computed matrices. A layer that is called twice has two data.
    """
    found: dict[str, list[Output]] = {}
    for node in topological(outputs):
        if node.op in LAYERS and node.inputs[1].node.name in params:
            found.setdefault(node.name, []).append(node.inputs[0])
        elif node.op in _MATRICES and all(use.node.name not in params for use in node.inputs):
            for name, use in zip((node.name, node.name + _SECOND), node.inputs):
                found.setdefault(name, []).append(use)
    return found


def with_ranges(
    outputs: tuple[Output, ...], params: Collection[str], ranges: Ranges, exclude: Collection[str]
) -> tuple[Output, ...]:
    """The graph in which the data of layers have their ranges.

    Data of a convolution have it for all readers, so that sums of residual blocks read bytes too.
    Raises MXNetError for a layer without a range, and for a range without a layer. Products of
    computed matrices stay in float32 without both ranges, as in tables of earlier versions.
    """
    layers = layers_of(outputs, params)
    _require_all(layers, ranges, exclude)
    wanted = {
        name: data
        for name, data in layers.items()
        if _of(name) not in exclude and _has_all(name, layers, ranges)
    }
    known = {use: ranges[name] for name, data in wanted.items() for use in data}
    nodes = topological(outputs)
    everywhere = {n.inputs[0] for n in nodes if n.op is CONVOLUTION and n.name in wanted}
    made: dict[Node, Node] = {}
    ranged: dict[Output, Output] = {}
    for node in nodes:
        inputs = [Output(made[use.node], use.index) for use in node.inputs]
        for position, use in enumerate(node.inputs):
            name = node.name + _SECOND * position
            if use in everywhere or position < 2 and name in wanted:
                if use not in ranged:
                    ranged[use] = _ranged(inputs[position], known[use])
                inputs[position] = ranged[use]
        made[node] = replace(node, inputs=tuple(inputs)) if inputs else node
    return tuple(Output(made[use.node], use.index) for use in outputs)


def _of(name: str) -> str:
    """The name of the layer to which a range belongs."""
    return name.removesuffix(_SECOND)


def _has_all(name: str, layers: Collection[str], ranges: Ranges) -> bool:
    """Whether there are ranges of a layer's data, or of both matrices."""
    second = _of(name) + _SECOND
    return _of(name) in ranges and (second in ranges or second not in layers)


def float_products(
    outputs: Iterable[Output],
    params: Collection[str],
    ranges: Ranges,
    exclude: Collection[str],
    shapes: Mapping[str, Shape],
) -> list[str]:
    """The nodes that multiply in floating point in a network of 8 bits, each with its reason.

    ``shapes`` are those of parameters, as far as they are known.
    """
    layers, found = layers_of(outputs, params), []
    for node in topological(outputs):
        if node.op is None or node.op.traits.multiply_adds is None:
            continue
        if node.name in exclude:
            found.append(f"{node.describe()}: exclude names it")
        elif node.op in _MATRICES and node.name in layers:
            if not _has_all(node.name, layers, ranges):
                found.append(f"{node.describe()}: the calibration has no ranges of its matrices")
        elif node.op not in LAYERS:
            found.append(f"{node.describe()}: the operator has no form for 8 bits")
        elif node.name not in layers:
            found.append(f"{node.describe()}: its weight is not a parameter")
        elif reason := _reason_for_floats(node, shapes.get(node.inputs[1].node.name, ())):
            found.append(f"{node.describe()}: {reason}")
    return found


def _reason_for_floats(layer: Node, weight: Shape) -> str:
    """Why a layer with a weight of this shape, which may be unknown, does not multiply bytes."""
    if layer.op is not CONVOLUTION or not weight or 0 in weight:
        return ""
    kernel = layer.attrs["kernel"]
    channels = product(weight) // (weight[0] * product(kernel))
    last = (weight[0], *kernel, channels)
    if not has_kernel(layer.attrs, last):
        return "no kernel multiplies bytes in its groups of 1 channel"
    if prefers_floats(layer.attrs, last):
        return f"in groups of {channels} channels float32 is faster, with the same sums"
    return ""


def _ranged(use: Output, ends: tuple[float, float]) -> Output:
    text = {"low": repr(ends[0]), "high": repr(ends[1])}
    return Output(apply(RANGED, f"{use.node.name}_ranged", [use], text, use.node.source))


def _require_all(layers: Collection[str], ranges: Ranges, exclude: Collection[str]) -> None:
    for name in exclude:
        if name not in layers:
            raise MXNetError(
                f"exclude names {name!r}, which is not a convolution or dense layer of the network"
                f"{did_you_mean(name, layers)}; its layers are {', '.join(layers)}"
            )
    matrices = {_of(name) for name in layers if name.endswith(_SECOND)}
    needed = [name for name in layers if _of(name) not in matrices]
    missing = [name for name in needed if name not in ranges and name not in exclude]
    if missing:
        raise MXNetError(
            f"the calibration has no range for layer {missing[0]!r} ({len(missing)} of "
            f"{len(needed)} layers lack one): calibrate this network, or name the layer in exclude"
        )
    others = [name for name in ranges if name not in layers]
    if others:
        raise MXNetError(
            f"the calibration has a range for {others[0]!r}, which is not a layer of this network: "
            "it belongs to another network"
        )

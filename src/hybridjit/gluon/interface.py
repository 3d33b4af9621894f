"""Inputs and outputs of a block's graph: names, shapes, element types, layouts.

Input: a trace, its parameters, and facts of a file or of a call. Output: a DataDesc for each input
or output. Sizes are None where the graph serves all values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.lazy import Late
from .._core.types import FLOAT32, UNKNOWN, PartialShape, TensorType, merge
from ..ir.node import Node, Output, topological
from ..passes.infer import NodeTypes
from ..sym import Symbol
from ..sym.infer import infer_types, partial_types
from .inference import partial_type
from .parameter import Parameter
from .trace import Trace

if TYPE_CHECKING:
    from ..io import batches
    from ..io.batches import DataDesc
else:
    batches = Late("..io.batches", __package__)  # with the first description

Types = Mapping[str, TensorType]
_CHANNELS_FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}  # by the number of axes of a kernel
_SAME_AXES = ("BatchNorm", "Dropout", "LeakyReLU", "Activation", "Cast", "amp_cast", "LRN")


def described(
    trace: Trace, params: Mapping[str, Parameter], declared: tuple[Types, Types], called: Types
) -> tuple[list[DataDesc], list[DataDesc]]:
    """Descriptions of the inputs and of the outputs.

    declared  types of inputs and outputs in the file of the graph
    called    types of a call's inputs, for those whose number of axes the graph leaves open
    """
    given, made = declared
    known = {name: partial_type(param) for name, param in params.items()}
    known |= {name: given[name] for name in trace.input_names if name in given}
    ins, outs = inferred(trace.outputs, trace.input_names, known, called)
    layouts = _layouts(trace, _first_layers(trace.outputs))
    names = list(made) if len(made) == len(outs) else [output.name for output in trace.outputs]
    return (
        [_desc(name, ins[name], layouts.get(name)) for name in trace.input_names],
        [
            _desc(name, _completed(made.get(name, UNKNOWN), found), _layout_of(output))
            for name, output, found in zip(names, trace.outputs, outs)
        ],
    )


def inferred(
    outputs: Sequence[Output], names: Iterable[str], known: Types, called: Types
) -> tuple[dict[str, TensorType], list[TensorType]]:
    """The types of the inputs by name, and of the outputs, as far as the graph determines them.

    ``known`` are types of variables; the rest is as for :func:`described`.
    """
    names = list(names)
    named, made = _dtypes(outputs, known)
    known = {**known, **{n: merge(known.get(n, UNKNOWN), named.get(n, UNKNOWN)) for n in names}}
    readers = _first_layers(outputs)
    types = partial_types(outputs, known)
    for name in names:
        if _type_in(types, name, known).shape is None:
            shape = _shape_read(readers.get(name), types)
            seen = called.get(name, UNKNOWN) if shape is None else TensorType(shape, None)
            known[name] = merge(known.get(name, UNKNOWN), seen)
    types = partial_types(outputs, known)
    ins = {name: _type_in(types, name, known) for name in names}
    outs = [types[output.node][output.index] for output in outputs]
    return ins, [_completed(dtype, found) for dtype, found in zip(made, outs)]


def _dtypes(
    outputs: Sequence[Output], known: Types
) -> tuple[dict[str, TensorType], list[TensorType]]:
    """Element types of variables and of the outputs that follow from those of ``known``."""
    symbol = Symbol(tuple(outputs))
    given = {name: known[name].dtype for name in symbol.list_inputs() if name in known}
    arguments, made, _ = infer_types(symbol, given)
    named = dict(zip(symbol.list_arguments(), map(_of_dtype, arguments)))
    return named, [*map(_of_dtype, made)]


def _of_dtype(dtype: type[np.generic] | None) -> TensorType:
    return UNKNOWN if dtype is None else TensorType(None, np.dtype(dtype))


def of_types(types: Types) -> list[DataDesc]:
    """Descriptions of values of these types, without layouts."""
    return [_desc(name, found, None) for name, found in types.items()]


def _desc(name: str, found: TensorType, layout: str | None) -> DataDesc:
    shape: Any = found.shape  # sizes may be None
    return batches.DataDesc(name, shape, (found.dtype or FLOAT32).type, layout)


def _completed(stated: TensorType, found: TensorType) -> TensorType:
    """The inferred type, with the file's facts where it is open."""
    shape = stated.shape if found.shape is None else found.shape
    return TensorType(shape, stated.dtype if found.dtype is None else found.dtype)


def _type_in(types: NodeTypes, name: str, known: Types) -> TensorType:
    """Type of a variable; of one that no operator reads, the known type."""
    for node in types:
        if node.is_variable and node.name == name:
            return types[node][0]
    return known.get(name, UNKNOWN)


def _first_layers(outputs: Sequence[Output]) -> dict[str, Node]:
    """The first convolution or pooling that reads each variable, through operators on elements."""
    found: dict[str, Node] = {}
    order = topological(outputs)
    origin = {node: node.name for node in order if node.is_variable}
    for node in order:
        start = origin.get(node.inputs[0].node) if node.inputs else None
        if start is None:
            continue
        if _layout_read(node):
            found.setdefault(start, node)
        elif _keeps_axes(node):
            origin[node] = start
    return found


def _shape_read(layer: Node | None, types: NodeTypes) -> PartialShape | None:
    """The shape that a convolution or pooling reads: its number of axes, and its channels."""
    layout = None if layer is None else _layout_read(layer)
    if layer is None or not layout:
        return None
    shape: list[int | None] = [None] * len(layout)
    if layer.op is not None and layer.op.name == "Convolution":
        weight = types[layer.inputs[1].node][layer.inputs[1].index].shape
        channels = None if weight is None else weight[layout.index("C")]
        shape[layout.index("C")] = channels and channels * layer.attrs["num_group"]
    return tuple(shape)


def _layouts(trace: Trace, readers: Mapping[str, Node]) -> dict[str, str | None]:
    """Layouts of variables: declared ones, else those of the first layers that read them."""
    order = topological(trace.outputs)
    declared = {node.name: node.text.get("__layout__") for node in order if node.is_variable}
    return {name: _layout_read(node) for name, node in readers.items()} | {
        name: text for name, text in declared.items() if text
    }


def _layout_of(output: Output) -> str | None:
    """Layout of an output: that of the last layer with one, through operators on elements."""
    node: Node | None = output.node
    while node is not None and node.op is not None:
        if layout := _layout_read(node):
            return layout
        node = node.inputs[0].node if node.inputs and _keeps_axes(node) else None
    return None


def _layout_read(node: Node) -> str | None:
    """The layout of the first operand of a convolution or pooling."""
    if node.op is None or "layout" not in node.attrs or "kernel" not in node.attrs:
        return None
    kernel: Sequence[int] = node.attrs["kernel"]
    return node.attrs["layout"] or _CHANNELS_FIRST.get(len(kernel), "NCHW")


def _keeps_axes(node: Node) -> bool:
    return node.op is not None and (node.op.scalar is not None or node.op.name in _SAME_AXES)

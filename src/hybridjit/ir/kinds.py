"""Kernel kinds: which values each can anchor, and what the memory plan has to know of it.

One record a kind. This is the half that passes read; how a kind is computed stands in
``codegen/kinds`` under the same name, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np

from ..ops.registry import Kind
from ..ops.rules import reduced_axes
from ..records import dataclass
from ..types import FLOAT32, FLOAT64
from .graph import Graph, Value

_BOOL = np.dtype("bool")


class Reads(Enum):
    """How the operands of an anchor may lie in memory; else the plan copies them first."""

    STRIDED = "any strides"
    FORWARD = "strides that are not negative"
    CHANNELS = "strides that are not negative, and 1 on the last axis"
    PACKED = "contiguous; results are contiguous too"


@dataclass(frozen=True)
class KernelKind:
    """What passes know of a kind of kernel.

    takes     ``takes(value, graph)``: whether its kernel computes the value as it is written, given
              that the value's operator is one of ``anchors`` and that nothing has no elements
    anchors   names of the operators whose values it may anchor
    in_floats  whether all operands and results are float32 or all are float64
    reads     how the anchor's operands may lie in memory
    has_epilogue  whether its kernel ends in a store that can compute pointwise values first
    is_in_place   whether a result may take the place of an operand of the epilogue that dies there
    has_kernel    False for what is no step of machine code
    """

    name: str
    takes: Callable[[Value, Graph], bool] = lambda value, graph: True
    anchors: tuple[str, ...] = ()
    in_floats: bool = True
    reads: Reads = Reads.FORWARD
    has_epilogue: bool = False
    is_in_place: bool = False
    has_kernel: bool = True


def kind_of(value: Value, graph: Graph) -> KernelKind:
    """The kind whose kernel computes this value on its own; ``host`` where none does."""
    assert value.op is not None
    if any(t.size == 0 for t in value.types) or any(u.type.size == 0 for u in value.inputs):
        return HOST
    kind = _kind_by_operator(value)
    if kind.in_floats and not (is_in(FLOAT32, value) or is_in(FLOAT64, value)):
        return HOST
    return kind if kind.takes(value, graph) else HOST


def _kind_by_operator(value: Value) -> KernelKind:
    assert value.op is not None
    if value.op.kind is Kind.POINTWISE and value.op.scalar is not None and value.inputs:
        return POINTWISE
    return _BY_ANCHOR.get(value.op.name, HOST)


def is_in(dtype: np.dtype | None, value: Value) -> bool:
    """Whether all operands and results are of this type; the lengths of a softmax are integers."""
    inputs = value.inputs[:1] if value.is_op("softmax") else value.inputs
    return all(t.dtype == dtype for t in (*value.types, *(u.type for u in inputs)))


# Kernels apply to what the passes make; passes may have been left out (HYBRIDJIT_SKIP).


def _is_explicit(value: Value, graph: Graph) -> bool:
    """A transpose names its axes."""
    return not value.is_op("transpose") or bool(value.attrs["axes"])


def _broadcasts(value: Value, graph: Graph) -> bool:
    """Whether the operands line up from the last axis, and count as the result's element type.

    As it is traced, the condition of a ``where`` may be one for rows, and of any type.
    """
    if value.is_op("where"):
        condition = value.inputs[0].type
        return condition.shape == value.shape and condition.dtype in (value.type.dtype, _BOOL)
    return not value.is_op("LeakyReLU") or len(value.inputs) == 1


def _has_index(value: Value, graph: Graph) -> bool:
    """Whether there is an index, which sequences need not have."""
    return len(value.inputs) > 1


def _is_not_half(value: Value, graph: Graph) -> bool:
    return value.type.dtype != np.dtype("float16")


def _leaves_first_axis(value: Value, graph: Graph) -> bool:
    return bool(value.attrs["before"][0] == value.attrs["after"][0] == 0)


def _reduces(value: Value, graph: Graph) -> bool:
    """Whether there is an axis to reduce, and for a place an axis to count it on."""
    if value.is_op("argmax", "argmin"):
        return value.attrs["axis"] is not None
    if value.is_op("argmax_channel"):
        return True
    attrs, rank = value.attrs, value.inputs[0].type.ndim
    return bool(reduced_axes(rank, attrs["axis"], attrs.get("exclude", False)))


def _is_channels_last(value: Value, graph: Graph) -> bool:
    return bool((value.attrs.get("layout") or "NCHW")[-1] == "C")


def _has_fixed_weights(value: Value, graph: Graph) -> bool:
    fixed = all(u.value in graph.params for u in value.inputs[1:])
    return fixed and _is_channels_last(value, graph)


def _is_matrix_product(value: Value, graph: Graph) -> bool:
    """A dense layer on two axes whose result has two, or a batch of products, none transposed."""
    if value.is_op("FullyConnected"):
        return value.inputs[0].type.ndim == len(value.shape) == 2
    return len(value.shape) == 3 and not (value.attrs["transpose_a"] or value.attrs["transpose_b"])


def _is_not_scaled(value: Value, graph: Graph) -> bool:
    return value.attrs["temperature"] in (None, 1.0)


def _has_one_result(value: Value, graph: Graph) -> bool:
    return len(value.types) == 1


def _steps_with_fixed_weights(value: Value, graph: Graph) -> bool:
    return all(u.value in graph.params for u in value.inputs[1:3])


HOST = KernelKind("host", in_floats=False, reads=Reads.STRIDED, has_kernel=False)
VIEW = KernelKind(
    "view",
    _is_explicit,
    ("_reshape_to", "transpose", "slice", "broadcast_to"),
    in_floats=False,
    reads=Reads.STRIDED,
    has_kernel=False,
)
CONCAT = KernelKind("concat", anchors=("Concat",), in_floats=False, has_kernel=False)
COPY = KernelKind("copy", in_floats=False, reads=Reads.STRIDED)
POINTWISE = KernelKind(
    "pointwise",
    _broadcasts,
    in_floats=False,
    reads=Reads.STRIDED,
    has_epilogue=True,
    is_in_place=True,
)
KINDS = (
    HOST,
    VIEW,
    CONCAT,
    COPY,
    POINTWISE,
    KernelKind(
        "conv", _is_channels_last, ("Convolution",), has_epilogue=True, is_in_place=True
    ),
    KernelKind(
        "deconv", _has_fixed_weights, ("Deconvolution",), has_epilogue=True, is_in_place=True
    ),
    KernelKind(
        "gemm",
        _is_matrix_product,
        ("FullyConnected", "batch_dot"),
        has_epilogue=True,
        is_in_place=True,
    ),
    KernelKind(
        "pool", _is_channels_last, ("Pooling",), reads=Reads.CHANNELS, has_epilogue=True
    ),
    KernelKind(
        "softmax", _is_not_scaled, ("softmax", "log_softmax", "softmin"), reads=Reads.PACKED
    ),
    KernelKind(
        "norm",
        _has_one_result,
        ("LayerNorm", "InstanceNorm", "_instance_norm_last", "GroupNorm", "L2Normalization"),
        reads=Reads.PACKED,
    ),
    KernelKind("lrn", anchors=("LRN", "_lrn_last"), reads=Reads.PACKED),
    KernelKind("recurrent", _steps_with_fixed_weights, ("_rnn_steps",)),
    KernelKind("resize", anchors=("_resize_last",), reads=Reads.CHANNELS, has_epilogue=True),
    KernelKind(
        "sample", anchors=("_sample_last", "_sample_cells_last"), reads=Reads.CHANNELS
    ),
    KernelKind(
        "region", anchors=("_roi_align_last", "_roi_pooling_last"), reads=Reads.CHANNELS
    ),
    KernelKind(
        "reduce",
        _reduces,
        ("sum", "mean", "prod", "nansum", "nanprod", "norm", "max", "min",
         "argmax", "argmin", "argmax_channel"),
        in_floats=False,
        reads=Reads.STRIDED,
    ),
    KernelKind(
        "pad", _leaves_first_axis, ("_pad_axes",), in_floats=False, reads=Reads.STRIDED
    ),
    KernelKind(
        "gather",
        _has_index,
        ("take", "Embedding", "pick", "batch_take", "gather_nd",
         "SequenceLast", "SequenceMask", "SequenceReverse"),
        in_floats=False,
        reads=Reads.PACKED,
    ),
    KernelKind(
        "scatter",
        _has_index,
        ("scatter_nd", "_contrib_index_copy"),
        in_floats=False,
        reads=Reads.PACKED,
    ),
    KernelKind("one_hot", _is_not_half, ("one_hot",), in_floats=False, reads=Reads.PACKED),
)  # fmt: skip
KIND_NAMED = {kind.name: kind for kind in KINDS}
_BY_ANCHOR = {name: kind for kind in KINDS for name in kind.anchors}

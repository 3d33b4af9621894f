"""Kernel kinds: the values that each can anchor, and the properties that the memory plan needs.

One record per kind; an operator's record names its kind. Passes read this part of a kind; its code
generation is in ``codegen/kinds`` under the same name, and a test compares the two lists.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np

from .._core.frozen import dataclass
from .._core.symbolic import Size
from .._core.types import FLOAT32, FLOAT64, FLOATS, product
from ..ops.byte_rows import BYTE_LAYER_NORM, BYTE_SOFTMAX
from ..ops.nn.normalization import LAYER_NORM
from ..ops.nn.softmax import SOFTMAX, is_divided_last
from ..ops.quantized import INTEGER_DENSE, UINT8, has_kernel
from ..ops.rules import reduced_axes
from ..ops.sequence.rnn_steps import RNN_ROUNDED_STEPS
from ..ops.tensor.by_index import ADD_AT
from ..ops.tensor.ordering import SORTED
from .building import is_canonical
from .graph import Graph, Value

# Element types of stored operands of floating-point kernels; operands of other types are cast.
STORED = FLOATS


class Reads(Enum):
    """The layouts in which a kernel reads the anchor's operands; the plan copies all others."""

    STRIDED = "any strides"
    FORWARD = "strides that are not negative"
    CHANNELS = "strides that are not negative, and 1 on the last axis"
    PACKED = "contiguous; results are contiguous too"


@dataclass(frozen=True)
class KernelKind:
    """The properties of a kernel kind that passes use.

    takes     ``takes(value, graph)``: whether its kernel computes the value as it is written, if
              its operator names this kind and has no further expansion, and no array is empty
    in_floats  whether all operands and results have one of the types in ``STORED``
    reads     the layouts in which it reads the anchor's operands
    reads_narrow  whether the anchor's float32 operands may be stored as bfloat16
    reads_alike   then, whether its first two operands must have the same stored type
    has_epilogue  whether its kernel can compute pointwise values before it stores the result
    is_in_place   whether a result may take the memory of an epilogue operand that is read last
                  there
    ends_in_bytes  ``ends_in_bytes(value)``: whether its kernel can quantize the anchor's result
    has_kernel    False for steps without machine code
    """

    name: str
    takes: Callable[[Value, Graph], bool] = lambda value, graph: True
    in_floats: bool = True
    reads: Reads = Reads.FORWARD
    reads_narrow: bool = False
    reads_alike: bool = False
    has_epilogue: bool = False
    is_in_place: bool = False
    ends_in_bytes: Callable[[Value], bool] = lambda value: False
    has_kernel: bool = True


def kind_of(value: Value, graph: Graph) -> KernelKind:
    """The kind whose kernel computes this value as an anchor; ``host`` if none does.

    Kernels compute canonical operators; if ``expand`` is skipped (HYBRIDJIT_SKIP), the references
    compute the operators that it would have expanded.
    """
    assert value.op is not None
    kind = KIND_NAMED[value.op.kernel]
    if any(d == 0 for t in (*value.types, *(u.type for u in value.inputs)) for d in t.dims):
        return HOST
    if kind.in_floats and not any(is_in(dtype, value) for dtype in STORED):
        return HOST
    return kind if is_canonical(value) and kind.takes(value, graph) else HOST


_WITH_LENGTHS = ("softmax", "attention")


def is_in(dtype: np.dtype | None, value: Value) -> bool:
    """Whether all operands and results have this type; lengths may be integers."""
    assert value.op is not None
    inputs = value.inputs[:1] if value.op.kernel in _WITH_LENGTHS else value.inputs
    return all(t.dtype == dtype for t in (*value.types, *(u.type for u in inputs)))


def _adds_what_is_stored(value: Value, graph: Graph) -> bool:
    """Whether the stored elements can be added directly: float16 and bool cannot."""
    dtype = value.type.dtype
    return value.op is not ADD_AT or dtype not in (np.dtype("float16"), np.dtype("bool"))


def _has_constant_widths(value: Value, graph: Graph) -> bool:
    """Whether rows have constant lengths, in the element types that the kernel computes in."""
    widths = (use.type.dims[3] for use in value.inputs[:3])
    is_wide = value.type.dtype in (FLOAT32, FLOAT64)
    return is_wide and not any(isinstance(width, Size) for width in widths)


def _is_not_half(value: Value, graph: Graph) -> bool:
    return value.type.dtype != np.dtype("float16")


def _leaves_first_axis(value: Value, graph: Graph) -> bool:
    return bool(value.attrs["before"][0] == value.attrs["after"][0] == 0)


def _reduces(value: Value, graph: Graph) -> bool:
    """Whether an axis is reduced; operators without the attribute always reduce one."""
    attrs, ndim = value.attrs, value.inputs[0].type.ndim
    axis, exclude = attrs.get("axis"), attrs.get("exclude", False)
    return "axis" not in attrs or bool(reduced_axes(ndim, axis, exclude))


def _has_keys(value: Value, graph: Graph) -> bool:
    return value.inputs[0].type.dtype in SORTED


def _is_channels_last(value: Value, graph: Graph) -> bool:
    return bool((value.attrs.get("layout") or "NCHW")[-1] == "C")


# Most phases, each of which is a call: more take longer to compile than NumPy takes to compute.
MOST_PHASES = 1024


def _has_few_phases(value: Value, graph: Graph) -> bool:
    """Whether a channels-last transposed convolution consists of few ordinary ones."""
    sizes = value.type.dims[1:-1]
    strides = value.attrs["stride"] or (1,) * len(sizes)
    phases = product(tuple(map(min, strides, sizes)))
    return _is_channels_last(value, graph) and phases <= MOST_PHASES


def _suppresses(value: Value, graph: Graph) -> bool:
    """Whether disjoint boxes are never suppressed, and topk is not 0, which changes no row."""
    return bool(value.attrs["topk"] != 0 and value.attrs["overlap_thresh"] >= 0)


def _multiplies_parameters(value: Value, graph: Graph) -> bool:
    """Whether steps with rounded weights have parameters as weights, which are rounded at bind."""
    return value.op is not RNN_ROUNDED_STEPS or value.inputs[1].value in graph.params


def _multiplies_bytes(value: Value, graph: Graph) -> bool:
    """Whether the data are uint8 without a zero point, and the weight a parameter.

    Zero points are part of the bias and of the padding after the pass ``bytes``.
    """
    is_plain = value.inputs[0].type.dtype == UINT8 and not value.attrs["zero"]
    if not is_plain or any(use.value not in graph.params for use in value.inputs[1:]):
        return False
    if value.op is INTEGER_DENSE:
        return True
    weight = value.inputs[1].type.dims
    return _is_channels_last(value, graph) and has_kernel(value.attrs, weight)


def _multiplies_matrices(value: Value, graph: Graph) -> bool:
    """Whether the first operand is uint8, and all sizes are constant."""
    sizes = (*value.inputs[0].type.dims, *value.shape)
    is_known = not any(isinstance(size, Size) for size in sizes)
    return is_known and value.inputs[0].type.dtype == UINT8


def _multiplies_nibbles(value: Value, graph: Graph) -> bool:
    """Whether the data are rows of constant length, and all other operands are parameters."""
    data, *others = value.inputs
    is_known = data.type.ndim == 2 and not isinstance(data.type.dims[1], Size)
    return is_known and all(use.value in graph.params for use in others)


def _pools_unsigned(value: Value, graph: Graph) -> bool:
    return value.type.dtype == UINT8 and _is_channels_last(value, graph)


def _is_divided_first(value: Value, graph: Graph) -> bool:
    return not is_divided_last(value.attrs["temperature"])


_OF_ROWS = (SOFTMAX, LAYER_NORM, BYTE_SOFTMAX, BYTE_LAYER_NORM)


def _has_plain_rows(value: Value) -> bool:
    """Whether the value is softmax or layer norm of rows along the last axis, without lengths."""
    if value.op not in _OF_ROWS or value.op is SOFTMAX and len(value.inputs) > 1:
        return False
    return value.attrs["axis"] in (-1, value.type.ndim - 1) and value.type.dtype == FLOAT32


HOST = KernelKind("host", in_floats=False, reads=Reads.STRIDED, has_kernel=False)
VIEW = KernelKind("view", in_floats=False, reads=Reads.STRIDED, has_kernel=False)
CONCAT = KernelKind("concat", in_floats=False, has_kernel=False)
COPY = KernelKind("copy", in_floats=False, reads=Reads.STRIDED)
POINTWISE = KernelKind(
    "pointwise",
    in_floats=False,
    reads=Reads.STRIDED,
    reads_narrow=True,
    has_epilogue=True,
    is_in_place=True,
)
KINDS = (
    HOST,
    VIEW,
    CONCAT,
    COPY,
    POINTWISE,
    KernelKind("conv", _is_channels_last, reads_narrow=True, has_epilogue=True, is_in_place=True),
    KernelKind(
        "byte_product",
        _multiplies_bytes,
        in_floats=False,
        reads=Reads.CHANNELS,
        has_epilogue=True,
        is_in_place=True,
    ),
    KernelKind(
        "byte_matmul",
        _multiplies_matrices,
        in_floats=False,
        reads=Reads.CHANNELS,
        has_epilogue=True,
    ),
    KernelKind(
        "nibble_dense",
        _multiplies_nibbles,
        in_floats=False,
        reads=Reads.CHANNELS,
        has_epilogue=True,
    ),
    KernelKind("deconv", _has_few_phases, reads_narrow=True, has_epilogue=True, is_in_place=True),
    KernelKind(
        "conv_weight",
        _is_channels_last,
        reads=Reads.CHANNELS,
        reads_narrow=True,
        reads_alike=True,
    ),
    KernelKind("gemm", reads_narrow=True, reads_alike=True, has_epilogue=True, is_in_place=True),
    KernelKind(
        "pool", _is_channels_last, reads=Reads.CHANNELS, reads_narrow=True, has_epilogue=True
    ),
    KernelKind(
        "byte_pool",
        _pools_unsigned,
        in_floats=False,
        reads=Reads.CHANNELS,
        has_epilogue=True,
    ),
    KernelKind("unpool", _is_channels_last, reads=Reads.CHANNELS),
    KernelKind("softmax", _is_divided_first, reads=Reads.PACKED, ends_in_bytes=_has_plain_rows),
    KernelKind("byte_softmax", in_floats=False, reads=Reads.PACKED, ends_in_bytes=_has_plain_rows),
    KernelKind("attention", _has_constant_widths, reads=Reads.CHANNELS),
    KernelKind("norm", reads=Reads.PACKED, ends_in_bytes=_has_plain_rows),
    KernelKind("byte_norm", in_floats=False, reads=Reads.PACKED, ends_in_bytes=_has_plain_rows),
    KernelKind("lrn", reads=Reads.PACKED),
    KernelKind("suppress", _suppresses, reads=Reads.PACKED),
    KernelKind("order", _has_keys, in_floats=False, reads=Reads.PACKED),
    KernelKind("detect", reads=Reads.PACKED),
    KernelKind("propose", reads=Reads.PACKED),
    KernelKind("recurrent", _multiplies_parameters),
    KernelKind("recurrent_back"),
    KernelKind("resize", reads=Reads.CHANNELS, has_epilogue=True),
    KernelKind("sample", reads=Reads.CHANNELS),
    KernelKind("region", reads=Reads.CHANNELS),
    KernelKind("reduce", _reduces, in_floats=False, reads=Reads.STRIDED),
    KernelKind("pad", _leaves_first_axis, in_floats=False, reads=Reads.STRIDED),
    KernelKind("gather", in_floats=False, reads=Reads.PACKED),
    KernelKind("scatter", _adds_what_is_stored, in_floats=False, reads=Reads.PACKED),
    KernelKind("one_hot", _is_not_half, in_floats=False, reads=Reads.PACKED),
)
KIND_NAMED = {kind.name: kind for kind in KINDS}

"""Integers: products of dequantized bytes -> products of bytes, scaled.

    conv((x - z) s, w t) + b  =>  float(integer_conv(x - z, w)) * (s t) + b

Movement and padding with 0 are applied to bytes instead of dequantized values. Kernels multiply
uint8 without a zero point by int8: 128 is added to signed bytes; the product of the zero point and
the sum of each filter is subtracted from the bias, and the data are padded with the zero point. For
groups of few channels, the same integers are added in float32.
"""

from __future__ import annotations

from typing import Any

from ..._core.types import FLOAT32, Shape
from ...ir.building import ValueBuilder, building
from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import Match, Replacement, replace_values, rewrite, rule, uniquely_named
from ...ops.attrs import Attrs
from ...ops.elementwise.element_type import CAST, cast
from ...ops.internal import PAD_AXES
from ...ops.nibbles import WEIGHT_FROM_NIBBLES
from ...ops.nn.convolution import CONVOLUTION
from ...ops.nn.matrix_products import BATCH_DOT, FULLY_CONNECTED
from ...ops.nn.pooling import POOLING
from ...ops.nn.window_geometry import is_channel_last
from ...ops.quantized import (
    BYTE_POOLING,
    FROM_BYTES,
    INT8,
    INTEGER_CONVOLUTION,
    INTEGER_DENSE,
    LONGEST_SUM,
    SIGN,
    TO_BYTES,
    UINT8,
    WEIGHT_FROM_BYTES,
    ZERO_BIAS,
    has_kernel,
    prefers_floats,
)
from ...ops.record import OpDef
from ...ops.registry import lookup
from ...ops.tensor.joining import CONCAT
from ...ops.tensor.primitives import (
    RESHAPE_TO,
    TRANSPOSE,
    permutation,
    reshape,
)
from ..rewrite.cse import share_equal
from .levels import implied_limits, unit_levels
from .matrices import multiplied_matrices
from .nibbles import multiplied_nibbles
from .rows import norm_of_bytes, softmax_of_bytes
from .tables import with_tables
from .zero_points import MOVES, centred_sums, moved_up

_MUL_SCALAR = lookup("_mul_scalar")
_ADD, _MULTIPLY = lookup("broadcast_add"), lookup("broadcast_mul")
# Numbers of planes that a kernel interleaves as it quantizes them.
_PLANES = (2, 3, 4)


def lower_integers(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Replace products of dequantized bytes by products of bytes."""
    if not any(value.op in _OF_BYTES for value in graph.values):
        return graph
    after = rewrite(rewrite(graph, (quantized_before_moves,), fired), _RULES, fired)
    if after is not graph:  # several products may apply the same movement to the same bytes
        after = uniquely_named(share_equal(after))
    after = _one_reader_each(with_tables(after, fired))
    after = rewrite(after, (implied_limits, quantized_as_pixels), fired)
    levels = rewrite(after, (unit_levels,), fired)
    return after if levels is after else uniquely_named(levels)


@rule("quantize(move(product))  =>  move(quantize(product)): it ends its kernel", TO_BYTES)
def quantized_before_moves(value: Value, match: Match) -> Replacement:
    """For reshapes and transposes that nothing else reads. They move bytes then."""
    source, above, moves = value.inputs[0], match, []
    while source.value.op in (RESHAPE_TO, TRANSPOSE) and above.is_sole_use(0):
        moves.append(source.value)
        source, above = source.value.inputs[0], Match(match.graph, above.old.inputs[0].value)
    if not moves or not above.is_sole_use(0) or not _is_product(source.value):
        return None
    g = building(value)
    result = g.op(TO_BYTES, source, at="bytes", **value.attrs)
    for move in reversed(moves):
        assert move.op is not None
        result = g.op(move.op, result, at="moved", **move.attrs)
    return result


@rule("transpose(quantize(input))  =>  quantize(transpose(input)), for few planes", TRANSPOSE)
def quantized_as_pixels(value: Value, match: Match) -> Replacement:
    """One kernel quantizes the planes of a picture and interleaves them."""
    source, axes = value.inputs[0].value, value.attrs["axes"]
    if source.op is not TO_BYTES or source.inputs[0].value.op is not None:
        return None
    if not match.is_sole_use(0) or not _makes_pixels(value.shape, axes):
        return None
    g = building(value)
    moved = g.op(TRANSPOSE, source.inputs[0], at="pixels", axes=axes)
    return g.op(TO_BYTES, moved, **source.attrs)


def _makes_pixels(shape: Shape, axes: Shape) -> bool:
    """Whether a movement of the second axis to the end makes pixels of a few planes."""
    is_last = axes == (0, *range(2, len(axes)), 1)
    return len(axes) > 2 and is_last and shape[-1] in _PLANES


def _is_product(value: Value) -> bool:
    """Whether the value is a product, or the result of pointwise operators on one."""
    while value.op is not None and value.op.is_pointwise:
        whole = [use.value for use in value.inputs if use.type.dims == value.type.dims]
        if not whole:
            return False
        value = whole[0]
    return value.op in (CONVOLUTION, FULLY_CONNECTED, BATCH_DOT)


@rule("move((x - z) s)  =>  (move(x) - z) s", *MOVES)
def moved_bytes(value: Value, match: Match) -> Replacement:
    source = value.inputs[0].value
    if source.op is not FROM_BYTES:
        return None
    g = building(value)
    assert value.op is not None
    moved = g.op(value.op, source.inputs[0], at="bytes", **value.attrs)
    return g.op(FROM_BYTES, moved, **source.attrs)


@rule("pad((x - z) s)  =>  (pad(x, z) - z) s", PAD_AXES)
def padded_bytes(value: Value, match: Match) -> Replacement:
    source, attrs = value.inputs[0].value, value.attrs
    if source.op is not FROM_BYTES:
        return None
    if attrs["mode"] == "constant":
        if attrs["value"] != 0:
            return None
        attrs = {**attrs, "value": float(source.attrs["zero"])}
    g = building(value)
    padded = g.op(PAD_AXES, source.inputs[0], at="bytes", **attrs)
    return g.op(FROM_BYTES, padded, **source.attrs)


@rule("concat((x - z) s, (y - z) s)  =>  (concat(x, y) - z) s", CONCAT)
def joined_bytes(value: Value, match: Match) -> Replacement:
    sources = [use.value for use in value.inputs]
    first = sources[0]
    if any(source.op is not FROM_BYTES for source in sources):
        return None
    if len({(*sorted(s.attrs.items()), s.inputs[0].type.dtype) for s in sources}) > 1:
        return None
    g = building(value)
    joined = g.op(CONCAT, *(s.inputs[0] for s in sources), at="bytes", **value.attrs)
    return g.op(FROM_BYTES, joined, **first.attrs)


@rule("max_pool((x - z) s)  =>  (max_pool(x) - z) s", POOLING)
def pooled_bytes(value: Value, match: Match) -> Replacement:
    source, attrs = value.inputs[0].value, value.attrs
    if source.op is not FROM_BYTES or attrs["pool_type"] != "max":
        return None
    if not is_channel_last(attrs["layout"], value.type.ndim - 2):
        return None
    g, data, values = building(value), source.inputs[0], dict(source.attrs)
    if data.type.dtype == INT8:
        data, values["zero"] = moved_up(g, data), values["zero"] + SIGN
    return g.op(FROM_BYTES, g.op(BYTE_POOLING, data, at="bytes", **attrs), **values)


@rule("move(w t)  =>  move(w) t", RESHAPE_TO, TRANSPOSE, PAD_AXES)
def moved_weight(value: Value, match: Match) -> Replacement:
    source = value.inputs[0].value
    if source.op is not WEIGHT_FROM_BYTES:
        return None
    axis = _axis_after(value, source)
    if axis is None:
        return None
    g = building(value)
    assert value.op is not None
    moved = g.op(value.op, source.inputs[0], at="bytes", **value.attrs)
    return g.op(WEIGHT_FROM_BYTES, moved, *source.inputs[1:], **{**source.attrs, "axis": axis})


def _axis_after(move: Value, source: Value) -> int | None:
    """The axis of a weight's scales after a movement; None if there is none."""
    axis = source.attrs["axis"]
    if move.op is PAD_AXES:
        is_zero = move.attrs["mode"] == "constant" and move.attrs["value"] == 0
        is_zero &= source.attrs["no_zero"]
        return (
            axis if is_zero and not move.attrs["before"][axis] + move.attrs["after"][axis] else None
        )
    if source.inputs[1].type.size == 1:
        return 0
    if move.op is TRANSPOSE:
        return permutation(len(source.shape), move.attrs["axes"]).index(axis)
    is_kept = axis == 0 and bool(move.shape) and move.shape[0] == source.shape[0]
    return 0 if is_kept else None


@rule("quantize((x - z) s)  =>  x", TO_BYTES)
def same_bytes(value: Value, match: Match) -> Replacement:
    source = value.inputs[0].value
    if source.op is not FROM_BYTES or value.attrs["multiply"]:
        return None
    given = source.inputs[0]
    same = all(value.attrs[key] == source.attrs[key] for key in ("scale", "zero"))
    return given if same and given.type.dtype == value.type.dtype else None


@rule("conv((x - z) s, w t) + b  =>  float(integer_conv(x - z, w)) (s t) + b", CONVOLUTION)
def convolved_bytes(value: Value, match: Match) -> Replacement:
    attrs = value.attrs
    if not is_channel_last(attrs["layout"], len(attrs["kernel"])):
        return None
    if not _multiplies_bytes(value, match):
        return None
    data, weight = (use.value for use in value.inputs[:2])
    g, zero, shape = building(value), data.attrs["zero"], weight.type.dims
    if prefers_floats(attrs, shape) and weight.attrs["no_zero"]:
        return _scaled(g, value, _floating_sums(g, value))
    if not has_kernel(attrs, shape):
        return None
    changed = {**attrs, "no_bias": True, "zero": zero}
    sums = centred_sums(g, _plain_convolution, data.inputs[0], weight, changed)
    return _scaled(g, value, sums)


def _floating_sums(g: ValueBuilder, value: Value) -> Use:
    """The sums of integers in float32, which represents them exactly."""
    data, weight = (use.value for use in value.inputs[:2])
    levels = g.op(FROM_BYTES, *data.inputs, at="levels", scale=1.0, zero=data.attrs["zero"])
    filters = g.op(CAST, weight.inputs[0], at="filters", dtype=FLOAT32)
    return g.op(CONVOLUTION, levels, filters, at="sums", **{**value.attrs, "no_bias": True})


@rule("dense((x - z) s, w t) + b  =>  float(integer_dense(x - z, w)) (s t) + b", FULLY_CONNECTED)
def multiplied_bytes(value: Value, match: Match) -> Replacement:
    if not _multiplies_bytes(value, match) or value.inputs[0].type.ndim != 2:
        return None
    data, weight = (use.value for use in value.inputs[:2])
    g, attrs = building(value), {**value.attrs, "no_bias": True, "zero": data.attrs["zero"]}
    return _scaled(g, value, centred_sums(g, _plain_dense, data.inputs[0], weight, attrs))


def _multiplies_bytes(value: Value, match: Match) -> bool:
    """Whether the data are dequantized bytes, and the weight has one scale per filter."""
    data, weight = (use.value for use in value.inputs[:2])
    if data.op is not FROM_BYTES or weight.op is not WEIGHT_FROM_BYTES:
        return False
    if weight.attrs["axis"] != 0 and weight.inputs[1].type.size > 1:
        return False
    longest = LONGEST_SUM if weight.attrs["no_zero"] else LONGEST_SUM // 2
    is_short = weight.type.size <= longest * max(1, weight.shape[0])
    return is_short and match.is_fixed(value.inputs[1]) and value.type.size > 0


def _scaled(g: ValueBuilder, value: Value, sums: Use) -> Use:
    """int32 sums in float32, times both scales, plus the bias."""
    data, weight = (use.value for use in value.inputs[:2])
    ones = (1,) * (value.type.ndim - 1)
    scale = g.op(_MUL_SCALAR, weight.inputs[1], at="scale", scalar=_single(data.attrs["scale"]))
    scale = reshape(g, scale, (*ones, scale.type.size), at="scales")
    result = cast(g, sums, FLOAT32, at="float")
    bias = value.inputs[2:]
    result = g.op(_MULTIPLY, result, scale, at="scaled" if bias else "")
    for use in bias:
        result = g.op(_ADD, result, reshape(g, use, (*ones, use.type.size), at="biases"))
    return result


def _single(scale: float) -> float:
    """The scale in single precision."""
    return float(FLOAT32.type(scale))


@rule("integer_conv of signed bytes, or with a zero point  =>  of plain uint8", INTEGER_CONVOLUTION)
def plain_convolution(value: Value, match: Match) -> Replacement:
    if _is_plain(value) or not all(map(match.is_fixed, value.inputs[1:])):
        return None
    if not is_channel_last(value.attrs["layout"], len(value.attrs["kernel"])):
        return None
    data, weight, *bias = value.inputs
    return _plain_convolution(building(value), data, weight, tuple(bias), value.attrs)


@rule("integer_dense of signed bytes, or with a zero point  =>  of plain uint8", INTEGER_DENSE)
def plain_dense(value: Value, match: Match) -> Replacement:
    if _is_plain(value) or not all(map(match.is_fixed, value.inputs[1:])):
        return None
    data, weight, *bias = value.inputs
    return _plain_dense(building(value), data, weight, tuple(bias), value.attrs)


def _is_plain(value: Value) -> bool:
    return value.inputs[0].type.dtype == UINT8 and not value.attrs["zero"]


def _plain_convolution(
    g: ValueBuilder, data: Use, weight: Use, bias: tuple[Use, ...], attrs: Attrs
) -> Use:
    """Pad with the zero point, if it is not 0, and subtract its products from the bias."""
    data, zero, changed = _unsigned(g, data, attrs)
    pad = changed["pad"]
    if zero and any(pad):
        sides = (0, *pad, 0)
        data = g.op(
            PAD_AXES, data, at="border", mode="constant", before=sides, after=sides, value=zero
        )
        changed["pad"] = (0,) * (data.type.ndim - 2)
    return _with_bias(g, INTEGER_CONVOLUTION, data, weight, bias, zero, changed)


def _plain_dense(
    g: ValueBuilder, data: Use, weight: Use, bias: tuple[Use, ...], attrs: Attrs
) -> Use:
    data, zero, changed = _unsigned(g, data, attrs)
    return _with_bias(g, INTEGER_DENSE, data, weight, bias, zero, changed)


def _with_bias(
    g: ValueBuilder,
    op: OpDef,
    data: Use,
    weight: Use,
    bias: tuple[Use, ...],
    zero: int,
    attrs: Attrs,
) -> Use:
    if zero:
        less = g.op(ZERO_BIAS, weight, *bias, at="zero", zero=zero, no_bias=not bias)
        bias = (less,)
    attrs = {**attrs, "no_bias": not bias, "zero": 0}
    return g.op(op, data, weight, *bias, at="sums", **attrs)


def _unsigned(g: ValueBuilder, data: Use, attrs: Attrs) -> tuple[Use, int, dict[str, Any]]:
    """The data as uint8, their zero point, and a copy of the attributes.

    A quantization that computes the bytes adds the 128; to other bytes it is added separately.
    """
    zero: int = attrs["zero"]
    if data.type.dtype != INT8:
        return data, zero, dict(attrs)
    return moved_up(g, data), zero + SIGN, dict(attrs)


_RULES = (
    moved_bytes,
    padded_bytes,
    joined_bytes,
    pooled_bytes,
    moved_weight,
    same_bytes,
    convolved_bytes,
    multiplied_bytes,
    multiplied_matrices,
    multiplied_nibbles,
    softmax_of_bytes,
    norm_of_bytes,
    plain_convolution,
    plain_dense,
)
_OF_BYTES = (FROM_BYTES, INTEGER_CONVOLUTION, INTEGER_DENSE, WEIGHT_FROM_NIBBLES)


def _one_reader_each(graph: Graph) -> Graph:
    """Give each reader its own dequantization, which its kernel applies as it loads the bytes."""
    copies = 0

    def change(value: Value, match: Match) -> tuple[str, Replacement]:
        nonlocal copies
        if value.op is None or value.op is FROM_BYTES:
            return "", None
        inputs = []
        for use in value.inputs:
            source = use.value
            if source.op is FROM_BYTES and _is_shared(source, match.graph):
                copies += 1
                own = ValueBuilder(source.name, source.source)
                use = own.op(FROM_BYTES, *source.inputs, at="read", **source.attrs)
            inputs.append(use)
        if tuple(inputs) == value.inputs:
            return "", None
        return "", building(value).outputs(value.op, *inputs, **value.attrs)

    def _is_shared(source: Value, whole: Graph) -> bool:
        return len(whole.uses.get(source, ())) > 1

    after = replace_values(graph, change)
    return uniquely_named(after) if copies else after

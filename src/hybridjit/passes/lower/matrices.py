"""Matrices: products of dequantized bytes that are both computed, as in attention.

    batch_dot((a - y) s, (b - z) t)  =>  float(integer_batch_dot(a - y, b - z)) (s t)

Sums of integers are exact. Products of symbolic sizes have the same bits from floating point:
single precision holds sums below 2**24, double precision all others.
"""

from __future__ import annotations

import numpy as np

from ..._core.symbolic import Size
from ..._core.types import FLOAT32, FLOAT64
from ...ir.building import ValueBuilder, building
from ...ir.graph import Use, Value
from ...ir.rewrite import Match, Replacement, rule
from ...ops.byte_matrices import INTEGER_BATCH_DOT
from ...ops.elementwise.element_type import cast
from ...ops.nn.matrix_products import BATCH_DOT
from ...ops.quantized import FROM_BYTES, INT8, LONGEST_SUM, SIGN
from ...ops.registry import lookup
from ...ops.tensor.primitives import RESHAPE_TO, TRANSPOSE, permutation, transpose
from .zero_points import moved_up

_MUL_SCALAR = lookup("_mul_scalar")
# The largest product of differences of bytes, and the first integer that float32 does not follow.
_PRODUCT, _INEXACT = 255 * 255, 1 << 24


@rule("batch_dot((a - y) s, (b - z) t)  =>  float(integer_batch_dot(a - y, b - z)) s t", BATCH_DOT)
def multiplied_matrices(value: Value, match: Match) -> Replacement:
    left, right = (use.value for use in value.inputs)
    if left.op is not FROM_BYTES or right.op is not FROM_BYTES or not value.type.size:
        return None
    size = left.type.dims[2]
    g = building(value)
    if any(isinstance(n, Size) for n in (*left.type.dims, *right.type.dims)):
        if left.attrs["scale"] == right.attrs["scale"] == 1.0 and _is_single(size):
            return None
        sums = _floating_sums(g, left, right, _is_single(size))
    elif size > LONGEST_SUM // 2:
        return None
    else:
        sums = cast(g, _integer_sums(g, left, right), FLOAT32, at="float")
    scale = np.float32(left.attrs["scale"]) * np.float32(right.attrs["scale"])
    return g.op(_MUL_SCALAR, sums, scalar=float(scale))


def _is_single(size: int) -> bool:
    """Whether float32 holds all sums of ``size`` products."""
    return not isinstance(size, Size) and size * _PRODUCT < _INEXACT


def _floating_sums(g: ValueBuilder, left: Value, right: Value, is_single: bool) -> Use:
    """The sums in float32, added exactly."""
    dtype = FLOAT32 if is_single else FLOAT64
    levels = []
    for side, at in ((left, "lhs"), (right, "rhs")):
        whole = g.op(
            FROM_BYTES, side.inputs[0], at=f"{at}_levels", scale=1.0, zero=side.attrs["zero"]
        )
        levels.append(cast(g, whole, dtype, at=at))
    return cast(g, g.op(BATCH_DOT, *levels, at="sums"), FLOAT32, at="float")


def _integer_sums(g: ValueBuilder, left: Value, right: Value) -> Use:
    data, zero = left.inputs[0], left.attrs["zero"]
    if data.type.dtype == INT8:
        data, zero = moved_up(g, data), zero + SIGN
    other, is_turned = right.inputs[0], _is_turned(right.inputs[0])
    if is_turned:
        other = transpose(g, other, (0, 2, 1), at="columns")
    zeros = {"lhs_zero": zero, "rhs_zero": right.attrs["zero"]}
    return g.op(INTEGER_BATCH_DOT, data, other, at="sums", transpose_b=is_turned, **zeros)


def _is_turned(use: Use) -> bool:
    """Whether the elements of a column are contiguous in memory, rather than those of a row."""
    value = use.value
    while value.op is RESHAPE_TO and value.shape[-2:] == value.inputs[0].type.dims[-2:]:
        value = value.inputs[0].value
    if value.op is not TRANSPOSE:
        return False
    axes = permutation(len(value.shape), value.attrs["axes"])
    return axes[-2] == len(axes) - 1

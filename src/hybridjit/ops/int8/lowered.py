"""Operators on bytes by operators with kernels, for the compiler.

Input: an operator on graph values. Output: the same bytes by ``_to_bytes``, ``_from_bytes`` and
float32 operators whose results on bytes are exact. Ranges are constants after calibrated operators,
so that everything that depends on them alone is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.types import FLOAT32
from ..attrs import Declared
from ..building import Builder, X
from ..nn.pooling import POOLING
from ..quantized import FROM_BYTES, TO_BYTES
from ..record import OpDef
from ..registry import lookup
from ..tensor.joining import joined
from ..tensor.new_arrays import FULL
from ..tensor.primitives import reshape
from .ranges import INT8, RANGE, UINT8, calibrated, first, levels, magnitude, scale_of

_MULTIPLY = lookup("broadcast_mul")


def constant(g: Builder[X], value: object, at: str) -> X:
    """A range's end as a constant."""
    return g.op(FULL, at=at, shape=(1,), value=float(first(value)), dtype=FLOAT32)


def _once(ref: Callable[..., Any], kinds: object, inputs: int, count: int = 1) -> OpDef:
    """An operator from ends of ranges to numbers of shape (1,); its name has the types of bytes."""
    return OpDef(
        name=f"_int8_range_{kinds}",
        inputs=tuple(f"arg{i}" for i in range(inputs)),
        attrs=(),
        infer=lambda ins, outs, **attrs: (ins, (RANGE,) * count),
        ref=lambda *arrays, **attrs: ref(*arrays),
        outputs=tuple(f"output{i}" for i in range(count)) if count > 1 else ("output",),
        internal=True,
        doc="Numbers that depend on ranges.",
    )


def quantized_by_kernels(
    g: Builder[X],
    data: X,
    *,
    out_type: str,
    min_calib_range: float | None,
    max_calib_range: float | None,
) -> tuple[X, ...] | None:
    """quantize_v2(x) with a calibrated range  =>  to_bytes(x * scale)"""
    known = calibrated(min_calib_range, max_calib_range)
    if known is None or g.type(data).dtype != FLOAT32 or magnitude(*known) == 0:
        return None
    is_positive = out_type == "uint8" or (out_type == "auto" and known[0] >= 0)
    dtype, top = UINT8 if is_positive else INT8, magnitude(*known)
    low, high = known if is_positive else (-top, top)
    scale = float(levels(dtype) / top)
    made = g.op(TO_BYTES, data, scale=scale, dtype=dtype, multiply=True)
    return made, constant(g, low, "low"), constant(g, high, "high")


def dequantized_by_kernels(
    g: Builder[X], data: X, low: X, high: X, *, out_type: np.dtype
) -> X | None:
    """dequantize(b)  =>  float(b) * unit"""
    t = g.type(data)
    if not t.ndim:
        return None
    most = levels(t.dtype)  # type: ignore[arg-type]
    unit = _once(lambda a, b: np.full(1, magnitude(a, b) / most, FLOAT32), t.dtype, 2)
    factor = reshape(g, g.op(unit, low, high, at="unit"), (1,) * t.ndim, at="factor")
    return g.op(_MULTIPLY, g.op(FROM_BYTES, data, at="float", scale=1.0), factor)


def pooled_by_kernels(
    g: Builder[X], data: X, low: X, high: X, *, pool_type: str, **attrs: Declared
) -> tuple[X, ...] | None:
    """pooling(b)  =>  to_bytes(pooling(float(b))); an average divides the exact sum

    Windows at an edge are divided by the elements of a whole one. A global average divides by the
    size of the image, which may be symbolic.
    """
    t = g.type(data)
    is_divided = pool_type == "avg" and not attrs["global_pool"]
    if is_divided and attrs["count_include_pad"] is False:
        return None
    values = g.op(FROM_BYTES, data, at="float", scale=1.0)
    pooled = g.op(
        POOLING, values, at="pooled", pool_type="sum" if is_divided else pool_type, **attrs
    )
    scale = float(math.prod(attrs["kernel"])) if is_divided else 1.0
    made = g.op(TO_BYTES, pooled, scale=scale, dtype=t.dtype, multiply=scale == 1.0)
    return made, low, high


def joined_by_kernels(g: Builder[X], *operands: X, num_args: int, dim: int) -> tuple[X, ...]:
    """concat(b, c)  =>  concat of bytes, each scaled to the joint range"""
    parts, limits = operands[:num_args], operands[num_args:]
    kinds = [g.type(part).dtype for part in parts]
    dtype = UINT8 if all(kind == UINT8 for kind in kinds) else INT8
    names = "_".join(map(str, kinds))
    factors = _once(lambda *ends: _joint(ends, kinds, dtype), names, 2 * num_args, num_args + 2)
    *made, low, high = g.outputs(factors, *limits, at="range")
    moved = [
        _rescaled(g, part, factor, dtype, i) for i, (part, factor) in enumerate(zip(parts, made))
    ]
    return joined(g, moved, dim), low, high


def _rescaled(g: Builder[X], part: X, factor: X, dtype: np.dtype, i: int) -> X:
    factor = reshape(g, factor, (1,) * g.type(part).ndim, at=f"factor{i}")
    values = g.op(FROM_BYTES, part, at=f"float{i}", scale=1.0)
    scaled = g.op(_MULTIPLY, values, factor, at=f"scaled{i}")
    return g.op(TO_BYTES, scaled, at=f"bytes{i}", scale=1.0, dtype=dtype, multiply=True)


def _joint(
    limits: Sequence[np.ndarray], kinds: Sequence[Any], dtype: np.dtype
) -> tuple[np.ndarray, ...]:
    """The factor of each part, and the joint range."""
    lows, highs = [first(x) for x in limits[::2]], [first(x) for x in limits[1::2]]
    low, high = min(np.float32(0), *lows), max(np.float32(0), *highs)
    wide = scale_of(dtype, low, high)
    own = [scale_of(kind, a, b) for kind, a, b in zip(kinds, lows, highs)]
    factors = [np.float32(1) if scale == wide else wide / scale for scale in own]
    return tuple(np.full(1, x, FLOAT32) for x in (*factors, low, high))

"""Operators on bytes that keep their form: pooling, concat, sums, batch norm, relu, embedding."""

from __future__ import annotations

import numpy as np

from ..._core.types import FLOAT32, TensorType, merge_shapes, product
from ...errors import AttributeValueError, DTypeError, ShapeError
from ..attrs import AttrValue, Declared
from ..nn.embedding_table import EMBEDDING
from ..nn.pool_windows import (
    POOLING_ATTRS,
    divisors_of,
    infer_pooling,
    pool_window,
    pooled_sizes,
    taps_of,
)
from ..nn.window_geometry import is_channel_last
from ..registry import register
from ..rules import Types, fill, merged
from ..tensor.joining import concat_types
from .lowered import joined_by_kernels, pooled_by_kernels
from .ranges import (
    CALIBRATED,
    INT8,
    INT32,
    SUMS,
    UINT8,
    calibrated,
    dense_range,
    ends,
    first,
    levels,
    magnitude,
    ranges,
    require_bytes,
    saturated,
    scale_of,
    symmetric,
    untrainable,
    with_range,
)

Result = tuple[np.ndarray, np.ndarray, np.ndarray]
_OUTPUTS = ("output", "min_output", "max_output")
_ONE = "data min_data max_data"


# Pooling


def _infer_pooling(
    ins: Types, outs: Types, *, pool_type: str, layout: str | None, **attrs: Declared
) -> tuple[Types, Types]:
    require_bytes("data", ins[0])
    if pool_type not in ("max", "avg"):
        raise AttributeValueError(f"pool_type of bytes must be max or avg, got {pool_type}")
    data = ins[0].with_dtype(FLOAT32)
    if data.shape is not None and is_channel_last(layout, len(data.shape) - 2):
        raise AttributeValueError(f"layout {layout} of bytes is not supported: use NCHW")
    made = (outs[0].with_dtype(FLOAT32),) if outs else ()
    (data,), found = infer_pooling((data,), made, pool_type=pool_type, layout=layout, **attrs)
    dtype = ins[0].dtype
    out = found[0].with_dtype(dtype) if found else TensorType(None, dtype)
    return (data.with_dtype(dtype), *ranges(ins[1:])), merged(outs, with_range(out))


def _pooling(
    data: np.ndarray, low: np.ndarray, high: np.ndarray, *, pool_type: str, **attrs: Declared
) -> Result:
    """Maximum of bytes; averages are rounded to even."""
    pooled = _average if pool_type == "avg" else _maximum
    return (pooled(data, **attrs), *ends(low, high))


def _maximum(data: np.ndarray, *, global_pool: bool, **attrs: Declared) -> np.ndarray:
    lowest = np.iinfo(data.dtype).min
    if global_pool:
        axes = tuple(range(2, data.ndim))
        return np.max(data, axis=axes, keepdims=True, initial=lowest)
    window = pool_window(data.ndim - 2, **attrs)
    out = pooled_sizes(window, data.shape[2:], attrs["pooling_convention"])
    return np.max(taps_of(data, window, out, lowest), axis=0)  # type: ignore[arg-type]


def _average(
    data: np.ndarray, *, global_pool: bool, count_include_pad: bool | None, **attrs: Declared
) -> np.ndarray:
    if global_pool:
        axes = tuple(range(2, data.ndim))
        sums = data.sum(axis=axes, keepdims=True, dtype=INT32)
        return _mean(sums, np.full((), max(product(data.shape[2:]), 1)), data.dtype)
    window = pool_window(data.ndim - 2, **attrs)
    out = pooled_sizes(window, data.shape[2:], attrs["pooling_convention"])
    taps = taps_of(data.astype(INT32), window, out, 0)  # type: ignore[arg-type]
    counts = np.full((), len(taps))
    if count_include_pad is False:
        counts = divisors_of(data.shape[2:], window, out, False)  # type: ignore[arg-type]
    return _mean(np.sum(taps, axis=0, dtype=INT32), counts, data.dtype)


def _mean(sums: np.ndarray, counts: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Averages, ties to even.

    oneDNN divides too, except after a convolution, where it multiplies by the float32 reciprocal:
    there MXNet rounds some ties away from even.
    """
    return saturated(sums.astype(np.float64) / counts, dtype)


register(
    "_contrib_quantized_pooling",
    _ONE,
    POOLING_ATTRS,
    infer=_infer_pooling,
    ref=_pooling,
    expand=pooled_by_kernels,
    grad=untrainable("_contrib_quantized_pooling"),
    outputs=_OUTPUTS,
    doc="Maximum or average of bytes over windows; the range is that of the data.",
)


# Concatenation


def _concat_names(*, num_args: int, **attrs: AttrValue) -> tuple[str, ...]:
    names = [f"arg{i}" for i in range(num_args)]
    return (*names, *(f"{name}_{end}" for name in names for end in ("min", "max")))


def _infer_concat(ins: Types, outs: Types, *, num_args: int, dim: int) -> tuple[Types, Types]:
    parts = ins[:num_args]
    for i, t in enumerate(parts):
        require_bytes(f"arg{i}", t)
    plain = tuple(t.with_dtype(FLOAT32) for t in parts)
    made = (outs[0].with_dtype(FLOAT32),) if outs else ()
    shapes, (out,) = concat_types(plain, made, num_args=num_args, dim=dim)
    kinds = {t.dtype for t in parts}
    dtype = INT8 if INT8 in kinds else None if None in kinds else UINT8
    found = (s.with_dtype(t.dtype) for s, t in zip(shapes, parts))
    known = with_range(out.with_dtype(dtype))
    return (*found, *ranges(ins[num_args:])), merged(outs, known)


def _concat(*operands: np.ndarray, num_args: int, dim: int) -> Result:
    """Parts of the widest scale are copied, others become rint(b * (s_out / s_in))."""
    parts, limits = operands[:num_args], operands[num_args:]
    lows, highs = [first(x) for x in limits[::2]], [first(x) for x in limits[1::2]]
    low, high = min(np.float32(0), *lows), max(np.float32(0), *highs)
    dtype = UINT8 if all(p.dtype == UINT8 for p in parts) else INT8
    wide = scale_of(dtype, low, high)
    moved = []
    for part, part_low, part_high in zip(parts, lows, highs):
        own = scale_of(part.dtype, part_low, part_high)
        moved.append(part if own == wide else saturated(part.astype(FLOAT32) * (wide / own), dtype))
    return (np.concatenate(moved, axis=dim).astype(dtype), *ends(low, high))


register(
    "_contrib_quantized_concat",
    _concat_names,
    "num_args:int[1,16384]! dim:int=1",
    infer=_infer_concat,
    ref=_concat,
    expand=joined_by_kernels,
    grad=untrainable("_contrib_quantized_concat"),
    outputs=_OUTPUTS,
    doc="Concatenate bytes; the range covers those of all parts and 0.",
)


# Sums and products of two arrays

_TWO = "lhs rhs lhs_min lhs_max rhs_min rhs_max"


def _same_shapes(ins: Types, outs: Types) -> TensorType:
    shape = merge_shapes(ins[0].shape, ins[1].shape)
    return TensorType(merge_shapes(shape, outs[0].shape) if outs else shape, None)


def _infer_add(
    ins: Types, outs: Types, *, min_calib_range: float | None, max_calib_range: float | None
) -> tuple[Types, Types]:
    for name, t in zip(("lhs", "rhs"), ins):
        require_bytes(name, t)
    kinds = {t.dtype for t in ins[:2]}
    dtype: np.dtype | None = INT32
    if calibrated(min_calib_range, max_calib_range):
        dtype = INT8 if INT8 in kinds else None if None in kinds else UINT8
    shape = _same_shapes(ins, outs)
    sides = (shape.with_dtype(t.dtype) for t in ins[:2])
    return (*sides, *ranges(ins[2:])), merged(outs, with_range(shape.with_dtype(dtype)))


def _add(
    lhs: np.ndarray,
    rhs: np.ndarray,
    *limits: np.ndarray,
    min_calib_range: float | None,
    max_calib_range: float | None,
) -> Result:
    known = calibrated(min_calib_range, max_calib_range)
    sides = ((lhs, limits[:2]), (rhs, limits[2:]))
    if known is None:
        return _uncalibrated_sum(*sides)
    dtype = lhs.dtype if lhs.dtype == rhs.dtype else INT8
    scale = scale_of(dtype, *known)
    moved = [_moved(x, scale / scale_of(x.dtype, *limit), dtype) for x, limit in sides]
    return (saturated(moved[0] + moved[1], dtype), *ends(*known))


def _moved(x: np.ndarray, factor: np.float32, dtype: np.dtype) -> np.ndarray:
    """Bytes in the units of the result; uint8 ones of an int8 result are rounded to int8."""
    scaled = x.astype(FLOAT32) * factor
    return scaled if x.dtype == dtype else saturated(scaled, dtype).astype(FLOAT32)


_Side = tuple[np.ndarray, tuple[np.ndarray, ...]]


def _uncalibrated_sum(a: _Side, b: _Side) -> Result:
    """int32 sums, whose range is the sum of both magnitudes.

    Next to int8, uint8 bytes are saturated to int8 in these units, as in MXNet 1.9.1.
    """
    tops = [magnitude(*limits) for _, limits in (a, b)]
    top = tops[0] + tops[1]
    dtype = a[0].dtype if a[0].dtype == b[0].dtype else INT8
    moved = [
        _moved(x, own * SUMS / (top * levels(x.dtype)), dtype) for own, (x, _) in zip(tops, (a, b))
    ]
    total = np.rint(moved[0] + moved[1]).astype(np.float64)
    return (np.clip(total, -(2.0**31), 2.0**31 - 1).astype(INT32), *symmetric(top))


register(
    "_contrib_quantized_elemwise_add",
    _TWO,
    CALIBRATED,
    infer=_infer_add,
    ref=_add,
    grad=untrainable("_contrib_quantized_elemwise_add"),
    outputs=_OUTPUTS,
    doc="Sum of bytes: bytes of a calibrated range, or int32.",
)


def _product_outputs(*, enable_float_output: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return ("output",) if enable_float_output else _OUTPUTS


def _infer_multiply(
    ins: Types,
    outs: Types,
    *,
    min_calib_range: float | None,
    max_calib_range: float | None,
    enable_float_output: bool,
) -> tuple[Types, Types]:
    for name, t in zip(("lhs", "rhs"), ins):
        require_bytes(name, t, (INT8,))
    shape = _same_shapes(ins, outs)
    sides = (shape.with_dtype(INT8),) * 2
    is_calibrated = calibrated(min_calib_range, max_calib_range) is not None
    out = shape.with_dtype(INT8 if is_calibrated else INT32)
    made = (shape.with_dtype(FLOAT32),) if enable_float_output else with_range(out)
    return (*sides, *ranges(ins[2:])), merged(outs, made)


def _multiply(
    lhs: np.ndarray,
    rhs: np.ndarray,
    *limits: np.ndarray,
    min_calib_range: float | None,
    max_calib_range: float | None,
    enable_float_output: bool,
) -> Result | np.ndarray:
    """Products times s_out / s_lhs / s_rhs, truncated; int8 wraps."""
    product_of = lhs.astype(FLOAT32) * rhs
    left, right = (scale_of(INT8, *pair) for pair in (limits[:2], limits[2:]))
    if enable_float_output:
        unit = 1 / np.float64(left) / np.float64(right)
        return product_of * np.float32(unit)
    known = calibrated(min_calib_range, max_calib_range)
    if known is None:
        return (product_of.astype(INT32), *dense_range(INT8, limits[:2], limits[2:]))
    scale = scale_of(INT8, *known) / left / right
    return (np.trunc(product_of * scale).astype(np.int64).astype(INT8), *ends(*known))


register(
    "_contrib_quantized_elemwise_mul",
    _TWO,
    f"{CALIBRATED} enable_float_output:bool=False",
    infer=_infer_multiply,
    ref=_multiply,
    grad=untrainable("_contrib_quantized_elemwise_mul"),
    outputs=_product_outputs,
    doc="Product of int8 arrays: int8 of a calibrated range, int32, or float32.",
)


# Layers of one array


def _infer_batch_norm(
    ins: Types,
    outs: Types,
    *,
    axis: int,
    min_calib_range: float | None,
    max_calib_range: float | None,
    **attrs: AttrValue,
) -> tuple[Types, Types]:
    if calibrated(min_calib_range, max_calib_range) is None:
        raise AttributeValueError(
            "min_calib_range and max_calib_range are required: calibrate the network"
        )
    if axis != 1:
        raise AttributeValueError(f"axis of a quantized BatchNorm must be 1, got {axis}")
    require_bytes("data", ins[0])
    data = ins[0]
    if data.shape is not None and len(data.shape) < 2:
        raise ShapeError(f"data must have at least 2 axes, got {len(data.shape)}")
    channels = (None if data.shape is None else data.shape[1],)
    parameters = tuple(fill(t, channels, FLOAT32) for t in ins[1:5])
    return (data, *parameters, *ranges(ins[5:])), merged(outs, with_range(data.with_dtype(INT8)))


def _batch_norm(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    mean: np.ndarray,
    var: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    eps: float,
    min_calib_range: float,
    max_calib_range: float,
    **attrs: AttrValue,
) -> Result:
    """rint(b * slope + shift) in units of the result, with one rounding of the sum.

    MXNet folds the moving statistics into gamma and beta, whatever ``fix_gamma`` says, and runs
    oneDNN's batch norm with mean 0, variance 1 and the same ``eps``.
    """
    known = (np.float32(min_calib_range), np.float32(max_calib_range))
    if data.dtype == UINT8:
        data = saturated(data.astype(FLOAT32) * (levels(INT8) / levels(UINT8)), INT8)
    inverse = (1 / np.sqrt(var.astype(np.float64) + eps)).astype(FLOAT32)
    slope = gamma * inverse * magnitude(low, high) / magnitude(*known)
    shift = (beta - mean * gamma * inverse) * levels(INT8) / magnitude(*known)
    slope = slope / np.sqrt(np.float32(1) + np.float32(eps))
    along = (1, -1, *(1,) * (data.ndim - 2))
    wide = data * slope.astype(np.float64).reshape(along) + shift.reshape(along)
    return (saturated(wide.astype(FLOAT32), INT8), *ends(*known))


register(
    "_contrib_quantized_batch_norm",
    "data gamma beta *moving_mean *moving_var min_data max_data",
    "eps:double=0.001 momentum:float=0.9 fix_gamma:bool=True use_global_stats:bool=False "
    f"output_mean_var:bool=False axis:int=1 {CALIBRATED}",
    infer=_infer_batch_norm,
    ref=_batch_norm,
    grad=untrainable("_contrib_quantized_batch_norm"),
    outputs=_OUTPUTS,
    doc="Batch norm of bytes by its moving statistics, int8 of a calibrated range.",
)


def _infer_act(ins: Types, outs: Types, *, act_type: str) -> tuple[Types, Types]:
    if act_type != "relu":
        raise DTypeError(f"act_type of bytes must be relu, got {act_type}: exclude the layer")
    require_bytes("data", ins[0])
    shape = merge_shapes(ins[0].shape, outs[0].shape if outs else None)
    data, out = TensorType(shape, ins[0].dtype), TensorType(shape, INT8)
    return (data, *ranges(ins[1:])), merged(outs, with_range(out))


register(
    "_contrib_quantized_act",
    _ONE,
    "act_type:relu|sigmoid|softrelu|softsign|tanh!",
    infer=_infer_act,
    ref=lambda data, low, high, act_type: (np.maximum(data, 0).view(INT8), *ends(low, high)),
    grad=untrainable("_contrib_quantized_act"),
    outputs=_OUTPUTS,
    doc="Relu of bytes, whose bits become int8; the range is that of the data.",
)


def _infer_flatten(ins: Types, outs: Types) -> tuple[Types, Types]:
    require_bytes("data", ins[0])
    shape = ins[0].shape
    flat = None
    if shape is not None:
        if not shape:
            raise ShapeError("data has shape (), Flatten needs at least one axis")
        rest = shape[1:]
        flat = (shape[0], None if None in rest else product(rest))  # type: ignore[arg-type]
    out = TensorType(flat, ins[0].dtype)
    return (ins[0], *ranges(ins[1:])), merged(outs, with_range(out))


register(
    "_contrib_quantized_flatten",
    _ONE,
    infer=_infer_flatten,
    ref=lambda data, low, high: (
        data.reshape(data.shape[0], product(data.shape[1:])).copy(),
        *ends(low, high),
    ),
    grad=untrainable("_contrib_quantized_flatten"),
    outputs=_OUTPUTS,
    doc="Bytes as a matrix; the range is that of the data.",
)


def _infer_embedding(
    ins: Types, outs: Types, *, dtype: np.dtype, **attrs: Declared
) -> tuple[Types, Types]:
    require_bytes("weight", ins[1], (INT8,))
    table = (ins[0], ins[1].with_dtype(INT8))
    found, made = EMBEDDING.infer(table, outs[:1], dtype=np.dtype(INT8), **attrs)
    out = made[0] if made else TensorType(None, INT8)
    return (*found, *ranges(ins[2:])), merged(outs, with_range(out.with_dtype(INT8)))


def _embedding(
    data: np.ndarray, weight: np.ndarray, low: np.ndarray, high: np.ndarray, **attrs: Declared
) -> Result:
    return (np.asarray(EMBEDDING.ref(data, weight, **attrs)), *ends(low, high))


register(
    "_contrib_quantized_embedding",
    "data weight min_weight max_weight",
    "input_dim:int! output_dim:int! dtype:dtype=float32 sparse_grad:bool=False",
    infer=_infer_embedding,
    ref=_embedding,
    grad=untrainable("_contrib_quantized_embedding"),
    outputs=_OUTPUTS,
    doc="Rows of an int8 weight by index; the range is that of the weight.",
)

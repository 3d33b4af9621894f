"""Conversion between float32 values, bytes and int32 sums: quantize, dequantize, requantize.

R is the magnitude of a range, ``rint`` rounds to even, and all scales are float32.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import FLOAT32
from ...errors import AttributeValueError
from ..attrs import AttrValue
from ..record import Traits
from ..registry import register
from ..rules import Types, merged
from .lowered import dequantized_by_kernels, quantized_by_kernels
from .ranges import (
    BYTES,
    CALIBRATED,
    INT8,
    INT32,
    SUMS,
    UINT8,
    calibrated,
    ends,
    levels,
    magnitude,
    ranges,
    require_bytes,
    saturated,
    symmetric,
    untrainable,
    whole_levels,
    with_range,
)

Result = tuple[np.ndarray, np.ndarray, np.ndarray]
_OUTPUTS = ("output0", "output1", "output2")


def _chosen_type(out_type: str, low: float | None, high: float | None) -> np.dtype:
    """The type of bytes: ``auto`` is uint8 if the calibrated minimum is not negative."""
    if out_type != "auto":
        return np.dtype(out_type)
    known = calibrated(low, high)
    return UINT8 if known and known[0] >= 0 else INT8


def _range_of(dtype: np.dtype, low: object, high: object) -> tuple[np.ndarray, np.ndarray]:
    return symmetric(magnitude(low, high)) if dtype == INT8 else ends(low, high)


def _infer_quantize(
    ins: Types, outs: Types, *, out_type: str, **attrs: AttrValue
) -> tuple[Types, Types]:
    require_bytes("data", ins[0], (FLOAT32,))
    data = ins[0].with_dtype(FLOAT32)
    found = with_range(data.with_dtype(np.dtype(out_type)))
    return (data, *ranges(ins[1:])), merged(outs, found)


def _quantize(data: np.ndarray, low: np.ndarray, high: np.ndarray, *, out_type: str) -> Result:
    """rint(x * (127 / R)) as int8, rint(x * (255 / R)) as uint8."""
    dtype = np.dtype(out_type)
    factor = whole_levels(dtype) / magnitude(low, high)
    return (saturated(data * factor, dtype), *_range_of(dtype, low, high))


QUANTIZE = register(
    "_contrib_quantize",
    "data min_range max_range",
    "out_type:int8|uint8=uint8",
    infer=_infer_quantize,
    ref=_quantize,
    grad=untrainable("_contrib_quantize"),
    outputs=_OUTPUTS,
    doc="Bytes of float32 values with a given range, 127 or 255 levels.",
)


def _infer_quantize_v2(
    ins: Types,
    outs: Types,
    *,
    out_type: str,
    min_calib_range: float | None,
    max_calib_range: float | None,
) -> tuple[Types, Types]:
    require_bytes("data", ins[0], (FLOAT32, *BYTES))
    dtype = _chosen_type(out_type, min_calib_range, max_calib_range)
    return ins, merged(outs, with_range(ins[0].with_dtype(dtype)))


def _quantize_v2(
    data: np.ndarray,
    *,
    out_type: str,
    min_calib_range: float | None,
    max_calib_range: float | None,
) -> Result:
    """rint(x * (127.5 / R)) as int8, rint(x * (255.5 / R)) as uint8; bytes are unchanged.

    Without calibration the range is that of the whole batch.
    """
    dtype = _chosen_type(out_type, min_calib_range, max_calib_range)
    known = calibrated(min_calib_range, max_calib_range)
    if data.dtype in BYTES:
        top = levels(data.dtype)
        low, high = known or (-top if data.dtype == INT8 else 0, top)
        return (np.ascontiguousarray(data).view(dtype).copy(), *ends(low, high))
    low, high = known or _extremes(data)
    factor = levels(dtype) / magnitude(low, high)
    return (saturated(data * factor, dtype), *_range_of(dtype, low, high))


def _extremes(data: np.ndarray) -> tuple[np.floating, np.floating]:
    """Minimum and maximum without NaN, (0, 0) of an empty array."""
    if not data.size:
        return np.float32(0), np.float32(0)
    return np.fmin.reduce(data, axis=None), np.fmax.reduce(data, axis=None)


QUANTIZE_V2 = register(
    "_contrib_quantize_v2",
    "data",
    f"out_type:auto|int8|uint8=int8 {CALIBRATED}",
    infer=_infer_quantize_v2,
    ref=_quantize_v2,
    expand=quantized_by_kernels,
    traits=Traits(parts_on_host=True),
    grad=untrainable("_contrib_quantize_v2"),
    outputs=_OUTPUTS,
    doc="Bytes of float32 values with a calibrated range or that of the batch.",
)


def _infer_dequantize(ins: Types, outs: Types, *, out_type: np.dtype) -> tuple[Types, Types]:
    if out_type != FLOAT32:
        raise AttributeValueError(f"out_type must be float32, got {out_type.name}")
    require_bytes("data", ins[0])
    return (ins[0], *ranges(ins[1:])), merged(outs, (ins[0].with_dtype(FLOAT32),))


def _dequantize(
    data: np.ndarray, low: np.ndarray, high: np.ndarray, *, out_type: np.dtype
) -> np.ndarray:
    """b * (R / 127.5) of int8, b * (R / 255.5) of uint8."""
    return data.astype(FLOAT32) * (magnitude(low, high) / levels(data.dtype))


DEQUANTIZE = register(
    "_contrib_dequantize",
    "data min_range max_range",
    "out_type:dtype=float32",
    infer=_infer_dequantize,
    ref=_dequantize,
    expand=dequantized_by_kernels,
    grad=untrainable("_contrib_dequantize"),
    doc="Float32 values of bytes with their range.",
)


def _infer_requantize(
    ins: Types,
    outs: Types,
    *,
    out_type: str,
    min_calib_range: float | None,
    max_calib_range: float | None,
) -> tuple[Types, Types]:
    require_bytes("data", ins[0], (INT32,))
    data = ins[0].with_dtype(INT32)
    dtype = _chosen_type(out_type, min_calib_range, max_calib_range)
    return (data, *ranges(ins[1:])), merged(outs, with_range(data.with_dtype(dtype)))


def _requantize(
    data: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    out_type: str,
    min_calib_range: float | None,
    max_calib_range: float | None,
) -> Result:
    """rint(i * (R_in / 2147483647 * (127 / R_out))), 255 for uint8.

    R_out is that of the calibrated range, or of the largest sum.
    """
    dtype = _chosen_type(out_type, min_calib_range, max_calib_range)
    known = calibrated(min_calib_range, max_calib_range)
    unit = magnitude(low, high) / SUMS
    top = magnitude(*known) if known else _largest(data, magnitude(low, high))
    made = saturated(data.astype(FLOAT32) * (unit * (whole_levels(dtype) / top)), dtype)
    return (made, *(symmetric(top) if dtype == INT8 else ends(0, top)))


def _largest(data: np.ndarray, top: np.float32) -> np.float32:
    """Largest magnitude of sums whose range ends at ``top``, 0 of an empty array."""
    if not data.size:
        return np.float32(0)
    most = max(abs(int(data.min())), abs(int(data.max())))
    return np.float32(most) * top / SUMS


REQUANTIZE = register(
    "_contrib_requantize",
    "data min_range max_range",
    f"out_type:auto|int8|uint8=int8 {CALIBRATED}",
    infer=_infer_requantize,
    ref=_requantize,
    grad=untrainable("_contrib_requantize"),
    outputs=_OUTPUTS,
    doc="Bytes of int32 sums with a calibrated range or that of the sums.",
)

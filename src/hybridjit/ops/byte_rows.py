"""Softmax and layer norm of dequantized bytes: kernels dequantize a row at a time, in the cache.

The pass ``lower-integers`` creates the operators.
"""

from __future__ import annotations

import numpy as np

from .._core.types import FLOAT32, TensorType
from ..errors import DTypeError
from .attrs import AttrValue
from .gradient import none_at_all
from .nn.normalization import LAYER_NORM
from .nn.softmax import softmax_along
from .quantized import BYTES, FROM_BYTES
from .registry import register
from .rules import forward


def _types(data: TensorType, *others: TensorType, **attrs: AttrValue) -> TensorType:
    if data.dtype not in BYTES or any(t.dtype != FLOAT32 for t in others):
        raise DTypeError(
            "rows of bytes are int8 or uint8, their factors and offsets float32, got "
            f"{', '.join(map(str, (data, *others)))}"
        )
    return data.with_dtype(FLOAT32)


def _values(data: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return np.asarray(FROM_BYTES.ref(data, scale=scale, zero=zero))


def _softmax(data: np.ndarray, *, axis: int, scale: float, zero: int) -> np.ndarray:
    return softmax_along(_values(data, scale, zero), axis)


BYTE_SOFTMAX = register(
    "_byte_softmax",
    "data",
    "scale:double! zero:int=0 axis:int=-1",
    internal=True,
    kernel="byte_softmax",
    infer=forward(_types),
    ref=_softmax,
    grad=none_at_all,
    doc="Softmax of (x - zero) * scale of bytes.",
)


def _layer_norm(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    *,
    axis: int,
    eps: float,
    scale: float,
    zero: int,
) -> np.ndarray:
    attrs = {"axis": axis, "eps": eps, "output_mean_var": False}
    return np.asarray(LAYER_NORM.ref(_values(data, scale, zero), gamma, beta, **attrs))


BYTE_LAYER_NORM = register(
    "_byte_layer_norm",
    "data gamma beta",
    "scale:double! zero:int=0 axis:int=-1 eps:float=1e-05",
    internal=True,
    kernel="byte_norm",
    infer=forward(_types),
    ref=_layer_norm,
    grad=none_at_all,
    doc="Layer norm of (x - zero) * scale of bytes.",
)

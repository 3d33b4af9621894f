"""Samples of operators on values in 8 bits."""

from __future__ import annotations

import numpy as np

from hybridjit._core.types import TensorType
from hybridjit.errors import AttributeValueError, DTypeError, ShapeError
from sampling import add, bad

_F32, _S8, _U8 = (np.dtype(name) for name in ("float32", "int8", "uint8"))
_UNSIGNED = {"scale": "0.0314", "zero": "7", "dtype": "uint8"}
_SIGNED = {"scale": "31.5", "dtype": "int8", "multiply": "True"}
ELEMENTWISE: dict[str, list[dict[str, str]]] = {
    "_to_bytes": [_UNSIGNED, _SIGNED],
    "_from_bytes": [{"scale": "0.0314", "zero": "7"}, {"scale": "1.5"}],
    "_ranged": [{"low": "-1.5", "high": "2"}],
}


def _bytes(*shape: int, dtype: np.dtype = _S8) -> np.ndarray:
    info = np.iinfo(dtype)
    random = np.random.default_rng(len(shape) + sum(shape))
    return random.integers(info.min, info.max + 1, shape).astype(dtype)


def _bias(size: int) -> np.ndarray:
    return np.arange(size, dtype=np.int32) * 1000 - 1500


def declare() -> None:
    _conversions()
    _convolutions()
    _dense_layers()
    _nibbles()
    _poolings()


def _conversions() -> None:
    ties = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -0.0, 2.0**23 + 1, 1e30, -np.inf], np.float32)
    add("_round_even", np.append(ties, np.float32("nan")))
    add("_to_bytes", np.append(ties, np.float32("nan")), scale=1.0, zero=3, dtype_="uint8")
    add("_to_bytes", 100 * ties, scale=1.0, zero=-3, dtype_="int8")
    add("_from_bytes", _bytes(3, 17), scale=0.125, zero=-5)
    add("_weight_from_bytes", _bytes(4, 3, 2), np.array([1, 2, 0.5, 3], np.float32))
    add("_weight_from_bytes", _bytes(4, 3), np.array([1, 2, 0.5], np.float32), axis=1)
    add("_weight_from_bytes", _bytes(4, 3), np.array([0.1], np.float32))
    points, scales = np.array([-128, 127, 3], np.int8), np.array([1, 2, 0.5], np.float32)
    add("_weight_from_bytes", _bytes(4, 3), scales, points, axis=1, no_zero=False)
    add("_zero_bias", _bytes(4, 3, 3, 2), zero=113, no_bias=True)
    add("_zero_bias", _bytes(4, 7), _bias(4), zero=-5)
    filters = np.linspace(-1, 1, 40, dtype=np.float32).reshape(4, 5, 2)
    filters[2] = 0
    add("_filter_scale", filters)
    add("_filter_bytes", filters, np.array([1 / 127, 0.01, 1, 0.1], np.float32))
    x = TensorType((3,), _F32)
    bad("_ranged", x, error=AttributeValueError, says="low=2.0", low=2.0, high=1.0)
    bad("_ranged", x, error=AttributeValueError, says="finite", low=0.0, high=float("inf"))
    bad("_to_bytes", x, error=AttributeValueError, says="positive", scale=0.0, dtype_="int8")
    bad("_to_bytes", x, error=AttributeValueError, says="255", scale=1.0, zero=256, dtype_="uint8")
    bad("_to_bytes", x, error=DTypeError, says="int8 or uint8", scale=1.0, dtype_="int32")
    bad("_from_bytes", x, error=DTypeError, says="int8 or uint8", scale=1.0)
    w = TensorType((4, 3), _S8)
    bad("_weight_from_bytes", w, x, error=AttributeValueError, says="axis 0")
    bad("_weight_from_bytes", w, x, TensorType((1,), _S8), error=AttributeValueError,
        says="zero points of weights are int8", axis=1, no_zero=False)  # fmt: skip


def _convolutions() -> None:
    filters = {"kernel": (3, 3), "num_filter": 5}
    add("_integer_convolution", _bytes(2, 6, 7, 8, dtype=_U8), _bytes(5, 6, 3, 3), _bias(5),
        pad=(1, 1), zero=131, **filters)  # fmt: skip
    add("_integer_convolution", _bytes(2, 7, 8, 6, dtype=_U8), _bytes(5, 3, 3, 6), no_bias=True,
        layout="NHWC", stride=(2, 1), **filters)  # fmt: skip
    add("_integer_convolution", _bytes(1, 6, 9, 9), _bytes(4, 3, 1, 1), no_bias=True,
        kernel=(1, 1), num_filter=4, num_group=2, zero=-7)  # fmt: skip
    add("_integer_convolution", _bytes(2, 5, 11), _bytes(3, 5, 4), no_bias=True, kernel=(4,),
        pad=(2,), dilate=(2,), num_filter=3, zero=20)  # fmt: skip
    add("_integer_convolution", _bytes(1, 3, 4, 5, 4, dtype=_U8), _bytes(4, 3, 2, 2, 2),
        no_bias=True, kernel=(2, 2, 2), num_filter=4)  # fmt: skip
    x, w = TensorType((1, 3, 5, 5), _S8), TensorType((5, 3, 3, 3), _F32)
    bad("_integer_convolution", x, w, error=DTypeError, says="int8", no_bias=True, **filters)
    w = TensorType((5, 4, 3, 3), _S8)
    bad("_integer_convolution", x, w, error=ShapeError, says="channels", no_bias=True, **filters)


def _poolings() -> None:
    window = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "max"}
    add("_byte_pooling", _bytes(2, 5, 7, 8, dtype=_U8), **window)
    add("_byte_pooling", _bytes(2, 7, 8, 70, dtype=_U8), layout="NHWC", **window)
    add("_byte_pooling", _bytes(1, 3, 9), kernel=(2,), pool_type="max")
    add("_byte_pooling", _bytes(2, 3, 4, 4), global_pool=True, pool_type="max")
    x = TensorType((1, 3, 5, 5), _S8)
    bad("_byte_pooling", x, error=DTypeError, says="maximum", kernel=(2, 2), pool_type="avg")


def _nibbles() -> None:
    """Rows that fill tiles and others, filters that fill vectors and others, blocks of words."""
    for rows, size, filters, block in ((1, 64, 70, 32), (5, 48, 19, 16), (6, 8, 3, 8)):
        weight = _bytes(filters, size // 2, dtype=_U8)
        data = np.linspace(-1, 1, rows * size, dtype=np.float32).reshape(rows, size)
        scale = np.linspace(0.01, 0.1, filters * size // block, dtype=np.float32)
        scale = scale.reshape(filters, -1)
        add("_nibble_dense", data, weight, scale, block=block)
        add("_nibble_dense", data[:, None], weight, scale, 100 * scale, block=block, has_zeros=True)
        add("_weight_from_nibbles", weight, scale, block=block)
        add("_weight_from_nibbles", weight, scale, 100 * scale, block=block, has_zeros=True)
    x, w, s = TensorType((2, 32), _F32), TensorType((4, 16), _U8), TensorType((4, 2), _F32)
    bad("_nibble_dense", x, TensorType((4, 16), _S8), s, error=DTypeError, says="uint8", block=16)
    bad("_nibble_dense", x, w, s, error=AttributeValueError, says="multiple of 8", block=12)
    bad("_nibble_dense", x, w, s, error=ShapeError, says="scales", block=32)
    bad("_nibble_dense", x, TensorType((4, 8), _U8), s, error=ShapeError, says="weight", block=16)
    bad("_weight_from_nibbles", w, s, error=ShapeError, says="scales", block=32)
    bad("_weight_from_nibbles", TensorType((4,), _U8), s, error=ShapeError, says="weight", block=16)


def _dense_layers() -> None:
    add("_integer_dense", _bytes(3, 10, dtype=_U8), _bytes(7, 10), _bias(7), num_hidden=7, zero=9)
    add("_integer_dense", _bytes(3, 2, 5), _bytes(4, 10), no_bias=True, num_hidden=4)
    add("_integer_dense", _bytes(2, 3, 70), _bytes(20, 70), no_bias=True, num_hidden=20,
        flatten=False, zero=-128)  # fmt: skip
    x, w = TensorType((2, 3), _F32), TensorType((4, 3), _S8)
    a, b = _bytes(2, 5, 70, dtype=_U8), _bytes(2, 70, 40)
    add("_integer_batch_dot", a, b, lhs_zero=200, rhs_zero=-7)
    add("_integer_batch_dot", a, _bytes(2, 40, 70, dtype=_U8), rhs_zero=9, transpose_b=True)
    add("_integer_batch_dot", _bytes(1, 1, 3), _bytes(1, 3, 1))
    rows = _bytes(2, 3, 37, dtype=_U8)
    add("_byte_softmax", rows, scale=0.1, zero=9)
    factors = np.linspace(-2, 2, 37, dtype=np.float32)
    add("_byte_layer_norm", rows, factors, factors[::-1].copy(), scale=0.1, zero=9)
    add("_byte_layer_norm", _bytes(4, 8), factors[:8], factors[8:16], scale=0.1, eps=0.01)
    bad("_byte_softmax", TensorType((2, 3), _F32), error=DTypeError, says="float32", scale=0.1)
    one, other = TensorType((2, 5, 7), _U8), TensorType((2, 6, 4), _S8)
    bad("_integer_batch_dot", one, other, error=ShapeError, says="batch, size")
    bad("_integer_batch_dot", one, TensorType((2, 7, 4), _F32), error=DTypeError, says="float32")
    bad("_integer_dense", x, w, error=DTypeError, says="int8", num_hidden=4, no_bias=True)

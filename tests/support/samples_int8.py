"""Samples of the operators on 8-bit values."""

from __future__ import annotations

import numpy as np

from hybridjit._core.types import TensorType
from hybridjit.errors import AttributeValueError, DTypeError, ShapeError
from sampling import add, bad

I8, U8, F32, F64 = (np.dtype(t) for t in ("int8", "uint8", "float32", "float64"))
RANDOM = np.random.default_rng(41)


def values(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


def bytes_of(dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, endpoint=True, dtype=dtype)


def end(value: float) -> np.ndarray:
    return np.full(1, value, np.float32)


RANGE = (end(-1.5), end(2.25))


def conversions() -> None:
    quantize, second = "_contrib_quantize", "_contrib_quantize_v2"
    for kind in ("int8", "uint8"):
        for shape in ((), (7,), (2, 0, 3), (2, 3, 4, 5)):
            add(quantize, values(*shape), *RANGE, out_type=kind)
            add(second, values(*shape), out_type=kind)
            add(second, values(*shape), out_type=kind, min_calib_range=-1.0, max_calib_range=1.5)
            add("_contrib_dequantize", bytes_of(kind, *shape), *RANGE)
    add(second, bytes_of("int8", 3, 4))
    add(second, bytes_of("uint8", 3, 4), out_type="uint8")
    add(second, values(9), out_type="auto", min_calib_range=0.0, max_calib_range=1.5)
    add(second, values(9), out_type="auto", min_calib_range=-0.5, max_calib_range=1.5)
    sums = RANDOM.integers(-(10**6), 10**6, (2, 3, 5), dtype=np.int32)
    for kind in ("int8", "uint8", "auto"):
        add("_contrib_requantize", sums, end(-9e4), end(9e4), out_type=kind)
        add("_contrib_requantize", sums, end(-9e4), end(9e4), out_type=kind,
            min_calib_range=0.0, max_calib_range=30.0)  # fmt: skip
    add("_contrib_requantize", sums[:0], end(-9e4), end(9e4))
    types = TensorType((3,), F64), TensorType((1,), F32), TensorType((1,), F32)
    bad(quantize, *types, error=DTypeError, says="data must be float32, got float64")
    bad(quantize, (3,), (2,), (1,), error=ShapeError, says="(2)")
    bad(second, (3,), error=AttributeValueError, says="takes finite float?",
        min_calib_range=float("nan"), max_calib_range=1.0)  # fmt: skip
    bad("_contrib_dequantize", (3,), (1,), (1,), error=DTypeError, says="int8 or uint8, got f")
    bad("_contrib_dequantize", TensorType((3,), I8), (1,), (1,), error=AttributeValueError,
        says="out_type must be float32, got float64", out_type="float64")  # fmt: skip
    bad("_contrib_requantize", TensorType((3,), I8), (1,), (1,), error=DTypeError,
        says="data must be int32, got int8")  # fmt: skip


def products() -> None:
    conv, dense = "_contrib_quantized_conv", "_contrib_quantized_fully_connected"
    x, limits = bytes_of("uint8", 2, 6, 9, 8), (end(0), end(3), end(-0.5), end(0.25))
    w = bytes_of("int8", 4, 6, 3, 3)
    add(conv, x, w, *limits, kernel=(3, 3), num_filter=4, no_bias=True)
    add(conv, x, w, bytes_of("int8", 4), *limits, end(-1), end(1), kernel=(3, 3), num_filter=4,
        pad=(1, 2), stride=(2, 1), dilate=(1, 2))  # fmt: skip
    add(conv, x, bytes_of("int8", 4, 3, 1, 2), *limits, kernel=(1, 2), num_filter=4, num_group=2,
        no_bias=True)  # fmt: skip
    add(conv, x[:0], w, *limits, kernel=(3, 3), num_filter=4, no_bias=True)
    deep, filters = bytes_of("uint8", 1, 70, 5, 5), bytes_of("int8", 3, 70, 3, 3)
    add(conv, deep, filters, *limits, kernel=(3, 3), num_filter=3, no_bias=True)
    signed = TensorType((2, 6, 9, 8), I8), TensorType((4, 6, 3, 3), I8)
    bad(conv, *signed, *(TensorType((1,), F32),) * 4, error=DTypeError,
        says="data must be uint8, got int8", kernel=(3, 3), num_filter=4, no_bias=True)  # fmt: skip
    last = TensorType((2, 9, 8, 6), U8), TensorType((4, 3, 3, 6), I8)
    bad(conv, *last, *(TensorType((1,), F32),) * 4, error=DTypeError, says="use NCHW",
        kernel=(3, 3), num_filter=4, no_bias=True, layout="NHWC")  # fmt: skip
    for kind in ("int8", "uint8"):
        rows = bytes_of(kind, 3, 2, 5)
        add(dense, rows, bytes_of("int8", 4, 10), *limits, num_hidden=4, no_bias=True)
        add(dense, rows, bytes_of("int8", 4, 5), bytes_of("int8", 4), *limits, end(-1), end(1),
            num_hidden=4, flatten=False)  # fmt: skip
    add(dense, bytes_of("int8", 0, 5), bytes_of("int8", 4, 5), *limits, num_hidden=4, no_bias=True)
    bad(dense, (2, 5), (4, 5), *(TensorType((1,), F32),) * 4, error=DTypeError,
        says="data must be int8 or uint8, got float32", num_hidden=4, no_bias=True)  # fmt: skip


def layers() -> None:
    pool, x = "_contrib_quantized_pooling", bytes_of("int8", 2, 3, 7, 6)
    for kind in ("int8", "uint8"):
        x = bytes_of(kind, 2, 3, 7, 6)
        add(pool, x, *RANGE, kernel=(3, 2), stride=(2, 2), pad=(1, 1))
        add(pool, x, *RANGE, kernel=(2, 2), pool_type="avg", pooling_convention="full")
        add(pool, x, *RANGE, kernel=(3, 3), pool_type="avg", pad=(1, 1), count_include_pad=False)
        add(pool, x, *RANGE, global_pool=True, pool_type="avg")
        add(pool, x, *RANGE, global_pool=True)
        add("_contrib_quantized_act", x, *RANGE, act_type="relu")
        add("_contrib_quantized_flatten", x, *RANGE)
        add("_contrib_quantized_elemwise_add", x, x[::-1], *RANGE, end(-1), end(1))
        for other in ("int8", "uint8"):
            y = bytes_of(other, 2, 3, 7, 6)
            add("_contrib_quantized_elemwise_add", x, y, *RANGE, end(-1), end(1),
                min_calib_range=-2.0, max_calib_range=3.0)  # fmt: skip
            add("_contrib_quantized_concat", x, y[:, :2], *RANGE, end(-1), end(1), num_args=2)
    add(pool, x[:0], *RANGE, kernel=(2, 2))
    limits = (TensorType((1,), F32),) * 2
    bad(pool, TensorType((2, 3, 7, 6), I8), *limits, error=AttributeValueError,
        says="pool_type of bytes must be max or avg, got sum", kernel=(2, 2),
        pool_type="sum")  # fmt: skip
    bad(pool, TensorType((2, 3, 7, 6), I8), *limits, error=AttributeValueError,
        says="use NCHW", kernel=(2, 2), layout="NHWC")  # fmt: skip
    bad("_contrib_quantized_act", TensorType((2, 3), I8), *limits, error=DTypeError,
        says="act_type of bytes must be relu, got tanh", act_type="tanh")  # fmt: skip
    bad("_contrib_quantized_concat", (2, 3), (2, 3), *limits, *limits, error=DTypeError,
        says="arg0 must be int8 or uint8", num_args=2)  # fmt: skip
    a, b = bytes_of("int8", 4, 5), bytes_of("int8", 4, 5)
    mul, four = "_contrib_quantized_elemwise_mul", (*RANGE, end(-1), end(1))
    add(mul, a, b, *four)
    add(mul, a, b, *four, min_calib_range=-0.2, max_calib_range=0.3)
    add(mul, a, b, *four, enable_float_output=True)
    bad(mul, TensorType((4,), U8), TensorType((4,), I8), *limits, *limits, error=DTypeError,
        says="lhs must be int8, got uint8")  # fmt: skip
    norm = "_contrib_quantized_batch_norm"
    five = (values(3), values(3), values(3), np.abs(values(3)) + 0.5)
    signed = bytes_of("int8", 2, 3, 4)
    add(norm, signed, *five, *RANGE, min_calib_range=-2.0, max_calib_range=1.0, fix_gamma=False)
    add(norm, signed, *five, *RANGE, min_calib_range=-2.0, max_calib_range=1.0)
    channels = (TensorType((3,), F32),) * 4
    bad(norm, TensorType((2, 3, 4), I8), *channels, *limits, error=AttributeValueError,
        says="min_calib_range and max_calib_range are required")  # fmt: skip
    table = bytes_of("int8", 6, 4)
    index = np.array([[0, 5], [7, 2]], np.float32)
    add("_contrib_quantized_embedding", index, table, *RANGE, input_dim=6, output_dim=4)
    entropy = "_contrib_calibrate_entropy"
    counts = np.histogram(RANDOM.normal(0, 1, 4000), 61, (-4, 4))
    hist, edges = (x.astype(np.float32) for x in counts)
    add(entropy, hist, edges, num_quantized_bins=31)
    bad(entropy, (60,), (61,), error=ShapeError, says="odd number of bins", num_quantized_bins=31)
    bad(entropy, (61,), (61,), error=ShapeError, says="(62)", num_quantized_bins=31)


def declare() -> None:
    """List them all."""
    conversions()
    products()
    layers()

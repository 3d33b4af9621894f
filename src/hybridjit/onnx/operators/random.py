"""Readers of ONNX's random operators."""

from __future__ import annotations

import numpy as np

from ...errors import MXNetError
from ...formats.onnx.tensors import dtype_of
from ..importer import Importer, Value
from ..use import Use
from .table import translates


def _drawn(g: Importer, use: Use, op: str, shape: tuple[int, ...], dtype: np.dtype) -> Value:
    """Values of one of two distributions."""
    if "seed" in use:
        raise MXNetError("seed is not supported: all operators share one random generator")
    if op == "_random_uniform":
        return g.op(op, low=use.real("low"), high=use.real("high", 1.0), shape=shape, dtype=dtype)
    return g.op(op, loc=use.real("mean"), scale=use.real("scale", 1.0), shape=shape, dtype=dtype)


_OPS = {"RandomNormal": "_random_normal", "RandomUniform": "_random_uniform"}


@translates(*_OPS)
def draw(g: Importer, use: Use) -> Value:
    """Random values of a given shape."""
    dtype = dtype_of(use.number("dtype", 1), "it")
    return _drawn(g, use, _OPS[use.op_type], use.ints("shape"), dtype)


@translates(*(f"{name}Like" for name in _OPS))
def draw_like(g: Importer, use: Use, x: Value) -> Value:
    """Random values in the shape of the operand."""
    dtype = dtype_of(use.number("dtype"), "it") if "dtype" in use else g.dtype(x)
    return _drawn(g, use, _OPS[use.op_type.removesuffix("Like")], g.shape(x), dtype)


@translates("Multinomial")
def multinomial(g: Importer, use: Use, x: Value) -> Value:
    """Indices drawn by the logarithms of their weights."""
    if "seed" in use:
        raise MXNetError("seed is not supported: all operators share one random generator")
    count, dtype = use.number("sample_size", 1), dtype_of(use.number("dtype", 6), "it")
    weights = g.op("softmax", x, axis=-1, at="weights")
    return g.op("_sample_multinomial", weights, shape=(count,), dtype=dtype)

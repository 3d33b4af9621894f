"""Writers of random operators; ONNX draws different values in each run."""

from __future__ import annotations

import numpy as np

from ...errors import MXNetError
from ...formats.onnx.tensors import CODES
from ..exporter import Exporter, Use, Value
from .table import writes


def _code(use: Use) -> int:
    dtype = use.types[0].dtype
    if dtype is None or dtype.kind != "f":
        raise MXNetError(f"draws {dtype}, but ONNX draws floats only")
    return CODES[np.dtype(dtype)]


@writes("_random_uniform")
def uniform(g: Exporter, use: Use) -> Value:
    """Uniform values between two bounds."""
    low, high = float(use.attrs["low"]), float(use.attrs["high"])
    return g.emit("RandomUniform", shape=use.types[0].dims, dtype=_code(use), low=low, high=high)


@writes("_random_normal")
def normal(g: Exporter, use: Use) -> Value:
    """Normal values."""
    mean, scale = float(use.attrs["loc"]), float(use.attrs["scale"])
    return g.emit("RandomNormal", shape=use.types[0].dims, dtype=_code(use), mean=mean, scale=scale)


@writes("_random_uniform_like")
def uniform_like(g: Exporter, use: Use, x: Value) -> Value:
    """Uniform values between two bounds, in the shape of the operand."""
    low, high = float(use.attrs["low"]), float(use.attrs["high"])
    return g.emit("RandomUniformLike", x, dtype=_code(use), low=low, high=high)


@writes("_random_normal_like")
def normal_like(g: Exporter, use: Use, x: Value) -> Value:
    """Normal values, in the shape of the operand."""
    mean, scale = float(use.attrs["loc"]), float(use.attrs["scale"])
    return g.emit("RandomNormalLike", x, dtype=_code(use), mean=mean, scale=scale)


@writes("_sample_multinomial")
def multinomial(g: Exporter, use: Use, x: Value) -> Value:
    """Indices drawn by probability; ONNX's operand has the logarithms."""
    attrs = use.attrs
    if attrs["get_prob"] or g.rank(x) != 2:
        raise MXNetError("returns probabilities, or its operand is not a matrix of them")
    count = int(np.prod(attrs["shape"] or (1,)))
    dtype = use.types[0].dtype
    assert dtype is not None
    is_whole = dtype in (np.dtype("int32"), np.dtype("int64"))
    code = CODES[dtype] if is_whole else CODES[np.dtype("int64")]
    logs = g.emit("Log", x, at="log")
    drawn = g.emit("Multinomial", logs, at="drawn", sample_size=count, dtype=code)
    made = drawn if is_whole else g.emit("Cast", drawn, at="cast", to=CODES[dtype])
    return g.emit("Reshape", made, g.ints(*use.types[0].dims))

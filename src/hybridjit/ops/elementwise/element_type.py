"""Casts to another dtype: Cast, and the casts of mixed precision.

Input: arrays of any dtype. Output: new C-contiguous arrays of the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.types import UNKNOWN, TensorType, merge, merge_shapes
from ..building import Builder, Many, X
from ..casting import convert, fresh
from ..numbered import Numbered
from ..registry import register
from ..rules import Types
from ..signatures import ScalarBuilder, V


def _cast_types(ins: Types, outs: Types, *, dtype: np.dtype) -> tuple[Types, Types]:
    """Shape inferred in both directions; the result's dtype is the attribute."""
    (data,), out = ins, outs[0] if outs else UNKNOWN
    shape = merge_shapes(data.shape, out.shape)
    return (data.with_shape(shape),), (merge(out, TensorType(shape, dtype)),)


def _cast(data: np.ndarray, *, dtype: np.dtype) -> np.ndarray:
    return fresh(convert(data, dtype), dtype)


def _unless_cast(g: Builder[X], data: X, *, dtype: np.dtype) -> X | None:
    """Cast(x) to the type of x  =>  x"""
    return data if g.type(data).dtype == dtype else None


def _as_result_type(b: ScalarBuilder[V], x: V, *, dtype: np.dtype) -> V:
    """x: operands of a formula are already converted to the result's dtype."""
    return x


def _grad_cast(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, dtype: np.dtype) -> X:
    """Output gradient in the operand's dtype, also through integers."""
    return douts[0]


CAST = register(
    "Cast",
    "data",
    "dtype:dtype!",
    infer=_cast_types,
    ref=_cast,
    scalar=_as_result_type,
    expand=_unless_cast,
    grad=_grad_cast,
    aliases="cast",
    doc="Cast to another element type, with C's conversions.",
)


def cast(g: Builder[X], x: X, dtype: np.dtype | None, at: str = "") -> X:
    """``x`` cast to a dtype; unchanged if it has this dtype."""
    return x if g.type(x).dtype == dtype else g.op(CAST, x, at=at, dtype=dtype)


def _is_mixed(dtype: np.dtype | None) -> bool:
    """Whether mixed precision changes this dtype: not float64 and integers."""
    return dtype is not None and dtype.name in ("float16", "float32")


def _amp_types(ins: Types, outs: Types, *, dtype: np.dtype) -> tuple[Types, Types]:
    (data,) = ins
    if data.dtype is None:
        return ins, outs
    return _cast_types(ins, outs, dtype=dtype if _is_mixed(data.dtype) else data.dtype)


def _unless_amp_cast(g: Builder[X], data: X, *, dtype: np.dtype) -> X | None:
    """amp_cast(x) without effect  =>  x"""
    own = g.type(data).dtype
    return None if _is_mixed(own) and own != dtype else data


AMP_CAST = register(
    "amp_cast",
    "data",
    "dtype:dtype!",
    infer=_amp_types,
    scalar=_as_result_type,
    ref=lambda data, dtype: _cast(data, dtype=dtype if _is_mixed(data.dtype) else data.dtype),
    expand=_unless_amp_cast,
    grad=_grad_cast,
    doc="Cast of float16 and float32; other types do not change.",
)


def _multicast_types(
    ins: Types, outs: Types, *, num_outputs: int, cast_narrow: bool
) -> tuple[Types, Types]:
    """float16 and float32 become the widest (or narrowest) of the given ones."""
    if any(t.dtype is None for t in ins):
        return ins, outs
    target = _common_float([t.dtype for t in ins if t.dtype], cast_narrow)
    found = tuple(t.with_dtype(target) if _is_mixed(t.dtype) else t for t in ins)
    return ins, tuple(merge(a, b) for a, b in zip(outs or found, found))


def _common_float(dtypes: list[np.dtype], narrow: bool) -> np.dtype | None:
    floats = sorted((d for d in dtypes if _is_mixed(d)), key=lambda d: d.itemsize)
    return (floats[0] if narrow else floats[-1]) if floats else None


def _separate_casts(
    g: Builder[X], *inputs: X, num_outputs: int, cast_narrow: bool
) -> tuple[X, ...]:
    """amp_multicast(a, b, ...)  =>  Cast of each"""
    types = tuple(map(g.type, inputs))
    _, wanted = _multicast_types(types, (), num_outputs=num_outputs, cast_narrow=cast_narrow)
    return tuple(cast(g, x, t.dtype, at=str(i)) for i, (x, t) in enumerate(zip(inputs, wanted)))


def _numbered(prefix: str) -> Callable[..., Numbered]:
    return lambda num_outputs, **attrs: Numbered(prefix, num_outputs)


AMP_MULTICAST = register(
    "amp_multicast",
    _numbered("data_"),
    "num_outputs:int[1,16384]! cast_narrow:bool=False",
    infer=_multicast_types,
    expand=_separate_casts,
    outputs=_numbered("output"),
    doc="Cast float16 and float32 inputs to the widest type among them.",
)

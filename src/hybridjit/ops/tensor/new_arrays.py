"""Operators that create arrays: zeros, full, arange, eye, and those shaped like another array.

Input: attributes, or an array of which only the shape is used. Output: a new array. An unknown size
in the ``shape`` attribute is inferred from the users of the result, and so is the length of
``_arange`` with ``infer_range``; :func:`resolved` writes inferred sizes into the attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..._core.shapes import partial_shape
from ..._core.symbolic import Size
from ..._core.types import FLOAT32, PartialShape, TensorType, shape_text
from ...errors import AttributeValueError, ShapeError
from ..attrs import Attrs, AttrValue
from ..building import Builder, X
from ..casting import convert, scalar_of, working_dtype
from ..internal import constant_of_shape
from ..record import PLAIN, GradientStored, OnStored, OpDef, Traits
from ..registry import register
from ..rules import Types, forward, merged, normalized_axis, same_type
from ..signatures import Reference

Shape = tuple[int, ...]


def wanted_shape(shape: Shape | None) -> PartialShape | None:
    """Attribute ``shape`` as a partial shape, by the thread's shape semantics; None remains."""
    if shape and any(size < -1 for size in shape):
        raise ShapeError(f"a shape cannot have negative sizes, got {shape_text(shape)}")
    return partial_shape(shape)


def given_shape(shape: Shape | None) -> Shape:
    """Attribute ``shape`` of an operator that runs eagerly. Raises ShapeError if unknown."""
    if shape is None or min(shape, default=0) < 0:
        raise ShapeError("the shape is unknown and cannot be inferred")
    return shape


def creation_types(
    ins: Types, outs: Types, *, shape: Shape | None, dtype: np.dtype | None, **attrs: AttrValue
) -> tuple[Types, Types]:
    """Type of the attributes, completed by the users of the result."""
    return ins, merged(outs, (TensorType(wanted_shape(shape), dtype or FLOAT32),))


def resolved(op: OpDef, attrs: Attrs, out: TensorType) -> dict[str, object]:
    """Attributes with which an operator without inputs creates an output of exactly this type.

    ``out`` is the inferred type. Attributes of other operators do not change.
    """
    changed = dict(attrs)
    if op.inputs == () and "shape" in attrs:
        changed["shape"] = out.dims
    if attrs.get("infer_range"):
        # Half a step before the end of the last value, so that rounding cannot add a value.
        count = out.size // attrs["repeat"]
        changed["stop"] = attrs["start"] + attrs["step"] * (count - 0.5)
        changed["infer_range"] = False
    return changed


def _filled(name: str, doc: str, attrs: str = "", value: float = 0.0) -> OpDef:
    def ref(shape: Shape, dtype: np.dtype, value: float = value) -> np.ndarray:
        return np.full(given_shape(shape), scalar_of(value, dtype))

    return register(
        name,
        "",
        f"shape:shape?=None dtype:dtype=float32 {attrs}",
        infer=creation_types,
        ref=ref,
        doc=doc,
    )


ZEROS = _filled("_zeros", "Zeros.")
ONES = _filled("_ones", "Ones.", value=1.0)
FULL = _filled("_full", "Array filled with one value.", "value:double!")


def _like(
    name: str,
    value: float,
    constant: OpDef,
    doc: str,
    aliases: str = "",
    traits: Traits = PLAIN,
) -> None:
    def as_constant(g: Builder[X], data: X) -> X | None:
        """zeros_like(x), ones_like(x)  =>  a constant"""
        t = g.type(data)  # an empty shape attribute means an unknown shape
        return g.op(constant, shape=t.dims, dtype=t.dtype) if t.dims else None

    register(
        name,
        "data",
        infer=same_type,
        ref=lambda data: np.full(data.shape, value, data.dtype),
        scalar=lambda b, x: b.const(value),
        expand=as_constant,
        aliases=aliases,
        traits=traits,
        doc=doc,
    )


_like(
    "zeros_like",
    0.0,
    ZEROS,
    "Zeros of the data's shape and dtype.",
    "_sparse_zeros_like",
    Traits(
        on_stored=OnStored.ZEROS, gradient_stored=GradientStored.OPERAND, stops=lambda attrs: (0,)
    ),
)
_like(
    "ones_like",
    1.0,
    ONES,
    "Ones of the data's shape and dtype.",
    traits=Traits(stops=lambda attrs: (0,)),
)


# Ranges


def _range_count(start: float, stop: float | None, step: float, repeat: int) -> int:
    """Length of ``_arange``; stop None means from 0 to start."""
    first, last = (0.0, start) if stop is None else (start, stop)
    if isinstance(first, Size) or isinstance(last, Size):
        if step != 1 or not first < last:
            raise AttributeValueError(f"arange from {first} to {last} by {step:g} is empty")
        return (last - int(first) if not isinstance(first, Size) else last - first) * repeat
    if step == 0:
        raise AttributeValueError("arange's step cannot be 0")
    if not all(map(math.isfinite, (first, last, step))):
        raise AttributeValueError(f"arange cannot go from {first:g} to {last:g} by {step:g}")
    if repeat < 1:
        raise AttributeValueError(f"arange's repeat must be positive, got {repeat}")
    if not (first < last if step > 0 else first > last):
        raise AttributeValueError(f"arange from {first:g} to {last:g} by {step:g} is empty")
    count = (last - first) / step
    if not math.isfinite(count):
        raise AttributeValueError(
            f"arange from {first:g} to {last:g} by {step:g} has too many elements"
        )
    return math.ceil(count) * repeat


def _steps(start: float, step: float, count: int, repeat: int, dtype: np.dtype) -> np.ndarray:
    """start + step * i in ``dtype`` (float16 in single precision), each ``repeat`` times."""
    wide = working_dtype(dtype) if dtype.kind == "f" else dtype
    index = (np.arange(count) // repeat).astype(wide)
    return convert(scalar_of(start, wide) + index * scalar_of(step, wide), dtype)


def _arange_types(
    ins: Types,
    outs: Types,
    *,
    start: float,
    stop: float | None,
    step: float,
    repeat: int,
    infer_range: bool,
    dtype: np.dtype,
) -> tuple[Types, Types]:
    size = None
    if not (infer_range and stop is None):
        size = _range_count(start, stop, step, repeat)
    return ins, merged(outs, (TensorType((size,), dtype),))


def arange(
    *,
    start: float,
    stop: float | None,
    step: float,
    repeat: int,
    infer_range: bool,
    dtype: np.dtype,
) -> np.ndarray:
    if infer_range and stop is None:
        raise ShapeError("arange's length is unknown and cannot be inferred")
    count = _range_count(start, stop, step, repeat)
    return _steps(0.0 if stop is None else start, step, count, repeat, dtype)


ARANGE = register(
    "_arange",
    "",
    "start:double! stop:double?=None step:double=1 repeat:int=1 infer_range:bool=False"
    " dtype:dtype=float32",
    infer=_arange_types,
    ref=arange,
    doc="start, start + step, ... before stop, each repeat times.",
)


def _linspace_type(
    start: float, stop: float, num: int, endpoint: bool, dtype: np.dtype
) -> TensorType:
    if num < 0:
        raise AttributeValueError(f"linspace's num cannot be negative, got {num}")
    return TensorType((num,), dtype)


def linspace(*, start: float, stop: float, num: int, endpoint: bool, dtype: np.dtype) -> np.ndarray:
    return convert(np.linspace(start, stop, num, endpoint=endpoint), dtype)


def _made(
    name: str, attrs: str, type_of: Callable[..., TensorType], ref: Reference, doc: str
) -> OpDef:
    return register(name, "", attrs, infer=forward(type_of), ref=ref, doc=doc)


LINSPACE = _made(
    "_linspace",
    "start:double! stop:double! num:int! endpoint:bool=True dtype:dtype=float32",
    _linspace_type,
    linspace,
    "num evenly spaced values from start to stop.",
)


# Attribute names are MXNet's
def _eye_type(N: int, M: int, k: int, dtype: np.dtype) -> TensorType:  # noqa: N803
    if N < 0 or M < 0:
        raise AttributeValueError(f"eye's N and M cannot be negative, got {N} and {M}")
    return TensorType((N, M or N), dtype)


EYE = _made(
    "_eye",
    "N:long! M:long=0 k:long=0 dtype:dtype=float32",
    _eye_type,
    lambda N, M, k, dtype: np.eye(N, M or N, k, dtype),
    "Ones on one diagonal, zeros elsewhere.",
)


def _arange_like_type(
    data: TensorType, *, start: float, step: float, repeat: int, axis: int | None
) -> TensorType:
    if repeat < 1:
        raise AttributeValueError(f"arange_like's repeat must be positive, got {repeat}")
    if axis is None:
        return data
    return data.with_shape((data.dims[normalized_axis(axis, data.ndim)],))


def arange_like(
    data: np.ndarray, *, start: float, step: float, repeat: int, axis: int | None
) -> np.ndarray:
    """Range in the data's shape, or along one of its axes; ``repeat`` does not change the
    length."""
    shape = data.shape if axis is None else (data.shape[axis],)
    return _steps(start, step, math.prod(shape), repeat, data.dtype).reshape(shape)


register(
    "_contrib_arange_like",
    "data",
    "start:double=0 step:double=1 repeat:int=1 axis:int?=None",
    infer=forward(_arange_like_type),
    ref=arange_like,
    expand=constant_of_shape("_contrib_arange_like"),
    traits=Traits(reads_shape=True),
    doc="start, start + step, ... in the shape of the data, or along one of its axes.",
)

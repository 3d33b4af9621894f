"""Preparation of eager calls: parsing of attributes, checks of operands.

Input: an operator, attribute strings and NumPy arrays. Output: attribute values, or the exception
of a compiled network for the same mistake. Checked calls are cached by attribute strings and
operand types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from .._core.frames import user_line
from .._core.shapes import is_np_shape
from .._core.types import (
    UNKNOWN,
    PartialShape,
    is_known_shape,
    require_possible,
    shape_text,
    type_of,
)
from ..errors import DTypeError, MXNetError, ShapeError, located
from ..ops.attrs import Attrs
from ..ops.record import OpDef

_MAX_REMEMBERED = 8192
_remembered: dict[tuple[object, ...], Attrs] = {}


def checked_attrs(op: OpDef, texts: Mapping[str, str], arrays: Sequence[np.ndarray]) -> Attrs:
    """Attribute values of a valid call. Raises MXNetError for an invalid one."""
    key = (op.name, is_np_shape(), *texts.items(), *[(a.shape, a.dtype.num) for a in arrays])
    attrs = _remembered.get(key)
    if attrs is None:
        attrs = _check(op, texts, arrays)
        if len(_remembered) >= _MAX_REMEMBERED:
            _remembered.clear()
        _remembered[key] = attrs
    return attrs


def check_out(op: OpDef, results: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> None:
    """Raise ShapeError, DTypeError or MXNetError unless ``results`` match ``outs``."""
    if len(results) != len(outs):
        raise MXNetError(f"Operator {op.name} has {len(results)} outputs, but out has {len(outs)}")
    for result, out in zip(results, outs):
        if result.shape != out.shape:
            raise _out_error(op, ShapeError, shape_text(result.shape), shape_text(out.shape))
        if result.dtype != out.dtype:
            raise _out_error(op, DTypeError, result.dtype.name, out.dtype.name)


def _check(op: OpDef, texts: Mapping[str, str], arrays: Sequence[np.ndarray]) -> Attrs:
    types = tuple(type_of(a) for a in arrays)
    names: Sequence[str] = ()
    try:
        attrs = op.parse(texts)
        names = op.input_names(attrs)
        op.require_inputs(names, len(arrays))
        _, outs = op.infer(types, (UNKNOWN,) * len(op.output_names(attrs)), **attrs)
        require_possible((*types, *outs))
        if not arrays:
            require_sizes(out.shape for out in outs)
    except MXNetError as error:
        names = (*names, *(f"input{i}" for i in range(len(names), len(types))))
        raise located(error, op.name, zip(names, types), user_line()) from None
    return attrs


def require_sizes(shapes: Iterable[PartialShape | None]) -> None:
    """Raise ShapeError for a new array whose shape is not known completely."""
    for shape in shapes:
        if not is_known_shape(shape):
            raise ShapeError(
                f"the shape {shape_text(shape)} of a new array is not known: 0 and () mean unknown "
                "outside of `with np_shape():`, and -1 means unknown everywhere"
            )


def _out_error(op: OpDef, kind: type[MXNetError], found: str, given: str) -> MXNetError:
    return located(kind(f"the result is {found}, but out is {given}"), op.name, (), user_line())

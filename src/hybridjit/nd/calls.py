"""Preparation of eager calls: parsing of attributes, checks of operands, choice of code.

Input: an operator, attribute strings and NumPy arrays. Output: a :class:`Prepared` call, or the
exception of a compiled network for the same mistake. Calls are cached by attribute strings and
operand types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._core.config import config
from .._core.frames import user_line
from .._core.lazy import Late
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
from ..ops import native
from ..ops.attrs import Attrs
from ..ops.record import OpDef
from ..ops.rules import Types

if TYPE_CHECKING:
    from . import eager_code
else:
    eager_code = Late(".eager_code", __package__)  # loaded by the first costly call

_MAX_REMEMBERED = 8192
_remembered: dict[tuple[object, ...], Prepared] = {}


class Prepared:
    """A valid call: its attribute values, and its compiled code if it ``is_costly``."""

    __slots__ = ("attrs", "is_costly", "_is_forward", "_code")

    def __init__(self, op: OpDef, attrs: Attrs, types: Types, outs: Types) -> None:
        self.attrs = attrs
        self.is_costly = native.is_costly(op, attrs, types, outs)
        self._is_forward = self.is_costly and not native.is_matrix_vector(op, attrs, types, outs)
        self._code: eager_code.CallCode | None = None

    def code(self, op: OpDef, arrays: Sequence[np.ndarray]) -> eager_code.CallCode | None:
        """Compiled code of a costly call; None where NumPy computes it."""
        if config.eager == "numpy":
            return None
        if self._code is None:
            self._code = eager_code.CallCode(op, self.attrs, arrays, self._is_forward)
        return self._code


def prepared(op: OpDef, texts: Mapping[str, str], arrays: Sequence[np.ndarray]) -> Prepared:
    """A valid call. Raises MXNetError for an invalid one."""
    key = (op.name, is_np_shape(), *texts.items(), *[(a.shape, a.dtype.num) for a in arrays])
    found = _remembered.get(key)
    if found is None:
        found = Prepared(op, *_check(op, texts, arrays))
        if len(_remembered) >= _MAX_REMEMBERED:
            _remembered.clear()
        _remembered[key] = found
    return found


def check_out(op: OpDef, results: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> None:
    """Raise ShapeError, DTypeError or MXNetError unless ``results`` match ``outs``."""
    if len(results) != len(outs):
        raise MXNetError(f"Operator {op.name} has {len(results)} outputs, but out has {len(outs)}")
    for result, out in zip(results, outs):
        if result.shape != out.shape:
            raise _out_error(op, ShapeError, shape_text(result.shape), shape_text(out.shape))
        if result.dtype != out.dtype:
            raise _out_error(op, DTypeError, result.dtype.name, out.dtype.name)


def _check(
    op: OpDef, texts: Mapping[str, str], arrays: Sequence[np.ndarray]
) -> tuple[Attrs, Types, Types]:
    """Attribute values, and the types of operands and results."""
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
    return attrs, types, outs


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

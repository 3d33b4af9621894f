"""Derivatives of pointwise operators as pointwise operators, from their formulas.

``_gradient<i>_of_<name>`` has the output gradient and the operands as inputs; its result is the
gradient with respect to operand ``i``, before sums over broadcast axes. Like any operator it runs
eagerly, compiles, fuses and has derivatives.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from .._core.types import TensorType
from .attrs import Attrs, AttrValue
from .casting import convert, widened
from .dual import Dual, DualScalars, Value
from .record import OpDef
from .rules import Types, broadcast_shapes, forward
from .scalars import Scalars
from .signatures import ScalarBuilder, V

_NAME = re.compile(r"_gradient(\d+)_of_(.+)", re.DOTALL)


def parse_name(name: str) -> tuple[int, str] | None:
    """Position and operator of a derivative's name, None for other names."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


@cache
def derivative(op: OpDef, position: int) -> OpDef:
    """Gradient of a pointwise operator with respect to operand ``position``, as an operator."""
    formula = _formula(op, position)

    def inputs(**attrs: AttrValue) -> tuple[str, ...]:
        return ("head", *op.input_names(attrs))

    return OpDef(
        name=f"_gradient{position}_of_{op.name}",
        inputs=inputs,
        attrs=op.attrs,
        infer=_rule(position),
        ref=_reference(formula, position),
        scalar=formula,
        kernel="pointwise",
        domain=op.domain,
        internal=True,
        doc=f"Gradient of {op.name} with respect to operand {position}.",
    )


@lru_cache(maxsize=1024)
def _vanishes(op: OpDef, position: int, attrs: tuple[tuple[str, object], ...]) -> bool:
    """Whether the gradient with respect to this operand is 0 everywhere."""
    numbers = Scalars(np.dtype(np.float64))
    operands = [numbers.const(1.0)] * (1 + len(op.input_names(dict(attrs))))
    with np.errstate(all="ignore"):
        return _tangent(op, position)(numbers, *operands, **dict(attrs)) is None


def vanishes(op: OpDef, position: int, attrs: Attrs) -> bool:
    """Whether the gradient with respect to this operand is 0 for all operands."""
    return _vanishes(op, position, tuple(attrs.items()))


class _Follows:
    """Value of a formula: positions of the operands it depends on; the output gradient is -1."""

    __slots__ = ("operands",)

    def __init__(self, *operands: int) -> None:
        self.operands = frozenset(operands)


class _Tracking:
    """Scalar builder that only records the operands that a value depends on."""

    def const(self, value: float) -> _Follows:
        return _Follows()

    scalar = const

    def __getattr__(self, name: str) -> Callable[..., _Follows]:
        return lambda *args: _Follows(
            *(i for x in args if isinstance(x, _Follows) for i in x.operands)
        )


@lru_cache(maxsize=1024)
def _read_by_slope(
    op: OpDef, position: int, attrs: tuple[tuple[str, object], ...]
) -> frozenset[int] | None:
    head = _Follows(-1)
    operands = [_Follows(i) for i in range(len(op.input_names(dict(attrs))))]
    found = _tangent(op, position)(_Tracking(), head, *operands, **dict(attrs))
    return None if found is head else found.operands if found else frozenset()


def read_by_slope(op: OpDef, position: int, attrs: Attrs) -> frozenset[int] | None:
    """Operands that the gradient with respect to one of them depends on.

    None if the gradient is equal to the output gradient.
    """
    return _read_by_slope(op, position, tuple(attrs.items()))


def _tangent(op: OpDef, position: int) -> Callable[..., Any]:
    """``(b, head, *values, **attrs)`` -> head times the derivative, None if that is 0."""
    scalar = op.scalar
    assert scalar is not None

    def tangent(
        b: ScalarBuilder[Value], head: object, /, *values: object, **attrs: AttrValue
    ) -> Any:
        if op.slope is not None:
            return op.slope(b, head, *values, **attrs)[position]
        duals = [Dual(x, head if i == position else None) for i, x in enumerate(values)]
        return scalar(DualScalars(b), *duals, **attrs).tangent

    return tangent


def _formula(op: OpDef, position: int) -> Callable[..., Any]:
    tangent = _tangent(op, position)

    def formula(b: ScalarBuilder[V], head: V, /, *values: V, **attrs: AttrValue) -> V:
        found = tangent(b, head, *values, **attrs)
        return b.const(0.0) if found is None else found

    return formula


def _rule(position: int) -> Callable[..., tuple[Types, Types]]:
    def rule(head: TensorType, *operands: TensorType, **attrs: AttrValue) -> TensorType:
        shape = head.dims
        for operand in operands:
            shape = tuple(size or 0 for size in broadcast_shapes(shape, operand.dims))
        return TensorType(shape, operands[position].dtype)

    return forward(rule)


class _AsForward(Scalars):
    """Scalar builder whose exp has the bits of the operator: exp(x) is its own gradient."""

    exp = staticmethod(np.exp)


def _reference(formula: Callable[..., Any], position: int) -> Callable[..., np.ndarray]:
    def ref(*arrays: np.ndarray, **attrs: AttrValue) -> np.ndarray:
        wide = [widened(array) for array in arrays]
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        found = np.broadcast_to(formula(_AsForward(wide[0].dtype), *wide, **attrs), shape)
        return convert(found, arrays[1 + position].dtype)

    ref.is_in_floating = True  # type: ignore[attr-defined]
    return ref

"""Definition of operators by other operators, for any representation of tensors.

An operator's ``expand`` defines it once, on a :class:`Builder`. On graph values the compiler runs
it, on symbols it creates nodes, on arrays it computes, on types it infers. This module contains the
last two: type rule and reference of operators that have no others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from .._core.types import FLOATS, UNKNOWN, TensorType, type_of
from ..errors import DTypeError
from .attrs import Attrs, AttrValue
from .record import InferRule, OpDef
from .rules import Types, merged
from .signatures import Arrays, Expansion, Reference

X = TypeVar("X")
Many = Sequence[X]
# Result of ``expand``: one value, several, or None if the operator is not expanded.
Made: TypeAlias = X | tuple[X, ...] | None
# Result of a gradient rule for an operand: a gradient, a function that returns it, or None for 0.
Reached: TypeAlias = X | Callable[[], X | None] | None


class Builder(Protocol[X]):
    """Creates uses of operators. X is the type that represents a tensor.

    ``at`` is the suffix of the new name after the expanded operator's: ``<name>:<at>``. Without
    ``at`` the use takes the operator's own name, so that listings of plans and errors show the
    user's operator. Missing attributes have their defaults.
    """

    def op(self, op: OpDef, /, *inputs: X, at: str = "", **attrs: AttrValue) -> X:
        """First or only output of ``op`` on these inputs."""

    def outputs(self, op: OpDef, /, *inputs: X, at: str = "", **attrs: AttrValue) -> tuple[X, ...]:
        """All outputs of ``op`` on these inputs."""

    def type(self, x: X) -> TensorType:
        """Known part of a tensor's type. Raises ShapeError if its shape is required but unknown."""


class TypeBuilder:
    """Builder on types: an expansion becomes a type rule."""

    def op(self, op: OpDef, /, *inputs: TensorType, at: str = "", **attrs: AttrValue) -> TensorType:
        return self.outputs(op, *inputs, at=at, **attrs)[0]

    def outputs(self, op: OpDef, /, *inputs: TensorType, at: str = "", **attrs: AttrValue) -> Types:
        return infer_types(op, inputs, op.with_defaults(attrs))

    def type(self, x: TensorType) -> TensorType:
        return x


class ArrayBuilder:
    """Builder on NumPy arrays: an expansion becomes a reference."""

    def op(self, op: OpDef, /, *inputs: np.ndarray, at: str = "", **attrs: AttrValue) -> np.ndarray:
        return self.outputs(op, *inputs, at=at, **attrs)[0]

    def outputs(
        self, op: OpDef, /, *inputs: np.ndarray, at: str = "", **attrs: AttrValue
    ) -> tuple[np.ndarray, ...]:
        return tuple(map(np.asarray, as_results(op.ref(*inputs, **op.with_defaults(attrs)))))

    def type(self, x: np.ndarray) -> TensorType:
        return type_of(x)


ON_TYPES, ON_ARRAYS = TypeBuilder(), ArrayBuilder()


def as_results(made: object) -> tuple[Any, ...]:
    """Results of a rule, one or several, as a tuple."""
    if type(made) is tuple:  # a named tuple such as Use is one result
        return made
    return tuple(made) if type(made) is list else (made,)


def infer_types(op: OpDef, inputs: Sequence[TensorType], attrs: Attrs) -> Types:
    """Output types by the operator's rule for these operands."""
    blank = (UNKNOWN,) * len(op.output_names(attrs))
    return op.infer(tuple(inputs), blank, **attrs)[1]


def parts_of(op: OpDef, g: Builder[X], inputs: Sequence[X], attrs: Attrs) -> Made[X]:
    """Expansion of ``op`` on these operands: one value or a tuple, None if not expanded.

    Operators on empty arrays are not expanded, because there is nothing to compute.
    """
    if op.expand is None:
        return None
    types = [g.type(x) for x in inputs]
    if any(t.size == 0 for t in types):
        return None
    if op.traits.parts_in_floats and types[0].dtype not in FLOATS:
        return None
    return op.expand(g, *inputs, **attrs)


def inferred(name: str, expand: Expansion) -> InferRule:
    """Type rule derived from ``expand``: forward, once every operand is known."""

    def infer(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
        if not all(t.is_known for t in ins):
            return ins, outs
        return ins, merged(outs, _made(name, expand(ON_TYPES, *ins, **attrs), ins))

    return infer


def computed(name: str, expand: Expansion) -> Reference:
    """Reference derived from ``expand``; its results share no memory with the operands."""

    def ref(*arrays: np.ndarray, **attrs: AttrValue) -> Arrays:
        types = tuple(map(type_of, arrays))
        made = _made(name, expand(ON_ARRAYS, *arrays, **attrs), types)
        own = tuple(y.copy() if any(np.may_share_memory(y, x) for x in arrays) else y for y in made)
        return own if len(own) > 1 else own[0]

    return ref


def _made(name: str, made: X | tuple[X, ...] | None, types: Types) -> tuple[X, ...]:
    if made is None:
        raise DTypeError(f"{name} is not defined for {', '.join(map(str, types))}")
    return as_results(made)

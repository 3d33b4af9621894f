"""Writing one operator in terms of others, for whatever stands for a tensor.

An operator's ``expand`` says its meaning once, on a :class:`Builder`. On graph values it is what
the compiler runs, on symbols it makes nodes, on arrays it computes, on types it infers. The last
two stand here: they are the type rule and the reference of an operator that has no others.
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
# What ``expand`` gives: one result, several, or None where the operator stays as it is.
Made: TypeAlias = X | tuple[X, ...] | None
# What a gradient rule gives an operand: a gradient, a function that makes it, or None for 0.
Reached: TypeAlias = X | Callable[[], X | None] | None


class Builder(Protocol[X]):
    """Makes uses of operators. X is what stands for a tensor.

    ``at`` names what is made, after the operator that is taken apart: ``<name>:<at>``. Without
    ``at`` it stands for the whole and takes the operator's own name, so that listings of plans
    and errors show what the user wrote. Attributes left out take their defaults.
    """

    def op(self, op: OpDef, /, *inputs: X, at: str = "", **attrs: AttrValue) -> X:
        """The first or only output of ``op`` on these inputs."""

    def outputs(self, op: OpDef, /, *inputs: X, at: str = "", **attrs: AttrValue) -> tuple[X, ...]:
        """All outputs of ``op`` on these inputs."""

    def type(self, x: X) -> TensorType:
        """What is known of a tensor's type. Raises ShapeError where its shape is needed and is
        not known."""


class TypeBuilder:
    """Types stand for tensors: what an expansion makes of them is a type rule."""

    def op(self, op: OpDef, /, *inputs: TensorType, at: str = "", **attrs: AttrValue) -> TensorType:
        return self.outputs(op, *inputs, at=at, **attrs)[0]

    def outputs(self, op: OpDef, /, *inputs: TensorType, at: str = "", **attrs: AttrValue) -> Types:
        return infer_types(op, inputs, op.with_defaults(attrs))

    def type(self, x: TensorType) -> TensorType:
        return x


class ArrayBuilder:
    """NumPy arrays stand for tensors: what an expansion makes of them is a reference."""

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
    """What a rule gives for one output or for several, a tuple or a list, as a tuple."""
    if type(made) is tuple:  # what is of a class of its own, as a Use is, is one result
        return made
    return tuple(made) if type(made) is list else (made,)


def infer_types(op: OpDef, inputs: Sequence[TensorType], attrs: Attrs) -> Types:
    """The output types that the operator's rule gives for these operands."""
    blank = (UNKNOWN,) * len(op.output_names(attrs))
    return op.infer(tuple(inputs), blank, **attrs)[1]


def parts_of(op: OpDef, g: Builder[X], inputs: Sequence[X], attrs: Attrs) -> Made[X]:
    """What ``op`` expands to on these operands: one value or a tuple, None if it stays whole.

    What has no elements stays whole: there is nothing to compute.
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
    """The type rule that ``expand`` implies: forward, once every operand is known."""

    def infer(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
        if not all(t.is_known for t in ins):
            return ins, outs
        return ins, merged(outs, _made(name, expand(ON_TYPES, *ins, **attrs), ins))

    return infer


def computed(name: str, expand: Expansion) -> Reference:
    """The reference that ``expand`` implies; its results share no memory with the operands."""

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

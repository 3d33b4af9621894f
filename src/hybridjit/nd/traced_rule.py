"""Gradient rules of eager calls, traced once for operands of equal types.

Input: an operator, its attributes, the types of its operands, results and output gradients, and
which gradients are wanted. Output: a :class:`Trace`, a sequence of NumPy functions that runs on
arrays. A rule reads types only, so one trace is valid for all operands of these types. It saves the
cost of evaluating the rule, which is most of the time of a small operator's backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._core.errstate import quiet
from .._core.types import Shape, TensorType
from ..errors import MXNetError
from ..ops.attrs import Attrs, AttrValue
from ..ops.building import as_results, infer_types
from ..ops.gradient import gradients
from ..ops.record import OpDef

KEPT = 2048  # traces of a process; the least recently used one is dropped
Kind = tuple[Shape, np.dtype]


class _Slot(NamedTuple):
    """Symbol of a tensor: its index among a trace's values."""

    number: int
    type: TensorType


class _Call(NamedTuple):
    ref: Callable[..., Any]
    attrs: Attrs
    operands: tuple[int, ...]


class _UntraceableError(Exception):
    """The rule depends on more than types."""


class _Tracer:
    """Builder on slots."""

    def __init__(self, types: Sequence[TensorType], training: bool) -> None:
        self.given = [_Slot(i, t) for i, t in enumerate(types)]
        self.calls: list[_Call] = []
        self._count = len(types)
        self._training = training

    def op(self, op: OpDef, /, *inputs: _Slot, at: str = "", **attrs: AttrValue) -> _Slot:
        return self.outputs(op, *inputs, at=at, **attrs)[0]

    def outputs(
        self, op: OpDef, /, *inputs: _Slot, at: str = "", **attrs: AttrValue
    ) -> tuple[_Slot, ...]:
        full = op.with_defaults(attrs)
        used = op.in_mode(full, self._training)
        types = infer_types(used, [x.type for x in inputs], full)
        if used.is_random or used.traits.step is not None or not all(t.is_known for t in types):
            raise _UntraceableError
        self.calls.append(_Call(used.ref, full, tuple(x.number for x in inputs)))
        made = tuple(_Slot(self._count + i, t) for i, t in enumerate(types))
        self._count += len(made)
        return made if used is op else made[: len(op.output_names(full))]

    def type(self, x: _Slot) -> TensorType:
        return x.type


@dataclass(frozen=True)
class Trace:
    """Sequence of calls on the given values, followed by their own results.

    results  for each operand the index of its gradient among the values, None without gradient
    made     those of them that are not given values
    """

    calls: tuple[_Call, ...]
    results: tuple[int | None, ...]
    made: tuple[int, ...]

    @quiet  # inf and nan are valid values
    def run(self, values: list[Any], owned: Callable[..., np.ndarray]) -> list[Any]:
        """``values`` followed by the results of all calls, each in separate memory."""
        for ref, attrs, numbers in self.calls:
            operands = [values[number] for number in numbers]
            made = as_results(ref(*operands, **attrs))
            values.extend([owned(y, operands) for y in made])
        return values


class RuleUse(NamedTuple):
    """Everything that a trace depends on.

    read, gave  types of the operands and of the results
    came        types of the output gradients, None if absent
    """

    op: OpDef
    attrs: tuple[tuple[str, AttrValue], ...]
    read: tuple[Kind, ...]
    gave: tuple[Kind, ...]
    came: tuple[Kind | None, ...]
    wanted: tuple[bool, ...]
    training: bool


class _Memo:
    """Count of uses of a rule, up to two; then its trace."""

    __slots__ = ("seen", "trace")

    def __init__(self) -> None:
        self.seen = 0
        self.trace: Trace | None = None


@lru_cache(maxsize=KEPT)
def _memo(use: RuleUse) -> _Memo:
    return _Memo()


def kind_of(array: np.ndarray) -> Kind:
    """Shape and dtype, the properties that a trace depends on."""
    return array.shape, array.dtype


def trace_for(use: RuleUse) -> Trace | None:
    """Trace of a rule; None at its first use, and if the rule depends on more than types.

    A rule that is used only once does not pay for a trace.
    """
    try:
        memo = _memo(use)
    except TypeError:  # attributes that cannot be hashed
        return None
    if memo.seen < 2:
        memo.seen += 1
        if memo.seen == 2:
            memo.trace = _traced(use)
    return memo.trace


def _traced(use: RuleUse) -> Trace | None:
    kinds = [kind for kind in (*use.read, *use.gave, *use.came) if kind is not None]
    tracer = _Tracer([TensorType(*kind) for kind in kinds], use.training)
    slots = iter(tracer.given)
    ins, outs = [next(slots) for _ in use.read], [next(slots) for _ in use.gave]
    douts = [None if kind is None else next(slots) for kind in use.came]
    try:
        found = gradients(use.op, tracer, ins, outs, douts, dict(use.attrs), use.wanted)
    except (_UntraceableError, MXNetError):
        return None  # the rule on arrays raises the error
    results = tuple(None if d is None else d.number for d in found)
    made = {n for n in results if n is not None and n >= len(kinds)}
    return Trace(tuple(tracer.calls), results, tuple(made))

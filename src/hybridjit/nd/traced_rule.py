"""Gradient rules on the tape, traced: what a rule does is written down once for operands of a kind.

In: an operator, its attributes, the types of what it read, gave and got back, and whose gradients
are wanted. Out: a :class:`Trace`, the operators' NumPy meanings in order, which runs on arrays. A
rule sees types alone, so one trace is right for all operands of these types; it saves what asking
the rule again costs, most of the time of a small operator's way back.
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

KEPT = 2048  # traces of a process: the one that was not used for longest goes
Kind = tuple[Shape, np.dtype]


class _Slot(NamedTuple):
    """Stands for a tensor: its place among a trace's values."""

    number: int
    type: TensorType


class _Call(NamedTuple):
    ref: Callable[..., Any]
    attrs: Attrs
    operands: tuple[int, ...]


class _UntraceableError(Exception):
    """The rule does what types alone do not decide."""


class _Tracer:
    """A builder on slots."""

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
    """Calls in order, on the values that are given and then on their own results.

    results  for each operand the number of the value that reaches it, None for nothing
    made     those of them that are no values given
    """

    calls: tuple[_Call, ...]
    results: tuple[int | None, ...]
    made: tuple[int, ...]

    @quiet(all="ignore")  # inf and nan are values here, not events
    def run(self, values: list[Any], owned: Callable[..., np.ndarray]) -> list[Any]:
        """``values`` with the results of all calls behind them, each in memory of its own."""
        for ref, attrs, numbers in self.calls:
            operands = [values[number] for number in numbers]
            made = as_results(ref(*operands, **attrs))
            values.extend([owned(y, operands) for y in made])
        return values


class RuleUse(NamedTuple):
    """A rule on operands of a kind, which is all that a trace depends on.

    read, gave  what the operator read and gave
    came        the gradients of what it gave that came back, None for none
    """

    op: OpDef
    attrs: tuple[tuple[str, AttrValue], ...]
    read: tuple[Kind, ...]
    gave: tuple[Kind, ...]
    came: tuple[Kind | None, ...]
    wanted: tuple[bool, ...]
    training: bool


class _Memo:
    """How often a use of a rule was seen, up to twice; then its trace."""

    __slots__ = ("seen", "trace")

    def __init__(self) -> None:
        self.seen = 0
        self.trace: Trace | None = None


@lru_cache(maxsize=KEPT)
def _memo(use: RuleUse) -> _Memo:
    return _Memo()


def kind_of(array: np.ndarray) -> Kind:
    """What a trace depends on."""
    return array.shape, array.dtype


def trace_for(use: RuleUse) -> Trace | None:
    """The trace of a rule: None at first sight, and where types do not decide.

    A kind that is seen once is not worth a trace.
    """
    try:
        memo = _memo(use)
    except TypeError:  # attributes that are no key
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
        return None  # where there is a mistake, the rule on the arrays says it
    results = tuple(None if d is None else d.number for d in found)
    made = {n for n in results if n is not None and n >= len(kinds)}
    return Trace(tuple(tracer.calls), results, tuple(made))

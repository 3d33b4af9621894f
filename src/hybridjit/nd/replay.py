"""Execution of a typed graph on the tape, so that its results can be differentiated again.

Input: the wanted results, arrays for the graph's inputs and for the results of its random
operators. Output: arrays; every operator is recorded separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._core.recording import FLAGS
from ..context import Context
from ..ir.graph import Use, Value, uses_of, walk
from .ndarray import NDArray, apply, record_made


def replay(
    wanted: Sequence[Use], given: Mapping[Use, NDArray], drawn: Mapping[Use, NDArray], ctx: Context
) -> list[NDArray]:
    """The ``wanted`` results. ``drawn`` has the results of all random operators: none runs again.

    Drawn results are differentiated by the gradient rules of the operators that drew them.
    """
    results = dict(given)
    for value in walk(wanted):
        if value.op is not None:
            ins = [results[use] for use in value.inputs]
            outs = _taken(value, ins, drawn) if is_drawn(Use(value)) else _run(value, ins, ctx)
            results.update(zip(uses_of(value), outs))
    return [results[use] for use in wanted]


def is_drawn(use: Use) -> bool:
    """Test whether a random operator computes this value."""
    return use.value.op is not None and use.value.op.is_random


def _run(value: Value, ins: Sequence[NDArray], ctx: Context) -> Sequence[NDArray]:
    assert value.op is not None
    return apply(value.op, ins, [x._data for x in ins], value.attrs, ctx)


def _taken(value: Value, ins: Sequence[NDArray], drawn: Mapping[Use, NDArray]) -> Sequence[NDArray]:
    assert value.op is not None
    outs = [drawn[use] for use in uses_of(value)]
    if FLAGS.recording:
        record_made(value.op, ins, outs, value.attrs)
    return outs

"""Sequences of steps in two forms, one tensor or a list of steps, and operations on them.

Input: NDArrays or Symbols in a layout such as ``NTC`` (T is time, N the batch). Output: the other
form, masked or reversed sequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple, Protocol, TypeVar

from ... import nd, sym
from ...nd import NDArray
from ...sym import Symbol
from ..types import Tensor
from .gates import Steps

S = TypeVar("S")


class Sequence(NamedTuple):
    """Steps in one of the two forms.

    axis    position of time in the layout
    F       ``nd`` or ``sym``
    batch   the batch size; 0 for symbols, whose sizes are unknown
    """

    steps: Steps
    axis: int
    F: ModuleType
    batch: int


def as_list(value: Any) -> list[Tensor]:
    """One or several outputs of an operator as a list."""
    if isinstance(value, (list, tuple)):
        return list(value)
    return list(value) if isinstance(value, Symbol) and len(value) > 1 else [value]


def formed(
    length: int | None, steps: Steps, layout: str, merge: bool | None, in_layout: str | None = None
) -> Sequence:
    """``steps`` as one tensor (``merge`` True), as a list (False), or unchanged (None).

    Raises AssertionError unless there are ``length`` steps, and if the layout lacks N or T.
    """
    assert "T" in layout and "N" in layout, f"layout must contain T and N, got {layout}"
    axis, batch_axis = layout.find("T"), layout.find("N")
    in_axis = in_layout.find("T") if in_layout else axis
    F = sym if isinstance(_first(steps), Symbol) else nd
    if isinstance(steps, (NDArray, Symbol)):
        batch = steps.shape[batch_axis] if F is nd else 0
        if merge is False:
            return Sequence(_split(F, length, steps, in_axis), axis, F, batch)
    else:
        assert length is None or len(steps) == length, (
            f"unroll needs {length} steps, got {len(steps)}"
        )
        batch = steps[0].shape[0] if F is nd else 0
        if merge is True:
            return Sequence(F.stack(*steps, axis=axis), axis, F, batch)
    if isinstance(steps, (NDArray, Symbol)) and axis != in_axis:
        steps = F.swapaxes(steps, dim1=axis, dim2=in_axis)
    return Sequence(steps, axis, F, batch)


def _first(steps: Steps) -> Tensor:
    assert steps is not None, "unroll needs inputs, got None"
    return steps if isinstance(steps, (NDArray, Symbol)) else steps[0]


def _split(F: ModuleType, length: int | None, steps: Tensor, axis: int) -> list[Tensor]:
    if F is nd:
        found = steps.shape[axis]
        assert length is None or found == length, (
            f"unroll needs {length} steps, the data has {found}"
        )
        length = found
    return as_list(F.split(steps, axis=axis, num_outputs=length, squeeze_axis=1))


def masked(
    F: ModuleType, steps: Steps, length: int, valid_length: Tensor, axis: int, merge: bool
) -> Steps:
    """Set steps at and after ``valid_length`` (one number per sample) to zero."""
    if isinstance(steps, (list, tuple)):
        steps = F.stack(*steps, axis=axis)
    steps = F.SequenceMask(steps, sequence_length=valid_length, use_sequence_length=True, axis=axis)
    if merge:
        return steps
    return as_list(F.split(steps, num_outputs=length, axis=axis, squeeze_axis=True))


def last_states(
    F: ModuleType, all_states: list[list[Tensor]], valid_length: Tensor
) -> list[Tensor]:
    """Each state after the last valid step of each sample."""
    return [
        F.SequenceLast(
            F.stack(*history, axis=0),
            sequence_length=valid_length,
            use_sequence_length=True,
            axis=0,
        )
        for history in zip(*all_states)
    ]


def reverse(steps: Steps, length: int, valid_length: Tensor | None) -> list[Tensor]:
    """The steps in reverse order; with ``valid_length`` only the valid ones of each sample."""
    if valid_length is None:
        return list(reversed(as_list(steps)))
    F = sym if isinstance(steps[0], Symbol) else nd
    turned = F.SequenceReverse(
        F.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True
    )
    return as_list(F.split(turned, axis=0, num_outputs=length, squeeze_axis=True))


def split_states(states: list[S], counts: Iterable[int]) -> Iterator[list[S]]:
    """The states of each of several cells, which have these numbers of states."""
    position = 0
    for count in counts:
        yield states[position : position + count]
        position += count


class Modified(Protocol):
    """A cell that can be wrapped."""

    _modified: bool


@contextmanager
def unmodified(cell: Modified) -> Iterator[None]:
    """Context in which a wrapped cell may be called directly."""
    try:
        cell._modified = False
        yield
        cell._modified = True
    except BaseException:
        cell._modified = True
        raise

"""The axis of each value on which the samples of a batch are apart.

Input: values in order, whose operators' records state the samples that a result depends on. Output:
the axis whose outer part is the batch, for each value that depends on inputs; a
:class:`MixedError` where a value mixes samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...ir.graph import Use, Value
from ...ops.record import Samples
from ...ops.rules import reduced_axes
from ...ops.tensor.primitives import permutation


class MixedError(Exception):
    """Samples cannot be taken apart."""


class SampleAxes:
    """The batch axis of each value, ``axes``; that of inputs is the first."""

    def __init__(self, inputs: Iterable[Value]) -> None:
        self.axes = dict.fromkeys(inputs, 0)

    def axis_of(self, value: Value) -> int:
        """The batch axis of a result, from those of its operands. Raises :class:`MixedError`."""
        assert value.op is not None
        samples = Samples.ALIGNED if value.op.is_pointwise else value.op.traits.samples
        if samples is Samples.MIXED:
            raise MixedError
        return _RULES[samples](self, value)

    def take_part(self, use: Use, axis: int) -> None:
        """Receive an operand without samples that has several elements on the batch axis."""
        raise MixedError

    def of_first(self, value: Value) -> int:
        """The batch axis of the first operand, if no other operand has one."""
        first, *others = (self.axes.get(use.value) for use in value.inputs)
        if first is None or any(axis is not None for axis in others):
            raise MixedError
        return first

    def same(self, value: Value) -> int:
        """The axis of all operands with samples; other operands have one element there."""
        rank = len(value.shape)
        batched = [use for use in value.inputs if use.value in self.axes]
        axes = {self.axes[use.value] + rank - len(use.type.dims) for use in batched}
        if len(axes) != 1:
            raise MixedError
        (axis,) = axes
        for use in value.inputs:
            place = axis + len(use.type.dims) - rank
            size = use.type.dims[place] if place >= 0 else 1
            if use.value not in self.axes and size != 1:
                self.take_part(use, place)
            if use.value in self.axes and size != value.shape[axis]:
                raise MixedError
        return axis


def require(condition: bool, axis: int) -> int:
    """The axis; raises :class:`MixedError` unless the condition is met."""
    if not condition:
        raise MixedError
    return axis


def _first(axes: SampleAxes, value: Value) -> int:
    return require(axes.of_first(value) == 0, 0)


def _along_another(axes: SampleAxes, value: Value) -> int:
    axis, along = axes.of_first(value), value.attrs["axis"]  # None: all elements as one axis
    return require(along is not None and along % len(value.shape) != axis, axis)


def _joined(axes: SampleAxes, value: Value) -> int:
    axis = axes.same(value)
    return require(value.attrs["dim"] % len(value.shape) != axis, axis)


def _reduced(axes: SampleAxes, value: Value) -> int:
    axis, rank = axes.of_first(value), len(value.inputs[0].type.dims)
    gone = reduced_axes(rank, value.attrs["axis"], value.attrs.get("exclude", False))
    before = sum(each < axis for each in gone) if len(value.shape) < rank else 0
    return require(axis not in gone, axis - before)


def _reordered(axes: SampleAxes, value: Value) -> int:
    return permutation(len(value.shape), value.attrs["axes"]).index(axes.of_first(value))


def _picked(axes: SampleAxes, value: Value) -> int:
    axis, rank = value.attrs["axis"], len(value.inputs[0].type.dims)
    is_batched = all(axes.axes.get(use.value) == 0 for use in value.inputs)
    return require(is_batched and axis is not None and axis % rank != 0, 0)


def _cut(axes: SampleAxes, value: Value) -> int:
    """The batch axis of a slice that begins with the first sample and skips none."""
    axis, begin, step = axes.of_first(value), value.attrs["begin"], value.attrs["step"]
    starts = axis >= len(begin) or begin[axis] in (None, 0)
    return require(starts and (axis >= len(step or ()) or step[axis] in (None, 1)), axis)


def _within_rows(axes: SampleAxes, value: Value) -> int:
    axis = axes.of_first(value)
    return require(axis < len(value.shape) - 2, axis)


def _extended(axes: SampleAxes, value: Value) -> int:
    axis = axes.of_first(value)
    return require(value.attrs["before"][axis] == value.attrs["after"][axis] == 0, axis)


_RULES: dict[Samples, Callable[[SampleAxes, Value], int]] = {
    Samples.FIRST: _first,
    Samples.ALIGNED: SampleAxes.same,
    Samples.AXIS: _along_another,
    Samples.JOINED: _joined,
    Samples.REDUCED: _reduced,
    Samples.REORDERED: _reordered,
    Samples.PICKED: _picked,
    Samples.CUT: _cut,
    Samples.ROWS: _within_rows,
    Samples.PADDED: _extended,
}

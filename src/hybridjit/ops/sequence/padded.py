"""Operators on padded sequences: steps on axis 0 (or 1), one length per sample.

Input: data of rank 2 or more, and lengths of any dtype, truncated, if use_sequence_length is set.
Output: the data masked, reversed, or its last steps.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import PartialShape, TensorType, merge, shape_text
from ...errors import ShapeError
from ..algebra import clipped, shifted, zeros_like
from ..attrs import AttrValue
from ..building import Builder, Many, Reached, X
from ..casting import convert
from ..record import InferRule, Traits
from ..registry import lookup, register
from ..rules import Types, fill, merged
from ..tensor.movement import REVERSE
from ..tensor.primitives import PLACE, broadcast, narrow, reshape, transpose

_TRAITS = Traits(names_data=True)


def _sequence_inputs(*, use_sequence_length: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return ("data", "sequence_length") if use_sequence_length else ("data",)


def _check(shape: PartialShape, axis: int, last_axis: int) -> None:
    if len(shape) < 2:
        raise ShapeError(f"The data array must be of rank 2 or greater, got {shape_text(shape)}")
    if not 0 <= axis <= last_axis:
        expected = "0 or 1" if last_axis else "0"
        raise ShapeError(f"Current implementation expects axis to be {expected}, got {axis}")


def _lengths(lengths: Types, data: TensorType, axis: int) -> Types:
    """Types of lengths: one element per sample, of any dtype."""
    assert data.shape is not None
    return tuple(fill(t, (data.shape[1 - axis],), None) for t in lengths)


def _infer_like(last_axis: int) -> InferRule:
    """Type rule of an operator whose output has the data's type."""

    def infer(ins: Types, outs: Types, *, axis: int, **attrs: AttrValue) -> tuple[Types, Types]:
        data = merge(ins[0], outs[0]) if outs else ins[0]
        if data.shape is None:
            return (data, *ins[1:]), merged(outs, (data,))
        _check(data.shape, axis, last_axis)
        return (data, *_lengths(ins[1:], data, axis)), merged(outs, (data,))

    return infer


def _counts(lengths: np.ndarray) -> np.ndarray:
    return convert(lengths, np.dtype(np.int64))


def _mask(
    data: np.ndarray,
    lengths: np.ndarray | None = None,
    *,
    value: float,
    axis: int,
    **attrs: AttrValue,
) -> np.ndarray:
    """``value`` in every step after the sample's length."""
    y = data.copy()
    if lengths is not None:
        beyond = np.arange(data.shape[axis])[:, None] >= _counts(lengths)
        y[beyond if axis == 0 else beyond.T] = convert(np.float64(value), data.dtype)
    return y


def _unmasked(g: Builder[X], data: X, *lengths: X, **attrs: AttrValue) -> X | None:
    """SequenceMask(x) without lengths  =>  x"""
    return None if lengths else data


def _grad_mask(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, value: float, **attrs: AttrValue
) -> tuple[Reached[X], ...]:
    """Mask of the output gradient, with zeros."""
    data, *lengths = ins
    found = douts[0]
    if lengths:
        found = g.op(SEQUENCE_MASK, found, *lengths, at="masked", **attrs)
    return found, *[None] * len(lengths)


SEQUENCE_MASK = register(
    "SequenceMask",
    _sequence_inputs,
    "use_sequence_length:bool=False value:float=0 axis:int=0",
    kernel="gather",
    infer=_infer_like(1),
    ref=_mask,
    expand=_unmasked,
    grad=_grad_mask,
    traits=_TRAITS,
    doc="Overwrite the steps after each sample's length.",
)


def _infer_last(ins: Types, outs: Types, *, axis: int, **attrs: AttrValue) -> tuple[Types, Types]:
    """Shape of the data without its step axis."""
    data = ins[0]
    if data.shape is None:
        return ins, outs
    _check(data.shape, axis, 1)
    if data.shape[axis] == 0:
        raise ShapeError(f"SequenceLast needs at least one step, but axis {axis} is empty")
    out = data.with_shape(data.shape[:axis] + data.shape[axis + 1 :])
    return (data, *_lengths(ins[1:], data, axis)), merged(outs, (out,))


def _last(
    data: np.ndarray, lengths: np.ndarray | None = None, *, axis: int, **attrs: AttrValue
) -> np.ndarray:
    """Step length - 1 of each sample, clipped to the valid steps; without lengths the last one."""
    steps = np.moveaxis(data, axis, 0)
    if lengths is None:
        return steps[-1].copy()
    at = np.clip(_counts(lengths), 1, len(steps)) - 1
    return steps[at, np.arange(len(at))]


def _last_step(g: Builder[X], data: X, *lengths: X, axis: int, **attrs: AttrValue) -> X | None:
    """SequenceLast(x) without lengths  =>  its last step"""
    if lengths:
        return None
    sizes = g.type(data).dims
    last = narrow(g, data, axis, sizes[axis] - 1, 1, at="last")
    return reshape(g, last, sizes[:axis] + sizes[axis + 1 :])


def _grad_last(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, axis: int, **attrs: AttrValue
) -> tuple[Reached[X], ...]:
    """Gradient at each sample's last step, zeros at the others."""
    sizes, count = g.type(ins[0]).dims, len(ins) - 1
    steps = sizes[axis]
    if count:
        whole = g.op(lookup("trunc"), ins[1], at="whole")
        index = shifted(g, clipped(g, whole, 1.0, steps), -1.0)
        hot = g.op(lookup("one_hot"), index, at="hot", depth=steps)
        order = (0, 1) if axis else (1, 0)
        hot = reshape(g, transpose(g, hot, order), (*sizes[:2], *[1] * (len(sizes) - 2)))
        d = reshape(g, douts[0], tuple(1 if i == axis else n for i, n in enumerate(sizes)))
        d, hot = broadcast(g, d, sizes), broadcast(g, hot, sizes)
        return g.op(lookup("where"), hot, d, zeros_like(g, d), at="placed"), None
    d = reshape(g, douts[0], (*sizes[:axis], 1, *sizes[axis + 1 :]))
    begin = tuple(steps - 1 if i == axis else 0 for i in range(len(sizes)))
    return (g.op(PLACE, d, shape=sizes, begin=begin, end=sizes),)


SEQUENCE_LAST = register(
    "SequenceLast",
    _sequence_inputs,
    "use_sequence_length:bool=False axis:int=0",
    kernel="gather",
    infer=_infer_last,
    ref=_last,
    expand=_last_step,
    grad=_grad_last,
    traits=_TRAITS,
    doc="Last step of each sample.",
)


def _reverse(
    data: np.ndarray, lengths: np.ndarray | None = None, *, axis: int, **attrs: AttrValue
) -> np.ndarray:
    """First length steps of each sample in reverse order, the others unchanged."""
    if lengths is None:
        return data[::-1].copy()
    step = np.arange(len(data))[:, None]
    count = np.clip(_counts(lengths), 0, len(data))
    source = np.where(step < count, count - 1 - step, step)
    return data[source, np.arange(data.shape[1])]


def _reversed_whole(g: Builder[X], data: X, *lengths: X, **attrs: AttrValue) -> X | None:
    """SequenceReverse(x) without lengths  =>  reverse(x)"""
    return None if lengths else g.op(REVERSE, data, axis=(0,))


def _grad_reverse(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: AttrValue
) -> tuple[Reached[X], ...]:
    """Gradient reversed in the same way."""
    found = g.op(SEQUENCE_REVERSE, douts[0], *ins[1:], at="back", **attrs)
    return found, *[None] * (len(ins) - 1)


SEQUENCE_REVERSE = register(
    "SequenceReverse",
    _sequence_inputs,
    "use_sequence_length:bool=False axis:int=0",
    kernel="gather",
    infer=_infer_like(0),
    ref=_reverse,
    expand=_reversed_whole,
    grad=_grad_reverse,
    traits=_TRAITS,
    doc="First length steps of each sample in reverse order.",
)

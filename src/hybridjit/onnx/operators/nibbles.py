"""Weights of 4 bits as operands that stay packed, two to a byte, with a scale for each block."""

from __future__ import annotations

import numpy as np

from ...formats.onnx.narrow import NARROW, NarrowWhole
from ...ops.nibbles import MIDDLE, WORD
from ..importer import Importer, Value
from ..use import Use

_BITS = 4


def nibble_weight(
    g: Importer, use: Use, x: Value, scale: Value, zero: Value | None
) -> Value | None:
    """A dequantized constant matrix that stays packed; None for other values.

    Blocks are whole words of the axis of data; without ``block_size`` each filter is a block.
    """
    kind = NARROW.get(x.stored)
    if not isinstance(kind, NarrowWhole) or kind.bits != _BITS or g.rank(x) != 2:
        return None
    others = [v for v in (scale, zero) if v is not None]
    if any(not v.is_constant for v in others) or g.dtype(scale) != np.float32:
        return None
    axis, block = use.number("axis", 1) % 2, use.number("block_size")
    data_axis = axis if block else 1 - axis
    size, filters = g.shape(x)[data_axis], g.shape(x)[1 - data_axis]
    block = block or size
    if not x.array.size or size % block or block % WORD:  # type: ignore[union-attr]
        return None
    move = MIDDLE if kind.is_signed else 0
    scales = _of_blocks(g.known(scale, "scale"), data_axis, (filters, size // block))
    operands = [_packed(_rows(g.known(x, "weight"), data_axis), move), scales]
    zeros = None if zero is None else g.known(zero, "zero").astype(np.float32)
    has_zeros = zeros is not None and bool(zeros.any()) or not move
    if has_zeros:
        zeros = np.zeros(1, np.float32) if zeros is None else zeros
        operands.append(_of_blocks(zeros + np.float32(move), data_axis, scales.shape))
    values = map(g.constant, operands)
    (made,) = g.kept("_weight_from_nibbles", *values, block=block, has_zeros=has_zeros, at="weight")
    return made if data_axis else g.op("transpose", made, axes=(1, 0), at="turned")


def _rows(array: np.ndarray, data_axis: int) -> np.ndarray:
    """A matrix with the data on the last axis."""
    return array if data_axis else array.T


def _of_blocks(array: np.ndarray, data_axis: int, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers (filters, blocks): given so, for each filter, or one for all."""
    whole = _rows(array, data_axis) if array.ndim == 2 else array.reshape(-1, 1)
    return np.ascontiguousarray(np.broadcast_to(whole, shape), np.float32)


def _packed(whole: np.ndarray, move: int) -> np.ndarray:
    """Integers, made ``move`` higher, two to a byte, the first in the low half."""
    moved = (whole.astype(np.int16) + move).astype(np.uint8)
    return np.ascontiguousarray(moved[:, ::2] | moved[:, 1::2] << _BITS)

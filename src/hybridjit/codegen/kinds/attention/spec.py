"""KernelSpec of attention. Strides count elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._core.frozen import dataclass
from ...._core.target import SINGLE, ElementTypes
from ...spec import KernelSpec, Size, Sizes

# Elements of a cache line of float32, to which parts of scratch memory are aligned.
_LINE = 16


@dataclass(frozen=True)
class AttentionSpec(KernelSpec):
    """softmax(factor q k^T + bias) v; arguments: q, k, v, [factor,] biases, [mask, length,]
    y, scratch, groups.

    A group is a head of a sample. Strides are per (sample, head, row, element), for biases and the
    mask per (sample, head, row, key); those of the last axis are 1 without being listed. All sizes
    and strides except the widths are given by the call.

    width, values  elements of a row of q and k, and of a row of v
    mr x nv        the register tile: rows x vectors
    block          keys between two updates of the sums: a constant of the target, because the
                   order of the sums depends on it
    tiles          maximum tiles of rows that use a block of keys before the next block
    far_biases     numbers of the biases that differ from row to row, which are prefetched
    scale          constant factor of the products
    has_factor     whether an operand of one element multiplies them too
    mask, fill     strides of the mask, () without one; the score where the mask is 0
    after          application of the mask to the weights: ``none``, ``where`` or ``times``
    length         element type of the number of valid keys of each row; "" for all keys
    lengths        its strides per (sample, head, row)
    """

    width: int
    values: int
    heads: Size
    rows: Size
    keys: Size
    q: Sizes
    k: Sizes
    v: Sizes
    y: Sizes
    biases: tuple[Sizes, ...]
    mr: int
    nv: int
    block: int
    tiles: int
    unroll: int
    far_biases: tuple[int, ...] = ()
    scale: float = 1.0
    has_factor: bool = False
    mask: Sizes = ()
    fill: float = 0.0
    after: str = "none"
    length: str = ""
    lengths: Sizes = ()
    element: ElementTypes = SINGLE
    kind = "attention"
    needs_passes = False

    @property
    def hides_rows(self) -> bool:
        """Whether weights of rows without a shown key are undefined before the mask makes them 0:
        their scores are -inf, maybe by rounding ``fill``, or NaN."""
        largest = float(np.finfo(self.element.computed).max)
        return self.after == "where" and not abs(self.fill) <= largest

    def stride_of_query(self) -> int:
        """Elements of a packed row of q: whole cache lines."""
        return _rounded(self.width)

    def stride_of_scores(self, lanes: int) -> int:
        """Elements of a row of scores, so that rows do not share sets of the cache."""
        return self.block + max(_LINE, lanes)

    def columns(self, lanes: int) -> int:
        """Elements of a packed row of v: whole vectors."""
        return -(-self.values // lanes) * lanes

    def fixed_floats(self, lanes: int) -> tuple[int, ...]:
        """Scratch elements of: packed q, sums of values, largest scores, sums of powers, scores of
        one tile, and factors of its older sums."""
        rows = self.tiles * self.mr
        return (
            _rounded(rows * self.stride_of_query()),
            _rounded(rows * self.columns(lanes)),
            _rounded(rows),
            _rounded(rows * lanes),
            _rounded(self.mr * self.stride_of_scores(lanes)),
            _rounded(self.mr),
        )

    def value_floats(self, keys: Any, lanes: int) -> Any:
        """Scratch elements of all packed rows of v, for ``keys`` of any type of integers."""
        return (keys + self.block) * _rounded(self.columns(lanes))

    def key_floats(self, keys: Any, lanes: int) -> Any:
        """Scratch elements of all packed rows of k."""
        return (keys + self.nv * lanes) * _rounded(self.width)

    def scratch_floats(self, keys: Any, lanes: int) -> Any:
        """Scratch elements of a thread: linear in the number of keys."""
        fixed = sum(self.fixed_floats(lanes))
        return fixed + self.value_floats(keys, lanes) + self.key_floats(keys, lanes)


def _rounded(count: int) -> int:
    return -(-count // _LINE) * _LINE

"""Vectors of channels at an offset, whole or partial: how kernels read operands and write results.

A ``count`` of lanes below the vector width means the last, partial vector of a row; lanes beyond
it are never touched in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..builder import Index, LoopBuilder


def read_vector(b: LoopBuilder, pointer: Any, index: Index, stride: int, count: int) -> Any:
    """``count`` elements from ``index`` on, ``stride`` apart; stride 0 repeats one element."""
    if stride == 0:
        return b.splat(b.load_scalar(pointer, index))
    if stride != 1:
        return b.load_strided(pointer, index, stride, count)
    if count == b.lanes:
        return b.load(pointer, index)
    return b.load_masked(pointer, index, b.mask_first(count))


def write_vector(
    b: LoopBuilder, value: Any, pointer: Any, index: Index, stride: int, count: int
) -> None:
    """The first ``count`` lanes of ``value`` to elements ``stride`` apart."""
    if stride != 1:
        b.store_strided(value, pointer, index, stride, count)
    elif count == b.lanes:
        b.store(value, pointer, index)
    else:
        b.store_masked(value, pointer, index, b.mask_first(count))


def whole_and_last(
    b: LoopBuilder, block: Index, blocks: int, last: int, body: Callable[[int], None]
) -> None:
    """``body(lanes)`` for vector ``block`` of ``blocks``, the last of which has ``last`` lanes."""
    if last == b.lanes:
        body(b.lanes)
        return
    if blocks > 1:
        with b.when(b.less(block, blocks - 1)):
            body(b.lanes)
    with b.when(b.less(blocks - 2, block)):
        body(last)

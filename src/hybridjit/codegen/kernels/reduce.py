"""Reductions of one axis of contiguous data.

Along the axis, four vectors of partial results are combined at the end, always in one order;
across it, each lane has a result of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..builder import Index, LoopBuilder
from ..spec import ReduceSpec
from ..vmath import VectorMath
from .arguments import Arguments
from .tail import read_vector, write_vector

# Independent chains: an addition takes four cycles.
CHAINS = 4
_NEUTRAL = {"sum": 0.0, "mean": 0.0, "max": float("-inf"), "min": float("inf")}


def emit_reduce(b: LoopBuilder, spec: ReduceSpec, args: Arguments) -> None:
    """y[r, i] = the sum, mean, largest or smallest of x[r, :, i]."""
    x, y, rows = args.pointer("x"), args.pointer("y"), args.integer("rows")
    combine = _combiner(b, spec)
    if spec.inner == 1:
        begin, end = b.share(rows, args.tid, args.threads)
        with b.loop("row", begin, end) as row:
            line = b.at(x, b.mul(row.index, spec.size))
            total = reduce_line(b, line, spec.size, _NEUTRAL[spec.how], combine)
            b.store(_finished(b, spec, total), y, row.index)
        return
    blocks = -(-spec.inner // b.lanes)
    begin, end = b.share(b.mul(rows, blocks), args.tid, args.threads)
    with b.loop("unit", begin, end) as unit:
        row_, block = b.split(unit.index, (0, blocks))
        column = b.mul(block, b.lanes)
        source = b.at(x, b.add(b.mul(row_, spec.size * spec.inner), column))
        target = b.at(y, b.add(b.mul(row_, spec.inner), column))
        last = spec.inner - (blocks - 1) * b.lanes
        if blocks > 1:
            with b.when(b.less(block, blocks - 1)):
                _reduce_across(b, spec, source, target, combine, b.lanes)
        with b.when(b.less(blocks - 2, block)):
            _reduce_across(b, spec, source, target, combine, last)


def _combiner(b: LoopBuilder, spec: ReduceSpec) -> Callable[[Any, Any], Any]:
    math = VectorMath(b)
    return {"max": math.max, "min": math.min}.get(spec.how, math.add)


def _finished(b: LoopBuilder, spec: ReduceSpec, total: Any) -> Any:
    if spec.how != "mean":
        return total
    return b.b.fdiv(total, b.constant(float(spec.size), total))


def reduce_line(
    b: LoopBuilder,
    x: Any,
    size: int,
    neutral: float,
    combine: Callable[[Any, Any], Any],
    each: Callable[[Any], Any] = lambda value: value,
) -> Any:
    """``each`` element of x[0:size] combined, as one f32."""
    stride = CHAINS * b.lanes
    whole, rest = size - size % stride, size % stride
    accs: list[Any] = [b.splat(neutral)] * CHAINS
    if whole:
        with b.loop("i", 0, whole, stride, carry=accs) as i:
            i.yields(
                [
                    combine(acc, each(b.load(x, b.add(i.index, j * b.lanes))))
                    for j, acc in enumerate(i.carried)
                ]
            )
        accs = list(i.results)
    for j in range(-(-rest // b.lanes)):
        lanes = min(b.lanes, rest - j * b.lanes)
        value = each(read_vector(b, x, whole + j * b.lanes, 1, lanes))
        if lanes < b.lanes:
            value = b.b.select(b.mask_first(lanes), value, b.splat(neutral))
        accs[j] = combine(accs[j], value)
    total = combine(combine(accs[0], accs[1]), combine(accs[2], accs[3]))
    return b.reduce_lanes(total, combine)


def _reduce_across(
    b: LoopBuilder,
    spec: ReduceSpec,
    x: Any,
    y: Any,
    combine: Callable[[Any, Any], Any],
    lanes: int,
) -> None:
    with b.loop("k", 0, spec.size, carry=[b.splat(_NEUTRAL[spec.how])]) as k:
        at: Index = b.mul(k.index, spec.inner)
        k.yields([combine(k.carried[0], read_vector(b, x, at, 1, lanes))])
    write_vector(b, _finished(b, spec, k.results[0]), y, 0, 1, lanes)

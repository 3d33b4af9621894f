"""The module that packs weights: machine code for what ``packing`` says in NumPy, bit for bit.

``turn`` writes filters, which are rows in memory, next to each other. ``filters_M`` transforms
filters that were turned, for Winograd's F(M x M, 3x3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...target import Target
from ..llvm import ir
from ..llvm.builder import F32, F64, I64, PTR, VOID, Index, LoopBuilder
from ..llvm.elements import with_element
from ..packing import filter_matrix

PACKERS = "packers"
SIZES = (2, 4)


def emit_packers(target: Target) -> ir.Module:
    """The module that holds all of them."""
    module = ir.Module(PACKERS)
    module.triple = target.triple
    _emit_turn(module, target)
    for m in SIZES:
        _emit_filters(module, target, m)
    return module


def _function(module: ir.Module, target: Target, name: str, numbers: int) -> LoopBuilder:
    """A function of a source, a target and so many integers."""
    kind = ir.FunctionType(VOID, [PTR, PTR] + [I64] * numbers)
    return LoopBuilder(ir.Function(module, kind, name), target)


def _emit_turn(module: ir.Module, target: Target) -> None:
    """target[block][k(q)][f] = source[f][q] for q < size; 0 for ``filters`` <= f < ``columns``.

    Blocks have ``width`` filters, the last one what is left of ``columns``. Rows begin ``step``
    apart, and k(q) = q % minor * k_minor + q // minor * k_major. At least a vector of q.
    """
    b = _function(module, target, "turn", 8)
    source, result, filters, columns, width, size, step, *digits = b.function.args
    with b.loop("block", 0, columns, width) as block:
        count = b.min(b.sub(columns, block.index), width)
        start = b.at(result, b.mul(block.index, size))
        with b.loop("vector", 0, count, b.lanes) as vector:
            first = b.add(block.index, vector.index)
            places = [b.add(first, lane) for lane in range(b.lanes)]
            last = b.sub(filters, 1)
            rows = [b.at(source, b.mul(b.min(place, last), step)) for place in places]
            known = [b.less(place, filters) for place in places]
            out = b.at(start, vector.index)
            with b.loop("q", 0, size, b.lanes) as q:
                # The last vector begins where it is whole: some is written twice.
                at = b.min(q.index, b.sub(size, b.lanes))
                _turn_square(b, rows, known, at, out, count, digits)
    b.b.ret_void()


def _turn_square(
    b: LoopBuilder,
    rows: Sequence[Any],
    known: Sequence[Any],
    at: Index,
    out: Any,
    count: Index,
    digits: Sequence[Any],
) -> None:
    """As many q as there are lanes, of as many filters."""
    minor, k_minor, k_major = digits
    zeros = b.splat(0.0)
    square = [b.b.select(is_one, b.load(row, at), zeros) for row, is_one in zip(rows, known)]
    high, low = b.divmod(at, minor)
    k = b.add(b.mul(low, k_minor), b.mul(high, k_major))
    over = b.sub(k_major, b.mul(b.sub(minor, 1), k_minor))
    for vector in transposed(b, square):
        b.store(vector, out, b.mul(k, count))
        low = b.add(low, 1)
        is_over = b.b.icmp_signed("==", b.i64(low), b.i64(minor))
        k = b.add(k, b.b.select(is_over, over, k_minor))
        low = b.b.select(is_over, b.i64(0), b.i64(low))


def transposed(b: LoopBuilder, rows: Sequence[Any]) -> list[Any]:
    """result[i] lane j = rows[j] lane i: squares off the diagonal change places, 1 x 1 first."""
    square = list(rows)
    lanes = range(len(square))
    side = 1
    while side < len(square):
        low = [lane if not lane & side else len(square) + lane - side for lane in lanes]
        high = [lane + side if not lane & side else len(square) + lane for lane in lanes]
        for i in lanes:
            if not i & side:
                pair = square[i], square[i + side]
                square[i], square[i + side] = (_mixed(b, *pair, mask) for mask in (low, high))
        side *= 2
    return square


def _mixed(b: LoopBuilder, x: Any, y: Any, lanes: Sequence[int]) -> Any:
    pattern = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))
    return b.b.shuffle_vector(x, y, pattern)


def _emit_filters(module: ir.Module, target: Target, m: int) -> None:
    """target[point][c][f] = (g w gT)[point] for w = source[c][tap][f], ``width`` filters.

    In double precision, rounded once; every operation is one of ``packing``'s.
    """
    b = _function(module, target, f"filters_{m}", 2)
    source, result, channels, width = b.function.args
    g = filter_matrix(m).tolist()
    wide, narrow = (with_element(b.vector_type(), kind) for kind in (F64, F32))
    with b.loop("c", 0, channels) as c, b.loop("f", 0, width, b.lanes) as f:
        taps = b.at(source, b.add(b.mul(b.mul(c.index, 9), width), f.index))
        w = [b.b.fpext(b.load(taps, b.mul(tap, width)), wide) for tap in range(9)]
        columns = [interpolated(b, g, w[j::3]) for j in range(3)]
        place = b.add(b.mul(c.index, width), f.index)
        plane = b.mul(channels, width)
        for row in zip(*columns):
            for value in interpolated(b, g, row):
                b.store(b.b.fptrunc(value, narrow), result, place)
                place = b.add(place, plane)
    b.b.ret_void()


def interpolated(b: LoopBuilder, g: Sequence[Sequence[float]], w: Sequence[Any]) -> list[Any]:
    """g w, with what p and -p share done once."""

    def times(value: Any, factor: float) -> Any:
        return b.b.fmul(value, b.constant(factor, value))

    result = [times(w[0], g[0][0])]
    for row in g[1:-1:2]:
        even = b.b.fadd(times(w[0], row[0]), times(w[2], row[2]))
        odd = times(w[1], row[1])
        result += [b.b.fadd(even, odd), b.b.fsub(even, odd)]
    return [*result, w[2]]

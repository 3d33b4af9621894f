"""The modules that pack weights: machine code with the same results as ``packing``, bit for bit.

``transposed`` transposes filters, which are rows in memory. ``filters_M`` applies the transform of
Winograd's F(M x M, 3x3) to transposed filters; it has a module for each M, because LLVM takes 16 to
25 ms for one. ``combined`` applies a matrix of any other window or stride.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..._core.target import Target
from ..kinds.parts.transpose import transpose_in_memory
from ..kinds.weights.filters import transform_filters
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.elements import with_element
from ..llvm.indices import Index
from ..llvm.types import F32, F64, I64, PTR, VOID, Value
from ..packing import WinogradPacking

TRANSPOSED, COMBINED = "transposed", "combined"
SIZES: Mapping[str, int] = {f"filters_{m}": m for m in (2, 4, 5)}


def packers_for(packings: Iterable[object]) -> tuple[str, ...]:
    """The names of the functions that pack weights in these ways."""
    transformed = [p for p in packings if isinstance(p, WinogradPacking)]
    sizes = {p.m for p in transformed if is_plain(p)}
    combined = (COMBINED,) if any(map(is_combined, transformed)) else ()
    return (TRANSPOSED, *combined, *(name for name, m in SIZES.items() if m in sizes))


def is_plain(packing: WinogradPacking) -> bool:
    """Whether the packing is that of F(m x m, 3x3) for images."""
    return not packing.lines and packing.depth == 1


def is_combined(packing: WinogradPacking) -> bool:
    """Whether the packing multiplies filters of images by the matrix of its lines."""
    return bool(packing.lines) and packing.depth == 1


def emit_packer(target: Target, name: str) -> ir.Module:
    """The module with one packing function."""
    module = ir.Module(name)
    module.triple = target.triple
    if name == TRANSPOSED:
        _emit_transpose(module, target)
    elif name == COMBINED:
        _emit_combine(module, target)
    else:
        _emit_filters(module, target, SIZES[name])
    return module


def _function(
    module: ir.Module, target: Target, name: str, numbers: int, pointers: int = 2
) -> LoopBuilder:
    """A function of a source, a destination, further ``pointers`` and ``numbers`` integers."""
    kind = ir.FunctionType(VOID, [PTR] * pointers + [I64] * numbers)
    return LoopBuilder(ir.Function(module, kind, name), target)


def _emit_transpose(module: ir.Module, target: Target) -> None:
    """target[block][k(q)][f] = source[f][q] for q < size; 0 for ``filters`` <= f < ``columns``.

    Blocks have ``width`` filters, the last one the rest of ``columns``. Rows begin ``step`` apart,
    and k(q) = q % minor * k_minor + q // minor * k_major. At least one vector of q.
    """
    b = _function(module, target, TRANSPOSED, 8)
    source, result, filters, columns, width, size, step, minor, k_minor, k_major = b.function.args
    square, last = b.scratch(b.vector_type(), b.lanes), b.sub(filters, 1)
    over = b.sub(k_major, b.mul(b.sub(minor, 1), k_minor))
    with b.loop("block", 0, columns, width) as block:
        count = b.min(b.sub(columns, block.index), width)
        start = b.at(result, b.mul(block.index, size))
        with b.loop("vector", 0, count, b.lanes) as vector:
            first = b.add(block.index, vector.index)
            out = b.at(start, vector.index)
            with b.loop("q", 0, size, b.lanes) as q:
                # The last vector begins where it is full: some elements are written twice.
                at = b.min(q.index, b.sub(size, b.lanes))
                with b.loop("row", 0, b.lanes) as row:
                    place = b.add(first, row.index)
                    found = b.load(source, b.add(b.mul(b.min(place, last), step), at))
                    found = b.b.select(b.less(place, filters), found, b.splat(0.0))
                    b.store(found, square, b.mul(row.index, b.lanes))
                transpose_in_memory(b, square)
                high, low = b.divmod(at, minor)
                k = b.add(b.mul(low, k_minor), b.mul(high, k_major))
                with b.loop("column", 0, b.lanes, carry=[b.i64(low), b.i64(k)]) as column:
                    low, k = column.carried
                    found = b.load(square, b.mul(column.index, b.lanes))
                    b.store(found, out, b.mul(k, count))
                    low = b.add(low, 1)
                    is_over = b.equal(low, minor)
                    step_to = b.b.select(is_over, over, k_minor)
                    column.yields([b.b.select(is_over, b.i64(0), low), b.add(k, step_to)])
    b.b.ret_void()


def _emit_filters(module: ir.Module, target: Target, m: int) -> None:
    """target[point][c][f] = (g w gT)[point] for w = source[c][tap][f], ``width`` filters.

    Scratch memory for ``tile_floats(m)`` elements follows the source.
    """
    b = _function(module, target, f"filters_{m}", 2)
    source, result, channels, width = b.function.args
    tile = b.at(source, b.mul(b.mul(channels, width), 9))
    transform_filters(b, m, source, tile, result, channels, width, channels)
    b.b.ret_void()


def _emit_combine(module: ir.Module, target: Target) -> None:
    """target[point][c][f] = (g w)[point] for w = source[c][tap][f], ``width`` filters.

    The terms of a point, taps and their factors, are those from ``stops[point]`` to ``stops[point +
    1]``: at least one, summed in their order in double precision, and rounded once.
    """
    b = _function(module, target, COMBINED, 4, pointers=5)
    source, result, stops, taps, factors, points, channels, size, width = b.function.args
    wide, narrow = (with_element(b.vector_type(), kind) for kind in (F64, F32))

    def integer(table: Value, index: Index) -> Value:
        return b.b.load(b.at(table, index, I64), typ=I64, align=8)

    def product(column: Value, term: Value) -> Value:
        factor = b.b.load(b.at(factors, term, F64), typ=F64, align=8)
        w = b.load(column, b.mul(integer(taps, term), width))
        return b.b.fmul(b.b.fpext(w, wide), b.splat(factor))

    with b.loop("point", 0, points) as point, b.loop("c", 0, channels) as c:
        first, stop = (integer(stops, b.add(point.index, n)) for n in (0, 1))
        filters = b.at(source, b.mul(b.mul(c.index, size), width))
        row = b.mul(b.add(b.mul(point.index, channels), c.index), width)
        with b.loop("f", 0, width, b.lanes) as f:
            column = b.at(filters, f.index)
            carry = [product(column, first)]
            with b.loop("term", b.add(first, 1), stop, carry=carry) as term:
                term.yields([b.b.fadd(term.carried[0], product(column, term.index))])
            b.store(b.b.fptrunc(term.results[0], narrow), result, b.add(row, f.index))
    b.b.ret_void()

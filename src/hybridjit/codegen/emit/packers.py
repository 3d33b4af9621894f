"""The modules that pack weights: machine code with the same results as ``packing``, bit for bit.

``transposed`` transposes filters, which are rows in memory. ``filters_M`` applies the transform of
Winograd's F(M x M, 3x3) to transposed filters; it has a module for each M, because LLVM takes 16 to
25 ms for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..._core.target import Target
from ..kinds.parts.transpose import Digits, transpose_rows
from ..kinds.weights.filters import transform_filters
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.types import I64, PTR, VOID
from ..packing import WinogradPacking

TRANSPOSED = "transposed"
SIZES: Mapping[str, int] = {f"filters_{m}": m for m in (2, 4, 5)}


def packers_for(packings: Iterable[object]) -> tuple[str, ...]:
    """The names of the functions that pack weights in these ways."""
    sizes = {p.m for p in packings if isinstance(p, WinogradPacking) and is_plain(p)}
    return (TRANSPOSED, *(name for name, m in SIZES.items() if m in sizes))


def is_plain(packing: WinogradPacking) -> bool:
    """Whether the packing is that of F(m x m, 3x3) for images."""
    return not packing.lines and packing.depth == 1


def emit_packer(target: Target, name: str) -> ir.Module:
    """The module with one packing function."""
    module = ir.Module(name)
    module.triple = target.triple
    if name == TRANSPOSED:
        _emit_transpose(module, target)
    else:
        _emit_filters(module, target, SIZES[name])
    return module


def _function(module: ir.Module, target: Target, name: str, numbers: int) -> LoopBuilder:
    """A function of a source, a destination and ``numbers`` integers."""
    kind = ir.FunctionType(VOID, [PTR, PTR] + [I64] * numbers)
    return LoopBuilder(ir.Function(module, kind, name), target)


def _emit_transpose(module: ir.Module, target: Target) -> None:
    """target[block][k(q)][f] = source[f][q] for q < size; 0 for ``filters`` <= f < ``columns``.

    Blocks have ``width`` filters, the last one the rest of ``columns``. Rows begin ``step`` apart,
    and k(q) = q % minor * k_minor + q // minor * k_major. At least one vector of q.
    """
    b = _function(module, target, TRANSPOSED, 8)
    source, result, filters, columns, width, size, step, minor, k_minor, k_major = b.function.args
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
            transpose_rows(
                b, rows, known, size, Digits(k_minor, minor, k_major),
                lambda v, k: b.store(v, out, b.mul(k, count)),
            )  # fmt: skip
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

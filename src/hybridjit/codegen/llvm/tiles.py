"""Tile registers of AMX: products of matrices of bytes with int32 sums.

A tile holds up to 16 rows of 64 bytes. One instruction adds the products of 16 rows of data with 16
columns of weights, 64 bytes of a sum: on an Intel Xeon with AMX 3350 products a ns, 420 by vectors
of 64 bytes. The registers have fixed numbers, and their contents are lost in any call.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import ir
from .indices import Index
from .types import I8, PTR, VOID, Type, Value
from .vectors import VectorBuilder

ROWS, ROW_BYTES = 16, 64
_PALETTE = 1
_MOST_TILES = 8


def configure(b: VectorBuilder, shapes: Sequence[tuple[int, int]]) -> None:
    """Set the rows, and the bytes of a row, of the tiles from 0 on; all others are empty."""
    rest = [(0, 0)] * (16 - len(shapes))
    assert len(shapes) <= _MOST_TILES
    widths = b"".join(width.to_bytes(2, "little") for _, width in (*shapes, *rest))
    rows = bytes(count for count, _ in (*shapes, *rest))
    data = bytes([_PALETTE]).ljust(16, b"\0") + widths + rows
    _call(b, "ldtilecfg", [ir.Bytes(b.module, data, "tile_config")])


def release(b: VectorBuilder) -> None:
    """Empty all tiles, so that the system does not save them."""
    _call(b, "tilerelease", [])


def load_tile(b: VectorBuilder, tile: int, pointer: Value, stride: Index) -> None:
    """Rows ``stride`` bytes apart; no byte beyond the end of a row is read."""
    _call(b, "tileloadd64", [_number(tile), pointer, b.i64(stride)])


def store_tile(b: VectorBuilder, tile: int, pointer: Value, stride: Index) -> None:
    """Write rows ``stride`` bytes apart."""
    _call(b, "tilestored64", [_number(tile), pointer, b.i64(stride)])


def zero_tile(b: VectorBuilder, tile: int) -> None:
    """Set all elements to 0."""
    _call(b, "tilezero", [_number(tile)])


def add_products(b: VectorBuilder, sums: int, data: int, weights: int) -> None:
    """Add the products of uint8 of ``data`` and int8 of ``weights`` to the tile ``sums``."""
    _call(b, "tdpbusd", [_number(sums), _number(data), _number(weights)])


def _number(tile: int) -> Value:
    return ir.Constant(I8, tile)


def _call(b: VectorBuilder, name: str, args: Sequence[Value]) -> None:
    kinds: list[Type] = [PTR if a.type == PTR else a.type for a in args]
    b.b.call(b.declare(f"llvm.x86.{name}", VOID, kinds), args)

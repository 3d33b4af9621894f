"""Tile registers of AMX: products of byte matrices with int32 sums.

A tile holds up to 16 rows of 64 bytes. One instruction multiplies 16 rows of data by 16 columns of
weights, 64 bytes of the summed axis, and adds the products to a tile of sums. An Intel Xeon with
AMX computes 3350 products per ns in tiles and 420 in vectors of 64 bytes. Code selects tile
registers by number; a function call does not preserve their contents.
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
    """Set the rows and the bytes per row of the first tiles; all other tiles are empty."""
    rest = [(0, 0)] * (16 - len(shapes))
    assert len(shapes) <= _MOST_TILES
    widths = b"".join(width.to_bytes(2, "little") for _, width in (*shapes, *rest))
    rows = bytes(count for count, _ in (*shapes, *rest))
    data = bytes([_PALETTE]).ljust(16, b"\0") + widths + rows
    _call(b, "ldtilecfg", [ir.Bytes(b.module, data, "tile_config")])


def release(b: VectorBuilder) -> None:
    """Release all tiles, so that the operating system does not save them."""
    _call(b, "tilerelease", [])


def load_tile(b: VectorBuilder, tile: int, pointer: Value, stride: Index) -> None:
    """Load rows at a distance of ``stride`` bytes; no byte beyond the end of a row is read."""
    _call(b, "tileloadd64", [_number(tile), pointer, b.i64(stride)])


def store_tile(b: VectorBuilder, tile: int, pointer: Value, stride: Index) -> None:
    """Store rows at a distance of ``stride`` bytes."""
    _call(b, "tilestored64", [_number(tile), pointer, b.i64(stride)])


def zero_tile(b: VectorBuilder, tile: int) -> None:
    """Set all elements of a tile to 0."""
    _call(b, "tilezero", [_number(tile)])


def add_products(b: VectorBuilder, sums: int, data: int, weights: int) -> None:
    """Add the products of uint8 ``data`` and int8 ``weights`` to the tile ``sums``."""
    _call(b, "tdpbusd", [_number(sums), _number(data), _number(weights)])


def _number(tile: int) -> Value:
    return ir.Constant(I8, tile)


def _call(b: VectorBuilder, name: str, args: Sequence[Value]) -> None:
    kinds: list[Type] = [PTR if a.type == PTR else a.type for a in args]
    b.b.call(b.declare(f"llvm.x86.{name}", VOID, kinds), args)

"""Code for layers of bytes in tile registers: 2x2 tiles of sums are stored, then requantized.

A data tile is loaded from rows of x, or from a strip: a copy of lines of x, padded with zeros. A
weight tile is part of a packed block. The epilogue reads the sums from the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ...llvm import tiles
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I8, I32, Pointer, Value, constant_of, vector_of
from ..conv.blocks import Block, blocks_of, in_range, runs_of_blocks
from ..conv.direct import place_in_image
from ..parts.arguments import Arguments
from ..parts.gemm import LINE_BYTES, Ahead
from ..parts.partial import read_vector
from ..parts.program import Operand, Part, operand_addresses, store_parts
from ..parts.quantize import TOGETHER
from .spec import WORD, ByteTilesSpec

_SUMS, _DATA, _WEIGHTS = 0, 4, 6  # first registers of 4 sum, 2 data and 2 weight tiles
_PAIR = 2


def emit_byte_tiles(b: LoopBuilder, spec: ByteTilesSpec, args: Arguments) -> None:
    """Emit y[n,o,f] = program(bias[f] + sum over taps, channels of x[n,o+tap,c] * w[f,tap,c])."""
    _ByteTiles(b, spec, args).emit()


class _Unit(NamedTuple):
    """Indices of a unit of work: the strip or image, the block of filters and the pair of data
    tiles; ``within`` is the index among the pairs that use the block one after the other.
    """

    strip: Index
    block: Index
    pair: Index
    within: Index


class _Tile(NamedTuple):
    """Addresses of operands and results for the first column of a tile, and the first row to
    store; the previous tile stores the rows above it.
    """

    reads: list[Value]
    writes: list[Value]
    first: Index


class _ByteTiles:
    def __init__(self, b: LoopBuilder, spec: ByteTilesSpec, args: Arguments) -> None:
        self.b, self.spec = b, spec
        self.x, self.w = args.pointer("x"), args.working("w")
        self.bias = args.summed("bias") if spec.has_bias else None
        self.reads, self.writes = args.of_program(spec.program)
        scratch = args.pointer("scratch") if spec.lines else self.x
        self.strip = b.at(scratch, b.mul(args.tid, spec.scratch_bytes))
        self.batch = args.integer("batch")
        self.share = args.share, args.shares
        self.blocks = blocks_of(spec.oc, spec.nv, b.lanes)
        self.pairs = -(-spec.tiles // _PAIR)
        sums = b.scratch(vector_of(I32, b.lanes), _PAIR * spec.height * spec.nv)
        self.buffer = Pointer(sums.ref, "int32", I32)

    def emit(self) -> None:
        """Emit a loop that computes the sums of a unit, then the results of the previous unit.

        The tile multiplier thus runs in parallel with the epilogue, and stored sums are in the
        cache before the epilogue reads them.
        """
        b, spec = self.b, self.spec
        count = len(self.blocks)
        b.balance(spec.strips if spec.lines else count * self.pairs)
        self._configure()
        units = b.mul(self.batch, spec.strips * count * self.pairs)
        begin, end = b.part_of(*b.share(units, *self.share))
        stop = b.b.select(b.less(begin, end), b.add(end, 1), end)
        with b.loop("unit", begin, stop, most=1) as unit:
            at = unit.index
            with b.when(b.less(at, end)):
                self._each_kind(at, self._emit_sums)
            with b.when(b.less(begin, at)):
                self._each_kind(b.sub(at, 1), self._emit_results)
            with b.when(b.less(at, end)):
                self._store_sums()
        tiles.release(b)

    def _each_kind(self, unit: Index, emit: Callable[[_Unit, Block], None]) -> None:
        """Call ``emit`` for each kind of block, in code that runs if the unit has such a block."""
        b, spec, count = self.b, self.spec, len(self.blocks)
        strip, rest = b.divmod(unit, count * self.pairs)
        _, block, pair, within = place_in_image(b, spec, rest, self.pairs, count)
        place = _Unit(strip, block, pair, within)
        for kind, number, first in runs_of_blocks(self.blocks):
            with b.when(in_range(b, block, first, first + number, count)):
                emit(place, kind)

    def _configure(self) -> None:
        spec = self.spec
        sums, data = (spec.height, tiles.ROW_BYTES), (spec.height, WORD * spec.words)
        tiles.configure(self.b, [sums] * 4 + [data] * 2 + [(spec.words, tiles.ROW_BYTES)] * 2)

    # --- a strip ---

    def _copy_strip(self, strip: Index) -> None:
        """Copy the input lines of a strip; lines and columns outside the image become zeros."""
        b, spec = self.b, self.spec
        down, across = spec.copied
        image, part = b.divmod(strip, spec.strips)
        source = b.at(self.x, b.mul(image, spec.xs[0]))
        top = b.sub(b.mul(part, spec.lines * spec.stride[1]), spec.pad[1])
        before = spec.pad[2] * spec.ic
        inside = min(spec.inp[2], across - spec.pad[2]) * spec.ic
        after = across * spec.ic - before - inside
        with b.loop("line", 0, down) as line:
            target = b.at(self.strip, b.mul(line.index, across * spec.ic))
            at = b.add(top, line.index)
            is_inside = b.b.icmp_unsigned("<", b.i64(at), b.i64(spec.inp[1]))
            with b.b.if_else(is_inside) as (there, none):
                with there:
                    _fill(b, target, before)
                    self._copy_line(b.at(source, b.mul(at, spec.xs[2])), b.at(target, before))
                    _fill(b, b.at(target, before + inside), after)
                with none:
                    _fill(b, target, across * spec.ic)

    def _copy_line(self, source: Value, target: Value) -> None:
        b, spec = self.b, self.spec
        pixels = min(spec.inp[2], spec.copied[1] - spec.pad[2])
        if spec.xs[3] == spec.ic:
            _copy(b, source, target, pixels * spec.ic)
            return
        with b.loop("pixel", 0, pixels) as pixel:
            first = b.at(source, b.mul(pixel.index, spec.xs[3]))
            _copy(b, first, b.at(target, b.mul(pixel.index, spec.ic)), spec.ic)

    # --- a unit of work ---

    def _emit_sums(self, unit: _Unit, kind: Block) -> None:
        """Compute the sums of a unit in tile registers; a new strip is copied first."""
        b, spec = self.b, self.spec
        if spec.lines:
            with b.when_new(b.i64(unit.strip)):
                self._copy_strip(unit.strip)
        channel = b.mul(unit.block, spec.nv * b.lanes)
        size = spec.steps * spec.words
        weights = b.at(self.w, b.mul(channel, size))
        following = b.at(self.w, b.mul(b.add(channel, spec.nv * b.lanes), size))
        bias = None if self.bias is None else b.at(self.bias, channel)
        data = [self._row(unit, m)[0] for m in range(_PAIR)]
        self._sum(data, weights, kind, bias, following, unit.within)

    def _store_sums(self) -> None:
        """Write all tiles of sums to the stack, including those of unused vectors."""
        b, spec = self.b, self.spec
        for m in range(_PAIR):
            for j in range(spec.nv):
                at = b.at(self.buffer, (m * spec.height * spec.nv + j) * b.lanes)
                tiles.store_tile(b, _SUMS + _PAIR * m + j, at, WORD * spec.nv * b.lanes)

    def _emit_results(self, unit: _Unit, kind: Block) -> None:
        b, spec = self.b, self.spec
        for m in range(_PAIR):
            sums = b.at(self.buffer, m * spec.height * spec.nv * b.lanes)
            self._store(self._tile(unit, m), sums, kind)

    def _row(self, unit: _Unit, number: int) -> tuple[Value, tuple[Index, ...], Index]:
        """Data address, position (image, depth, row, column) and first row to store of a tile.

        ``number`` is the index of the tile in the pair. A tile after the last one stores no rows.
        The last tile of a line overlaps the previous tile, which stores the common rows.
        """
        b, spec = self.b, self.spec
        tile, last = b.add(b.mul(unit.pair, _PAIR), number), spec.tiles - 1
        is_odd = spec.tiles % _PAIR > 0 and number > 0
        line, part = b.divmod(b.min(tile, last) if is_odd else tile, spec.tiles_of_line)
        image, strip = b.divmod(unit.strip, spec.strips)
        column = start = b.mul(part, spec.height)
        if spec.out[2] % spec.height:
            start = b.min(column, spec.out[2] - spec.height)
        first = b.sub(column, start)
        if is_odd:
            first = b.b.select(b.less(last, tile), b.i64(spec.height), b.i64(first))
        depth, row = b.divmod(line, spec.lines or spec.out[1])
        steps = [stride * spec.strides[axis + 1] for axis, stride in enumerate(spec.stride)]
        x = self.strip if spec.lines else b.at(self.x, b.mul(image, spec.xs[0]))
        x = b.at(x, b.dot((depth, row, start), steps))
        return x, (image, depth, b.add(b.mul(strip, spec.lines), row), start), first

    def _tile(self, unit: _Unit, number: int) -> _Tile:
        b, spec = self.b, self.spec
        _, place, first = self._row(unit, number)
        place = (*place, b.mul(unit.block, spec.nv * b.lanes))
        return _Tile(
            [b.at(p, b.dot(place, s)) for p, s in zip(self.reads, spec.reads)],
            [b.at(p, b.dot(place, s)) for p, s in zip(self.writes, spec.writes)],
            first,
        )

    def _sum(
        self,
        data: Sequence[Value],
        weights: Value,
        kind: Block,
        bias: Value | None,
        following: Value,
        within: Index,
    ) -> None:
        """Compute the sums of all tiles of a unit, and prefetch the weights of the next block."""
        b, spec = self.b, self.spec
        for m in range(_PAIR):
            for j in range(kind.nv):
                if bias is None:
                    tiles.zero_tile(b, _SUMS + _PAIR * m + j)
                else:
                    tiles.load_tile(b, _SUMS + _PAIR * m + j, b.at(bias, j * b.lanes), 0)
        size = spec.words * kind.nv * b.lanes
        asked = Ahead.lines_for(WORD * size, 1, spec.rows)
        xs, (depth, height, _) = spec.strides, spec.kernel
        with (
            _each(b, "kd", depth) as kd,
            _each(b, "kh", height) as kh,
            _each(b, "kw", spec.runs) as kw,
            _each(b, "k", spec.steps_of_run) as k,
        ):
            run = b.add(b.mul(b.add(b.mul(kd, height), kh), spec.runs), kw)
            step = b.add(b.mul(run, spec.steps_of_run), k)
            taps = [b.mul(tap, spec.dilate[axis]) for axis, tap in enumerate((kd, kh, kw))]
            offset = b.add(b.dot(taps, xs[1:]), b.mul(k, WORD * spec.words))
            line = b.mul(b.add(b.mul(within, spec.steps), step), asked)
            for number in range(asked):
                at = b.mul(b.add(line, number), LINE_BYTES // WORD)
                b.prefetch(following, at)
            self._add([b.at(x, offset) for x in data], b.at(weights, b.mul(step, size)), kind.nv)

    def _add(self, data: Sequence[Value], weights: Value, nv: int) -> None:
        """Add the products of two data tiles and ``nv`` weight tiles to the sums."""
        b, spec = self.b, self.spec
        stride = spec.stride[2] * spec.strides[3]
        for m, pointer in enumerate(data):
            tiles.load_tile(b, _DATA + m, pointer, stride)
            for j in range(nv):
                if m == 0:
                    at = b.at(weights, j * b.lanes)
                    tiles.load_tile(b, _WEIGHTS + j, at, WORD * nv * b.lanes)
                tiles.add_products(b, _SUMS + _PAIR * m + j, _DATA + m, _WEIGHTS + j)

    # --- the results ---

    def _store(self, tile: _Tile, sums: Value, kind: Block) -> None:
        """Apply the program to the rows that a tile stores, and store the results."""
        b, spec = self.b, self.spec
        held = [self._held(tile, j, kind) for j in range(kind.nv)]
        together = TOGETHER // kind.nv
        rest = b.divmod(b.sub(spec.height, tile.first), together)[1]
        stop = b.sub(spec.height, rest)
        most = spec.height // together
        with b.loop("rows", tile.first, stop, together, most=most) as row:
            self._store_rows(tile, sums, kind, held, row.index, together)
        if isinstance(rest, int) and rest == 0:
            return
        with b.loop("row", stop, spec.height, most=together) as row:
            self._store_rows(tile, sums, kind, held, row.index, 1)

    def _held(self, tile: _Tile, vector: int, kind: Block) -> list[Value | None]:
        """Values of operands that are equal for all columns; None for other operands."""
        b, lanes = self.b, self._lanes(vector, kind)
        return [
            None if any(s[1:4]) else read_vector(b, p, vector * b.lanes * s[4], s[4], lanes)
            for p, s in zip(tile.reads, self.spec.reads)
        ]

    def _lanes(self, vector: int, kind: Block) -> int:
        return kind.last if vector == kind.nv - 1 else self.b.lanes

    def _store_rows(
        self,
        tile: _Tile,
        sums: Value,
        kind: Block,
        held: Sequence[Sequence[Value | None]],
        row: Index,
        count: int,
    ) -> None:
        b, spec = self.b, self.spec
        reads = [b.at(p, b.mul(row, s[3])) for p, s in zip(tile.reads, spec.reads)]
        writes = [b.at(p, b.mul(row, s[3])) for p, s in zip(tile.writes, spec.writes)]
        first = b.at(sums, b.mul(row, spec.nv * b.lanes))
        parts = []
        for m in range(count):
            for j in range(kind.nv):
                value = b.load(first, (m * spec.nv + j) * b.lanes)
                places = operand_addresses(b, reads, spec.reads, m, j * b.lanes)
                sources: list[Operand] = [h or p for h, p in zip(held[j], places)]
                targets = operand_addresses(b, writes, spec.writes, m, j * b.lanes)
                parts.append(Part(value, sources, targets, self._lanes(j, kind)))
        store_parts(b, spec.program, parts)


@contextmanager
def _each(b: LoopBuilder, name: str, count: int) -> Iterator[Index]:
    """Loop over the integers below ``count``; no loop is emitted for a count of 1."""
    if count == 1:
        yield 0
        return
    with b.loop(name, 0, count) as loop:
        yield loop.index


def _copy(b: LoopBuilder, source: Value, target: Value, count: int) -> None:
    """Copy ``count`` bytes in the longest vectors; the last vector may overlap the previous."""

    def move(at: Index, size: int) -> None:
        kind = vector_of(I8, size)
        b.b.store(b.b.load(b.at(source, at), typ=kind, align=1), b.at(target, at), align=1)

    _in_vectors(b, count, move)


def _fill(b: LoopBuilder, target: Value, count: int) -> None:
    """Write ``count`` zero bytes."""

    def clear(at: Index, size: int) -> None:
        b.b.store(constant_of(vector_of(I8, size), 0), b.at(target, at), align=1)

    _in_vectors(b, count, clear)


def _in_vectors(b: LoopBuilder, count: int, move: Callable[[Index, int], None]) -> None:
    """Call ``move(first, size)`` for vectors that cover ``count`` bytes; the last may overlap."""
    size = min(LINE_BYTES, 1 << max(0, count.bit_length() - 1))
    whole = count - count % size
    if whole == size:
        move(0, size)
    elif whole:
        with b.loop("bytes", 0, whole, size) as at:
            move(at.index, size)
    if whole < count:
        move(count - size, size)

"""Products of two activations with sizes given by the call: the sums and bits of ``matmul``.

Columns are packed a block at a time; a partial block uses masks. Rows are divided into tiles whose
heights differ by at most one, with code for each possible height.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I64, Value
from ..parts.arguments import Arguments
from ..parts.gemm import Rows, multiply
from ..parts.partial import read_vector
from ..parts.program import store_epilogue
from ..parts.transpose import Digits, transpose_rows
from .spec import SizedMatmulSpec


def emit_sized_matmul(b: LoopBuilder, spec: SizedMatmulSpec, args: Arguments) -> None:
    """y[i,m,n] = program(bias[n] + sum over k of a[i,m,k] * b[i,k,n])."""
    _SizedMatmul(b, spec, args).emit()


class _SizedMatmul:
    """``m``, ``n``, ``k`` and strides are values of the call unless the spec has constants."""

    def __init__(self, b: LoopBuilder, spec: SizedMatmulSpec, args: Arguments) -> None:
        self.b, self.spec, self.args = b, spec, args
        self.left, self.right = args.pointer("a"), args.pointer("b")
        dtype = spec.bias_type or b.target.element.accumulated
        self.bias = args.pointer("bias", dtype) if spec.has_bias else None
        self.reads, self.writes = args.of_program(spec.program)
        scratch = args.working("scratch")
        self.batch = args.integer("batch")
        self.m, self.n, self.k = args.given((spec.m, spec.n, spec.k))
        self.a, self.of_b = args.given(spec.a), args.given(spec.b)
        self.read_strides = [args.given(each) for each in spec.reads]
        self.write_strides = [args.given(each) for each in spec.writes]
        self.width = spec.nv * b.lanes
        self.packed = b.at(scratch, b.mul(args.tid, b.mul(self.k, self.width)))
        self.sums = b.scratch(b.vector_type(), spec.mr * spec.nv)
        self.held = self._nothing_held()

    def _nothing_held(self) -> Value:
        """Stack memory for the number of the packed block in scratch, initially -1."""
        b = self.b
        with b.b.goto_entry_block():
            held = b.b.alloca(I64)
            b.b.store(b.i64(-1), held, align=8)
            return held

    def emit(self) -> None:
        b, spec = self.b, self.spec
        blocks = b.quotient_up(self.n, self.width)
        units = b.product([self.batch, blocks, spec.parts])
        with b.each_unit(units, self.args.share, self.args.shares) as unit:
            image, block, part = b.split(unit.index, (0, blocks, spec.parts))
            column = b.mul(block, self.width)
            left = b.sub(self.n, column)
            number = b.i64(b.add(b.mul(image, blocks), block))
            self._pack_once(number, image, column, left)
            tiles = b.quotient_up(self.m, spec.mr)
            start, stop = (b.divmod(b.mul(p, tiles), spec.parts)[0] for p in (part, b.add(part, 1)))
            with b.loop("tile", start, stop) as tile:
                row, height = self._rows_of(tile.index, tiles)
                self._emit_tiles((image, row, column), height, left)

    def _rows_of(self, tile: Index, tiles: Index) -> tuple[Index, Index]:
        """A tile's first row and its height; the taller tiles come first."""
        b = self.b
        height, taller = b.divmod(self.m, tiles)
        row = b.add(b.mul(tile, height), b.min(tile, taller))
        is_taller = b.b.zext(b.less(tile, taller), I64)
        return row, b.add(height, is_taller)

    def _emit_tiles(self, place: tuple[Index, Index, Index], height: Index, left: Index) -> None:
        """The tile for each height. Sums of a partial block, which has zeros after its last
        column, pass through memory to a loop over the rows, which has the masked stores once.
        """
        b, spec = self.b, self.spec
        full: list[Index] = [b.lanes] * spec.nv
        is_whole = isinstance(self.n, int) and self.n % self.width == 0
        counts = full if is_whole else self._counts(left)
        for known in range(spec.least, spec.mr + 1):
            with b.when(b.equal(height, known)):
                sums = self._multiplied(place, known, counts)
                if is_whole:
                    self._store(place, sums, full)
                    continue
                with b.when(b.less(self.width - 1, left)):
                    self._store(place, sums, full)
                with b.when(b.less(left, self.width)):
                    for i, value in enumerate(sums):
                        b.store(value, self.sums, i * b.lanes)
        if not is_whole:
            with b.when(b.less(left, self.width)):
                self._store_rows(place, height, counts)

    def _store_rows(
        self, place: tuple[Index, Index, Index], height: Index, counts: Sequence[Index]
    ) -> None:
        """Store the rows of a partial block from memory."""
        b, nv = self.b, self.spec.nv
        image, first, column = place
        with b.loop("row", 0, height, most=self.spec.mr) as row:
            at = b.mul(row.index, nv * b.lanes)
            values = [b.load(self.sums, b.add(at, j * b.lanes)) for j in range(nv)]
            self._store((image, b.add(first, row.index), column), values, counts)

    def _counts(self, left: Index) -> list[Index]:
        """Columns of each vector of a block of which ``left`` columns exist."""
        b = self.b
        return [b.max(b.min(b.sub(left, j * b.lanes), b.lanes), 0) for j in range(self.spec.nv)]

    # --- packed[k, column] of a block; lanes beyond the last column are zeros ---

    def _pack_once(self, number: Value, image: Index, column: Index, left: Index) -> None:
        """Pack a block for the first of its adjacent parts that this thread computes."""
        b = self.b
        held = b.b.load(self.held, typ=I64, align=8)
        with b.when(b.b.icmp_signed("!=", held, number)):
            source = b.at(self.right, b.dot((image, 0, column), self.of_b))
            if self._has_columns():
                self._pack_transposed(source, left)
            else:
                self._pack_rows(source, left)
            b.b.store(number, self.held, align=8)

    def _has_columns(self) -> bool:
        """Whether columns are contiguous and certainly fill vectors."""
        _, down, across = self.of_b
        follows = isinstance(down, int) and down == 1
        apart = not isinstance(across, int) or across != 1
        return follows and apart and isinstance(self.k, int) and self.k >= self.b.lanes

    def _pack_rows(self, source: Value, left: Index) -> None:
        b, (_, down, across) = self.b, self.of_b
        counts = self._counts(left)
        with b.loop("k", 0, self.k) as k:
            line = b.at(source, b.mul(k.index, down))
            target = b.at(self.packed, b.mul(k.index, self.width))
            for j, count in enumerate(counts):
                at = b.mul(j * b.lanes, across)
                if isinstance(across, int) and across == 1:
                    vector = read_vector(b, line, at, 1, count)
                else:
                    vector = self._collect(line, j, left)
                b.store(vector, target, j * b.lanes)

    def _collect(self, line: Value, j: int, left: Index) -> Value:
        """A vector of strided columns; lanes beyond the last column repeat it."""
        b, across = self.b, self.of_b[2]
        last = b.sub(left, 1)
        vector = b.splat(0.0)
        for lane in range(b.lanes):
            column = b.min(j * b.lanes + lane, last)
            value = read_vector(b, line, b.mul(column, across), 0, b.lanes)
            vector = b.b.select(b.lane_mask(lane), value, vector)
        return vector

    def _pack_transposed(self, source: Value, left: Index) -> None:
        """Pack columns that are contiguous in memory."""
        b, across = self.b, self.of_b[2]
        assert isinstance(self.k, int)
        vectors = b.min(b.quotient_up(left, b.lanes), self.spec.nv)
        with b.loop("vector", 0, vectors, most=self.spec.nv) as vector:
            at = b.mul(vector.index, b.lanes)
            last = b.sub(b.sub(left, at), 1)
            first = b.at(source, b.mul(at, across))
            target = b.at(self.packed, at)
            transpose_rows(
                b,
                [b.at(first, b.mul(b.min(i, last), across)) for i in range(b.lanes)],
                [b.b.icmp_signed("<=", b.i64(i), b.i64(last)) for i in range(b.lanes)],
                self.k,
                Digits(self.width),
                lambda value, k: b.store(value, target, k),
            )
        with b.loop("zeros", vectors, self.spec.nv, most=self.spec.nv) as vector:
            target = b.at(self.packed, b.mul(vector.index, b.lanes))
            with b.loop("k", 0, self.k) as k:
                b.store(b.splat(0.0), target, b.mul(k.index, self.width))

    # --- results ---

    def _multiplied(
        self, place: tuple[Index, Index, Index], height: int, counts: Sequence[Index]
    ) -> list[Value]:
        """The sums of a tile: ``height`` rows of a block."""
        b, spec = self.b, self.spec
        image, row, column = place
        biases = [self._begin(column, j, count) for j, count in enumerate(counts)]
        return multiply(
            b,
            b.at(self.left, b.dot((image, row), self.a[:2])),
            self.packed,
            self.k,
            spec.unroll,
            Rows(self.a[1], self.a[2]),
            spec.nv,
            biases * height,
            (0, height),
            is_long=spec.is_long,
        )

    def _store(
        self,
        place: tuple[Index, Index, Index],
        accs: Sequence[Value],
        counts: Sequence[Index],
    ) -> None:
        """The program and the stores of rows from a place on."""
        b, spec = self.b, self.spec
        reads = [b.at(p, b.dot(place, s)) for p, s in zip(self.reads, self.read_strides)]
        writes = [b.at(p, b.dot(place, s)) for p, s in zip(self.writes, self.write_strides)]
        for i, value in enumerate(accs):
            m, j = divmod(i, spec.nv)
            sources = self._at(reads, self.read_strides, m, j)
            targets = self._at(writes, self.write_strides, m, j)
            store_epilogue(b, spec.program, value, sources, targets, counts[j])

    def _at(
        self, pointers: Sequence[Value], strides: Sequence[Sequence[Index]], row: int, j: int
    ) -> list[tuple[Value, Index, Index]]:
        b = self.b
        return [
            (p, b.add(b.mul(row, s[-2]), b.mul(j * b.lanes, s[-1])), s[-1])
            for p, s in zip(pointers, strides)
        ]

    def _begin(self, column: Index, vector: int, count: Index) -> Value:
        """The initial sums of a vector of columns."""
        b = self.b
        if self.bias is None:
            return b.splat(0.0)
        return read_vector(b, self.bias, b.add(column, vector * b.lanes), 1, count)

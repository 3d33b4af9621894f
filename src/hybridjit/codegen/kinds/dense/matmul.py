"""Products of two activations: B is packed on demand, a block of columns at a time."""

from __future__ import annotations

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I64, Value
from ..parts.arguments import Arguments
from ..parts.gemm import (
    Rows,
    ending_in_half,
    is_in_pairs,
    multiply,
    steps_of_round,
    steps_of_sum,
)
from ..parts.partial import as_pairs, low_halves, read_vector
from ..parts.program import Part, operand_addresses, store_parts
from ..parts.transpose import Digits, transpose_rows
from .one_row import sum_in_place
from .spec import MatmulSpec


def emit_matmul(b: LoopBuilder, spec: MatmulSpec, args: Arguments) -> None:
    """y[i,m,n] = program(bias[n] + sum over k of a[i,m,k] * b[i,k,n])."""
    (_InPlace if spec.in_place else Matmul)(b, spec, args).emit()


class Matmul:
    """The walk over blocks of columns and tiles of rows; subclasses pack and begin differently."""

    def __init__(self, b: LoopBuilder, spec: MatmulSpec, args: Arguments) -> None:
        self.b, self.spec, self.args = b, spec, args
        self.left, self.right = args.pointer("a"), args.pointer("b")
        dtype = spec.bias_type or b.target.element.accumulated
        self.bias = args.pointer("bias", dtype) if spec.bias else None
        self.reads, self.writes = args.of_program(spec.program)
        scratch = args.working("scratch")
        self.batch = args.integer("batch")
        self.packed = b.at(scratch, b.mul(args.tid, spec.scratch_floats(b.lanes)))
        self.vectors = -(-spec.n // b.lanes)
        self.last = spec.n - (self.vectors - 1) * b.lanes
        self.held = self._nothing_held() if spec.parts > 1 else None

    def _nothing_held(self) -> Value:
        """Stack memory for the number of the packed block in scratch, initially -1."""
        b = self.b
        with b.b.goto_entry_block():
            held = b.b.alloca(I64)
            b.b.store(b.i64(-1), held, align=8)
            return held

    def emit(self) -> None:
        b, spec = self.b, self.spec
        blocks = -(-self.vectors // spec.nv)
        rest = self.vectors - (blocks - 1) * spec.nv
        units = b.mul(self.batch, blocks * spec.parts)
        with b.each_unit(units, self.args.share, self.args.shares) as unit:
            image, block, part = b.split(unit.index, (0, blocks, spec.parts))
            if (rest, self.last) == (spec.nv, b.lanes):
                self._emit_block(image, block, part, spec.nv, b.lanes)
            else:
                if blocks > 1:
                    with b.when(b.less(block, blocks - 1)):
                        self._emit_block(image, block, part, spec.nv, b.lanes)
                with b.when(b.less(blocks - 2, block)):
                    self._emit_block(image, block, part, rest, self.last)

    def _emit_block(self, image: Index, block: Index, part: Index, nv: int, last: int) -> None:
        b, spec = self.b, self.spec
        column = b.mul(block, spec.nv * b.lanes)
        self._pack_once(image, block, column, nv, last)
        tiles = -(-spec.m // spec.mr)
        height, taller = divmod(spec.m, tiles)
        start, stop = (b.divmod(b.mul(p, tiles), spec.parts)[0] for p in (part, b.add(part, 1)))
        most = -(-tiles // spec.parts)
        # Tiles differ by at most one row; the taller ones come first.
        if taller:
            with b.loop("row", start, b.min(stop, taller), most=most) as tile:
                row = b.mul(tile.index, height + 1)
                self._emit_tile(image, row, column, height + 1, nv, last)
            start = b.max(start, taller)
        with b.loop("row", start, stop, most=most) as tile:
            row = b.add(b.mul(tile.index, height), taller)
            self._emit_tile(image, row, column, height, nv, last)

    def _pack_once(self, image: Index, block: Index, column: Index, nv: int, last: int) -> None:
        """Pack a block for the first of its adjacent parts that this thread computes."""
        b = self.b
        if self.held is None:
            self._pack(image, column, nv, last)
            return
        number = b.i64(b.add(b.mul(image, self.vectors), block))
        held = b.b.load(self.held, typ=I64, align=8)
        with b.when(b.b.icmp_signed("!=", held, number)):
            self._pack(image, column, nv, last)
            b.b.store(number, self.held, align=8)

    def _pack(self, image: Index, column: Index, nv: int, last: int) -> None:
        """packed[k, column] of this block; lanes beyond the last column are zeros."""
        b, spec = self.b, self.spec
        source = b.at(self.right, b.dot((image, 0, column), spec.b))
        if self._has_whole_vectors(steps_of_sum(b, spec.k)):
            self._pack_transposed(source, nv, last)
        elif is_in_pairs(b):
            self._pack_pairs(source, nv, last)
        else:
            self._pack_rows(source, nv, last)

    def _has_whole_vectors(self, steps: int) -> bool:
        """Whether columns are contiguous and fill vectors; for pairs, without a remainder."""
        spec, b = self.spec, self.b
        if is_in_pairs(b) and spec.k % 2:
            return False
        return spec.b[1] == 1 != spec.b[2] and steps >= b.lanes

    def _pack_pairs(self, source: Value, nv: int, last: int) -> None:
        """Words of two rows; an odd last row is paired with zeros."""
        pairs = self.spec.k // 2
        if pairs:
            with self.b.loop("k", 0, pairs) as k:
                self._pack_pair(source, k.index, nv, last, True)
        if self.spec.k % 2:
            self._pack_pair(source, pairs, nv, last, False)

    def _pack_pair(self, source: Value, k: Index, nv: int, last: int, is_whole: bool) -> None:
        b, step = self.b, self.spec.b
        first = b.at(source, b.mul(k, 2 * step[1]))
        for j in range(nv):
            lanes, at = last if j == nv - 1 else b.lanes, j * b.lanes * step[2]
            word = low_halves(b, read_vector(b, first, at, step[2], lanes))
            if is_whole:
                second = read_vector(b, b.at(first, step[1]), at, step[2], lanes)
                word = b.b.or_(word, b.b.bitcast(second, word.type))
            b.store(word, self.packed, b.add(b.mul(k, nv * b.lanes), j * b.lanes))

    def _pack_rows(self, source: Value, nv: int, last: int) -> None:
        b, spec = self.b, self.spec
        with b.loop("k", 0, spec.k) as k:
            line = b.at(source, b.mul(k.index, spec.b[1]))
            for j in range(nv):
                lanes = last if j == nv - 1 else b.lanes
                vector = read_vector(b, line, j * b.lanes * spec.b[2], spec.b[2], lanes)
                b.store(vector, self.packed, b.add(b.mul(k.index, nv * b.lanes), j * b.lanes))

    def _pack_transposed(self, source: Value, nv: int, last: int) -> None:
        """Pack columns that are contiguous in memory."""
        whole = nv if last == self.b.lanes else nv - 1
        with self.b.loop("vector", 0, whole) as vector:
            self._pack_square(source, vector.index, nv, self.b.lanes)
        if whole < nv:
            self._pack_square(source, whole, nv, last)

    def _pack_square(self, source: Value, vector: Index, nv: int, lanes: int) -> None:
        b, step = self.b, self.spec.b[2]
        first = b.at(source, b.mul(vector, b.lanes * step))
        columns = [b.at(first, min(i, lanes - 1) * step) for i in range(b.lanes)]
        if is_in_pairs(b):
            columns = [as_pairs(column) for column in columns]
        target = b.at(self.packed, b.mul(vector, b.lanes))
        transpose_rows(
            b,
            columns,
            [b.bit(i < lanes) for i in range(b.lanes)],
            steps_of_sum(b, self.spec.k),
            Digits(nv * b.lanes),
            lambda value, at: b.store(value, target, at),
        )

    def _emit_tile(
        self, image: Index, row: Index, column: Index, count: int, nv: int, last: int
    ) -> None:
        b, spec = self.b, self.spec
        place = (image, row, column)
        accs = self._sums(place, self._starts(row, column, count, nv, last), nv, last)
        reads = [b.at(p, b.dot(place, s)) for p, s in zip(self.reads, spec.reads)]
        writes = [b.at(p, b.dot(place, s)) for p, s in zip(self.writes, spec.writes)]
        parts = []
        for m in range(count):
            for j in range(nv):
                lanes = last if j == nv - 1 else b.lanes
                sources = operand_addresses(b, reads, spec.reads, m, j * b.lanes)
                targets = operand_addresses(b, writes, spec.writes, m, j * b.lanes)
                parts.append(Part(b.widened(accs[m * nv + j]), sources, targets, lanes))
        store_parts(b, spec.program, parts)

    def _sums(
        self, place: tuple[Index, Index, Index], starts: list[Value], nv: int, last: int
    ) -> list[Value]:
        """The sums of the tile at (image, row, column), whose vectors of a row are ``nv``."""
        b, spec, count = self.b, self.spec, len(starts) // nv
        found: list[Value] = multiply(
            b,
            b.at(self.left, b.dot(place[:2], spec.a[:2])),
            self.packed,
            spec.k,
            steps_of_round(b, nv * count, nv, spec.unroll),
            Rows(spec.a[1], spec.a[2]),
            nv,
            starts,
            (0, count),
        )
        return found

    def _starts(self, row: Index, column: Index, count: int, nv: int, last: int) -> list[Value]:
        """The initial sums of a tile of ``count`` rows."""
        b = self.b
        biases = [self._begin(column, j, last if j == nv - 1 else b.lanes) for j in range(nv)]
        return ending_in_half(b, biases, last, self.spec.half_last) * count

    def _begin(self, column: Index, vector: int, lanes: int) -> Value:
        """The initial sums of a vector of columns."""
        b = self.b
        if self.bias is None:
            return b.splat(0.0)
        (stride,) = self.spec.bias
        at = b.mul(b.add(column, vector * b.lanes), stride)
        return read_vector(b, self.bias, at, stride, lanes)


class _InPlace(Matmul):
    """A product of single rows, for which nothing is packed."""

    def _pack(self, image: Index, column: Index, nv: int, last: int) -> None:
        pass

    def _sums(
        self, place: tuple[Index, Index, Index], starts: list[Value], nv: int, last: int
    ) -> list[Value]:
        b, (image, row, column) = self.b, place
        left = b.at(self.left, b.dot((image, row), self.spec.a[:2]))
        right = b.at(self.right, b.dot((image, 0, column), self.spec.b))
        return sum_in_place(b, self.spec, left, right, starts, last)

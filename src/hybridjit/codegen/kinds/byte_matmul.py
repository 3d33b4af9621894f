"""Products of matrices of bytes that are both computed: exact int32 sums.

B is packed to words of four bytes of a column, as int8, a block of columns at a time. With zero
points za and zb, a sum is  a b - za sum(b) - zb sum(a) + size za zb:  the sums of a block's columns
are taken when it is packed, those of rows once for each matrix.
"""

from __future__ import annotations

from ..._core.frozen import dataclass
from ..._core.target import QUADS, ElementTypes
from ..._core.types import product
from ...ir.plan import Step
from ...ops.quantized import SIGN
from ..call import (
    Address,
    Argument,
    Call,
    Scratch,
    Setting,
    broadcast_strides,
    build_program,
    views_of,
)
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I32, I64, Value, constant_of
from .dense.choose import matmul_tiles
from .dense.matmul import Matmul
from .dense.spec import MatmulSpec
from .parts.arguments import Arguments
from .parts.gemm import steps_of_sum
from .parts.partial import read_bytes, read_quad, read_vector
from .parts.transpose import transposed
from .record import register

_WORD = 4
_BYTE_BITS = 8
_ONES = 0x01010101
_SIGNS = 0x80808080


@dataclass(frozen=True)
class ByteMatmulSpec(MatmulSpec):
    """A product of two matrices of bytes; arguments as those of :class:`MatmulSpec`.

    lhs_zero, rhs_zero  zero points of a as uint8 and of b as int8
    is_unsigned         whether b is stored as uint8
    by_columns          whether the elements of a column of b are contiguous; else those of a row
    """

    lhs_zero: int = 0
    rhs_zero: int = 0
    is_unsigned: bool = False
    by_columns: bool = False
    element: ElementTypes = QUADS
    kind = "byte_matmul"

    def scratch_floats(self, lanes: int) -> int:
        """Words of a packed block, of the initial sums of its columns, and of those of rows."""
        steps, columns = -(-self.k // _WORD), self.nv * lanes
        return (
            steps * columns + (columns if self.lhs_zero else 0) + (self.m if self.rhs_zero else 0)
        )


def choose_byte_matmul(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The call of a product with its fused operators."""
    anchor, target = step.group.anchor, setting.target.of(QUADS)
    program, operands = build_program(step, anchored=True)
    left, right = views_of(step, anchor.inputs)
    others = views_of(step, operands)
    attrs, (batch, m, n), k = anchor.attrs, anchor.shape, left.shape[2]
    mr, nv, _, parts = matmul_tiles((m, n), batch, True, target)
    is_unsigned = right.dtype.name == "uint8"
    b = right.strides
    spec = ByteMatmulSpec(
        m=m,
        n=n,
        k=k,
        a=left.strides,
        b=(b[0], b[2], b[1]) if attrs["transpose_b"] else b,
        reads=tuple(broadcast_strides(v, anchor.shape) for v in others),
        writes=tuple(v.strides for v in step.writes),
        mr=mr,
        nv=nv,
        unroll=4,
        parts=parts,
        program=program,
        lhs_zero=attrs["lhs_zero"],
        rhs_zero=attrs["rhs_zero"] - (SIGN if is_unsigned else 0),
        is_unsigned=is_unsigned,
        by_columns=attrs["transpose_b"],
    )
    scratch = Scratch(target.element_bytes * spec.scratch_floats(target.lanes))
    views = map(Address, (left, right, *others, *step.writes))
    args: tuple[Argument, ...] = (*views, scratch, batch)
    return (Call(spec, args, product(anchor.shape) * k),)


def emit_byte_matmul(b: LoopBuilder, spec: ByteMatmulSpec, args: Arguments) -> None:
    """y[i,m,n] = program(sum over k of (a[i,m,k] - za) * (b[i,k,n] - zb))."""
    _ByteMatmul(b, spec, args).emit()


class _ByteMatmul(Matmul):
    spec: ByteMatmulSpec

    def __init__(self, b: LoopBuilder, spec: ByteMatmulSpec, args: Arguments) -> None:
        super().__init__(b, spec, args)
        size = steps_of_sum(b, spec.k) * spec.nv * b.lanes
        self.columns = b.at(self.packed, size)
        self.rows = b.at(self.columns, spec.nv * b.lanes if spec.lhs_zero else 0)
        self.matrix = self._nothing_held() if spec.rhs_zero else None

    def _pack(self, image: Index, column: Index, nv: int, last: int) -> None:
        b, spec = self.b, self.spec
        source = b.at(self.right, b.dot((image, 0, column), spec.b))
        if spec.by_columns:
            self._pack_columns(source, nv, last)
        else:
            self._pack_rows(source, nv, last)
        if spec.lhs_zero:
            self._sum_columns(nv)
        if self.matrix is not None:
            self._sum_rows_once(image, self.matrix)

    # --- packing ---

    def _pack_rows(self, source: Value, nv: int, last: int) -> None:
        """Words of four rows; the last word may be partly empty."""
        whole, rest = divmod(self.spec.k, _WORD)
        if whole:
            with self.b.loop("k", 0, whole) as k:
                self._pack_word(source, k.index, nv, last, _WORD)
        if rest:
            self._pack_word(source, whole, nv, last, rest)

    def _pack_word(self, source: Value, k: Index, nv: int, last: int, count: int) -> None:
        b, step = self.b, self.spec.b[1]
        for j in range(nv):
            lanes = last if j == nv - 1 else b.lanes
            word = self._splat(0)
            for n in range(count):
                at = b.add(b.mul(b.add(b.mul(k, _WORD), n), step), j * b.lanes)
                byte = b.b.zext(read_vector(b, source, at, 1, lanes), word.type)
                word = b.b.or_(word, b.b.shl(byte, constant_of(word.type, _BYTE_BITS * n)))
            at = b.add(b.mul(k, nv * b.lanes), j * b.lanes)
            b.store(self._signed(word, count), self.packed, at)

    def _signed(self, word: Value, count: int = _WORD) -> Value:
        """Words of int8, of which ``count`` bytes are used."""
        if not self.spec.is_unsigned:
            return word
        signs = _SIGNS & ((1 << _BYTE_BITS * count) - 1)
        return self.b.b.xor(word, constant_of(word.type, signs - (signs >> 31 << 32)))

    def _pack_columns(self, source: Value, nv: int, last: int) -> None:
        """Words of columns whose elements are contiguous: squares of them are transposed."""
        words, rest = divmod(self.spec.k, _WORD)
        columns = (nv - 1) * self.b.lanes + last
        if words >= self.b.lanes:
            for j in range(nv):
                self._pack_squares(source, j, nv, last if j == nv - 1 else self.b.lanes, words)
        elif words:
            with self.b.loop("column", 0, columns) as column, self.b.loop("k", 0, words) as k:
                self._pack_one(source, column.index, k.index, nv, _WORD)
        if rest:
            with self.b.loop("column", 0, columns) as column:
                self._pack_one(source, column.index, words, nv, rest)

    def _pack_one(self, source: Value, column: Index, k: Index, nv: int, count: int) -> None:
        b = self.b
        place = b.at(source, b.add(b.mul(column, self.spec.b[2]), b.mul(k, _WORD)))
        word = read_quad(b, place, 0) if count == _WORD else read_bytes(b, place, 0, count)
        at = b.add(b.mul(k, nv * b.lanes), column)
        b.store(self._signed(word, count), self.packed, at)

    def _pack_squares(self, source: Value, vector: int, nv: int, lanes: int, words: int) -> None:
        b, step = self.b, self.spec.b[2]
        columns = [
            b.at(source, (vector * b.lanes + min(lane, lanes - 1)) * step)
            for lane in range(b.lanes)
        ]
        with b.loop("k", 0, words, b.lanes) as k:
            # The last square begins where it is full: some words are written twice.
            first = b.min(k.index, words - b.lanes)
            square = [self._words(column, b.mul(first, _WORD)) for column in columns]
            for n, value in enumerate(transposed(b, square)):
                at = b.add(b.mul(b.add(first, n), nv * b.lanes), vector * b.lanes)
                b.store(self._signed(value), self.packed, at)

    def _words(self, pointer: Value, at: Index) -> Value:
        """A vector of words from any address."""
        b = self.b
        return b.b.load(b.at(pointer, at), typ=b.vector_type(element=I32), align=1)

    # --- zero points ---

    def _sum_columns(self, nv: int) -> None:
        """The initial sums of a packed block:  size za zb - za sum(b)."""
        b, spec = self.b, self.spec
        zeros = [self._splat(0)] * nv
        with b.loop("k", 0, steps_of_sum(b, spec.k), carry=zeros) as k:
            line = b.mul(k.index, nv * b.lanes)
            words = [b.load(self.packed, b.add(line, j * b.lanes)) for j in range(nv)]
            ones = self._splat(_ONES)
            k.yields([b.add_quads(ones, word, acc) for word, acc in zip(words, k.carried)])
        start = self._splat(spec.k * spec.lhs_zero * spec.rhs_zero)
        for j, total in enumerate(k.results):
            less = b.b.mul(total, self._splat(spec.lhs_zero))
            b.store(b.b.sub(start, less), self.columns, j * b.lanes)

    def _splat(self, number: int) -> Value:
        return constant_of(self.b.vector_type(element=I32), number)

    def _sum_rows_once(self, image: Index, held: Value) -> None:
        """-zb sum(a) of each row, for the first block of a matrix that this thread computes."""
        b = self.b
        number = b.i64(image)
        before = b.b.load(held, typ=I64, align=8)
        with b.when(b.b.icmp_signed("!=", before, number)):
            left = b.at(self.left, b.mul(image, self.spec.a[0]))
            with b.loop("row", 0, self.spec.m) as row:
                total = self._sum_of_row(b.at(left, b.mul(row.index, self.spec.a[1])))
                less = b.b.mul(total, ir.Constant(I32, -self.spec.rhs_zero))
                b.store(less, self.rows, row.index)
            b.b.store(number, held, align=8)

    def _sum_of_row(self, row: Value) -> Value:
        b, size = self.b, self.spec.k
        width = _WORD * b.lanes
        whole = size - size % width
        total = self._splat(0)
        if whole:
            with b.loop("k", 0, whole, width, carry=[total]) as k:
                words = self._words(row, k.index)
                k.yields([b.add_quads(words, self._splat(_ONES), k.carried[0])])
            total = k.results[0]
        result = b.reduce_lanes(total, b.b.add) if whole else ir.Constant(I32, 0)
        if whole < size:
            with b.loop("rest", whole, size, carry=[result]) as rest:
                byte = b.b.zext(b.load_scalar(row, rest.index), I32)
                rest.yields([b.b.add(rest.carried[0], byte)])
            result = rest.results[0]
        return result

    def _starts(self, row: Index, column: Index, count: int, nv: int, last: int) -> list[Value]:
        b, spec = self.b, self.spec
        of_columns = [
            b.load(self.columns, j * b.lanes) if spec.lhs_zero else self._splat(0)
            for j in range(nv)
        ]
        if not spec.rhs_zero:
            return of_columns * count
        found: list[Value] = []
        for m in range(count):
            less = b.splat(b.load_scalar(self.rows, b.add(row, m)))
            found += [b.b.add(start, less) for start in of_columns]
        return found


register("byte_matmul", choose_byte_matmul, {ByteMatmulSpec: emit_byte_matmul})

"""Products of two activations: B is packed as it is needed, a block of columns at a time."""

from __future__ import annotations

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..parts.arguments import Arguments
from ..parts.gemm import Rows, multiply
from ..parts.partial import read_vector
from ..parts.program import operand_addresses, store_epilogue
from .spec import MatmulSpec


def emit_matmul(b: LoopBuilder, spec: MatmulSpec, args: Arguments) -> None:
    """y[i,m,n] = program(bias[n] + sum over k of a[i,m,k] * b[i,k,n])."""
    _Matmul(b, spec, args).emit()


class _Matmul:
    def __init__(self, b: LoopBuilder, spec: MatmulSpec, args: Arguments) -> None:
        self.b, self.spec, self.args = b, spec, args
        self.left, self.right = args.pointer("a"), args.pointer("b")
        self.bias = args.pointer("bias") if spec.bias else None
        self.reads = [args.pointer(f"r{i}") for i in range(len(spec.reads))]
        self.writes = [args.pointer(f"y{i}") for i in range(len(spec.writes))]
        scratch = args.pointer("scratch")
        self.batch = args.integer("batch")
        self.packed = b.at(scratch, b.mul(args.tid, spec.scratch_floats(b.lanes)))
        self.vectors = -(-spec.n // b.lanes)
        self.last = spec.n - (self.vectors - 1) * b.lanes

    def emit(self) -> None:
        b, spec = self.b, self.spec
        blocks = -(-self.vectors // spec.nv)
        rest = self.vectors - (blocks - 1) * spec.nv
        units = b.mul(self.batch, blocks * spec.parts)
        with b.each_unit(units, self.args.tid, self.args.threads) as unit:
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
        self._pack(image, column, nv, last)
        size = -(-spec.m // spec.parts)
        start = b.mul(part, size)
        stop = b.min(b.add(start, size), spec.m)
        whole = b.sub(stop, b.b.urem(b.i64(b.sub(stop, start)), b.i64(spec.mr)))
        with b.loop("row", start, whole, spec.mr, most=-(-size // spec.mr)) as row:
            self._emit_tile(image, row.index, column, spec.mr, nv, last)
        if spec.mr > 1 and (size % spec.mr or spec.m % size % spec.mr):
            with b.loop("row", whole, stop, most=spec.mr) as row:
                self._emit_tile(image, row.index, column, 1, nv, last)

    def _pack(self, image: Index, column: Index, nv: int, last: int) -> None:
        """packed[k, column] of this block; lanes beyond the last column are zeros."""
        b, spec = self.b, self.spec
        source = b.at(self.right, b.dot((image, 0, column), spec.b))
        with b.loop("k", 0, spec.k) as k:
            line = b.at(source, b.mul(k.index, spec.b[1]))
            for j in range(nv):
                lanes = last if j == nv - 1 else b.lanes
                vector = read_vector(b, line, j * b.lanes * spec.b[2], spec.b[2], lanes)
                b.store(vector, self.packed, b.add(b.mul(k.index, nv * b.lanes), j * b.lanes))

    def _emit_tile(
        self, image: Index, row: Index, column: Index, count: int, nv: int, last: int
    ) -> None:
        b, spec = self.b, self.spec
        start = [self._begin(column, j, last if j == nv - 1 else b.lanes) for j in range(nv)]
        accs: list[Value] = multiply(
            b,
            b.at(self.left, b.dot((image, row), spec.a[:2])),
            self.packed,
            spec.k,
            spec.unroll,
            Rows(spec.a[1], spec.a[2]),
            nv,
            start * count,
            (0, count),
        )
        place = (image, row, column)
        reads = [b.at(p, b.dot(place, s)) for p, s in zip(self.reads, spec.reads)]
        writes = [b.at(p, b.dot(place, s)) for p, s in zip(self.writes, spec.writes)]
        for m in range(count):
            for j in range(nv):
                lanes = last if j == nv - 1 else b.lanes
                sources = operand_addresses(b, reads, spec.reads, m, j * b.lanes)
                targets = operand_addresses(b, writes, spec.writes, m, j * b.lanes)
                store_epilogue(b, spec.program, accs[m * nv + j], sources, targets, lanes)

    def _begin(self, column: Index, vector: int, lanes: int) -> Value:
        """What the sums of a vector of columns begin with."""
        b = self.b
        if self.bias is None:
            return b.splat(0.0)
        (stride,) = self.spec.bias
        at = b.mul(b.add(column, vector * b.lanes), stride)
        return read_vector(b, self.bias, at, stride, lanes)

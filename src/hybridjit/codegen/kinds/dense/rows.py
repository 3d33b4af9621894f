"""Dense layers on any number of rows of data: the row count is an argument.

A unit of work is a register tile of ``mr`` rows by a block of output channels. What is left of the
rows is a tile of its own, for each number that may be: a block of weights is read once for it.
Every tile sums in the same order: a row's bits depend neither on its place nor on how many there
are.
"""

from __future__ import annotations

from ....records import dataclass
from ...llvm.builder import Index, LoopBuilder
from ...llvm.types import Value
from ..conv.direct import Block, blocks_of, in_range, runs_of_blocks
from ..parts.arguments import Arguments
from ..parts.gemm import Rows, multiply
from ..parts.program import operand_addresses, store_epilogue
from .spec import DenseSpec


def emit_dense(b: LoopBuilder, spec: DenseSpec, args: Arguments) -> None:
    """y[n,f] = program(bias[f] + sum over c of x[n,c] * w[f,c]) for the rows n < ``rows``."""
    x, w, bias = args.pointer("x"), args.pointer("w"), args.pointer("bias")
    reads = [args.pointer(f"r{i}") for i in range(len(spec.reads))]
    writes = [args.pointer(f"y{i}") for i in range(len(spec.writes))]
    rows = args.integer("rows")
    blocks = blocks_of(spec, b.lanes)
    tiles = b.b.udiv(b.add(rows, spec.mr - 1), b.i64(spec.mr))
    chunks = b.b.udiv(b.add(tiles, spec.chunk - 1), b.i64(spec.chunk))
    units = b.mul(chunks, len(blocks) * spec.chunk)
    with b.each_unit(units, args.tid, args.threads) as unit:
        chunk, block, within = b.split(unit.index, (0, len(blocks), spec.chunk))
        first = b.mul(b.add(b.mul(chunk, spec.chunk), within), spec.mr)
        channel = b.mul(block, spec.nv * b.lanes)
        for kind, count, number in runs_of_blocks(blocks):
            with b.when(in_range(b, block, number, number + count, len(blocks))):
                place = _Place(
                    x,
                    b.at(w, b.mul(channel, spec.ic)),
                    b.at(bias, channel),
                    [b.at(p, b.mul(channel, s[1])) for p, s in zip(reads, spec.reads)],
                    [b.at(p, b.mul(channel, s[1])) for p, s in zip(writes, spec.writes)],
                )
                _emit_rows(b, spec, kind, place, first, b.sub(rows, first))


@dataclass(frozen=True)
class _Place:
    """Where a block of channels reads and writes; rows are counted from the first of all."""

    x: Value
    w: Value
    bias: Value
    reads: list[Value]
    writes: list[Value]


def _emit_rows(
    b: LoopBuilder, spec: DenseSpec, block: Block, place: _Place, first: Index, left: Index
) -> None:
    """A whole tile from row ``first`` on, or one of the rows that are ``left``."""
    with b.when(b.less(spec.mr - 1, left)):
        _emit_tile(b, spec, block, place, first, spec.mr)
    for height in range(1, spec.mr):
        with b.when(b.b.icmp_signed("==", b.i64(left), b.i64(height))):
            _emit_tile(b, spec, block, place, first, height)


def _emit_tile(
    b: LoopBuilder, spec: DenseSpec, block: Block, place: _Place, row: Index, height: int
) -> None:
    """One register tile: accumulate over all of K, then the program, then the stores."""
    start = [b.load(place.bias, j * b.lanes) for j in range(block.nv)]
    x = b.at(place.x, b.mul(row, spec.xs[0]))
    steps = Rows(spec.xs[0], spec.xs[1])
    accs = multiply(
        b, x, place.w, spec.ic, spec.unroll, steps, block.nv, start * height, (0, height)
    )
    for m in range(height):
        at = b.add(row, m)
        for j in range(block.nv):
            count = block.last if j == block.nv - 1 else b.lanes
            operands = operand_addresses(b, place.reads, spec.reads, at, j * b.lanes)
            results = operand_addresses(b, place.writes, spec.writes, at, j * b.lanes)
            store_epilogue(b, spec.program, accs[m * block.nv + j], operands, results, count)

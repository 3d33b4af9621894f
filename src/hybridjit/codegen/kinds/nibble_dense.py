"""Dense layers with weights of 4 bits: words of eight weights are unpacked in registers.

A word of each filter is loaded for eight data; weights go through a shift, and a table of 16 floats
where one instruction looks up a vector, else a conversion. Few rows of data are limited by reading
weights from memory; more rows share unpacked weights.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..._core.frozen import dataclass
from ..._core.target import SINGLE, ElementTypes, Target
from ..._core.types import product
from ...ir.plan import Step
from ...ir.plan_image import Packed
from ...ops.nibbles import MIDDLE, WORD
from ..call import Address, Argument, Call, Setting, broadcast_strides, build_program, views_of
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import F32, I32, Value, constant_of, vector_of
from ..packing import ConvPacking, NibblePacking
from ..spec import Extents, KernelSpec, Program
from .parts.arguments import Arguments
from .parts.program import Part, operand_addresses, store_parts
from .record import register

# Vectors of filters of a unit of work: their sums hide the latency of a multiply-add in one row.
_VECTORS = 4
_LEVELS = 16


@dataclass(frozen=True)
class NibbleDenseSpec(KernelSpec):
    """Rows times weights of 4 bits; arguments: x, weights, scales, zeros if there are any,
    operands, results, rows.

    ic, oc  data of a row, and filters
    block   weights that have a scale in common
    xs      the stride of rows; ``reads`` and ``writes``: those of rows and filters
    rows    most rows of a tile
    """

    ic: int
    oc: int
    block: int
    has_zeros: bool
    xs: int
    reads: Extents
    writes: Extents
    rows: int
    element: ElementTypes = SINGLE
    program: Program = Program(1)
    kind = "nibble_dense"
    needs_passes = False


def choose_nibbles(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The call of a product with its fused operators."""
    anchor, target = step.group.anchor, setting.target.of(SINGLE)
    program, operands = build_program(step, anchored=True)
    x = views_of(step, anchor.inputs[:1])[0]
    others = views_of(step, operands)
    spec = NibbleDenseSpec(
        ic=x.shape[1],
        oc=anchor.shape[1],
        block=anchor.attrs["block"],
        has_zeros=anchor.attrs["has_zeros"],
        xs=x.strides[0],
        reads=tuple(broadcast_strides(v, anchor.shape) for v in others),
        writes=tuple(v.strides for v in step.writes),
        rows=_most_rows(target),
        program=program,
    )
    weight, *scales = anchor.inputs[1:]
    of_scale = ConvPacking(1, target.lanes, 1, False)
    packed: list[Argument] = [
        Packed(setting.params[weight.value], NibblePacking(target.lanes), 0, "uint32"),
        *(Packed(setting.params[use.value], of_scale) for use in scales),
    ]
    views = (Address(v) for v in (*others, *step.writes))
    args: tuple[Argument, ...] = (Address(x), *packed, *views, x.shape[0])
    return (Call(spec, args, product(anchor.shape) * spec.ic),)


def _most_rows(target: Target) -> int:
    """Rows of a tile of two vectors of filters, with sums of a block and of all blocks."""
    return 4 if target.vector_registers >= 32 else 2


def emit_nibbles(b: LoopBuilder, spec: NibbleDenseSpec, args: Arguments) -> None:
    """y[n, f] = program(sum over blocks of scale[f] * sum of x[n, c] * (q[f, c] - zero[f]))."""
    x, weights = args.pointer("x"), args.pointer("w", "int32")
    scales = [args.working(name) for name in ("scale", "zero")[: 1 + spec.has_zeros]]
    reads, writes = args.of_program(spec.program)
    rows = args.integer("rows")
    product_ = _Product(b, spec, x, weights, scales, (reads, writes))
    vectors = -(-spec.oc // b.lanes)
    full, rest = divmod(spec.oc, _VECTORS * b.lanes)
    b.balance(-(-vectors // _VECTORS))
    with b.each_unit(full + (rest > 0), args.share, args.shares) as unit:
        if full:
            with b.when(b.less(unit.index, full)):
                product_.emit(unit.index, _VECTORS * b.lanes, rows)
        if rest:
            with b.when(b.less(full - 1, unit.index)):
                product_.emit(unit.index, rest, rows)


class _Product:
    """The code for units of some filters."""

    def __init__(
        self,
        b: LoopBuilder,
        spec: NibbleDenseSpec,
        x: Value,
        weights: Value,
        scales: Sequence[Value],
        tensors: tuple[list[Value], list[Value]],
    ) -> None:
        self.b, self.spec, self.x = b, spec, x
        self.weights, self.scales, self.tensors = weights, scales, tensors

    def emit(self, unit: Index, filters: int, rows: Value) -> None:
        """All rows: in tiles, and the rest of each height."""
        b, most = self.b, self.spec.rows
        whole = b.mul(b.divmod(rows, most)[0], most)
        with b.loop("rows", 0, whole, most) as row:
            self._tile(unit, filters, row.index, most)
        left = b.sub(rows, whole)
        for height in range(1, most):
            with b.when(b.equal(left, height)):
                self._tile(unit, filters, whole, height)

    def _tile(self, unit: Index, filters: int, row: Index, height: int) -> None:
        """One row takes all vectors of filters at once; several rows take two vectors at a time."""
        b, together = self.b, _VECTORS if height == 1 else 2
        vectors = -(-filters // b.lanes)
        for first in range(0, vectors, together):
            count = min(together, vectors - first)
            at = b.add(b.mul(unit, _VECTORS), first)
            last = min(b.lanes, filters - (first + count - 1) * b.lanes)
            self._part(at, count, last, row, height)

    def _part(self, vector: Index, count: int, last: int, row: Index, height: int) -> None:
        b, spec = self.b, self.spec
        words, blocks = spec.ic // WORD, spec.ic // spec.block
        x = b.at(self.x, b.mul(row, spec.xs))
        lines = [b.add(vector, j) for j in range(count)]
        weights = [b.at(self.weights, b.mul(line, words * b.lanes)) for line in lines]
        scales = [[b.at(p, b.mul(line, blocks * b.lanes)) for line in lines] for p in self.scales]
        zeros = [b.splat(0.0)] * (height * count)
        with b.loop("block", 0, blocks, carry=zeros) as block:
            factors, *less = (
                [b.load(p, b.mul(block.index, b.lanes)) for p in each] for each in scales
            )
            sums = self._block(block.index, x, weights, less[0] if less else None, height)
            block.yields(
                [
                    b.fma(factors[n % count], total, before)
                    for n, (total, before) in enumerate(zip(sums, block.carried))
                ]
            )
        self._store(vector, count, last, row, height, block.results)

    def _block(
        self, block: Index, x: Value, weights: list[Value], less: list[Value] | None, height: int
    ) -> list[Value]:
        """Sums of data times centred weights of a block."""
        b, spec = self.b, self.spec
        count, words = len(weights), spec.block // WORD
        x = b.at(x, b.mul(block, spec.block))
        weights = [b.at(p, b.mul(block, words * b.lanes)) for p in weights]
        with b.loop("word", 0, words, carry=[b.splat(0.0)] * (height * count)) as word:
            sums = list(word.carried)
            place = b.mul(word.index, b.lanes)
            loaded = [b.load(p, place) for p in weights]
            for nibble in range(WORD):
                factors = [
                    self._weight(value, nibble, None if less is None else less[j])
                    for j, value in enumerate(loaded)
                ]
                at = b.add(b.mul(word.index, WORD), nibble)
                for m in range(height):
                    data = b.splat(b.load_scalar(x, b.add(m * spec.xs, at)))
                    for j, factor in enumerate(factors):
                        sums[m * count + j] = b.fma(data, factor, sums[m * count + j])
            word.yields(sums)
        return word.results

    def _weight(self, words: Value, nibble: int, zero: Value | None) -> Value:
        """Weight number ``nibble`` of each word, minus its zero point."""
        b = self.b
        shifted = words
        if nibble:
            shifted = b.b.lshr(words, constant_of(words.type, 4 * nibble))
        kind = vector_of(F32, b.lanes)
        if b.target.has_tables:
            middle = MIDDLE if zero is None else 0
            table = ir.Constant(kind, [ir.Constant(F32, float(n - middle)) for n in range(_LEVELS)])
            name = "llvm.x86.avx512.permvar.sf.512"
            value = b.b.call(b.declare(name, kind, [kind, words.type]), [table, shifted])
            return value if zero is None else b.b.fsub(value, zero)
        whole = b.b.and_(shifted, constant_of(vector_of(I32, b.lanes), _LEVELS - 1))
        less = b.constant(float(MIDDLE)) if zero is None else zero
        return b.b.fsub(b.b.sitofp(whole, kind), less)

    def _store(
        self, vector: Index, count: int, last: int, row: Index, height: int, sums: list[Value]
    ) -> None:
        b, spec = self.b, self.spec
        first = b.mul(vector, b.lanes)
        reads, writes = (
            [b.at(p, b.dot((row, first), s)) for p, s in zip(pointers, strides)]
            for pointers, strides in zip(self.tensors, (spec.reads, spec.writes))
        )
        parts = []
        for m in range(height):
            for j in range(count):
                sources = operand_addresses(b, reads, spec.reads, m, j * b.lanes)
                targets = operand_addresses(b, writes, spec.writes, m, j * b.lanes)
                lanes = last if j == count - 1 else b.lanes
                parts.append(Part(sums[m * count + j], sources, targets, lanes))
        store_parts(b, spec.program, parts)


register("nibble_dense", choose_nibbles, {NibbleDenseSpec: emit_nibbles})

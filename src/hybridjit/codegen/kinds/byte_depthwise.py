"""Depthwise convolutions of bytes: one filter for each channel.

Four rows of a column are interleaved, byte by byte, to a word for each channel, which a word of
weights multiplies: 3x3 at stride 1 has two rows of results from the same words, with the weights
(w0, w1, w2, 0) and (0, w0, w1, w2). Interleaving by two levels of unpacking leaves channels in the
order of :func:`order`, in which weights are packed; sums are brought back to the usual order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ..._core.frozen import dataclass, replace
from ..._core.target import QUADS, ElementTypes, Target
from ..._core.types import product
from ...ir.plan import Step, View
from ...ir.plan_image import Packed
from ..call import Address, Argument, Call, Setting, build_program, views_of
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I8, I16, I32, Pointer, Value, constant_of, vector_of
from ..packing import ChannelPacking
from ..spec import Ints, KernelSpec, Program
from .conv.choose import layer_of
from .conv.choose_direct import lines_of_part
from .conv.direct import place_in_image
from .conv.layer import Layer
from .parts.arguments import Arguments
from .parts.partial import read_vector
from .parts.program import (
    Operand,
    Part,
    at_column,
    operand_addresses,
    packed_values,
    store_parts,
)
from .parts.window import whole_windows
from .weights.choose import pack_weights

# Rows of a word, and 4-byte parts of an unpacked 128-bit lane.
_WORD = 4
# Bytes of the shortest vectors that instructions unpack and pack.
_SHORTEST = 16
# Vectors of sums of a tile: they hide the latency of an addition, and a tile is short enough for a
# CPU to begin the next one before it has stored the results. 28x28x256 takes 21.5 us with eight,
# 24.4 with sixteen (Zen 4).
_SUMS = 8


def order(lanes: int) -> np.ndarray:
    """[4][lanes]: which of 4 * lanes channels is in each lane of four vectors of words."""
    channels = np.arange(_WORD * lanes).reshape(-1, _WORD, _WORD)
    result: np.ndarray = channels.transpose(1, 0, 2).reshape(_WORD, lanes)
    return result


@dataclass(frozen=True)
class QuadRowsPacking:
    """Weights [C, kh, kw, 1] of int8 to [block][row][word][kw][4][lanes] words of four rows.

    A block has 4 * lanes channels in the order of :func:`order`; ``rows_out`` rows of results,
    ``step`` rows of data apart, are computed from the same words.
    """

    lanes: int
    rows_out: int
    step: int
    rows = 0
    unpacking = None

    def size(self, weight: np.ndarray) -> int:
        channels, *kernel = weight.shape[:-1]
        height, width = kernel[-2:] if len(kernel) > 1 else (1, kernel[-1])
        blocks = -(-channels // (_WORD * self.lanes))
        words = self.words(height)
        return int(blocks * self.rows_out * words * width * _WORD * self.lanes)

    def words(self, height: int) -> int:
        """Number of words that hold the rows of data of all rows of results."""
        return -(-((self.rows_out - 1) * self.step + height) // _WORD)

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        channels, width = weight.shape[0], weight.shape[-2]
        height = weight.size // (channels * width)
        places = order(self.lanes)
        blocks, words = -(-channels // places.size), self.words(height)
        full = np.zeros((blocks * places.size, self.rows_out, words * _WORD, width), np.int8)
        for row in range(self.rows_out):
            first = row * self.step
            taps = weight.reshape(channels, height, width)
            full[:channels, row, first : first + height] = taps
        split = full.reshape(blocks, places.size, self.rows_out, words, _WORD, width)
        chosen = split[:, places]  # [block][4][lanes][row][word][4][kw]
        packed = np.ascontiguousarray(chosen.transpose(0, 3, 4, 6, 1, 2, 5))
        out[:] = packed.view(np.uint32).reshape(-1)


@dataclass(frozen=True)
class ByteDepthwiseSpec(KernelSpec):
    """Depthwise convolution of uint8 by int8; arguments as for ConvSpec.

    rows_out  rows of results that are computed from the same words
    cols      columns of results whose sums are kept in registers
    rows      units of ``rows_out`` rows that are computed for all channels before the next
    vector_bytes  width of vectors for few channels, else 0
    """

    inp: Ints
    out: Ints
    kernel: Ints
    stride: Ints
    pad: Ints
    channels: int
    xs: Ints
    reads: tuple[Ints, ...]
    writes: tuple[Ints, ...]
    rows_out: int
    cols: int
    rows: int
    element: ElementTypes = QUADS
    program: Program = Program(1)
    vector_bytes: int = 0
    groups = 1
    kind = "byte_depthwise"
    needs_passes = False

    @property
    def dilate(self) -> Ints:
        return (1, 1, 1)


def choose_byte_depthwise(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The call of a depthwise convolution of bytes with its fused operators."""
    anchor = step.group.anchor
    target = _shortened(setting.target, anchor.shape[-1])
    _, operands = build_program(step, anchored=True)
    layer = _with_one_image(layer_of(step), views_of(step, operands))
    x = views_of(step, anchor.inputs[:1])[0]
    rows_out = max(1, (_WORD - layer.kernel[1]) // layer.stride[1] + 1)
    geometry = layer.geometry
    del geometry["dilate"]
    spec = ByteDepthwiseSpec(
        **geometry,
        channels=anchor.shape[-1],
        rows_out=rows_out,
        cols=max(1, _SUMS // (_WORD * rows_out)),
        rows=lines_of_part(-(-layer.out[1] // rows_out), layer.out),
        vector_bytes=target.vector_bytes if target != setting.target else 0,
        **layer.tensors,
    )
    packing = QuadRowsPacking(target.lanes, rows_out, layer.stride[1])
    of_bias = ChannelPacking(1, target.lanes)
    weight, *biases = anchor.inputs[1:]
    wanted = [(weight, packing), *((bias, of_bias) for bias in biases)]
    before, packed = pack_weights(step, wanted, setting)  # type: ignore[arg-type]
    if not biases:
        packed = (*packed, Packed(None, of_bias, anchor.shape[-1], QUADS.accumulated))
    extra: tuple[Argument, ...] = tuple(
        Address(v) for v in (*views_of(step, operands), *step.writes)
    )
    work = product(anchor.shape) * product(layer.kernel)
    return (*before, Call(spec, (Address(x), *packed, *extra, x.shape[0]), work))


def _with_one_image(layer: Layer, operands: Sequence[View]) -> Layer:
    """The layer with operands of a single image at the same address for every image, so that those
    with one value for a channel are recognised.
    """
    reads = (
        (0, *strides[1:]) if view.shape[0] == 1 else strides
        for strides, view in zip(layer.reads, operands)
    )
    return replace(layer, reads=tuple(reads))


def _shortened(target: Target, channels: int) -> Target:
    """The CPU with the shortest vectors whose block of four holds all channels."""
    while target.vector_bytes > _SHORTEST and _WORD * target.lanes >= 2 * channels:
        target = target.with_vectors(target.vector_bytes // 2)
    return target


def emit_byte_depthwise(b: LoopBuilder, spec: ByteDepthwiseSpec, args: Arguments) -> None:
    """y[n,h,w,c] = program(bias[c] + sum over taps of x[n,h+i,w+j,c] * w[i,j,c])."""
    x, w, bias = args.pointer("x"), args.working("w"), args.summed("bias")
    reads, writes = args.of_program(spec.program)
    batch = args.integer("batch")
    width = _WORD * b.lanes
    full, others = divmod(spec.channels, width)
    blocks = full + (others > 0)
    rows = -(-spec.out[1] // spec.rows_out)
    zeros = b.scratch(vector_of(I8, width))
    b.b.store(constant_of(vector_of(I8, width), 0), zeros, align=1)
    b.balance(rows * blocks)
    with b.each_unit(b.mul(batch, rows * blocks), args.share, args.shares) as unit:
        image, rest = b.divmod(unit.index, rows * blocks)
        _, block, row, _ = place_in_image(b, spec, rest, rows, blocks)
        pointers = (x, w, bias, reads, writes)
        if full:
            with b.when(b.less(block, full)):
                _Rows(b, spec, pointers, zeros, image, row, block, width).emit()
        if others:
            with b.when(b.less(full - 1, block)):
                _Rows(b, spec, pointers, zeros, image, row, block, others).emit()


# The words of columns of data.
Columns: TypeAlias = dict[int, list[Value]]


def _by_column(values: Sequence[Value], words: int) -> list[list[Value]]:
    """The values of each column, which has ``words`` words."""
    size = _WORD * words
    return [list(values[at : at + size]) for at in range(0, len(values), size)]


class _Rows:
    """Rows of results of a block of channels, of which ``count`` exist."""

    def __init__(
        self,
        b: LoopBuilder,
        spec: ByteDepthwiseSpec,
        pointers: tuple[Value, Value, Value, list[Value], list[Value]],
        zeros: Value,
        image: Index,
        row: Index,
        block: Index,
        count: int,
    ) -> None:
        self.b, self.spec, self.count, self.zeros = b, spec, count, zeros
        x, w, bias, reads, writes = pointers
        channel = b.mul(block, _WORD * b.lanes)
        self.first = b.mul(row, spec.rows_out)
        reach = (spec.rows_out - 1) * spec.stride[1] + spec.kernel[1]
        self.words = -(-reach // _WORD)
        size = spec.rows_out * self.words * spec.kernel[2] * _WORD * b.lanes
        self.w = b.at(w, b.mul(block, size))
        at = (image, 0, self.first, 0, channel)
        self.reads = [b.at(p, b.dot(at, s)) for p, s in zip(reads, spec.reads)]
        self.writes = [b.at(p, b.dot(at, s)) for p, s in zip(writes, spec.writes)]
        base = b.at(x, b.add(b.mul(image, spec.xs[0]), channel))
        self.lines = [self._line(base, number) for number in range(reach)]
        self.channel = self._of_channels()
        self.biases = self._unpacked_order(self._biases(b.at(bias, channel)))

    def _line(self, base: Value, number: int) -> tuple[Value, Index]:
        """The address of a row of data and the distance of its columns; for a row outside of the
        data, the address of zeros and 0.
        """
        b, spec = self.b, self.spec
        row = b.add(b.mul(self.first, spec.stride[1]), number - spec.pad[1])
        is_inside = spec.pad[1] == 0 and (
            (-(-spec.out[1] // spec.rows_out) * spec.rows_out - 1) * spec.stride[1]
            + spec.kernel[1] <= spec.inp[1]
        )  # fmt: skip
        address = b.at(base, b.mul(row, spec.xs[2]))
        if is_inside:
            return address, spec.xs[3]
        exists = b.b.icmp_unsigned("<", b.i64(row), b.i64(spec.inp[1]))
        chosen = b.b.select(exists, address, self.zeros)
        step = b.b.select(exists, b.i64(spec.xs[3]), b.i64(0))
        return Pointer(chosen.ref, "uint8", I8), step

    def emit(self) -> None:
        """All columns: those with windows inside in tiles, the others one by one."""
        b, spec = self.b, self.spec
        low, high = whole_windows(b, spec)
        assert isinstance(low, int) and isinstance(high, int)
        high = max(low, high)
        full = (high - low) // spec.cols * spec.cols
        known: Columns = {}
        for column in range(low):
            self._border(column, known)
        if full:
            known |= self._tiles(low, low + full, known)
        if high - low > full:
            self._tile(low + full, high - low - full, range(spec.kernel[2]), known)
        for column in range(high, spec.out[2]):
            self._border(column, known)

    def _border(self, column: int, known: Columns) -> None:
        """A column whose window is partly outside of the data."""
        left = column * self.spec.stride[2] - self.spec.pad[2]
        inside = range(max(0, -left), min(self.spec.kernel[2], self.spec.inp[2] - left))
        self._tile(column, 1, inside, known)

    def _tiles(self, start: int, stop: int, known: Columns) -> Columns:
        """Tiles of columns from ``start`` to ``stop``; returns the words of the columns of data
        that the next tile would read too: between tiles they remain in registers.
        """
        b, spec = self.b, self.spec
        left, after = (at * spec.stride[2] - spec.pad[2] for at in (start, stop))
        shared, step = self._shared(), spec.cols * spec.stride[2]
        first = [value for at in range(shared) for value in self._column(left, at, known)]
        with b.loop("col", start, stop, spec.cols, carry=first) as col:
            of_tile = dict(enumerate(_by_column(col.carried, self.words)))
            self._tile(col.index, spec.cols, range(spec.kernel[2]), of_tile)
            col.yields([value for at in range(shared) for value in of_tile[step + at]])
        return {after + at: words for at, words in enumerate(_by_column(col.results, self.words))}

    def _shared(self) -> int:
        """Columns of data that adjacent tiles share, if registers suffice for their words."""
        spec = self.spec
        shared = max(0, spec.kernel[2] - spec.stride[2])
        values = spec.cols * spec.rows_out + (shared + 1) * self.words
        return shared if _WORD * values < self.b.target.vector_registers else 0

    def _tile(self, column: Index, width: int, taps: range, known: Columns) -> None:
        """``width`` columns of results. ``known`` gets the words of the columns of data by their
        indices, or, if ``column`` is a variable, by their distances from the first one.
        """
        b, spec = self.b, self.spec
        left = b.sub(b.mul(column, spec.stride[2]), spec.pad[2])
        sums = {(m, o): self.biases for m in range(width) for o in range(spec.rows_out)}
        for at in range((width - 1) * spec.stride[2] + spec.kernel[2]):
            used = [(m, t) for m in range(width) for t in taps if m * spec.stride[2] + t == at]
            if not used:
                continue
            values = self._column(left, at, known)
            for word in range(self.words):
                of_word = values[_WORD * word : _WORD * (word + 1)]
                for m, tap in used:
                    for o in range(spec.rows_out):
                        sums[m, o] = self._added(sums[m, o], of_word, o, word, tap)
        for o in range(spec.rows_out):
            self._store(column, width, o, sums)

    def _column(self, left: Index, at: int, known: Columns) -> list[Value]:
        """All words of a column of data."""
        key = left + at if isinstance(left, int) else at
        if key not in known:
            column = self.b.add(left, at)
            words = (self._words(word, column) for word in range(self.words))
            known[key] = [value for four in words for value in four]
        return known[key]

    def _added(
        self, sums: list[Value], values: list[Value], row: int, word: int, tap: int
    ) -> list[Value]:
        b, spec = self.b, self.spec
        place = ((row * self.words + word) * spec.kernel[2] + tap) * _WORD
        return [
            b.add_quads(value, b.load(self.w, (place + k) * b.lanes), total)
            for k, (value, total) in enumerate(zip(values, sums))
        ]

    def _words(self, word: int, column: Index) -> list[Value]:
        """Four vectors of words of a column, in the order of :func:`order`."""
        b = self.b
        kind = vector_of(I8, _WORD * b.lanes)
        rows = []
        for number in range(_WORD * word, _WORD * (word + 1)):
            if number >= len(self.lines):
                rows.append(constant_of(kind, 0))
                continue
            pointer, step = self.lines[number]
            rows.append(self._bytes(pointer, b.mul(column, step)))
        found = []
        for high in (False, True):
            one, other = (self._unpacked(rows[i], rows[i + 1], I8, high) for i in (0, 2))
            halves = vector_of(I16, 2 * b.lanes)
            one, other = b.b.bitcast(one, halves), b.b.bitcast(other, halves)
            for upper in (False, True):
                both = self._unpacked(one, other, I16, upper)
                found.append(b.b.bitcast(both, vector_of(I32, b.lanes)))
        return found

    def _bytes(self, pointer: Value, index: Index) -> Value:
        """``count`` bytes in a vector of a block; the others are 0."""
        b, full = self.b, _WORD * self.b.lanes
        result, first = constant_of(vector_of(I8, full), 0), 0
        if self.count == full:
            return b.b.load(b.at(pointer, index), typ=vector_of(I8, full), align=1)
        while first < self.count:
            size = 1 << ((self.count - first).bit_length() - 1)
            address = b.at(pointer, b.add(index, first))
            if size == 1:
                byte = b.b.load(address, typ=I8, align=1)
                result = b.b.insert_element(result, byte, ir.Constant(I32, first))
            else:
                piece = b.b.load(address, typ=vector_of(I8, size), align=1)
                lanes = [min(i, size) for i in range(full)]
                wide = b.b.shuffle_vector(
                    piece, constant_of(piece.type, 0), ir.Constant(vector_of(I32, full), lanes)
                )
                chosen = [full + i - first if first <= i < first + size else i for i in range(full)]
                pattern = ir.Constant(vector_of(I32, full), chosen)
                result = b.b.shuffle_vector(result, wide, pattern)
            first += size
        return result

    def _unpacked(self, one: Value, other: Value, element: ir.Type, high: bool) -> Value:
        """Elements of both in turn: of the low or the high half of each 128-bit lane."""
        count = one.type.count
        per = 16 // (1 if element == I8 else 2)
        half, lanes = per // 2, []
        for start in range(0, count, per):
            for k in range(half):
                at = start + k + (half if high else 0)
                lanes += [at, count + at]
        return self.b.b.shuffle_vector(one, other, ir.Constant(vector_of(I32, count), lanes))

    def _store(
        self, column: Index, width: int, row: int, sums: dict[tuple[int, int], list[Value]]
    ) -> None:
        b, spec = self.b, self.spec

        def write() -> None:
            reads = self._in_row(self.reads, spec.reads, row, column)
            writes = self._in_row(self.writes, spec.writes, row, column)
            for m in range(width):
                self._store_pixel(m, sums[m, row], reads, writes)

        if row == 0 or spec.out[1] % spec.rows_out == 0:
            write()
            return
        with b.when(b.less(b.add(self.first, row), spec.out[1])):
            write()

    def _store_pixel(
        self, m: int, sums: list[Value], reads: list[Value], writes: list[Value]
    ) -> None:
        """The program and the stores of a block's channels of one pixel.

        Where only bytes are stored and each operand has one value for a channel, sums and operands
        keep the order of unpacked words, which packing undoes.
        """
        b, spec = self.b, self.spec
        keeps = self.channel is not None
        if not keeps:
            sums = self._usual_order(sums)
        parts = []
        for j in range(-(-self.count // b.lanes)):
            operands: Sequence[Operand] = operand_addresses(b, reads, spec.reads, m, j * b.lanes)
            if self.channel is not None:
                operands = [vectors[j] for vectors in self.channel]
            targets = operand_addresses(b, writes, spec.writes, m, j * b.lanes)
            lanes = min(b.lanes, self.count - j * b.lanes)
            parts.append(Part(sums[j], operands, targets, lanes))
        store_parts(b, spec.program, parts, in_order=not keeps)

    def _biases(self, pointer: Value) -> list[Value]:
        """The block's biases; zeros for absent channels."""
        b, zeros = self.b, constant_of(vector_of(I32, self.b.lanes), 0)
        exist = -(-self.count // b.lanes)
        return [b.load(pointer, j * b.lanes) if j < exist else zeros for j in range(_WORD)]

    def _of_channels(self) -> list[list[Value]] | None:
        """Operands in the order of unpacked words; None where the usual order is needed."""
        b, spec = self.b, self.spec
        is_full = self.count == _WORD * b.lanes and packed_values(b, spec.program)
        are_adjacent = all(s[-1] == 1 for s in spec.writes)
        are_given = all(s[:-1] == s[-2:-1] * 4 == (0,) * 4 and s[-1] == 1 for s in spec.reads)
        if not (is_full and are_adjacent and are_given):
            return None
        lanes = range(0, _WORD * b.lanes, b.lanes)
        found = [[read_vector(b, p, first, 1, b.lanes) for first in lanes] for p in self.reads]
        return [self._unpacked_order(vectors) for vectors in found]

    def _in_row(
        self, pointers: list[Value], strides: Sequence[Ints], row: int, column: Index
    ) -> list[Value]:
        b = self.b
        rows = [b.at(p, row * s[2]) for p, s in zip(pointers, strides)]
        return at_column(b, rows, strides, column)

    def _usual_order(self, sums: list[Value]) -> list[Value]:
        """Sums in the order of channels."""
        places = order(self.b.lanes)
        where = {int(c): (k, i) for k, row in enumerate(places) for i, c in enumerate(row)}
        every = [where[channel] for channel in range(places.size)]
        return self._with_parts(sums, every)

    def _unpacked_order(self, vectors: list[Value]) -> list[Value]:
        """Vectors in the order of channels in that of :func:`order`."""
        every = [divmod(int(c), self.b.lanes) for c in order(self.b.lanes).reshape(-1)]
        return self._with_parts(vectors, every)

    def _with_parts(self, vectors: list[Value], places: list[tuple[int, int]]) -> list[Value]:
        """Four vectors of parts of 128 bits: the places of all lanes, vector and lane."""
        b, result = self.b, []
        for first in range(0, len(places), b.lanes):
            parts = places[first : first + b.lanes : _WORD]
            if len(parts) == 1:
                result.append(vectors[parts[0][0]])
                continue
            pieces = [b.shuffle(vectors[k], range(i, i + _WORD)) for k, i in parts]
            while len(pieces) > 1:
                pieces = [b.joined(*pair) for pair in zip(pieces[::2], pieces[1::2])]
            result.append(pieces[0])
        return result

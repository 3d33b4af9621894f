"""Attention with tiles of scores that stay in the cache: softmax(q k^T) v without the matrix.

Rows of queries are divided into tiles, keys into blocks. For a tile and a block the scores are
computed into a buffer, then the powers of their distances from the largest score so far; products
of these with the values are added to the sums of the tile, after the older sums have been scaled to
the new largest score (Milakov and Gimelshein 2018; Dao et al. 2022). The order of all sums depends
on the block's constant size only: not on the number of rows, keys, heads or threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from ...llvm import ir
from ...llvm.builder import LoopBuilder
from ...llvm.elements import converted
from ...llvm.indices import Index
from ...llvm.types import I32, Value
from ...math.numbers import float_math
from ..parts.arguments import Arguments
from ..parts.gemm import Ahead, NextTile, Operand, Rows, multiply, steps_of_round
from ..parts.partial import read_vector, write_vector
from ..parts.transpose import Digits, transpose_rows
from .spec import AttentionSpec

_LOWEST = float("-inf")
# (carried vector, index, lanes) -> the vector to carry on.
Combine = Callable[[Value, Index, Index], Value]


def emit_attention(b: LoopBuilder, spec: AttentionSpec, args: Arguments) -> None:
    """y[i, h] = softmax(factor q[i, h] k[i, h]^T + biases) v[i, h], along the keys."""
    _Attention(b, spec, args).emit()


class _Attention:
    def __init__(self, b: LoopBuilder, spec: AttentionSpec, args: Arguments) -> None:
        self.b, self.spec, self.args, self.math = b, spec, args, float_math(b)
        self.q, self.k, self.v = (args.pointer(name) for name in "qkv")
        self.factor = args.pointer("factor") if spec.has_factor else None
        self.biases = [args.pointer(f"bias{i}") for i in range(len(spec.biases))]
        self.mask = args.pointer("mask") if spec.mask else None
        self.length = args.pointer("length", spec.length) if spec.length else None
        self.y, scratch = args.pointer("y"), args.working("scratch")
        self.groups = args.integer("groups")
        self.heads, self.rows, self.keys = args.given((spec.heads, spec.rows, spec.keys))
        self.strides = {name: args.given(getattr(spec, name)) for name in "qkvy"}
        self.bias_strides = [args.given(each) for each in spec.biases]
        self.mask_strides, self.length_strides = args.given(spec.mask), args.given(spec.lengths)
        self.panel = spec.nv * b.lanes
        self._divide(scratch)

    def _divide(self, scratch: Value) -> None:
        """The parts of the thread's scratch memory."""
        b, spec = self.b, self.spec
        fixed = spec.fixed_floats(b.lanes)
        per_key = (spec.value_floats(1, b.lanes) - spec.value_floats(0, b.lanes)) + (
            spec.key_floats(1, b.lanes) - spec.key_floats(0, b.lanes)
        )
        each = b.add(b.mul(self.keys, per_key), spec.scratch_floats(0, b.lanes))
        own = b.at(scratch, b.mul(self.args.tid, each))
        starts = [0, *accumulate(fixed)]
        parts = [b.at(own, start) for start in starts]
        self.queries, self.sums, self.tops, self.totals, self.scores, self.scales = parts[:6]
        self.values = parts[6]
        per_value = spec.value_floats(1, b.lanes) - spec.value_floats(0, b.lanes)
        self.packed_keys = b.at(
            self.values, b.add(b.mul(self.keys, per_value), spec.value_floats(0, b.lanes))
        )

    def emit(self) -> None:
        b, spec = self.b, self.spec
        tiles = b.quotient_up(self.rows, spec.mr)
        chunks = b.quotient_up(tiles, spec.tiles)
        units = b.mul(self.groups, chunks)
        with b.each_unit(units, self.args.share, self.args.shares) as unit:
            group, chunk = b.divmod(unit.index, chunks)
            place = b.divmod(group, self.heads)
            with b.when_new(b.i64(group)):
                self._pack_keys(place)
                self._pack_values(place)
            start, stop = (b.divmod(b.mul(c, tiles), chunks)[0] for c in (chunk, b.add(chunk, 1)))
            self._emit_chunk(place, start, b.sub(stop, start))

    def _emit_chunk(self, place: Sequence[Index], start: Index, count: Index) -> None:
        b, spec = self.b, self.spec
        row = b.mul(start, spec.mr)
        self._pack_queries(place, row, b.mul(count, spec.mr))
        with b.loop("block", 0, self.keys, spec.block) as block:
            size = b.min(b.sub(self.keys, block.index), spec.block)
            with b.loop("tile", 0, count, most=spec.tiles) as tile:
                first = b.mul(tile.index, spec.mr)
                self._emit_scores(place, row, first, block.index, size)
                self._emit_powers(place, row, first, block.index, size)
                self._emit_values(first, block.index, size)
        left = b.min(b.sub(self.rows, row), b.mul(count, spec.mr))
        with b.loop("row", 0, left, most=spec.tiles * spec.mr) as line:
            self._emit_result(place, b.add(row, line.index), line.index)

    def _is_hidden(self, place: Sequence[Index], row: Index, total: Value) -> Value:
        """Whether the mask shows no key to a row, which is looked up if its powers have no sum."""
        b, math, where = self.b, self.math, (*place, row)
        mask, valid = self._mask_at(where, 0), self._valid(where, row, 0, self.keys)
        assert mask is not None
        is_sum = math.gt(total, b.number(0.0))
        count = b.b.select(is_sum, b.i64(0), b.i64(valid))
        with b.loop("shown", 0, count, carry=[is_sum]) as key:
            shown = math.ne(b.load_scalar(mask, key.index), b.number(0.0))
            key.yields([b.b.or_(key.carried[0], shown)])
        return b.b.icmp_unsigned("==", key.results[0], b.bit(False))

    # --- packing ---

    def _base(self, pointer: Value, name: str, place: Sequence[Index]) -> Value:
        return self.b.at(pointer, self.b.dot(place, self.strides[name]))

    def _pack_keys(self, place: Sequence[Index]) -> None:
        """panels[key // panel][element][key % panel]; keys beyond the last one repeat it."""
        b, spec = self.b, self.spec
        source, step = self._base(self.k, "k", place), self.strides["k"][2]
        last, panels = b.sub(self.keys, 1), b.quotient_up(self.keys, self.panel)
        with b.loop("vector", 0, b.mul(panels, spec.nv)) as vector:
            panel, part = b.divmod(vector.index, spec.nv)
            offset = b.add(b.mul(panel, spec.width * self.panel), b.mul(part, b.lanes))
            target, key = b.at(self.packed_keys, offset), b.mul(vector.index, b.lanes)
            lines = [b.at(source, b.mul(b.min(b.add(key, i), last), step)) for i in range(b.lanes)]
            if spec.width >= b.lanes:
                transpose_rows(
                    b, lines, [b.bit(True)] * b.lanes, spec.width, Digits(self.panel),
                    lambda value, at: b.store(value, target, at),
                )  # fmt: skip
            else:
                self._pack_short_keys(lines, target)

    def _pack_short_keys(self, lines: Sequence[Value], target: Value) -> None:
        """Rows shorter than a vector, element by element."""
        b = self.b
        with b.loop("k", 0, self.spec.width) as k:
            vector = b.splat(0.0)
            for lane, line in enumerate(lines):
                vector = b.b.insert_element(
                    vector, b.load_scalar(line, k.index), ir.Constant(I32, lane)
                )
            b.store(vector, target, b.mul(k.index, self.panel))

    def _panels(self) -> list[tuple[int, int]]:
        """The first vector and the number of vectors of each kind of panel of v."""
        vectors = self.spec.columns(self.b.lanes) // self.b.lanes
        return [(j, min(self.spec.nv, vectors - j)) for j in range(0, vectors, self.spec.nv)]

    def _pack_values(self, place: Sequence[Index]) -> None:
        """blocks[key // block][panel][key % block][column], with zeros beyond the last column."""
        b, spec = self.b, self.spec
        source, step = self._base(self.v, "v", place), self.strides["v"][2]
        columns = spec.columns(b.lanes)
        with b.loop("key", 0, self.keys) as key:
            line = b.at(source, b.mul(key.index, step))
            block, within = b.divmod(key.index, spec.block)
            target = b.at(self.values, b.mul(block, spec.block * columns))
            for first, count in self._panels():
                for j in range(count):
                    lanes = min(b.lanes, spec.values - (first + j) * b.lanes)
                    value = read_vector(b, line, (first + j) * b.lanes, 1, lanes)
                    at = b.add(
                        spec.block * first * b.lanes + j * b.lanes,
                        b.mul(within, count * b.lanes),
                    )
                    b.store(value, target, at)

    def _pack_queries(self, place: Sequence[Index], row: Index, count: Index) -> None:
        """Rows of q times the factor, and the initial sums of their results."""
        b, spec = self.b, self.spec
        source, step = self._base(self.q, "q", place), self.strides["q"][2]
        factor = b.splat(spec.scale)
        if self.factor is not None:
            factor = self.math.mul(factor, b.splat(b.load_scalar(self.factor)))
        last, stride = b.sub(self.rows, 1), spec.stride_of_query()
        columns = spec.columns(b.lanes)
        with b.loop("row", 0, count, most=spec.tiles * spec.mr) as line:
            start = b.at(source, b.mul(b.min(b.add(row, line.index), last), step))
            target = b.at(self.queries, b.mul(line.index, stride))
            for at in range(0, spec.width, b.lanes):
                lanes = min(b.lanes, spec.width - at)
                value = read_vector(b, start, at, 1, lanes)
                b.store_first(self.math.mul(value, factor), target, at, lanes)
            for at in range(0, columns, b.lanes):
                b.store(b.splat(0.0), self.sums, b.add(b.mul(line.index, columns), at))
            b.store(b.splat(0.0), self.totals, b.mul(line.index, b.lanes))
            b.store(b.number(_LOWEST), self.tops, line.index)

    # --- a tile of rows and a block of keys ---

    def _emit_scores(
        self, place: Sequence[Index], row: Index, first: Index, key: Index, size: Index
    ) -> None:
        """scores[row, key] = q k^T for the tile that begins at row ``first`` of the chunk."""
        b, spec = self.b, self.spec
        stride = spec.stride_of_query()
        rows = b.at(self.queries, b.mul(first, stride))
        panels = b.at(self.packed_keys, b.mul(key, spec.width))
        count = b.quotient_up(size, self.panel)
        unroll = steps_of_round(b, spec.mr * spec.nv, spec.nv, spec.unroll)
        biases = self._biases_of((*place, b.add(row, first)), key)
        with b.loop("panel", 0, count, most=spec.block // self.panel) as panel:
            sums = multiply(
                b,
                rows,
                b.at(panels, b.mul(panel.index, spec.width * self.panel)),
                spec.width,
                unroll,
                Rows(stride, 1),
                spec.nv,
                [b.splat(0.0)] * (spec.mr * spec.nv),
                (0, spec.mr),
                self._biases_ahead(biases, b.mul(panel.index, self.panel), unroll),
            )
            target = b.at(self.scores, b.mul(panel.index, self.panel))
            for m in range(spec.mr):
                for j in range(spec.nv):
                    at = m * spec.stride_of_scores(b.lanes) + j * b.lanes
                    b.store(sums[m * spec.nv + j], target, at)

    def _biases_of(self, place: Sequence[Index], key: Index) -> list[Value]:
        """The addresses of the biases of a row from a key on."""
        return [
            self.b.at(pointer, self.b.add(self.b.dot(place, strides), key))
            for pointer, strides in zip(self.biases, self.bias_strides)
        ]

    def _biases_ahead(self, biases: Sequence[Value], at: Index, unroll: int) -> Ahead | None:
        """Prefetch of a panel's biases that differ from row to row, in the sum of its products."""
        b, spec = self.b, self.spec
        if not spec.far_biases or spec.width < unroll:
            return None
        operands = tuple(
            Operand(b.at(biases[n], at), self.bias_strides[n][2], self.panel)
            for n in spec.far_biases
        )
        return Ahead(operands[0].pointer, 0, NextTile(operands, spec.mr, spec.width))

    def _emit_powers(
        self, place: Sequence[Index], row: Index, first: Index, key: Index, size: Index
    ) -> None:
        """Replace scores by their powers, and note by which factor older sums shrink."""
        b, spec = self.b, self.spec
        with b.loop("row", 0, spec.mr) as line:
            here = b.add(first, line.index)
            scores = b.at(self.scores, b.mul(line.index, spec.stride_of_scores(b.lanes)))
            query = b.min(b.add(row, here), b.sub(self.rows, 1))
            count = self._valid(place, query, key, size)
            where = (*place, query)
            finished = self._finished_scores(where, key, scores)
            base, scale = self._new_base(here, self._over(count, b.splat(_LOWEST), finished))
            total = self._over(count, b.splat(0.0), self._powers(where, key, scores, base))
            at = b.mul(here, b.lanes)
            older = self.math.mul(b.load(self.totals, at), scale)
            b.store(self.math.add(older, total), self.totals, at)
            b.store(b.b.extract_element(scale, ir.Constant(I32, 0)), self.scales, line.index)
            if self.length is not None:
                with b.loop("rest", count, size, most=spec.block) as rest:
                    b.store(b.number(0.0), scores, rest.index)

    def _valid(self, place: Sequence[Index], query: Index, key: Index, size: Index) -> Index:
        """The number of the block's keys that are valid for a row."""
        if self.length is None:
            return size
        b = self.b
        return b.max(b.min(b.sub(self._length_of(place, query), key), size), 0)

    def _length_of(self, place: Sequence[Index], query: Index) -> Value:
        b, dtype = self.b, self.spec.length
        assert self.length is not None
        at = b.dot((*place, query), self.length_strides)
        return converted(b, b.load_scalar(self.length, at), dtype, "int64")

    def _finished_scores(self, place: Sequence[Index], key: Index, scores: Value) -> Combine:
        """Add biases and apply the mask to scores; the largest is carried."""
        b, math = self.b, self.math
        biases = self._biases_of(place, key)
        mask = self._mask_at(place, key)

        def larger(top: Value, at: Index, lanes: Index) -> Value:
            score = read_vector(b, scores, at, 1, lanes)
            for bias in biases:
                score = math.add(score, read_vector(b, bias, at, 1, lanes))
            if mask is not None:
                shown = math.ne(read_vector(b, mask, at, 1, lanes), b.splat(0.0))
                score = math.select(shown, score, b.splat(self.spec.fill))
            if biases or mask is not None:
                write_vector(b, score, scores, at, 1, lanes)
            if not isinstance(lanes, int):
                score = math.select(b.mask_first(lanes), score, b.splat(_LOWEST))
            return self._larger(score, top)

        return larger

    def _mask_at(self, place: Sequence[Index], key: Index) -> Value | None:
        b = self.b
        return self.mask and b.at(self.mask, b.add(b.dot(place, self.mask_strides), key))

    def _new_base(self, here: Index, tops: Value) -> tuple[Value, Value]:
        """The largest score so far of a row, and the power by which its older sums shrink.

        A row of -inf only has no distances: its powers are 0, and its result is 0 / 0.
        """
        b, math = self.b, self.math
        before = b.load_scalar(self.tops, here)
        top = self._larger(b.reduce_lanes(tops, self._larger), before)
        b.store(top, self.tops, here)
        base = b.splat(math.select(math.gt(top, b.number(_LOWEST)), top, b.number(0.0)))
        return base, math.exp_of_distance(math.sub(b.splat(before), base))

    def _powers(self, place: Sequence[Index], key: Index, scores: Value, base: Value) -> Combine:
        """Store powers of distances from the base; their sum is carried."""
        b, math = self.b, self.math
        mask = self._mask_at(place, key) if self.spec.after != "none" else None

        def added(total: Value, at: Index, lanes: Index) -> Value:
            power = math.exp_of_distance(math.sub(read_vector(b, scores, at, 1, lanes), base))
            if not isinstance(lanes, int):
                power = math.select(b.mask_first(lanes), power, b.splat(0.0))
            kept = power
            if mask is not None:
                shown = read_vector(b, mask, at, 1, lanes)
                if self.spec.after == "times":
                    kept = math.mul(power, shown)
                else:
                    kept = math.select(math.ne(shown, b.splat(0.0)), power, b.splat(0.0))
            write_vector(b, kept, scores, at, 1, lanes)
            return math.add(total, power)

        return added

    def _larger(self, value: Value, top: Value) -> Value:
        """The larger value; ``top`` for NaN, which its power shows."""
        return self.math.select(self.math.gt(value, top), value, top)

    def _over(self, size: Index, start: Value, combine: Combine) -> Value:
        """acc = combine(acc, index, lanes) for the vectors of ``size`` scores, the last partial."""
        b, most = self.b, self.spec.block // self.b.lanes
        whole = b.sub(size, b.b.urem(b.i64(size), b.i64(b.lanes)))
        with b.loop("i", 0, whole, b.lanes, carry=[start], most=most) as i:
            i.yields([combine(i.carried[0], i.index, b.lanes)])
        with b.loop("tail", whole, size, b.lanes, carry=i.results, most=1) as tail:
            tail.yields([combine(tail.carried[0], tail.index, b.sub(size, tail.index))])
        return tail.results[0]

    def _emit_values(self, first: Index, key: Index, size: Index) -> None:
        """sums = scale sums + powers v, a panel of columns at a time."""
        b, spec = self.b, self.spec
        columns, stride = spec.columns(b.lanes), spec.stride_of_scores(b.lanes)
        sums = b.at(self.sums, b.mul(first, columns))
        block = b.at(self.values, b.mul(key, columns))
        for begin, count in self._panels():
            older = [
                self.math.mul(
                    b.load(sums, m * columns + (begin + j) * b.lanes),
                    b.splat(b.load_scalar(self.scales, m)),
                )
                for m in range(spec.mr)
                for j in range(count)
            ]
            newer = multiply(
                b,
                self.scores,
                b.at(block, spec.block * begin * b.lanes),
                b.i64(size),
                spec.unroll,
                Rows(stride, 1),
                count,
                older,
                (0, spec.mr),
            )
            for m in range(spec.mr):
                for j in range(count):
                    b.store(newer[m * count + j], sums, m * columns + (begin + j) * b.lanes)

    def _emit_result(self, place: Sequence[Index], row: Index, here: Index) -> None:
        b, spec, math = self.b, self.spec, self.math
        total = b.reduce_lanes(b.load(self.totals, b.mul(here, b.lanes)), math.add)
        factor = math.div(b.splat(1.0), b.splat(total))
        if self.length is not None:  # without valid keys all weights are 0
            has_keys = b.b.icmp_signed(">", self._length_of(place, row), b.i64(0))
            factor = b.b.select(has_keys, factor, b.splat(0.0))
        if self.spec.hides_rows:
            factor = b.b.select(self._is_hidden(place, row, total), b.splat(0.0), factor)
        target = b.at(self.y, b.dot((*place, row), self.strides["y"]))
        sums = b.at(self.sums, b.mul(here, spec.columns(b.lanes)))
        for at in range(0, spec.values, b.lanes):
            value = math.mul(b.load(sums, at), factor)
            write_vector(b, value, target, at, 1, min(b.lanes, spec.values - at))

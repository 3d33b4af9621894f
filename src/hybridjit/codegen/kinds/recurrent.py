"""A step of a recurrent layer: the product with the previous state, then the cell.

A unit of work is a vector of hidden units with all of its gates, for a tile of samples; the product
uses the same micro-kernel as all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..._core.frozen import dataclass
from ..._core.symbolic import Size
from ..._core.target import PAIRS, SINGLE, TYPES_OF, ElementTypes, Target
from ...ir.graph import Use
from ...ir.plan import Step, View
from ...ir.template import Repeat
from ...ops.bfloat16 import TO_BFLOAT16
from ...ops.sequence.rnn_steps import RNN_ROUNDED_STEPS
from ..call import Address, Argument, Call, Setting, Shared, views_of
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import Value
from ..math.numbers import FloatMath, float_math
from ..packing import Packing, PairPacking, RecurrentPacking
from ..spec import Extent, Instr, Ints, KernelSpec, Program
from .parts.arguments import Arguments
from .parts.gemm import (
    Ahead,
    NextTile,
    Operand,
    Rows,
    line_elements,
    multiply,
    steps_of_round,
    steps_of_sum,
)
from .parts.partial import read_vector, write_vector
from .parts.sample_tiles import Layer, TileShape, by_samples, emit_tiles, shares_of, tiles_for
from .pointwise import PointwiseSpec
from .record import register
from .weights.choose import multiplies_pairs, pack_weights


@dataclass(frozen=True)
class RecurrentSpec(KernelSpec):
    """One step of a recurrent layer; arguments: x, w, bias, h, [c,] y, [c_out,] [kept,] [rounded,
    rounded_out,] and those of ``shares_of``.

    Strides are per (sample, element). The weights are packed by ``RecurrentPacking``.

    kept   of the values that the backward pass reads, part by part
    rounded  sample stride of the state in bfloat16, which products read instead; 0 if they read the
             state itself
    mr     the register tile: at most ``mr`` samples x one vector of every gate
    least  the fewest samples of a tile for which the kernel is called
    """

    mode: str
    hidden: int
    x: Ints
    h: Ints
    y: Ints
    c: Ints = ()
    c_out: Ints = ()
    kept: Ints = ()
    rounded: int = 0
    mr: int = 1
    unroll: int = 4
    least: int = 1
    element: ElementTypes = SINGLE
    kind = "recurrent"
    needs_passes = False

    @property
    def gates(self) -> int:
        return {"lstm": 4, "gru": 3}.get(self.mode, 1)


def choose_recurrent(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The steps in the layer's direction; each reads the results of the previous one."""
    anchor = step.group.anchor
    projected, state, *cell = views_of(step, (anchor.inputs[0], *anchor.inputs[3:]))
    outputs, cells = step.writes[0], list(step.writes[1 : 1 + len(cell)])
    kept = step.writes[1 + len(cell) :]
    length, batch, hidden = outputs.shape
    is_rounded = anchor.op is RNN_ROUNDED_STEPS
    setting = _for_products(setting, is_rounded)
    spec = RecurrentSpec(anchor.attrs["mode"], hidden, (), (), (), element=setting.target.element)
    before, packed = pack_weights(step, _packings(step, spec.gates, setting.target), setting)
    layer = Layer(batch, hidden, hidden, spec.gates)
    tiles = tiles_for(layer, _most(spec.gates, setting), setting)
    by_rows = None
    calls = [*before]
    if is_rounded:
        spec = replace(spec, rounded=hidden + hidden % 2)
        calls.append(_round_state(state, _places(length, batch, spec.rounded, 0)[0], spec.rounded))
    else:
        by_rows = by_samples(tiles, (projected, state, *cell), step.writes, packed)
    is_backward = bool(anchor.attrs["backward"])
    for turn, repeat in turns_of(length):
        t = length - 1 - turn if is_backward else turn
        x, y, parts = at_step(projected, t), at_step(outputs, t), [at_step(v, t) for v in kept]
        if repeat is not None:
            state = at_step(outputs, t + 1 if is_backward else t - 1)
        args: list[Argument] = [Address(x), *packed]
        args += [Address(v) for v in (state, *cell, y, *cells, *parts)]
        if is_rounded:
            args += _places(length, batch, spec.rounded, turn)
        c, c_out, k = (v[0].strides if v else () for v in (cell, cells, parts))
        step_spec = replace(
            spec, x=x.strides, h=state.strides, y=y.strides, c=c, c_out=c_out, kept=k,
            mr=tiles.most, least=tiles.least,
        )  # fmt: skip
        work = batch * hidden * hidden * spec.gates
        if repeat is not None:
            work *= length - 1
        shared = (batch, tiles.number, tiles.threads)
        calls.append(Call(step_spec, (*args, *shared), work, by_rows=by_rows, repeat=repeat))
        state, cell = y, cells
    return tuple(calls)


def _places(length: Extent, batch: Extent, step: int, turn: Extent) -> tuple[Shared, Shared]:
    """Memory of the state in 16 bits that a step reads, and of the one that it writes.

    Two states alternate; if the number of steps is symbolic, each has its own place.
    """
    count, numbers = 2, (turn % 2, 1 - turn % 2)
    if isinstance(length, Size):
        count, numbers = length + 1, (turn, turn + 1)
    nbytes = 2 * batch * step
    first, second = (Shared(count * nbytes, number * nbytes) for number in numbers)
    return first, second


def turns_of(length: int | Size) -> Iterator[tuple[Any, Repeat | None]]:
    """The numbers of a layer's time steps; the first, and one that stands for all others, if their
    count is symbolic.
    """
    if not isinstance(length, Size):
        yield from ((turn, None) for turn in range(length))
        return
    yield 0, None
    turn = length.scope.step("turn", 1, length.bounds()[1])
    yield turn, Repeat(turn, 1, length)


def _for_products(setting: Setting, is_rounded: bool) -> Setting:
    """For states in 16 bits: two at a time, if the CPU multiplies pairs."""
    if not is_rounded:
        return setting
    target = setting.target.of(TYPES_OF["bfloat16"])
    return replace(setting, target=target.of(PAIRS) if multiplies_pairs(target) else target)


def _packings(step: Step, gates: int, target: Target) -> list[tuple[Use, Packing]]:
    """The packings of the weight and the bias."""
    weight, bias = step.group.anchor.inputs[1:3]
    plain = RecurrentPacking(gates, target.lanes)
    return [(weight, PairPacking(plain) if target.element == PAIRS else plain), (bias, plain)]


def _round_state(state: View, place: Shared, step: int) -> Call:
    """Round the begin state to bfloat16, with a sample stride of ``step``."""
    batch, hidden = state.shape
    instr = Instr(TO_BFLOAT16.name, (0,), (), "bfloat16")
    spec = PointwiseSpec((hidden,), (state.strides,), ((step, 1),), Program(1, (instr,), (1,)))
    return Call(spec, (Address(state), place, batch), batch * hidden)


def _most(gates: int, setting: Setting) -> int:
    """The most samples of a tile."""
    # With few registers, tiles of an LSTM are computed two gates at a time: see _gates_at_once.
    most = {4: 6, 3: 8, 1: 12} if setting.target.vector_registers >= 32 else {4: 6, 3: 4, 1: 8}
    return most[gates]


def at_step(view: View, t: int) -> View:
    """Step ``t`` of a view (T, N, elements)."""
    offset = view.offset + t * view.strides[0]
    return replace(view, offset=offset, shape=view.shape[1:], strides=view.strides[1:])


# Results of a step: the new state, the new cell, and the values that the backward pass reads.
Made = tuple[Value, Value | None, list[Value]]
# (gates of x, gates of h, the previous state, the previous cell) -> results
Cell = Callable[[FloatMath, list[Value], list[Value], Value | None, Value | None], Made]


def emit_recurrent(b: LoopBuilder, spec: RecurrentSpec, args: Arguments) -> None:
    """y[n] = cell(x[n], bias + w h[n]), as the operator's reference defines the cells."""
    _Recurrent(b, spec, args).emit()


class _Recurrent:
    def __init__(self, b: LoopBuilder, spec: RecurrentSpec, args: Arguments) -> None:
        self.b, self.spec = b, spec
        stored = "float32" if spec.rounded else ""

        def pointer(name: str) -> Value:
            return args.pointer(name, stored)

        self.x, self.w, self.bias = pointer("x"), args.working("w"), args.summed("bias")
        self.h = pointer("h")
        self.c = pointer("c") if spec.c else None
        self.y = pointer("y")
        self.c_out = pointer("c_out") if spec.c else None
        self.kept = pointer("kept") if spec.kept else None
        self.rounded = args.pointer("rounded") if spec.rounded else None
        self.rounded_out = args.pointer("rounded_out") if spec.rounded else None
        self.shares = shares_of(args)
        self.sums = b.scratch(b.vector_type(), spec.mr * spec.gates)

    def emit(self) -> None:
        shape = TileShape(self.spec.hidden, self.spec.mr, self.spec.least)
        emit_tiles(self.b, shape, self.shares, self._emit_products, self._emit_cells)

    def _emit_products(self, first: Index, block: Index, tile: Index, count: int) -> None:
        """The sums of a tile of ``count`` samples, into memory."""
        b, gates = self.b, self.spec.gates
        at_once = self._gates_at_once(count)
        if at_once == gates:
            ahead = replace(self._ahead(block, tile), tile=self._data_ahead(first, block, count))
            self._emit_sums((first, block), (0, gates), count, ahead)
            return
        with b.loop("gates", 0, gates, at_once) as loop:
            part = self._ahead_of_part(block, loop.index, at_once)
            self._emit_sums((first, block), (loop.index, at_once), count, part)

    def _gates_at_once(self, count: int) -> int:
        """The gates whose sums are in registers, for a tile of ``count`` samples.

        Few registers hold two gates of up to 6 samples. Tiles of 2 samples with all gates read all
        weights three times as often: steps of an LSTM with 256 units and 4 to 8 samples take 1.2
        times as long (Zen 3).
        """
        gates, registers = self.spec.gates, self.b.target.vector_registers
        return 2 if gates == 4 and count > 2 and registers < 32 else gates

    def _emit_sums(
        self, place: tuple[Index, Index], part: tuple[Index, int], count: int, ahead: Ahead | None
    ) -> None:
        """The sums of the gates in ``part``, the first one and their number."""
        b, spec, (first, block), (gate, nv) = self.b, self.spec, place, part
        width, at = spec.gates * b.lanes, b.mul(gate, b.lanes)
        weights = b.at(self.w, b.add(b.mul(block, steps_of_sum(b, spec.hidden) * width), at))
        bias = b.at(self.bias, b.add(b.mul(block, width), at))
        start = [b.load(bias, g * b.lanes) for g in range(nv)] * count
        state, strides = self.rounded or self.h, (spec.rounded, 1) if spec.rounded else spec.h
        h = b.at(state, b.mul(first, strides[0]))
        rows, unroll = Rows(*strides), steps_of_round(b, nv * count, nv, spec.unroll)
        accs = multiply(
            b, h, weights, spec.hidden, unroll, rows, nv, start, (0, count), ahead,
            pitch=spec.gates,
        )  # fmt: skip
        for i, value in enumerate(accs):
            sample, g = divmod(i, nv)
            b.store(value, self.sums, b.add(at, (sample * spec.gates + g) * b.lanes))

    def _ahead_of_part(self, block: Index, gate: Index, gates: int) -> Ahead | None:
        """A part of the next block of weights, if they are more than 8 times the second-level
        cache.

        Without prefetch, 4 samples of an LSTM with 1,024 units take 1.6 times as long, but with 512
        units 0.85 (Zen 3).
        """
        b, spec = self.b, self.spec
        steps, row = steps_of_sum(b, spec.hidden), spec.gates * b.lanes
        nbytes = row * b.target.element_bytes
        if -(-spec.hidden // b.lanes) * steps * nbytes <= 8 * b.target.l2_bytes:
            return None
        following = b.mul(b.add(block, 1), steps * row)
        pointer = b.at(self.w, b.add(following, b.mul(gate, steps * b.lanes)))
        return Ahead(pointer, Ahead.lines_for(nbytes, spec.unroll, spec.gates // gates))

    def _ahead(self, block: Index, tile: Index) -> Ahead:
        """The next block of weights, which the tiles of 16 samples prefetch part by part.

        Not if the second-level cache keeps all blocks from step to step: without prefetch, steps of
        an LSTM with 256 units and 16 samples then take 0.97 of the time.
        """
        b, spec = self.b, self.spec
        width = spec.gates * b.lanes
        steps, row = steps_of_sum(b, spec.hidden), width * b.target.element_bytes
        is_kept = -(-spec.hidden // b.lanes) * steps * row <= b.target.l2_bytes
        tiles = 0 if is_kept else max(2, 16 // spec.mr)
        lines = Ahead.lines_for(row, spec.unroll, tiles)
        asked = lines * line_elements(b) * (steps // spec.unroll)
        following = b.mul(b.add(block, 1), steps * width)
        return Ahead(b.at(self.w, b.add(following, b.mul(tile, asked))), lines)

    def _data_ahead(self, first: Index, block: Index, count: int) -> NextTile | None:
        """The projected data of the tile's cells, which are not cached since they were written.

        256 hidden units, 16 samples: steps of an LSTM take 0.93 of the time, of a GRU 0.96.
        """
        b, spec = self.b, self.spec
        if spec.x[1] != 1:
            return None
        data = b.at(self.x, b.dot((first, b.mul(block, b.lanes)), spec.x))
        gates = (b.at(data, gate * spec.hidden) for gate in range(spec.gates))
        operands = tuple(Operand(gate, spec.x[0], b.lanes) for gate in gates)
        return NextTile(operands, count, steps_of_sum(b, spec.hidden))

    def _emit_cells(self, first: Index, block: Index, height: Index, lanes: int) -> None:
        """The cells of a tile, sample by sample."""
        b, gates = self.b, self.spec.gates
        with b.loop("sample", 0, height, most=self.spec.mr) as sample:
            at = b.mul(sample.index, gates * b.lanes)
            turned = [b.load(self.sums, b.add(at, g * b.lanes)) for g in range(gates)]
            self._emit_cell((b.add(first, sample.index), b.mul(block, b.lanes)), turned, lanes)

    def _emit_cell(self, place: tuple[Index, Index], turned: Sequence[Value], lanes: int) -> None:
        b, spec = self.b, self.spec

        def read(pointer: Value, strides: Sequence[int], offset: int = 0) -> Value:
            at = b.add(b.dot(place, strides), offset * strides[1])
            return read_vector(b, pointer, at, strides[1], lanes)

        x = [read(self.x, spec.x, g * spec.hidden) for g in range(spec.gates)]
        before = read(self.h, spec.h) if spec.mode == "gru" else None
        cell = read(self.c, spec.c) if self.c else None
        state, cell, parts = CELLS[spec.mode](float_math(b), x, list(turned), before, cell)
        write_vector(b, state, self.y, b.dot(place, spec.y), spec.y[1], lanes)
        if self.rounded_out:
            write_vector(b, state, self.rounded_out, b.dot(place, (spec.rounded, 1)), 1, lanes)
        if self.c_out and cell:
            write_vector(b, cell, self.c_out, b.dot(place, spec.c_out), spec.c_out[1], lanes)
        if self.kept is None:
            return
        for number, part in enumerate(parts):
            at = b.add(b.dot(place, spec.kept), number * spec.hidden * spec.kept[1])
            write_vector(b, part, self.kept, at, spec.kept[1], lanes)


def _sigmoid(math: FloatMath, x: Value) -> Value:
    one = math.const(1.0)
    return math.div(one, math.add(one, math.exp(math.neg(x))))


def _lstm(
    math: FloatMath, x: list[Value], h: list[Value], _: Value | None, c: Value | None
) -> Made:
    assert c is not None
    gates = [math.add(a, b) for a, b in zip(x, h)]
    i, f, o = (_sigmoid(math, gates[n]) for n in (0, 1, 3))
    g = math.tanh(gates[2])
    c = math.add(math.mul(f, c), math.mul(i, g))
    return math.mul(o, math.tanh(c)), c, [i, f, g, o, c]


def _gru(
    math: FloatMath, x: list[Value], h: list[Value], before: Value | None, _: Value | None
) -> Made:
    assert before is not None
    r = _sigmoid(math, math.add(x[0], h[0]))
    z = _sigmoid(math, math.add(x[1], h[1]))
    n = math.tanh(math.add(x[2], math.mul(r, h[2])))
    fresh = math.mul(math.sub(math.const(1.0), z), n)
    return math.add(fresh, math.mul(z, before)), None, [r, z, n, h[2]]


def _tanh(
    math: FloatMath, x: list[Value], h: list[Value], _: Value | None, __: Value | None
) -> Made:
    return math.tanh(math.add(x[0], h[0])), None, []


def _relu(
    math: FloatMath, x: list[Value], h: list[Value], _: Value | None, __: Value | None
) -> Made:
    return math.max(math.add(x[0], h[0]), math.const(0.0)), None, []


CELLS: dict[str, Cell] = {"lstm": _lstm, "gru": _gru, "rnn_tanh": _tanh, "rnn_relu": _relu}


register("recurrent", choose_recurrent, {RecurrentSpec: emit_recurrent}, in_one_type=True)

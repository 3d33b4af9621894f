"""A backward step of a recurrent layer: the product with the gates' gradients, then the cell.

A unit of work is a vector of hidden units of a tile of samples. The gradient with respect to a
state is the product of the gradients of all gates that read it with the weights by column; then the
gradients of its gates are computed. The gradients with respect to the cell, and to a GRU's state
beside its gates, are carried from step to step in the memory of the begin state's gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..._core.frozen import dataclass
from ..._core.symbolic import Size
from ..._core.target import SINGLE, ElementTypes
from ...ir.plan import Step, View
from ...ir.template import Repeat
from ..call import Address, Argument, ByRows, Call, GivenNumbers, Setting, views_of
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import Value
from ..math.numbers import FloatMath, float_math
from ..packing import RecurrentPacking
from ..spec import Ints, KernelSpec, Sizes
from .parts.arguments import Arguments
from .parts.gemm import Rows, multiply
from .parts.partial import read_vector, write_vector
from .parts.sample_tiles import (
    Layer,
    Tiles,
    TileShape,
    by_samples,
    emit_tiles,
    shares_of,
    tiles_for,
)
from .record import register
from .recurrent import at_step
from .weights.choose import pack_weights


@dataclass(frozen=True)
class RecurrentBackSpec(KernelSpec):
    """A backward step; arguments: [d, w,] then those of ``operands`` in order, and of
    ``shares_of``.

    mode      the cell's; ``state``: only the gradient with respect to the begin state remains
    size      of the product, 0 without a later step
    d         strides of the later gates' gradients; all strides are per (sample, element)
    operands  names and strides: ``head``, ``kept``, ``before`` (the previous cell or state) and
              ``waiting`` are read, all others are written
    mr, least  the most and the fewest samples of a tile
    """

    mode: str
    hidden: int
    size: int
    d: Ints
    operands: tuple[tuple[str, Sizes], ...]
    mr: int = 1
    unroll: int = 4
    least: int = 1
    element: ElementTypes = SINGLE
    kind = "recurrent_back"
    needs_passes = False


def choose_recurrent_back(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The steps in reverse order, then the gradient with respect to the begin state."""
    layer = _layer(step)
    target, (batch, hidden) = setting.target, layer.head.shape[1:]
    weight = step.group.anchor.inputs[layer.weight]
    packing = RecurrentPacking(1, target.lanes)
    before, packed = pack_weights(step, [(weight, packing)], setting)
    most = 12 if target.vector_registers >= 32 else 6
    size = layer.turned.shape[2]
    tiles = tiles_for(Layer(batch, hidden, size, 1), most, setting)
    spec = RecurrentBackSpec(
        layer.mode, hidden, 0, (), (), mr=tiles.most, least=tiles.least, element=target.element
    )
    shared = _Shared(packed, (batch, tiles.number, tiles.threads), layer.by_samples(tiles, packed))
    calls, later = [*before], None
    for turn in _turns(layer.head.shape[0]):
        if turn.number != 0:
            later = at_step(layer.turned, layer.time(turn.number - 1))
        views = layer.operands(turn)
        calls.append(_call(spec, views, later, shared, turn.repeat))
    later = at_step(layer.turned, layer.time(layer.head.shape[0] - 1))
    views = {"out": layer.d_state}
    if layer.mode == "gru":
        views = {"waiting": layer.d_state, **views}
    calls.append(_call(replace(spec, mode="state"), views, later, shared))
    return tuple(calls)


class _Turn(NamedTuple):
    """A step of the backward pass, by number: 0 is the last step in time.

    ``repeat`` is the repetition of a call for several steps, whose number is symbolic.
    """

    number: Any
    is_last: bool
    repeat: Repeat | None = None


def _turns(length: int | Size) -> Iterator[_Turn]:
    """All steps. For a symbolic length: the first, one repeated for those between, the last."""
    if not isinstance(length, Size) or length < 2:
        yield from (_Turn(turn, turn == length - 1) for turn in range(length))
        return
    yield _Turn(0, is_last=False)
    turn = length.scope.step("turn", 1, length.bounds()[1])
    yield _Turn(turn, False, Repeat(turn, 1, length - 1))
    yield _Turn(length - 1, is_last=True)


class _Shared(NamedTuple):
    """Arguments of all steps: the weights, the numbers of samples, tiles and threads that divide by
    samples, and their accesses.
    """

    weights: Sequence[Argument]
    tiles: tuple[int, int, int]
    by_rows: ByRows | None


def _call(
    spec: RecurrentBackSpec, views: dict[str, View], later: View | None, shared: _Shared,
    repeat: Repeat | None = None,
) -> Call:  # fmt: skip
    numbers, (batch, *_) = GivenNumbers(), shared.tiles
    operands = tuple((name, numbers.each(view.strides)) for name, view in views.items())
    args: tuple[Argument, ...] = (*map(Address, views.values()), *shared.tiles, *numbers.values)
    work = batch * spec.hidden
    if repeat is not None:
        work *= repeat.high - repeat.low
    if later is None:
        return Call(replace(spec, operands=operands), args, work, by_rows=shared.by_rows)
    size = later.shape[-1]
    spec = replace(spec, size=size, d=later.strides, operands=operands)
    args = (Address(later), *shared.weights, *args)
    return Call(spec, args, work * size, by_rows=shared.by_rows, repeat=repeat)


@dataclass(frozen=True)
class _Layer:
    """Operands and results of a plan's step, by name; ``weight`` is the number of the input."""

    mode: str
    is_backward: bool
    weight: int
    head: View
    kept: View | None
    outputs: View | None
    begin: View | None
    head_cell: View | None
    data: View
    turned: View
    d_state: View
    d_cell: View | None

    def time(self, turn: Any) -> Any:
        """The time step of a step of the backward pass."""
        return turn if self.is_backward else self.head.shape[0] - 1 - turn

    def operands(self, turn: _Turn) -> dict[str, View]:
        """The operands of a step, by the field names of :class:`RecurrentBackSpec`."""
        t = self.time(turn.number)
        found = {"head": at_step(self.head, t)}
        states = self.outputs if self.mode != "lstm" else self.kept
        if self.kept is not None:
            found["kept"] = at_step(self.kept, t)
        else:
            assert states is not None
            found["kept"] = at_step(states, t)
        if self.begin is not None and states is not None:
            found["before"] = self._before(states, turn)
        keep = self.d_cell if self.mode == "lstm" else self.d_state if self.mode == "gru" else None
        waiting = self.head_cell if turn.number == 0 else keep
        found |= {"waiting": waiting} if waiting is not None else {}
        found |= {"keep": keep} if keep is not None else {}
        found["data"] = at_step(self.data, t)
        return found | ({"turned": at_step(self.turned, t)} if self.mode == "gru" else {})

    def by_samples(self, tiles: Tiles, weights: Sequence[Argument]) -> ByRows | None:
        """The accesses of all steps, if threads divide them by samples."""
        optional = (self.kept, self.outputs, self.begin, self.head_cell, self.d_cell)
        kept, outputs, begin, head_cell, d_cell = ([v] if v is not None else [] for v in optional)
        reads = (self.head, *kept, *outputs, *begin, *head_cell)
        turned = [self.turned] if self.turned != self.data else []
        writes = (self.data, *turned, self.d_state, *d_cell)
        return by_samples(tiles, reads, writes, weights)

    def _before(self, states: View, turn: _Turn) -> View:
        """The state, or the cell, that the step read."""
        assert self.begin is not None
        if turn.is_last:
            return self.begin
        view, hidden = at_step(states, self.time(turn.number + 1)), self.head.shape[2]
        return _part(view, 4, hidden) if self.mode == "lstm" else view


def _part(view: View, number: int, hidden: int) -> View:
    """One part of the values that a step kept, (N, parts * H)."""
    offset = view.offset + number * hidden * view.strides[1]
    return replace(view, offset=offset, shape=(view.shape[0], hidden))


def _layer(step: Step) -> _Layer:
    anchor, writes = step.group.anchor, step.writes
    mode, reads = anchor.attrs["mode"], views_of(step, anchor.inputs)
    is_backward = bool(anchor.attrs["backward"])
    if mode == "lstm":
        kept, cell, _, head, *cells = reads
        head_cell = cells[0] if cells else None
        data, d_state, d_cell = writes
        return _Layer(
            mode, is_backward, 2, head, kept, None, cell, head_cell, data, data, d_state, d_cell
        )
    if mode == "gru":
        kept, outputs, state, _, head = reads
        data, d_state, turned = writes
        return _Layer(
            mode, is_backward, 3, head, kept, outputs, state, None, data, turned, d_state, None
        )
    outputs, _, head = reads
    data, d_state = writes
    return _Layer(mode, is_backward, 1, head, None, outputs, None, None, data, data, d_state, None)


def emit_recurrent_back(b: LoopBuilder, spec: RecurrentBackSpec, args: Arguments) -> None:
    """d gates[n] = cell's slopes times (head[n] + later d[n] w), by the rule of the operator."""
    _Back(b, spec, args).emit()


class _Back:
    def __init__(self, b: LoopBuilder, spec: RecurrentBackSpec, args: Arguments) -> None:
        self.b, self.spec = b, spec
        self.later = [args.pointer("d"), args.working("w")] if spec.size else []
        self.pointers = {name: args.pointer(name) for name, _ in spec.operands}
        self.shares = shares_of(args)
        self.strides = {name: args.given(strides) for name, strides in spec.operands}
        self.sums = b.scratch(b.vector_type(), spec.mr) if self.later else None

    def emit(self) -> None:
        shape = TileShape(self.spec.hidden, self.spec.mr, self.spec.least)
        emit_tiles(self.b, shape, self.shares, self._emit_products, self._emit_cells)

    def _emit_products(self, first: Index, block: Index, tile: Index, count: int) -> None:
        """The contribution of the later gates' gradients to the states of a tile, into memory."""
        if self.sums is None:
            return
        b, spec, (d, w) = self.b, self.spec, self.later
        weights = b.at(w, b.mul(block, spec.size * b.lanes))
        d = b.at(d, b.mul(first, spec.d[0]))
        start = [b.splat(0.0)] * count
        rows = Rows(spec.d[0], spec.d[1])
        accs = multiply(b, d, weights, spec.size, spec.unroll, rows, 1, start, (0, count))
        for i, value in enumerate(accs):
            b.store(value, self.sums, i * b.lanes)

    def _emit_cells(self, first: Index, block: Index, height: Index, lanes: int) -> None:
        """The cells of a tile, sample by sample."""
        b = self.b
        with b.loop("sample", 0, height, most=self.spec.mr) as sample:
            reached = b.splat(0.0)
            if self.sums is not None:
                reached = b.load(self.sums, b.mul(sample.index, b.lanes))
            place = b.add(first, sample.index), b.mul(block, b.lanes)
            _Cell(self, place, lanes).emit(reached)


class _Cell:
    """The cells of a vector of hidden units of one sample."""

    def __init__(self, back: _Back, place: tuple[Index, Index], lanes: int) -> None:
        self.back, self.place, self.lanes = back, place, lanes
        self.math: FloatMath = float_math(back.b)

    def emit(self, d_state: Value) -> None:
        math, mode = self.math, self.back.spec.mode
        if mode == "state":
            self._write("out", 0, self._waiting(d_state))
            return
        d_state = math.add(d_state, self._read("head"))
        emit = {"lstm": self._lstm, "gru": self._gru}.get(mode, self._plain)
        emit(d_state)

    def _lstm(self, dh: Value) -> None:
        math = self.math
        i, f, g, o, c = (self._read("kept", n) for n in range(5))
        bent = math.tanh(c)
        dc = self._waiting(math.mul(math.mul(dh, o), self._tanh_slope(bent)))
        found = [
            math.mul(math.mul(dc, g), self._sigmoid_slope(i)),
            math.mul(math.mul(dc, self._read("before")), self._sigmoid_slope(f)),
            math.mul(math.mul(dc, i), self._tanh_slope(g)),
            math.mul(math.mul(dh, bent), self._sigmoid_slope(o)),
        ]
        self._write("keep", 0, math.mul(dc, f))
        for number, value in enumerate(found):
            self._write("data", number, value)

    def _gru(self, dh: Value) -> None:
        math = self.math
        dh = self._waiting(dh)
        r, z, n, turned = (self._read("kept", number) for number in range(4))
        fresh = math.mul(dh, math.sub(math.const(1.0), z))
        dn = math.mul(fresh, self._tanh_slope(n))
        change = math.mul(dh, math.sub(self._read("before"), n))
        dz = math.mul(change, self._sigmoid_slope(z))
        dr = math.mul(math.mul(dn, turned), self._sigmoid_slope(r))
        self._write("keep", 0, math.mul(dh, z))
        for number, value in enumerate((dr, dz, dn)):
            self._write("data", number, value)
        for number, value in enumerate((dr, dz, math.mul(dn, r))):
            self._write("turned", number, value)

    def _plain(self, dh: Value) -> None:
        math, y = self.math, self._read("kept")
        if self.back.spec.mode == "rnn_tanh":
            self._write("data", 0, math.mul(dh, self._tanh_slope(y)))
            return
        zero = math.const(0.0)
        self._write("data", 0, math.select(math.gt(y, zero), dh, math.mul(dh, zero)))

    def _waiting(self, value: Value) -> Value:
        """Add the gradient carried from the later step."""
        is_waiting = "waiting" in self.back.pointers
        return self.math.add(self._read("waiting"), value) if is_waiting else value

    def _tanh_slope(self, y: Value) -> Value:
        return self.math.sub(self.math.const(1.0), self.math.mul(y, y))

    def _sigmoid_slope(self, y: Value) -> Value:
        return self.math.mul(y, self.math.sub(self.math.const(1.0), y))

    def _at(self, name: str, part: int) -> tuple[Index, Index]:
        b, strides = self.back.b, self.back.strides[name]
        offset = b.mul(strides[1], part * self.back.spec.hidden)
        return b.add(b.dot(self.place, strides), offset), strides[1]

    def _read(self, name: str, part: int = 0) -> Value:
        at, stride = self._at(name, part)
        return read_vector(self.back.b, self.back.pointers[name], at, stride, self.lanes)

    def _write(self, name: str, part: int, value: Value) -> None:
        at, stride = self._at(name, part)
        write_vector(self.back.b, value, self.back.pointers[name], at, stride, self.lanes)


register(
    "recurrent_back",
    choose_recurrent_back,
    {RecurrentBackSpec: emit_recurrent_back},
    in_one_type=True,
)

"""CTC: log probabilities of all paths through a lattice of steps and positions, and gradients.

``ops/sequence/ctc.py`` has the definitions. A unit of work is a sequence; vectors run along the
positions of its extended label. All numbers are float64. Where no path exists, the maximum in a
log-sum-exp is replaced by a number far below all other logarithms: exp(-inf) is then 0, and inf -
inf does not occur.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..._core.frozen import dataclass
from ..._core.target import TYPES_OF, ElementTypes
from ..kinds.parts.arguments import Arguments
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I64, Value
from ..math.double import DoubleMath
from ..spec import KernelSpec

_FLOOR = -1e300
# Rounds of the loops along classes and places, about: they are too short to poll inside.
_MOST = 1 << 12
_DOUBLE = TYPES_OF["float64"]


@dataclass(frozen=True)
class CtcSpec(KernelSpec):
    """Arguments: x (T, N, C), classes and skips (N, W), ends (N), places (N), heads (N), losses
    (N), gradients (T, N, C) of zeros, scratch filled with -inf; then T, N, C, W, margin.

    W, a multiple of the lanes, is the largest number of positions, rounded up. Scratch holds rows
    of W numbers with a margin on both sides (one for each step, two for betas, one for shares),
    then W numbers and two more for each step, then C numbers.
    """

    has_gradient: bool
    element: ElementTypes = _DOUBLE
    kind = "ctc"


def emit_ctc(b: LoopBuilder, spec: CtcSpec, args: Arguments) -> None:
    """The losses, and the gradients with respect to x."""
    _Ctc(b, spec, args).emit()


class _Ctc:
    def __init__(self, b: LoopBuilder, spec: CtcSpec, args: Arguments) -> None:
        self.b, self.spec, self.args = b, spec, args
        self.x, self.classes = args.pointer("x"), args.pointer("classes", "int64")
        self.skips = args.pointer("skips")
        self.ends, self.places = (args.pointer(name, "int64") for name in ("ends", "places"))
        names = ("heads", "losses", "gradients", "scratch")
        self.heads, self.losses, self.gradients, self.scratch = map(args.pointer, names)
        numbers = ("steps", "batch", "count", "width", "margin")
        self.steps, self.batch, self.count, self.width, self.margin = map(args.integer, numbers)
        self.math, self.one = DoubleMath(b), DoubleMath(b, b.number(0))
        self.pitch = b.add(self.width, b.mul(self.margin, 2))
        rows = b.mul(self.steps, self.pitch)
        self.alphas = b.at(self.scratch, self.margin)
        self.betas = b.at(self.alphas, rows)
        self.shares = b.at(self.betas, b.mul(self.pitch, 2))
        self.rows = b.at(self.shares, self.pitch)
        self.stats = b.at(self.rows, b.mul(self.steps, self.width))
        self.chances = b.at(self.stats, b.mul(self.steps, 2))

    def emit(self) -> None:
        b = self.b
        with b.each_unit(self.batch, self.args.share, self.args.shares) as unit:
            self.number = unit.index
            self.path = b.at(self.classes, b.mul(unit.index, self.width), I64)
            self.skip = b.at(self.skips, b.mul(unit.index, self.width))
            end = b.load_scalar(self.ends, unit.index, I64)
            places = b.load_scalar(self.places, unit.index, I64)
            with b.loop("step", 0, end) as step:
                self._note_row(step.index)
            self._start()
            with b.loop("forward", 1, end) as step:
                self._forward(step.index)
            with b.when(b.less(0, end)):
                total = self._total(b.sub(end, 1), places)
                lost = self.one.eq(total, b.number(-math.inf))
                loss = b.b.select(lost, b.number(0), b.b.fneg(total))
                b.store(loss, self.losses, unit.index)
                if self.spec.has_gradient:
                    with b.when(b.b.not_(lost)):
                        self._back(end, places, total)

    # --- rows of log probabilities ---

    def _row_start(self, step: Index) -> Index:
        b = self.b
        return b.mul(b.add(b.mul(step, self.batch), self.number), self.count)

    def _x_at(self, step: Index) -> Value:
        return self.b.at(self.x, self._row_start(step))

    def _summed(
        self, x: Value, start: float, term: Callable[[Value], Value], plus: str
    ) -> tuple[Value, Value]:
        """The reduction of ``term`` over a row, as a scalar and as a vector of equal lanes."""
        b = self.b
        with b.loop("class", 0, self.count, b.lanes, carry=[b.splat(start)], most=_MOST) as vector:
            mask = self._mask(vector.index)
            numbers = term(b.load_masked(x, vector.index, mask, -math.inf))
            vector.yields([getattr(self.math, plus)(vector.carried[0], numbers)])
        total = b.reduce_lanes(vector.results[0], getattr(self.one, plus))
        return total, b.splat(total)

    def _mask(self, first: Value) -> Value:
        """A mask of the lanes from class ``first`` on that are classes."""
        b = self.b
        return b.mask_first(b.min(b.sub(self.count, first), b.lanes))

    def _note_row(self, step: Value) -> None:
        """Store the log probability of each position's class at this step and the row's statistics.

        These are the maximum and the log of the sum, which :meth:`_write_gradients` reuses.
        """
        b, x = self.b, self._x_at(step)
        top, tops = self._summed(x, -math.inf, lambda v: v, "max")
        summed, _ = self._summed(x, 0.0, lambda v: self.math.exp(b.b.fsub(v, tops)), "add")
        log = self.one.log(summed)
        for i, number in enumerate((top, log)):
            b.store(number, self.stats, b.add(b.mul(step, 2), i))
        row = b.at(self.rows, b.mul(step, self.width))
        with b.loop("place", 0, self.width, most=_MOST) as place:
            name = b.load_scalar(self.path, place.index, I64)
            number = b.b.fsub(b.b.fsub(b.load_scalar(x, name), top), log)
            b.store(number, row, place.index)

    # --- forward: alphas ---

    def _row_of(self, base: Value, step: Index) -> Value:
        return self.b.at(base, self.b.mul(step, self.pitch))

    def _start(self) -> None:
        b = self.b
        with b.loop("place", 0, self.width, b.lanes, most=_MOST) as place:
            b.store(b.splat(-math.inf), b.at(self.alphas, place.index))
        for number in (0, 1):
            b.store(b.load_scalar(self.rows, number), self.alphas, number)

    def _forward(self, step: Value) -> None:
        b = self.b
        before = self._row_of(self.alphas, b.sub(step, 1))
        target = self._row_of(self.alphas, step)
        row = b.at(self.rows, b.mul(step, self.width))
        with b.loop("place", 0, self.width, b.lanes, most=_MOST) as place:
            stay, one, two = (b.load(before, b.sub(place.index, back)) for back in range(3))
            two = b.b.fadd(two, b.load(self.skip, place.index))
            total = b.b.fadd(self._sum((stay, one, two)), b.load(row, place.index))
            b.store(total, b.at(target, place.index))

    def _sum(self, terms: tuple[Value, ...], math_of: DoubleMath | None = None) -> Value:
        """Log-sum-exp of the terms."""
        numbers = math_of or self.math
        most = numbers.const(_FLOOR)
        for term in terms:
            most = numbers.max(most, term)
        powers = [numbers.exp(numbers.sub(term, most)) for term in terms]
        total = powers[0]
        for power in powers[1:]:
            total = numbers.add(total, power)
        return numbers.add(most, numbers.log(total))

    def _total(self, last: Value, places: Value) -> Value:
        b, row = self.b, self._row_of(self.alphas, last)
        ends = (b.load_scalar(row, b.sub(places, 1)), b.load_scalar(row, b.sub(places, 2)))
        return self._sum(ends, self.one)

    # --- backward: betas and gradients ---

    def _back(self, end: Value, places: Value, total: Value) -> None:
        """Compute betas and gradients from the last step to the first.

        ``betas`` holds two rows, of a step and the following one: the log probabilities of paths
        from each position to the end. While a step's shares are computed, its row excludes the
        probability at the step itself, so that a class of probability 0 has no share.
        """
        b = self.b
        with b.loop("back", 0, end) as back:
            step = b.sub(b.sub(end, 1), back.index)
            here = self._row_of(self.betas, b.b.and_(step, b.i64(1)))
            behind = self._row_of(self.betas, b.b.and_(b.add(step, 1), b.i64(1)))
            is_last = b.equal(back.index, 0)
            with b.b.if_else(is_last) as (first, others):
                with first:
                    self._end_ways(here, places)
                with others:
                    self._ways(here, behind)
            self._share(step, here, total)
            self._write_gradients(step, places)
            self._with_row(here, step)

    def _end_ways(self, here: Value, places: Value) -> None:
        b = self.b
        with b.loop("place", 0, self.width, b.lanes, most=_MOST) as place:
            b.store(b.splat(-math.inf), b.at(here, place.index))
        for back in (1, 2):  # with one position, the second lies in the margin
            with b.when(b.less(back - 1, places)):
                b.store(b.number(0), here, b.sub(places, back))

    def _ways(self, here: Value, behind: Value) -> None:
        b = self.b
        with b.loop("place", 0, self.width, b.lanes, most=_MOST) as place:
            stay, one, two = (b.load(behind, b.add(place.index, ahead)) for ahead in range(3))
            two = b.b.fadd(two, b.load(self.skip, b.add(place.index, 2)))
            b.store(self._sum((stay, one, two)), b.at(here, place.index))

    def _share(self, step: Value, here: Value, total: Value) -> None:
        """Store the posterior probability of each position at this step."""
        b = self.b
        alpha, totals = self._row_of(self.alphas, step), b.splat(total)
        with b.loop("place", 0, self.width, b.lanes, most=_MOST) as place:
            ways = b.b.fadd(b.load(alpha, place.index), b.load(here, place.index))
            share = self.math.exp(b.b.fsub(ways, totals))
            b.store(share, b.at(self.shares, place.index))

    def _write_gradients(self, step: Value, places: Value) -> None:
        """Store the gradient: each class's probability minus the posteriors of its positions."""
        b, x = self.b, self._x_at(step)
        top, log = (b.splat(b.load_scalar(self.stats, b.add(b.mul(step, 2), i))) for i in range(2))
        with b.loop("class", 0, self.count, b.lanes, most=_MOST) as first:
            mask = self._mask(first.index)
            vector = b.load_masked(x, first.index, mask, -math.inf)
            chance = self.math.exp(b.b.fsub(b.b.fsub(vector, top), log))
            b.store_masked(chance, self.chances, first.index, mask)
        with b.loop("place", 0, places, most=_MOST) as place:
            name = b.load_scalar(self.path, place.index, I64)
            left = b.b.fsub(
                b.load_scalar(self.chances, name), b.load_scalar(self.shares, place.index)
            )
            b.store(left, self.chances, name)
        target = b.at(self.gradients, self._row_start(step))
        head = b.splat(b.load_scalar(self.heads, self.number))
        with b.loop("class", 0, self.count, b.lanes, most=_MOST) as first:
            mask = self._mask(first.index)
            chance = b.load_masked(self.chances, first.index, mask)
            b.store_masked(b.b.fmul(chance, head), target, first.index, mask)

    def _with_row(self, here: Value, step: Value) -> None:
        """Add the log probabilities at this step to its row of betas."""
        b = self.b
        row = b.at(self.rows, b.mul(step, self.width))
        with b.loop("place", 0, self.width, b.lanes, most=_MOST) as place:
            both = b.b.fadd(b.load(here, place.index), b.load(row, place.index))
            b.store(both, b.at(here, place.index))

"""Hawkes processes: log likelihoods of sequences of marked events, final states, and slopes.

``ops/sequence/hawkes.py`` has the definitions. A unit of work is a sequence. Exponentials and
logarithms are computed in vectors along its events; the recurrence between them, and all sums, in
the order of the events. All numbers are float64.
"""

from __future__ import annotations

from ..._core.frozen import dataclass
from ..._core.target import TYPES_OF, ElementTypes
from ..kinds.parts.arguments import Arguments
from ..llvm.builder import LoopBuilder
from ..llvm.types import Value
from ..math.double import DoubleMath
from ..spec import KernelSpec


@dataclass(frozen=True)
class HawkesSpec(KernelSpec):
    """Arguments: lda (N, K), alpha, beta (K,), states (N, K), lags (N, T), marks (N, T) and ends
    (N,) of int64, max_time (N,), likelihoods (N,); zeros (N, K) for the last time of each mark, the
    derivatives of the state, and the slopes of lda, alpha and beta; scratch memory; then N, T, K,
    W.

    The states are replaced by those at the end. W is T rounded up to whole vectors; scratch has
    four rows of W numbers: exponents, then decays; gaps; rates, then logarithms; integrals.
    """

    has_gradient: bool
    element: ElementTypes = TYPES_OF["float64"]
    kind = "hawkes"


def emit_hawkes(b: LoopBuilder, spec: HawkesSpec, args: Arguments) -> None:
    """The likelihoods, the states, and the slopes if ``has_gradient``."""
    _Hawkes(b, spec, args).emit()


class _Hawkes:
    def __init__(self, b: LoopBuilder, spec: HawkesSpec, args: Arguments) -> None:
        self.b, self.spec, self.args = b, spec, args
        names = ("lda", "alpha", "beta", "states")
        self.lda, self.alpha, self.beta, self.states = map(args.pointer, names)
        self.lags = args.pointer("lags")
        self.marks, self.ends = (args.pointer(name, "int64") for name in ("marks", "ends"))
        self.max_time, self.likelihoods = map(args.pointer, ("max_time", "likelihoods"))
        self.last, self.moved = map(args.pointer, ("last", "moved"))
        slopes = ("by_lda", "by_alpha", "by_beta")
        self.by_lda, self.by_alpha, self.by_beta = map(args.pointer, slopes)
        scratch = args.pointer("scratch")
        sizes = ("count", "steps", "kinds", "width")
        self.count, self.steps, self.kinds, self.width = map(args.integer, sizes)
        self.decays, self.gaps, self.rates, self.integrals = (
            b.at(scratch, b.mul(self.width, row)) for row in range(4)
        )
        self.math, self.one = DoubleMath(b), DoubleMath(b, b.number(0))

    def emit(self) -> None:
        b = self.b
        with b.each_unit(self.count, self.args.share, self.args.shares) as unit:
            self.first = b.mul(unit.index, self.kinds)
            self.events = b.mul(unit.index, self.steps)
            end = b.load_scalar(self.ends, unit.index)
            self._gaps(end)
            self._map("exp", self.decays, end)
            self._rates(end)
            self._map("log", self.rates, end)
            total = self._total(end)
            rest = self._finish(b.load_scalar(self.max_time, unit.index))
            b.store(b.b.fsub(total, rest), self.likelihoods, unit.index)

    def _mark(self, event: Value) -> tuple[Value, Value]:
        """An event's mark, and its index in arrays (N, K)."""
        mark = self.b.load_scalar(self.marks, self.b.add(self.events, event))
        return mark, self.b.add(self.first, mark)

    def _gaps(self, end: Value) -> None:
        """Store the time since the previous event of the same mark, and the decay's exponent."""
        b = self.b
        with b.loop("event", 0, end, carry=[b.number(0.0)]) as event:
            mark, at = self._mark(event.index)
            lag = b.load_scalar(self.lags, b.add(self.events, event.index))
            time = b.b.fadd(event.carried[0], lag)
            gap = b.b.fsub(time, b.load_scalar(self.last, at))
            b.store(time, self.last, at)
            b.store(gap, self.gaps, event.index)
            exponent = b.b.fmul(b.b.fneg(b.load_scalar(self.beta, mark)), gap)
            b.store(exponent, self.decays, event.index)
            event.yields([time])

    def _map(self, name: str, row: Value, end: Value) -> None:
        """Replace numbers by a function of them, up to the end of the last vector."""
        b = self.b
        with b.loop(name, 0, end, b.lanes) as event:
            found = getattr(self.math, name)(b.load(row, event.index))
            b.store(found, b.at(row, event.index))

    def _rates(self, end: Value) -> None:
        """Store the rate at each event and its integral since the last one; update the states."""
        b, one = self.b, self.one
        with b.loop("rate", 0, end) as event:
            mark, at = self._mark(event.index)
            a, beta = (b.load_scalar(x, mark) for x in (self.alpha, self.beta))
            gap, decay = (b.load_scalar(x, event.index) for x in (self.gaps, self.decays))
            base, state = (b.load_scalar(x, at) for x in (self.lda, self.states))
            rest = one.sub(one.const(1), decay)
            rate = one.add(base, one.mul(one.mul(one.mul(a, beta), state), decay))
            lost = one.add(one.mul(base, gap), one.mul(one.mul(a, state), rest))
            b.store(rate, self.rates, event.index)
            b.store(lost, self.integrals, event.index)
            if self.spec.has_gradient:
                self._add_slopes(at, a, beta, gap, decay, state, rate)
            b.store(one.add(one.const(1), one.mul(state, decay)), self.states, at)

    def _add_slopes(
        self, at: Value, a: Value, beta: Value, gap: Value, decay: Value, state: Value, rate: Value
    ) -> None:
        one = self.one
        moved, rest = self.b.load_scalar(self.moved, at), one.sub(one.const(1), decay)
        share = one.div(decay, rate)
        self._add(self.by_lda, at, one.sub(one.div(one.const(1), rate), gap))
        gained, lost = one.mul(one.mul(beta, state), share), one.mul(state, rest)
        self._add(self.by_alpha, at, one.sub(gained, lost))
        grown = one.mul(state, one.sub(one.const(1), one.mul(beta, gap)))
        gained = one.mul(share, one.add(grown, one.mul(beta, moved)))
        lost = one.add(one.mul(moved, rest), one.mul(one.mul(state, gap), decay))
        self._add(self.by_beta, at, one.mul(a, one.sub(gained, lost)))
        moved = one.mul(decay, one.sub(moved, one.mul(gap, state)))
        self.b.store(moved, self.moved, at)

    def _add(self, sums: Value, at: Value, term: Value) -> None:
        self.b.store(self.b.b.fadd(self.b.load_scalar(sums, at), term), sums, at)

    def _total(self, end: Value) -> Value:
        """The sum of logarithms minus integrals, in the order of the events."""
        b = self.b
        with b.loop("term", 0, end, carry=[b.number(0.0)]) as event:
            log, lost = (b.load_scalar(x, event.index) for x in (self.rates, self.integrals))
            event.yields([b.b.fadd(event.carried[0], b.b.fsub(log, lost))])
        return event.results[0]

    def _finish(self, max_time: Value) -> Value:
        """Decay the states to the end of observation; the integrals of all marks since then."""
        b, one = self.b, self.one
        with b.loop("mark", 0, self.kinds, carry=[b.number(0.0)]) as mark:
            at = b.add(self.first, mark.index)
            a, beta = (b.load_scalar(x, mark.index) for x in (self.alpha, self.beta))
            base, state = (b.load_scalar(x, at) for x in (self.lda, self.states))
            gap = one.sub(max_time, b.load_scalar(self.last, at))
            decay = one.exp(one.mul(b.b.fneg(beta), gap))
            rest = one.sub(one.const(1), decay)
            if self.spec.has_gradient:
                self._finish_slopes(at, a, gap, decay, state)
            b.store(one.mul(state, decay), self.states, at)
            lost = one.add(one.mul(base, gap), one.mul(one.mul(a, state), rest))
            mark.yields([b.b.fadd(mark.carried[0], lost)])
        return mark.results[0]

    def _finish_slopes(self, at: Value, a: Value, gap: Value, decay: Value, state: Value) -> None:
        one = self.one
        moved, rest = self.b.load_scalar(self.moved, at), one.sub(one.const(1), decay)
        self._add(self.by_lda, at, self.b.b.fneg(gap))
        self._add(self.by_alpha, at, self.b.b.fneg(one.mul(state, rest)))
        lost = one.add(one.mul(moved, rest), one.mul(one.mul(state, gap), decay))
        self._add(self.by_beta, at, self.b.b.fneg(one.mul(a, lost)))

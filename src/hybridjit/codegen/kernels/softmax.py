"""Softmax and its logarithm over one axis of contiguous data."""

from __future__ import annotations

from typing import Any

from ..builder import Index, LoopBuilder
from ..spec import SoftmaxSpec
from ..vmath import VectorMath
from .arguments import Arguments
from .tail import read_vector, write_vector

LOWEST = float("-inf")


def emit_softmax(b: LoopBuilder, spec: SoftmaxSpec, args: Arguments) -> None:
    """y = exp(x - max x) / sum exp(x - max x), or its logarithm, along the axis."""
    x, y, rows = args.pointer("x"), args.pointer("y"), args.integer("rows")
    begin, end = b.share(rows, args.tid, args.threads)
    with b.loop("row", begin, end) as row:
        at = b.mul(row.index, spec.size * spec.inner)
        line = _Line(b, spec, b.at(x, at), b.at(y, at))
        if spec.inner == 1:
            line.emit_along()
        else:
            line.emit_across()


class _Line:
    """One row: ``size`` steps along the axis, ``inner`` contiguous elements across it."""

    def __init__(self, b: LoopBuilder, spec: SoftmaxSpec, x: Any, y: Any) -> None:
        self.b, self.spec, self.x, self.y = b, spec, x, y
        self.math = VectorMath(b)

    def emit_along(self) -> None:
        """Vectors along the axis; their lanes are combined at the end, always in one order."""
        b = self.b
        top = self._over(
            b.splat(LOWEST), lambda acc, v, n: self.math.max(acc, self._kept(v, n, LOWEST))
        )
        top = b.splat(b.reduce_lanes(top, self.math.max))
        total = self._over(
            b.splat(0.0),
            lambda acc, v, n: self.math.add(acc, self._kept(self._exp(v, top), n, 0.0)),
        )
        total = b.splat(b.reduce_lanes(total, self.math.add))
        log_total = self.math.log(total) if self.spec.how == "log_softmax" else None
        self._over(None, lambda acc, v, n: self._result(v, top, total, log_total), store=True)

    def _over(self, start: Any, combine: Any, store: bool = False) -> Any:
        """for each vector of the row: acc = combine(acc, vector, lanes), or store what it gives."""
        b, size = self.b, self.spec.size
        whole = size - size % b.lanes
        acc = start

        def one(index: Index, lanes: int, acc: Any) -> Any:
            value = combine(acc, self._read(index, lanes), lanes)
            if store:
                write_vector(b, value, self.y, index, 1, lanes)
            return value

        if whole:
            with b.loop("i", 0, whole, b.lanes, carry=[] if store else [acc]) as i:
                value = one(i.index, b.lanes, i.carried[0] if i.carried else None)
                i.yields([] if store else [value])
            acc = acc if store else i.results[0]
        if size % b.lanes:
            acc = one(whole, size % b.lanes, acc)
        return acc

    def emit_across(self) -> None:
        """Vectors across the axis: each lane has a softmax of its own."""
        b, inner = self.b, self.spec.inner
        whole = inner - inner % b.lanes
        if whole:
            with b.loop("column", 0, whole, b.lanes) as column:
                self._emit_columns(column.index, b.lanes)
        if inner % b.lanes:
            self._emit_columns(whole, inner % b.lanes)

    def _emit_columns(self, column: Index, lanes: int) -> None:
        b, spec, math = self.b, self.spec, self.math

        def over(start: Any, combine: Any) -> Any:
            with b.loop("k", 0, spec.size, carry=[start]) as k:
                at = b.add(b.mul(k.index, spec.inner), column)
                k.yields([combine(k.carried[0], self._read(at, lanes))])
            return k.results[0]

        top = over(b.splat(LOWEST), math.max)
        total = over(b.splat(0.0), lambda acc, v: math.add(acc, self._exp(v, top)))
        log_total = math.log(total) if spec.how == "log_softmax" else None
        with b.loop("k", 0, spec.size) as k:
            at = b.add(b.mul(k.index, spec.inner), column)
            value = self._result(self._read(at, lanes), top, total, log_total)
            write_vector(b, value, self.y, at, 1, lanes)

    def _read(self, index: Index, lanes: int) -> Any:
        value = read_vector(self.b, self.x, index, 1, lanes)
        return self.math.neg(value) if self.spec.how == "softmin" else value

    def _exp(self, value: Any, top: Any) -> Any:
        return self.math.exp(self.math.sub(value, top))

    def _kept(self, value: Any, lanes: int, other: float) -> Any:
        """``value`` in the first lanes, ``other`` beyond."""
        if lanes == self.b.lanes:
            return value
        return self.b.b.select(self.b.mask_first(lanes), value, self.b.splat(other))

    def _result(self, value: Any, top: Any, total: Any, log_total: Any) -> Any:
        if log_total is not None:
            return self.math.sub(self.math.sub(value, top), log_total)
        return self.math.div(self._exp(value, top), total)

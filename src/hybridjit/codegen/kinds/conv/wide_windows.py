"""Depthwise rows with wide windows: horizontal taps in loops, for a tile of output columns.

Unrolled, every tile that exceeds an edge has its own code: 49,000 lines of LLVM for 87 taps over
128 columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..parts.partial import read_vector
from ..parts.window import first_input, valid_taps
from .spec import DepthwiseSpec

# Horizontal taps. In loops, 31 taps take 1.04 to 1.14 of the time, 33 the same, and 63 and 87 take
# 0.58 and 0.54 (256 and 512 channels of 128 to 400 columns, Zen 4).
_MOST_UNROLLED = 32


def has_wide_windows(spec: DepthwiseSpec) -> bool:
    """Whether the horizontal taps of this kernel are a loop."""
    return spec.group == 1 and spec.kernel[2] > _MOST_UNROLLED


class WideWindows:
    """The sums of ``width`` adjacent columns from ``column`` on, for the vectors ``lanes``.

    lanes   valid lanes of each vector of channels
    """

    def __init__(
        self, b: LoopBuilder, spec: DepthwiseSpec, column: Index, width: int, lanes: Sequence[int]
    ) -> None:
        self.b, self.spec, self.width, self.lanes = b, spec, width, lanes
        self.column = column
        self.left = first_input(b, column, spec.stride[2], spec.pad[2])
        self.padded = b.whole_vectors(spec.channels)

    def add(self, x: Value, w: Value, accs: Sequence[Value]) -> list[Value]:
        """``accs`` and the products of one input row, whose first tap is at ``x``.

        The columns of a tile reach different taps at an edge: those that only some columns reach
        test each column.
        """
        b = self.b
        last = b.add(self.column, self.width - 1)
        low, stop = valid_taps(b, self.spec, 2, self.column)
        start, high = valid_taps(b, self.spec, 2, last)
        low = b.min(low, stop)
        high = b.max(high, low)
        accs = self._loop("left", start, low, x, w, accs, self._tested)
        accs = self._loop("taps", low, high, x, w, accs, self._whole)
        return self._loop("right", high, stop, x, w, accs, self._tested)

    def _loop(
        self,
        name: str,
        start: Index,
        stop: Index,
        x: Value,
        w: Value,
        accs: Sequence[Value],
        add: Callable[[Value, Value, Index, int, Value], Value],
    ) -> list[Value]:
        """The taps from ``start`` to ``stop``: ``add`` adds one to the sum of a column."""
        b, spec = self.b, self.spec
        if isinstance(start, int) and isinstance(stop, int) and start >= stop:
            return list(accs)
        with b.loop(name, start, stop, carry=list(accs), most=int(spec.kernel[2])) as tap:
            result = list(tap.carried)
            row = b.at(w, b.mul(tap.index, self.padded))
            filters = [b.load(row, j * b.lanes) for j in range(len(self.lanes))]
            offset = b.mul(tap.index, spec.dilate[2])
            for m in range(self.width):
                at = b.add(offset, m * spec.stride[2])
                for j, kernel in enumerate(filters):
                    k = m * len(filters) + j
                    result[k] = add(x, kernel, at, j, result[k])
            tap.yields(result)
        return tap.results

    def _whole(self, x: Value, kernel: Value, at: Index, j: int, total: Value) -> Value:
        b = self.b
        return b.fma(self._read(x, at, j), kernel, total)

    def _tested(self, x: Value, kernel: Value, at: Index, j: int, total: Value) -> Value:
        """The same if the input exists; otherwise the row's first input is read, and not used."""
        b = self.b
        position = b.i64(b.add(self.left, at))
        inside = b.b.icmp_unsigned("<", position, b.i64(self.spec.inp[2]))
        place = b.b.select(inside, b.i64(at), b.i64(b.sub(0, self.left)))
        value = self._read(x, place, j)
        return b.b.select(inside, b.fma(value, kernel, total), total)

    def _read(self, x: Value, at: Index, j: int) -> Value:
        b = self.b
        place = b.add(b.mul(at, self.spec.xs[3]), j * b.lanes)
        return read_vector(b, x, place, 1, self.lanes[j])

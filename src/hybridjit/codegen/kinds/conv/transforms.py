"""The transforms of data and of products along a line, as vector code (``codegen.interpolation``).

Points +p and -p share their even and odd parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...interpolation import Line, interpolation_points
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value

# Values of a tile whose transforms are unrolled: those of F(4x4, 3x3), which loops make 1 % slower.
_FEW = 36
# The same for kernels of any size of image, which a program may compile for a single call: loops
# take ResNet-18 at varying sizes as long (20.7 and 20.8 ms a call, Zen 4), LLVM 15 % less for it.
_FEW_OF_ANY = 16


def both_ways(
    b: LoopBuilder,
    halves: Value,
    size: tuple[int, int],
    column: Callable[[Index], list[Value]],
    row: Callable[[Index, list[Value]], None],
    is_any: bool = False,
) -> None:
    """Transform the columns of a tile, then the rows of the results, of this height and width.

    More values than registers pass through the memory ``halves``; many more do so in loops, because
    code for each column and row takes LLVM several times as long. ``is_any`` states that the kernel
    is for images of any size.
    """
    height, width = size
    few = _FEW_OF_ANY if is_any else _FEW
    is_loop = is_any and height * width > few
    if 4 * height * width <= 5 * b.target.vector_registers and not is_loop:
        held = [column(q) for q in range(width)]
        for number, values in enumerate(zip(*held)):
            row(number, [*values])
        return
    are_few = height * width <= few
    for q in b.rounds("column", width, are_few):
        place = b.at(halves, b.mul(q, b.lanes))
        for number, value in enumerate(column(q)):
            b.store(value, place, number * width * b.lanes)
    for r in b.rounds("row", height, are_few):
        place = b.at(halves, b.mul(r, width * b.lanes))
        row(r, [b.load(place, q * b.lanes) for q in range(width)])


def into_points(b: LoopBuilder, line: Line, d: Sequence[Value]) -> list[Value]:
    """The points of ``line.reach`` elements, phase by phase."""
    rows: list[Value] = []
    for phase, (taps, count) in enumerate(zip(line.phases, line.counts)):
        own = d[phase :: line.stride][:count]
        rows += own if taps == 1 else input_transform(b, own)
    return rows


def from_points(b: LoopBuilder, line: Line, products: Sequence[Value]) -> list[Value]:
    """The ``line.m`` results: the sums over the phases."""
    first, *others = _results(b, line, products)
    for results in others:
        first = [b.b.fadd(one, other) for one, other in zip(first, results)]
    return first


def _results(b: LoopBuilder, line: Line, products: Sequence[Value]) -> Iterator[list[Value]]:
    at = 0
    for taps, count in zip(line.phases, line.counts):
        own = products[at : at + count]
        yield [*own] if taps == 1 else output_transform(b, own, line.m)
        at += count


def input_transform(b: LoopBuilder, d: Sequence[Value]) -> list[Value]:
    """Bt d for as many points as elements: the polynomial with the other points as its roots."""
    pairs = [p for p in interpolation_points(len(d)) if p > 0]
    zero = 1 - len(d) % 2  # whether 0 is a point: a root of all others' polynomials
    rows = [_polynomial(b, d[::2], pairs)] if zero else []
    for own in pairs:
        others = [p for p in pairs if p != own]
        even = _polynomial(b, d[1 + zero :: 2], others)
        odd = _polynomial(b, d[zero::2], others)
        rows += [_times_add(b, odd, own, even), _times_add(b, odd, -own, even)]
    return [*rows, _polynomial(b, d[zero::2], pairs)]


def _polynomial(b: LoopBuilder, d: Sequence[Value], roots: Sequence[float]) -> Value:
    """The product of (x - p * p) for the roots p, its coefficients multiplied with d and summed."""
    coefficients = [1.0]
    for p in roots:
        shifted = [0.0, *coefficients]
        coefficients = [s - p * p * c for s, c in zip(shifted, [*coefficients, 0.0])]
    total = d[len(roots)]
    for value, factor in reversed([*zip(d, coefficients[:-1])]):
        total = _times_add(b, value, factor, total)
    return total


def output_transform(b: LoopBuilder, m: Sequence[Value], size: int) -> list[Value]:
    """At m for F(size, taps): powers of the points; infinity contributes to the last result."""
    pairs = [p for p in interpolation_points(len(m)) if p > 0]
    zero = 1 - len(m) % 2
    plus, minus = m[zero:-1:2], m[zero + 1 : -1 : 2]
    even = [b.b.fadd(one, other) for one, other in zip(plus, minus)]
    odd = [b.b.fsub(one, other) for one, other in zip(plus, minus)]
    results = [_sum(b, [*m[:zero], *even])]
    for power in range(1, size):
        terms = [(p**power, value) for p, value in zip(pairs, odd if power % 2 else even)]
        if power == size - 1:
            terms.append((1.0, m[-1]))
        results.append(_combined(b, terms))
    return results


def _combined(b: LoopBuilder, terms: Sequence[tuple[float, Value]]) -> Value:
    """The sum of factors times values, the last first."""
    *others, (factor, total) = terms
    if factor != 1.0:
        total = b.b.fmul(total, b.splat(factor))
    for factor, value in reversed(others):
        total = _times_add(b, value, factor, total)
    return total


def _sum(b: LoopBuilder, values: Sequence[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = b.b.fadd(total, value)
    return total


def _times_add(b: LoopBuilder, value: Value, factor: float, to: Value) -> Value:
    """value * factor + to."""
    if factor == 1.0:
        return b.b.fadd(value, to)
    if factor == -1.0:
        return b.b.fsub(to, value)
    return b.fma(value, b.splat(factor), to)

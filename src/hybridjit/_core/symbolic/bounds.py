"""Bounds of expressions, and answers that follow from them without a guard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .expressions import Monomial, Number, Recorder, Size, bounds_of, exact, sized, value_at_hints


def tight_bounds(size: Size) -> tuple[Number, Number]:
    """Bounds of a polynomial, sharper where terms are multiples of rounded quotients.

    Such a term is the dividend less a remainder: ``2 * (x // 2) <= x``, and
    ``2 * (x // 4) <= x // 2``.
    """
    low: Number = 0
    high: Number = 0
    left: Any = 0
    is_same = True
    for monomial, factor in size.terms.items():
        made = _multiple(size.scope, monomial, factor)
        if made is None:
            value = value_at_hints(size.scope, monomial) * factor
            left = left + sized(size.scope, {monomial: factor}, value)
            continue
        is_same = False
        left = left + made[0]
        low, high = low + made[1][0], high + made[1][1]
    if is_same:
        return size.bounds()
    ends = tight_bounds(left) if isinstance(left, Size) else (left, left)
    return ends[0] + low, ends[1] + high


def _multiple(
    scope: Recorder, monomial: Monomial, factor: Number
) -> tuple[Any, tuple[Number, Number]] | None:
    """The term without its last rounding, and the bounds of the difference.

    The term is a multiple of a rounded quotient; None for others.
    """
    atom = scope.atoms[monomial[0]] if len(monomial) == 1 else None
    if atom is None or atom.kind not in ("//", "ceildiv"):
        return None
    dividend, divisor = atom.args
    if not isinstance(factor, int) or not isinstance(divisor, int) or divisor < 2:
        return None
    inner: Any
    if factor % divisor == 0:
        times, parts, inner = factor // divisor, divisor, dividend
    elif abs(factor) > 1 and divisor % abs(factor) == 0:
        parts = abs(factor)
        times, by = factor // parts, divisor // parts
        inner = dividend // by if atom.kind == "//" else -(-dividend // by)
    else:
        return None
    most = times * (parts - 1) * (-1 if atom.kind == "//" else 1)
    return inner * times, (min(most, 0), max(most, 0))


def range_of(value: Any) -> tuple[Number, Number]:
    """A lower and an upper bound for all sizes; no guard is recorded."""
    return tight_bounds(value) if isinstance(value, Size) else (value, value)


def is_surely_equal(one: Any, other: Any) -> bool:
    """Whether ``one == other`` for all sizes; no guard is recorded."""
    if not isinstance(one, Size) and not isinstance(other, Size):
        return bool(one == other)
    return range_of(one - other) == (0, 0)


def is_one(size: Any) -> bool:
    """Whether a size is 1; a guard is recorded for a symbol alone.

    A product, quotient or sum of sizes counts as larger, unless it is 1 for all sizes: code that
    asks must be right for any length. Maps of one column, deep in a network of images, then need no
    separate compilation.
    """
    if not isinstance(size, Size) or size.is_symbol:
        return bool(size == 1)
    return range_of(size) == (1, 1)


def exact_quotient(dividend: Any, divisor: Any) -> Any:
    """The quotient if a positive ``divisor`` divides for all sizes, else None; no guard."""
    dividend, divisor = _settled(dividend), _settled(divisor)
    if isinstance(divisor, Size):
        return exact(dividend, divisor)
    terms = dividend.terms.values() if isinstance(dividend, Size) else [dividend]
    return None if any(factor % divisor for factor in terms) else dividend // divisor


def _settled(value: Any) -> Any:
    """The number that guards restrict a size to; otherwise the value itself."""
    low, high = range_of(value)
    return low if isinstance(value, Size) and low == high else value


def is_surely_less(one: Any, other: Any) -> bool:
    """Whether ``one < other`` for all sizes; no guard is recorded."""
    return range_of(one - other)[1] < 0


def are_same(one: Any, other: Any) -> bool:
    """Whether two sizes are equal as polynomials, for all values of the symbols; no guard."""
    if isinstance(one, Size) and isinstance(other, Size):
        return one.key == other.key
    return not isinstance(one, Size) and not isinstance(other, Size) and bool(one == other)


def largest(values: Iterable[Any]) -> Any:
    """The largest of numbers and sizes, 0 for none, without a comparison and so without a guard."""
    numbers: list[Number] = []
    sizes: dict[tuple[object, ...], Size] = {}
    for value in values:
        if isinstance(value, Size):
            sizes[value.key] = value
        else:
            numbers.append(value)
    least = max(numbers, default=0)
    left: list[Size] = []
    for size in sizes.values():
        if size.bounds()[1] > least and not any(_is_above(other, size) for other in left):
            left = [*(other for other in left if not _is_above(size, other)), size]
    if not left:
        return least
    if len(left) == 1 and left[0].bounds()[0] >= least:
        return left[0]
    ends = [size.bounds() for size in left]
    low, high = max(least, *(e[0] for e in ends)), max(e[1] for e in ends)
    hint = max(least, *(size.hint for size in left))
    return left[0].scope.operation("max", (least, *left), hint, low, high)


def _is_above(one: Size, other: Size) -> bool:
    """Whether ``one >= other`` for all sizes."""
    return bounds_of(one - other)[0] >= 0


def decided_by(bounds: tuple[Number, Number], test: str) -> bool | None:
    """Whether ``x test 0`` follows from the bounds of x; None if they do not decide."""
    low, high = bounds
    if test in ("==", "!="):
        if low > 0 or high < 0:
            return test == "!="
        return test == "==" if low == high == 0 else None
    if test == "<":
        return True if high < 0 else False if low >= 0 else None
    if test == "<=":
        return True if high <= 0 else False if low > 0 else None
    if test == ">":
        return True if low > 0 else False if high <= 0 else None
    return True if low >= 0 else False if high < 0 else None

"""Symbolic integers agree with integers, and every answer that they give is a guard."""

from __future__ import annotations

import math
import operator
import random

import numpy as np
import pytest

from hybridjit._core.symbolic import (
    INFINITE,
    Scope,
    Size,
    are_same,
    count_of,
    exact_quotient,
    guard_function,
    hint_of,
    indices,
    is_one,
    is_surely_equal,
    is_surely_less,
    largest,
    range_of,
    symbols_of,
    value_of,
    values_function,
)
from hybridjit.ops.rules import broadcast_shapes

OPERATIONS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.truediv,
    lambda a, b: -(-a // b),
    lambda a, b: largest([a, b]),
    max,
    min,
]
TESTS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def draw(random_: random.Random, leaves: list, depth: int):
    """A function of the leaves' values, which raises ZeroDivisionError where an integer would."""
    if depth == 0 or random_.random() < 0.2:
        if random_.random() < 0.3:
            constant = random_.choice([0, 1, 2, 3, 7, 16, 64])
            return lambda values: constant
        position = random_.randrange(len(leaves))
        return lambda values: values[position]
    operation = random_.choice(OPERATIONS)
    left, right = draw(random_, leaves, depth - 1), draw(random_, leaves, depth - 1)
    return lambda values: operation(left(values), right(values))


def attempt(function, values):
    try:
        return function(values)
    except ZeroDivisionError:
        return None


@pytest.mark.parametrize("seed", range(300))
def test_expressions_have_the_values_of_integers_wherever_the_guards_hold(seed):
    random_ = random.Random(seed)
    hints = [random_.randrange(1, 40) for _ in range(2)]
    functions = [draw(random_, hints, 4) for _ in range(4)]
    scope = Scope()
    symbols = [scope.symbol(name, hint) for name, hint in zip("NT", hints)]
    found = [attempt(function, symbols) for function in functions]
    compared = [
        (test, a, b, test(found[a], found[b]))
        for test in TESTS
        for a in range(4)
        for b in range(4)
        if found[a] is not None and found[b] is not None
    ]
    holds = guard_function(scope)
    assert holds(*hints)
    made = [x for x in found if x is not None]
    evaluate = values_function(scope, ("N", "T"), [made])
    served = 0
    for _ in range(60):
        values = [random_.randrange(1, 60) for _ in range(2)]
        if not holds(*values):
            continue
        served += 1
        expected = [attempt(function, values) for function in functions]
        wanted = [x for x, y in zip(expected, found) if y is not None]
        assert evaluate(*values)[0] == pytest.approx(wanted)
        by_name = dict(zip("NT", values))
        assert [value_of(x, by_name) if isinstance(x, Size) else x for x in made] == (
            pytest.approx(wanted)
        )
        for test, a, b, answer in compared:
            if isinstance(expected[a], int) and isinstance(expected[b], int):
                assert test(expected[a], expected[b]) == answer
    assert served or scope.guards


def test_a_comparison_that_bounds_decide_leaves_no_guard():
    scope = Scope()
    n = scope.symbol("N", 5)
    assert n > 0 and n >= 1 and n * 4 != 0 and not n < 1 and n + 1 > n
    assert not scope.guards


def test_comparisons_record_guards_that_imply_later_ones():
    scope = Scope()
    n = scope.symbol("N", 20)
    assert n >= 16
    assert [str(guard) for guard in scope.guards.values()] == ["N >= 16"]
    assert n > 15 and n != 3
    assert len(scope.guards) == 1


def test_an_integer_is_the_hint_and_a_guard():
    scope = Scope()
    n = scope.symbol("N", 3)
    assert list(range(n)) == [0, 1, 2]
    assert [str(guard) for guard in scope.guards.values()] == ["N == 3"]
    assert np.zeros(n).shape == (3,)
    assert not guard_function(scope)(4) and guard_function(scope)(3)


def test_division_by_a_symbol_is_exact_where_terms_are_multiples():
    scope = Scope()
    n, t = scope.symbol("N", 3), scope.symbol("T", 7)
    assert str(n * t * 64 // t) == "64*N" and n * t % t == 0
    assert (n * 64 + 16) // 16 == n * 4 + 1
    assert not scope.guards


def test_a_closed_scope_records_nothing():
    scope = Scope()
    n = scope.symbol("N", 3)
    scope.close()
    assert n != 3 and n == n
    assert not scope.guards


@pytest.mark.parametrize("size", [1, 2, 5, 9])
@pytest.mark.parametrize("part", [(None, None, None), (1, None, 2), (-3, -1, 1), (None, None, -1),
                                  (7, 2, -2), (2, 100, 3), (-100, 4, 1), (4, 4, 1)])  # fmt: skip
def test_slices_are_those_of_python(size, part):
    scope = Scope()
    start, stop, step = indices(slice(*part), scope.symbol("N", size))
    count = count_of(start, stop, step)
    expected = range(*slice(*part).indices(size))
    assert hint_of(count) == len(expected)
    if expected:
        assert (hint_of(start), step) == (expected.start, expected.step)


def test_largest_compares_nothing():
    scope = Scope()
    n, t = scope.symbol("N", 3), scope.symbol("T", 7)
    most = largest([n * 8, t, 5, n * 4])
    assert hint_of(most) == 24 and not scope.guards
    assert value_of(most, {"N": 1, "T": 90}) == 90
    assert largest([]) == 0 and largest([2, 4]) == 4


def test_equality_for_all_sizes_leaves_no_guard():
    scope = Scope()
    n = scope.symbol("n", 8)
    assert is_surely_equal(2 * n - n, n) and is_surely_equal(3, 3)
    assert not is_surely_equal(n, 8) and not is_surely_equal(n, n + 1)
    assert not scope.guards


def test_largest_of_sizes_that_are_equal_is_one_of_them():
    scope = Scope()
    n = scope.symbol("n", 1)
    assert n == 1  # a guard: both are 64 from here on
    rooms = [64 * -(-(60 * n) // 64), 64 * -(-(48 * n) // 64)]
    assert value_of(largest(rooms), {"n": 1}) == 64


def test_numpys_numbers_mix_with_sizes():
    scope = Scope()
    n = scope.symbol("N", 3)
    assert str(np.int64(4) * n) == "4*N" and str(n + np.int64(1)) == "N+1"
    assert math.ceil(n / 2).hint == 2


def test_bounds_of_rounding_need_no_guard():
    scope = Scope()
    h = scope.symbol("h", 37)
    assert str((h // 2) // 3) == str(h // 6) and str((h // 2 + 1) // 2) == str((h + 2) // 4)
    assert 2 * (h // 2) <= h < 2 * (h // 2) + 2
    assert 2 * (h // 4) <= h // 2 <= 2 * (h // 4) + 1
    assert range_of(2 * -(-h // 4) - -(-h // 2)) == (0, 1)
    assert is_surely_less(h // 3 * 3, h + 1) and not is_surely_less(h, h // 2 * 2 + 1)
    assert not scope.guards


def test_a_product_of_sums_is_divided_by_each():
    scope = Scope()
    h, w = scope.symbol("h", 5), scope.symbol("w", 7)
    area = (h + 4) * (w + 3)
    assert str(area // (w + 3)) == str(h + 4) and str(area // (h + 4)) == str(w + 3)
    assert area % (h + 4) == 0
    assert not scope.guards


def test_branches_have_separate_guards_and_hints():
    scope = Scope()
    h = scope.symbol("h", 5)
    assert h > 3
    half = h // 2
    with scope.branch([5]) as few:
        assert h < 10 and half == 2
    with scope.branch([64]) as many:
        assert not h < 10 and half.hint == 32 and hint_of(half) == 2
        assert (h // 4).hint == 16 and hint_of(h // 4) == 1
    scope.close()
    assert [str(guard) for guard in scope.guards.values()] == ["h > 3"]
    assert str(few) == "h < 10; (h)//2 == 2" and str(many) == "h >= 10"
    assert h.bounds() == (4, INFINITE) and half.hint == 2
    assert few.recorded()(4) and not few.recorded()(6)
    assert many.recorded()(10) and not many.recorded()(9)


def test_a_branch_that_fails_leaves_the_scope_as_it_was():
    scope = Scope()
    h = scope.symbol("h", 5)
    scope.close()
    with pytest.raises(KeyError), scope.branch([8]):
        assert h > 7
        raise KeyError
    assert scope.is_closed and not scope.guards and h.hint == 5
    assert h.bounds() == (1, INFINITE)


def test_sizes_are_the_same_by_their_form_without_a_guard():
    scope = Scope()
    h, w = scope.symbol("h", 5), scope.symbol("w", 5)
    assert are_same(h, h * 1) and are_same(3, 3)
    assert not are_same(h, w) and not are_same(h, 5) and not are_same(5, h)
    assert not scope.guards


def test_symbols_of_an_expression_are_found_within_quotients():
    scope = Scope()
    h, w, c = (scope.symbol(name, 9) for name in "hwc")
    assert symbols_of((h * 2 + 1) // 4 * w) == {"h", "w"} and symbols_of(c + 1) == {"c"}


def test_only_a_symbol_alone_is_compared_with_one():
    scope = Scope()
    n = scope.symbol("n", 7)
    assert not is_one((n - 1) // 8 + 1) and not scope.guards
    assert not is_one(n) and [str(guard) for guard in scope.guards.values()] == ["n != 1"]
    assert is_one(1) and not is_one(2)


def test_quotients_are_exact_for_all_sizes_or_absent():
    scope = Scope()
    n, m = scope.symbol("n", 6), scope.symbol("m", 2)
    assert str(exact_quotient(4 * n * m, 2 * m)) == "2*n" and str(exact_quotient(4 * n, 2)) == "2*n"
    assert exact_quotient(n, m) is None and exact_quotient(n, 3) is None
    assert exact_quotient(12, 4) == 3 and exact_quotient(12, 5) is None
    assert exact_quotient(12, n) is None and not scope.guards


def test_broadcasting_over_an_axis_of_one_element_adds_no_guard():
    scope = Scope()
    n = scope.symbol("n", 7)
    for pair in [((1, 3, n), (1, 3, 1)), ((1, 3, 1), (1, 3, n)), ((n,), (n,))]:
        assert broadcast_shapes(*pair)[-1] is not None
    assert not scope.guards

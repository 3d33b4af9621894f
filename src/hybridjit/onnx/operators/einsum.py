"""ONNX's Einsum: sums of products, as diagonals, sums, batched products and a transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...errors import MXNetError, ShapeError
from ..importer import Importer, Value
from ..use import Use
from .table import translates

Lettered = tuple[Value, str]  # value, and a letter for each of its axes
_DOTS = "..."
_FIRST = 0x2460  # letters for the axes of dots, last axis first


@translates("Einsum")
def einsum(g: Importer, use: Use, *xs: Value) -> Value:
    """Product of all operands in order, summed over letters that the result does not have."""
    terms, result = _read(g, use.text("equation"), xs)
    left = [_diagonal(g, x, term) for x, term in zip(xs, terms, strict=True)]
    left = _without_ones(g, left)
    while len(left) > 1:
        a, b, *rest = left
        kept = result + "".join(term for _, term in rest)
        left = [_product(g, a, b, kept), *rest]
    return _arranged(g, _summed(g, *left[0], result), result)


def _read(g: Importer, equation: str, xs: Sequence[Value]) -> tuple[list[str], str]:
    """Letters of the axes of each operand and of the result."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(xs):
        raise MXNetError(
            f"the equation '{equation}' has {len(terms)} operands, but {len(xs)} are given"
        )
    dots = [_dots(g, x, term) for x, term in zip(xs, terms)]
    if not arrow:
        letters = sorted(set(left) - {",", "."})
        result = _DOTS + "".join(letter for letter in letters if left.count(letter) == 1)
    result = result.replace(_DOTS, max(dots, key=len))
    spelled = [term.replace(_DOTS, axes) for term, axes in zip(terms, dots)]
    if len(set(result)) != len(result) or not set(result) <= set("".join(spelled)):
        raise MXNetError(f"the equation '{equation}': its result has a letter twice, or a new one")
    return spelled, result


def _dots(g: Importer, x: Value, term: str) -> str:
    """Letters for the axes of a term's dots. Raises MXNetError for other ranks."""
    count = g.rank(x) - len(term.replace(_DOTS, ""))
    if count < 0 or (count and _DOTS not in term):
        raise MXNetError(f"the term '{term}' of the equation does not match {x.type}")
    return "".join(chr(_FIRST + i) for i in reversed(range(count)))


def _diagonal(g: Importer, x: Value, term: str) -> Lettered:
    """Diagonals of ``x`` for axes with equal letters, moved to the last axis."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            one = term.index(letter)
            other = term.index(letter, one + 1)
            x = g.op("diag", x, axis1=one, axis2=other, at="diagonal")
            term = term[:one] + term[one + 1 : other] + term[other + 1 :] + letter
    return x, term


def _without_ones(g: Importer, operands: Sequence[Lettered]) -> list[Lettered]:
    """Operands without broadcast axes of size 1. Raises ShapeError for inconsistent sizes."""
    sizes: dict[str, int] = {}
    for x, term in operands:
        for letter, size in zip(term, g.shape(x)):
            before = sizes.setdefault(letter, size)
            if before != size and 1 not in (before, size):
                raise ShapeError(f"one axis has the sizes {before} and {size}")
            sizes[letter] = size if before == 1 else before
    return [_fitted(g, x, term, sizes) for x, term in operands]


def _fitted(g: Importer, x: Value, term: str, sizes: dict[str, int]) -> Lettered:
    kept = [(c, n) for c, n in zip(term, g.shape(x)) if n == sizes[c]]
    if len(kept) == len(term):
        return x, term
    shape = tuple(size for _, size in kept)
    made = g.op("Reshape", x, shape=shape or (1,), at="broadcast")
    return (made if shape else g.scalar(made)), "".join(letter for letter, _ in kept)


def _summed(g: Importer, x: Value, term: str, kept: str) -> Lettered:
    """Sum of ``x`` over axes whose letters are not kept, and the remaining letters."""
    axes = tuple(i for i, letter in enumerate(term) if letter not in kept)
    left = "".join(letter for letter in term if letter in kept)
    if not axes:
        return x, term
    made = g.op("sum", x, axis=axes, at="sum")
    return (made if left else g.scalar(made)), left


def _arranged(g: Importer, lettered: Lettered, result: str) -> Value:
    x, term = lettered
    if term == result:
        return g.op("identity", x)
    return g.op("transpose", x, axes=tuple(term.index(letter) for letter in result))


def _product(g: Importer, one: Lettered, other: Lettered, kept: str) -> Lettered:
    """Batched product: kept letters of both, letters of one operand, and summed letters."""
    a, first = _summed(g, *one, other[1] + kept)
    b, second = _summed(g, *other, one[1] + kept)
    both = "".join(c for c in first if c in second and c in kept)
    inner = "".join(c for c in first if c in second and c not in kept)
    rows = "".join(c for c in first if c not in second)
    columns = "".join(c for c in second if c not in first)
    sizes = dict(zip(first, g.shape(a))) | dict(zip(second, g.shape(b)))
    count = {name: math.prod(sizes[c] for c in name) for name in {both, inner, rows, columns}}
    left = g.op(
        "Reshape",
        _arranged(g, (a, first), both + rows + inner),
        shape=(count[both], count[rows], count[inner]),
    )
    right = g.op(
        "Reshape",
        _arranged(g, (b, second), both + inner + columns),
        shape=(count[both], count[inner], count[columns]),
    )
    made = g.op("batch_dot", left, right, at="product")
    whole = both + rows + columns
    made = g.op("Reshape", made, shape=tuple(sizes[c] for c in whole) or (1,), at="axes")
    return (made if whole else g.scalar(made)), whole

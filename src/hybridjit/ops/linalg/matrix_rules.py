"""Gradient rules of the factorizations, solutions and determinants of :mod:`.matrices`.

They use these operators, on batches of matrices in the last two axes. ``d`` is an output gradient;
the gradient of a triangle is a triangle, that of a symmetric matrix is symmetric.
"""

from __future__ import annotations

from ..algebra import add, as_shape, div, mul, negated, scaled, sub, zeros_like
from ..attrs import Attrs
from ..building import Builder, Many, Reached, X
from ..gradient import given
from ..registry import lookup
from ..signatures import Gradient
from ..tensor.primitives import transpose
from .triangles import TRIANGLE_OF


def _transposed(g: Builder[X], x: X) -> X:
    """Transpose of every matrix."""
    ndim = g.type(x).ndim
    return transpose(g, x, (*range(ndim - 2), ndim - 1, ndim - 2), at="turned")


def _product(g: Builder[X], a: X, b: X, *, turn_a: bool = False, turn_b: bool = False) -> X:
    return g.op(lookup("_linalg_gemm2"), a, b, at="product", transpose_a=turn_a, transpose_b=turn_b)


def _triangle(g: Builder[X], x: X, lower: bool, offset: int = 0) -> X:
    """One triangle up to a diagonal, zeros elsewhere."""
    return g.op(TRIANGLE_OF, x, at="triangle", lower=lower, offset=offset)


def _mirrored(g: Builder[X], x: X) -> X:
    """Symmetric matrix from the lower triangle."""
    return add(g, _triangle(g, x, True), _transposed(g, _triangle(g, x, True, -1)))


def _with_turned(g: Builder[X], x: X) -> X:
    return add(g, x, _transposed(g, x))


def _solved(g: Builder[X], triangle: X, x: X, **sides: bool) -> X:
    return g.op(lookup("_linalg_trsm"), triangle, x, at="solved", **sides)


def _grad_potrf(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, lower: bool) -> X:
    """L^-T mirrored(L^T dL) L^-1 / 2: symmetric, although the operator reads one triangle."""
    factor, d = (x if lower else _transposed(g, x) for x in (outs[0], douts[0]))
    inner = _mirrored(g, _product(g, factor, d, turn_a=True))
    left = _solved(g, factor, inner, transpose=True)
    return scaled(g, _solved(g, factor, left, rightside=True), 0.5)


def _grad_potri(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, lower: bool) -> X:
    """The read triangle of -B (dB + dB^T) L^-T, for B = (L L^T)^-1."""
    factor = ins[0] if lower else _transposed(g, ins[0])
    both = _product(g, outs[0], _with_turned(g, douts[0]))
    found = negated(g, _solved(g, factor, both, transpose=True, rightside=True))
    return _triangle(g, found if lower else _transposed(g, found), lower)


def _by_triangle(
    g: Builder[X], inner: X, outer: X, transpose: bool, rightside: bool, lower: bool
) -> X:
    """Gradient with respect to A from the output gradient ``outer`` of op(A) ``inner``."""
    sides = (inner, outer) if rightside else (outer, inner)
    found = _product(g, *sides, turn_a=rightside, turn_b=not rightside)
    return _triangle(g, _transposed(g, found) if transpose else found, lower)


def _grad_trmm(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    transpose: bool,
    rightside: bool,
    lower: bool,
    alpha: float,
) -> tuple[Reached[X], ...]:
    (a, b), (d,) = ins, douts

    def by_other() -> X:
        sides: Attrs = {"transpose": not transpose, "rightside": rightside}
        return g.op(lookup("_linalg_trmm"), a, d, lower=lower, alpha=alpha, **sides)

    return lambda: scaled(g, _by_triangle(g, b, d, transpose, rightside, lower), alpha), by_other


def _grad_trsm(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    transpose: bool,
    rightside: bool,
    lower: bool,
    alpha: float,
) -> tuple[Reached[X], ...]:
    """For X = alpha op(A)^-1 B: S = op(A)^-T dX; alpha S for B, -S X^T for op(A)."""
    solved = _solved(g, ins[0], douts[0], transpose=not transpose, rightside=rightside, lower=lower)
    return (
        lambda: negated(g, _by_triangle(g, outs[0], solved, transpose, rightside, lower)),
        lambda: scaled(g, solved, alpha),
    )


def _grad_syrk(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, transpose: bool, alpha: float
) -> X:
    both, (a,) = _with_turned(g, douts[0]), ins
    return scaled(g, _product(g, a, both) if transpose else _product(g, both, a), alpha)


def _grad_inverse(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]) -> X:
    """-Y^T dY Y^T"""
    left = _product(g, outs[0], douts[0], turn_a=True)
    return negated(g, _product(g, left, outs[0], turn_b=True))


def _grad_gelqf(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]) -> X:
    """L^-T (dQ + mirrored(L^T dL - dQ Q^T) Q)"""
    rows, factor = outs
    d_rows, d_factor = (given(g, d, y) for d, y in zip(douts, outs))
    own = _product(g, factor, d_factor, turn_a=True)
    inner = _mirrored(g, sub(g, own, _product(g, d_rows, rows, turn_b=True)))
    return _solved(g, factor, add(g, d_rows, _product(g, inner, rows)), transpose=True)


def _grad_syevd(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]) -> X:
    """U^T (X + diag(dl)) U with X symmetric: dU U^T over the eigenvalues' differences."""
    vectors, values = outs
    lead = g.type(values).dims
    d_vectors, d_values = (given(g, d, y) for d, y in zip(douts, outs))
    turns = _product(g, d_vectors, vectors, turn_b=True)
    gaps = sub(g, as_shape(g, values, (*lead, 1)), as_shape(g, values, (*lead[:-1], 1, lead[-1])))
    shares = g.op(lookup("where"), gaps, div(g, turns, gaps), zeros_like(g, turns), at="shares")
    own = g.op(lookup("_linalg_makediag"), d_values, at="own")
    inner = add(g, scaled(g, _with_turned(g, shares), 0.5), own)
    return _product(g, _product(g, vectors, inner, turn_a=True), vectors)


def _per_number(g: Builder[X], numbers: X, matrices: X) -> X:
    """Product of each matrix with one value."""
    shape = (*g.type(matrices).dims[:-2], 1, 1)
    return mul(g, as_shape(g, numbers, shape), matrices)


def _turned_inverse(g: Builder[X], x: X) -> X:
    return _transposed(g, g.op(lookup("_inverse_or_zeros"), x, at="inverse"))


def _grad_det(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]) -> X:
    """d det(A) A^-T; 0 where A is singular."""
    return _per_number(g, mul(g, douts[0], outs[0]), _turned_inverse(g, ins[0]))


def _grad_slogdet(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]) -> X | None:
    """d A^-T for the logarithm; the sign has no gradient."""
    if douts[1] is None:
        return None
    return _per_number(g, douts[1], _turned_inverse(g, ins[0]))


def _grad_sumlogdiag(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]) -> X:
    """d divided by the diagonal, on the diagonal."""
    diagonal = g.op(lookup("_linalg_extractdiag"), ins[0], at="diagonal")
    numbers = as_shape(g, douts[0], (*g.type(diagonal).dims[:-1], 1))
    return g.op(lookup("_linalg_makediag"), div(g, numbers, diagonal))


# By the operator's name without _linalg_
RULES: dict[str, Gradient] = {
    "potrf": _grad_potrf,
    "potri": _grad_potri,
    "trmm": _grad_trmm,
    "trsm": _grad_trsm,
    "syrk": _grad_syrk,
    "inverse": _grad_inverse,
    "gelqf": _grad_gelqf,
    "syevd": _grad_syevd,
    "det": _grad_det,
    "slogdet": _grad_slogdet,
    "sumlogdiag": _grad_sumlogdiag,
}

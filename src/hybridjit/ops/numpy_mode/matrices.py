"""Linear algebra of NumPy mode on batches of matrices in the last two axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.types import FLOAT64, Shape, TensorType, product, shape_text
from ...errors import AttributeValueError, MXNetError, ShapeError
from ..algebra import add, as_shape, div, mul, negated, scaled, sub
from ..building import Builder, Many, Reached, X
from ..elementwise.element_type import cast
from ..gradient import given, none_at_all
from ..linalg.matrices import reported, square
from ..registry import lookup, register
from ..rules import forward, normalized_axis, same_dtype
from ..signatures import Arrays
from ..tensor.primitives import broadcast, reshape, transpose
from .forms import ON_HOST


def _cholesky(g: Builder[X], A: X) -> X:  # noqa: N803 (MXNet's names)
    """cholesky(a)  =>  potrf(a)"""
    return g.op(lookup("_linalg_potrf"), A)


register(
    "_npi_cholesky",
    "A",
    expand=_cholesky,
    traits=ON_HOST,
    doc="Lower triangular L with L L^T = A.",
)


def _transposed(g: Builder[X], x: X, at: str = "turned") -> X:
    """Transpose of every matrix."""
    ndim = g.type(x).ndim
    return transpose(g, x, (*range(ndim - 2), ndim - 1, ndim - 2), at=at)


def _product(g: Builder[X], a: X, b: X, at: str = "product") -> X:
    return g.op(lookup("_linalg_gemm2"), a, b, at=at)


# Linear systems


def _columns(a: TensorType, b: TensorType) -> Shape:
    """Right-hand sides as matrices: with one axis fewer than A they are vectors."""
    square("solve", a)
    same_dtype(a, b)
    is_vector = b.ndim == a.ndim - 1
    full = (*b.dims, 1) if is_vector else b.dims
    if len(full) != a.ndim or full[:-2] != a.dims[:-2] or full[-2] != a.dims[-1]:
        raise ShapeError(
            f"solve needs as many rows as A {shape_text(a.dims)} has, got {shape_text(b.dims)}"
        )
    return full


def _solve_rule(A: TensorType, B: TensorType) -> TensorType:  # noqa: N803 (MXNet's names)
    _columns(A, B)
    return B


def _solve(A: np.ndarray, B: np.ndarray) -> np.ndarray:  # noqa: N803
    full = _columns(TensorType(A.shape, A.dtype), TensorType(B.shape, B.dtype))
    return np.linalg.solve(A, B.reshape(full)).reshape(B.shape)


def _grad_solve(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]
) -> tuple[Reached[X], ...]:
    """dB = A^-T d, dA = -dB X^T"""
    a, b = ins
    full = _columns(g.type(a), g.type(b))
    d, x = (reshape(g, side, full, at=at) for side, at in ((douts[0], "d"), (outs[0], "x")))
    by_b = g.op(lookup("_npi_solve"), _transposed(g, a), d, at="db")

    def by_a() -> X:
        return negated(g, _product(g, by_b, _transposed(g, x, at="x_turned")))

    return by_a, reshape(g, by_b, g.type(b).dims)


register(
    "_npi_solve",
    "A B",
    infer=forward(_solve_rule),
    ref=reported(_solve),
    grad=_grad_solve,
    doc="Solution X of A X = B.",
)


def _inverse_sides(a: TensorType, ind: int) -> tuple[Shape, Shape]:
    if not 0 < ind <= a.ndim:
        raise AttributeValueError(f"tensorinv's ind must be between 1 and {a.ndim}, got {ind}")
    rows, columns = a.dims[:ind], a.dims[ind:]
    if product(rows) != product(columns):
        raise ShapeError(
            f"tensorinv needs axes with equal products of sizes, got {shape_text(rows)} and "
            f"{shape_text(columns)}"
        )
    return rows, columns


def _tensorinv_rule(a: TensorType, *, ind: int) -> TensorType:
    rows, columns = _inverse_sides(a, ind)
    square("tensorinv", a.with_shape((product(rows),) * 2))
    return a.with_shape((*columns, *rows))


def _tensorinv(g: Builder[X], a: X, *, ind: int) -> X:
    """tensorinv(a)  =>  inverse of a as a matrix"""
    rows, columns = _inverse_sides(g.type(a), ind)
    size = product(rows)
    inverse = g.op(
        lookup("_linalg_inverse"), reshape(g, a, (size, size), at="matrix"), at="inverse"
    )
    return reshape(g, inverse, (*columns, *rows))


register(
    "_npi_tensorinv",
    "a",
    "ind:int=2",
    infer=forward(_tensorinv_rule),
    expand=_tensorinv,
    traits=ON_HOST,
    doc="Inverse of a tensor as a matrix: first ind axes by the remaining ones.",
)


def _solved_axes(ndim: int, a_axes: Shape) -> Shape:
    last = [normalized_axis(axis, ndim, "a_axes") for axis in a_axes]
    return (*(i for i in range(ndim) if i not in last), *last)


def _unknowns(a: TensorType, b: TensorType, a_axes: Shape) -> Shape:
    """The shape of the solution, by official NumPy's rule: the axes of a from ndim(b) - ndim(a) on.

    Raises ShapeError unless a, as a matrix, is square and has as many rows as b has elements.
    """
    dims = tuple(a.dims[i] for i in _solved_axes(a.ndim, a_axes))
    rest = dims[b.ndim - a.ndim :]
    if product(rest) != b.size or a.size != b.size**2:
        raise ShapeError(
            f"tensorsolve of {shape_text(a.dims)} and {shape_text(b.dims)}: the last axes of a, "
            f"{shape_text(rest)}, have as many elements as b, and a has the square of that"
        )
    return rest


def _tensorsolve_rule(a: TensorType, b: TensorType, *, a_axes: Shape) -> TensorType:
    same_dtype(a, b)
    rest = _unknowns(a, b, a_axes)
    square("tensorsolve", a.with_shape((b.size, b.size)))
    return b.with_shape(rest)


def _tensorsolve(g: Builder[X], a: X, b: X, *, a_axes: Shape) -> X:
    """tensorsolve(a, b)  =>  solve(a as a matrix, b as a column)"""
    rest, size = _unknowns(g.type(a), g.type(b), a_axes), g.type(b).size
    turned = transpose(g, a, _solved_axes(g.type(a).ndim, a_axes), at="turned")
    matrix = reshape(g, turned, (size, size), at="matrix")
    column = reshape(g, b, (size, 1), at="column")
    return reshape(g, g.op(lookup("_npi_solve"), matrix, column, at="solution"), rest)


register(
    "_npi_tensorsolve",
    "a b",
    "a_axes:shape~=()",
    infer=forward(_tensorsolve_rule),
    expand=_tensorsolve,
    traits=ON_HOST,
    doc="Solution x of tensordot(a, x) = b.",
)


# Decompositions


def _svd_rule(A: TensorType) -> tuple[TensorType, ...]:  # noqa: N803
    _floats("svd", A)
    rows, columns = A.dims[-2:]
    if rows > columns:
        raise ShapeError(f"svd needs at least as many columns as rows, got {shape_text(A.dims)}")
    lead = A.dims[:-2]
    return A.with_shape((*lead, rows, rows)), A.with_shape((*lead, rows)), A


def _floats(what: str, t: TensorType) -> None:
    """Raise ShapeError or DTypeError unless ``t`` is a batch of matrices of float32 or float64."""
    if t.ndim < 2:
        raise ShapeError(f"{what} takes matrices, got {t}")
    square(what, t.with_shape((*t.dims[:-2], 1, 1)))


def _svd(A: np.ndarray) -> Arrays:  # noqa: N803
    """Left vectors as columns, singular values, right vectors as rows.

    The element of largest magnitude of each left vector is positive.
    """
    u, s, v = np.linalg.svd(A, full_matrices=False)
    if A.size:
        largest = np.take_along_axis(u, np.abs(u).argmax(-2, keepdims=True), -2)
        sign = np.where(largest < 0, -1, 1).astype(A.dtype)
        u, v = u * sign, v * np.swapaxes(sign, -1, -2)
    return u, s, v


def _eye(g: Builder[X], t: TensorType, size: int) -> X:
    return g.op(lookup("_npi_eye"), at="eye", N=size, dtype=t.dtype)


def _skew(g: Builder[X], x: X) -> X:
    return sub(g, x, _transposed(g, x))


def _grad_svd(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X | None]) -> X:
    """U ((skew(U^T dU) S + S skew(V dV^T)) / E + dS) V + U S^-1 dV (1 - V^T V)

    E is s_j^2 - s_i^2 off the diagonal and 1 on it.
    """
    u, s, v = outs
    du, ds, dv = (given(g, d, y) for d, y in zip(douts, outs))
    dims = g.type(s).dims
    row, column = as_shape(g, s, (*dims[:-1], 1, dims[-1])), as_shape(g, s, (*dims, 1))
    eye = _eye(g, g.type(s), dims[-1])
    gaps = add(g, sub(g, mul(g, row, row), mul(g, column, column)), eye)
    left = div(g, _skew(g, _product(g, _transposed(g, u), du)), gaps)
    right = div(g, _skew(g, _product(g, v, _transposed(g, dv))), gaps)
    inner = add(g, mul(g, left, row), mul(g, right, column))
    inner = add(g, inner, mul(g, eye, as_shape(g, ds, (*dims[:-1], 1, dims[-1]))))
    found = _product(g, u, _product(g, inner, v))
    beyond = sub(g, dv, _product(g, _product(g, dv, _transposed(g, v)), v))
    return add(g, found, _product(g, u, div(g, beyond, column)))


register(
    "_npi_svd",
    "A",
    infer=forward(_svd_rule),
    ref=reported(_svd),
    grad=_grad_svd,
    outputs=("output0", "output1", "output2"),
    doc="Left singular vectors as columns, singular values, right vectors as rows.",
)


def _pinv_rule(A: TensorType, *rcond: TensorType, **attrs: Any) -> TensorType:  # noqa: N803
    _floats("pinv", A)
    return A.with_shape((*A.dims[:-2], A.dims[-1], A.dims[-2]))


def _pseudo_inverse(g: Builder[X], a: X, rcond: X | float) -> X:
    t = g.type(a)
    is_tall = t.dims[-2] > t.dims[-1]
    wide = _transposed(g, a, at="wide") if is_tall else a
    u, s, v = g.outputs(lookup("_npi_svd"), wide, at="svd")
    axis = g.type(s).ndim - 1
    largest = g.op(lookup("max"), s, at="largest", axis=(axis,), keepdims=True)
    if isinstance(rcond, float):
        limit = scaled(g, largest, rcond)
    else:
        limit = mul(g, largest, as_shape(g, rcond, (*g.type(rcond).dims, 1)))
    limit = broadcast(g, limit, g.type(s).dims, at="limit")
    above = g.op(lookup("broadcast_greater"), s, limit, at="above")
    ones = g.op(lookup("ones_like"), s, at="ones")
    safe = g.op(lookup("where"), above, s, ones, at="safe")
    inverse = div(g, above, safe)
    row = as_shape(g, inverse, (*g.type(s).dims[:-1], 1, g.type(s).dims[-1]))
    scaled_v = mul(g, _transposed(g, v), row)
    found = _product(g, scaled_v, _transposed(g, u), at="pinv")
    return _transposed(g, found) if is_tall else found


def _pinv(g: Builder[X], A: X, rcond: X, *, hermitian: bool) -> X:  # noqa: N803
    """pinv(a)  =>  V^T S^+ U^T"""
    return _pseudo_inverse(g, A, rcond)


def _pinv_scalar(g: Builder[X], A: X, *, rcond: float, hermitian: bool) -> X:  # noqa: N803
    """pinv(a)  =>  V^T S^+ U^T"""
    return _pseudo_inverse(g, A, rcond)


register(
    "_npi_pinv",
    "A rcond",
    "hermitian:bool=False",
    infer=forward(_pinv_rule),
    expand=_pinv,
    traits=ON_HOST,
    doc="Pseudo-inverse; singular values up to rcond times the largest count as 0.",
)
register(
    "_npi_pinv_scalar_rcond",
    "A",
    "rcond:double=1e-15 hermitian:bool=False",
    infer=forward(_pinv_rule),
    expand=_pinv_scalar,
    traits=ON_HOST,
    doc="Pseudo-inverse; singular values up to rcond times the largest count as 0.",
)


def _eigen_rule(A: TensorType, **attrs: Any) -> tuple[TensorType, ...]:  # noqa: N803
    assert A.dtype is not None
    A = A.with_dtype(_in_float(A.dtype))
    square("the operator", A)
    return A.with_shape(A.dims[:-1]), A


def _in_float(dtype: np.dtype) -> np.dtype:
    """float64 for integers, else the dtype itself."""
    return dtype if dtype.kind == "f" else FLOAT64


def _values_rule(A: TensorType, **attrs: Any) -> TensorType:  # noqa: N803
    return _eigen_rule(A)[0]


def _read(g: Builder[X], a: X, uplo: str) -> X:
    """Matrices whose lower triangle holds the triangle that ``uplo`` selects."""
    dtype = g.type(a).dtype
    assert dtype is not None
    a = cast(g, a, _in_float(dtype), at="float")
    return a if uplo == "L" else _transposed(g, a, at="upper")


def _eigh(g: Builder[X], A: X, *, UPLO: str) -> tuple[X, X]:  # noqa: N803
    """eigh(a)  =>  eigenvalues and transposed rows of syevd(a)"""
    rows, values = g.outputs(lookup("_linalg_syevd"), _read(g, A, UPLO), at="syevd")
    return values, _transposed(g, rows, at="vectors")


def _eigvalsh(g: Builder[X], A: X, *, UPLO: str) -> X:  # noqa: N803
    """eigvalsh(a)  =>  eigenvalues of syevd(a)"""
    return g.outputs(lookup("_linalg_syevd"), _read(g, A, UPLO), at="syevd")[1]


register(
    "_npi_eigh",
    "A",
    "UPLO:L|U=L",
    infer=forward(_eigen_rule),
    expand=_eigh,
    outputs=("output0", "output1"),
    traits=ON_HOST,
    doc="Ascending eigenvalues and eigenvectors as columns; reads one triangle.",
)
register(
    "_npi_eigvalsh",
    "A",
    "UPLO:L|U=L",
    infer=forward(_values_rule),
    expand=_eigvalsh,
    traits=ON_HOST,
    doc="Ascending eigenvalues; reads one triangle.",
)


def _real(found: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Real part of eigenvalues. Raises MXNetError if one is complex."""
    if np.iscomplexobj(found) and (found.imag != 0).any():
        raise MXNetError("the eigenvalues are complex, and arrays hold real values only")
    return np.ascontiguousarray(found.real, dtype)


def _eig(A: np.ndarray) -> Arrays:  # noqa: N803
    dtype = _in_float(A.dtype)
    values, vectors = np.linalg.eig(A.astype(dtype))
    return _real(values, dtype), _real(vectors, dtype)


def _eigvals(A: np.ndarray) -> np.ndarray:  # noqa: N803
    dtype = _in_float(A.dtype)
    return _real(np.linalg.eigvals(A.astype(dtype)), dtype)


Rule = Callable[..., Any]


def _eigen(name: str, rule: Rule, ref: Rule, outputs: tuple[str, ...], doc: str) -> None:
    register(
        name,
        "A",
        infer=forward(rule),
        ref=reported(ref),
        grad=none_at_all,
        outputs=outputs,
        doc=doc,
    )


_eigen("_npi_eig", _eigen_rule, _eig, ("output0", "output1"), "Eigenvalues and vectors as columns.")
_eigen("_npi_eigvals", _values_rule, _eigvals, ("output",), "Eigenvalues.")

"""Factors, inverses and determinants of batches of matrices in the last two axes.

Input: (..., rows, columns). Output: factors, solutions, eigenvalues and determinants of the same
dtype, and products with triangular matrices.
"""

from __future__ import annotations

from functools import wraps

import numpy as np

from ..._core.shapes import is_np_shape
from ..._core.types import Shape, TensorType, shape_text
from ...errors import MXNetError, ShapeError
from .. import native
from ..attrs import AttrValue
from ..record import Traits
from ..registry import register
from ..rules import (
    ForwardRule,
    forward,
    of_one_dtype,
)
from ..signatures import Arrays, Reference
from .matrix_rules import RULES
from .products import require_matrices, scaled

# Weight of an element of a matrix in the size from which machine code is used.
_WORTH = 256
# Columns that one vector holds on usual CPUs.
_FEW_COLUMNS = 8
# Rows of a triangle that machine code solves at a time.
_BLOCK = 64
# Rows up to which machine code eliminates faster than LAPACK, whose products work on blocks: 512
# rows take 36 and 110 ms, by LAPACK 4 and 22 (AMD Zen 4).
_ELIMINATED = {"pivots": 96, "inverse": 192}
# Elements up to which reflections of single rows are faster than LAPACK's of blocks.
_REFLECTED = 1 << 16
# Rows that are reflected together, and a multiple of the float64 lanes of every target.
_TOGETHER, _LANES = 4, 8
# Binary exponent of the largest product of pivots; float64 ends at 1,024.
_MOST_EXPONENT = 1000


def square(what: str, t: TensorType) -> None:
    """Raise DTypeError or ShapeError unless ``t`` is a batch of square matrices of floats."""
    require_matrices(what, t)
    if t.dims[-1] != t.dims[-2]:
        raise ShapeError(f"{what} needs square matrices, got {shape_text(t.shape)}")


def _lead(shape: Shape) -> Shape:
    """Shape of one value per matrix: (1,) for a single matrix, () with ``np_shape``."""
    return shape[:-2] or (() if is_np_shape() else (1,))


def reported(ref: Reference) -> Reference:
    """``ref`` with NumPy's error for singular or indefinite matrices converted to MXNetError."""

    @wraps(ref)
    def run(*matrices: np.ndarray, **attrs: AttrValue) -> Arrays:
        try:
            return ref(*matrices, **attrs)
        except np.linalg.LinAlgError as error:
            raise MXNetError(str(error)) from None

    return run


def _per_matrix(
    name: str,
    inputs: str,
    attrs: str,
    infer: ForwardRule,
    ref: Reference,
    doc: str,
    outputs: tuple[str, ...] = ("output",),
    total_outputs: int = 0,
    unread: tuple[int, ...] = (),
) -> None:
    register(
        f"_linalg_{name}",
        inputs,
        attrs,
        infer=of_one_dtype(infer),
        ref=reported(ref),
        grad=RULES[name],
        outputs=outputs,
        aliases=f"linalg_{name}",
        traits=Traits(total_outputs=total_outputs, unread=unread),
        doc=doc,
    )


def _infer_square(A: TensorType, **attrs: AttrValue) -> TensorType:
    square("the operator", A)
    return A


def _triangle(A: np.ndarray, lower: bool) -> np.ndarray:
    return np.tril(A) if lower else np.triu(A)


def _potrf(A: np.ndarray, *, lower: bool) -> np.ndarray:
    """L with L L^T = A, from A's lower triangle; for upper the transpose.

    LAPACK reads the lower triangle only.
    """
    L = np.linalg.cholesky(A if lower else A.swapaxes(-1, -2))
    return L if lower else np.ascontiguousarray(L.swapaxes(-1, -2))


def _potri(A: np.ndarray, *, lower: bool) -> np.ndarray:
    """Inverse of the matrix whose Cholesky factor is A."""
    one = np.broadcast_to(np.eye(A.shape[-1], dtype=A.dtype), A.shape)
    inverse = _forward(A if lower else A.swapaxes(-1, -2), one)
    if inverse is not None:
        return inverse.swapaxes(-1, -2) @ inverse
    t = _triangle(A, lower)
    return np.linalg.inv(t @ t.swapaxes(-1, -2) if lower else t.swapaxes(-1, -2) @ t)


def _infer_triangular(
    A: TensorType, B: TensorType, *, rightside: bool, **attrs: AttrValue
) -> TensorType:
    """B's type; A is square and matches B's rows, or its columns on the right side."""
    require_matrices("the operator", A, B)
    square("the operator", A)
    if A.dims[:-2] != B.dims[:-2] or A.dims[-1] != B.dims[-1 if rightside else -2]:
        raise ShapeError(
            f"A {shape_text(A.shape)} and B {shape_text(B.shape)} do not match on the "
            f"{'right' if rightside else 'left'} side"
        )
    return B


def _operand(A: np.ndarray, lower: bool, transpose: bool) -> np.ndarray:
    t = _triangle(A, lower)
    return t.swapaxes(-1, -2) if transpose else t


def _trmm(
    A: np.ndarray, B: np.ndarray, *, transpose: bool, rightside: bool, lower: bool, alpha: float
) -> np.ndarray:
    """alpha op(A) B or alpha B op(A), A triangular."""
    t = _operand(A, lower, transpose)
    return scaled(B @ t if rightside else t @ B, alpha)


def _trsm(
    A: np.ndarray, B: np.ndarray, *, transpose: bool, rightside: bool, lower: bool, alpha: float
) -> np.ndarray:
    """X with op(A) X = alpha B or X op(A) = alpha B, A triangular."""
    b = B if alpha == 1 else B * B.dtype.type(alpha)
    if rightside:
        x = _solved(A, b.swapaxes(-1, -2), lower, not transpose)
        return np.ascontiguousarray(x.swapaxes(-1, -2))
    return _solved(A, b, lower, transpose)


def _solved(A: np.ndarray, b: np.ndarray, lower: bool, transpose: bool) -> np.ndarray:
    """X with op(A) X = b."""
    t = A.swapaxes(-1, -2) if transpose else A
    if lower != transpose:
        x = _forward(t, b)
    else:  # with rows and columns in reverse it is a lower one
        x = _forward(t[..., ::-1, ::-1], b[..., ::-1, :])
        x = None if x is None else x[..., ::-1, :]
    if x is None:
        return np.linalg.solve(_operand(A, lower, transpose), b)
    return np.ascontiguousarray(x)


def _forward(t: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """X with t X = b by machine code, which reads lower triangles; None where LAPACK solves it."""
    n, m = b.shape[-2:]
    if t.dtype.name not in ("float32", "float64") or t.dtype != b.dtype or not b.size:
        return None
    vectors = 1 if m <= _FEW_COLUMNS else 4
    run = native.routine("trsm", t.dtype.name, vectors, size=_WORTH * n * max(n, m))
    if run is None or not np.diagonal(t, 0, -2, -1).all():
        return None
    x = np.array(b, order="C")
    _solve_blocks(run, np.ascontiguousarray(t), x)
    return x


def _solve_blocks(run: native.Routine, t: np.ndarray, x: np.ndarray) -> None:
    """X in place of ``x``, by blocks of rows; products of matrices subtract the known rows.

    512 x 512 with as many columns take 2.1 ms instead of 4.9 (AMD Zen 4).
    """
    n, m = x.shape[-2:]
    for first in range(0, n, _BLOCK):
        rows = slice(first, first + _BLOCK)
        side = x[..., rows, :]
        if first:
            side -= t[..., rows, :first] @ x[..., :first, :]
        part = np.ascontiguousarray(side)
        run([np.ascontiguousarray(t[..., rows, rows]), part], [x.size // (n * m), *part.shape[-2:]])
        side[...] = part


def _infer_syrk(A: TensorType, *, transpose: bool, **attrs: AttrValue) -> TensorType:
    require_matrices("linalg_syrk", A)
    n = A.dims[-1 if transpose else -2]
    return A.with_shape((*A.dims[:-2], n, n))


def _syrk(A: np.ndarray, *, transpose: bool, alpha: float) -> np.ndarray:
    """alpha A A^T, or alpha A^T A."""
    t = A.swapaxes(-1, -2)
    return scaled(t @ A if transpose else A @ t, alpha)


_TRIANGULAR = "transpose:bool=False rightside:bool=False lower:bool=True alpha:double=1"
_per_matrix("potrf", "A", "lower:bool=True", _infer_square, _potrf, "Cholesky factor.")
_per_matrix(
    "potri", "A", "lower:bool=True", _infer_square, _potri, "Inverse from a Cholesky factor."
)
_per_matrix(
    "trmm", "A B", _TRIANGULAR, _infer_triangular, _trmm, "Product with a triangular matrix."
)
_per_matrix(
    "trsm", "A B", _TRIANGULAR, _infer_triangular, _trsm, "Solution of a triangular system."
)
_per_matrix(
    "syrk", "A", "transpose:bool=False alpha:double=1", _infer_syrk, _syrk, "A times its transpose."
)


def _eliminated(how: str, A: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Inverses (for ``how`` "pivots" anything) and signed pivots by machine code; None where LAPACK
    computes them.

    Both compute in double precision. LAPACK takes 0.2 ms for an inverse of 64 x 64.
    """
    n = A.shape[-1]
    is_small = A.size and n <= _ELIMINATED[how]
    run = native.routine("eliminate", how, size=n**3) if is_small else None
    if run is None:
        return None
    inverses, places = np.array(A, np.float64, order="C"), np.empty(A.shape[:-1], np.int64)
    pivots, factors = np.empty((2, *A.shape[:-1]))
    run([inverses, pivots, factors, places], [A.size // n**2, n])
    return inverses, pivots


def _inverted(A: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Inverses and pivots by machine code; None where LAPACK computes them.

    Larger matrices are computed in their own precision, as by MXNet's LAPACK; NumPy's computes in
    double: 44 ms for 512 rows of float32, this function 18 (Intel Xeon with AVX-512, busy).
    """
    name, n = A.dtype.name, A.shape[-1]
    if not A.size or n <= _ELIMINATED["inverse"]:
        return _eliminated("inverse", A)
    panel, solve = native.routine("panel", name), native.routine("trsm", name, 4)
    if panel is None or solve is None:
        return None
    both = np.array(A, order="C").reshape(-1, n, n)
    order = np.tile(np.arange(n), (len(both), 1))
    for first in range(0, n, _BLOCK):
        _next_panel(panel, solve, both, order, first)
    cells = np.arange(n)
    pivots = both[:, cells, cells].astype(np.float64)
    both[:, cells, cells] = np.where(pivots, pivots, 1)  # no infinity from singular matrices
    inverses = _inverse_of_factors(solve, both, order)
    return inverses.reshape(A.shape), pivots.reshape(A.shape[:-1])


def _next_panel(
    panel: native.Routine, solve: native.Routine, both: np.ndarray, order: np.ndarray, first: int
) -> None:
    """Eliminate the columns of a panel, and subtract their products from the columns after them."""
    count, n = order.shape
    last = min(first + _BLOCK, n)
    part = np.ascontiguousarray(both[:, first:, first:last])
    rows = np.tile(np.arange(n - first), (count, 1))
    panel([part, rows], [count, n - first, last - first])
    order[:, first:] = np.take_along_axis(order[:, first:], rows, 1)
    lines = rows + first + n * np.arange(count)[:, None]
    both[:, first:] = both.reshape(-1, n)[lines]
    both[:, first:, first:last] = part
    if last == n:
        return
    corner = _with_ones(part[:, : last - first])
    top = np.ascontiguousarray(both[:, first:last, last:])
    solve([corner, top], [count, *top.shape[1:]])
    both[:, first:last, last:] = top
    both[:, last:, last:] -= part[:, last - first :] @ top


def _with_ones(factors: np.ndarray) -> np.ndarray:
    """L of L U, which has ones on its diagonal."""
    lower = np.tril(factors)
    cells = np.arange(factors.shape[-1])
    lower[:, cells, cells] = 1
    return lower


def _inverse_of_factors(solve: native.Routine, both: np.ndarray, order: np.ndarray) -> np.ndarray:
    """U^-1 L^-1 P; anything where a pivot is 0."""
    x = np.zeros_like(both)
    np.put_along_axis(x, order[..., None], both.dtype.type(1), 2)
    _solve_blocks(solve, _with_ones(both), x)
    x = np.ascontiguousarray(x[:, ::-1])
    _solve_blocks(solve, np.ascontiguousarray(both[:, ::-1, ::-1]), x)
    return np.ascontiguousarray(x[:, ::-1])


def _sign_and_log(pivots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sign and logarithm of the products of pivots."""
    with np.errstate(divide="ignore"):
        log = np.log(np.abs(pivots)).sum(axis=-1)
    return np.sign(pivots).prod(axis=-1), log


def _product_of(pivots: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Products of pivots; by their logarithms where an intermediate one could leave the range."""
    with np.errstate(over="ignore", under="ignore"):
        number = pivots.prod(axis=-1)
        sizes, most = np.abs(pivots), 2.0 ** (_MOST_EXPONENT // pivots.shape[-1])
        is_tame = (sizes.min(axis=-1) > 1 / most) & (sizes.max(axis=-1) < most)
        if not is_tame.all():
            sign, log = _sign_and_log(pivots)
            number = np.where(is_tame, number, sign * np.exp(log))
        return np.asarray(number).astype(dtype)


def _inverse(A: np.ndarray) -> np.ndarray:
    """Inverse matrices. Raises LinAlgError for a singular one."""
    made = _inverted(A)
    if made is None:
        return np.linalg.inv(A)
    if not made[1].all():
        raise np.linalg.LinAlgError("Singular matrix")
    return made[0].astype(A.dtype, copy=False)


def _inverse_or_zeros(A: np.ndarray) -> np.ndarray:
    """Inverse matrices; zeros for singular ones."""
    made = _inverted(A)
    if made is not None:
        is_regular = _product_of(made[1], A.dtype) != 0
        return np.where(is_regular[..., None, None], made[0], 0).astype(A.dtype, copy=False)
    is_regular = np.asarray(_det(A) != 0).reshape(*A.shape[:-2], 1, 1)
    regular = np.where(is_regular, A, np.eye(A.shape[-1], dtype=A.dtype))
    return np.where(is_regular, np.linalg.inv(regular), A.dtype.type(0))


register(
    "_inverse_or_zeros",
    "A",
    internal=True,
    infer=forward(_infer_square),
    ref=_inverse_or_zeros,
    grad=RULES["inverse"],
    doc="Inverse matrices, zeros for singular ones.",
)
_per_matrix("inverse", "A", "", _infer_square, _inverse, "Inverse matrices.")


def _infer_gelqf(A: TensorType) -> tuple[TensorType, TensorType]:
    """Q has A's type, L is square of A's rows."""
    require_matrices("linalg_gelqf", A)
    rows, columns = A.dims[-2:]
    if rows > columns:
        raise ShapeError(
            f"linalg_gelqf needs at least as many columns as rows, got {shape_text(A.shape)}"
        )
    return A, A.with_shape((*A.dims[:-2], rows, rows))


def _gelqf(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A = L Q with orthonormal rows of Q; signs are those of LAPACK's QR of the transpose."""
    made = _reflected(A)
    if made is not None:
        return made
    q, r = np.linalg.qr(A.swapaxes(-1, -2))
    return np.ascontiguousarray(q.swapaxes(-1, -2)), np.ascontiguousarray(r.swapaxes(-1, -2))


def _reflected(A: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Q and L by machine code in double precision; None where LAPACK computes them.

    float64 is left to LAPACK, whose squares do not overflow.
    """
    (m, n), name = A.shape[-2:], A.dtype.name
    if name != "float32" or not A.size or m * n > _REFLECTED:
        return None
    run = native.routine("reflect", _TOGETHER, size=_WORTH * m * n)
    if run is None:
        return None
    count, height, width = A.size // (m * n), m + _TOGETHER - 1, -(-n // _LANES) * _LANES
    rows, lower = np.zeros((count, height, width)), np.zeros((count, height, m))
    rows[:, :m, :n] = A.reshape(count, m, n)
    run([rows, lower, np.empty(m)], [count, m, height, width])
    q, factor = (x.astype(A.dtype) for x in (rows[:, :m, :n], lower[:, :m]))
    return q.reshape(A.shape), factor.reshape(*A.shape[:-1], m)


def _infer_syevd(A: TensorType) -> tuple[TensorType, TensorType]:
    square("linalg_syevd", A)
    return A, A.with_shape(A.dims[:-1])


def _syevd(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors as rows, the largest element of each positive, and ascending eigenvalues."""
    if A.size == 0:
        return A.copy(), np.zeros(A.shape[:-1], A.dtype)
    values, vectors = np.linalg.eigh(A)
    rows = vectors.swapaxes(-1, -2)
    largest = np.take_along_axis(rows, np.abs(rows).argmax(-1, keepdims=True), -1)
    return np.where(largest < 0, -rows, rows), values


def _infer_number(A: TensorType) -> TensorType:
    square("the operator", A)
    return A.with_shape(_lead(A.dims))


def _infer_two_numbers(A: TensorType) -> tuple[TensorType, TensorType]:
    return (_infer_number(A),) * 2


def _det(A: np.ndarray) -> np.ndarray:
    made = _eliminated("pivots", A)
    with np.errstate(over="ignore", under="ignore"):
        number = np.linalg.det(A) if made is None else _product_of(made[1], A.dtype)
    return np.asarray(number).reshape(_lead(A.shape))


def _slogdet(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shape = _lead(A.shape)
    made = _eliminated("pivots", A)
    sign, log = np.linalg.slogdet(A) if made is None else _sign_and_log(made[1])
    log = np.asarray(log).astype(A.dtype, copy=False)
    return np.asarray(sign).astype(A.dtype).reshape(shape), log.reshape(shape)


def _sumlogdiag(A: np.ndarray) -> np.ndarray:
    """Sum of the logarithms of the diagonal."""
    diagonal = np.diagonal(A, axis1=-2, axis2=-1)
    return np.log(diagonal).sum(axis=-1).reshape(_lead(A.shape))


_PAIR = ("output0", "output1")
_per_matrix("gelqf", "A", "", _infer_gelqf, _gelqf, "LQ factorisation.", _PAIR)
_per_matrix("syevd", "A", "", _infer_syevd, _syevd, "Eigenvectors and eigenvalues.", _PAIR)
_per_matrix("det", "A", "", _infer_number, _det, "Determinants.", ("output0",), 3)
_per_matrix(
    "slogdet",
    "A",
    "",
    _infer_two_numbers,
    _slogdet,
    "Sign and logarithm of determinants.",
    _PAIR,
    4,
    unread=(0,),
)
_per_matrix(
    "sumlogdiag", "A", "", _infer_number, _sumlogdiag, "Sum of the logarithms of the diagonal."
)

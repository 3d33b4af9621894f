"""Products and linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as onp

from ...errors import MXNetError
from .frontend import NUMBERS, Group, axes_of


class Products(Group):
    """dot, matmul, tensordot, einsum and related functions."""

    def dot(self, a: Any, b: Any, out: Any = None) -> Any:
        """Product over the last axis of a and the last but one of b."""
        return self._op("_np_dot", a, b, out=out)

    def matmul(self, a: Any, b: Any, out: Any = None, **kwargs: Any) -> Any:
        """Matrix product, broadcast over leading axes."""
        return self._op("_npi_matmul", a, b, out=out)

    def tensordot(self, a: Any, b: Any, axes: Any = 2) -> Any:
        """Sum of products over pairs of axes, or over the last and first ``axes`` ones."""
        if isinstance(axes, (int, onp.integer)):
            return self._op("_npi_tensordot_int_axes", a, b, axes=int(axes))
        if len(axes) != 2:
            raise ValueError("Axes must consist of two arrays.")
        left, right = (tuple(side) if isinstance(side, (list, tuple)) else (side,) for side in axes)
        if len(left) != len(right):
            raise ValueError("Axes length mismatch")
        return self._op("_npi_tensordot", a, b, a_axes_summed=left, b_axes_summed=right)

    def inner(self, a: Any, b: Any) -> Any:
        """Product over the last axes of both."""
        return self.tensordot(a, b, [-1, -1])

    def outer(self, a: Any, b: Any) -> Any:
        """Products of all pairs of elements."""
        return self.tensordot(self._front.flat(a), self._front.flat(b), 0)

    def vdot(self, a: Any, b: Any) -> Any:
        """Sum of the products of the elements of both."""
        return self.tensordot(self._front.flat(a), self._front.flat(b), 1)

    def einsum(self, *operands: Any, **kwargs: Any) -> Any:
        """Sum of products that subscripts describe."""
        optimize, out = kwargs.pop("optimize", False), kwargs.pop("out", None)
        if kwargs:
            raise TypeError(f"Did not understand the following kwargs: {sorted(kwargs)}")
        if not operands or not isinstance(operands[0], str):
            raise TypeError("einsum needs a string of subscripts first")
        subscripts, *tensors = operands
        return self._op(
            "_npi_einsum",
            *tensors,
            num_args=len(tensors),
            subscripts=subscripts,
            optimize=int(bool(optimize)),
            out=out,
        )


class Linalg(Group):
    """Functions of ``np.linalg``."""

    def norm(self, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
        """Norm of vectors or matrices; by default the root of the sum of squares."""
        if axis is None and ord is None:
            return self._op("_npi_norm", x, ord=2.0, axis=None, keepdims=keepdims, flag=-2)
        if axis is None:
            ndim = None if self._front.is_symbolic else len(self._front.shape(x))
            if ndim == 1 and ord in ("inf", "-inf", onp.inf, -onp.inf):
                raise MXNetError("inf norm handled in front-end.")
            axis = (-2, -1) if ord in ("fro", "nuc") or ndim == 2 else None
            if axis is None and ndim is not None and ndim != 1:
                raise ValueError("Improper number of dimensions to norm.")
        if isinstance(axis, (list, tuple)) and len(axis) > 2:
            raise ValueError("Improper number of dimensions to norm.")
        if isinstance(axis, (list, tuple)) and len(axis) == 2:
            return self._matrix_norm(x, ord, tuple(axis), keepdims)
        if ord in ("fro", "nuc"):
            raise ValueError(f"the norm {ord!r} is a matrix norm: it needs two axes")
        return self._vector_norm(x, ord, axis, keepdims)

    def _vector_norm(self, x: Any, ord: Any, axis: Any, keepdims: bool) -> Any:
        order = 2.0 if ord is None else float(ord)
        return self._op("_npi_norm", x, ord=order, axis=axes_of(axis), keepdims=keepdims, flag=-1)

    def _matrix_norm(self, x: Any, ord: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        flag = {None: -2, "fro": 1, "nuc": 2}.get(ord, -1)
        if flag == -1 and ord not in (1, -1, 2, -2, onp.inf, -onp.inf, "inf", "-inf"):
            raise MXNetError(f"Invalid norm order for matrices: {ord!r}")
        order = 2.0 if flag != -1 else float(ord)
        return self._op("_npi_norm", x, ord=order, axis=axis, keepdims=keepdims, flag=flag)

    def svd(self, a: Any) -> Any:
        """``(ut, l, v)`` with a = ut @ diag(l) @ v, for at most as many rows as columns."""
        return tuple(self._op("_npi_svd", a))

    def cholesky(self, a: Any) -> Any:
        """Lower triangular L with L @ L.T = a."""
        return self._op("_npi_cholesky", a)

    def inv(self, a: Any) -> Any:
        """Inverse matrices."""
        return self._op("_linalg_inverse", a)

    def det(self, a: Any) -> Any:
        """Determinants."""
        return self._op("_linalg_det", a)

    def slogdet(self, a: Any) -> Any:
        """Signs and logarithms of determinants."""
        return self._op("_linalg_slogdet", a)

    def solve(self, a: Any, b: Any) -> Any:
        """Solution x of a @ x = b."""
        return self._op("_npi_solve", a, b)

    def tensorinv(self, a: Any, ind: int = 2) -> Any:
        """Inverse of a tensor as a matrix: first ind axes by the remaining ones."""
        return self._op("_npi_tensorinv", a, ind=ind)

    def tensorsolve(self, a: Any, b: Any, axes: Any = None) -> Any:
        """Solution x of tensordot(a, x) = b."""
        return self._op("_npi_tensorsolve", a, b, a_axes=() if axes is None else tuple(axes))

    def pinv(self, a: Any, rcond: Any = 1e-15, hermitian: bool = False) -> Any:
        """Pseudo-inverse."""
        if hermitian:
            raise NotImplementedError("hermitian is not supported yet")
        if isinstance(rcond, NUMBERS):
            return self._op("_npi_pinv_scalar_rcond", a, rcond=float(rcond), hermitian=False)
        return self._op("_npi_pinv", a, rcond, hermitian=False)

    def eig(self, a: Any) -> Any:
        """Eigenvalues and eigenvectors, which must be real."""
        return tuple(self._op("_npi_eig", a))

    def eigh(self, a: Any, UPLO: str = "L") -> Any:  # noqa: N803 (NumPy's name)
        """Ascending eigenvalues, and eigenvectors, of symmetric matrices."""
        return tuple(self._op("_npi_eigh", a, UPLO=UPLO))

    def eigvals(self, a: Any) -> Any:
        """Eigenvalues, which must be real."""
        return self._op("_npi_eigvals", a)

    def eigvalsh(self, a: Any, UPLO: str = "L") -> Any:  # noqa: N803
        """Ascending eigenvalues of symmetric matrices."""
        return self._op("_npi_eigvalsh", a, UPLO=UPLO)

"""Conversion between matrices and vectors of their diagonals or triangles.

Input: matrices in the last two axes, or vectors in the last. Output: the other form.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ..._core.types import TensorType, shape_text
from ...errors import ShapeError
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..registry import lookup, register
from ..rules import forward, require_float
from ..signatures import Gradient


def _check_square(A: TensorType, offset: int) -> int:
    require_float("the operator", A)
    if A.ndim < 2 or A.dims[-1] != A.dims[-2]:
        raise ShapeError(f"the operator needs square matrices, got {shape_text(A.shape)}")
    left = A.dims[-1] - abs(offset)
    if left < 1:
        raise ShapeError(f"offset {offset} is out of range for a matrix of {A.dims[-1]} columns")
    return left


def _check_vector(A: TensorType) -> None:
    require_float("the operator", A)
    if A.ndim < 1:
        raise ShapeError("the operator needs data of at least one axis")


def _infer_extractdiag(A: TensorType, *, offset: int) -> TensorType:
    return A.with_shape((*A.dims[:-2], _check_square(A, offset)))


def _extractdiag(A: np.ndarray, *, offset: int) -> np.ndarray:
    return np.diagonal(A, offset, -2, -1).copy()


def _infer_makediag(A: TensorType, *, offset: int) -> TensorType:
    _check_vector(A)
    n = A.dims[-1] + abs(offset)
    return A.with_shape((*A.dims[:-1], n, n))


def _makediag(A: np.ndarray, *, offset: int) -> np.ndarray:
    n = A.shape[-1] + abs(offset)
    y = np.zeros((*A.shape[:-1], n, n), A.dtype)
    i = np.arange(A.shape[-1])
    y[..., i + max(-offset, 0), i + max(offset, 0)] = A
    return y


@lru_cache(maxsize=16)
def _cells(n: int, offset: int, lower: bool) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the triangle beyond the offset diagonal: lower by rows, upper by columns.

    A positive offset selects the upper triangle, a negative one the lower, regardless of ``lower``.
    """
    rows, columns = np.tril_indices(n, -abs(offset))
    if offset < 0 or (offset == 0 and lower):
        return rows, columns
    return columns, rows


def _infer_extracttrian(A: TensorType, *, offset: int, **attrs: AttrValue) -> TensorType:
    side = _check_square(A, offset)
    return A.with_shape((*A.dims[:-2], side * (side + 1) // 2))


def _extracttrian(A: np.ndarray, *, offset: int, lower: bool) -> np.ndarray:
    rows, columns = _cells(A.shape[-1], offset, lower)
    return A[..., rows, columns]


def _side(count: int) -> int:
    """n with n (n + 1) / 2 = count. Raises ShapeError if there is none."""
    n = math.isqrt(2 * count)
    if n * (n + 1) // 2 != count:
        raise ShapeError(f"{count} elements are not the size of a triangle")
    return n


def _infer_maketrian(A: TensorType, *, offset: int, **attrs: AttrValue) -> TensorType:
    _check_vector(A)
    n = _side(A.dims[-1]) + abs(offset)
    return A.with_shape((*A.dims[:-1], n, n))


def _maketrian(A: np.ndarray, *, offset: int, lower: bool) -> np.ndarray:
    n = _side(A.shape[-1]) + abs(offset)
    y = np.zeros((*A.shape[:-1], n, n), A.dtype)
    rows, columns = _cells(n, offset, lower)
    y[..., rows, columns] = A
    return y


def _grad_by(twin: str) -> Gradient:
    """Gradient rule of an operator whose transpose is ``twin``, with equal attributes."""

    def grad(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared) -> X:
        return g.op(lookup(f"_linalg_{twin}"), douts[0], **attrs)

    return grad


for name, twin, attrs, infer, ref, doc in (
    (
        "extractdiag",
        "makediag",
        "offset:int=0",
        _infer_extractdiag,
        _extractdiag,
        "Extract a diagonal as a vector.",
    ),
    (
        "makediag",
        "extractdiag",
        "offset:int=0",
        _infer_makediag,
        _makediag,
        "Matrix with the vector as a diagonal.",
    ),
    (
        "extracttrian",
        "maketrian",
        "offset:int=0 lower:bool=True",
        _infer_extracttrian,
        _extracttrian,
        "Triangle as a vector; a lower one by rows, an upper one by columns.",
    ),
    (
        "maketrian",
        "extracttrian",
        "offset:int=0 lower:bool=True",
        _infer_maketrian,
        _maketrian,
        "Vector as a triangle; a lower one by rows, an upper one by columns.",
    ),
):
    register(
        f"_linalg_{name}",
        "A",
        attrs,
        infer=forward(infer),
        ref=ref,
        grad=_grad_by(twin),
        aliases=f"linalg_{name}",
        doc=doc,
    )


def _triangle_of(A: np.ndarray, *, lower: bool, offset: int) -> np.ndarray:
    return np.where(_mask(*A.shape[-2:], lower, offset), A, A.dtype.type(0))


@lru_cache(maxsize=16)
def _mask(n: int, m: int, lower: bool, offset: int) -> np.ndarray:
    """The cells of a triangle."""
    cells = np.tri(n, m, offset if lower else offset - 1, dtype=bool)
    return cells if lower else ~cells


def _grad_triangle_of(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared
) -> X:
    return g.op(TRIANGLE_OF, douts[0], at="triangle", **attrs)


TRIANGLE_OF = register(
    "_triangle_of",
    "A",
    "lower:bool=True offset:int=0",
    internal=True,
    infer=forward(lambda A, **attrs: A),
    ref=_triangle_of,
    grad=_grad_triangle_of,
    doc="The triangle of each matrix up to a diagonal, zeros elsewhere.",
)

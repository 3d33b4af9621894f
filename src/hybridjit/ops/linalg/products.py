"""Products of batches of matrices in the last two axes, and column-wise Kronecker products.

Input: (..., rows, columns). Output: products of the same dtype.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import UNKNOWN, PartialShape, TensorType, merge, shape_text
from ...errors import DTypeError, MXNetError, ShapeError
from ..attrs import AttrValue, Declared
from ..building import Builder, X
from ..elementwise.binary import ADD, MULTIPLY
from ..nn.matrix_products import BATCH_DOT, DOT, batched_cost, batched_product, multiply
from ..record import Traits
from ..registry import register
from ..rules import (
    Types,
    forward,
    merged,
    normalized_axis,
    of_one_dtype,
    require_float,
    same_dtype,
)
from ..tensor.primitives import transpose


def require_matrices(what: str, *operands: TensorType) -> None:
    """Raise unless all operands are batches of floating matrices of equal dtype and rank."""
    same_dtype(*operands)
    require_float(what, operands[0])
    if operands[0].dtype == np.float16:
        raise DTypeError(f"{what} supports float32 and float64 only, got float16")
    if any(t.ndim < 2 or t.ndim != operands[0].ndim for t in operands):
        raise ShapeError(
            f"{what} needs operands of equal rank, at least 2, got "
            + " and ".join(shape_text(t.shape) for t in operands)
        )


def scaled(fresh: np.ndarray, alpha: float) -> np.ndarray:
    """``fresh``, an array of the caller, times ``alpha``."""
    if alpha != 1:
        fresh *= fresh.dtype.type(alpha)
    return fresh


def _rows_at(t: TensorType, axis: int) -> TensorType:
    """Type after moving the axis of matrix rows to the second last position."""
    dims = list(t.dims)
    rows = dims.pop(normalized_axis(axis, len(dims)))
    return t.with_shape((*dims[:-1], rows, dims[-1]))


def _rows_back(shape: PartialShape, axis: int) -> PartialShape:
    dims = list(shape)
    rows = dims.pop(-2)
    dims.insert(normalized_axis(axis, len(shape)), rows)
    return tuple(dims)


def _check_row_axis(axis: int, ndim: int) -> None:
    if normalized_axis(axis, ndim) == ndim - 1:
        raise ShapeError(f"axis {axis} of the matrix rows is equal to that of the columns")


def _infer_product(
    A: TensorType,
    B: TensorType,
    *,
    transpose_a: bool,
    transpose_b: bool,
    axis: int,
    **attrs: AttrValue,
) -> TensorType:
    """op(A) op(B), with the rows on ``axis``."""
    require_matrices("linalg_gemm", A, B)
    _check_row_axis(axis, A.ndim)
    a, b = _rows_at(A, axis), _rows_at(B, axis)
    product = batched_product("linalg_gemm", a, b, transpose_a, transpose_b)
    return A.with_shape(_rows_back(product, axis))


def _infer_gemm(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
    """C and the result have the type of the product; all dtypes are equal."""
    dtype = same_dtype(*ins, *outs)
    A, B, C = (t.with_dtype(dtype) for t in ins)
    if not (A.is_known and B.is_known):
        return (A, B, C), merged(outs, (UNKNOWN.with_dtype(dtype),))
    product = _infer_product(A, B, **attrs)
    try:
        C = merge(C, product)
    except ShapeError:
        raise ShapeError(
            f"C has shape {shape_text(C.shape)}, but the product has {shape_text(product.shape)}"
        ) from None
    return (A, B, C), merged(outs, (product,))


def _scaled_product(
    A: np.ndarray, B: np.ndarray, transpose_a: bool, transpose_b: bool, alpha: float, axis: int
) -> np.ndarray:
    a, b = np.moveaxis(A, axis, -2), np.moveaxis(B, axis, -2)
    y = multiply(a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b)
    y = scaled(y, alpha)
    return np.ascontiguousarray(np.moveaxis(y, -2, axis))


def _gemm2(
    A: np.ndarray,
    B: np.ndarray,
    *,
    transpose_a: bool,
    transpose_b: bool,
    alpha: float,
    axis: int,
) -> np.ndarray:
    """alpha op(A) op(B)."""
    return _scaled_product(A, B, transpose_a, transpose_b, alpha, axis)


def _gemm(
    A: np.ndarray, B: np.ndarray, C: np.ndarray, *, beta: float, **attrs: Declared
) -> np.ndarray:
    """alpha op(A) op(B) + beta C."""
    return _gemm2(A, B, **attrs) + C * C.dtype.type(beta)


_PRODUCT = Traits(parts_in_floats=True, multiply_adds=batched_cost)
_GEMM = "transpose_a:bool=False transpose_b:bool=False alpha:double=1 "


def _product_parts(
    g: Builder[X], A: X, B: X, *C: X, axis: int, alpha: float, beta: float = 1.0, **flags: bool
) -> X:
    """linalg_gemm2(A, B), linalg_gemm(A, B, C)  =>  alpha * batch_dot(A, B) + beta * C"""
    ndim = g.type(A).ndim
    axis %= ndim
    rows_last = (*(i for i in range(ndim) if i not in (axis, ndim - 1)), axis, ndim - 1)
    sides = [transpose(g, x, rows_last, at=side) for x, side in ((A, "a"), (B, "b"))]
    result = g.op(DOT if ndim == 2 else BATCH_DOT, *sides, at="product", **flags)
    back = tuple(sorted(range(ndim), key=rows_last.__getitem__))
    result = _times(g, transpose(g, result, back, at="rows_back"), alpha, at="alpha")
    if C:
        result = g.op(ADD.strict, result, _times(g, C[0], beta, at="beta"))
    return result


def _times(g: Builder[X], x: X, factor: float, at: str) -> X:
    return x if factor == 1 else g.op(MULTIPLY.scalar, x, at=at, scalar=factor)


register(
    "_linalg_gemm2",
    "A B",
    _GEMM + "axis:int=-2",
    infer=of_one_dtype(_infer_product),
    ref=_gemm2,
    expand=_product_parts,
    traits=_PRODUCT,
    aliases="linalg_gemm2",
    doc="alpha times the product of A and B, batched.",
)
register(
    "_linalg_gemm",
    "A B C",
    _GEMM + "beta:double=1 axis:int=-2",
    infer=_infer_gemm,
    ref=_gemm,
    expand=_product_parts,
    traits=_PRODUCT,
    aliases="linalg_gemm",
    doc="alpha times the product of A and B, plus beta times C.",
)


@forward
def _infer_khatri_rao(*operands: TensorType, num_args: int) -> TensorType:
    """(product of the rows, columns)."""
    if not operands:
        raise MXNetError("khatri_rao needs at least one matrix, got none")
    same_dtype(*operands)
    require_float("khatri_rao", operands[0])
    if any(t.ndim != 2 or t.dims[1] != operands[0].dims[1] for t in operands):
        raise ShapeError(
            "khatri_rao needs matrices with equal numbers of columns, got "
            + " and ".join(shape_text(t.shape) for t in operands)
        )
    rows = 1
    for t in operands:
        rows *= t.dims[0]
    return operands[0].with_shape((rows, operands[0].dims[1]))


def _khatri_rao(first: np.ndarray, *rest: np.ndarray, num_args: int) -> np.ndarray:
    """Kronecker products of matching columns."""
    y = first if rest else first.copy()
    for matrix in rest:
        y = (y[:, None, :] * matrix[None, :, :]).reshape(len(y) * len(matrix), y.shape[1])
    return y


register(
    "khatri_rao",
    "args...",
    "num_args:int[1,16384]!",
    infer=_infer_khatri_rao,
    ref=_khatri_rao,
    doc="Column-wise Kronecker product.",
)

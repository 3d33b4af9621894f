"""Products of matrices of bytes that are both computed, as in attention: exact sums in int32.

The pass ``lower-integers`` creates the operator.
"""

from __future__ import annotations

import numpy as np

from .._core.types import INT32, TensorType, product
from ..errors import DTypeError, ShapeError
from .attrs import AttrValue
from .gradient import none_at_all
from .quantized import BYTES
from .record import Traits
from .registry import register
from .rules import Types, forward


def _types(
    lhs: TensorType, rhs: TensorType, *, transpose_b: bool, **attrs: AttrValue
) -> TensorType:
    wrong = [t.dtype for t in (lhs, rhs) if t.dtype not in BYTES]
    if wrong:
        raise DTypeError(f"a product of matrices of bytes takes int8 or uint8, got {wrong[0]}")
    columns, size = _columns(rhs, transpose_b) if rhs.ndim == 3 else (0, 0)
    if lhs.ndim != 3 or rhs.ndim != 3 or lhs.dims[0] != rhs.dims[0] or lhs.dims[2] != size:
        raise ShapeError(
            f"a product of matrices of bytes takes (batch, rows, size) and (batch, size, columns), "
            f"or (batch, columns, size) with transpose_b=True, got {lhs} and {rhs} with "
            f"transpose_b={transpose_b}"
        )
    return TensorType((*lhs.dims[:2], columns), INT32)


def _columns(rhs: TensorType, transpose_b: bool) -> tuple[int, int]:
    """The number of columns, and the length of sums."""
    first, last = rhs.dims[1:]
    return (first, last) if transpose_b else (last, first)


def _product(
    lhs: np.ndarray, rhs: np.ndarray, *, lhs_zero: int, rhs_zero: int, transpose_b: bool
) -> np.ndarray:
    """In double precision, which is exact: sums are below 2**53."""
    a, b = lhs.astype(np.float64) - lhs_zero, rhs.astype(np.float64) - rhs_zero
    sums = a @ (b.swapaxes(1, 2) if transpose_b else b)
    return np.asarray(sums).astype(np.int64).astype(np.int32)


def _cost(ins: Types, outs: Types, **attrs: AttrValue) -> int:
    return product(outs[0].dims) * ins[0].dims[2]


INTEGER_BATCH_DOT = register(
    "_integer_batch_dot",
    "lhs rhs",
    "lhs_zero:int=0 rhs_zero:int=0 transpose_b:bool=False",
    internal=True,
    kernel="byte_matmul",
    infer=forward(_types),
    ref=_product,
    grad=none_at_all,
    traits=Traits(multiply_adds=_cost),
    doc="Products of matrices of bytes, less their zero points: int32 sums.",
)

"""Dense layers with weights of 4 bits, which stay packed: two to a byte, a scale for each block.

Readers of ONNX files create the operator.
"""

from __future__ import annotations

import numpy as np

from .._core.types import FLOAT32, TensorType, product
from ..errors import AttributeValueError, DTypeError, ShapeError
from .attrs import AttrValue
from .building import Builder, X
from .gradient import none_at_all
from .quantized import UINT8
from .record import Samples, Traits
from .registry import register
from .rules import forward
from .tensor.primitives import reshape

# The zero point of weights without other ones.
MIDDLE = 8
# Nibbles in a word of 32 bits: a block consists of whole words.
WORD = 8


def _operands(*, has_zeros: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return ("data", "weight", "scale", "zero") if has_zeros else ("data", "weight", "scale")


def _types(data: TensorType, *others: TensorType, block: int, **attrs: AttrValue) -> TensorType:
    _require(data.dtype, data.dims[-1], *others, block=block)
    return TensorType((*data.dims[:-1], others[0].dims[0]), FLOAT32)


def _weight_type(
    weight: TensorType, *others: TensorType, block: int, **attrs: AttrValue
) -> TensorType:
    size = 2 * weight.dims[1] if weight.ndim == 2 else 0
    _require(FLOAT32, size, weight, *others, block=block)
    return TensorType((weight.dims[0], size), FLOAT32)


def _require(
    dtype: np.dtype | None, size: int, weight: TensorType, *others: TensorType, block: int
) -> None:
    """Raise an exception unless the operands of a product with ``size`` data fit."""
    kinds = [dtype, *(t.dtype for t in others)]
    if weight.dtype != UINT8 or any(kind != FLOAT32 for kind in kinds):
        raise DTypeError(
            "a product with weights of 4 bits takes data, scales and zero points of float32 and "
            f"a weight of uint8, got {kinds} and {weight.dtype}"
        )
    if block < WORD or block % WORD:
        raise AttributeValueError(f"attribute block must be a multiple of {WORD}, got {block}")
    filters = weight.dims[0]
    if size % block or weight.dims != (filters, size // 2):
        raise ShapeError(
            f"{size} data in blocks of {block} take a weight of (filters, {size // 2}), of whole "
            f"blocks, got {weight}"
        )
    if any(t.dims != (filters, size // block) for t in others):
        raise ShapeError(
            f"scales and zero points are {(filters, size // block)}, got {list(map(str, others))}"
        )


def _weights(
    weight: np.ndarray, scale: np.ndarray, *zeros: np.ndarray, block: int, has_zeros: bool
) -> np.ndarray:
    """The weights (filters, data) in float32."""
    filters, blocks = scale.shape
    zero = zeros[0].reshape(filters, blocks, 1) if has_zeros else np.float32(MIDDLE)
    whole = np.stack([weight & 15, weight >> 4], axis=-1).reshape(filters, blocks, block)
    made: np.ndarray = (whole.astype(np.float32) - zero) * scale[..., None]
    return made.reshape(filters, -1)


def _product(data: np.ndarray, *others: np.ndarray, block: int, has_zeros: bool) -> np.ndarray:
    result: np.ndarray = data @ _weights(*others, block=block, has_zeros=has_zeros).T
    return result


def _on_rows(g: Builder[X], data: X, *others: X, **attrs: AttrValue) -> X | None:
    """nibble_dense(x of any rank)  =>  nibble_dense(x as rows)"""
    given = g.type(data).dims
    if len(given) == 2:
        return None
    rows = reshape(g, data, (product(given[:-1]), given[-1]), at="rows")
    dense = g.op(NIBBLE_DENSE, rows, *others, at="dense", **attrs)
    return reshape(g, dense, (*given[:-1], g.type(others[0]).dims[0]))


NIBBLE_DENSE = register(
    "_nibble_dense",
    _operands,
    "block:int! has_zeros:bool=False",
    internal=True,
    kernel="nibble_dense",
    infer=forward(_types),
    ref=_product,
    expand=_on_rows,
    grad=none_at_all,
    traits=Traits(samples=Samples.FIRST, in_files=True),
    doc="Dense layer with weights of 4 bits, two to a byte, lowest first: (q - zero) * scale.",
)


WEIGHT_FROM_NIBBLES = register(
    "_weight_from_nibbles",
    lambda **attrs: _operands(**attrs)[1:],
    "block:int! has_zeros:bool=False",
    internal=True,
    infer=forward(_weight_type),
    ref=_weights,
    grad=none_at_all,
    traits=Traits(in_files=True),
    doc="float32 weights (filters, data) of 4 bits, two to a byte: (q - zero) * scale.",
)

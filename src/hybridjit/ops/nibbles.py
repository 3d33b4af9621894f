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


def _types(
    data: TensorType, weight: TensorType, *others: TensorType, block: int, **attrs: AttrValue
) -> TensorType:
    if weight.dtype != UINT8 or any(t.dtype != FLOAT32 for t in (data, *others)):
        raise DTypeError(
            "a product with weights of 4 bits takes data, scales and zero points of float32 and "
            f"a weight of uint8, got {data.dtype}, {[t.dtype for t in others]} and {weight.dtype}"
        )
    if block < WORD or block % WORD:
        raise AttributeValueError(f"attribute block must be a multiple of {WORD}, got {block}")
    size = data.dims[-1]
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
    return TensorType((*data.dims[:-1], filters), FLOAT32)


def _product(
    data: np.ndarray, weight: np.ndarray, *others: np.ndarray, block: int, has_zeros: bool
) -> np.ndarray:
    scale, zero = others if has_zeros else (others[0], np.float32(MIDDLE))
    filters, blocks = scale.shape
    whole = np.stack([weight & 15, weight >> 4], axis=-1).reshape(filters, blocks, block)
    centred = whole.astype(np.float32) - np.reshape(zero, (-1, blocks, 1) if has_zeros else ())
    filters_ = (centred * scale[..., None]).reshape(filters, -1)
    result: np.ndarray = data @ filters_.T
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

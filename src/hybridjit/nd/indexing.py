"""MXNet's indexing rules on NumPy arrays: meaning of keys, and which results are views.

Input: an array and the key between the brackets, with NDArrays unwrapped. Output: the NumPy key of
the same meaning. Boolean arrays are not masks: they index as 0 and 1.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.types import product

if TYPE_CHECKING:
    from typing import SupportsIndex


def normal_key(key: object, shape: tuple[int, ...]) -> tuple[object, ...]:
    """``key`` as a tuple of ints, slices, None, Ellipsis and integer arrays.

    Raises IndexError for an index out of range or too many indices, ValueError for an invalid key.
    """
    if not shape and isinstance(key, slice) and key == slice(None):
        return ()  # the only slice of an array of shape ()
    parts = key if isinstance(key, tuple) else (key,)
    normal = tuple(_normal_part(part) for part in parts)
    consumed = sum(part is not None and part is not Ellipsis for part in normal)
    if consumed > len(shape):
        raise IndexError(f"too many indices ({consumed}) for array with {len(shape)} dimensions")
    return normal


def is_basic(key: tuple[object, ...]) -> bool:
    """Test whether NumPy returns a view of the same memory for this key."""
    return not any(isinstance(part, np.ndarray) for part in key)


def slice_is_contiguous(key: Sequence[slice], shape: Sequence[int]) -> bool:
    """Test whether one slice for each axis selects contiguous memory of a C-contiguous array."""
    assert len(key) == len(shape), f"{len(key)} slices for {len(shape)} axes"
    counts = [len(range(*part.indices(size))) for part, size in zip(key, shape)]
    if product(tuple(counts)) <= 1:
        return True
    stride = packed = 1  # distances between elements: actual, contiguous
    for part, size, count in zip(reversed(key), reversed(shape), reversed(counts)):
        if count > 1 and stride * part.indices(size)[2] != packed:
            return False
        stride *= size
        packed *= count
    return True


def _normal_part(part: Any) -> object:
    if part is None or part is Ellipsis:
        return part
    if isinstance(part, slice):
        return slice(*(None if end is None else _whole(end) for end in _ends(part)))
    if isinstance(part, np.ndarray) and part.ndim > 0:
        return _index_array(part)
    if isinstance(part, (list, tuple, range)):
        return _index_array(np.asarray(part))
    return _whole(part)


def _ends(part: slice) -> tuple[Any, Any, Any]:
    return part.start, part.stop, part.step


def _whole(part: SupportsIndex) -> int:
    """Integer index; True is 1. Raises ValueError for other objects."""
    try:
        return int(operator.index(part))
    except TypeError:
        raise ValueError(
            f"NDArray does not support slicing with key {part} of type {type(part)}."
        ) from None


def _index_array(part: np.ndarray) -> np.ndarray:
    """Integer indices from an array of any numeric dtype, truncated towards zero."""
    if part.dtype.kind not in "iufb":
        raise ValueError(f"NDArray does not support slicing with key of type {part.dtype}.")
    return part if part.dtype.kind in "iu" else part.astype(np.int64)

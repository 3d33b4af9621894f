"""Index rules of NumPy mode: those of official NumPy, with indices of any numeric dtype.

Input: the key between the brackets, with arrays unwrapped, and the shape of the array. Output: the
key for NumPy. Boolean arrays and lists are masks; other arrays are indices, truncated to integers.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def normal_key(key: object, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Normalize ``key`` to a tuple that NumPy accepts.

    Raises IndexError for too many indices and for a key of a scalar that is not ``()``, ValueError
    for an object that is not an index, TypeError for a slice whose bounds are arrays.
    """
    parts = key if isinstance(key, tuple) else (key,)
    if not shape and parts and not all(isinstance(part, (bool, np.ndarray)) for part in parts):
        raise IndexError(
            "scalar tensor can only accept `()` as index: x[()] is its element, x[...] = v assigns"
        )
    normal = tuple(map(_part, parts))
    consumed = sum(map(_axes_read, normal))
    if consumed > len(shape):
        raise IndexError(f"too many indices ({consumed}) for array with {len(shape)} dimensions")
    if sum(part is Ellipsis for part in normal) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    return normal


def is_masked(key: tuple[Any, ...]) -> bool:
    """Test whether a boolean mask selects the elements."""
    return any(isinstance(part, np.ndarray) and part.dtype.kind == "b" for part in key)


def _axes_read(part: Any) -> int:
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return part.ndim if isinstance(part, np.ndarray) and part.dtype.kind == "b" else 1


def _part(part: Any) -> Any:
    if part is None or part is Ellipsis or isinstance(part, bool):
        return part
    if isinstance(part, slice):
        return slice(*(None if end is None else operator.index(end) for end in _ends(part)))
    if isinstance(part, (list, tuple, range)):
        part = np.asarray(part) if len(part) else np.zeros(0, np.int64)
    if isinstance(part, np.ndarray):
        return _positions(part)
    try:
        return int(operator.index(part))
    except TypeError:
        raise ValueError(
            f"NDArray does not support slicing with key {part} of type {type(part)}."
        ) from None


def _ends(part: slice) -> tuple[Any, Any, Any]:
    return part.start, part.stop, part.step


def _positions(part: np.ndarray) -> Any:
    """Convert an index array to integers, one of shape () to an int; masks stay unchanged."""
    if part.dtype.kind not in "iufb":
        raise ValueError(f"NDArray does not support slicing with key of type {part.dtype}.")
    if part.dtype.kind == "f":
        part = part.astype(np.int64)
    return part if part.ndim or part.dtype.kind == "b" else int(part)

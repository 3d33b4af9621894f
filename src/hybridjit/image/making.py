"""Arrays of images: classic, or of NumPy mode where the thread has switched that on."""

from __future__ import annotations

from typing import Any

from .. import nd
from .._core.shapes import is_np_array
from .._core.types import DType
from ..nd import NDArray


def array(values: Any, dtype: DType | None = None) -> NDArray:
    """The numbers as an array of the kind that the thread works with."""
    made = nd.array(values, dtype=dtype)
    return made.as_np_ndarray() if is_np_array() else made

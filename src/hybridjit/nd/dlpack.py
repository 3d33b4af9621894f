"""DLPack: exchange of arrays with other libraries without a copy.

Input: NDArrays, or DLPack exporters: a capsule or an object with ``__dlpack__``. Output: the other
kind, on the same memory. Memory that other libraries can write is marked as exposed, so that
compiled networks do not rely on packed copies of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import cpu
from ..errors import MXNetError
from .memory import dtype_of
from .ndarray import NDArray
from .storage import Storage

_CPU_DEVICE = (1, 0)


class _Exporter:
    """Wraps a capsule in an object that ``np.from_dlpack`` accepts."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: object) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU_DEVICE


class _Writable:
    """View of the same memory without NumPy's read-only flag; keeps its owner alive."""

    def __init__(self, owner: np.ndarray) -> None:
        self._owner = owner
        place, _ = owner.__array_interface__["data"]
        self.__array_interface__ = {**owner.__array_interface__, "data": (place, False)}


def from_dlpack(dlpack: Any) -> NDArray:
    """NDArray on the memory of a DLPack capsule (usable once) or of an exporting object.

    Raises AssertionError for other objects and for a used capsule; MXNetError for memory that is
    read-only, not on the CPU, or not contiguous, and for dtypes that MXNet does not have.
    """
    is_capsule = type(dlpack).__name__ == "PyCapsule"
    assert (is_capsule and '"dltensor"' in repr(dlpack)) or hasattr(dlpack, "__dlpack__"), (
        "Invalid DLPack Tensor. DLTensor capsules can be consumed only once."
    )
    try:
        capsule = dlpack if is_capsule else dlpack.__dlpack__()
        taken = np.from_dlpack(_Exporter(capsule))
    except (BufferError, RuntimeError, ValueError) as error:
        raise MXNetError(f"from_dlpack: {error}") from None
    if not taken.flags.c_contiguous:
        raise MXNetError(
            f"from_dlpack needs contiguous memory, got strides {taken.strides} for shape "
            f"{taken.shape}: make a contiguous copy first"
        )
    dtype_of(taken.dtype)
    storage = Storage()
    storage.exposed = True
    return NDArray(np.asarray(_Writable(taken)), cpu(), storage)


def to_dlpack_for_read(data: NDArray) -> object:
    """DLPack capsule of the array's memory, for a library that only reads it."""
    return data.to_dlpack_for_read()


def to_dlpack_for_write(data: NDArray) -> object:
    """DLPack capsule of the array's memory, for a library that may write it."""
    return data.to_dlpack_for_write()

"""``npx.save`` and ``npx.load``: arrays of NumPy mode in MXNet's binary files."""

from __future__ import annotations

from typing import Any

from .._core.shapes import is_np_array, is_np_shape
from ..nd import files
from ..util import np_shape
from .arrays import ndarray
from .front import as_np


def save(file: str, arr: Any) -> None:
    """Write an array, a list or a dictionary of arrays.

    Raises ValueError or TypeError for other data.
    """
    if isinstance(arr, tuple) or not isinstance(arr, (ndarray, list, dict)):
        raise ValueError(
            "data needs to either be a MXNet ndarray, dict of str, ndarray pairs or a list of "
            f"ndarrays, got {type(arr)}"
        )
    parts = arr.values() if isinstance(arr, dict) else [arr] if isinstance(arr, ndarray) else arr
    if not all(isinstance(part, ndarray) for part in parts):
        raise TypeError("only arrays of NumPy mode can be saved")
    if isinstance(arr, dict):
        classic: Any = {name: part.as_nd_ndarray() for name, part in arr.items()}
    elif isinstance(arr, list):
        classic = [part.as_nd_ndarray() for part in arr]
    else:
        classic = arr.as_nd_ndarray()
    with np_shape(True if not is_np_shape() else None):
        files.save(file, classic)


def load(file: str) -> Any:
    """Arrays of a file, as a list or a dictionary. Raises ValueError outside of NumPy mode."""
    if not is_np_array():
        raise ValueError(
            "Cannot load `mxnet.numpy.ndarray` in legacy mode. Please activate numpy semantics by "
            "calling `npx.set_np()` in the global scope before calling this function."
        )
    found = files.load(file)
    if isinstance(found, dict):
        return {name: as_np(array) for name, array in found.items()}
    return as_np(found)

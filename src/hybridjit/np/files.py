"""``npx.save``, ``npx.savez`` and ``npx.load``: arrays of NumPy mode in files."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as onp

from .._core.shapes import is_np_array, is_np_shape
from ..formats.atomic import write_atomically
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


def savez(file: Any, *args: ndarray, **kwds: ndarray) -> None:
    """Write arrays as NumPy's ``.npz``, in the form of MXNet 2.0; :func:`load` reads it.

    Arrays without names are ``arr_0``, ``arr_1``, ... The name of the file is taken as it is.
    Raises TypeError for other data, ValueError for a name that is given twice.
    """
    numbered = {f"arr_{i}": arg for i, arg in enumerate(args)}
    if numbered.keys() & kwds.keys():
        raise ValueError(f"{min(numbered.keys() & kwds.keys())} is given by position and by name")
    arrays = {**numbered, **kwds}
    if not all(isinstance(array, ndarray) for array in arrays.values()):
        raise TypeError("only arrays of NumPy mode can be saved")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                onp.lib.format.write_array(member, array.asnumpy(), allow_pickle=False)
    if hasattr(file, "write"):
        file.write(content.getbuffer())
    else:
        write_atomically(file, [content.getbuffer()])


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

"""``nd.save``, ``nd.load`` and ``nd.load_frombuffer``: NDArrays in MXNet's binary files.

Input: an NDArray, or a list or dictionary of these. Output: the file; reading returns NDArrays on
``cpu(0)`` for any device in the file. ``params.py`` implements the format.
"""

from __future__ import annotations

from collections.abc import Iterable

from .._core.frames import public
from ..context import cpu
from ..formats.mxnet import params
from ..formats.stored import Stored
from .ndarray import NDArray
from .sparse_dispatch import sparse_arrays

Loaded = dict[str, NDArray] | list[NDArray]


@public
def save(fname: str, data: NDArray | list[NDArray] | dict[str, NDArray]) -> None:
    """Write an array, a list or a dictionary of arrays; a failure leaves an old file intact.

    Raises TypeError or ValueError for other data, as MXNet does, and MXNetError if the file cannot
    be written.
    """
    _require_name(fname)
    _refuse_numpy_mode(data)
    if isinstance(data, NDArray):
        params.save(fname, [data._on_file()])
    elif isinstance(data, dict):
        _require_arrays(data.values())
        if any(not isinstance(name, str) for name in data):
            raise TypeError("save only accept dict str->NDArray or list of NDArray")
        params.save(fname, {name: array._on_file() for name, array in data.items()})
    elif isinstance(data, list):
        _require_arrays(data)
        params.save(fname, [array._on_file() for array in data])
    else:
        raise ValueError(
            "data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays."
        )


@public
def load(fname: str) -> Loaded:
    """Dictionary if the file has names, else a list (also if the file is empty).

    Raises TypeError if ``fname`` is not a string, MXNetError if the file cannot be opened, and
    ModelFormatError if its format is invalid.
    """
    _require_name(fname)
    return _wrapped(params.load_any(fname))


@public
def load_frombuffer(buf: bytes | str) -> Loaded:
    """:func:`load` for the contents of a file. Raises TypeError for other types than bytes and
    str."""
    if not isinstance(buf, (bytes, str)):
        raise TypeError("buf required to be a string or bytes")
    return _wrapped(params.loads_any(buf if isinstance(buf, bytes) else buf.encode("utf-8")))


def _wrapped(arrays: params.AnyArrays) -> Loaded:
    if isinstance(arrays, dict):
        return {name: _as_array(array) for name, array in arrays.items()}
    return [_as_array(array) for array in arrays]


def _as_array(found: params.AnyArray) -> NDArray:
    if isinstance(found, Stored):
        return sparse_arrays().wrapped(found, cpu())
    return NDArray(found, cpu())


def _refuse_numpy_mode(data: object) -> None:
    """Raise TypeError for arrays of NumPy mode, which ``npx.save`` writes."""
    parts = data.values() if isinstance(data, dict) else data if isinstance(data, list) else [data]
    if any(isinstance(part, NDArray) and part._plain is not NDArray for part in parts):
        raise TypeError("cannot save mxnet.numpy.ndarray using mxnet.ndarray.save; use npx.save")


def _require_name(fname: object) -> None:
    if not isinstance(fname, str):
        raise TypeError("fname required to be a string")


def _require_arrays(arrays: Iterable[object]) -> None:
    if any(not isinstance(array, NDArray) for array in arrays):
        raise TypeError("save only accept dict str->NDArray or list of NDArray")

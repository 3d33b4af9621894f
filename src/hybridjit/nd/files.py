"""``nd.save``, ``nd.load`` and ``nd.load_frombuffer``: NDArrays in MXNet's binary files.

In: NDArrays, alone, listed or by name. Out: the file; and NDArrays on ``cpu(0)``, whatever device
the file names. The format itself is in ``params.py``.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..context import cpu
from ..formats.mxnet import params
from ..formats.stored import Stored
from .ndarray import NDArray
from .sparse_dispatch import sparse_arrays

Loaded = dict[str, NDArray] | list[NDArray]


def save(fname: str, data: NDArray | list[NDArray] | dict[str, NDArray]) -> None:
    """Write an array, a list or a dictionary of arrays; an old file survives a failure.

    Raises TypeError or ValueError for other data, as MXNet does, and MXNetError when the file
    cannot be written.
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


def load(fname: str) -> Loaded:
    """A dictionary when the file holds names, else a list (also when it is empty).

    Raises TypeError when ``fname`` is not a string, MXNetError when it cannot be opened, and
    ModelFormatError when it is not such a file.
    """
    _require_name(fname)
    return _wrapped(params.load_any(fname))


def load_frombuffer(buf: bytes | str) -> Loaded:
    """The same for a file's content. Raises TypeError when it is neither bytes nor a string."""
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
    """Raises TypeError for arrays of NumPy mode, which ``npx.save`` writes."""
    parts = data.values() if isinstance(data, dict) else data if isinstance(data, list) else [data]
    if any(isinstance(part, NDArray) and part._plain is not NDArray for part in parts):
        raise TypeError("cannot save mxnet.numpy.ndarray using mxnet.ndarray.save; use npx.save")


def _require_name(fname: object) -> None:
    if not isinstance(fname, str):
        raise TypeError("fname required to be a string")


def _require_arrays(arrays: Iterable[object]) -> None:
    if any(not isinstance(array, NDArray) for array in arrays):
        raise TypeError("save only accept dict str->NDArray or list of NDArray")

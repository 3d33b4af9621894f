"""Functions of ``mx.np`` that arrays have and symbols do not have, such as ``np.array``."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .._core.frames import public
from .._core.recording import is_recording
from .._core.types import FLOAT32
from ..context import Context, current_context
from ..nd.memory import converted
from ..nd.ndarray import NDArray
from .arrays import as_dtype, ndarray


@public
def array(object: Any, dtype: Any = None, ctx: Any = None) -> ndarray:
    """Copy array-like data to a new array; float32 unless the data already have a dtype.

    Parameters
    ----------
    object : array_like
        Numbers, also nested lists.
    dtype : str or dtype, optional
        Element type; by default that of the data, else float32.
    ctx : Context, optional
        Context; by default the current one.

    Raises
    ------
    ValueError
        For a classic array.
    TypeError
        For data that are not numeric.
    KeyError
        For a dtype that arrays do not have.
    """
    is_own = isinstance(object, ndarray)
    if is_own and is_recording():
        return object.astype(as_dtype(dtype, object.dtype)).as_in_ctx(ctx or current_context())
    if is_own:
        source: Any = object._data
    elif isinstance(object, NDArray):
        raise ValueError(
            "If you're trying to create a mxnet.numpy.ndarray from mx.nd.NDArray, please use the "
            "zero-copy as_np_ndarray function."
        )
    else:
        source = _numbers(object)
    if is_own or isinstance(object, (onp.ndarray, onp.generic)):
        wanted = as_dtype(dtype, source.dtype)
    else:
        wanted = FLOAT32 if dtype is None else as_dtype(dtype)
    place = current_context() if ctx is None else Context(ctx)
    place.require_host("array")
    return ndarray(converted(source, wanted), place)


def asarray(obj: Any, dtype: Any = None, ctx: Any = None) -> ndarray:
    """``obj`` itself if it is an array of this element type, else :func:`array` of it.

    Parameters
    ----------
    obj : array_like
        Numbers, also nested lists.
    dtype : str or dtype, optional
        Element type; by default that of the data, else float32.
    ctx : Context, optional
        Context; by default the current one.
    """
    if isinstance(obj, ndarray) and (dtype is None or obj.dtype == as_dtype(dtype)):
        return obj
    return array(obj, dtype, ctx)


def asnumpy(a: ndarray) -> onp.ndarray:
    """A copy as an array of official NumPy."""
    return a.asnumpy()


def _numbers(values: Any) -> onp.ndarray:
    try:
        found = onp.asarray(values)
    except ValueError:
        raise TypeError("object must be array like: its rows differ in length") from None
    if found.dtype.kind not in "iufb":
        try:
            found = found.astype(onp.float64)
        except (TypeError, ValueError):
            raise TypeError(f"object must be array like, got {type(values)}") from None
    return found


_PYTHON = (float, int, bool)


def _plain(values: Any) -> Any:
    """Nested lists in which arrays are replaced by lists."""
    if isinstance(values, (list, tuple)):
        return [value if type(value) in _PYTHON else _plain(value) for value in values]
    return values._data if isinstance(values, NDArray) else values


def shape(a: Any) -> tuple[int, ...]:
    """Shape of an array or of nested lists."""
    return a.shape if isinstance(a, NDArray) else onp.shape(a)


def meshgrid(*xi: ndarray, **kwargs: Any) -> list[ndarray]:
    """Coordinate matrices of vectors. Raises NotImplementedError for sparse=True or copy=False."""
    indexing = kwargs.pop("indexing", "xy")
    if kwargs.pop("sparse", False):
        raise NotImplementedError("meshgrid does not support option sparse=True")
    if not kwargs.pop("copy", True):
        raise NotImplementedError("meshgrid only supports option copy=True")
    if kwargs:
        raise TypeError(f"meshgrid() got an unexpected keyword argument {sorted(kwargs)[0]!r}")
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    count = len(xi)
    places = list(range(count))
    if indexing == "xy" and count > 1:
        places[:2] = [1, 0]
    sizes = [0] * count
    for place, x in zip(places, xi):
        sizes[place] = x.size
    grids = []
    for place, x in zip(places, xi):
        under = tuple(x.size if i == place else 1 for i in range(count))
        grids.append(x.reshape(under).broadcast_to(tuple(sizes)))
    return grids


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Test whether two arrays, of this mode or of official NumPy, share memory."""
    return onp.shares_memory(_plain(a), _plain(b))


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Test whether two arrays, of this mode or of official NumPy, may share memory."""
    return onp.may_share_memory(_plain(a), _plain(b))


def genfromtxt(*args: Any, **kwargs: Any) -> ndarray:
    """Array of the values in a file, read by official NumPy."""
    return array(onp.genfromtxt(*args, **kwargs))


set_printoptions = onp.set_printoptions

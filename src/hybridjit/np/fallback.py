"""Functions that run official NumPy: arguments are converted to its arrays, results back.

They have no gradient, and symbols do not have these functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as onp

from .._core.types import CODE_OF_DTYPE
from ..nd.ndarray import NDArray
from .arrays import ndarray

_NAMES = """allclose apply_along_axis apply_over_axes argpartition argwhere array_equal
array_equiv choose compress corrcoef correlate count_nonzero cov digitize divmod
extract flatnonzero float_power frexp heaviside histogram2d histogram_bin_edges
histogramdd i0 interp intersect1d isclose isin ix_ lexsort min_scalar_type modf
nanargmax nanargmin nancumprod nancumsum nanmax nanmedian nanmin nanpercentile
nanprod nanquantile ndim packbits partition piecewise poly polyadd polydiv polyfit
polyint polymul polysub positive promote_types ptp real result_type rollaxis roots
searchsorted select setdiff1d setxor1d signbit size spacing take_along_axis
tril_indices_from trim_zeros triu_indices_from union1d unpackbits unwrap vander"""
NAMES = _NAMES.split()
_LATER = """angle conj convolve cross cumprod floor_divide fmod fromfunction gcd imag isscalar kron
logaddexp nanmean nansum nextafter ravel_multi_index sinc tri tril_indices"""  # MXNet 2.0
LINALG_NAMES = ("cond", "lstsq", "matrix_power", "matrix_rank", "multi_dot", "qr")


def _trapz(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """Integral by the trapezoidal rule."""
    y = onp.moveaxis(onp.asarray(y), axis, -1)
    steps = dx if x is None else onp.diff(onp.asarray(x))
    return ((y[..., 1:] + y[..., :-1]) / 2 * steps).sum(-1)


def _alltrue(a: Any, *args: Any, **kwargs: Any) -> Any:
    return onp.all(a, *args, **kwargs)


def _in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    return onp.isin(onp.ravel(ar1), ar2, assume_unique=assume_unique, invert=invert)


def _msort(a: Any) -> Any:
    return onp.sort(a, axis=0)


@functools.wraps(onp.count_nonzero)
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    found = onp.count_nonzero(a, axis, keepdims=keepdims)
    return int(found) if onp.ndim(found) == 0 else found


def _trim_zeros(filt: Any, trim: Any = "fb") -> Any:
    if onp.ndim(filt) == 0:
        raise TypeError("trim_zeros takes an array with one axis, got a scalar")
    if onp.ndim(filt) != 1 and onp.size(filt):
        raise ValueError("trim_zeros takes an array with one axis")
    return onp.trim_zeros(filt, trim) if onp.ndim(filt) == 1 else filt


# Names that newer versions of NumPy removed.
_DROPPED: dict[str, Callable[..., Any]] = {
    "alltrue": _alltrue,
    "in1d": _in1d,
    "msort": _msort,
    "trapz": getattr(onp, "trapezoid", _trapz),
}


def converted(value: Any) -> Any:
    """Replace arrays by official ones, also inside tuples, lists and dictionaries."""
    if isinstance(value, NDArray):
        return value.asnumpy()
    if isinstance(value, (list, tuple)):
        return type(value)(map(converted, value))
    if isinstance(value, dict):
        return {key: converted(item) for key, item in value.items()}
    return value


def back(value: Any) -> Any:
    """Replace official arrays by arrays of NumPy mode.

    Raises ValueError for a dtype that arrays of NumPy mode do not have.
    """
    if isinstance(value, onp.ndarray):
        if value.dtype not in CODE_OF_DTYPE:
            raise ValueError(f"{value.dtype} is not supported.")
        return ndarray(onp.array(value, order="C"))
    if isinstance(value, tuple) and type(value) is not tuple:  # a named tuple
        return tuple(map(back, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(back, value))
    return value


def fallback(name: str, official: Callable[..., Any]) -> Callable[..., Any]:
    """Function of official NumPy, wrapped for arrays of NumPy mode."""

    def function(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        made = back(official(*converted(args), **converted(kwargs)))
        if out is None:
            return made
        out[...] = made
        return out

    functools.update_wrapper(function, official, ("__name__", "__doc__"), ())
    function.__name__ = name
    return function


def functions() -> dict[str, Callable[..., Any]]:
    """Functions of ``mx.np`` that run official NumPy."""
    made = {name: getattr(onp, name, None) for name in (*NAMES, *_LATER.split())}
    found = {name: function for name, function in made.items() if function is not None}
    found.update(count_nonzero=_count_nonzero, trim_zeros=_trim_zeros)
    return {name: fallback(name, f) for name, f in {**found, **_DROPPED}.items()}


def linalg_functions() -> dict[str, Callable[..., Any]]:
    """Functions of ``mx.np.linalg`` that run official NumPy."""
    return {name: fallback(name, getattr(onp.linalg, name)) for name in LINALG_NAMES}

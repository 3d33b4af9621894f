"""Comparison of arrays and graphs, with messages that show the location and size of differences.

Input: NumPy arrays, NDArrays or Symbols. Output: a truth value, or an AssertionError.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from .._core.types import DType
from ..ir.node import topological
from ..nd import NDArray
from ..sym import Symbol

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Tolerance = float | Mapping[np.dtype, float] | None

_EXACT: dict[np.dtype, float] = {
    np.dtype(name): 0.0 for name in ("bool", "int8", "uint8", "int32", "int64")
}
_RTOLS: dict[np.dtype, float] = {
    np.dtype("f2"): 1e-2,
    np.dtype("f4"): 1e-4,
    np.dtype("f8"): 1e-5,
    **_EXACT,
}
_ATOLS: dict[np.dtype, float] = {
    np.dtype("f2"): 1e-1,
    np.dtype("f4"): 1e-3,
    np.dtype("f8"): 1e-20,
    **_EXACT,
}


def default_rtols() -> dict[np.dtype, float]:
    """Relative tolerances by element type."""
    return dict(_RTOLS)


def default_atols() -> dict[np.dtype, float]:
    """Absolute tolerances by element type."""
    return dict(_ATOLS)


def get_rtol(rtol: float | None = None, dtype: DType = np.float64) -> float:
    """``rtol``, or the relative tolerance of an element type."""
    return _RTOLS[np.dtype(dtype)] if rtol is None else rtol


def get_atol(atol: float | None = None, dtype: DType = np.float64) -> float:
    """``atol``, or the absolute tolerance of an element type."""
    return _ATOLS[np.dtype(dtype)] if atol is None else atol


def get_etol(etol: float | None = None) -> float:
    """``etol``, the fraction of elements that may differ, or 0."""
    return 0 if etol is None else etol


def get_tolerance(dat: ArrayLike, tol: Tolerance, default_tol: Mapping[np.dtype, float]) -> float:
    """The tolerance for an array: ``tol``, or the entry for its element type in one of the dicts.

    Raises KeyError for an element type that neither has.
    """
    if isinstance(tol, numbers.Number):
        return float(tol)  # type: ignore[arg-type]
    return {**default_tol, **(tol or {})}[_element_type(dat)]  # type: ignore[dict-item]


def get_tols(x: ArrayLike, y: ArrayLike, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """The larger default tolerances of both element types, unless tolerances are given.

    Integers have none: they must be equal.
    """
    dtypes = [_element_type(each) for each in (x, y)]
    return _largest(dtypes, rtol, _RTOLS), _largest(dtypes, atol, _ATOLS)


def checkShapes(a: ArrayLike, b: ArrayLike) -> None:
    """Raise AssertionError with both shapes unless they are equal."""
    _require_one_shape(a, b)


def locationError(
    a: np.ndarray,
    b: np.ndarray,
    index: tuple[int, ...],
    names: tuple[str, str],
    maxError: bool = False,
) -> str:
    """The text for two elements that differ.

    Parameters
    ----------
    a, b : numpy.ndarray
        Arrays of equal shapes.
    index : tuple of int
        Position of the elements.
    names : tuple of str
        Names of the arrays.
    maxError : bool
        Whether the difference is the largest one.
    """
    kind = "maximum error" if maxError else "error"
    values = ", ".join(f"{name}={x[index]:.8f}" for name, x in zip(names, (a, b)))
    return f"Location of {kind}: {index}, {values}"


def _largest(dtypes: list[np.dtype], given: Tolerance, known: Mapping[np.dtype, float]) -> float:
    if isinstance(given, numbers.Number):
        return float(given)  # type: ignore[arg-type]
    together = {**known, **(given or {})}  # type: ignore[dict-item]
    return max(together[dtype] for dtype in dtypes)


def _element_type(value: ArrayLike) -> np.dtype:
    if isinstance(value, numbers.Number):
        return np.asarray(value).dtype
    return np.dtype(getattr(value, "dtype", np.float64))


def same(a: ArrayLike, b: ArrayLike) -> bool:
    """Whether shapes and all elements are equal."""
    return np.array_equal(_values(a), _values(b))


def almost_equal(
    a: ArrayLike,
    b: ArrayLike,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    use_broadcast: bool = True,
) -> bool:
    """Whether |a - b| <= atol + rtol |b| everywhere."""
    if not use_broadcast:
        _require_one_shape(a, b)
    return np.allclose(_values(a), _values(b), get_rtol(rtol), get_atol(atol), equal_nan)


def assert_almost_equal(
    a: ArrayLike,
    b: ArrayLike,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """Raise AssertionError with the worst elements unless |a - b| <= atol + rtol |b| everywhere.

    ``mismatches[0]`` elements are shown. Default tolerances follow from the element types.
    """
    if not use_broadcast:
        _require_one_shape(a, b)
    relative, absolute = get_tols(a, b, rtol, atol)
    x, y = _values(a), _values(b)
    if np.allclose(x, y, relative, absolute, equal_nan):
        return
    raise AssertionError(_complaint(x, y, relative, absolute, names, equal_nan, mismatches[0]))


def _complaint(
    x: np.ndarray,
    y: np.ndarray,
    rtol: float,
    atol: float,
    names: tuple[str, str],
    equal_nan: bool,
    shown: int,
) -> str:
    """The number of elements that differ, and the worst of them with their indices."""
    x, y = np.broadcast_arrays(x, y)
    wrong = ~np.isclose(x, y, rtol, atol, equal_nan)
    distance = np.abs(x.astype(np.float64) - y.astype(np.float64))
    violation = distance / (atol + rtol * np.abs(y.astype(np.float64)) + 1e-20)
    violation = np.where(wrong, np.nan_to_num(violation, nan=np.inf), -1)
    order = np.argsort(violation, axis=None)[::-1][: min(shown, int(wrong.sum()))]
    what = f"{wrong.sum()} of {wrong.size} elements differ" if x.ndim else "the numbers differ"
    lines = [f"{what} by more than rtol={rtol:g}, atol={atol:g}"]
    for flat in order:
        place = tuple(int(i) for i in np.unravel_index(flat, x.shape))
        where = f"at {place}: " if place else ""
        lines.append(
            f"    {where}{names[0]}={x[place]!s}, {names[1]}={y[place]!s}, "
            f"error {violation[place]:g} times the tolerance"
        )
    return "\n".join(lines)


def assert_allclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-7, atol: float = 0, equal_nan: bool = True
) -> None:
    """Raise AssertionError unless |a - b| <= atol + rtol |b| everywhere."""
    assert_almost_equal(a, b, rtol, atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(
    a: ArrayLike,
    b: ArrayLike,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    etol: float | None = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """As ``assert_almost_equal``, but a fraction ``etol`` of the elements may differ."""
    relative, absolute = get_tols(a, b, rtol, atol)
    x, y = _values(a), _values(b)
    close = np.isclose(x, y, relative, absolute, equal_nan)
    if 1 - close.mean() > (etol or 0):
        raise AssertionError(_complaint(x, y, relative, absolute, names, equal_nan, mismatches[0]))


def assert_almost_equal_ignore_nan(
    a: ArrayLike,
    b: ArrayLike,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: tuple[str, str] = ("a", "b"),
) -> None:
    """As ``assert_almost_equal``, except for elements where either is NaN."""
    x, y = np.array(_values(a)), np.array(_values(b))
    x[np.isnan(x) | np.isnan(y)] = 0
    y[np.isnan(_values(a)) | np.isnan(y)] = 0
    assert_almost_equal(x, y, rtol, atol, names)


def assert_exception(
    f: Callable[..., object], exception_type: type[BaseException], *args: object, **kwargs: object
) -> None:
    """Raise AssertionError unless ``f(*args, **kwargs)`` raises ``exception_type``."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{f} did not raise {exception_type.__name__}")


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """Whether both arrays share memory: a write to one changes the other."""
    return bool(np.shares_memory(array1._data, array2._data)) and same(array1, array2)


def same_symbol_structure(sym1: Symbol, sym2: Symbol) -> bool:
    """Whether both graphs have the same operators, with the same connections."""
    return _structure(sym1) == _structure(sym2)


def _structure(symbol: Symbol) -> list[tuple[str | None, list[tuple[int, int]]]]:
    """Each node's operator and the indices of the nodes that it reads."""
    numbers = {node: i for i, node in enumerate(topological(symbol.outputs))}
    return [
        (
            node.op.name if node.op else None,
            [(numbers[edge.node], edge.index) for edge in node.inputs],
        )
        for node in numbers
    ]


def _values(array: ArrayLike) -> np.ndarray:
    return array.asnumpy() if isinstance(array, NDArray) else np.asarray(array)


def _require_one_shape(a: ArrayLike, b: ArrayLike) -> None:
    assert np.shape(a) == np.shape(b), (
        f"a.shape = {np.shape(a)} and b.shape = {np.shape(b)} are not equal"
    )

"""Names that NumPy has removed since 1.18, restored for programs of MXNet's time.

Input: NumPy's module. Output: the same module, with the old names and meanings. Existing names do
not change, except for ``fromstring`` of bytes, which would raise. Removed features of NumPy's
arrays (``itemset``, ``float`` of an array with one element) cannot be restored, because their type
accepts no attributes.
"""

from __future__ import annotations

import ast
import builtins
import math
import pickle
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.types import DType

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Equivalents of the names in current NumPy.
_RENAMED = {
    **{"Inf": "inf", "Infinity": "inf", "PINF": "inf", "infty": "inf", "NaN": "nan", "NAN": "nan"},
    **{"float_": "float64", "longfloat": "longdouble", "unicode_": "str_", "string_": "bytes_"},
    **{"complex_": "complex128", "cfloat": "complex128", "singlecomplex": "complex64"},
    **{"longcomplex": "clongdouble", "clongfloat": "clongdouble"},
    **{"bool8": "bool_", "int0": "intp", "uint0": "uintp", "object0": "object_", "void0": "void"},
    **{"str0": "str_", "bytes0": "bytes_", "typeDict": "sctypeDict"},
    **{"product": "prod", "cumproduct": "cumprod", "sometrue": "any", "alltrue": "all"},
    **{"round_": "round", "row_stack": "vstack", "trapz": "trapezoid", "mat": "asmatrix"},
    "rank": "ndim",
}
_EXCEPTIONS = [
    *("AxisError", "ComplexWarning", "ModuleDeprecationWarning", "RankWarning", "TooHardError"),
    "VisibleDeprecationWarning",
]
_BUILTINS = ["bool", "int", "float", "complex", "object", "str"]
_OF_LIB = ["pad"]


def restore_numpy_names() -> None:
    """Set every name that this NumPy lacks, and make ``fromstring`` accept bytes again."""
    _restore(np, builtins, {name: name for name in _BUILTINS} | {"unicode": "str"})
    _restore(np, np, _RENAMED)
    _restore(np, np.exceptions, {name: name for name in _EXCEPTIONS})
    _restore(np.lib, np, {name: name for name in _OF_LIB})
    if hasattr(np.lib, "array_utils"):
        _restore(np, np.lib.array_utils, {"byte_bounds": "byte_bounds"})
    for name, value in _VALUES.items():
        vars(np).setdefault(name, value)
    if np.fromstring.__module__ != __name__:
        np.fromstring = _with_bytes(np.fromstring)


def _restore(module: ModuleType, source: ModuleType, names: Mapping[str, str]) -> None:
    for name, theirs in names.items():
        if name not in vars(module):
            setattr(module, name, getattr(source, theirs))


def _with_bytes(of_text: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def fromstring(
        string: Any, dtype: DType = float, count: int = -1, *, sep: str = "", **options: object
    ) -> np.ndarray:
        """A new array of the numbers in a string, or without ``sep`` of the bytes of a buffer."""
        if sep:
            return of_text(string, dtype, count, sep=sep, **options)
        data = string.encode() if isinstance(string, str) else string
        if not len(data):
            return np.empty(0, dtype)
        return np.frombuffer(data, dtype, count).copy()

    fromstring.__module__ = __name__
    return fromstring


def _alen(a: ArrayLike) -> int:
    return len(np.array(a, ndmin=1))


def _asscalar(a: np.ndarray) -> Any:
    return a.item()


def _asfarray(a: ArrayLike, dtype: DType = np.float64) -> np.ndarray:
    wanted = np.dtype(dtype)
    return np.asarray(a, wanted if np.issubdtype(wanted, np.inexact) else np.float64)


def _in1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, invert: bool = False
) -> np.ndarray:
    return np.isin(np.asarray(ar1).ravel(), ar2, assume_unique=assume_unique, invert=invert)


def _msort(a: ArrayLike) -> np.ndarray:
    return np.sort(a, axis=0)


def _fast_copy_and_transpose(a: ArrayLike) -> np.ndarray:
    return np.asarray(a).T.copy()


def _find_common_type(
    array_types: Iterable[DType], scalar_types: Iterable[DType]
) -> np.dtype | None:
    """The common type of arrays, unless a scalar has another, wider kind."""
    arrays, scalars = ([np.dtype(t) for t in types] for types in (array_types, scalar_types))
    if not arrays or not scalars:
        return np.result_type(*arrays, *scalars) if arrays or scalars else None
    of_arrays, of_scalars = np.result_type(*arrays), np.result_type(*scalars)
    kinds = "buifcSUVO"
    if kinds.index(of_scalars.kind) > kinds.index(of_arrays.kind):
        return np.result_type(of_scalars, of_arrays)
    return of_arrays


def _issubclass(arg1: type, arg2: type) -> bool:
    try:
        return issubclass(arg1, arg2)
    except TypeError:
        return False


def _obj2sctype(rep: DType | np.ndarray, default: type | None = None) -> type | None:
    """The scalar type of a type, an array or a name."""
    if isinstance(rep, type) and issubclass(rep, np.generic):
        return rep
    if isinstance(rep, np.ndarray):
        return rep.dtype.type
    try:
        return np.dtype(rep).type
    except TypeError:
        return default


def _issctype(rep: DType | np.ndarray) -> bool:
    return isinstance(rep, (type, np.dtype)) and _obj2sctype(rep, np.object_) is not np.object_


def _issubsctype(arg1: DType, arg2: DType) -> bool:
    return issubclass(*map(_obj2sctype, (arg1, arg2)))  # type: ignore[arg-type]


def _sctype2char(sctype: DType) -> str:
    found = _obj2sctype(sctype)
    if found is None:
        raise ValueError("unrecognized type")
    return np.dtype(found).char


class _Cast:
    """``np.cast["float32"](x)``."""

    def __getitem__(self, dtype: DType) -> Callable[[ArrayLike], np.ndarray]:
        return lambda x: np.asarray(x).astype(dtype)


class _Sizes:
    """``np.nbytes["float32"]``."""

    def __getitem__(self, dtype: DType) -> int:
        return np.dtype(dtype).itemsize


_VALUES: dict[str, object] = {
    "NINF": -math.inf,
    "PZERO": 0.0,
    "NZERO": -0.0,
    "alen": _alen,
    "asfarray": _asfarray,
    "asscalar": _asscalar,
    "cast": _Cast(),
    "compare_chararrays": np.char.compare_chararrays,
    "fastCopyAndTranspose": _fast_copy_and_transpose,
    "find_common_type": _find_common_type,
    "in1d": _in1d,
    "issctype": _issctype,
    "issubclass_": _issubclass,
    "issubsctype": _issubsctype,
    "loads": pickle.loads,
    "math": math,
    "msort": _msort,
    "nbytes": _Sizes(),
    "obj2sctype": _obj2sctype,
    "safe_eval": ast.literal_eval,
    "sctype2char": _sctype2char,
    "sctypes": {
        "int": [np.int8, np.int16, np.int32, np.int64],
        "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
        "float": [np.float16, np.float32, np.float64, np.longdouble],
        "complex": [np.complex64, np.complex128, np.clongdouble],
        "others": [bool, object, bytes, str, np.void],
    },
}

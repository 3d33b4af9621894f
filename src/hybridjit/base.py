"""``mx.base``: error classes and tuples of Python types for MXNet programs."""

from __future__ import annotations

import os
from typing import TypeVar

import numpy as np

from ._core.types import NULL as _Null  # noqa: F401 (MXNet's names, which programs import)
from ._core.types import NullType as _NullType  # noqa: F401
from .errors import MXNetError, NotImplementedForSymbol

string_types = (str,)
basestring = (str,)
long = int
numeric_types = (float, int, np.generic)
integer_types = (int, np.int32, np.int64)
mx_real_t = np.float32

_Item = TypeVar("_Item")


def py_str(text: str | bytes) -> str:
    """``text`` as a str, decoded if it is bytes."""
    return text.decode("utf-8") if isinstance(text, bytes) else text


def data_dir_default() -> str:
    """MXNet's default folder of files."""
    return os.path.join(os.path.expanduser("~"), ".mxnet")


def data_dir() -> str:
    """Folder of files: ``MXNET_HOME``, or ``~/.mxnet``."""
    return os.getenv("MXNET_HOME", data_dir_default())


def _as_list(value: _Item | list[_Item] | tuple[_Item, ...]) -> list[_Item] | tuple[_Item, ...]:
    """``value`` in a list, unless it is a list or a tuple."""
    return value if isinstance(value, (list, tuple)) else [value]


class NotSupportedForSparseNDArray(MXNetError):
    """Sparse arrays do not support this method, such as ``reshape`` and views."""


__all__ = [
    "MXNetError",
    "NotImplementedForSymbol",
    "NotSupportedForSparseNDArray",
    "basestring",
    "data_dir",
    "data_dir_default",
    "integer_types",
    "long",
    "mx_real_t",
    "numeric_types",
    "py_str",
    "string_types",
]

"""What MXNet programs import from ``mx.base``: error classes and the groups of Python types."""

from __future__ import annotations

import numpy as np

from .errors import MXNetError, NotImplementedForSymbol

string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.int32, np.int64)
mx_real_t = np.float32


def py_str(text: str | bytes) -> str:
    """``text`` as a str, decoded when it is bytes."""
    return text.decode("utf-8") if isinstance(text, bytes) else text


__all__ = [
    "MXNetError",
    "NotImplementedForSymbol",
    "integer_types",
    "mx_real_t",
    "numeric_types",
    "py_str",
    "string_types",
]

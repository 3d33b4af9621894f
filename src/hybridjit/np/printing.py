"""Printed form of NumPy mode's arrays: NumPy's, except that float32 is the dtype not printed."""

from __future__ import annotations

import numpy as onp

_SILENT = (onp.dtype("float32"), onp.dtype("bool"))


def text_of(data: onp.ndarray) -> str:
    """Printed form of an array, such as ``array([1., 2.])``."""
    options = onp.get_printoptions()
    body = onp.array2string(data, separator=", ", prefix="array(") if data.size else "[]"
    parts = [] if data.size or data.shape == (0,) else [f"shape={data.shape}"]
    if data.dtype not in _SILENT:
        parts.append(f"dtype={data.dtype.name}")
    if not parts:
        return f"array({body})"
    more = ", ".join(parts)
    last = len("array(") + len(body) if "\n" not in body else len(body) - body.rfind("\n") - 1
    if last + len(more) + 3 > options["linewidth"]:
        return f"array({body},\n      {more})"
    return f"array({body}, {more})"

"""How passes write what moves or converts elements: reshape, transpose, broadcast, slices, casts.

In: a use. Out: a use; the same one where nothing moves.
"""

from __future__ import annotations

import numpy as np

from ..errors import ShapeError
from ..ir.graph import Use, make

Marks = tuple["int | None", ...]


def reshaped(use: Use, shape: tuple[int, ...], name: str, source: str = "") -> Use:
    """``use`` under another shape; itself when it has that shape already."""
    if use.type.shape == shape:
        return use
    return Use(make("_reshape_to", name, [use], source, shape=shape))


def transposed(use: Use, axes: tuple[int, ...], name: str) -> Use:
    """``use`` with its axes in the given order; itself when that is the order they have."""
    if axes == tuple(range(len(axes))):
        return use
    return Use(make("transpose", name, [use], axes=axes))


def cut(use: Use, axis: int, start: int, size: int, name: str, source: str = "") -> Use:
    """``size`` elements of an axis from ``start`` on; itself when that is all of them.

    Raises ShapeError when it is none of them.
    """
    sizes = use.type.dims
    if size == sizes[axis]:
        return use
    if size == 0:
        raise ShapeError(f"an empty slice of axis {axis}")
    begin = tuple(start if i == axis else 0 for i in range(len(sizes)))
    end = tuple(start + size if i == axis else d for i, d in enumerate(sizes))
    return sliced(use, begin, end, (1,) * len(sizes), name, source)


def sliced(use: Use, begin: Marks, end: Marks, step: Marks, name: str, source: str = "") -> Use:
    """A part of every axis, as Python slices it."""
    return Use(make("slice", name, [use], source, begin=begin, end=end, step=step))


def broadcast(use: Use, shape: tuple[int, ...], name: str, source: str = "") -> Use:
    """``use`` with axes of size 1 repeated; itself when it has that shape already."""
    if use.type.shape == shape:
        return use
    return Use(make("broadcast_to", name, [use], source, shape=shape))


def cast(use: Use, dtype: np.dtype | None, name: str) -> Use:
    """``use`` as another element type; itself when it has that."""
    return use if use.type.dtype == dtype else Use(make("Cast", name, [use], dtype=dtype))

"""MXNet's two shape semantics: the meaning of 0, -1 and () in users' shapes.

In the classic semantics 0 and -1 are unknown sizes, and () is an unknown shape. In NumPy's, which
``np_shape`` switches on for a thread, -1 is an unknown size and None an unknown shape; 0 is the
size of an axis without elements, and () the shape of a scalar. A second switch of the thread
selects arrays of NumPy mode.

Input: shapes in the user's form, or in the internal one with None for unknowns. Output: the other
form, by the semantics of the calling thread.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence

Partial = tuple["int | None", ...]

_OFF, _IN_THREAD, _EVERYWHERE = 0, 1, 2


class _Semantics(threading.local):
    """Whether this thread uses NumPy's semantics of shapes, and NumPy's arrays."""

    is_numpy = False
    has_numpy_arrays = False


class _Shared:
    """Whether all threads use NumPy's semantics of shapes."""

    is_numpy = False


_semantics = _Semantics()


def is_np_shape() -> bool:
    """Whether shapes have NumPy's semantics, in which 0 is a size rather than unknown."""
    return _semantics.is_numpy or _Shared.is_numpy


def set_np_shape(active: int) -> bool:
    """Switch NumPy's semantics on (True) or off (False); returns the thread's previous state.

    True switches it on for this thread, 2 for all threads. Off undoes both, except where other
    threads
    switched it on for themselves. Raises TypeError for a value that is not an integer, ValueError
    for
    off while this thread has arrays of NumPy mode.
    """
    wanted, before = operator.index(active), is_np_shape()
    if not wanted and is_np_array():
        raise ValueError(
            "Deactivating NumPy shape semantics while NumPy array semantics is still active is not "
            "allowed: call npx.reset_np(), which switches both off"
        )
    if wanted in (_OFF, _EVERYWHERE):
        _Shared.is_numpy = wanted == _EVERYWHERE
    if wanted in (_OFF, _IN_THREAD, _EVERYWHERE):
        _semantics.is_numpy = wanted != _OFF
    return before


def is_np_array() -> bool:
    """Whether Gluon makes arrays of NumPy mode in this thread."""
    return _semantics.has_numpy_arrays


def set_np_array(active: bool) -> bool:
    """Switch arrays of NumPy mode on or off for this thread; returns the previous state."""
    before = _semantics.has_numpy_arrays
    _semantics.has_numpy_arrays = bool(active)
    return before


def partial_shape(given: Sequence[int] | None) -> Partial | None:
    """The internal form of a user's shape, with None for unknowns. Sizes below -1 stay."""
    if given is None:
        return None
    if is_np_shape():
        return tuple(None if size == -1 else size for size in given)
    return tuple(None if size in (0, -1) else size for size in given) or None


def shown_shape(partial: Partial | None) -> tuple[int, ...] | None:
    """The user's form of an internal shape."""
    if is_np_shape():
        return None if partial is None else tuple(-1 if s is None else s for s in partial)
    return () if partial is None else tuple(0 if s is None else s for s in partial)

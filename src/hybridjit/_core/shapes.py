"""What 0, -1 and () mean in the shapes that users give and get: MXNet's two shape semantics.

The switch for arrays of NumPy mode is a second one of the same thread.

In the classic one 0 and -1 are sizes that are not known yet, and () is a shape of which nothing is
known. In NumPy's, which ``np_shape`` switches on for a thread, -1 is the size and None the shape
that is not known; 0 is the size of an axis without elements, and () the shape of a number.

In: shapes as users write them, or with None for what is unknown, as they are everywhere inside.
Out: the other form, by the semantics of the thread that asks.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence

Partial = tuple["int | None", ...]

_OFF, _IN_THREAD, _EVERYWHERE = 0, 1, 2


class _Semantics(threading.local):
    """Whether this thread's shapes are NumPy's, and whether its arrays are."""

    is_numpy = False
    has_numpy_arrays = False


class _Shared:
    """Whether every thread's are."""

    is_numpy = False


_semantics = _Semantics()


def is_np_shape() -> bool:
    """Whether shapes have NumPy's semantics, in which 0 is a size rather than unknown."""
    return _semantics.is_numpy or _Shared.is_numpy


def set_np_shape(active: int) -> bool:
    """Switch NumPy's semantics on (True) or off (False); returns what this thread had before.

    On is on for this thread; 2 is on for all. Off takes both away, but not what other threads
    have switched on for themselves. Raises TypeError for a value that is not an integer, ValueError
    for off while this thread has arrays of NumPy mode.
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
    """A user's shape with None for what it leaves open. Sizes below -1 stay as they are."""
    if given is None:
        return None
    if is_np_shape():
        return tuple(None if size == -1 else size for size in given)
    return tuple(None if size in (0, -1) else size for size in given) or None


def shown_shape(partial: Partial | None) -> tuple[int, ...] | None:
    """A shape as users read it."""
    if is_np_shape():
        return None if partial is None else tuple(-1 if s is None else s for s in partial)
    return () if partial is None else tuple(0 if s is None else s for s in partial)

"""Undo log: old array contents for work that must be done completely or not at all.

Input: work that writes arrays, and objects whose attributes it changes. Output: the completed work,
or an exception with the previous state restored. Old values are saved at the first write of an
array, and only elements that are overwritten: for an update by a row_sparse gradient, its rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .storage import Storage


class _Open(threading.local):
    """Undo log of this thread's outermost unit of work."""

    undo: Undo | None = None


OPEN = _Open()


class Undo:
    """Log of old values and of functions that restore them."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []
        self._whole: set[int] = set()  # ids of arrays saved completely; the log keeps these alive

    def own(self, *owners: object) -> None:
        """Save the attributes of these objects."""
        self._steps += [attributes_of(owner) for owner in owners]

    def keep(self, data: np.ndarray, storage: Storage, key: Any = ...) -> None:
        """Save the elements of an array at ``key`` before they are overwritten."""
        if id(data) in self._whole:
            return
        part = data[key]
        is_whole = part.size == data.size
        place = ... if is_whole else key
        old = np.array(data[place])

        def back() -> None:
            data[place] = old
            storage.bump()

        self._steps.append(back)
        if is_whole:
            self._whole.add(id(data))

    def note(self, back: Callable[[], None]) -> None:
        """Add a function to call at restoration. It may run twice."""
        self._steps.append(back)

    def restore(self) -> None:
        """Restore the previous state, last change first."""
        for back in reversed(self._steps):
            back()


def whole(work: Callable[[], None], done: list[Any], *owners: object) -> None:
    """Run ``work``; if it raises, restore the arrays that it wrote and the owners' attributes.

    ``done`` gets an element at the point after which nothing is undone. A nested call becomes part
    of the outer unit of work.
    """
    if OPEN.undo is not None:
        OPEN.undo.own(*owners)
        work()
        done.append(True)
        return
    undo = Undo()
    try:
        undo.own(*owners)
        OPEN.undo = undo
        work()
        OPEN.undo = None
        done.append(True)
    except BaseException:
        OPEN.undo = None
        if not done:
            undo.restore()
        raise


def attributes_of(owner: object) -> Callable[[], None]:
    """Function that restores an object's attributes; its dictionaries keep their identity."""
    return _kept(vars(owner)) if hasattr(owner, "__dict__") else _nothing


def _kept(known: dict[Any, Any]) -> Callable[[], None]:
    before = dict(known)
    inner = [_kept(value) for value in before.values() if type(value) is dict]

    def back() -> None:
        known.update(before)
        for name in known.keys() - before.keys():
            del known[name]
        for restore in inner:
            restore()

    return back


def _nothing() -> None:
    """Restore nothing: the object does not have attributes."""

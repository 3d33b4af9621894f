"""Undo: what arrays held before a piece of work that has to be done as a whole, or not at all.

In: work that writes arrays, and the objects whose attributes it changes. Out: all of it done, or
an exception with everything as it was. Old values are kept at the first write of an array, and only
those that are overwritten: of a step by a row_sparse gradient the gradient's rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .memory import DenseArray


class _Open(threading.local):
    """The undo of this thread's outermost piece of work."""

    undo: Undo | None = None


OPEN = _Open()


class Undo:
    """Old values, and how they come back."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []
        self._whole: set[int] = set()  # addresses of arrays that were kept, which stay in use

    def own(self, *owners: object) -> None:
        """Keep the attributes of these objects."""
        self._steps += [attributes_of(owner) for owner in owners]

    def keep(self, array: DenseArray, key: Any = ...) -> None:
        """Keep the elements of ``array`` at ``key``, which are about to be overwritten."""
        data, storage = array._data, array._storage
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
        """Call ``back``, which may run twice, where everything comes back."""
        self._steps.append(back)

    def restore(self) -> None:
        """Let everything be as it was, the last change first."""
        for back in reversed(self._steps):
            back()


def whole(work: Callable[[], None], done: list[Any], *owners: object) -> None:
    """Run ``work``; where it raises, restore the arrays that it wrote and the owners' attributes.

    ``done`` has an element more from the moment on from which nothing is undone. Inside of another
    such piece of work this is a part of it.
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
    """What lets an object have the attributes that it has now, dictionaries as the same objects."""
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
    """An object without attributes of its own."""

"""``mx.engine``: how many operations MXNet's engine may run as one.

Nothing is deferred here: every call has finished when it returns. So the size is remembered, as
programs set it and set it back, and has no other effect.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager

_size = 0


def set_bulk_size(size: int) -> int:
    """Remember ``size``; returns the one before. Raises TypeError for what is no whole number."""
    global _size
    before, _size = _size, operator.index(size)
    return before


@contextmanager
def bulk(size: int) -> Iterator[None]:
    """``set_bulk_size(size)`` for a ``with`` block."""
    before = _size
    try:
        set_bulk_size(size)
        yield
        set_bulk_size(before)
    except BaseException:
        set_bulk_size(before)
        raise

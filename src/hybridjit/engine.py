"""``mx.engine``: the number of operations that MXNet's engine may execute together.

hybridjit has no deferred execution: every call has finished when it returns. The number is stored
for programs that set and restore it, and has no other effect.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager

_size = 0


def set_bulk_size(size: int) -> int:
    """Store ``size``, and return the previous one. Raises TypeError unless it is an integer."""
    global _size
    before, _size = _size, operator.index(size)
    return before


@contextmanager
def bulk(size: int) -> Iterator[None]:
    """Call ``set_bulk_size(size)`` for the duration of a ``with`` block."""
    before = _size
    try:
        set_bulk_size(size)
        yield
        set_bulk_size(before)
    except BaseException:
        set_bulk_size(before)
        raise

"""Names that Python's library took away from 3.7 on and that programs of MXNet's time use.

In: ``collections`` and ``time``. Out: the same, in which the names mean what they did.
"""

from __future__ import annotations

import collections
import collections.abc
import time


def restore_python_names() -> None:
    """Set ``collections.Mapping`` and its kin, and ``time.clock``, where they are not there."""
    for name in collections.abc.__all__:
        vars(collections).setdefault(name, getattr(collections.abc, name))
    vars(time).setdefault("clock", time.process_time)

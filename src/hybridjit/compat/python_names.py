"""Names that Python's library has removed since 3.7, restored for programs of MXNet's time.

Input: ``collections`` and ``time``. Output: the same modules, with the old names and meanings.
"""

from __future__ import annotations

import collections
import collections.abc
import time


def restore_python_names() -> None:
    """Set ``collections.Mapping`` and similar names, and ``time.clock``, if they are missing."""
    for name in collections.abc.__all__:
        vars(collections).setdefault(name, getattr(collections.abc, name))
    vars(time).setdefault("clock", time.process_time)

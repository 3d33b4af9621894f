"""Limits for tests that wait: reached by a hang alone, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 900.0  # seconds for work that takes a moment, or a minute


def wait_until(is_so: Callable[[], object], what: str = "nothing happened") -> None:
    """Wait for a condition. AssertionError where it does not come."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.01)

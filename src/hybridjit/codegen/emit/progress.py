"""A terminal line with the progress of a long compilation. Short ones print nothing."""

from __future__ import annotations

import sys
import time

# Seconds from which on progress is shown.
_LONG = 2.0


class Progress:
    """``expect`` kernels, ``step`` after each of them, ``end`` at the end."""

    def __init__(self) -> None:
        self._name, self._total, self._count = "", 0, 0
        self._start = time.monotonic()
        self._shown = False

    def expect(self, count: int, name: str) -> None:
        """Announce ``count`` more kernels, those of ``name``."""
        self._name, self._total = name, self._total + count

    def step(self) -> None:
        """Record that one more kernel is compiled."""
        self._count += 1
        if time.monotonic() - self._start > _LONG and _is_terminal():
            text = f"hybridjit: compiling {self._name}, kernel {self._count} of {self._total}"
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
            self._shown = True

    def end(self) -> None:
        """Erase the line."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # closed
        return False

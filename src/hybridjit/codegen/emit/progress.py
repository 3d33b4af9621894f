"""A line on a terminal that says how far a long compilation is. Short ones say nothing."""

from __future__ import annotations

import sys
import time

# Seconds after which a user wonders what is going on.
_LONG = 2.0


class Progress:
    """``expect`` kernels, ``step`` after every one, ``end`` when there is no more to say."""

    def __init__(self) -> None:
        self._name, self._total, self._count = "", 0, 0
        self._start = time.monotonic()
        self._shown = False

    def expect(self, count: int, name: str) -> None:
        """So many more kernels are to be compiled, those of ``name``."""
        self._name, self._total = name, self._total + count

    def step(self) -> None:
        """One more kernel is there."""
        self._count += 1
        if time.monotonic() - self._start > _LONG and _is_terminal():
            text = f"hybridjit: compiling {self._name}, kernel {self._count} of {self._total}"
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
            self._shown = True

    def end(self) -> None:
        """Take the line back."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # closed
        return False

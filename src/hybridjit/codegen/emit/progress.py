"""The progress of a long compilation, on a terminal or in a notebook. Short ones print nothing."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

# Seconds from which on progress is shown.
_LONG = 2.0


class Progress:
    """``expect`` kernels, ``step`` after each of them, ``end`` at the end."""

    def __init__(self) -> None:
        self._name, self._total, self._count = "", 0, 0
        self._start = time.monotonic()
        self._line: _Line | None = None

    def expect(self, count: int, name: str) -> None:
        """Announce ``count`` more kernels, those of ``name``."""
        self._name, self._total = name, self._total + count

    def step(self) -> None:
        """Record that one more kernel is compiled."""
        self._count += 1
        if time.monotonic() - self._start <= _LONG:
            return
        self._line = self._line or _line()
        if self._line is not None:
            text = f"hybridjit: compiling {self._name}, kernel {self._count} of {self._total}"
            self._line.show(text)

    def end(self) -> None:
        """Erase the line."""
        if self._line is not None:
            self._line.erase()
            self._line = None


class _Line(Protocol):
    def show(self, text: str) -> None: ...

    def erase(self) -> None: ...


class _OnTerminal:
    """A line of standard error that is written again."""

    def show(self, text: str) -> None:
        print(f"\r{text}", end="", file=sys.stderr, flush=True)

    def erase(self) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class _InNotebook:
    """An output of the notebook's cell that is replaced."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, text: str) -> None:
        content = {"text/plain": text}
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def erase(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


def _line() -> _Line | None:
    """The place for progress; None if there is neither a terminal nor a notebook."""
    display = _notebook_display()
    if display is not None:
        return _InNotebook(display)
    return _OnTerminal() if _is_terminal() else None


def _notebook_display() -> Any:
    """IPython's ``display`` in the kernel of a notebook, else None."""
    module = sys.modules.get("IPython")
    shell = getattr(module, "get_ipython", lambda: None)()
    if not hasattr(shell, "kernel"):
        return None
    return getattr(getattr(module, "display", None), "display", None)


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # closed
        return False

"""Work in a thread of its own, begun and awaited in single steps of C.

``threading.Thread.start`` waits until the thread runs, in Python code that an exception can leave
with a lock of the standard library half released.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable
from queue import Empty, SimpleQueue


class Task:
    """Runs ``work`` in a thread that does not keep the process from exiting.

    ``work`` sees to its own exceptions. Raises RuntimeError where no thread can be started.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._end: SimpleQueue[None] = SimpleQueue()
        start_new_thread(_run, (work, self._end))

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, for so long at most; whether it came."""
        try:
            self._end.get(timeout=seconds)
        except Empty:
            return False
        self._end.put(None)  # for whoever asks again
        return True


def _run(work: Callable[[], None], end: SimpleQueue[None]) -> None:
    try:
        work()
    finally:
        end.put(None)

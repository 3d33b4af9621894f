"""Work in a thread of its own, begun and awaited in single steps of C.

``threading.Thread.start`` waits until the thread runs, in Python code that an exception can leave
with a lock of the standard library half released. In threads that are begun here nothing is raised
from outside: handlers of signals run in the main thread, and nobody else knows of them.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

R = TypeVar("R")


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


def undisturbed(work: Callable[[], R]) -> R:
    """What ``work`` returns or raises, done by a thread in which nothing else is raised.

    An exception that comes to the caller meanwhile leaves the work to its end. Where no thread can
    be started the caller does it.
    """
    answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def answer() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:
            answers.put((None, error))

    try:
        start_new_thread(answer, ())
    except RuntimeError:
        answer()
    result, error = answers.get()
    if error is None:
        return result
    try:
        raise error
    finally:
        del error  # its traceback holds this frame


def _run(work: Callable[[], None], end: SimpleQueue[None]) -> None:
    try:
        work()
    finally:
        end.put(None)

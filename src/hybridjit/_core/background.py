"""Work in a thread of its own, begun and awaited in single steps of C.

``threading.Thread.start`` waits until the thread runs, in Python code that an exception can leave
with a lock of the standard library half released. In threads that are begun here nothing is raised
from outside: handlers of signals run in the main thread, and nobody else knows of them.

A thread that finds no memory for its first frame ends without having run any of it. Whoever waits
for one sees that by what the thread holds, which is gone with it.
"""

from __future__ import annotations

import weakref
from _thread import start_new_thread
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeVar

R = TypeVar("R")

_LOOK = 0.5  # seconds between looks whether a thread is there, which cost nothing
_LONGEST = 1e9


class Task:
    """Runs ``work`` in a thread that does not keep the process from exiting.

    ``work`` sees to its own exceptions. Raises RuntimeError where no thread can be started.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._end: SimpleQueue[None] = SimpleQueue()
        run = partial(_run, work, self._end)
        self._thread = weakref.ref(run)
        start_new_thread(run, ())

    def wait(self, seconds: float = _LONGEST) -> bool:
        """Wait for the end, for so long at most; whether it came."""
        until = monotonic() + seconds
        while self._thread() is not None:
            left = until - monotonic()
            try:
                self._end.get(timeout=max(0.0, min(left, _LOOK)))
            except Empty:
                if left <= 0:
                    return False
            else:
                self._end.put(None)  # for whoever asks again
                return True
        return True


def begin(work: Callable[[], None]) -> Task | None:
    """A task, or None where no thread can be started."""
    try:
        return Task(work)
    except RuntimeError:
        return None


def undisturbed(work: Callable[[], R]) -> R:
    """What ``work`` returns or raises, done by a thread in which nothing else is raised.

    An exception that comes to the caller meanwhile leaves the work to its end. Where no thread can
    be started the caller does it. Raises MemoryError where one is started and cannot run.
    """
    answers: list[tuple[Any, BaseException | None]] = []

    def answer() -> None:
        try:
            answers.append((work(), None))
        except BaseException as error:
            answers.append((None, error))

    task = begin(answer)
    if task is None:
        answer()
    else:
        task.wait()
    if not answers:
        raise MemoryError("a thread was started, and had no memory to run")
    result, error = answers.pop()
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

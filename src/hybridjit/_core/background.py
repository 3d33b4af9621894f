"""Work in a separate thread, started and awaited in single calls of C functions.

``threading.Thread.start`` waits in Python code until the thread runs; an exception there can leave
a lock of the standard library half released. The threads started here receive no exceptions from
outside: signal handlers run in the main thread, and other code holds no reference to them.

A thread that finds no memory for its first frame ends without running anything. Waiters notice that
by the objects that the thread holds, which are freed with it.
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

_LOOK = 0.5  # seconds between cheap checks whether the thread exists
_LONGEST = 1e9


class Task:
    """Runs ``work`` in a thread that does not keep the process from exiting.

    ``work`` handles its exceptions. Raises RuntimeError where no thread can be started.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._end: SimpleQueue[None] = SimpleQueue()
        run = partial(_run, work, self._end)
        self._thread = weakref.ref(run)
        start_new_thread(run, ())

    def wait(self, seconds: float = _LONGEST) -> bool:
        """Wait for the end, for at most ``seconds``; returns whether it came."""
        until = monotonic() + seconds
        while self._thread() is not None:
            left = until - monotonic()
            try:
                self._end.get(timeout=max(0.0, min(left, _LOOK)))
            except Empty:
                if left <= 0:
                    return False
            else:
                self._end.put(None)  # for the next waiter
                return True
        return True


def begin(work: Callable[[], None]) -> Task | None:
    """A task, or None where no thread can be started."""
    try:
        return Task(work)
    except RuntimeError:
        return None


def undisturbed(work: Callable[[], R]) -> R:
    """Run ``work`` in a thread that receives no exceptions from outside; returns its result.

    An exception raised by ``work`` is raised here. An exception that comes to the caller meanwhile
    waits until the work ends. Where no thread can be started, the caller does the work. Raises
    MemoryError where a thread is started and cannot run.
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

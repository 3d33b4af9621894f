"""Raising an exception at every place of a piece of work, one place at a time.

In: a function to run. Out: how many places it passes in hybridjit (and in those files of the
standard library that act on its behalf), and runs of it that an :class:`Interrupt` ends at one of
them. A place is a bytecode, or the first visit to a line.

A signal handler raises between two bytecodes of the main thread, but CPython looks for signals
only at some: where a function begins, after calls, on jumps back. All bytecodes are more than that.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import tempfile
import threading
import time
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import hybridjit

Work = Callable[[], object]

_PACKAGE = str(Path(hybridjit.__file__).resolve().parent)
_HELPERS = tuple(str(m.__file__) for m in (contextlib, tempfile, threading, weakref))


class Interrupt(KeyboardInterrupt):
    """Exception of a signal handler."""


@dataclass
class Visits:
    """The places of one run: the code of each frame, how many bytecodes it ran, and the lines."""

    codes: list[CodeType] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    lines: dict[tuple[CodeType, int], None] = field(default_factory=dict)

    def of(self, kind: str) -> int:
        """How many places of a kind there are."""
        return sum(self.turns) if kind == "opcodes" else len(self.lines)


def _is_traced(code: CodeType, known: dict[str, bool] = {}) -> bool:  # noqa: B006 (a cache)
    file = code.co_filename
    if file not in known:
        known[file] = file.startswith(_PACKAGE) or file in _HELPERS
    return known[file]


def _traced(function: Any, work: Work) -> None:
    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # CPython 3.12 asks this when tracing begins
    sys.settrace(function)
    try:
        next(_in_a_generator(work))
    finally:
        sys.settrace(before)


def _in_a_generator(work: Work) -> Iterator[object]:
    """Run ``work`` with an exception state that ends with it.

    An exception between the first bytecodes of a handler leaves the handled exception on CPython's
    stack of handled exceptions; every later exception of the thread would have it as its context.
    A generator has a separate stack.
    """
    yield work()


def _by_opcodes(frame: FrameType, local: Any) -> Any:
    """Trace the bytecodes of a frame that begins, not only its lines, by ``local``."""
    frame.f_trace = local  # CPython 3.13 turns them on where there is one already
    frame.f_trace_opcodes = True
    return local


def visits(work: Work) -> Visits:
    """The places that ``work`` passes."""
    found = Visits()
    turn_of: dict[FrameType, int] = {}

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            found.turns[turn_of[frame]] += 1
        elif event == "line":
            found.lines[frame.f_code, frame.f_lineno] = None
        elif event == "return":
            turn_of.pop(frame, None)
        return local

    def enter(frame: FrameType, event: str, arg: Any) -> Any:
        if not _is_traced(frame.f_code):
            return None
        turn_of[frame] = len(found.turns)
        found.codes.append(frame.f_code)
        found.turns.append(1)  # the entry itself
        return _by_opcodes(frame, local)

    _traced(enter, work)
    return found


@dataclass
class Attempt:
    """One run of some work: the place of the interrupt, and the outcome.

    The exception is kept, and with it the frames that it left: a program that handles it has them
    too.
    """

    place: str = ""
    outcome: str = "missed"
    error: BaseException | None = None

    def make(self, work: Work) -> None:
        """Run ``work``, which raises at a recorded place, and record the outcome."""
        with _unraisable_noted(self):
            try:
                work()
                if self.place and self.outcome == "missed":
                    self.outcome = "swallowed"
            except Interrupt as error:
                self.outcome, self.error = "raised", error
            except Exception as error:
                self.outcome, self.error = f"became {error!r}", error


class Breaker:
    """Runs work and raises at one of the places that an earlier run visited."""

    def __init__(self, seen: Visits, kind: str) -> None:
        self._kind = kind
        self._codes = seen.codes
        self._ends = list(accumulate(seen.turns))
        self._lines = list(seen.lines)
        self.count = seen.of(kind)

    def run(self, work: Work, number: int) -> Attempt:
        """Run ``work`` with an interrupt at place ``number``."""
        attempt = Attempt()
        tracer = self._at_opcode if self._kind == "opcodes" else self._at_line
        attempt.make(lambda: _traced(tracer(number, attempt), work))
        return attempt

    def _at_opcode(self, number: int, attempt: Attempt) -> Any:
        turn = bisect_right(self._ends, number)
        left = number - (self._ends[turn - 1] if turn else 0)
        code = self._codes[turn]
        before = self._codes[:turn].count(code)  # finalisers of other code come as they like

        def local(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal left
            if event == "opcode":
                left -= 1
                if left == 0:
                    _raise(frame, attempt, f"+{frame.f_lasti}")
            return local

        def enter(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal before
            if frame.f_code is not code:
                return None
            before -= 1
            if before != -1:
                return None
            if left == 0:
                _raise(frame, attempt, "+entry")
            return _by_opcodes(frame, local)

        return enter

    def _at_line(self, number: int, attempt: Attempt) -> Any:
        code, line = self._lines[number]

        def local(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line" and frame.f_lineno == line:
                _raise(frame, attempt, "")
            return local

        return lambda frame, event, arg: local if frame.f_code is code else None


class Alarm:
    """Runs work and raises from the handler of a signal that comes at some time of it.

    Signals come into the frames of every library, and between bytecodes only where CPython looks.
    """

    def __init__(self, seconds: float, seed: int = 0) -> None:
        self._seconds = seconds
        self._random = random.Random(seed)
        self._is_inside = False

    def run(self, work: Work, number: int) -> Attempt:
        """Run ``work`` with an interrupt at random, after at most as long as it takes."""
        attempt = Attempt()
        seconds = max(1e-6, self._random.random() * self._seconds)
        before = signal.signal(signal.SIGALRM, lambda _, frame: self._heard(attempt, frame))

        def timed() -> None:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            self._is_inside = True
            work()
            self._is_inside = False

        attempt.make(timed)
        self._is_inside = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        return attempt

    def _heard(self, attempt: Attempt, frame: FrameType | None) -> None:
        if self._is_inside and frame is not None:
            self._is_inside = False
            _raise(frame, attempt, "")


def _raise(frame: FrameType, attempt: Attempt, where: str) -> None:
    code = frame.f_code
    attempt.place = f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}{where}"
    raise Interrupt(attempt.place)


@contextlib.contextmanager
def _unraisable_noted(attempt: Attempt) -> Iterator[None]:
    """An exception in a finaliser cannot be raised: Python reports it and goes on."""

    def note(report: Any) -> None:
        if isinstance(report.exc_value, Interrupt):
            attempt.outcome = "unraisable"

    before, sys.unraisablehook = sys.unraisablehook, note
    try:
        yield
    finally:
        sys.unraisablehook = before


def evenly(count: int) -> Iterator[int]:
    """The numbers below ``count``, each once; however few are taken, they lie evenly."""
    digits = max(0, count - 1).bit_length()
    for i in range(1 << digits):
        number = int(f"{i:0{digits}b}"[::-1], 2) if digits else 0
        if number < count:
            yield number


def described(error: BaseException) -> str:
    """The first line of an error."""
    text = str(error).split("\n")[0] or repr(error)
    return text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"


def interrupted(case: Any, breaker: Breaker | Alarm, number: int) -> tuple[Attempt, str]:
    """One attempt on a case, and the error after it, or an empty string."""
    case.prepare()
    attempt = breaker.run(case.work, number)
    try:
        assert attempt.outcome in ("raised", "unraisable", "missed"), attempt.outcome
        case.check()
    except Exception as error:
        return attempt, described(error)
    return attempt, ""


def alarm_of(case: Any, seed: int = 0) -> Alarm:
    """Interrupts a case by signals, at times within its duration."""
    took = []
    for _ in range(3):
        case.prepare()
        start = time.perf_counter()
        case.work()
        took.append(time.perf_counter() - start)
        case.check()
    return Alarm(min(took), seed)


def breaker_of(case: Any) -> Breaker:
    """Interrupts a case at places, counted after a first run for lazy initialisation."""
    for _ in range(2):
        case.prepare()
        case.work()
        case.check()
    case.prepare()
    seen = visits(case.work)
    case.check()
    return Breaker(seen, case.kind)

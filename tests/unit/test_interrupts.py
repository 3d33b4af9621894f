"""An exception between any two bytecodes: nothing wrong afterwards, and nothing left behind.

The short form: of each piece of work as many places as fit into a moment, evenly over it.
``tools/interrupt.py`` tries all of them.
"""

from __future__ import annotations

import faulthandler
import gc
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import llvmlite.binding
import pytest

import hybridjit
import interrupted_process
from hybridjit._core.config import config
from hybridjit._core.fork_locks import Rank, held_at_fork
from hybridjit.codegen.emit import generate
from interrupted_process import Process
from interrupted_work import CASES, Call, Case
from interrupting import Alarm, Breaker, alarm_of, breaker_of, evenly, interrupted
from patience import PATIENCE

SECONDS = 0.15  # for each piece of work, beside its setting up
LEAST = 5  # places tried even if one takes longer


@pytest.fixture
def process(nothing_stored: None) -> Iterator[Process]:
    """This process on two threads, with a guard against hanging and no surprise collections."""
    before, folder = hybridjit.get_num_threads(), config.cache_dir
    hybridjit.set_num_threads(2)
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    gc.collect()
    gc.disable()
    made = Process()
    yield made
    made.close()
    gc.enable()
    faulthandler.cancel_dump_traceback_later()
    hybridjit.set_num_threads(before)
    config.cache_dir = folder


def go_through(case: Case, by: Breaker | Alarm, numbers: Iterable[int]) -> int:
    """How many places were tried until the time was up. AssertionError at the first that is bad."""
    end, tried = time.monotonic() + SECONDS, 0
    for tried, number in enumerate(numbers):
        if time.monotonic() > end and tried >= LEAST:
            break
        attempt, wrong = interrupted(case, by, number)
        assert not wrong, f"place {number}, {attempt.place}: {wrong}"
    return tried


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_wrong_after_an_interrupt(process, name):
    case = CASES[name](process)
    try:
        breaker = breaker_of(case)
        tried = go_through(case, breaker, evenly(breaker.count))
        print(f"{tried} of {breaker.count} {case.kind}")
    finally:
        case.close()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
@pytest.mark.parametrize("name", ["set-data-large", "first-call", "load", "export"])
def test_nothing_is_wrong_after_a_signal(process, name):
    case = CASES[name](process)
    try:
        print(f"{go_through(case, alarm_of(case), count())} signals")
    finally:
        case.close()


def test_llvm_is_called_in_other_threads(process):
    """Whatever is raised in the caller's: llvmlite frees memory twice after an exception.

    Of a compilation, its loading, and the end of both.
    """
    case = CASES["first-call"](process)
    case.prepare()
    here: set[str] = set()
    binding = str(Path(llvmlite.binding.__file__).parent)

    def enter(frame, event, arg):
        if frame.f_code.co_filename.startswith(binding):
            here.add(frame.f_code.co_qualname)

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        case.work()
        case.net = None
        generate._KERNELS.clear()
        gc.collect()
    finally:
        sys.settrace(before)
        case.close()
    assert here == set()


# ---- the tests of the tests


class Planted(Call):
    """A call, and code as it should not be: it releases a lock in a separate bytecode."""

    def ready(self) -> None:
        lock = held_at_fork(Rank.BINDING)
        path = Path(hybridjit.__file__).parent / "planted.py"
        scope = {"lock": lock}
        exec(compile("def planted():\n with lock:\n  pass\n", path, "exec"), scope)  # noqa: S102
        self.planted = scope["planted"]

    def work(self) -> object:
        return self.planted()


def test_a_planted_mistake_is_found(process, monkeypatch):
    monkeypatch.setattr(interrupted_process, "LONGEST_HOLD", 0.5)
    case = Planted(process)
    breaker = breaker_of(case)
    found = []
    for number in range(breaker.count):
        found.append(interrupted(case, breaker, number)[1])
        while held_at_fork(Rank.BINDING)._is_owned():
            held_at_fork(Rank.BINDING).release()
    case.close()
    assert "held: BINDING" in found and "" in found


def test_places_lie_evenly():
    assert sorted(evenly(13)) == list(range(13))
    assert list(evenly(8))[:4] == [0, 4, 2, 6]
    assert list(evenly(1)) == [0] and list(evenly(0)) == []

"""An exception between any two bytecodes: nothing wrong afterwards, and nothing left behind.

The short form: of each piece of work as many places as fit into a moment, evenly over it.
``tools/interrupt.py`` tries all of them.
"""

from __future__ import annotations

import faulthandler
import gc
import time
from collections.abc import Iterator

import pytest

import hybridjit
from hybridjit.config import config
from interrupted_process import Process
from interrupted_work import CASES
from interrupting import breaker_of, evenly, interrupted

SECONDS = 0.5  # for each piece of work, beside its setting up
LEAST = 5  # places tried even if one takes longer
LONGEST = 120.0  # seconds after which something hangs


@pytest.fixture
def process() -> Iterator[Process]:
    """This process on two threads, with a guard against hanging and no surprise collections."""
    before, folder = hybridjit.get_num_threads(), config.cache_dir
    hybridjit.set_num_threads(2)
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    gc.collect()
    gc.disable()
    made = Process()
    yield made
    made.close()
    gc.enable()
    faulthandler.cancel_dump_traceback_later()
    hybridjit.set_num_threads(before)
    config.cache_dir = folder


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_wrong_after_an_interrupt(process, name):
    case = CASES[name](process)
    try:
        breaker = breaker_of(case)
        end, tried = time.monotonic() + SECONDS, 0
        for tried, number in enumerate(evenly(breaker.count)):
            if time.monotonic() > end and tried >= LEAST:
                break
            attempt, wrong = interrupted(case, breaker, number)
            assert not wrong, f"place {number}, {attempt.place}: {wrong}"
        print(f"{tried} of {breaker.count} {case.kind}")
    finally:
        case.close()

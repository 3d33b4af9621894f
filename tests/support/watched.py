"""Cases run one after the other in a separate process, which may crash or hang.

In: a function from the number of a case to its error and whether it ran. Out: findings
and counts, printed; the process that a case ended is made anew for the cases behind it.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hybridjit._core.config import override
from reading import address_space

Verdict = Callable[[int], tuple[str, bool]]

SECONDS = 15  # of the processor for one case that Python can interrupt
HANGS = 60  # for one that it cannot
WAITS = 1200  # by the clock, for one that does nothing
MEMORY = 1 << 30
CASES = 5000  # in one process: kernels stay loaded, a thousand take 70 MB


class TooSlow(BaseException):
    """A case that took longer than any should."""


def _out_of_time(*_: object) -> None:
    raise TooSlow


def run_watched(verdict: Verdict, first: int, count: int, replay: str) -> int:
    """Run cases [first, first + count) and print errors; return their number.

    ``replay`` is the command that repeats a case, without its number.
    """
    context = multiprocessing.get_context("fork")
    at, ran, wrong = (context.Value("q", n) for n in (first, 0, 0))
    start, end = time.monotonic(), first + count
    while at.value < end:
        last = min(at.value + CASES, end)
        arguments = (verdict, at.value, last, at, ran, wrong, replay)
        process = context.Process(target=_work, args=arguments)
        process.start()
        if what := _watch(process, at):
            wrong.value += 1
            print(f"{what}\n  {replay} {at.value}", flush=True)
            at.value += 1
        print(f"up to {at.value - 1}: {ran.value} ran, {wrong.value} wrong", flush=True)
    took = time.monotonic() - start
    print(f"cases {first}..{end - 1}: {ran.value} ran, {wrong.value} wrong, {took:.0f} s")
    return int(wrong.value)


def _watch(process: Any, at: Any) -> str:
    """Wait for the end of a process: how a case ended it, or nothing."""
    seen, since, used = at.value, time.monotonic(), 0.0
    while True:
        process.join(1)
        if process.exitcode is not None:
            return f"ended by signal {-process.exitcode}" if process.exitcode else ""
        if at.value != seen:
            seen, since, used = at.value, time.monotonic(), _used(process.pid)
        elif _used(process.pid) - used > HANGS or time.monotonic() - since > WAITS:
            process.kill()
            process.join()
            return f"does not end within {HANGS} s of the processor, or {WAITS} s"


def _used(pid: int) -> float:
    """Seconds of the processor that a process took (Linux)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _work(
    verdict: Verdict, first: int, end: int, at: Any, ran: Any, wrong: Any, replay: str
) -> None:
    faulthandler.enable(sys.__stderr__)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _out_of_time)
    verdict(first)  # loads all that is loaded once, before memory is bounded
    with address_space(MEMORY), override(cache_dir="off"):
        for number in range(first, end):
            at.value = number
            what, has_run = _judged(verdict, number)
            ran.value += has_run
            if what:
                wrong.value += 1
                print(f"{what}\n  {replay} {number}", flush=True)
    at.value = end


def _judged(verdict: Verdict, number: int) -> tuple[str, bool]:
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return verdict(number)
    except MemoryError:
        return "", False
    except (Exception, TooSlow):
        return traceback.format_exc(limit=-3).strip(), False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)

"""Call public functions with wrong types and shapes; only documented exceptions may come out.

    python tools/fuzz_calls.py --count 1000000          calls 0 to 999999
    python tools/fuzz_calls.py --replay 4711            one call, with its traceback

Calls run in a separate folder, with bounded memory and time. Findings are distinguished by the
place where they come from, and each is printed once with the command that replays it. Exit code:
0 without findings, 1 with some.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import hybridjit  # noqa: E402
from calls import PLAIN_NUMBERS, call_case, complaint, where  # noqa: E402
from hybridjit import autograd  # noqa: E402
from reading import address_space  # noqa: E402

REPORT = 10_000
SECONDS = 10
PATIENCE = 6  # retries before a call without progress is given up
MEMORY = 1 << 30


class TooSlow(BaseException):
    """A call that took longer than any should."""


class Clock:
    """Raises TooSlow in a call that takes long; one that was given no processor gets more time."""

    def __init__(self) -> None:
        self._begun = 0.0
        self._left = 0

    def start(self) -> None:
        self._begun, self._left = time.process_time(), PATIENCE
        signal.setitimer(signal.ITIMER_REAL, SECONDS)

    def ring(self, *_: object) -> None:
        self._left -= 1
        if time.process_time() - self._begun > SECONDS / 2 or not self._left:
            raise TooSlow
        signal.setitimer(signal.ITIMER_REAL, SECONDS)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


CLOCK = Clock()


@contextlib.contextmanager
def quietly():
    """In a folder that goes away, without warnings, output of calls, and changes of switches."""
    before = os.getcwd()
    with (
        autograd.pause(),
        hybridjit.threads(hybridjit.get_num_threads()),
        tempfile.TemporaryDirectory(prefix="hybridjit-calls-") as folder,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        os.chdir(folder)
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                yield
        finally:
            os.chdir(before)
            logging.disable(logging.NOTSET)


def attempt(number: int) -> tuple[str, BaseException | None]:
    """Make one call; return the error of its result, and the exception."""
    call = call_case(number)
    CLOCK.start()
    try:
        call.run()
    except TooSlow as error:
        plain = where(error).startswith(PLAIN_NUMBERS)  # powers of Python's own integers
        return "" if plain else f"{call}\n  too slow", error
    except Exception as error:
        wrong = complaint(error, call.strict)
        return (f"{call}\n  {wrong}: {str(error)[:200]}" if wrong else ""), error
    finally:
        CLOCK.stop()
    return "", None


def run(job: tuple[int, int]) -> int:
    """Calls one after the other; how many findings there are."""
    first, count = job
    faulthandler.enable(sys.__stderr__)
    signal.signal(signal.SIGALRM, CLOCK.ring)
    found: Counter[str] = Counter()
    refused, start, out = 0, time.monotonic(), sys.stdout
    with quietly(), address_space(MEMORY):
        for done, number in enumerate(range(first, first + count), 1):
            wrong, error = attempt(number)
            refused += error is not None
            if wrong and error is not None:
                place = f"{type(error).__name__} {where(error)}"
                found[place] += 1
                if found[place] == 1:
                    print(f"{place}: {wrong}\n  python tools/fuzz_calls.py --replay {number}",
                          file=out, flush=True)  # fmt: skip
            if done % REPORT == 0 or done == count:
                took = time.monotonic() - start
                print(f"calls {first}..{number}: {refused} refused, {len(found)} findings, "
                      f"{took:.0f} s", file=out, flush=True)  # fmt: skip
    for place, times in found.most_common():
        print(f"{times:6} {place}", file=out)
    return len(found)


def replay(number: int) -> int:
    print(call_case(number))
    try:
        print("gives", call_case(number).run())
    except Exception as error:
        traceback.print_exc()
        print(complaint(error, call_case(number).strict) or "a documented exception")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first call")
    parser.add_argument("--count", type=int, default=10_000, help="how many")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--replay", type=int, metavar="CALL", help="one call instead")
    args = parser.parse_args()
    if args.replay is not None:
        return replay(args.replay)
    share = -(-args.count // args.processes)
    end = args.seed + args.count
    jobs = [(first, min(share, end - first)) for first in range(args.seed, end, share)]
    if len(jobs) == 1:
        return 1 if run(jobs[0]) else 0
    with multiprocessing.get_context("spawn").Pool(len(jobs)) as pool:
        return 1 if any(pool.map(run, jobs)) else 0


if __name__ == "__main__":
    sys.exit(main())

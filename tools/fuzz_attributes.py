"""Change the attributes of graphs that MXNet wrote; compile what is left, and compare with NumPy.

    python tools/fuzz_attributes.py --count 10000            cases 0 to 9999
    python tools/fuzz_attributes.py --replay 4711            one case, with its graph

Only MXNetError may come out, memory is bounded, and what runs has to agree. Exit code: 0 if all
cases do, 1 if one does not.
"""

from __future__ import annotations

import argparse
import faulthandler
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from mutants import mutant_text, verdict  # noqa: E402
from reading import address_space  # noqa: E402

REPORT = 1000
SECONDS = 30
MEMORY = 2 << 30


class TooSlow(BaseException):
    """A case that took longer than any should."""


def _out_of_time(*_: object) -> None:
    raise TooSlow


def run(first: int, count: int) -> int:
    """Cases one after the other; how many are wrong."""
    faulthandler.enable(sys.__stderr__)
    signal.signal(signal.SIGALRM, _out_of_time)
    verdict(first)  # loads all that is loaded once, before memory is bounded
    wrong, ran, start = 0, 0, time.monotonic()
    with address_space(MEMORY):
        for done, number in enumerate(range(first, first + count), 1):
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            try:
                what, has_run = verdict(number)
                ran += has_run
            except (Exception, TooSlow):
                what = traceback.format_exc(limit=-3).strip()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if what:
                wrong += 1
                replay = f"python tools/fuzz_attributes.py --replay {number}"
                print(f"{what}\n  {replay}", flush=True)
            if done % REPORT == 0 or done == count:
                took = time.monotonic() - start
                print(
                    f"cases {first}..{number}: {ran} ran, {wrong} wrong, {took:.0f} s", flush=True
                )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first case")
    parser.add_argument("--count", type=int, default=1000, help="how many")
    parser.add_argument("--replay", type=int, metavar="CASE", help="one case instead")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.replay is None:
        return 1 if run(args.seed, args.count) else 0
    print(mutant_text(args.replay))
    print(verdict(args.replay)[0] or "agrees, or is refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())

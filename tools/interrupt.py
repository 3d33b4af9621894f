"""Interrupt pieces of work at every place in turn, and check the state afterwards.

    python tools/interrupt.py                              all cases, on 1, 2 and 4 threads
    python tools/interrupt.py call set-data --threads 2    some
    python tools/interrupt.py --most 500                   this number of places of each, evenly
    python tools/interrupt.py --signals 1000               this number of signals at random times
    python tools/interrupt.py call --threads 2 --at 117    one place, with all that is said

A case is a name in interrupted_work.py; a place is a bytecode, or the first visit to a line.
Cases run in separate processes: one that hangs is ended and counts as a finding. Prints a line
for every finding, and for every case how many places were tried. Exit code: 0 without findings,
else 1.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import hybridjit
from hybridjit._core.config import config

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from interrupted_process import Process  # noqa: E402
from interrupted_work import CASES, Case  # noqa: E402
from interrupting import Alarm, Breaker, alarm_of, breaker_of, interrupted  # noqa: E402

LONGEST = 60.0  # seconds for one place
FINDINGS = 400  # of one case: the rest is not worth running
_COLLECT = 200  # attempts between collections of garbage


@dataclass(frozen=True)
class Trial:
    """Places to try: ``first`` to ``last`` of a case, ``most`` of all, or a number of signals."""

    name: str
    threads: int
    first: int
    last: int
    most: int
    signals: int

    def words(self) -> list[str]:
        """The command line that asks for it."""
        options = {"threads": self.threads, "from": self.first, "to": self.last}
        options |= {"most": self.most, "signals": self.signals}
        return [self.name, *(f"--{name}={value}" for name, value in options.items())]


# ---- the process that is interrupted


def run_trial(trial: Trial) -> None:
    """Print ``total N``, then ``at NUMBER`` before each place and its outcome."""
    faulthandler.enable()
    config.cache_dir = "off"
    hybridjit.set_num_threads(trial.threads)
    if not trial.signals:
        gc.disable()  # finalisers run where they always do
    faulthandler.dump_traceback_later(LONGEST, exit=True)  # a thread, so before they are counted
    case = CASES[trial.name](Process())
    try:
        if trial.signals:
            go_through(trial, case, alarm_of(case, trial.first), trial.signals, 1)
        else:
            breaker = breaker_of(case)
            go_through(trial, case, breaker, breaker.count, max(1, breaker.count // trial.most))
    finally:
        faulthandler.cancel_dump_traceback_later()
        case.close()


def go_through(trial: Trial, case: Case, by: Breaker | Alarm, count: int, step: int) -> None:
    """All places, or until something is wrong: then later ones may be wrong because of it."""
    print(f"total {count}", flush=True)
    for number in range(trial.first, min(count, trial.last), step):
        faulthandler.dump_traceback_later(LONGEST, exit=True)
        print(f"at {number}", flush=True)
        attempt, wrong = interrupted(case, by, number)
        if attempt.outcome == "missed" and not wrong and not trial.signals:
            del attempt  # objects kept alive by an earlier exception shorten the run
            gc.collect()
            attempt, wrong = interrupted(case, by, number)
        if wrong:
            print(f"wrong {attempt.place}: {wrong}", flush=True)
            return
        print(attempt.outcome, flush=True)
        del attempt
        if number % _COLLECT == 0:
            gc.collect()
    print("end", flush=True)


# ---- the process that watches


@dataclass
class Tally:
    """The outcomes of the places of one case."""

    name: str
    threads: int
    total: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return sum(self.outcomes.values())

    def note(self, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def __str__(self) -> str:
        rest = ", ".join(f"{n} {what}" for what, n in sorted(self.outcomes.items()))
        return (
            f"{self.name}, {self.threads} threads: {self.tried} of {self.total} places, "
            f"{len(self.findings)} findings ({rest})"
        )


def watch(trial: Trial) -> Tally:
    """Run a case in processes until all places were tried; a finding ends a process."""
    tally, start = Tally(trial.name, trial.threads), trial.first
    while start is not None and len(tally.findings) < FINDINGS:
        start = _one_process(tally, replace(trial, first=start))
    return tally


def _one_process(tally: Tally, trial: Trial) -> int | None:
    """The place to go on with; None at the end."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, __file__, "--run", *trial.words()]
    process = subprocess.Popen(command, cwd=ROOT, **pipes)  # type: ignore[call-overload]
    said: list[str] = []
    listener = threading.Thread(target=lambda: said.extend(process.stderr), daemon=True)
    listener.start()
    place, kind = trial.first, ""
    for line in process.stdout:
        kind, _, rest = line.strip().partition(" ")
        if kind == "total":
            tally.total = int(rest)
        elif kind == "at":
            place = int(rest)
        elif kind == "wrong":
            tally.note("wrong")
            _report(tally, place, rest)
        elif kind != "end":
            tally.note(kind)
    process.wait()
    listener.join(1)
    if process.returncode:
        tally.note("hung or died")
        _report(tally, place, f"exit code {process.returncode}\n" + "".join(said[-40:]))
    is_over = kind == "end" or not tally.total
    return None if is_over else place + max(1, tally.total // trial.most)


def _report(tally: Tally, place: int, what: str) -> None:
    tally.findings.append(what)
    print(f"{tally.name} --threads {tally.threads} --at {place}: {what}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--most", type=int, default=1 << 60, help="places of a case, evenly")
    parser.add_argument("--signals", type=int, default=0, help="signals at random times instead")
    parser.add_argument("--at", type=int, help="try this place alone")
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--to", dest="last", type=int, default=1 << 60)
    parser.add_argument("--processes", type=int, default=1, help="cases that run at a time")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.at is not None:
        args.first, args.last = args.at, args.at + 1
    bounds = (args.first, args.last, args.most, args.signals)
    trials = [Trial(name, n, *bounds) for n in args.threads for name in args.cases or CASES]
    if args.run:
        run_trial(trials[0])
        return 0
    start = time.monotonic()
    with ThreadPoolExecutor(args.processes) as pool:
        running = [pool.submit(watch, trial) for trial in trials]
        tallies = []
        for future in running:
            tallies.append(future.result())
            print(tallies[-1], flush=True)
    tried, found = sum(t.tried for t in tallies), sum(len(t.findings) for t in tallies)
    print(f"{tried} places, {found} findings, {time.monotonic() - start:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Signals at random times into a loop of calls: does a call hang, or give other bits?

    python tools/storm.py --interrupts 200000 [--threads 2,4] [--seed 0]

A timer's signal comes every 0.1 to 3 ms, and its handler raises. Every call that comes to its end
is compared with the bits that the network gives on one thread. Prints how many interrupts and calls
there were, how many results were wrong, and the CPU time of the process between calls; fails
when a result is wrong, when a minute passes without an end of some call, or when anything spins.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import signal
import sys
import time
from collections.abc import Callable
from itertools import cycle

import numpy as np

from hybridjit import gluon, nd, threads
from hybridjit.cli.arguments import counts

_SILENCE = 60  # seconds without the end of a call that mean that there will be none
_MOST_IDLE = 0.05  # of a core, between calls


class Interrupt(BaseException):
    """The exception of the handler: no other code catches it."""


class Storm:
    """A timer whose signals raise inside :meth:`attempt`, and nowhere else."""

    def __init__(self, seed: int) -> None:
        self.heard = 0
        self._random = random.Random(seed)
        self._is_inside = False

    def __enter__(self) -> Storm:
        signal.signal(signal.SIGALRM, self._handle)
        self._wind()
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def attempt(self, work: Callable[[], None]) -> None:
        """``work()``, to its end or to an interrupt."""
        try:
            self._is_inside = True
            work()
            self._is_inside = False
        except Interrupt:
            pass

    def _wind(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._random.uniform(0.0001, 0.003))

    def _handle(self, *_: object) -> None:
        self._wind()
        if self._is_inside:
            self._is_inside = False
            self.heard += 1
            raise Interrupt


class Mixed(gluon.HybridBlock):
    """A dense layer that threads share, a step in NumPy, an index that is checked, another one."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.first = gluon.nn.Dense(300, in_units=300)
            self.last = gluon.nn.Dense(100, in_units=300)

    def hybrid_forward(self, F, x, index):
        y = F.sort(self.first(x), axis=0)
        return self.last(F.take(y, index, mode="raise"))


def make_calls() -> list[tuple[str, Callable[[int], np.ndarray]]]:
    """Ways to call, each for inputs 0 to 3."""
    layers = gluon.nn.HybridSequential()
    with layers.name_scope():
        layers.add(gluon.nn.Dense(400, activation="tanh"), gluon.nn.Dense(100))
    mixed, series = Mixed(), gluon.rnn.LSTM(24)  # without barriers from step to step
    for net in (layers, mixed, series):
        net.initialize()
        net.hybridize()
    numbers = np.random.default_rng(0)
    xs = [nd.array(numbers.standard_normal((16, 300))) for _ in range(4)]
    sequences = [nd.array(numbers.standard_normal((20, 32, 12))) for _ in range(4)]
    index = nd.array(numbers.integers(0, 16, 16))
    fixed = nd.zeros((16, 300))
    layers(fixed)
    bound = layers.bind(fixed)

    def through_bind(i: int) -> np.ndarray:
        fixed[:] = xs[i]
        return bound().asnumpy()

    return [
        ("layers", lambda i: layers(xs[i]).asnumpy()),
        ("mixed", lambda i: mixed(xs[i], index).asnumpy()),
        ("bound", through_bind),
        ("series", lambda i: series(sequences[i]).asnumpy()),
    ]


def storm(interrupts: int, count: int, seed: int) -> tuple[int, int, float]:
    """Calls that came to their end, wrong results among them, and the part of a core used idle."""
    calls = make_calls()
    with threads(1):
        rights = [[call(i) for i in range(4)] for _, call in calls]
    done, wrong, patient_until = 0, 0, 0.0
    turns = cycle(
        [(call, i, right[i]) for (_, call), right in zip(calls, rights) for i in range(4)]
    )

    def work() -> None:
        nonlocal done, wrong, patient_until
        while True:
            call, i, right = next(turns)
            found = call(i)
            wrong += not np.array_equal(found, right)
            done += 1
            if time.monotonic() > patient_until:
                patient_until = time.monotonic() + 1
                faulthandler.dump_traceback_later(_SILENCE, exit=True)

    with threads(count):
        with Storm(seed) as weather:
            while weather.heard < interrupts:
                weather.attempt(work)
        time.sleep(0.05)
        before = time.process_time()
        time.sleep(0.5)
        return done, wrong, (time.process_time() - before) / 0.5


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interrupts", type=int, default=200_000, help="for all thread counts")
    parser.add_argument("--threads", type=counts, default=[2, 4])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    is_fine = True
    for count in args.threads:
        faulthandler.dump_traceback_later(_SILENCE, exit=True)
        each = args.interrupts // len(args.threads)
        done, wrong, idle = storm(each, count, args.seed)
        print(
            f"{count} threads: {each} interrupts, {done} calls, {wrong} wrong, "
            f"{100 * idle:.1f} % of a core used between calls",
            flush=True,
        )
        is_fine = is_fine and not wrong and idle < _MOST_IDLE
    faulthandler.cancel_dump_traceback_later()
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())

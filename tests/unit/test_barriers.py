"""Threads wait for each other only if one may access memory that another one writes.

Here one thread plays all of them, each as far ahead of the others as barriers permit: a value read
before it is written, or overwritten before it is read, gives other bits reliably.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from test_listening import POLL

from bits_of_training import Net, after_steps
from compiling import call, compiled, var
from guarded import KERNEL
from hybridjit import gluon
from hybridjit.codegen.emit import link
from hybridjit.codegen.emit.barriers import Calls
from hybridjit.codegen.emit.pool_memory import POLL_SLOTS
from hybridjit.gluon import nn, rnn
from hybridjit.ir.plan import Plan
from hybridjit.runtime import executable
from hybridjit.runtime.executable import Executable
from hybridjit.runtime.instance import Instance

# Which of the threads that have not come to the next barrier does its next step.
Order = Callable[[Sequence[int]], int]
ORDERS: dict[str, Order] = {
    "the first ahead": min,
    "the last ahead": max,
    "at random": random.Random(5).choice,
}


def _forecast() -> gluon.HybridBlock:
    net = nn.HybridSequential(prefix="forecast_")
    with net.name_scope():
        net.add(rnn.LSTM(40, num_layers=2), nn.Dense(1, flatten=False))
    return net


def _recurrent() -> gluon.HybridBlock:
    net = nn.HybridSequential(prefix="recurrent_")
    with net.name_scope():
        net.add(rnn.GRU(24, bidirectional=True), rnn.RNN(33, layout="TNC"))
        net.add(rnn.LSTM(17, layout="TNC", bidirectional=True))
    return net


NETS = {
    "forecast": Net(_forecast, (9, 32, 12), 1),
    "recurrent": Net(_recurrent, (4, 31, 6), 1),
}


@pytest.fixture(autouse=True)
def small_nets_on_all_threads(monkeypatch):
    monkeypatch.setattr(executable, "WORTH_SHARING", 0)


class _Played:
    """Steps of a plan by several threads, which one plays: ``order`` says whose turn it is."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._function = POLL(lambda _: 0)
        self._poll = (ctypes.c_void_p * POLL_SLOTS)(ctypes.cast(self._function, ctypes.c_void_p))
        self.most_ahead = 0

    def run_steps(self, instance: Instance, first: int, last: int, threads: int) -> None:
        rows = [[*map(int, row)] for row in instance._steps[first:last]]
        stretch: list[tuple[int, int]] = []
        for number, (kernel, args, unfenced) in enumerate(rows, 1):
            stretch.append((kernel, args))
            if unfenced < threads or number == len(rows):
                self._run(stretch, threads)
                stretch = []

    def _run(self, stretch: Sequence[tuple[int, int]], threads: int) -> None:
        left = {thread: iter(stretch) for thread in range(threads)}
        self.most_ahead = max(self.most_ahead, len(stretch))
        while left:
            thread = self._order([*left])
            step = next(left[thread], None)
            if step is None:
                del left[thread]
            else:
                KERNEL(step[0])(step[1], thread, threads, ctypes.addressof(self._poll))


@pytest.fixture
def played(monkeypatch) -> Iterator[Callable[[Order], _Played]]:
    """From its call on, the threads of all plans are played in this order."""

    def begin(order: Order) -> _Played:
        play = _Played(order)

        def run_steps(
            self: Executable, instance: Instance, first: int, last: int, stamps: int = 0
        ) -> None:
            play.run_steps(instance, first, last, min(self.thread_count, instance.threads))

        monkeypatch.setattr(Executable, "run_steps", run_steps)
        return play

    yield begin


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", NETS)
def test_threads_that_run_ahead_give_the_same_bits(name: str, order: str, played):
    alone = after_steps(NETS[name], 1, steps=3)
    play = played(ORDERS[order])
    for threads in (2, 3, 5):
        assert after_steps(NETS[name], threads, steps=3) == alone, f"{threads} threads"
    assert play.most_ahead > 1


@pytest.mark.parametrize("name", NETS)
def test_without_barriers_the_bits_are_others(name: str, played, monkeypatch):
    """Planted errors that the other tests must find."""
    alone = after_steps(NETS[name], 1, steps=3)
    every = link.unfenced
    monkeypatch.setattr(link, "unfenced", lambda *args: [99] * len(every(*args)))
    played(max)
    assert after_steps(NETS[name], 2, steps=3) != alone


@pytest.mark.parametrize("name", NETS)
def test_real_threads_give_the_same_bits(name: str):
    one, *others = (after_steps(NETS[name], count, steps=5) for count in (1, 2, 3, 5))
    assert all(other == one for other in others)


def test_steps_in_time_have_no_barriers_where_threads_keep_their_samples(monkeypatch):
    """Two bidirectional layers of 9 steps with one backward step each, and their surroundings."""
    found: list[int] = []
    every = link.unfenced

    def kept(plan: Plan, calls: Calls) -> list[int]:
        found.extend(every(plan, calls))
        return found[-sum(map(len, calls)) :]

    monkeypatch.setattr(link, "unfenced", kept)
    after_steps(NETS["forecast"], 2, steps=1)
    assert len(found) > 4 * 9 and sum(threads >= 2 for threads in found) >= 4 * 8


def _chain(*shape: int) -> Executable:
    """An LSTM of 24 units on data of this shape: steps, samples, elements."""
    steps, samples, size = shape
    draw = np.random.default_rng(1).normal
    state, length = (1, samples, 24), 4 * 24 * (size + 24 + 2)
    shapes = {"x": shape, "w": (length,), "h": state, "c": state}
    arrays = {n: draw(0, 0.3, s).astype(np.float32) for n, s in shapes.items()}
    layer = call("RNN", *map(var, arrays), state_size=24, num_layers=1, mode="lstm")
    return compiled([layer], arrays, ["w"])


@pytest.mark.parametrize(("samples", "free"), [(1, 0), (32, 2)])
def test_few_samples_are_shared_by_units(samples: int, free: int):
    """One tile of samples is for all threads, and they wait for each other after each step."""
    calls = _chain(8, samples, 24).code.image.calls
    steps = [each.unfenced for each in calls if each.kernel.startswith("recurrent")]
    assert len(steps) == 8 and steps[-1] == 0
    assert all((unfenced >= 2) == (free == 2) for unfenced in steps[:-1])

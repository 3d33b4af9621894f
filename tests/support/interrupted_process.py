"""Conditions after an interrupt: correct bits of a network, and an unchanged process.

Input: a network with values that may change. Output: a check that it computes the same as an
undisturbed twin, in this thread and in another, and that nothing is left: no held lock, no
additional or missing thread, no busy thread, no open scope, no process, no file.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit._core import fork_locks as forks
from hybridjit._core.config import SWITCHES, config
from hybridjit.attribute import AttrScope
from hybridjit.context import current_context
from hybridjit.gluon import naming
from hybridjit.name import NameManager
from patience import PATIENCE

Values = dict[str, np.ndarray]

# Calls with four inputs: those of one shape follow each other, the first of another thread too.
EIGHT = [0, 2, 0, 2, 1, 3, 1, 3]
FOUR = [1, 3, 0, 2]


# ---- another thread, which sees whether this one left something behind


class Other:
    """A thread that calls functions for this one."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, daemon=True, name="other").start()

    def _serve(self) -> None:
        while True:
            work = self._asked.get()
            try:
                self._answers.put((True, work()))
            except SystemExit:
                self._answers.put((True, None))
                return
            except BaseException as error:
                self._answers.put((False, error))

    def close(self) -> None:
        self.call(sys.exit)

    def call(self, work: Callable[[], Any]) -> Any:
        """The result of ``work`` there. Raises its exception, and AssertionError if it hangs."""
        self._asked.put(work)
        try:
            went_well, answer = self._answers.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError("another thread waits for ever") from None
        if not went_well:
            raise answer
        return answer


# ---- the process


def scopes() -> dict[str, Any]:
    """State that ``with`` blocks set temporarily."""
    return {
        "recording": autograd.is_recording(),
        "training": autograd.is_training(),
        "names": id(NameManager.current),
        "attributes": id(AttrScope.current),
        "context": current_context(),
        "block": naming.OPEN.innermost if hasattr(naming, "OPEN") else naming._open.innermost,
        "floating-point errors": np.geterr(),
        "threads": mx.get_num_threads(),
        **{switch.name: getattr(config, switch.name.lower()) for switch in SWITCHES},
    }


# A background thread may hold a lock for this long, in seconds.
LONGEST_HOLD = 20.0


def held_locks() -> list[str]:
    """The locks that a fork waits for and that another thread than this one holds."""
    found = []
    for rank, lock in forks._locks.items():
        if lock.acquire(timeout=LONGEST_HOLD):
            lock.release()
        else:
            found.append(rank.name)
    return found


def children() -> set[str]:
    """Processes that this one started and that still run."""
    try:
        tasks = Path("/proc/self/task").iterdir()
        return {pid for task in tasks for pid in (task / "children").read_text().split()}
    except OSError:
        return set()


def tasks() -> int:
    """Threads of this process, those that Python does not know too."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def lasting_tasks() -> int:
    """The same without those that are about to end: the least that is seen in a short while."""
    end, least = time.monotonic() + 0.1, tasks()
    while time.monotonic() < end:
        time.sleep(0.005)
        least = min(least, tasks())
    return least


class Process:
    """State of the process that must not change."""

    def __init__(self) -> None:
        self.other = Other()
        self.count = 0
        self.mask = os.umask(0)
        os.umask(self.mask)
        self.expect()

    def close(self) -> None:
        self.other.close()

    def expect(self) -> None:
        """Record the current state as the expected one."""
        self.scopes = scopes()
        self.threads = lasting_tasks()
        self.children = children()

    def check(self) -> None:
        self.count += 1
        changed = {what: now for what, now in scopes().items() if now != self.scopes[what]}
        assert not changed, f"left behind: {changed}"
        held = self.other.call(held_locks)
        assert not held, f"held: {', '.join(held)}"
        self._check_threads()
        assert mx.memory_stats()["executables"] > 0
        if mx.get_num_threads() > 1 or self.count % 64 == 1:
            assert idle_share() < 0.5, "something spins"

    def _check_threads(self) -> None:
        """No more than before: those of a compilation end with it.

        Threads and processes of earlier tests may end meanwhile.
        """
        end = time.monotonic() + PATIENCE
        while (there := tasks()) > self.threads or children() - self.children:
            names = [thread.name for thread in threading.enumerate()]
            assert time.monotonic() < end, (
                f"{there} threads, were {self.threads}: {names}; processes: {children()}"
            )
            time.sleep(0.005)
        self.threads, self.children = there, self.children & children()


def idle_share() -> float:
    """The part of a core that this process uses while it does nothing: the least of a few looks."""
    least = 9.0
    for seconds in (0.001, 0.002, 0.004, 0.01, 0.1):
        time.sleep(seconds / 2)
        start, spent = time.perf_counter(), time.process_time()
        time.sleep(seconds)
        least = min(least, (time.process_time() - spent) / (time.perf_counter() - start))
        if least < 0.2:
            break
    return least


# ---- networks


def small_net(deferred: bool = False) -> gluon.nn.HybridSequential:
    """So little work that a call takes the short way; its shapes may be left open."""
    net = gluon.nn.HybridSequential(prefix="small_")
    with net.name_scope():
        net.add(gluon.nn.Dense(6, activation="relu", in_units=0 if deferred else 5))
        net.add(gluon.nn.Dense(3, in_units=0 if deferred else 6))
    return net


def large_net() -> gluon.nn.HybridSequential:
    """Enough work in a call that threads share it; a weight that is worth evicting."""
    net = gluon.nn.HybridSequential(prefix="large_")
    with net.name_scope():
        net.add(gluon.nn.Dense(1024, activation="relu", in_units=520))
        net.add(gluon.nn.Dense(3, in_units=1024))
    return net


class _Mixed(gluon.HybridBlock):
    """Kernels with a step between them that NumPy computes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.before = gluon.nn.Dense(8, in_units=5)
            self.after = gluon.nn.Dense(3, in_units=8)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.after(F.cumsum(self.before(x), axis=1))


class _TwoInTwoOut(gluon.HybridBlock):
    """Nothing plain: two arrays in, two out."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.dense = gluon.nn.Dense(3, in_units=5)

    def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
        return self.dense(x), self.dense(x * y)


def mixed_net() -> gluon.HybridBlock:
    return _Mixed(prefix="mixed_")


def two_net() -> gluon.HybridBlock:
    return _TwoInTwoOut(prefix="two_")


def arrays(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def outputs(net: Any, x: nd.NDArray) -> list[np.ndarray]:
    found = net(x, x) if isinstance(net, _TwoInTwoOut) else net(x)
    return [a.asnumpy() for a in (found if isinstance(found, (list, tuple)) else [found])]


class Subject:
    """A network with two sets of values, four inputs, and an undisturbed twin.

    The twin computes the expected bits for any mixture of the values.
    """

    def __init__(self, build: Callable[[], Any], shapes: Sequence[tuple[int, ...]]) -> None:
        self.build = build
        self.inputs = [nd.array(arrays(shapes[i % len(shapes)], i)) for i in range(4)]
        self.net = self.made()
        self._twin = self.made()
        self.sets = [self._values(seed) for seed in (0, 1)]
        self._known: dict[tuple[int, ...], list[list[bytes]]] = {}
        self.write(0)

    def made(self) -> Any:
        net = self.build()
        net.initialize()
        net.hybridize()
        return net

    def _values(self, seed: int) -> Values:
        params = self.net.collect_params().items()
        return {name: arrays(p.shape, 100 * seed + i) for i, (name, p) in enumerate(params)}

    def write(self, number: int) -> None:
        """Give the network one of the sets of values."""
        for name, param in self.net.collect_params().items():
            param.set_data(nd.array(self.sets[number][name]))

    def held(self, net: Any = None) -> tuple[int, ...]:
        """For each parameter, the set whose values it has."""
        found = []
        for name, param in (net or self.net).collect_params().items():
            array = param.data().asnumpy()
            fits = [i for i, values in enumerate(self.sets) if (values[name] == array).all()]
            assert fits, f"{name} has neither the old values nor the new ones"
            found.append(fits[0])
        return tuple(found)

    def is_whole(self) -> bool:
        """Whether every parameter has the values of one set."""
        try:
            self.held()
        except AssertionError:
            return False
        return True

    def expected_for(self, values: Values) -> list[list[bytes]]:
        """The twin's results for these values."""
        for name, param in self._twin.collect_params().items():
            param.set_data(nd.array(values[name]))
        return self.results(self._twin, range(4))

    def expected(self, mixture: tuple[int, ...]) -> list[list[bytes]]:
        if mixture not in self._known:
            names = self._twin.collect_params().keys()
            values = {name: self.sets[number][name] for name, number in zip(names, mixture)}
            self._known[mixture] = self.expected_for(values)
        return self._known[mixture]

    def results(self, net: Any, numbers: Sequence[int]) -> list[list[bytes]]:
        return [[a.tobytes() for a in outputs(net, self.inputs[i])] for i in numbers]

    def check(self, other: Other, net: Any = None) -> None:
        """Eight calls here and four in another thread give the right bits."""
        net = net or self.net
        here = self.results(net, EIGHT)
        there = other.call(lambda: self.results(net, FOUR))
        right = self.expected(self.held(net))
        for place, (number, found) in enumerate(zip(EIGHT + FOUR, here + there)):
            assert found == right[number], f"call {place} of {self.held(net)} is wrong"

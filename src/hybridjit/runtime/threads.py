"""One pool of workers for the process.

A worker is a Python thread that stays inside native code: it spins for a bounded time for the next
job, then goes back to Python and sleeps on a semaphore. A job is a range of a plan's steps, which
every worker walks with a part of the work of each step. Nothing decides a worker's part but its
number and how many there are, and no part decides the order of a sum: the bits are the same for
any number of threads.

With one thread no worker is made. Callers that run at the same time share the threads: two of
them on two cores use one each, and a caller that finds the pool busy does all the work itself.
Measured, ResNet-18, two callers on two cores: 215 calls a second, 138 where one had the pool.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..config import config, shown_value, thread_count
from ..records import dataclass

# The pool's shared memory, in 64-bit slots: the sequence number, then two job records, each on a
# cache line of its own (``codegen.module`` has the code that reads them).
SLOTS = 24


@dataclass(frozen=True)
class NativeCalls:
    """The driver's functions: ``run`` walks steps, ``publish`` posts a job, ``serve`` waits."""

    run: Any
    publish: Any
    serve: Any


class Pool:
    """Workers 1 .. n-1; the caller is worker 0."""

    def __init__(self, native: NativeCalls) -> None:
        self._native = native
        self._memory = (ctypes.c_int64 * (SLOTS + 8))()
        base = ctypes.addressof(self._memory)
        self._state = base + (-base % 64)
        self._busy = threading.Lock()
        self._callers: set[int] = set()  # their threads; an interrupted call leaves none behind
        self._wake: list[threading.Semaphore] = []
        self._asleep: list[bool] = []

    @property
    def workers(self) -> int:
        return len(self._wake)

    def run(self, steps: int, barrier: int, first: int, last: int, threads: int) -> None:
        """Run steps [first, last) on this caller's share of ``threads`` threads."""
        me = threading.get_ident()
        try:
            self._callers.add(me)
            share = threads // len(self._callers)
            if share > 1 and self._busy.acquire(blocking=False):
                self._run_together(steps, barrier, first, last, share)
            else:
                self._native.run(steps, barrier, first, last, 0, 1)
        finally:
            self._callers.discard(me)

    def _run_together(self, steps: int, barrier: int, first: int, last: int, threads: int) -> None:
        try:
            self._grow(threads - 1)
            self._native.publish(self._state, steps, barrier, first, last, threads)
            self._wake_sleepers(threads - 1)
            self._native.run(steps, barrier, first, last, 0, threads)
        finally:
            self._busy.release()

    def _grow(self, count: int) -> None:
        while len(self._wake) < count:
            number = len(self._wake)
            self._wake.append(threading.Semaphore(0))
            self._asleep.append(False)
            name = f"hybridjit-{number + 1}"
            seen = ctypes.c_int64.from_address(self._state).value
            threading.Thread(
                target=self._serve, args=(number, seen), daemon=True, name=name
            ).start()

    def _wake_sleepers(self, count: int) -> None:
        for number in range(count):
            if self._asleep[number]:
                self._asleep[number] = False
                self._wake[number].release()

    def _serve(self, number: int, seen: int) -> None:
        """A worker's life: serve jobs until a bounded wait saw none, then sleep until woken.

        It says that it sleeps before it looks at the sequence once more; a caller raises the
        sequence before it looks for sleepers. One of the two always sees the other.
        """
        sequence = ctypes.c_int64.from_address(self._state)
        while True:
            seen = self._native.serve(self._state, seen, number + 1)
            self._asleep[number] = True
            if sequence.value != seen:
                if not self._asleep[number]:
                    self._wake[number].acquire()
                self._asleep[number] = False
                continue
            self._wake[number].acquire()


class Threads:
    """How many threads a call uses, and the pool, made anew in the child of a fork."""

    def __init__(self) -> None:
        self._count: int | None = None
        self._pool: Pool | None = None
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._pool = None
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        if self._count is None:
            self._count = config.num_threads or default_thread_count()
        return self._count

    def set_count(self, count: int) -> None:
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"the number of threads is at least 1, got {count!r}")
        self._count = count

    def pool(self, native: NativeCalls) -> Pool:
        with self._lock:
            if self._pool is None:
                self._pool = Pool(native)
            return self._pool


THREADS = Threads()


def set_num_threads(count: int) -> None:
    """Use ``count`` threads from the next call on. Raises ValueError below 1."""
    THREADS.set_count(count)


def get_num_threads() -> int:
    """How many threads the next call may use."""
    return THREADS.count


@contextmanager
def threads(count: int) -> Iterator[None]:
    """``with hybridjit.threads(2):`` use that many threads inside the block."""
    before = THREADS.count
    THREADS.set_count(count)
    try:
        yield
    finally:
        THREADS.set_count(before)


def default_thread_count() -> int:
    """The least of OMP_NUM_THREADS, or of affinity, cgroup quota and physical cores."""
    return explained_default()[0]


def explained_default() -> tuple[int, str]:
    """The default number of threads, and what decides it."""
    wished = os.environ.get("OMP_NUM_THREADS", "")
    try:
        if asked := thread_count(wished.split(",")[0]):  # a list is one number for each level
            return asked, "OMP_NUM_THREADS"
    except ValueError as error:  # a variable of other libraries, too: they pass over it
        warnings.warn(f"OMP_NUM_THREADS={shown_value(wished)} is not used: {error}", stacklevel=2)
    limits = {name: limit for name, limit in thread_limits().items() if limit}
    count = max(1, min(limits.values()))
    return count, ", ".join(name for name, limit in limits.items() if limit == count)


def thread_limits() -> dict[str, int | None]:
    """What bounds the number of threads, by name; None where it is not known or not set."""
    return {
        "affinity": _affinity(),
        "cgroup quota": _quota("/sys/fs/cgroup"),
        "physical cores": _physical_cores(),
    }


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(root: str) -> int | None:
    """Whole cores that the cgroup's quota allows (version 2, then 1); None without a quota."""
    try:
        quota, period = _text(f"{root}/cpu.max").split()
    except (OSError, ValueError):
        try:
            quota = _text(f"{root}/cpu/cpu.cfs_quota_us")
            period = _text(f"{root}/cpu/cpu.cfs_period_us")
        except OSError:
            return None
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return max(1, math.ceil(int(quota) / int(period)))


def _physical_cores() -> int | None:
    """Distinct (package, core) pairs among the CPUs that this process may use; None if unknown."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = set()
    for cpu in os.sched_getaffinity(0):
        topology = f"/sys/devices/system/cpu/cpu{cpu}/topology"
        try:
            package = _text(f"{topology}/physical_package_id")
            cores.add((package, _text(f"{topology}/core_id")))
        except OSError:
            return None
    return len(cores)


def _text(path: str) -> str:
    """A file's content without the blanks around it; pathlib would take 5 ms to import."""
    with open(path, encoding="ascii") as file:
        return file.read().strip()

"""The process's pool of worker threads.

A shared call modifies the pool within one native call (``codegen.emit.driver``): reserving
threads, creating missing workers, publishing the job, waking sleeping workers, doing the caller's
share, releasing the pool. So an exception cannot leave the pool in an inconsistent state.

For little work each thread has a fixed share; for much work, idle threads take chunks that others
have not begun (work stealing). Shares do not affect the order of a sum: the bits are equal for any
number of threads.

With one thread, no worker is created. Concurrent callers share the threads: two callers on two
cores use one thread each, and a caller that finds the pool busy does all its work itself. ResNet-18
with two callers on two cores: 215 calls per second, against 138 if one caller had the whole pool.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from .._core import host
from .._core.async_safety import noted
from .._core.config import config, shown_value, thread_count
from .._core.frames import public, warn
from ..errors import MXNetError

_LINE = 8  # 64-bit slots of a cache line


class DriverLike(Protocol):
    """The part of ``codegen.emit.driver.Driver`` that the pool uses."""

    @property
    def share(self) -> Any: ...
    @property
    def layout(self) -> Any: ...


class Pool:
    """Workers 1 .. n-1, created when a call first needs them; the caller is worker 0."""

    def __init__(self, driver: DriverLike) -> None:
        layout = driver.layout
        self._share = driver.share
        memory = (ctypes.c_int64 * (layout.slots + _LINE))()
        # Workers read it until the process ends, after the end of the interpreter.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
        base = ctypes.addressof(memory)
        self._state = base + (-base % (8 * _LINE))
        self._main = main_thread()
        self._workers = self._slot(layout.workers)
        self._orphaned = self._slot(layout.orphaned)

    def _slot(self, number: int) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self._state + 8 * number)

    @property
    def workers(self) -> int:
        """Number of threads created so far; they sleep between calls."""
        return self._workers.value

    def run(self, steps: int, first: int, last: int, threads: int, stamps: int = 0) -> None:
        """Run steps [first, last) on this caller's share of ``threads`` threads.

        The times of each thread are written to address ``stamps``, unless it is 0: see
        ``codegen.emit.driver.emit_run``. Raises the exception of a signal handler; and MXNetError
        in the child process if a handler forks.
        """
        if self._share(self._state, steps, first, last, threads, stamps, self._main):
            raise MXNetError(
                "a signal handler forked during a call on several threads: this is the child "
                "process, which has no threads to finish that call; later calls create new ones"
            )

    def run_whole(self, steps: int, count: int, threads: int, done: list[Any]) -> None:
        """Run ``count`` steps, then handle signals; ``done`` gets an element in between."""
        noted(done, self._share, self._state, steps, 0, count, threads, 0, 0)

    def forget(self) -> None:
        """In the child of a fork: mark the workers as absent."""
        self._orphaned.value = 1


def main_thread() -> int:
    """The identifier of the thread in which Python runs signal handlers."""
    return threading.main_thread().ident or 0


class Threads:
    """The number of threads of a call, and the pool, which is created again after a fork."""

    def __init__(self) -> None:
        self._count: int | None = None
        self._pools: dict[str, Pool] = {}  # at most one
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.forget()

    @property
    def count(self) -> int:
        if self._count is None:
            self._count = config.num_threads or default_thread_count()
        return self._count

    def set_count(self, count: int) -> None:
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"the number of threads is at least 1, got {count!r}")
        self._count = count

    def pool(self, driver: DriverLike) -> Pool:
        """The pool: if two callers create it at the same time, one of the two is kept."""
        pool = self._pools.get("all")
        return pool if pool is not None else self._pools.setdefault("all", Pool(driver))


THREADS = Threads()


@public
def set_num_threads(count: int) -> None:
    """Use this number of threads from the next call on.

    Parameters
    ----------
    count : int
        Number of threads, from 1 to 1024.

    Raises
    ------
    ValueError
        For another number.

    Examples
    --------
    >>> before = mx.get_num_threads()
    >>> mx.set_num_threads(1)
    >>> mx.get_num_threads()
    1
    >>> mx.set_num_threads(before)
    """
    THREADS.set_count(count)


def get_num_threads() -> int:
    """The number of threads that the next call may use.

    Examples
    --------
    >>> mx.get_num_threads() >= 1
    True
    """
    return THREADS.count


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use this number of threads inside of a ``with`` block.

    Parameters
    ----------
    count : int
        Number of threads, from 1 to 1024.

    Raises
    ------
    ValueError
        For another number.

    Examples
    --------
    >>> with mx.threads(1):
    ...     mx.get_num_threads()
    1
    """
    before = THREADS.count
    try:
        THREADS.set_count(count)
        yield
        THREADS.set_count(before)
    except BaseException:
        THREADS.set_count(before)
        raise


def default_thread_count() -> int:
    """OMP_NUM_THREADS, or the minimum of affinity, cgroup quota and physical cores."""
    return explained_default()[0]


def explained_default() -> tuple[int, str]:
    """The default number of threads, and the limits that decide it."""
    wished = os.environ.get("OMP_NUM_THREADS", "")
    try:
        if asked := thread_count(wished.split(",")[0]):  # a list has one number for each level
            return asked, "OMP_NUM_THREADS"
    except ValueError as error:  # the variable belongs to other libraries, which ignore it too
        warn(f"OMP_NUM_THREADS={shown_value(wished)} is not used: {error}")
    limits = {name: limit for name, limit in thread_limits().items() if limit}
    count = max(1, min(limits.values()))
    return count, ", ".join(name for name, limit in limits.items() if limit == count)


def thread_limits() -> dict[str, int | None]:
    """The limits on the number of threads, by name; None if unknown or not set."""
    return {
        "affinity": _affinity(),
        "cgroup quota": _quota("/sys/fs/cgroup"),
        "physical cores": _physical_cores(),
    }


def _affinity() -> int:
    cpus = host.usable_cpus()
    return (os.cpu_count() or 1) if cpus is None else len(cpus)


def _quota(root: str) -> int | None:
    """Number of full cores in the cgroup's quota (version 2, then 1); None without a quota."""
    try:
        quota, period = host.system_text(f"{root}/cpu.max").split()
    except (OSError, ValueError):
        try:
            quota = host.system_text(f"{root}/cpu/cpu.cfs_quota_us").strip()
            period = host.system_text(f"{root}/cpu/cpu.cfs_period_us").strip()
        except OSError:
            return None
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return max(1, math.ceil(int(quota) / int(period)))


def _physical_cores() -> int | None:
    """Distinct (package, core) pairs among the CPUs that this process may use; None if unknown."""
    cpus = host.usable_cpus()
    if cpus is None:
        return None
    cores = set()
    for cpu in cpus:
        topology = f"/sys/devices/system/cpu/cpu{cpu}/topology"
        try:
            package = host.system_text(f"{topology}/physical_package_id")
            cores.add((package, host.system_text(f"{topology}/core_id")))
        except OSError:
            return None
    return len(cores)

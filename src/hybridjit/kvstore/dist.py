"""``kvstore="dist_sync"``: values that all processes of a job keep alike.

In: gradients of every process. Out: their sum in every process, the same bits in each, or what the
optimizer makes of it: each process updates what it keeps by itself.
"""

from __future__ import annotations

from ..nd import NDArray
from .base import summed
from .job import Job
from .local import Key, KVStore


class DistKVStore(KVStore):
    """A store of a job's processes; all of them make the same calls in the same order.

    ``init`` and ``broadcast`` keep the value of rank 0. Raises MXNetError in each process where
    calls differ.
    """

    def __init__(self, type: str, job: Job) -> None:
        super().__init__(type)
        self._job = job

    def _first(self, key: Key, arrays: list[NDArray]) -> NDArray:
        first = arrays[0]
        value = self._job.of_rank(0, first.asnumpy(), f"key {key!r}")
        return NDArray(value, first.context)

    def _total(self, key: Key, arrays: list[NDArray]) -> NDArray:
        here = summed(arrays)
        if self._threshold is not None:
            here = self._rounded(key, 0, here)  # the processes send rounded sums, as in MXNet
        return NDArray(self._job.summed(here.asnumpy(), f"key {key!r}"), here.context)

    @property
    def rank(self) -> int:
        """This process's number, from 0 on."""
        return self._job.rank

    @property
    def num_workers(self) -> int:
        """How many processes the job has."""
        return self._job.size

    def _barrier(self) -> None:
        """Return when every process has come here."""
        self._job.wait_for_all()

"""``kvstore="dist_sync"``: values that are equal in all processes of a job.

Input: gradients of every process. Output: their sum in every process with the same bits, or the
values that the optimizer updates with it. Each process updates its own copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..nd import NDArray
from ..nd.tape import Leaf
from ..optimizer import Updater
from .base import summed
from .exchange import Sums
from .job import Job
from .local import Key, KVStore


class DistKVStore(KVStore):
    """A store of a job's processes; all of them make the same calls in the same order.

    ``init`` and ``broadcast`` store the value of rank 0. Raises MXNetError in every process if
    calls differ.
    """

    def __init__(self, type: str, job: Job) -> None:
        super().__init__(type)
        self._job = job
        self._sums = Sums(job)

    def exchange(
        self, keys: Sequence[Key], leaves: Sequence[Leaf], weights: Sequence[NDArray], updates: bool
    ) -> None:
        """Push the gradients of all weights, and pull into ``weights`` or into the gradients.

        Equivalent to a ``pushpull`` for each, but gradients are exchanged together, and from the
        third call on during backward. With ``updates`` the sums update the stored values.
        """
        for key in keys:
            self._require(key)
        outs = weights if updates else [leaf.grad for leaf in leaves]
        if self._threshold is not None or any(leaf.grad.stype != "default" for leaf in leaves):
            for key, leaf, out in zip(keys, leaves, outs):
                self.pushpull(key, leaf.grad, out)
            return
        self._take(keys, self._sums.of(keys, leaves))
        self.pull(keys, outs)

    def _take(self, keys: Sequence[Key], totals: Sequence[NDArray]) -> None:
        """Update the stored values with the sums, or store the sums."""
        kept = [self._values[key] for key in keys]
        if isinstance(self._updater, Updater):
            self._updater(list(keys), totals, kept)
            return
        for key, total, value in zip(keys, totals, kept):
            if self._updater is None:
                value[:] = total
            else:
                self._updater(key.encode() if isinstance(key, str) else key, total.copy(), value)

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
        """This process's number, counted from 0."""
        return self._job.rank

    @property
    def num_workers(self) -> int:
        """The number of processes of the job."""
        return self._job.size

    def _barrier(self) -> None:
        """Wait until every process has called this."""
        self._job.wait_for_all()

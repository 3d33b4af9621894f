"""Sums of all gradients of a step over the processes of a job, overlapped with backward.

Input: the leaves of the weights. Output: the sums, with the bits of a sum in the order of ranks.
Gradients are summed in buckets. From the third step on, buckets of late layers are exchanged while
backward computes the gradients of early layers: :meth:`Exchange.stages` lists the backward steps
after which a bucket begins, and a thread exchanges it. If a program changes a gradient between
backward and step, all gradients are exchanged again in every process, and from then on only in
``step``.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from operator import is_

import numpy as np

from ..errors import MXNetError
from ..nd import NDArray
from ..nd.tape import Leaf, Stage
from .channel import INTERRUPTED, Channel
from .job import Job, parts_of

_BUCKET = 4 << 20  # bytes: large enough that the transfer takes much longer than the latency
_LINE = 16  # elements: alignment of the sums in a bucket
# State of a process's gradients, exchanged in ``step``
_NONE_BEGUN, _AS_SENT, _CHANGED = range(3)


class Exchange:
    """The sums of these leaves' gradients, step after step; all processes create theirs together.

    Raises MXNetError if processes have different gradients. All methods raise it if a process makes
    another call or has ended.
    """

    def __init__(self, job: Job, keys: Sequence[object], leaves: Sequence[Leaf]) -> None:
        self._keys, self.leaves = list(keys), list(leaves)
        arrays = [leaf.grad._data for leaf in leaves]
        told = [(key, array.shape, array.dtype.name) for key, array in zip(keys, arrays)]
        digest = zlib.crc32(repr(told).encode())
        nbytes = sum(array.nbytes for array in arrays)
        self._what = f"sum of {len(arrays)} gradients, {nbytes} bytes, first key {keys[0]!r}"
        job.agree(f"{self._what}, digest {digest:08x}")
        self._job = job
        self._channel = job.new_channel()
        self._is_whole = True
        self._steps = 0
        self._finals: dict[Leaf, int] = {}
        self._is_ahead = False
        self._order(range(len(arrays)))
        for leaf in leaves:
            leaf.watch = self
        job.at_end(self)

    def is_of(self, keys: Sequence[object], leaves: Sequence[Leaf]) -> bool:
        """Whether this object sums the gradients of these leaves under these keys."""
        same = len(leaves) == len(self.leaves) and all(map(is_, leaves, self.leaves))
        return same and list(keys) == self._keys

    def _order(self, order: Sequence[int]) -> None:
        """Make buckets of the gradients in this order, and memory for their sums."""
        self._buckets = list(_buckets(order, self.leaves))
        self.totals: list[NDArray] = [self.leaves[0].grad] * len(self.leaves)
        for bucket in self._buckets:
            for number, total in zip(bucket.numbers, bucket.sums):
                self.totals[number] = NDArray(total, self.leaves[number].grad.context)
        self._round = _Round(self._channel, self._buckets)

    # ---- during backward ----------------------------------------------------------------------

    def stages(self, finals: Mapping[Leaf, int]) -> list[Stage]:
        """The buckets to begin, each after a step of a backward that writes its gradients in place.

        ``finals`` maps each leaf to the number of steps after which its gradient is complete.
        """
        if not self._is_ahead:
            self._finals = dict(finals)
            return []
        if self._round.has_begun:
            return []
        stages: list[Stage] = []
        position = 0
        for number, bucket in enumerate(self._buckets):
            leaves = self._of(bucket)
            if any(leaf not in finals for leaf in leaves):
                break
            position = max(position, *map(finals.__getitem__, leaves))
            stages.append(Stage(position, leaves, partial(self._begin, number)))
        return stages

    def _begin(self, number: int) -> None:
        leaves = self._of(self._buckets[number])
        self._round.give(number, leaves, in_thread=True)

    def _of(self, bucket: Bucket) -> list[Leaf]:
        return [self.leaves[number] for number in bucket.numbers]

    # ---- during step --------------------------------------------------------------------------

    def finish(self) -> list[NDArray]:
        """The sums, in memory that the next step overwrites. Raises an exception of the thread."""
        if not self._is_whole:
            raise MXNetError(INTERRUPTED)
        self._is_whole = False
        states = self._job.agree(self._what, self._round.state())
        self._complete()
        if _CHANGED in states:
            self._is_ahead = False
            self._complete()
        self._steps += 1
        if self._steps == 2:
            self._agree_on_order()
        self._is_whole = True
        return self.totals

    def _complete(self) -> None:
        """Exchange all buckets of a round, whether it has begun or not."""
        for number, bucket in enumerate(self._buckets):
            self._round.give(number, self._of(bucket), in_thread=False)
        self._round.wait()
        self._round = _Round(self._channel, self._buckets)

    def _agree_on_order(self) -> None:
        """Order buckets by the completion of gradients in backward of rank 0, if it has an
        order."""
        finals = [self._finals.get(leaf, -1) for leaf in self.leaves]
        given = np.array([*finals, self._job.takes_threads], np.int64)
        *first, takes_threads = self._job.of_rank(0, given, "the order of gradients").tolist()
        totals = self.totals
        if takes_threads and min(first) >= 0:
            self._order(sorted(range(len(first)), key=first.__getitem__))
            for new, old in zip(self.totals, totals):
                np.copyto(new._data, old._data)
            self._is_ahead = True

    @property
    def is_under_way(self) -> bool:
        """Whether the gradients of the next step are being exchanged."""
        return self._round.has_begun

    def close(self) -> None:
        """Abort waits for other processes: this process ends."""
        self._channel.close()
        self._round.close()

    def leave(self) -> None:
        """Stop watching these gradients."""
        for leaf in self.leaves:
            if leaf.watch is self:
                leaf.watch = None


class Sums:
    """The sums of a trainer's gradients over all processes, by a private :class:`Exchange`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._exchange: Exchange | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether the gradients of the next step are being exchanged."""
        return self._exchange is not None and self._exchange.is_under_way

    def of(self, keys: Sequence[object], leaves: Sequence[Leaf]) -> list[NDArray]:
        """The sums; with one process the gradients themselves. Raises as :class:`Exchange`."""
        if self._job.size == 1:
            return [leaf.grad for leaf in leaves]
        if self._exchange is None or not self._exchange.is_of(keys, leaves):
            if self._exchange is not None:
                self._exchange.leave()
            self._exchange = Exchange(self._job, keys, leaves)
        return self._exchange.finish()


class Bucket:
    """Gradients of one type that are summed together.

    numbers     their indices
    total       contiguous memory of all sums; ``sums`` are views in the gradients' shapes
    """

    def __init__(self, numbers: Sequence[int], arrays: Sequence[np.ndarray]) -> None:
        self.numbers = list(numbers)
        sizes = [-(-array.size // _LINE) * _LINE for array in arrays]
        self._starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.total = np.zeros(sum(sizes), arrays[0].dtype)
        self.sums = [
            self.total[start : start + array.size].reshape(array.shape)
            for start, array in zip(self._starts, arrays)
        ]

    def pieces(
        self, arrays: Sequence[np.ndarray], first: int, last: int
    ) -> list[tuple[int, np.ndarray]]:
        """The parts of the arrays in [first, last) of the total, each with its offset there."""
        found = []
        for start, array in zip(self._starts, arrays):
            begin, end = max(first, start), min(last, start + array.size)
            if begin < end:
                found.append((begin - first, array[begin - start : end - start]))
        return found

    def part(self, arrays: Sequence[np.ndarray], first: int, last: int) -> np.ndarray:
        """The arrays' memory in [first, last) of the total: a view if one gradient covers it."""
        pieces = self.pieces(arrays, first, last)
        if len(pieces) == 1 and pieces[0][1].size == last - first:
            return pieces[0][1]
        whole = np.zeros(last - first, self.total.dtype)
        for place, piece in pieces:
            whole[place : place + piece.size] = piece
        return whole

    def sum(self, arrays: Sequence[np.ndarray], channel: Channel, what: str) -> None:
        """Write the sum over all processes of these flat arrays: every process adds up one part."""
        channel.agree(what)
        parts = parts_of(self.total, channel.size)
        bounds = [0]
        for part in parts:
            bounds.append(bounds[-1] + part.size)
        channel.sum(what, [self.part(arrays, *span) for span in zip(bounds, bounds[1:])], parts)


def _buckets(order: Sequence[int], leaves: Sequence[Leaf]) -> list[Bucket]:
    """Buckets of gradients in this order, each of one type and a few MB."""
    made: list[Bucket] = []
    numbers: list[int] = []
    arrays: list[np.ndarray] = []
    for number in order:
        array = leaves[number].grad._data
        if arrays and (
            array.dtype != arrays[0].dtype or sum(one.nbytes for one in arrays) >= _BUCKET
        ):
            made.append(Bucket(numbers, arrays))
            numbers, arrays = [], []
        numbers.append(number)
        arrays.append(array)
    made.append(Bucket(numbers, arrays))
    return made


class _Round:
    """The buckets of one step, which become complete and are summed in this order."""

    def __init__(self, channel: Channel, buckets: Sequence[Bucket]) -> None:
        self._channel = channel
        self._buckets = buckets
        self._given: dict[int, list[np.ndarray]] = {}
        self._versions: list[tuple[Leaf, int]] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._done = 0
        self._is_closed = False
        self._error: BaseException | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the thread has begun."""
        return self._thread is not None

    def state(self) -> int:
        """Whether an exchange was begun, and whether its gradients are unchanged."""
        if self._thread is None:
            return _NONE_BEGUN
        same = all(
            leaf.grad._storage.version == version and not leaf.grad._storage.exposed
            for leaf, version in self._versions
        )
        return _AS_SENT if same else _CHANGED

    def give(self, number: int, leaves: Sequence[Leaf], in_thread: bool) -> None:
        """Mark a bucket's gradients as complete. No effect if they are already."""
        if number in self._given:
            return
        self._versions += [(leaf, leaf.grad._storage.version) for leaf in leaves]
        with self._changed:
            self._given[number] = [leaf.grad._data.reshape(-1) for leaf in leaves]
            self._changed.notify()
        if in_thread and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gradients", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until all buckets are summed. Raises an exception of the thread."""
        if self._thread is None:
            self._sum_all()
            return
        self._thread.join()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._sum_all()
        except BaseException as error:  # raised in step
            self._error = error

    def _sum_all(self) -> None:
        while self._done < len(self._buckets):
            with self._changed:
                self._changed.wait_for(self._may_go_on)
                if self._is_closed:
                    return
            bucket = self._buckets[self._done]
            what = f"bucket {self._done} of {len(self._buckets)} of gradients"
            bucket.sum(self._given[self._done], self._channel, what)
            self._done += 1

    def _may_go_on(self) -> bool:
        return self._done in self._given or self._is_closed

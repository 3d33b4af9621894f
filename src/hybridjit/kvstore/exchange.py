"""Sums of all gradients of a step over the processes of a job, made while backward goes on.

In: the leaves of the weights. Out: the sums, with the bits that a sum in the order of the ranks
has. Gradients are summed in buckets. From the third step on those of late layers are under way
while backward computes those of early ones: its :meth:`Exchange.stages` say after which of its
steps a bucket begins, and a thread exchanges it. Who changes a gradient between backward and step
has all of them exchanged once more, in every process, and from then on in ``step`` alone.
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

_BUCKET = 4 << 20  # bytes: enough that its messages' latency is little beside their transfer
_LINE = 16  # elements: sums begin at multiples of it
# What a process says of its gradients in ``step``
_NONE_BEGUN, _AS_SENT, _CHANGED = range(3)


class Exchange:
    """The gradients of these leaves, step after step; all processes make theirs together.

    Raises MXNetError where processes have other gradients, as everything here where one does
    something else or has come to its end.
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
        """Whether it sums the gradients of these."""
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

    # ---- in backward --------------------------------------------------------------------------

    def stages(self, finals: Mapping[Leaf, int]) -> list[Stage]:
        """What to begin after which steps of a backward that writes these gradients in place.

        ``finals`` has for each leaf the number of steps after which its gradient is complete.
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

    # ---- in step ------------------------------------------------------------------------------

    def finish(self) -> list[NDArray]:
        """The sums, in memory that the next step writes again. Raises what the thread raised."""
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
        """All buckets of a round that has begun or not."""
        for number, bucket in enumerate(self._buckets):
            self._round.give(number, self._of(bucket), in_thread=False)
        self._round.wait()
        self._round = _Round(self._channel, self._buckets)

    def _agree_on_order(self) -> None:
        """Sum in the order in which the first rank's backward has its gradients, if it says one."""
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
        """Whether gradients of the next step travel."""
        return self._round.has_begun

    def close(self) -> None:
        """Wait for no process any more: this one comes to its end."""
        self._channel.close()
        self._round.close()

    def leave(self) -> None:
        """Follow these gradients no longer."""
        for leaf in self.leaves:
            if leaf.watch is self:
                leaf.watch = None


class Sums:
    """The sums of a trainer's gradients over all processes, by an :class:`Exchange` of its own."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._exchange: Exchange | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether gradients of the next step travel."""
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

    numbers  which they are
    total    the memory of all their sums; ``sums`` are those of each, in its shape
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
        """What of the arrays lies in [first, last) of the total, each with its place there."""
        found = []
        for start, array in zip(self._starts, arrays):
            begin, end = max(first, start), min(last, start + array.size)
            if begin < end:
                found.append((begin - first, array[begin - start : end - start]))
        return found

    def part(self, arrays: Sequence[np.ndarray], first: int, last: int) -> np.ndarray:
        """The arrays' own memory in [first, last) of the total where that is one piece."""
        pieces = self.pieces(arrays, first, last)
        if len(pieces) == 1 and pieces[0][1].size == last - first:
            return pieces[0][1]
        whole = np.zeros(last - first, self.total.dtype)
        for place, piece in pieces:
            whole[place : place + piece.size] = piece
        return whole

    def sum(self, arrays: Sequence[np.ndarray], channel: Channel, what: str) -> None:
        """Write the sum over all processes of these flat arrays: every process adds up a part."""
        channel.agree(what)
        parts = parts_of(self.total, channel.size)
        bounds = [0]
        for part in parts:
            bounds.append(bounds[-1] + part.size)
        channel.sum(what, [self.part(arrays, *span) for span in zip(bounds, bounds[1:])], parts)


def _buckets(order: Sequence[int], leaves: Sequence[Leaf]) -> list[Bucket]:
    """Gradients in this order, some MB of one type in each."""
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
    """The buckets of one step: given in their order, and summed in it."""

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
        """Whether a thread is at it."""
        return self._thread is not None

    def state(self) -> int:
        """Whether anything was begun, and whether what was is still so."""
        if self._thread is None:
            return _NONE_BEGUN
        same = all(
            leaf.grad._storage.version == version and not leaf.grad._storage.exposed
            for leaf, version in self._versions
        )
        return _AS_SENT if same else _CHANGED

    def give(self, number: int, leaves: Sequence[Leaf], in_thread: bool) -> None:
        """The gradients of a bucket are complete. Does nothing where they were given."""
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
        """Return when all buckets are summed. Raises what went wrong."""
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

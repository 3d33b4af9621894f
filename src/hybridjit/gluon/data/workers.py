"""Batches made beside the program: by worker processes, or by threads.

In: a dataset, how its elements become a batch, and lists of indices. Out: the batches, each under
the ticket that :meth:`submit` gave. What a worker process made arrives in an unnamed file of
shared memory, arrays without a copy; such a file goes with the last process that has it open, so
nothing is left behind however a process ends. Loaded when a DataLoader first has workers.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import random
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent import futures
from contextlib import suppress
from multiprocessing import connection, reduction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...context import cpu
from ...errors import MXNetError
from ...nd import NDArray
from ...ops.random.draws import generator
from ...ops.random.draws import seed as seed_generator

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

_ALIGNMENT = 64
_GRACE = 2.0  # seconds that a worker has to end by itself

Make = Callable[[Sequence[int]], object]


class WorkerTraceback(Exception):
    """Where in a worker an exception came from: the cause of the one that is raised."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _timed_out(timeout: float) -> multiprocessing.TimeoutError:
    return multiprocessing.TimeoutError(
        f"Worker timed out after {timeout} seconds. The dataset may be slow: make timeout larger, "
        "or use num_workers=0 to see where"
    )


# ---- threads ------------------------------------------------------------------------------------


class Threads:
    """Batches made by threads of this process."""

    def __init__(self, make: Make, count: int) -> None:
        self._make = make
        self._pool = futures.ThreadPoolExecutor(count, "data-loader")
        self._pending: dict[int, futures.Future[object]] = {}
        self._tickets = 0

    def submit(self, indices: Sequence[int]) -> int:
        """Have a batch made; its ticket."""
        self._tickets += 1
        self._pending[self._tickets] = self._pool.submit(self._make, indices)
        return self._tickets

    def result(self, ticket: int, timeout: float) -> object:
        """The batch of a ticket. Raises what made it impossible, TimeoutError after ``timeout``."""
        future = self._pending.pop(ticket)
        if not futures.wait([future], timeout).done:
            raise _timed_out(timeout)
        return future.result()

    def forget(self, ticket: int) -> None:
        """No caller wants this batch any more."""
        future = self._pending.pop(ticket, None)
        if future is not None:
            future.cancel()

    def close(self) -> None:
        """End the threads once they are done."""
        self._pool.shutdown(wait=False, cancel_futures=True)


# ---- processes ----------------------------------------------------------------------------------


class Processes:
    """Batches made by forked processes, which see the dataset as it was when this was made.

    Each draws random numbers of its own, which follow from the seeds of this process.
    """

    def __init__(self, make: Make, count: int) -> None:
        context = multiprocessing.get_context("fork")
        self._pid = os.getpid()
        self._pipes: list[connection.Connection] = []
        self._workers: list[BaseProcess] = []
        self._tickets = 0
        self._arrived: dict[int, tuple[bool, Any]] = {}
        self._forgotten: set[int] = set()
        seeds = _seeds(count)
        for number in range(count):
            ours, theirs = context.Pipe()
            self._pipes.append(ours)
            target = (make, theirs, list(self._pipes), seeds[number])
            worker = context.Process(target=_serve, args=target, daemon=True)
            worker.start()
            theirs.close()
            self._workers.append(worker)

    def submit(self, indices: Sequence[int]) -> int:
        """Have a batch made; its ticket. Raises MXNetError when the worker is gone."""
        self._tickets += 1
        try:
            self._pipes[self._tickets % len(self._pipes)].send((self._tickets, list(indices)))
        except OSError:
            raise self._died(self._tickets) from None
        return self._tickets

    def result(self, ticket: int, timeout: float) -> object:
        """The batch of a ticket. Raises what the worker raised, with the worker's traceback.

        Raises MXNetError when the worker died, TimeoutError after ``timeout`` seconds.
        """
        end = time.monotonic() + timeout
        while ticket not in self._arrived:
            self._receive(ticket, end, timeout)
        is_made, found = self._arrived.pop(ticket)
        if is_made:
            return found
        error, text = found
        raise error from WorkerTraceback(text)

    def forget(self, ticket: int) -> None:
        """No caller wants this batch any more."""
        if self._arrived.pop(ticket, None) is None:
            self._forgotten.add(ticket)

    def close(self) -> None:
        """End the processes."""
        if os.getpid() != self._pid:
            return  # a fork of the program: the workers are not its own
        for pipe in self._pipes:
            pipe.close()
        end = time.monotonic() + _GRACE
        for worker in self._workers:
            worker.join(max(0.0, end - time.monotonic()))
            if worker.is_alive():
                worker.kill()
                worker.join()

    def _receive(self, ticket: int, end: float, timeout: float) -> None:
        """Take the next message of the worker that has this ticket."""
        place = ticket % len(self._pipes)
        pipe, worker = self._pipes[place], self._workers[place]
        left = max(0.0, end - time.monotonic())
        ready = connection.wait([pipe, worker.sentinel], left)
        if not ready:
            raise _timed_out(timeout)
        if pipe not in ready and not pipe.poll():
            raise self._died(ticket)
        try:
            number, is_made, size = pipe.recv()
            found = _read(reduction.recv_handle(pipe), size)
        except (EOFError, OSError):
            raise self._died(ticket) from None
        if number in self._forgotten:
            self._forgotten.discard(number)
        else:
            self._arrived[number] = (is_made, found)

    def _died(self, ticket: int) -> MXNetError:
        worker = self._workers[ticket % len(self._workers)]
        worker.join(_GRACE)
        code = worker.exitcode
        how = "is gone" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was killed by signal {-code} (out of memory?)"
        return MXNetError(f"a worker process of the DataLoader {how}")


def _seeds(count: int) -> list[list[int]]:
    """Seeds for each worker's three generators, from the states of this process's."""
    numpy_state = np.random.get_state()  # noqa: NPY002
    own = [int(generator().integers(2**32)), int(numpy_state[1][0]), int(numpy_state[2])]  # type: ignore[index]
    entropy = [*own, *random.getstate()[1][:2]]
    spawned = np.random.SeedSequence(entropy).spawn(count)
    return [[int(word) for word in one.generate_state(3)] for one in spawned]


# In the worker


def _serve(
    make: Make,
    pipe: connection.Connection,
    others: Sequence[connection.Connection],
    seeds: Sequence[int],
) -> None:
    """Make batches until the program closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's affair
    for other in others:
        other.close()  # a copy that would keep the pipe open when the program is gone
    seed_generator(seeds[0])
    np.random.seed(seeds[1])  # noqa: NPY002
    random.seed(seeds[2])
    with suppress(EOFError, OSError):
        while True:
            ticket, indices = pipe.recv()
            _answer(pipe, ticket, make, indices)


def _answer(pipe: connection.Connection, ticket: int, make: Make, indices: Sequence[int]) -> None:
    """Send a small message and the file. A message never waits for the program to read it."""
    is_made = True
    try:
        handle, size = _written(make(indices))
    except Exception as error:
        is_made = False
        handle, size = _written((_portable(error), traceback.format_exc()))
    try:
        pipe.send((ticket, is_made, size))
        reduction.send_handle(pipe, handle, os.getppid())
    finally:
        os.close(handle)


def _portable(error: Exception) -> Exception:
    """The exception, or what says its type and text where it cannot be pickled."""
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    except Exception as other:
        return MXNetError(f"{type(error).__name__}: {error} (it cannot be pickled: {other})")
    return MXNetError(f"{type(error).__name__}: {error}")


# ---- what travels -------------------------------------------------------------------------------


class _Place(NamedTuple):
    """An array in the file; ``of_numpy`` tells NumPy arrays from NDArrays."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    of_numpy: bool


def _written(value: object) -> tuple[int, int]:
    """A new unnamed file that holds ``value``, and its size: a length, the pickle, the arrays."""
    arrays: list[np.ndarray] = []
    sizes: list[int] = []
    shape = pickle.dumps(_without_arrays(value, arrays, sizes))
    head = len(shape).to_bytes(8, "little") + shape
    handle = _unnamed_file()
    try:
        size = _write(handle, head, 0)
        for array in arrays:
            size = _write(handle, array.reshape(-1).view(np.uint8).data, _aligned(size))
        return handle, size
    except BaseException:
        os.close(handle)
        raise


def _without_arrays(value: Any, arrays: list[np.ndarray], sizes: list[int]) -> Any:
    """``value`` with a place, counted from the first array, for every array in its containers."""
    if type(value) is tuple or type(value) is list:
        return type(value)(_without_arrays(item, arrays, sizes) for item in value)
    if type(value) is dict:
        return {key: _without_arrays(item, arrays, sizes) for key, item in value.items()}
    is_plain = type(value) is np.ndarray and not value.dtype.hasobject
    if not (is_plain or type(value) is NDArray):
        return value
    array = np.ascontiguousarray(value if is_plain else value._data)
    if array.size == 0:
        return value
    place = _Place(_aligned(sum(sizes)), value.shape, array.dtype, is_plain)
    sizes.append(_aligned(array.nbytes))
    arrays.append(array)
    return place


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("data-loader", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(handle: int, data: bytes | memoryview, position: int) -> int:
    """Write all of ``data`` there; where it ends."""
    rest = memoryview(data)
    while len(rest):
        done = os.pwrite(handle, rest, position)
        rest, position = rest[done:], position + done
    return position


def _read(handle: int, size: int) -> Any:
    """What :func:`_written` put into a file, which is closed; its arrays keep the memory."""
    try:
        memory = mmap.mmap(handle, size)
    finally:
        os.close(handle)
    length = int.from_bytes(memory[:8], "little")
    return _with_arrays(pickle.loads(memory[8 : 8 + length]), memory, _aligned(8 + length))


def _with_arrays(value: object, memory: mmap.mmap, start: int) -> Any:
    if type(value) is tuple or type(value) is list:
        return type(value)(_with_arrays(item, memory, start) for item in value)
    if type(value) is dict:
        return {key: _with_arrays(item, memory, start) for key, item in value.items()}
    if type(value) is not _Place:
        return value
    count = int(np.prod(value.shape))
    flat = np.frombuffer(memory, value.dtype, count, start + value.offset)
    array = flat.reshape(value.shape)
    return array if value.of_numpy else NDArray(array, cpu())

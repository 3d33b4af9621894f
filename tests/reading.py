"""Readers held to their promises on one hostile file after another.

In: a format's name and the number of a case. Out: whether it was refused; an AssertionError or a
foreign exception when a promise is broken: only MXNetError comes out, memory stays below twice the
file plus 64 MB, time is bounded, and a cached object is the one that was stored or none.
"""

from __future__ import annotations

import resource
import signal
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from hostile import mutated, mutated_bytes, params_case, symbol_case
from hybridjit.codegen.build.objects import load_object, object_key, store_object, warn_of_cache
from hybridjit.codegen.llvm.jit import find_target
from hybridjit.config import override
from hybridjit.errors import InternalError, MXNetError
from hybridjit.formats.mxnet import params, symbol_json

MEMORY = 64 << 20
SECONDS = 10.0  # of the processor for one file, traced; far more than any needs

Data = bytes | str
Read = Callable[[Data], object]


class Bounds:
    """Runs a reader on one file after another and holds it to its promises.

    ``traced`` counts the bytes that each file takes: exact, and several times slower.
    """

    def __init__(self, read: Read, traced: bool = True) -> None:
        self.read = read
        self.traced = traced
        self.accepted = 0
        self.refused = 0

    def __call__(self, data: Data) -> object:
        start = time.process_time()
        if self.traced:
            with memory_of(len(data)):
                result = self._read(data)
        else:
            result = self._read(data)
        assert time.process_time() - start < SECONDS
        return result

    def _read(self, data: Data) -> object:
        try:
            result = self.read(data)
        except InternalError:
            raise
        except MXNetError as error:
            assert str(error)
            self.refused += 1
            return None
        self.accepted += 1
        return result


@contextmanager
def memory_of(size: int) -> Iterator[None]:
    """Raises AssertionError if the block takes more than twice ``size`` and 64 MB."""
    started = not tracemalloc.is_tracing()
    if started:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield
        taken = tracemalloc.get_traced_memory()[1] - before
    finally:
        if started:
            tracemalloc.stop()
    assert taken <= 2 * size + MEMORY, f"{taken} bytes for a file of {size}"


@contextmanager
def address_space(beyond: int) -> Iterator[None]:
    """At most ``beyond`` more bytes for this process (Linux): a reader that goes wild gets a
    MemoryError, and the machine survives."""
    if sys.platform != "linux":
        yield
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + beyond
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def hurry(seconds: int) -> Iterator[None]:
    """Raises AssertionError where the block is after so many seconds, also in a system call."""

    def broken(*_: object) -> None:
        raise AssertionError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, broken)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# Formats: a context that gives the two functions


@contextmanager
def params_format() -> Iterator[tuple[Callable[[int], Data], Read]]:
    yield params_case, params.loads  # type: ignore[misc]


@contextmanager
def symbol_format() -> Iterator[tuple[Callable[[int], Data], Read]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a version that is newer
        yield symbol_case, symbol_json.loads


@contextmanager
def object_format() -> Iterator[tuple[Callable[[int], Data], Read]]:
    """A folder with two objects; the file of the first one is replaced by what a case holds."""
    code = [bytes(Random(i).randbytes(300)) for i in range(2)]
    keys = [object_key(name, find_target()) for name in ("first", "second")]
    with tempfile.TemporaryDirectory(prefix="hybridjit-fuzz-") as name:
        folder = Path(name, "objects")
        with override(cache_dir=str(folder)):
            for key, text in zip(keys, code):
                store_object(key, text)
            files = [folder / key for key in keys]
            whole = [file.read_bytes() for file in files]

            def make(number: int) -> bytes:
                rng = Random(number)
                kind = number % 16
                if kind == 0:
                    return whole[1]  # another kernel's object under this name
                if kind == 1:
                    at = rng.randrange(len(whole[0]))
                    return whole[0][:at] + whole[1][at:]
                return mutated(mutated_bytes, rng, whole[0])

            def read(data: Data) -> bool:
                files[0].write_bytes(data)  # type: ignore[arg-type]
                found = load_object(keys[0])
                assert found is None or found == code[0], "a damaged object was believed"
                if found is None:
                    raise MXNetError("refused")
                return True

            try:
                yield make, read
            finally:
                with warnings.catch_warnings():  # what is left to say of this folder is said
                    warnings.simplefilter("ignore", RuntimeWarning)
                    warn_of_cache()


FORMATS = {"params": params_format, "json": symbol_format, "objects": object_format}

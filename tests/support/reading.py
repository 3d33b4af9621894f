"""Readers held to their promises on one hostile file after another.

In: a format's name and the number of a case. Out: whether it was refused; an AssertionError or a
foreign exception when a promise is broken: only MXNetError comes out, memory stays below twice the
file plus 64 MB, time is bounded, and a cached object is the one that was stored or none.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from hostile import mutated, mutated_bytes, onnx_case, params_case, symbol_case
from hybridjit._core.config import override
from hybridjit.codegen.emit.keys import object_key
from hybridjit.codegen.emit.objects import load_object, store_object, warn_of_cache
from hybridjit.codegen.targets import find_target
from hybridjit.errors import InternalError, MXNetError
from hybridjit.formats.mxnet import params, symbol_json
from hybridjit.formats.onnx.messages import read_model
from hybridjit.onnx.blocks import make_block
from hybridjit.onnx.graph import make_graph
from hybridjit.onnx.operators import KNOWN
from patience import PATIENCE

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

    def __call__(self, data: Data, size: int | None = None) -> object:
        """The reader's result for ``data``, whose file has ``size`` bytes; None if it refuses."""
        start = time.process_time()
        if self.traced:
            with memory_of(len(data) if size is None else size):
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


class Reading(NamedTuple):
    """How a process fared that read one graph file."""

    error: str  # its beginning; empty when the file was read
    grew: int  # bytes, at the most
    seconds: float  # of the processor


_READER = """
import json, os, resource, sys, time
from hybridjit.errors import MXNetError
from hybridjit.formats.mxnet import symbol_json

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

for path in sys.argv[1:]:
    if child := os.fork():
        if os.waitpid(child, 0)[1]:
            sys.exit(f"reading {path} ended badly")
        continue
    before, start, error = peak(), time.process_time(), ""
    try:
        symbol_json.load(path)
    except MXNetError as caught:
        error = str(caught)[:200]
    print(json.dumps([error, peak() - before, time.process_time() - start]), flush=True)
    os._exit(0)
"""


def read_apart(paths: Iterable[Path]) -> list[Reading]:
    """Read each graph file in a process that did nothing before: ten times as fast as traced."""
    command = [sys.executable, "-c", _READER, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return [Reading(*json.loads(line)) for line in done.stdout.splitlines()]


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
    """Raises AssertionError where the block is after a number of seconds of CPU time.

    Also in a system call that waits, after seconds that no busy machine needs.
    """

    def broken(*_: object) -> None:
        raise AssertionError(f"not done after {seconds} s of the processor, or {PATIENCE:.0f} s")

    before = [signal.signal(number, broken) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), before):
            signal.signal(number, handler)


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
def onnx_format() -> Iterator[tuple[Callable[[int], Data], Read]]:
    """Mutated files of MXNet's exporter; readable ones are made into a block."""

    def read(data: Data) -> object:
        assert isinstance(data, bytes)
        return make_block(make_graph(read_model(data), KNOWN, None, {}))

    yield onnx_case, read


@contextmanager
def object_format() -> Iterator[tuple[Callable[[int], Data], Read]]:
    """A folder with two objects; the file of the first one is replaced by the bytes of a case."""
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
                with warnings.catch_warnings():  # the remaining warnings of this folder are issued
                    warnings.simplefilter("ignore", RuntimeWarning)
                    warn_of_cache()


@contextmanager
def special_format() -> Iterator[tuple[Callable[[int], Data], Read]]:
    """Array and graph files, and special files; the bytes select the kind."""
    with tempfile.TemporaryDirectory(prefix="hybridjit-fuzz-") as name:
        path = Path(name, "it")
        readers = (params.load, symbol_json.load, symbol_json.load_outline)

        def make(number: int) -> bytes:
            case = params_case(number) if number % 2 else symbol_case(number)
            return case if isinstance(case, bytes) else case.encode("utf-8", "surrogatepass")

        def read(data: Data) -> object:
            rng = Random(data)
            try:
                with rng.choice(PLACES)(path, data) or nullcontext(), hurry(20):
                    return rng.choice(readers)(path)
            finally:
                path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a version that is newer
            yield make, read


def _file(path: Path, data: bytes, hole: int = 0) -> None:
    path.write_bytes(data)
    os.truncate(path, len(data) + hole)


def _link(path: Path, data: bytes) -> None:
    path.with_name("other").write_bytes(data)
    path.symlink_to("other")


@contextmanager
def _pipe(path: Path, data: bytes) -> Iterator[None]:
    """Contents of a pipe whose writer has exited; empty for every second case."""
    os.mkfifo(path)
    held = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if len(data) % 2:
            with path.open("wb", buffering=0) as file:
                os.set_blocking(file.fileno(), False)
                file.write(data)
        yield
    finally:
        os.close(held)


def _no_file(path: Path, data: bytes) -> None:
    """A folder, a socket, a device, a link that leads to itself, nothing."""
    kind = Random(data).choice(
        ("folder", "socket", "it", "/dev/zero", "/dev/full", "/dev/null", "")
    )
    if kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind:
        path.symlink_to(kind)


PLACES = (_file, partial(_file, hole=1 << 20), _link, _pipe, _no_file)
FORMATS = {
    "params": params_format,
    "json": symbol_format,
    "objects": object_format,
    "onnx": onnx_format,
    "special": special_format,
}

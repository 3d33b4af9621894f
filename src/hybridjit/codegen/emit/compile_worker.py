"""A process that compiles for another: LLVM IR as text in, object code out.

It is started by :mod:`.compile_pool` with its standard input and output as pipes, ends when its
input does, and imports LLVM's binding and nothing else. First comes a greeting from here. Then
follow frames, each its length as eight bytes and the bytes: from there the target as JSON, and for
each job its text, whose first two bytes say whether LLVM's passes run and at which level it
generates code; from here the object for each job, empty when LLVM refuses.
"""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import asdict
from typing import IO

from ..._core.target import ElementTypes, Target
from ..llvm.jit import compile_object

GREETING = b"hybridjit worker 1\n"
_MOST_BYTES = 1 << 30


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """Raises OSError when nobody reads any more."""
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """Raises EOFError when the other side is gone, or talks nonsense."""
    (size,) = struct.unpack("<Q", _exactly(stream, 8))
    if size > _MOST_BYTES:
        raise EOFError
    return _exactly(stream, size)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError
    return data


def target_frame(target: Target) -> bytes:
    """A target as data."""
    return json.dumps(asdict(target)).encode()


def target_of(frame: bytes) -> Target:
    """The target that :func:`target_frame` wrote."""
    values = json.loads(frame)
    return Target(**{**values, "element": ElementTypes(**values["element"])})


def job_frame(text: str, with_passes: bool, level: int) -> bytes:
    """A kernel's text as data."""
    return bytes([with_passes, level]) + text.encode()


def serve() -> None:
    """Compile what comes in until nothing does."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    try:
        sink.write(GREETING)
        sink.flush()
        target = target_of(read_frame(source))
        while True:
            write_frame(sink, _compiled(read_frame(source), target))
    except (EOFError, OSError):
        return


def _compiled(job: bytes, target: Target) -> bytes:
    """The object; empty when there is none, so that the error is raised where it is seen."""
    try:
        return compile_object(job[2:].decode(), target, bool(job[0]), job[1])
    except Exception:  # noqa: BLE001
        return b""

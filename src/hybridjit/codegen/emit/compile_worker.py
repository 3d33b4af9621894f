"""A process that compiles for another: LLVM IR as text in, object code out.

:mod:`.compile_pool` starts it with pipes as standard input and output. It ends when its input does,
and imports only LLVM's binding. First it writes a greeting. Then frames follow, each its length as
eight bytes and its contents: input frames are the target as JSON, and for each job its text, whose
first two bytes say whether LLVM's passes run and the code generation level; output frames are the
object of each job, empty if LLVM rejects it.
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
    """Write a frame. Raises OSError if the reader is gone."""
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """Read a frame. Raises EOFError if the writer is gone, or the frame is malformed."""
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
    """A target as a frame."""
    return json.dumps(asdict(target)).encode()


def target_of(frame: bytes) -> Target:
    """The target that :func:`target_frame` wrote."""
    values = json.loads(frame)
    return Target(**{**values, "element": ElementTypes(**values["element"])})


def job_frame(text: str, with_passes: int, level: int) -> bytes:
    """A job as a frame."""
    return bytes([with_passes, level]) + text.encode()


def serve() -> None:
    """Compile jobs until the input ends."""
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
    """The object; empty if LLVM rejects the text, so that the parent process raises the error."""
    try:
        return compile_object(job[2:].decode(), target, job[0], job[1])
    except Exception:  # noqa: BLE001
        return b""

"""A stream of binary data whose counts and sizes are checked before memory is allocated.

Input: a file or a pipe. Output: its numbers, strings and arrays in order; a
:class:`ModelFormatError` with the offset for data that ends early or is too large.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import BinaryIO, NoReturn

import numpy as np

from ..._core.types import product
from ...errors import ModelFormatError
from .bulk import CAN_READ, WORTH_IT, Bulk

_DENSE_SLACK = 32 << 20  # growth of sparse records beyond the file's length
PIPE_BYTES = 1 << 30  # limit of bytes from a pipe, whose length is unknown
PIECE = 1 << 20  # bytes or items of a chunk, where reading all needs too much memory


class Reader:
    """Bounded stream with the number of remaining bytes, the offset and the current array.

    The length of a pipe is assumed to be the limit, and its end is detected when it is reached.
    With ``sparse``, sparse records remain sparse.
    """

    def __init__(self, file: BinaryIO, name: str, sparse: bool) -> None:
        self.sparse = sparse
        self.file = file
        self.name = name
        self.is_pipe = not file.seekable()
        self.size = PIPE_BYTES if self.is_pipe else file.seek(0, io.SEEK_END)
        self.offset = 0 if self.is_pipe else file.seek(0)
        self.place = "the header"
        self.dense_bytes = 0  # bytes of sparse arrays made dense so far
        is_file = CAN_READ and isinstance(file, io.BufferedReader) and not self.is_pipe
        self.bulk = Bulk(file.fileno()) if is_file else None

    @property
    def left(self) -> int:
        return self.size - self.offset

    def fail(self, what: str, offset: int | None = None) -> NoReturn:
        at = self.offset if offset is None else offset
        raise ModelFormatError(
            f"Invalid NDArray file format: {what} (at byte {at} of {self.size}, "
            f"in {self.place}, {self.name})"
        )

    def need(self, count: int, what: str) -> None:
        if count > self.left:
            self.fail(f"{what} takes {count} bytes, {self.left} are left")

    def require_small(self, shape: tuple[int, ...], offset: int) -> None:
        """Limit the sizes of an array with a size of 0: NumPy multiplies the other sizes."""
        if product(tuple(d for d in shape if d)) >= 1 << 48:
            self.fail(f"shape {shape} is larger than any file", offset)

    def unpack(self, layout: str, what: str) -> tuple[int, ...]:
        size = struct.calcsize(layout)
        self.need(size, what)
        return struct.unpack(layout, self._exactly(size))

    def text(self, count: int) -> str:
        self.need(count, "name")
        start = self.offset
        try:
            return self._exactly(count).decode("utf-8")
        except UnicodeDecodeError as error:
            self.fail("name is not UTF-8", start + error.start)

    def array(
        self, shape: tuple[int, ...], dtype: np.dtype, what: str, later: bool = False
    ) -> np.ndarray:
        """Next values; ``later`` delays reading of a large array until :meth:`finish`."""
        self.need(product(shape) * dtype.itemsize, f"{what} of shape {shape} and {dtype.name}")
        self.require_small(shape, self.offset)
        if self.is_pipe:
            data = self._come(product(shape) * dtype.itemsize)
            return np.frombuffer(data, dtype.newbyteorder("<")).reshape(shape)
        result = np.empty(shape, dtype.newbyteorder("<"))
        if later and self.bulk and result.dtype.isnative and result.nbytes >= WORTH_IT:
            self.bulk.add(result, self.offset)
            self.offset = self.file.seek(self.offset + result.nbytes)
            return result
        got = self.file.readinto(result.reshape(-1).view(np.uint8))  # type: ignore[attr-defined]
        if got != result.nbytes:
            self.fail(f"file shrank while it was read: {got} of {result.nbytes} bytes")
        self.offset += got
        return result.astype(dtype, copy=False)

    def pieces(self, count: int, dtype: np.dtype, what: str) -> Iterator[np.ndarray]:
        """Next ``count`` values, in chunks."""
        self.need(count * dtype.itemsize, f"{what} of {count} values of {dtype.name}")
        for start in range(0, count, PIECE):
            yield self.array((min(PIECE, count - start),), dtype, what)

    def finish(self) -> None:
        """Read the delayed arrays."""
        if self.bulk:
            try:
                self.bulk.read()
            except EOFError:
                self.place = "its arrays"
                self.fail("file shrank while it was read")

    def dense_left(self) -> int:
        """Bytes that sparse arrays may still use when they become dense."""
        seen = self.offset if self.is_pipe else self.size
        return seen + _DENSE_SLACK - self.dense_bytes

    def _exactly(self, count: int) -> bytes | bytearray:
        if self.is_pipe:
            return self._come(count)
        data = self.file.read(count)
        if len(data) != count:
            self.fail(f"file shrank while it was read: {len(data)} of {count} bytes")
        self.offset += count
        return data

    def _come(self, count: int) -> bytearray:
        """Next bytes of a pipe. Memory is allocated only for bytes that have arrived."""
        data = bytearray()
        while len(data) < count:
            piece = self.file.read(min(count - len(data), PIECE))
            if not piece:
                self.fail(f"the pipe ends {count - len(data)} bytes too early")
            data += piece
            self.offset += len(piece)
        return data

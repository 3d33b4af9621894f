"""Arrays in NumPy's files, which MXNet 2.0 writes as ``.params``: ``.npy`` and ``.npz``.

Input: an open file that is not trusted. Output: its array in a list, or arrays by name. Every size
is checked against the file's bytes before memory is allocated for it.
"""

from __future__ import annotations

import io
import tokenize
import zipfile
import zlib
from typing import BinaryIO

import numpy as np

from ..._core.types import CODE_OF_DTYPE, product
from ...errors import ModelFormatError

_END = ".npy"
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# What zipfile and NumPy raise for malformed files; a header is parsed as a Python literal.
_FAULTS = (
    *(ValueError, EOFError, OSError, RuntimeError, MemoryError, SyntaxError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def read(file: BinaryIO, name: str) -> dict[str, np.ndarray] | list[np.ndarray]:
    """Arrays of a file: by name from an archive, else a list of one. Raises ModelFormatError."""
    content = file.read()
    try:
        return _read_archive(content) if content.startswith(b"PK") else [_array(content)]
    except _FAULTS as error:
        raise ModelFormatError(f"Invalid .npz or .npy file: {error} ({name})") from None


def _read_archive(content: bytes) -> dict[str, np.ndarray]:
    """Arrays of an archive. Raises ValueError for members that this reader does not accept."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > len(content):
            raise ValueError("its members are compressed; numpy.savez writes them as they are")
        for member in members:
            if not member.filename.endswith(_END) or "/" in member.filename:
                raise ValueError(f"{member.filename!r} is not a dense array")
        names = [member.filename.removesuffix(_END) for member in members]
        return {key: _array(archive.read(m)) for key, m in zip(names, members)}


def _array(content: bytes) -> np.ndarray:
    """Array of a ``.npy`` file. Raises ValueError for other contents."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the .npy format, known are 1.0 and 2.0")
    shape, is_fortran, dtype = _HEADERS[version](stream)
    native = dtype.newbyteorder("=")
    if native not in CODE_OF_DTYPE:
        raise ValueError(f"element type {dtype}, which arrays do not have")
    count, left = product(shape), len(content) - stream.tell()
    if min(shape, default=0) < 0 or count * dtype.itemsize != left:
        raise ValueError(f"shape {shape} of {dtype} in {left} bytes")
    flat = np.frombuffer(content, dtype, count, stream.tell())
    return np.array(flat.reshape(shape, order="F" if is_fortran else "C"), native, order="C")

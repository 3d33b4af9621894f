"""Messages between a DataLoader and its worker processes: values, or exceptions.

Input: a value of lists, tuples and dictionaries of arrays, or any object that can be pickled.
Output: the value in the other process. A long message is in an unnamed file of shared memory, and
its arrays are not copied. The operating system frees such a file with the last process that maps
it, however that process ends.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import connection, reduction
from typing import Any, NamedTuple

import numpy as np

from ..._core import host
from ..._core.limits import limit_text
from ...context import cpu
from ...errors import MXNetError
from ...nd import NDArray
from ...nd.memory import DENSE_KINDS
from .workers import failed, raised

_ALIGNMENT = 64
_SHORT = 1 << 13  # bytes that are sent directly, because a mapping costs more


Layout = tuple[list[tuple[int, bytes | memoryview]], int]  # offsets and parts, and the total size


# ---- sending and receiving ----------------------------------------------------------------------


def post(pipe: connection.Connection, is_made: bool, layout: Layout) -> None:
    """Send a value (``is_made``), or a pair of exception and traceback.

    Raises MXNetError, without sending, if the file for a long one cannot be made or written.
    """
    parts, size = layout
    if size <= _SHORT:
        body = bytearray(size)
        for place, data in parts:
            body[place : place + len(data)] = data
        pipe.send((is_made, bytes(body)))
        return
    try:
        handle = _written(parts)
    except OSError as error:
        raise MXNetError(
            f"a DataLoader cannot make a file of {size} bytes: {_why(error)}"
        ) from None
    try:
        pipe.send((is_made, size))
        reduction.send_handle(pipe, handle, os.getppid())
    finally:
        os.close(handle)


def received(pipe: connection.Connection) -> Callable[[], Any] | None:
    """A function that returns the next value or raises its exception; None for the end marker.

    The function raises MXNetError if this process cannot map the value. This call raises EOFError
    or OSError if the other process is gone.
    """
    message = pipe.recv()
    if message is None:
        return None
    is_made, body = message
    if isinstance(body, bytes):
        return partial(_opened, is_made, bytearray(body))
    try:
        return partial(_opened, is_made, _mapped(reduction.recv_handle(pipe), body))
    except RuntimeError as error:  # no free file descriptor
        why = _why(OSError(errno.EMFILE, str(error)))
    except OSError as error:
        why = _why(error)
    return partial(failed, f"a DataLoader cannot map {body} bytes: {why}")


def _why(error: OSError) -> str:
    """The system's reason, with the limit that causes it."""
    limits = {errno.EMFILE: "NOFILE", errno.EFBIG: "FSIZE", errno.ENOMEM: "AS"}
    return str(error) + (limit_text(limits[error.errno]) if error.errno in limits else "")


def _opened(is_made: bool, memory: Any) -> object:
    """The value in a message. Raises the exception if it contains one."""
    found = _read(memory)
    if not is_made:
        raised(*found)
    return found


def portable(error: BaseException) -> BaseException:
    """The exception, or an MXNetError with its type and message if it cannot be pickled."""
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    except Exception as other:
        return MXNetError(f"{type(error).__name__}: {error} (it cannot be pickled: {other})")
    return MXNetError(f"{type(error).__name__}: {error}")


# ---- values -------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """An array in the message; ``kind`` is the class of an NDArray, None for a NumPy array."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    kind: type[NDArray] | None


def laid_out(value: object) -> Layout:
    """The layout of a value: a length, the pickle without the arrays, the arrays."""
    arrays: list[np.ndarray] = []
    sizes: list[int] = []
    shape = pickle.dumps(_without_arrays(value, arrays, sizes))
    parts: list[tuple[int, bytes | memoryview]] = [(0, len(shape).to_bytes(8, "little") + shape)]
    size = 8 + len(shape)
    for array in arrays:
        place = _aligned(size)
        parts.append((place, array.reshape(-1).view(np.uint8).data))
        size = place + array.nbytes
    return parts, size


def _without_arrays(value: Any, arrays: list[np.ndarray], sizes: list[int]) -> Any:
    """``value`` with each array in its containers replaced by its location among the arrays."""
    if type(value) is tuple or type(value) is list:
        return type(value)(_without_arrays(item, arrays, sizes) for item in value)
    if type(value) is dict:
        return {key: _without_arrays(item, arrays, sizes) for key, item in value.items()}
    is_plain = type(value) is np.ndarray and not value.dtype.hasobject
    if not (is_plain or type(value) in DENSE_KINDS):
        return value
    array = np.ascontiguousarray(value if is_plain else value._data)
    if array.size == 0:
        return value
    place = _Place(
        _aligned(sum(sizes)), value.shape, array.dtype, None if is_plain else type(value)
    )
    sizes.append(_aligned(array.nbytes))
    arrays.append(array)
    return place


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _read(memory: Any) -> Any:
    """The value in a message; its arrays refer to the memory."""
    view = memoryview(memory).cast("B")
    length = int.from_bytes(view[:8], "little")
    return _with_arrays(pickle.loads(view[8 : 8 + length]), memory, _aligned(8 + length))


def _with_arrays(value: object, memory: Any, start: int) -> Any:
    if type(value) is tuple or type(value) is list:
        return type(value)(_with_arrays(item, memory, start) for item in value)
    if type(value) is dict:
        return {key: _with_arrays(item, memory, start) for key, item in value.items()}
    if type(value) is not _Place:
        return value
    count = int(np.prod(value.shape))
    flat = np.frombuffer(memory, value.dtype, count, start + value.offset)
    array = flat.reshape(value.shape)
    return array if value.kind is None else value.kind(array, cpu())


# ---- files of shared memory ---------------------------------------------------------------------

_FIXED = 0x10  # MAP_FIXED on Linux and BSD
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    number = ctypes.c_int
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        *(ctypes.c_void_p, ctypes.c_size_t),
        *(number, number, number, ctypes.c_int64),
    ]
    return library


_LIBC = _library()


def _mapped(handle: int, size: int) -> mmap.mmap:
    """The bytes of a file, which is closed. Raises OSError if the system cannot map it.

    Python's ``mmap`` would keep a descriptor for each file. Therefore it maps anonymous memory, and
    the file is mapped over it. C code unmaps it, which no exception interrupts.
    """
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        how = mmap.MAP_SHARED | _FIXED
        if _LIBC.mmap(address, size, _READ_WRITE, how, handle, 0) != address:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(handle)
    return memory


def _written(parts: Sequence[tuple[int, bytes | memoryview]]) -> int:
    """A new unnamed file with these parts. Raises OSError."""
    handle = host.unnamed_file("data-loader")
    try:
        for place, data in parts:
            _write(handle, data, place)
        return handle
    except BaseException:
        os.close(handle)
        raise


def _write(handle: int, data: bytes | memoryview, position: int) -> None:
    """Write all of ``data`` at ``position``."""
    rest = memoryview(data)
    while len(rest):
        done = os.pwrite(handle, rest, position)
        rest, position = rest[done:], position + done

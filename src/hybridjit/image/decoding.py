"""Decoding of images from files and encoded bytes.

Input: the bytes of a JPEG, PNG or other file. Output: an NDArray (height, width, channels) of
uint8.
"""

from __future__ import annotations

import numpy as np

from .._core.frames import public
from .._core.image_codecs import decoded
from .._core.safe_open import open_file
from ..errors import MXNetError
from ..formats.atomic import system_errors
from ..nd import NDArray
from .making import array

_PIPE_BYTES = 256 << 20  # limit of an encoded image from a pipe


@public
def imread(filename: str, flag: int = 1, to_rgb: bool = True) -> NDArray:
    """Image read from a file by :func:`imdecode`. Raises the same MXNetErrors."""
    with system_errors(filename), open_file(filename, _PIPE_BYTES) as file:
        data = file.read()
    try:
        return imdecode(data, flag, to_rgb)
    except MXNetError as error:
        raise MXNetError(f"{filename}: {error}") from None


@public
def imdecode(
    buf: bytes | bytearray | np.ndarray,
    flag: int = 1,
    to_rgb: bool = True,
    out: NDArray | None = None,
) -> NDArray:
    """Image decoded from bytes: colour (H, W, 3) for ``flag`` 1, grey (H, W, 1) for 0.

    Channels are in the order red, green, blue; reversed if ``to_rgb`` is false. Raises ValueError
    if ``buf`` is a str, and MXNetError if it is not an image or neither OpenCV nor Pillow is
    installed.
    """
    if not isinstance(buf, (bytes, bytearray, np.ndarray)):
        raise ValueError(
            "buf must be of type bytes, bytearray or numpy.ndarray, if you would like to input "
            f"type str, please convert to bytes; got {type(buf).__name__}"
        )
    if flag not in (0, 1):
        raise MXNetError(f"imdecode: flag must be 1 (colour) or 0 (grey), got {flag}")
    data = bytes(buf)
    if not data:
        raise MXNetError("imdecode: the buffer is empty")
    pixels = decoded(data, bool(flag))
    if flag and not to_rgb:
        pixels = pixels[:, :, ::-1]
    picture = array(np.ascontiguousarray(pixels), dtype="uint8")
    if out is None:
        return picture
    out[:] = picture
    return out

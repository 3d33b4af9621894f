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
    """Read an image file; see :func:`imdecode`.

    Parameters
    ----------
    filename : str
        Path of the file.
    flag : int
        1 for colours, 0 for grey.
    to_rgb : bool
        Whether channels are red, green, blue; otherwise blue, green, red.

    Raises
    ------
    MXNetError
        For a file that is missing or not an image, and without OpenCV and Pillow.

    Examples
    --------
    >>> from pathlib import Path
    >>> record = mx.recordio.pack_img((0, 0, 0, 0), np.zeros((4, 6, 3), np.uint8), 3, ".png")
    >>> _ = Path("black.png").write_bytes(mx.recordio.unpack(record)[1])
    >>> mx.image.imread("black.png").shape
    (4, 6, 3)
    """
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
    """Decode an image: uint8 of shape (height, width, 3), or (height, width, 1) in grey.

    Parameters
    ----------
    buf : bytes, bytearray or numpy.ndarray
        The content of a file of JPEG, PNG or another format.
    flag : int
        1 for colours, 0 for grey.
    to_rgb : bool
        Whether channels are red, green, blue; otherwise blue, green, red.
    out : NDArray, optional
        Array of the result's shape that receives it.

    Raises
    ------
    ValueError
        For a str.
    MXNetError
        For bytes that are not an image, and without OpenCV and Pillow.

    Examples
    --------
    >>> record = mx.recordio.pack_img((0, 0, 0, 0), np.zeros((4, 6, 3), np.uint8), 3, ".png")
    >>> mx.image.imdecode(mx.recordio.unpack(record)[1], flag=0).shape
    (4, 6, 1)
    """
    if isinstance(buf, NDArray):
        raise MXNetError("imdecode: buf has the bytes of a file, got an NDArray")
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

"""Pictures from files and encoded bytes.

In: the bytes of a JPEG, PNG or other file. Out: an NDArray (height, width, channels) of uint8.
"""

from __future__ import annotations

import numpy as np

from .. import nd
from ..errors import MXNetError
from ..formats.atomic import system_errors
from ..nd import NDArray
from ..opening import open_file
from ..picture import decoded

_PIPE_BYTES = 256 << 20  # of an encoded picture


def imread(filename: str, flag: int = 1, to_rgb: bool = True) -> NDArray:
    """The picture in a file: :func:`imdecode` of its bytes. Raises MXNetError as that does."""
    with system_errors(filename), open_file(filename, _PIPE_BYTES) as file:
        data = file.read()
    try:
        return imdecode(data, flag, to_rgb)
    except MXNetError as error:
        raise MXNetError(f"{filename}: {error}") from None


def imdecode(
    buf: bytes | bytearray | np.ndarray,
    flag: int = 1,
    to_rgb: bool = True,
    out: NDArray | None = None,
) -> NDArray:
    """The picture in encoded bytes: (H, W, 3) in colour for ``flag`` 1, (H, W, 1) grey for 0.

    Colours are in the order red, green, blue; the other way round when not ``to_rgb``. Raises
    ValueError when ``buf`` is text and MXNetError when it is no picture, or when neither OpenCV
    nor Pillow is installed.
    """
    if not isinstance(buf, (bytes, bytearray, np.ndarray)):
        raise ValueError(
            "buf must be of type bytes, bytearray or numpy.ndarray, if you would like to input "
            f"type str, please convert to bytes; got {type(buf).__name__}"
        )
    if flag not in (0, 1):
        raise MXNetError(f"imdecode: flag is 1 (colour) or 0 (grey), got {flag}")
    data = bytes(buf)
    if not data:
        raise MXNetError("imdecode: the buffer is empty")
    pixels = decoded(data, bool(flag))
    if flag and not to_rgb:
        pixels = pixels[:, :, ::-1]
    picture = nd.array(np.ascontiguousarray(pixels), dtype="uint8")
    if out is None:
        return picture
    out[:] = picture
    return out

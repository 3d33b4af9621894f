"""Pictures from encoded bytes, by OpenCV or Pillow, whichever is installed.

In: the bytes of a JPEG, PNG or other file. Out: an NDArray (height, width, channels) of uint8.
Neither library is needed for anything else, and both are asked for only here.
"""

from __future__ import annotations

import importlib
import io
from types import ModuleType

import numpy as np

from .. import nd
from ..errors import MXNetError
from ..formats.atomic import system_errors
from ..nd import NDArray
from ..opening import open_file

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
    pixels = _decoded(data, bool(flag))
    if flag and not to_rgb:
        pixels = pixels[:, :, ::-1]
    picture = nd.array(np.ascontiguousarray(pixels), dtype="uint8")
    if out is None:
        return picture
    out[:] = picture
    return out


def _decoded(data: bytes, colour: bool) -> np.ndarray:
    cv2 = _library("cv2")
    if cv2 is not None:
        return _by_opencv(cv2, data, colour)
    pil = _library("PIL.Image")
    if pil is not None:
        return _by_pillow(pil, data, colour)
    raise MXNetError(
        "reading pictures takes OpenCV or Pillow, and neither is installed: "
        "pip install pillow (or opencv-python-headless)"
    )


def _library(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _by_opencv(cv2: ModuleType, data: bytes, colour: bool) -> np.ndarray:
    mode = cv2.IMREAD_COLOR if colour else cv2.IMREAD_GRAYSCALE
    mode |= cv2.IMREAD_IGNORE_ORIENTATION  # MXNet does not turn pictures as their EXIF data says
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), mode)
    if pixels is None:
        raise MXNetError("Decoding failed. Invalid image file.")
    return pixels[:, :, ::-1] if colour else pixels[:, :, None]


def _by_pillow(pil: ModuleType, data: bytes, colour: bool) -> np.ndarray:
    mode = "RGB" if colour else "L"
    try:
        picture = pil.open(io.BytesIO(data))
        picture.draft(mode, picture.size)  # a JPEG's own grey, where that is asked for
        if picture.mode.startswith("I"):  # 16 bits: the upper ones
            picture = pil.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
        pixels = np.asarray(picture.convert(mode))
    except (OSError, ValueError, SyntaxError) as error:
        raise MXNetError(f"Decoding failed. Invalid image file. {error}") from None
    return pixels if colour else pixels[:, :, None]

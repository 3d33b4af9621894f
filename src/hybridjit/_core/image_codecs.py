"""Encoding and decoding of images with OpenCV or Pillow, whichever is installed.

Input: the bytes of a JPEG, PNG or other file; or pixels. Output: the other of the two. Channels are
in the order red, green, blue. Only this module imports either library.
"""

from __future__ import annotations

import importlib
import io
from types import ModuleType

import numpy as np

from ..errors import MXNetError

__all__ = ["decoded", "encoded"]


def decoded(data: bytes, colour: bool) -> np.ndarray:
    """Pixels (H, W, 3) in colour, (H, W, 1) in grey. Raises MXNetError for invalid image data."""
    cv2 = _library("cv2")
    if cv2 is not None:
        return _by_opencv(cv2, data, colour)
    pil = _library("PIL.Image")
    if pil is not None:
        return _by_pillow(pil, data, colour)
    raise _nobody("reading")


def encoded(pixels: np.ndarray, extension: str, quality: int) -> bytes:
    """Pixels (H, W, 3) or (H, W) of uint8 as a file of the kind ``.jpg`` or ``.png``.

    ``quality`` is 1 to 100 for JPEG, the compression 0 to 9 for PNG; numbers beyond are the nearest
    of these, as in OpenCV: ``pack_img`` has one default for both. Raises MXNetError.
    """
    is_png = extension == ".png"
    quality = min(max(quality, 0 if is_png else 1), 9 if is_png else 100)
    cv2 = _library("cv2")
    if cv2 is not None:
        which = cv2.IMWRITE_PNG_COMPRESSION if is_png else cv2.IMWRITE_JPEG_QUALITY
        turned = pixels[:, :, ::-1] if pixels.ndim == 3 else pixels
        is_done, found = cv2.imencode(extension, np.ascontiguousarray(turned), [which, quality])
        if not is_done:
            raise MXNetError("failed to encode image")
        return bytes(found)
    pil = _library("PIL.Image")
    if pil is None:
        raise _nobody("writing")
    file = io.BytesIO()
    options = {"compress_level": quality} if is_png else {"quality": quality}
    kind = "PNG" if is_png else "JPEG"
    pil.fromarray(np.ascontiguousarray(pixels)).save(file, kind, **options)
    return file.getvalue()


def _nobody(doing: str) -> MXNetError:
    return MXNetError(
        f"{doing} images takes OpenCV or Pillow, and neither is installed: "
        "pip install pillow (or opencv-python-headless)"
    )


def _library(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _by_opencv(cv2: ModuleType, data: bytes, colour: bool) -> np.ndarray:
    mode = cv2.IMREAD_COLOR if colour else cv2.IMREAD_GRAYSCALE
    mode |= cv2.IMREAD_IGNORE_ORIENTATION  # MXNet does not rotate images by their EXIF data
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), mode)
    if pixels is None:
        raise MXNetError("Decoding failed. Invalid image file.")
    return pixels[:, :, ::-1] if colour else pixels[:, :, None]


def _by_pillow(pil: ModuleType, data: bytes, colour: bool) -> np.ndarray:
    mode = "RGB" if colour else "L"
    try:
        picture = pil.open(io.BytesIO(data))
        picture.draft(mode, picture.size)  # lets a JPEG decode its grey channel alone
        if picture.mode.startswith("I"):  # 16 bits: keep the upper 8
            picture = pil.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
        pixels = np.asarray(picture.convert(mode))
    except (OSError, ValueError, SyntaxError) as error:
        raise MXNetError(f"Decoding failed. Invalid image file. {error}") from None
    return pixels if colour else pixels[:, :, None]

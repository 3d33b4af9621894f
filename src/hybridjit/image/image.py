"""Image operations: resizing, cropping, borders, normalization.

Input and output: an NDArray (height, width, channels). Sizes are (width, height), as everywhere in
``mx.image``. Interpolation has OpenCV's codes: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos;
functions that take a choice also accept 9 (area for shrinking, bicubic for enlarging) and 10
(random).
"""

from __future__ import annotations

import math
import random

import numpy as np

from .. import nd
from .._core.frames import public
from ..errors import MXNetError
from ..nd import NDArray
from .decoding import imdecode, imread
from .making import array

__all__ = [
    "center_crop",
    "color_normalize",
    "copyMakeBorder",
    "fixed_crop",
    "imdecode",
    "imread",
    "imresize",
    "random_crop",
    "random_size_crop",
    "resize_short",
    "scale_down",
]

# NumPy's names of OpenCV's border types.
_ISOLATED = 16  # OpenCV's flag for a region of an image: ignore pixels outside of the region
_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect"}


@public
def imresize(src: NDArray, w: int, h: int, interp: int = 1, out: NDArray | None = None) -> NDArray:
    """Image resized to ``w`` x ``h``."""
    resized = nd.image.resize(src, size=(w, h), interp=interp)
    if out is None:
        return resized
    out[:] = resized
    return out


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """``size`` reduced proportionally until it fits into ``src_size``."""
    (w, h), (source_w, source_h) = size, src_size
    if source_h < h:
        w, h = w * source_h / h, source_h  # type: ignore[assignment]
    if source_w < w:
        w, h = source_w, h * source_w / w  # type: ignore[assignment]
    return int(w), int(h)


def _get_interp_method(interp: int, sizes: tuple[int, ...] = ()) -> int:
    """Method for the codes 9 and 10; ``sizes`` are old height and width, new height and width.

    Raises ValueError for an unknown code.
    """
    if interp == 9:
        if not sizes:
            return 2
        old_h, old_w, new_h, new_w = sizes
        if new_h > old_h and new_w > old_w:
            return 2
        return 3 if new_h < old_h and new_w < old_w else 1
    if interp == 10:
        return random.randint(0, 4)
    if interp not in range(5):
        raise ValueError(f"Unknown interp method {interp}")
    return interp


@public
def resize_short(src: NDArray, size: int, interp: int = 2) -> NDArray:
    """Image resized so that its shorter side is ``size``; keeps the aspect ratio."""
    h, w = src.shape[:2]
    new_h, new_w = (size * h // w, size) if h > w else (size, size * w // h)
    return imresize(src, new_w, new_h, _get_interp_method(interp, (h, w, new_h, new_w)))


@public
def fixed_crop(
    src: NDArray,
    x0: int,
    y0: int,
    w: int,
    h: int,
    size: tuple[int, int] | None = None,
    interp: int = 2,
) -> NDArray:
    """Rectangle at column ``x0`` and row ``y0``, resized to ``size`` if that differs."""
    out = src[y0 : y0 + h, x0 : x0 + w]
    if size is None or (w, h) == tuple(size):
        return out
    return imresize(out, *size, _get_interp_method(interp, (h, w, size[1], size[0])))


@public
def center_crop(
    src: NDArray, size: tuple[int, int], interp: int = 2
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Centre of the image with size ``size``, and its rectangle (x0, y0, width, height).

    If the image is too small, the largest rectangle of this aspect ratio is enlarged.
    """
    h, w, _ = src.shape
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = (w - new_w) // 2, (h - new_h) // 2
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


@public
def random_crop(
    src: NDArray, size: tuple[int, int], interp: int = 2
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """:func:`center_crop` at a random position, drawn from Python's ``random``."""
    h, w, _ = src.shape
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = random.randint(0, w - new_w), random.randint(0, h - new_h)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


@public
def random_size_crop(
    src: NDArray,
    size: tuple[int, int],
    area: float | tuple[float, float],
    ratio: tuple[float, float],
    interp: int = 2,
    **kwargs: float,
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Crop of random area and aspect ratio, resized to ``size``, and its rectangle.

    ``area`` is the minimal fraction of the image's area, or minimum and maximum. The logarithm of
    the aspect ratio is uniform. If ten draws do not fit, the centre is cropped.
    """
    h, w, _ = src.shape
    least, most = (area, 1.0) if isinstance(area, (int, float)) else area
    least = kwargs.pop("min_area", least)  # its name before version 1.3
    assert not kwargs, f"random_size_crop takes no {', '.join(kwargs)}"
    for _ in range(10):
        target = random.uniform(least, most) * h * w
        shape = math.exp(random.uniform(*map(math.log, ratio)))
        new_w, new_h = round(math.sqrt(target * shape)), round(math.sqrt(target / shape))
        if new_w <= w and new_h <= h:
            x0, y0 = random.randint(0, w - new_w), random.randint(0, h - new_h)
            return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)
    return center_crop(src, size, interp)


def color_normalize(
    src: NDArray, mean: NDArray | float | None, std: NDArray | float | None = None
) -> NDArray:
    """Compute (src - mean) / std in place; None omits a step."""
    if mean is not None:
        src -= mean
    if std is not None:
        src /= std
    return src


@public
def copyMakeBorder(
    src: NDArray,
    top: int,
    bot: int,
    left: int,
    right: int,
    type: int = 0,
    value: float = 0.0,
    values: tuple[float, ...] = (),
) -> NDArray:
    """Image with a border.

    ``type`` 0 fills it with ``value`` (or ``values``, one for each channel), 1 repeats the edge, 2
    reflects including the edge, 4 reflects without the edge, 3 wraps around. Raises MXNetError for
    other types.
    """
    type &= ~_ISOLATED
    if type not in _BORDERS:
        raise MXNetError(f"copyMakeBorder: type must be one of 0, 1, 2, 3, 4, got {type}")
    pads = ((top, bot), (left, right), (0, 0))
    pixels = src.asnumpy()
    if type != 0:
        return array(np.pad(pixels, pads, _BORDERS[type]), dtype=src.dtype)  # type: ignore[call-overload]
    h, w, channels = pixels.shape
    bordered = np.empty((h + top + bot, w + left + right, channels), pixels.dtype)
    bordered[:] = values[:channels] if values else value
    bordered[top : top + h, left : left + w] = pixels
    return array(bordered, dtype=src.dtype)

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
    """Resize an image to a width and a height.

    Parameters
    ----------
    src : NDArray
        Image (height, width, channels).
    w, h : int
        New width and height.
    interp : int
        Interpolation: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos.
    out : NDArray, optional
        Array of the result's shape that receives it.

    Examples
    --------
    >>> mx.image.imresize(nd.ones((4, 6, 3), dtype="uint8"), 3, 2).shape
    (2, 3, 3)
    """
    resized = nd.image.resize(src, size=(w, h), interp=interp)
    if out is None:
        return resized
    out[:] = resized
    return out


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """Reduce a size proportionally until it fits into an image.

    Parameters
    ----------
    src_size : tuple of int
        Width and height of the image.
    size : tuple of int
        Width and height to reduce.

    Examples
    --------
    >>> mx.image.scale_down((640, 480), (720, 120))
    (640, 106)
    """
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
    """Resize an image so that its shorter side has a size; its proportions stay.

    Parameters
    ----------
    src : NDArray
        Image (height, width, channels).
    size : int
        Length of the shorter side.
    interp : int
        Interpolation as in :func:`imresize`; 9: area for smaller results, bicubic for larger ones,
        10: random.

    Examples
    --------
    >>> mx.image.resize_short(nd.ones((4, 6, 3), dtype="uint8"), 2).shape
    (2, 3, 3)
    """
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
    """Cut a rectangle out of an image, and resize it if a size is given.

    Parameters
    ----------
    src : NDArray
        Image (height, width, channels).
    x0, y0 : int
        Column and row of the corner.
    w, h : int
        Width and height of the rectangle.
    size : tuple of int, optional
        Width and height of the result.
    interp : int
        Interpolation as in :func:`resize_short`.

    Examples
    --------
    >>> mx.image.fixed_crop(nd.ones((4, 6, 3)), 1, 1, 3, 2).shape
    (2, 3, 3)
    """
    out = src[y0 : y0 + h, x0 : x0 + w]
    if size is None or (w, h) == tuple(size):
        return out
    return imresize(out, *size, _get_interp_method(interp, (h, w, size[1], size[0])))


@public
def center_crop(
    src: NDArray, size: tuple[int, int], interp: int = 2
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Cut the centre out of an image: the result and its rectangle (x0, y0, width, height).

    If the image is too small, the largest rectangle of these proportions is enlarged.

    Parameters
    ----------
    src : NDArray
        Image (height, width, channels).
    size : tuple of int
        Width and height of the result.
    interp : int
        Interpolation as in :func:`resize_short`.

    Examples
    --------
    >>> part, rectangle = mx.image.center_crop(nd.ones((4, 6, 3)), (2, 2))
    >>> part.shape, rectangle
    ((2, 2, 3), (2, 1, 2, 2))
    """
    h, w, _ = src.shape
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = (w - new_w) // 2, (h - new_h) // 2
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


@public
def random_crop(
    src: NDArray, size: tuple[int, int], interp: int = 2
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Cut a random part out of an image: the result and its rectangle, as :func:`center_crop`.

    The position is drawn from Python's ``random``.

    Parameters
    ----------
    src : NDArray
        Image (height, width, channels).
    size : tuple of int
        Width and height of the result.
    interp : int
        Interpolation as in :func:`resize_short`.

    Examples
    --------
    >>> part, rectangle = mx.image.random_crop(nd.ones((4, 6, 3)), (2, 2))
    >>> part.shape
    (2, 2, 3)
    """
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
    """Cut a part of random area and proportions out of an image, and resize it.

    The result and its rectangle are those of :func:`center_crop`, also after ten draws that do not
    fit.

    Parameters
    ----------
    src : NDArray
        Image (height, width, channels).
    size : tuple of int
        Width and height of the result.
    area : float or tuple of float
        Least share of the image's area, or the least and the largest.
    ratio : tuple of float
        Least and largest quotient of width and height; its logarithm is uniform.
    interp : int
        Interpolation as in :func:`resize_short`.
    **kwargs
        ``min_area``, the former name of ``area``.

    Raises
    ------
    AssertionError
        For another keyword.

    Examples
    --------
    >>> part, _ = mx.image.random_size_crop(nd.ones((8, 8, 3)), (4, 4), 0.5, (0.75, 1.33))
    >>> part.shape
    (4, 4, 3)
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
    """Subtract a mean and divide by a deviation, in place.

    Parameters
    ----------
    src : NDArray
        Image of floats (height, width, channels), which is changed.
    mean : NDArray or float, optional
        One number, or one for each channel; None: nothing is subtracted.
    std : NDArray or float, optional
        Divisor, in the same forms; None: nothing is divided.

    Examples
    --------
    >>> mx.image.color_normalize(nd.ones((1, 1, 3)), nd.array([0.5, 0, 1]), nd.array([0.5, 1, 1]))
    <BLANKLINE>
    [[[1. 1. 0.]]]
    <NDArray 1x1x3 @cpu(0)>
    """
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
    """Put a border around an image.

    Parameters
    ----------
    src : NDArray
        Image (height, width, channels).
    top, bot, left, right : int
        Widths of the border.
    type : int
        0 fills it with ``value``, 1 repeats the edge, 2 reflects with the edge, 3 wraps around,
        4 reflects without the edge.
    value : float
        Of the pixels of type 0.
    values : tuple of float
        The same, one for each channel.

    Raises
    ------
    MXNetError
        For another type.

    Examples
    --------
    >>> mx.image.copyMakeBorder(nd.ones((4, 6, 3)), 1, 1, 2, 2).shape
    (6, 10, 3)
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

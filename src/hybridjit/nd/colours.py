"""Pictures whose colours and sides change at random: what ``nd.image`` has beside operators.

In: pictures (..., height, width, 3) of any element type. Out: the same shape and type; 8-bit
results are clamped and cut, as MXNet does. Random numbers are those of ``mx.random.seed``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ops.random.draws import generator
from .ndarray import NDArray

_GREY = np.array([0.299, 0.587, 0.114], np.float32)
# The principal components of the colours of ImageNet, times their deviations.
_LIGHT = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
) * [55.46, 4.794, 1.148]


def random_flip_left_right(data: NDArray) -> NDArray:
    """The pictures or, as often, their mirror images."""
    return _flipped(data, -2)


def random_flip_top_bottom(data: NDArray) -> NDArray:
    """The pictures or, as often, upside down."""
    return _flipped(data, -3)


def random_brightness(data: NDArray, min_factor: float, max_factor: float) -> NDArray:
    """The pictures times a factor between the two."""
    return _like(data, _brightened(_floats(data), _drawn(min_factor, max_factor)))


def random_contrast(data: NDArray, min_factor: float, max_factor: float) -> NDArray:
    """The distance of the pictures from their mean grey times a factor between the two."""
    return _like(data, _contrasted(_floats(data), _drawn(min_factor, max_factor)))


def random_saturation(data: NDArray, min_factor: float, max_factor: float) -> NDArray:
    """The distance of every pixel from its grey times a factor between the two."""
    return _like(data, _saturated(_floats(data), _drawn(min_factor, max_factor)))


def random_hue(data: NDArray, min_factor: float, max_factor: float) -> NDArray:
    """The pictures with their hues turned by a part of a circle between the two."""
    return _like(data, _turned(_floats(data), _drawn(min_factor, max_factor)))


def random_color_jitter(
    data: NDArray, brightness: float, contrast: float, saturation: float, hue: float
) -> NDArray:
    """All four in random order, factors as far from 1 (a hue from 0) as the arguments say."""
    steps = [
        (function, middle + _drawn(-width, width))
        for function, middle, width in (
            (_brightened, 1.0, brightness),
            (_contrasted, 1.0, contrast),
            (_saturated, 1.0, saturation),
            (_turned, 0.0, hue),
        )
        if width > 0
    ]
    pixels = data._data
    for i in generator().permutation(len(steps)):
        function, factor = steps[i]
        pixels = _stored(function(pixels.astype(np.float32), factor), data)
    return NDArray(np.array(pixels), data.context)


def adjust_lighting(data: NDArray, alpha: Sequence[float]) -> NDArray:
    """The pictures with a light of the colour that ``alpha`` of ImageNet's components make."""
    return _like(data, _floats(data) + (_LIGHT @ np.asarray(alpha)).astype(np.float32))


def random_lighting(data: NDArray, alpha_std: float = 0.05) -> NDArray:
    """:func:`adjust_lighting` by normal random numbers of this deviation."""
    return adjust_lighting(data, generator().normal(0.0, alpha_std, 3).tolist())


def _flipped(data: NDArray, axis: int) -> NDArray:
    if generator().random() < 0.5:
        return data
    return NDArray(np.ascontiguousarray(np.flip(data._data, axis)), data.context)


def _drawn(low: float, high: float) -> float:
    return float(generator().uniform(low, high))


def _floats(data: NDArray) -> np.ndarray:
    return data._data.astype(np.float32)


def _like(data: NDArray, pixels: np.ndarray) -> NDArray:
    return NDArray(_stored(pixels, data), data.context)


def _stored(pixels: np.ndarray, data: NDArray) -> np.ndarray:
    """Numbers as ``data`` holds them: whole ones are clamped, and lose their fractions."""
    kind = data._data.dtype
    if kind.kind in "iu":
        info = np.iinfo(kind)
        pixels = np.clip(pixels, info.min, info.max)
    return np.ascontiguousarray(pixels.astype(kind))


def _brightened(x: np.ndarray, factor: float) -> np.ndarray:
    return x * np.float32(factor)


def _contrasted(x: np.ndarray, factor: float) -> np.ndarray:
    mean = (x @ _GREY if x.shape[-1] > 1 else x).mean(axis=(-2, -1) if x.shape[-1] > 1 else None)
    mean = np.reshape(mean, (*np.shape(mean), 1, 1, 1)) if np.ndim(mean) else mean
    return x * np.float32(factor) + np.float32(1 - factor) * mean


def _saturated(x: np.ndarray, factor: float) -> np.ndarray:
    if x.shape[-1] == 1:
        return x
    return x * np.float32(factor) + np.float32(1 - factor) * (x @ _GREY)[..., None]


def _turned(x: np.ndarray, part: float) -> np.ndarray:
    """Colours of hue, lightness and saturation, the first turned by ``part`` of the circle."""
    if x.shape[-1] == 1:
        return x
    unit = x / np.float32(255)
    top, bottom = unit.max(-1), unit.min(-1)
    lightness, spread = (top + bottom) / 2, top - bottom
    room = np.where(lightness < 0.5, top + bottom, 2 - top - bottom)
    with np.errstate(all="ignore"):
        saturation = np.where(spread > 0, spread / room, 0)
        r, g, b = np.moveaxis(unit, -1, 0)
        sixth = np.where(
            top == r,
            (g - b) / spread,
            np.where(top == g, 2 + (b - r) / spread, 4 + (r - g) / spread),
        )
    hue = np.where(spread > 0, sixth, 0) / 6 + part
    chroma = saturation * np.where(lightness < 0.5, lightness, 1 - lightness)
    channels = [_channel(hue + turn, lightness, chroma) for turn in (1 / 3, 0, -1 / 3)]
    return (np.stack(channels, -1) * 255).astype(np.float32)


def _channel(hue: np.ndarray, lightness: np.ndarray, chroma: np.ndarray) -> np.ndarray:
    """One colour of a hue: it rises over a sixth of the circle, stays for a third, and falls."""
    sixth = (hue % 1) * 6
    return lightness + chroma * np.clip(np.minimum(sixth, 4 - sixth) * 2 - 1, -1, 1)

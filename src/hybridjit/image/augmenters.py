"""Augmenters: classes whose instances are functions from image to image.

Input and output: an NDArray (height, width, channels). Random numbers come from Python's
``random``, those of :class:`LightingAug` from NumPy's global generator, as programs that seed them
expect.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import nd
from ..nd import NDArray
from .image import (
    _get_interp_method,
    center_crop,
    color_normalize,
    imresize,
    random_crop,
    random_size_crop,
    resize_short,
)
from .making import array

__all__ = [
    "Augmenter",
    "BrightnessJitterAug",
    "CastAug",
    "CenterCropAug",
    "ColorJitterAug",
    "ColorNormalizeAug",
    "ContrastJitterAug",
    "CreateAugmenter",
    "ForceResizeAug",
    "HorizontalFlipAug",
    "HueJitterAug",
    "LightingAug",
    "RandomCropAug",
    "RandomGrayAug",
    "RandomOrderAug",
    "RandomSizedCropAug",
    "ResizeAug",
    "SaturationJitterAug",
    "SequentialAug",
]

_GREY = np.array([0.299, 0.587, 0.114], np.float32)
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])
# ImageNet: mean and deviation of the colours; eigenvalues and eigenvectors of their covariance.
MEAN = (123.68, 116.28, 103.53)
DEVIATION = (58.395, 57.12, 57.375)
EIGENVALUES = np.array([55.46, 4.794, 1.148])
EIGENVECTORS = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
)

Size = tuple[int, int]

Channels = NDArray | np.ndarray | Sequence[float] | None  # one value for each channel
Statistic = NDArray | np.ndarray | bool | None  # the same, or True for ImageNet's values


def plain(value: object) -> object:
    """Keyword value for JSON: arrays become lists."""
    if isinstance(value, NDArray):
        value = value.asnumpy()
    return value.tolist() if isinstance(value, np.ndarray) else value


class Augmenter:
    """Base class: a subclass defines ``__call__``; :meth:`dumps` writes ``kwargs``."""

    def __init__(self, **kwargs: object) -> None:
        self._kwargs = {key: plain(value) for key, value in kwargs.items()}

    def dumps(self) -> str | list[Sequence[object]]:
        """Name and keywords as JSON; for a group of augmenters a list of these strings."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: NDArray) -> NDArray:
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")


class SequentialAug(Augmenter):
    """Augmenters applied in order."""

    def __init__(self, ts: Sequence[Augmenter]) -> None:
        super().__init__()
        self.ts = list(ts)

    def dumps(self) -> list[Sequence[object]]:
        return [type(self).__name__.lower(), [each.dumps() for each in self.ts]]

    def __call__(self, src: NDArray) -> NDArray:
        for each in self.ts:
            src = each(src)
        return src


class RandomOrderAug(SequentialAug):
    """Augmenters applied in random order."""

    def __call__(self, src: NDArray) -> NDArray:
        random.shuffle(self.ts)
        return super().__call__(src)


class _Sized(Augmenter):
    """Augmenter with a target size."""

    def __init__(self, size: Any, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size = size
        self.interp = interp


class ResizeAug(_Sized):
    """Resize so that the shorter side is ``size``."""

    def __call__(self, src: NDArray) -> NDArray:
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(_Sized):
    """Resize to (width, height) without keeping the aspect ratio."""

    def __call__(self, src: NDArray) -> NDArray:
        w, h = self.size
        return imresize(src, w, h, _get_interp_method(self.interp, (*src.shape[:2], h, w)))


class RandomCropAug(_Sized):
    """Crop (width, height) at a random position."""

    def __call__(self, src: NDArray) -> NDArray:
        return random_crop(src, self.size, self.interp)[0]


class CenterCropAug(_Sized):
    """Crop (width, height) at the centre."""

    def __call__(self, src: NDArray) -> NDArray:
        return center_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """Crop of random area and aspect ratio, resized to (width, height)."""

    def __init__(
        self,
        size: Size,
        area: float | tuple[float, float],
        ratio: tuple[float, float],
        interp: int = 2,
    ) -> None:
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self._args = (size, area, ratio, interp)

    def __call__(self, src: NDArray) -> NDArray:
        return random_size_crop(src, *self._args)[0]


class BrightnessJitterAug(Augmenter):
    """Multiply by a random factor in 1 +- ``brightness``."""

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: NDArray) -> NDArray:
        return src * _factor(self.brightness)


class ContrastJitterAug(Augmenter):
    """Scale the difference from the mean grey value by a random factor in 1 +- ``contrast``."""

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src: NDArray) -> NDArray:
        factor, grey = _factor(self.contrast), (src.asnumpy() @ _GREY).mean()
        return src * factor + float((1 - factor) * grey)


class SaturationJitterAug(Augmenter):
    """Scale each pixel's difference from its grey value by a factor in 1 +- ``saturation``."""

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src: NDArray) -> NDArray:
        factor = _factor(self.saturation)
        grey = (src.asnumpy() @ _GREY)[..., None] * np.float32(1 - factor)
        return src * factor + array(grey, dtype=src.dtype)


class HueJitterAug(Augmenter):
    """Rotate hues by a random angle of at most ``hue`` times 180 degrees in either direction."""

    def __init__(self, hue: float) -> None:
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src: NDArray) -> NDArray:
        angle = random.uniform(-self.hue, self.hue) * np.pi
        u, w = np.cos(angle), np.sin(angle)
        turn = np.array([[1.0, 0.0, 0.0], [0.0, u, -w], [0.0, w, u]])
        return _mixed(src, (_FROM_YIQ @ turn @ _TO_YIQ).T)


class ColorJitterAug(RandomOrderAug):
    """Apply those of brightness, contrast and saturation that are not 0, in random order."""

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        kinds: tuple[tuple[Callable[[float], Augmenter], float], ...] = (
            (BrightnessJitterAug, brightness),
            (ContrastJitterAug, contrast),
            (SaturationJitterAug, saturation),
        )
        super().__init__([kind(width) for kind, width in kinds if width > 0])


class LightingAug(Augmenter):
    """Add noise along the principal components of the colours, normal with ``alphastd``."""

    def __init__(self, alphastd: float, eigval: np.ndarray, eigvec: np.ndarray) -> None:
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd = alphastd
        self.eigval, self.eigvec = np.asarray(plain(eigval)), np.asarray(plain(eigvec))

    def __call__(self, src: NDArray) -> NDArray:
        alpha = np.random.normal(0, self.alphastd, size=(3,))  # noqa: NPY002
        return src + array((self.eigvec * alpha) @ self.eigval, dtype=src.dtype)


class ColorNormalizeAug(Augmenter):
    """Compute (src - mean) / std; None omits a step."""

    def __init__(self, mean: Channels, std: Channels) -> None:
        super().__init__(mean=mean, std=std)
        self.mean, self.std = (
            each if each is None or isinstance(each, NDArray) else array(each)
            for each in (mean, std)
        )

    def __call__(self, src: NDArray) -> NDArray:
        return color_normalize(src.copy(), self.mean, self.std)


class RandomGrayAug(Augmenter):
    """Convert to grey with probability ``p``."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        if random.random() >= self.p:
            return src
        return _mixed(src, np.repeat([[0.21], [0.72], [0.07]], 3, axis=1))


class HorizontalFlipAug(Augmenter):
    """Flip horizontally with probability ``p``."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        return nd.flip(src, axis=1) if random.random() < self.p else src  # type: ignore[attr-defined]


class CastAug(Augmenter):
    """Cast to another dtype."""

    def __init__(self, typ: str = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: NDArray) -> NDArray:
        return src.astype(self.typ)


def _factor(width: float) -> float:
    return 1.0 + random.uniform(-width, width)


def _mixed(src: NDArray, matrix: np.ndarray) -> NDArray:
    """Multiply every pixel's colours by a matrix."""
    return array(src.asnumpy() @ matrix.astype(np.float32), dtype=src.dtype)


def CreateAugmenter(
    data_shape: tuple[int, int, int],
    resize: int = 0,
    rand_crop: bool = False,
    rand_resize: bool = False,
    rand_mirror: bool = False,
    mean: Statistic = None,
    std: Statistic = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    hue: float = 0,
    pca_noise: float = 0,
    rand_gray: float = 0,
    inter_method: int = 2,
) -> list[Augmenter]:
    """Standard augmenters for images of ``data_shape`` (channels, height, width), in order.

    ``mean`` and ``std`` equal to True select ImageNet's values.
    """
    found: list[Augmenter] = [ResizeAug(resize, inter_method)] if resize > 0 else []
    if len(data_shape) < 3:
        raise IndexError(f"data_shape is (channels, height, width), got {data_shape}")
    size = (data_shape[2], data_shape[1])
    if rand_resize:
        assert rand_crop, "rand_resize requires rand_crop"
        found.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    else:
        found.append((RandomCropAug if rand_crop else CenterCropAug)(size, inter_method))
    if rand_mirror:
        found.append(HorizontalFlipAug(0.5))
    found.append(CastAug())
    jitters = (brightness, contrast, saturation)
    return [*found, *colour_augmenters(jitters, hue, pca_noise, rand_gray, mean, std)]


def colour_augmenters(
    jitters: tuple[float, float, float],
    hue: float,
    pca_noise: float,
    rand_gray: float,
    mean: Statistic,
    std: Statistic,
) -> list[Augmenter]:
    """Augmenters of colours whose parameters are not 0; normalization is the last."""
    found: list[Augmenter] = [ColorJitterAug(*jitters)] if any(jitters) else []
    if hue:
        found.append(HueJitterAug(hue))
    if pca_noise > 0:
        found.append(LightingAug(pca_noise, EIGENVALUES, EIGENVECTORS))
    if rand_gray > 0:
        found.append(RandomGrayAug(rand_gray))
    mean, std = _statistic(mean, MEAN, "mean"), _statistic(std, DEVIATION, "std")
    if mean is not None or std is not None:
        found.append(ColorNormalizeAug(mean, std))
    return found


def _statistic(
    given: Statistic, usual: tuple[float, ...], what: str
) -> NDArray | np.ndarray | None:
    if given is True:
        return array(usual)
    assert given is None or (
        isinstance(given, (np.ndarray, NDArray)) and given.shape[0] in (1, 3)
    ), f"{what} must be True or an array of 1 or 3 elements"
    return given

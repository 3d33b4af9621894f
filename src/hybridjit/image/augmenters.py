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
    """Base of augmenters: a subclass defines ``__call__``, from image to image.

    Parameters
    ----------
    **kwargs
        Values that ``dumps`` writes.

    Examples
    --------
    >>> class Dark(mx.image.Augmenter):
    ...     def __call__(self, src):
    ...         return src / 2
    >>> Dark(strength=2).dumps()
    '["dark", {"strength": 2}]'
    """

    def __init__(self, **kwargs: object) -> None:
        self._kwargs = {key: plain(value) for key, value in kwargs.items()}

    def dumps(self) -> str | list[Sequence[object]]:
        """Name and keywords as JSON; for a group of augmenters a list of these strings."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: NDArray) -> NDArray:
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")


class SequentialAug(Augmenter):
    """Augmenters in their order.

    Parameters
    ----------
    ts : list of Augmenter
        The augmenters.

    Examples
    --------
    >>> both = mx.image.SequentialAug([mx.image.CastAug(), mx.image.HorizontalFlipAug(0.5)])
    >>> both(nd.ones((4, 6, 3), dtype="uint8")).dtype.__name__
    'float32'
    """

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
    """Augmenters in random order.

    Parameters
    ----------
    ts : list of Augmenter
        The augmenters.

    Examples
    --------
    >>> both = mx.image.RandomOrderAug([mx.image.CastAug(), mx.image.HorizontalFlipAug(0.5)])
    >>> both(nd.ones((4, 6, 3), dtype="uint8")).shape
    (4, 6, 3)
    """

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
    """Resize so that the shorter side has a size.

    Parameters
    ----------
    size : int
        Length of the shorter side.
    interp : int
        Interpolation as in :func:`resize_short`.

    Examples
    --------
    >>> mx.image.ResizeAug(2)(nd.ones((4, 6, 3), dtype="uint8")).shape
    (2, 3, 3)
    """

    def __call__(self, src: NDArray) -> NDArray:
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(_Sized):
    """Resize to a width and a height; the proportions may change.

    Parameters
    ----------
    size : tuple of int
        Width and height.
    interp : int
        Interpolation as in :func:`resize_short`.

    Examples
    --------
    >>> mx.image.ForceResizeAug((2, 2))(nd.ones((4, 6, 3), dtype="uint8")).shape
    (2, 2, 3)
    """

    def __call__(self, src: NDArray) -> NDArray:
        w, h = self.size
        return imresize(src, w, h, _get_interp_method(self.interp, (*src.shape[:2], h, w)))


class RandomCropAug(_Sized):
    """Crop at a random position, by :func:`random_crop`.

    Parameters
    ----------
    size : tuple of int
        Width and height.
    interp : int
        Interpolation as in :func:`resize_short`.

    Examples
    --------
    >>> mx.image.RandomCropAug((2, 2))(nd.ones((4, 6, 3))).shape
    (2, 2, 3)
    """

    def __call__(self, src: NDArray) -> NDArray:
        return random_crop(src, self.size, self.interp)[0]


class CenterCropAug(_Sized):
    """Crop the centre, by :func:`center_crop`.

    Parameters
    ----------
    size : tuple of int
        Width and height.
    interp : int
        Interpolation as in :func:`resize_short`.

    Examples
    --------
    >>> mx.image.CenterCropAug((2, 2))(nd.ones((4, 6, 3))).shape
    (2, 2, 3)
    """

    def __call__(self, src: NDArray) -> NDArray:
        return center_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """Crop a part of random area and proportions, by :func:`random_size_crop`.

    Parameters
    ----------
    size : tuple of int
        Width and height of the result.
    area : float or tuple of float
        Least share of the image's area, or the least and the largest.
    ratio : tuple of float
        Least and largest quotient of width and height.
    interp : int
        Interpolation as in :func:`resize_short`.

    Examples
    --------
    >>> mx.image.RandomSizedCropAug((2, 2), 0.5, (0.75, 1.33))(nd.ones((4, 6, 3))).shape
    (2, 2, 3)
    """

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
    """Multiply by a random factor.

    Parameters
    ----------
    brightness : float
        The factor is between 1 - brightness and 1 + brightness.

    Examples
    --------
    >>> mx.image.BrightnessJitterAug(0.2)(nd.ones((4, 6, 3))).shape
    (4, 6, 3)
    """

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: NDArray) -> NDArray:
        return src * _factor(self.brightness)


class ContrastJitterAug(Augmenter):
    """Multiply the difference from the mean grey value by a random factor.

    Parameters
    ----------
    contrast : float
        The factor is between 1 - contrast and 1 + contrast.

    Examples
    --------
    >>> mx.image.ContrastJitterAug(0.2)(nd.ones((4, 6, 3))).shape
    (4, 6, 3)
    """

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src: NDArray) -> NDArray:
        factor, grey = _factor(self.contrast), (src.asnumpy() @ _GREY).mean()
        return src * factor + float((1 - factor) * grey)


class SaturationJitterAug(Augmenter):
    """Multiply the difference of each pixel from its grey value by a random factor.

    Parameters
    ----------
    saturation : float
        The factor is between 1 - saturation and 1 + saturation.

    Examples
    --------
    >>> mx.image.SaturationJitterAug(0.2)(nd.ones((4, 6, 3))).shape
    (4, 6, 3)
    """

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src: NDArray) -> NDArray:
        factor = _factor(self.saturation)
        grey = (src.asnumpy() @ _GREY)[..., None] * np.float32(1 - factor)
        return src * factor + array(grey, dtype=src.dtype)


class HueJitterAug(Augmenter):
    """Rotate hues by a random angle.

    Parameters
    ----------
    hue : float
        Largest angle in either direction; 1 is half of a circle.

    Examples
    --------
    >>> mx.image.HueJitterAug(0.1)(nd.ones((4, 6, 3))).shape
    (4, 6, 3)
    """

    def __init__(self, hue: float) -> None:
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src: NDArray) -> NDArray:
        angle = random.uniform(-self.hue, self.hue) * np.pi
        u, w = np.cos(angle), np.sin(angle)
        turn = np.array([[1.0, 0.0, 0.0], [0.0, u, -w], [0.0, w, u]])
        return _mixed(src, (_FROM_YIQ @ turn @ _TO_YIQ).T)


class ColorJitterAug(RandomOrderAug):
    """Change brightness, contrast and saturation, those that are not 0, in random order.

    Parameters
    ----------
    brightness, contrast, saturation : float
        As in the augmenters of one of them.

    Examples
    --------
    >>> mx.image.ColorJitterAug(0.1, 0.1, 0)(nd.ones((4, 6, 3))).shape
    (4, 6, 3)
    """

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        kinds: tuple[tuple[Callable[[float], Augmenter], float], ...] = (
            (BrightnessJitterAug, brightness),
            (ContrastJitterAug, contrast),
            (SaturationJitterAug, saturation),
        )
        super().__init__([kind(width) for kind, width in kinds if width > 0])


class LightingAug(Augmenter):
    """Add noise along the principal components of colours.

    Parameters
    ----------
    alphastd : float
        Standard deviation of the factors, which are normal.
    eigval : numpy.ndarray
        Three eigenvalues of the covariance of colours.
    eigvec : numpy.ndarray
        Their eigenvectors, as columns of (3, 3).

    Examples
    --------
    >>> mx.image.LightingAug(0.1, np.ones(3), np.eye(3))(nd.ones((4, 6, 3))).shape
    (4, 6, 3)
    """

    def __init__(self, alphastd: float, eigval: np.ndarray, eigvec: np.ndarray) -> None:
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd = alphastd
        self.eigval, self.eigvec = np.asarray(plain(eigval)), np.asarray(plain(eigvec))

    def __call__(self, src: NDArray) -> NDArray:
        alpha = np.random.normal(0, self.alphastd, size=(3,))  # noqa: NPY002
        return src + array((self.eigvec * alpha) @ self.eigval, dtype=src.dtype)


class ColorNormalizeAug(Augmenter):
    """Subtract a mean and divide by a deviation.

    Parameters
    ----------
    mean, std : NDArray or numpy.ndarray, optional
        One number, or one for each channel; None leaves a step out.

    Examples
    --------
    >>> mx.image.ColorNormalizeAug(np.array([1.0]), None)(nd.ones((1, 1, 3))).sum().asscalar()
    np.float32(0.0)
    """

    def __init__(self, mean: Channels, std: Channels) -> None:
        super().__init__(mean=mean, std=std)
        self.mean, self.std = (
            each if each is None or isinstance(each, NDArray) else array(each)
            for each in (mean, std)
        )

    def __call__(self, src: NDArray) -> NDArray:
        return color_normalize(src.copy(), self.mean, self.std)


class RandomGrayAug(Augmenter):
    """Convert to grey at random.

    Parameters
    ----------
    p : float
        Probability.

    Examples
    --------
    >>> mx.image.RandomGrayAug(0.5)(nd.ones((4, 6, 3))).shape
    (4, 6, 3)
    """

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        if random.random() >= self.p:
            return src
        return _mixed(src, np.repeat([[0.21], [0.72], [0.07]], 3, axis=1))


class HorizontalFlipAug(Augmenter):
    """Mirror left to right at random.

    Parameters
    ----------
    p : float
        Probability.

    Examples
    --------
    >>> mx.image.HorizontalFlipAug(1)(nd.array([[[1], [2]]])).asnumpy().ravel()
    array([2., 1.], dtype=float32)
    """

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        return nd.flip(src, axis=1) if random.random() < self.p else src  # type: ignore[attr-defined]


class CastAug(Augmenter):
    """Convert to another element type.

    Parameters
    ----------
    typ : str
        Element type.

    Examples
    --------
    >>> mx.image.CastAug()(nd.ones((4, 6, 3), dtype="uint8")).dtype.__name__
    'float32'
    """

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
    """List the usual augmenters for images of a shape, in order.

    Parameters
    ----------
    data_shape : tuple of int
        Channels, height and width of the results.
    resize : int
        Length of the shorter side before the crop; 0: none.
    rand_crop : bool
        Whether the crop is random; otherwise the centre.
    rand_resize : bool
        Whether it has a random area and proportions; needs ``rand_crop``.
    rand_mirror : bool
        Whether half of the images are mirrored.
    mean, std : NDArray, numpy.ndarray or True, optional
        Subtracted, and divided by; True: those of ImageNet.
    brightness, contrast, saturation, hue : float
        As in the augmenters of one of them; 0: none.
    pca_noise : float
        Standard deviation of :class:`LightingAug`; 0: none.
    rand_gray : float
        Probability of :class:`RandomGrayAug`.
    inter_method : int
        Interpolation as in :func:`resize_short`.

    Raises
    ------
    IndexError
        For a ``data_shape`` without channels.
    AssertionError
        For ``rand_resize`` without ``rand_crop``, and for a mean or deviation of another form.

    Examples
    --------
    >>> [type(a).__name__ for a in mx.image.CreateAugmenter((3, 4, 4), resize=5, mean=True)]
    ['ResizeAug', 'CenterCropAug', 'CastAug', 'ColorNormalizeAug']
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

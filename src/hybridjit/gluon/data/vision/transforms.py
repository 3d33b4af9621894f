"""Transforms: blocks that prepare one image, or a batch of images, for a network.

Input: (height, width, channels), as images are read. ToTensor permutes the axes to (channels,
height, width); Normalize comes after it. Random transforms take arrays only. The others, except
CenterCrop and Compose, can be part of a hybrid network.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np

from .... import image, nd
from ....errors import suggesting
from ....nd import NDArray
from ...block import Block
from ...hybrid_block import HybridBlock
from ...nn import HybridSequential, Sequential
from ...types import DType, Tensor
from ..sampler import Sample

__all__ = [
    "Cast",
    "CenterCrop",
    "Compose",
    "CropResize",
    "HybridCompose",
    "HybridRandomApply",
    "Normalize",
    "RandomApply",
    "RandomBrightness",
    "RandomColorJitter",
    "RandomContrast",
    "RandomCrop",
    "RandomFlipLeftRight",
    "RandomFlipTopBottom",
    "RandomHue",
    "RandomLighting",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSaturation",
    "Resize",
    "Rotate",
    "ToTensor",
]

Step = Callable[[Sample], Sample]  # a transform


class Compose(Sequential):
    """A sequence of transforms.

    Parameters
    ----------
    transforms : list
        Blocks, or other functions of one array.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> both = transforms.Compose([transforms.Resize(4), transforms.ToTensor()])
    >>> both(nd.ones((6, 8, 3), dtype="uint8")).shape
    (3, 4, 4)
    """

    def __init__(self, transforms: Sequence[Step]) -> None:
        super().__init__()
        if callable(transforms):
            name = type(transforms).__name__
            raise AttributeError(f"transforms is a list, got {name}: write Compose([{name}()])")
        self._transforms = list(transforms)
        self.add(*(step for step in self._transforms if isinstance(step, Block)))

    def forward(self, x: Sample) -> Sample:
        for step in self._transforms:
            x = step(x)
        return x


class Cast(HybridBlock):
    """The same values in another dtype.

    Parameters
    ----------
    dtype : str or dtype
        Element type of the result.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.Cast("float32")(nd.ones((2, 2), dtype="uint8")).dtype.__name__
    'float32'
    """

    def __init__(self, dtype: DType = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:
        return F.cast(x, self._dtype)


class ToTensor(HybridBlock):
    """Convert (..., H, W, C) from 0 to 255 to float32 (..., C, H, W) from 0 to 1.

    Parameters
    ----------
    prefix, params : optional
        As in :class:`Block`.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.ToTensor()(nd.ones((6, 8, 3), dtype="uint8")).shape
    (3, 6, 8)
    """

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:
        return F.image.to_tensor(x)


class Normalize(HybridBlock):
    """(x - mean) / std for float images (..., C, H, W), as :class:`ToTensor` makes them.

    Parameters
    ----------
    mean : float or tuple of float
        Subtracted; one number, or one for each channel.
    std : float or tuple of float
        Divisor; one number, or one for each channel.

    Raises
    ------
    MXNetError
        For integers, and for another number of channels.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.Normalize(0.5, 0.25)(nd.ones((1, 2, 2)))[0, 0].asnumpy()
    array([2., 2.], dtype=float32)
    """

    def __init__(self, mean: float | Sequence[float] = 0.0, std: float | Sequence[float] = 1.0):
        super().__init__()
        self._mean = mean
        self._std = std

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:
        return F.image.normalize(x, self._mean, self._std)


class Resize(HybridBlock):
    """Resize images (height, width, channels), or batches of them.

    Parameters
    ----------
    size : int or tuple of int
        Width and height; one number for both.
    keep_ratio : bool
        Whether one number is the shorter side, so that the proportions stay.
    interpolation : int
        1: bilinear, 0: nearest, as in ``mx.image``.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.Resize(3, keep_ratio=True)(nd.ones((6, 8, 3), dtype="uint8")).shape
    (3, 4, 3)
    """

    def __init__(
        self, size: int | tuple[int, int], keep_ratio: bool = False, interpolation: int = 1
    ) -> None:
        super().__init__()
        self._size = size
        self._keep_ratio = keep_ratio
        self._interpolation = interpolation

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:
        return F.image.resize(x, self._size, self._keep_ratio, self._interpolation)


class CropResize(HybridBlock):
    """Crop a rectangle; then resize it, if ``size`` is given.

    Parameters
    ----------
    x, y : int
        Column and row of the corner.
    width, height : int
        Size of the rectangle.
    size : int or tuple of int, optional
        Width and height of the result; one number for both.
    interpolation : int, optional
        1: bilinear, 0: nearest, as in ``mx.image``.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.CropResize(1, 2, 4, 3)(nd.ones((6, 8, 3), dtype="uint8")).shape
    (3, 4, 3)
    """

    def __init__(
        self,
        x: int,
        y: int,
        width: int,
        height: int,
        size: int | tuple[int, int] | None = None,
        interpolation: int | None = None,
    ) -> None:
        super().__init__()
        self._rectangle = (x, y, width, height)
        self._size = size
        self._interpolation = 1 if interpolation is None else interpolation

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:
        x = F.image.crop(x, *self._rectangle)
        return F.image.resize(x, self._size, False, self._interpolation) if self._size else x


class CenterCrop(Block):
    """Crop the centre of an image; one that is too small is enlarged.

    Parameters
    ----------
    size : int or tuple of int
        Width and height; one number for both.
    interpolation : int
        Of enlarging: 1: bilinear, 0: nearest, as in ``mx.image``.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.CenterCrop((4, 2))(nd.ones((6, 8, 3), dtype="uint8")).shape
    (2, 4, 3)
    """

    def __init__(self, size: int | tuple[int, int], interpolation: int = 1) -> None:
        super().__init__()
        self._size = (size, size) if isinstance(size, int) else size
        self._interpolation = interpolation

    def forward(self, x: NDArray) -> NDArray:
        return image.center_crop(x, self._size, self._interpolation)[0]


class RandomApply(Sequential):
    """A transform, or a sequence of transforms, applied at random.

    Parameters
    ----------
    transforms : Block or list
        The transforms.
    p : float
        Probability.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.RandomApply(transforms.Cast("float32"), p=1)(nd.ones((2, 2))).shape
    (2, 2)
    """

    def __init__(self, transforms: Step | list[Step] | tuple[Step, ...], p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, x: Sample) -> Sample:
        if self.p < random.random():
            return x
        steps = self.transforms if isinstance(self.transforms, (list, tuple)) else [self.transforms]
        for step in steps:
            x = step(x)
        return x


class HybridCompose(HybridSequential):
    """A sequence of transforms that are HybridBlocks, hybridized from the start.

    MXNet has this class, and :class:`HybridRandomApply`, since 2.0.

    Parameters
    ----------
    transforms : list of HybridBlock
        The transforms.

    Raises
    ------
    ValueError
        For another object.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> both = transforms.HybridCompose([transforms.ToTensor(), transforms.Normalize(0.5, 0.5)])
    >>> both(nd.ones((6, 8, 3), dtype="uint8")).shape
    (3, 6, 8)
    """

    def __init__(self, transforms: Sequence[HybridBlock]) -> None:
        super().__init__()
        for step in transforms:
            if not isinstance(step, HybridBlock):
                raise ValueError(f"{step} is not a HybridBlock, try use `Compose` instead")
            self.add(step)
        self.hybridize()


class HybridRandomApply(HybridSequential):
    """A transform that keeps shape and dtype, applied at random, anew in each call.

    It is computed in either case.

    Parameters
    ----------
    transforms : HybridBlock
        The transform.
    p : float
        Probability.

    Raises
    ------
    AssertionError
        For another object.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.HybridRandomApply(transforms.Normalize(0.5, 0.5))(nd.ones((3, 4, 4))).shape
    (3, 4, 4)
    """

    def __init__(self, transforms: HybridBlock, p: float = 0.5) -> None:
        super().__init__()
        assert isinstance(transforms, HybridBlock), f"{transforms} is not a HybridBlock"
        self.transforms = transforms
        self.p = p

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:
        drawn = F.random.uniform(0, 1, shape=(1,))
        everywhere = F.broadcast_add(F.cast(F.zeros_like(x), dtype="float32"), drawn)
        return F.where(everywhere <= self.p, self.transforms(x), x)


class Rotate(Block):
    """Rotate float images (..., channels, height, width).

    Parameters
    ----------
    rotation_degrees : float
        Angle, in degrees.
    zoom_in : bool
        Whether the result is enlarged so that nothing outside of the image is visible.
    zoom_out : bool
        Whether the result is reduced so that the complete image is visible.

    Raises
    ------
    TypeError
        For other element types than float32.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.Rotate(30)(nd.ones((3, 6, 8))).shape
    (3, 6, 8)
    """

    def __init__(
        self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False
    ) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def forward(self, x: NDArray) -> NDArray:
        _require_single(x)
        return image.imrotate(x, *self._args)


class RandomRotation(Block):
    """Rotate float images (..., channels, height, width) by a random angle.

    Parameters
    ----------
    angle_limits : tuple of float
        Least and largest angle, in degrees.
    zoom_in, zoom_out : bool
        As in :class:`Rotate`.
    rotate_with_proba : float
        Probability of a rotation.

    Raises
    ------
    ValueError
        For limits that are not in order, and a probability outside of 0 to 1.
    TypeError
        For other element types than float32.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.RandomRotation((-30, 30))(nd.ones((3, 6, 8))).shape
    (3, 6, 8)
    """

    def __init__(
        self,
        angle_limits: tuple[float, float],
        zoom_in: bool = False,
        zoom_out: bool = False,
        rotate_with_proba: float = 1.0,
    ) -> None:
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ValueError("`angle_limits` must be an ordered tuple")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError("Probability of rotating the image should be between 0 and 1")
        self._args = (angle_limits, zoom_in, zoom_out)
        self._rotate_with_proba = rotate_with_proba

    def forward(self, x: NDArray) -> NDArray:
        if np.random.random() > self._rotate_with_proba:  # noqa: NPY002
            return x
        _require_single(x)
        return image.random_rotate(x, *self._args)


def _require_single(x: NDArray) -> None:
    if np.dtype(x.dtype) != np.float32:
        raise TypeError(
            "This transformation only supports float32. Consider calling it after ToTensor"
        )


class RandomResizedCrop(Block):
    """Crop a part of random area, proportions and position, and resize it.

    Parameters
    ----------
    size : int or tuple of int
        Width and height of the result; one number for both.
    scale : tuple of float
        Least and largest share of the image's area.
    ratio : tuple of float
        Least and largest quotient of width and height.
    interpolation : int
        1: bilinear, 0: nearest, as in ``mx.image``.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.RandomResizedCrop(4)(nd.ones((6, 8, 3), dtype="uint8")).shape
    (4, 4, 3)
    """

    def __init__(
        self,
        size: int | tuple[int, int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        self._args = ((size, size) if isinstance(size, int) else size, scale, ratio, interpolation)

    def forward(self, x: NDArray) -> NDArray:
        return image.random_size_crop(x, *self._args)[0]


class RandomCrop(Block):
    """Crop at a random position.

    Parameters
    ----------
    size : int or tuple of int
        Width and height; one number for both.
    pad : int or pairs of int, optional
        Width of a border of zeros that is added first; for each axis its two ends.
    interpolation : int
        Used if the image is smaller; 1: bilinear, as in ``mx.image``.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.RandomCrop(4)(nd.ones((6, 8, 3), dtype="uint8")).shape
    (4, 4, 3)
    """

    def __init__(
        self,
        size: int | tuple[int, int],
        pad: int | Sequence[Sequence[int]] | None = None,
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        self._size = (size, size) if isinstance(size, int) else size
        self._pad = ((pad, pad), (pad, pad), (0, 0)) if isinstance(pad, int) else pad
        self._interpolation = interpolation

    def forward(self, x: NDArray) -> NDArray:
        if self._pad is not None:
            x = nd.array(np.pad(x.asnumpy(), self._pad), dtype=x.dtype)
        return image.random_crop(x, self._size, self._interpolation)[0]


class RandomFlipLeftRight(Block):
    """Mirror left to right, with probability 1/2.

    Parameters
    ----------
    prefix, params : optional
        As in :class:`Block`.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.RandomFlipLeftRight()(nd.ones((6, 8, 3), dtype="uint8")).shape
    (6, 8, 3)
    """

    def forward(self, x: NDArray) -> NDArray:
        return nd.image.random_flip_left_right(x)


class RandomFlipTopBottom(Block):
    """Mirror top to bottom, with probability 1/2.

    Parameters
    ----------
    prefix, params : optional
        As in :class:`Block`.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.RandomFlipTopBottom()(nd.ones((6, 8, 3), dtype="uint8")).shape
    (6, 8, 3)
    """

    def forward(self, x: NDArray) -> NDArray:
        return nd.image.random_flip_top_bottom(x)


class _Factor(Block):
    """A transform with a random factor between 1 - ``width`` (at least 0) and 1 + ``width``."""

    _function: Callable[..., NDArray]

    def __init__(self, width: float) -> None:
        super().__init__()
        self._limits = (max(0.0, 1 - width), 1 + width)

    def forward(self, x: NDArray) -> NDArray:
        return type(self)._function(x, *self._limits)


class RandomBrightness(_Factor):
    """Change brightness by a random factor.

    Parameters
    ----------
    brightness : float
        The factor is between 1 - brightness, at least 0, and 1 + brightness.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.RandomBrightness(0.2)(nd.ones((4, 4, 3))).shape
    (4, 4, 3)
    """

    _function = staticmethod(nd.image.random_brightness)

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness)


class RandomContrast(_Factor):
    """Change contrast by a random factor.

    Parameters
    ----------
    contrast : float
        The factor is between 1 - contrast, at least 0, and 1 + contrast.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.RandomContrast(0.2)(nd.ones((4, 4, 3))).shape
    (4, 4, 3)
    """

    _function = staticmethod(nd.image.random_contrast)

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast)


class RandomSaturation(_Factor):
    """Change saturation by a random factor.

    Parameters
    ----------
    saturation : float
        The factor is between 1 - saturation, at least 0, and 1 + saturation.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.RandomSaturation(0.2)(nd.ones((4, 4, 3))).shape
    (4, 4, 3)
    """

    _function = staticmethod(nd.image.random_saturation)

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation)


class RandomHue(_Factor):
    """Rotate hues by a random fraction of a circle.

    Parameters
    ----------
    hue : float
        Largest fraction, in either direction.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.RandomHue(0.1)(nd.ones((4, 4, 3))).shape
    (4, 4, 3)
    """

    _function = staticmethod(nd.image.random_hue)

    def __init__(self, hue: float) -> None:
        super().__init__(hue)


class RandomColorJitter(Block):
    """Change brightness, contrast, saturation and hue, in random order.

    Parameters
    ----------
    brightness, contrast, saturation, hue : float
        As in the transforms of one of them; 0: none.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1)(nd.ones((4, 4, 3))).shape
    (4, 4, 3)
    """

    def __init__(
        self,
        brightness: float = 0,
        contrast: float = 0,
        saturation: float = 0,
        hue: float = 0,
    ) -> None:
        super().__init__()
        self._args = (brightness, contrast, saturation, hue)

    def forward(self, x: NDArray) -> NDArray:
        return nd.image.random_color_jitter(x, *self._args)


class RandomLighting(Block):
    """Lighting noise along the principal components of colours.

    Parameters
    ----------
    alpha : float
        Standard deviation.

    Examples
    --------
    >>> from hybridjit.gluon.data.vision import transforms
    >>> transforms.RandomLighting(0.1)(nd.ones((4, 4, 3))).shape
    (4, 4, 3)
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = alpha

    def forward(self, x: NDArray) -> NDArray:
        return nd.image.random_lighting(x, self._alpha)


__getattr__ = suggesting(__name__, "TRANSFORMS")

"""Transforms: blocks that prepare one picture, or a batch of them, for a network.

In: (height, width, channels), as pictures are read. ToTensor turns them into (channels, height,
width); Normalize stands after it. All but CenterCrop and Compose can be part of a hybrid network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .... import image
from ...block import Block
from ...hybrid_block import HybridBlock
from ...nn import Sequential
from ...types import DType, Tensor

__all__ = ["Cast", "CenterCrop", "Compose", "CropResize", "Normalize", "Resize", "ToTensor"]


class Compose(Sequential):
    """Transforms (blocks, or other functions of one array) one after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        super().__init__()
        self._transforms = list(transforms)
        self.add(*(step for step in self._transforms if isinstance(step, Block)))

    def forward(self, x: Any) -> Any:
        for step in self._transforms:
            x = step(x)
        return x


class Cast(HybridBlock):
    """The same values in another dtype."""

    def __init__(self, dtype: DType = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:
        return F.cast(x, self._dtype)


class ToTensor(HybridBlock):
    """(..., H, W, C) from 0 to 255 as float32 (..., C, H, W) from 0 to 1."""

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:
        return F.image.to_tensor(x)


class Normalize(HybridBlock):
    """(x - mean) / std for float pictures (..., C, H, W); one number, or one for each channel."""

    def __init__(self, mean: float | Sequence[float] = 0.0, std: float | Sequence[float] = 1.0):
        super().__init__()
        self._mean = mean
        self._std = std

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:
        return F.image.normalize(x, self._mean, self._std)


class Resize(HybridBlock):
    """Another size: ``(width, height)``, or one number for both sides.

    With ``keep_ratio`` one number is the shorter side, and the picture keeps its proportions.
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
    """The rectangle of ``width`` and ``height`` at column ``x``, row ``y``; resized if ``size``."""

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
    """The middle of one picture, ``(width, height)``; a picture that is too small is enlarged."""

    def __init__(self, size: int | tuple[int, int], interpolation: int = 1) -> None:
        super().__init__()
        self._size = (size, size) if isinstance(size, int) else size
        self._interpolation = interpolation

    def forward(self, x: Any) -> Any:
        return image.center_crop(x, self._size, self._interpolation)[0]

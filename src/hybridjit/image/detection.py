"""Detection augmenters: functions that change an image together with the boxes of its label.

Input and output: an NDArray (height, width, channels) and a label of rows ``[class, xmin, ymin,
xmax, ymax, ...]`` with corners in fractions of the image's width and height. Random numbers come
from Python's ``random``, in MXNet's order. The given labels are not written.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from math import sqrt
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import nd
from .._core.frames import warn
from ..nd import NDArray
from .augmenters import (
    DEVIATION,
    MEAN,
    Augmenter,
    CastAug,
    ForceResizeAug,
    ResizeAug,
    Statistic,
    colour_augmenters,
    plain,
)
from .image import copyMakeBorder, fixed_crop

__all__ = [
    "CreateDetAugmenter",
    "CreateMultiRandCropAugmenter",
    "DetAugmenter",
    "DetBorrowAug",
    "DetHorizontalFlipAug",
    "DetRandomCropAug",
    "DetRandomPadAug",
    "DetRandomSelectAug",
]

Label: TypeAlias = Any  # an array of NumPy or an NDArray, (objects, 5 or more)
Range: TypeAlias = tuple[float, float]

_LEAST = 2  # pixels: minimal size of crops and margins


class Region(NamedTuple):
    """Rectangle of an image, or around it, in pixels."""

    x: int
    y: int
    w: int
    h: int


class DetAugmenter:
    """Base class: a subclass defines ``__call__``; :meth:`dumps` writes ``kwargs``."""

    def __init__(self, **kwargs: object) -> None:
        self._kwargs = {key: plain(value) for key, value in kwargs.items()}

    def dumps(self) -> str | list[object]:
        """Name and keywords as JSON; for augmenters that contain others, lists."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")


class DetBorrowAug(DetAugmenter):
    """Image augmenter that does not change boxes. Raises TypeError for other objects."""

    def __init__(self, augmenter: Augmenter) -> None:
        if not isinstance(augmenter, Augmenter):
            raise TypeError("Borrowing from invalid Augmenter")
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> str | list[object]:
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """One augmenter of ``aug_list`` at random, or none with probability ``skip_prob``.

    Raises ValueError if the list contains other objects than detection augmenters.
    """

    def __init__(
        self, aug_list: DetAugmenter | Sequence[DetAugmenter], skip_prob: float = 0
    ) -> None:
        super().__init__(skip_prob=skip_prob)
        listed = list(aug_list) if isinstance(aug_list, (list, tuple)) else [aug_list]
        if not all(isinstance(each, DetAugmenter) for each in listed):
            raise ValueError("Allow DetAugmenter in list only")
        self.aug_list: list[Any] = listed
        self.skip_prob = skip_prob if listed else 1

    def dumps(self) -> str | list[object]:
        return [type(self).__name__.lower(), [each.dumps() for each in self.aug_list]]

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        if random.random() < self.skip_prob:
            return src, label
        random.shuffle(self.aug_list)
        return self.aug_list[0](src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Flip horizontally with probability ``p``."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        if random.random() >= self.p:
            return src, label
        mirrored = label.copy()
        mirrored[:, 1], mirrored[:, 3] = 1.0 - label[:, 3], 1.0 - label[:, 1]
        return nd.flip(src, axis=1), mirrored  # type: ignore[attr-defined]


class _RandomRegion(DetAugmenter):
    """Base class of augmenters that try regions of random area and aspect ratio.

    ``enabled`` is false if the ranges allow no region; then the augmenter does nothing.
    """

    def __init__(self, least_area: float, **kwargs: Any) -> None:
        ratios, areas = (_range(kwargs[key]) for key in ("aspect_ratio_range", "area_range"))
        super().__init__(**{**kwargs, "aspect_ratio_range": ratios, "area_range": areas})
        self.aspect_ratio_range, self.area_range = ratios, areas
        self.max_attempts = kwargs["max_attempts"]
        wrong = "area_range" if areas[1] <= least_area or areas[0] > areas[1] else ""
        if not wrong and (ratios[0] <= 0 or ratios[0] > ratios[1]):
            wrong = "aspect_ratio_range"
        self.enabled = not wrong
        if wrong:
            found = getattr(self, wrong)
            warn(f"Skip {type(self).__name__} due to invalid {wrong}: {found}")

    def _proposal(self, label: np.ndarray, height: int, width: int) -> Any:
        """Region and its boxes; None after ``max_attempts``."""
        if not self.enabled or height <= 0 or width <= 0:
            return None
        areas = (self.area_range[0] * height * width, self.area_range[1] * height * width)
        for _ in range(self.max_attempts):
            ratio = random.uniform(*self.aspect_ratio_range)
            region = self._region(ratio, areas, height, width)
            found = None if region is None else self._boxes_in(region, label, height, width)
            if found is not None:
                return region, found
        return None

    def _region(self, ratio: float, areas: Range, height: int, width: int) -> Region | None:
        raise NotImplementedError

    def _boxes_in(
        self, region: Region, label: np.ndarray, height: int, width: int
    ) -> np.ndarray | None:
        raise NotImplementedError


class DetRandomCropAug(_RandomRegion):
    """Random crop that contains enough of the boxes, or the whole image.

    min_object_covered   minimal covered fraction of every box that the crop intersects
    min_eject_coverage   boxes covered by at most this fraction are dropped
    aspect_ratio_range   width divided by height
    area_range           area as a fraction of the image's area
    """

    def __init__(
        self,
        min_object_covered: float = 0.1,
        aspect_ratio_range: float | Range = (0.75, 1.33),
        area_range: float | Range = (0.05, 1.0),
        min_eject_coverage: float = 0.3,
        max_attempts: int = 50,
    ) -> None:
        super().__init__(
            0,
            min_object_covered=min_object_covered,
            aspect_ratio_range=aspect_ratio_range,
            area_range=area_range,
            min_eject_coverage=min_eject_coverage,
            max_attempts=max_attempts,
        )
        self.min_object_covered = min_object_covered
        self.min_eject_coverage = min_eject_coverage

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        found = self._proposal(_rows(label), *src.shape[:2])
        if found is None:
            return src, label
        region, boxes = found
        return fixed_crop(src, region.x, region.y, region.w, region.h), boxes

    def _region(self, ratio: float, areas: Range, height: int, width: int) -> Region | None:
        least, most = areas
        h, tallest = (round(sqrt(area / ratio)) for area in areas)
        if round(tallest * ratio) > width:
            tallest = int((width + 0.4999999) / ratio)
        h = _at_random(h, min(tallest, height))
        w = round(h * ratio)
        if w * h < least:  # rounded below the minimal area: add a row
            h += 1
            w = round(h * ratio)
        if w * h > most:
            h -= 1
            w = round(h * ratio)
        if not (least <= w * h <= most and 0 <= w <= width and 0 <= h <= height):
            return None
        y = random.randint(0, height - h)
        return Region(random.randint(0, width - w), y, w, h)

    def _boxes_in(
        self, region: Region, label: np.ndarray, height: int, width: int
    ) -> np.ndarray | None:
        if region.w * region.h < _LEAST:
            return None
        part = (region.x / width, region.y / height)
        ends = ((region.x + region.w) / width, (region.y + region.h) / height)
        areas = _areas(label[:, 1:])
        large = areas * width * height > _LEAST
        inside = np.clip(label[large, 1:5], [*part, *part], [*ends, *ends]).astype(label.dtype)
        covered = _areas(inside) / areas[large]
        covered = covered[covered > 0]
        if not covered.size or covered.min() <= self.min_object_covered:
            return None
        return self._moved(label, part, (region.w / width, region.h / height))

    def _moved(self, label: np.ndarray, start: Range, size: Range) -> np.ndarray | None:
        """Boxes with enough coverage, relative to the crop; None if there are none."""
        moved = label.copy()
        for axis in (0, 1):
            corners = moved[:, 1 + axis : 5 : 2]
            corners -= start[axis]
            corners /= size[axis]
        moved[:, 1:5] = np.clip(moved[:, 1:5], 0, 1)
        areas = _areas(label[:, 1:])
        left = np.zeros_like(areas)
        np.divide(_areas(moved[:, 1:]) * size[0] * size[1], areas, out=left, where=areas > 0)
        kept = _is_box(moved) & (left > self.min_eject_coverage)
        return moved[kept] if kept.any() else None


class DetRandomPadAug(_RandomRegion):
    """Image at a random position of a larger one filled with ``pad_val``, or unchanged.

    ``area_range`` is the area relative to the image's, ``aspect_ratio_range`` width divided by
    height, ``pad_val`` one value for all channels or one for each.
    """

    def __init__(
        self,
        aspect_ratio_range: float | Range = (0.75, 1.33),
        area_range: float | Range = (1.0, 3.0),
        max_attempts: int = 50,
        pad_val: float | Sequence[float] = (128, 128, 128),
    ) -> None:
        super().__init__(
            1.0,
            aspect_ratio_range=aspect_ratio_range,
            area_range=area_range,
            max_attempts=max_attempts,
            pad_val=pad_val,
        )
        self.pad_val = pad_val

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        height, width, channels = src.shape
        found = self._proposal(_rows(label), height, width)
        if found is None:
            return src, label
        (x, y, w, h), boxes = found
        fill = np.broadcast_to(np.asarray(self.pad_val), channels)
        sides = (y, h - y - height, x, w - x - width)
        return copyMakeBorder(src, *sides, 0, values=tuple(fill.tolist())), boxes

    def _region(self, ratio: float, areas: Range, height: int, width: int) -> Region | None:
        h, tallest = (round(sqrt(area / ratio)) for area in areas)
        if round(h * ratio) < width:
            h = int((width + 0.499999) / ratio)
        h = _at_random(max(h, height), tallest)
        w = round(h * ratio)
        if h - height < _LEAST or w - width < _LEAST:
            return None
        y = random.randint(0, h - height)
        return Region(random.randint(0, w - width), y, w, h)

    def _boxes_in(self, region: Region, label: np.ndarray, height: int, width: int) -> np.ndarray:
        moved = label.copy()
        moved[:, 1:5:2] = (moved[:, 1:5:2] * width + region.x) / region.w
        moved[:, 2:5:2] = (moved[:, 2:5:2] * height + region.y) / region.h
        return moved


def _at_random(least: int, most: int) -> int:
    """Random height in [least, most]; ``most``, without a draw, if the range is empty."""
    return random.randint(least, most) if least < most else most


def _range(given: float | Range) -> Range:
    """Range of two numbers; a single number is both ends. AssertionError for other objects."""
    if isinstance(given, (tuple, list)):
        low, high = given
        return low, high
    assert isinstance(given, (int, float, np.generic)), (
        f"a range must be two numbers, got {given!r}"
    )
    return given, given  # type: ignore[return-value]


def _rows(label: Label) -> np.ndarray:
    return label.asnumpy() if isinstance(label, NDArray) else np.asarray(label)


def _areas(corners: np.ndarray) -> np.ndarray:
    """Areas of boxes (xmin, ymin, xmax, ymax, ...); 0 if the corners are not in order."""
    heights = np.maximum(0, corners[:, 3] - corners[:, 1])
    return heights * np.maximum(0, corners[:, 2] - corners[:, 0])


def _is_box(label: np.ndarray) -> np.ndarray:
    """Mask of the rows whose box has an area."""
    return (label[:, 3] > label[:, 1]) & (label[:, 4] > label[:, 2])


def _exact(given: object, usual: tuple[float, ...]) -> Any:
    """``usual`` as a float64 array for True: dumps of these augmenters contain float64."""
    return np.array(usual) if given is True else given


def CreateMultiRandCropAugmenter(
    min_object_covered: float | Sequence[float] = 0.1,
    aspect_ratio_range: Sequence[float | Sequence[float]] = (0.75, 1.33),
    area_range: Sequence[float | Sequence[float]] = (0.05, 1.0),
    min_eject_coverage: float | Sequence[float] = 0.3,
    max_attempts: int | Sequence[int] = 50,
    skip_prob: float = 0,
) -> DetRandomSelectAug:
    """Random choice among several :class:`DetRandomCropAug`.

    Each argument is one value for all, or a list. Raises AssertionError for lists of different
    lengths.
    """
    params = (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts)
    listed = [each if isinstance(each, list) else [each] for each in params]
    count = max(map(len, listed))
    assert all(len(each) in (1, count) for each in listed), (
        f"lists of arguments must have the same length, got {[len(each) for each in listed]}"
    )
    columns = [each if len(each) == count else each * count for each in listed]
    return DetRandomSelectAug([DetRandomCropAug(*row) for row in zip(*columns)], skip_prob)


def CreateDetAugmenter(
    data_shape: tuple[int, int, int],
    resize: int = 0,
    rand_crop: float = 0,
    rand_pad: float = 0,
    rand_gray: float = 0,
    rand_mirror: bool = False,
    mean: Statistic = None,
    std: Statistic = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    pca_noise: float = 0,
    hue: float = 0,
    inter_method: int = 2,
    min_object_covered: float = 0.1,
    aspect_ratio_range: tuple[float, float] = (0.75, 1.33),
    area_range: tuple[float, float] = (0.05, 3.0),
    min_eject_coverage: float = 0.3,
    max_attempts: int = 50,
    pad_val: float | Sequence[float] = (127, 127, 127),
) -> list[DetAugmenter]:
    """Standard detection augmenters for images of ``data_shape`` (channels, height, width).

    ``rand_crop`` and ``rand_pad`` are probabilities; ``mean`` and ``std`` equal to True select
    ImageNet's values.
    """
    found: list[DetAugmenter] = []
    if resize > 0:
        found.append(DetBorrowAug(ResizeAug(resize, inter_method)))
    if rand_crop > 0:
        ranges = (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage)
        found.append(CreateMultiRandCropAugmenter(*ranges, max_attempts, skip_prob=1 - rand_crop))
    if rand_mirror:
        found.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        pad = DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)
        found.append(DetRandomSelectAug([pad], 1 - rand_pad))
    size = (data_shape[2], data_shape[1])
    jitters = (brightness, contrast, saturation)
    mean, std = (_exact(*each) for each in ((mean, MEAN), (std, DEVIATION)))
    colours = colour_augmenters(jitters, hue, pca_noise, rand_gray, mean, std)
    borrowed = [ForceResizeAug(size, inter_method), CastAug(), *colours]
    return [*found, *map(DetBorrowAug, borrowed)]

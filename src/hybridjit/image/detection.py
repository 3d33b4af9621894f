"""What changes pictures together with their boxes: classes of functions of a picture and its label.

In: an NDArray (height, width, channels) and a label, rows ``[class, xmin, ymin, xmax, ymax, ...]``
whose corners are parts of the picture's width and height. Out: both, changed. What is drawn comes
from Python's ``random``, in MXNet's order. Labels that are given are not written.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Sequence
from math import sqrt
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import nd
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

_LEAST = 2  # pixels: smaller parts and margins are not worth it


class Region(NamedTuple):
    """A part of a picture, or one around it, in pixels."""

    x: int
    y: int
    w: int
    h: int


class DetAugmenter:
    """Base: a subclass overrides ``__call__``; ``kwargs`` are what :meth:`dumps` writes."""

    def __init__(self, **kwargs: object) -> None:
        self._kwargs = {key: plain(value) for key, value in kwargs.items()}

    def dumps(self) -> str | list[object]:
        """Name and keywords as JSON; of augmenters around others, lists."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: NDArray, label: Label) -> tuple[NDArray, Label]:
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")


class DetBorrowAug(DetAugmenter):
    """An augmenter of pictures that leaves boxes where they are. TypeError for another object."""

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
    """One of ``aug_list`` at random, or with probability ``skip_prob`` none.

    Raises ValueError for a list with other objects than augmenters of boxes.
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
    """Mirrored with probability ``p``."""

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
    """What tries regions of random area and proportions; it does nothing where none can be.

    ``enabled`` says whether one can.
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
            warnings.warn(
                f"Skip {type(self).__name__} due to invalid {wrong}: {found}", stacklevel=3
            )

    def _proposal(self, label: np.ndarray, height: int, width: int) -> Any:
        """A region and the boxes in it; None after ``max_attempts``."""
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
    """A random part that shows enough of the boxes, or the whole picture.

    min_object_covered   of every box that it meets, more than this part is to be in it
    min_eject_coverage   boxes of which no more than this part is in it are left out
    aspect_ratio_range   its width by its height
    area_range           its area, as a part of the picture's
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
        if w * h < least:  # rounded too far: one row more, or less
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
        """The boxes of which enough is left, seen from the part; None if there is none."""
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
    """The picture somewhere in a larger one filled with ``pad_val``, or as it is.

    ``area_range`` is the larger one's area by the picture's, ``aspect_ratio_range`` its width by
    its height, ``pad_val`` one number for all channels or one for each.
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
    """A height in between; the greatest one, without drawing, if there is no other."""
    return random.randint(least, most) if least < most else most


def _range(given: float | Range) -> Range:
    """A number is both ends. AssertionError for what is neither a number nor two."""
    if isinstance(given, (tuple, list)):
        low, high = given
        return low, high
    assert isinstance(given, (int, float, np.generic)), f"a range is two numbers, got {given!r}"
    return given, given  # type: ignore[return-value]


def _rows(label: Label) -> np.ndarray:
    return label.asnumpy() if isinstance(label, NDArray) else np.asarray(label)


def _areas(corners: np.ndarray) -> np.ndarray:
    """Of boxes (xmin, ymin, xmax, ymax, ...); 0 where the ends are not in order."""
    heights = np.maximum(0, corners[:, 3] - corners[:, 1])
    return heights * np.maximum(0, corners[:, 2] - corners[:, 0])


def _is_box(label: np.ndarray) -> np.ndarray:
    """Which rows have an area."""
    return (label[:, 3] > label[:, 1]) & (label[:, 4] > label[:, 2])


def _exact(given: object, usual: tuple[float, ...]) -> Any:
    """``usual`` for True: in float64, as dumps of these augmenters have it."""
    return np.array(usual) if given is True else given


def CreateMultiRandCropAugmenter(
    min_object_covered: float | Sequence[float] = 0.1,
    aspect_ratio_range: Sequence[float | Sequence[float]] = (0.75, 1.33),
    area_range: Sequence[float | Sequence[float]] = (0.05, 1.0),
    min_eject_coverage: float | Sequence[float] = 0.3,
    max_attempts: int | Sequence[int] = 50,
    skip_prob: float = 0,
) -> DetRandomSelectAug:
    """One of several :class:`DetRandomCropAug`: each argument is one value for all, or a list.

    Raises AssertionError for lists of several lengths.
    """
    params = (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts)
    listed = [each if isinstance(each, list) else [each] for each in params]
    count = max(map(len, listed))
    assert all(len(each) in (1, count) for each in listed), (
        f"lists of arguments have one length, got {[len(each) for each in listed]}"
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
    """The usual augmenters for pictures of ``data_shape`` (channels, height, width), in order.

    ``rand_crop`` and ``rand_pad`` are probabilities; ``mean`` and ``std`` True are ImageNet's.
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

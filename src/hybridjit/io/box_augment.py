"""Random augmentation of images with boxes, for the iterator of detection records.

Input: 8-bit pixels (H, W, C) and objects, rows of a class, a box (left, top, right, bottom in
fractions of the image's size) and further values. Output: the same after padding and cropping;
boxes are adjusted and objects outside are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass
class CropRule:
    """Rule of a random crop; each pair is a minimum and a maximum.

    ``scales``: larger side as a fraction of the image's; ``aspect_ratios``: width divided by
    height. At least one object must have ``overlaps`` (intersection over union with the crop),
    ``sample_coverages`` (intersection over the crop's area) and ``object_coverages`` (intersection
    over the object's area) in range.
    """

    trials: int
    scales: tuple[float, float]
    aspect_ratios: tuple[float, float]
    overlaps: tuple[float, float]
    sample_coverages: tuple[float, float]
    object_coverages: tuple[float, float]

    def drawn(self, objects: np.ndarray, aspect: float, random: np.random.Generator) -> Box | None:
        """Crop of an image with this aspect ratio, None if no trial succeeds."""
        for _ in range(self.trials):
            box = self._box(aspect, random)
            if self._is_wanted(box, objects):
                return box
        return None

    def _box(self, aspect: float, random: np.random.Generator) -> Box:
        scale = random.uniform(*self.scales)
        least = max(self.aspect_ratios[0] / aspect, scale * scale)
        most = min(self.aspect_ratios[1] / aspect, 1 / max(scale * scale, 1e-12))
        root = float(np.sqrt(random.uniform(least, max(least, most))))
        width, height = min(1.0, scale * root), min(1.0, scale / max(root, 1e-12))
        left, top = random.uniform(0, 1 - width), random.uniform(0, 1 - height)
        return left, top, left + width, top + height

    def _is_wanted(self, box: Box, objects: np.ndarray) -> bool:
        shared = _areas(_shared(objects[:, 1:5], box))
        own, crop = _areas(objects[:, 1:5]), _areas(np.array([box]))
        with np.errstate(divide="ignore", invalid="ignore"):
            found = (shared / (own + crop - shared), shared / crop, shared / own)
        ranges = (self.overlaps, self.sample_coverages, self.object_coverages)
        fits = [(low <= part) & (part <= high) for part, (low, high) in zip(found, ranges)]
        return bool(np.logical_and.reduce(fits).any())


class Kept(NamedTuple):
    """Selection of the objects of a crop: by their centre, or by their visible fraction."""

    by_centre: bool = True
    least_shown: float = 0.3

    def of(self, objects: np.ndarray, box: Box) -> np.ndarray:
        """Objects of a crop, with boxes in fractions of the crop."""
        boxes = objects[:, 1:5]
        if self.by_centre:
            x, y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
            stays = (box[0] <= x) & (x <= box[2]) & (box[1] <= y) & (y <= box[3])
        else:
            stays = _areas(_shared(boxes, box)) > self.least_shown * _areas(boxes)
        return placed(objects[stays], box)


def cropped(pixels: np.ndarray, box: Box) -> np.ndarray:
    """Crop of an image, at least one pixel in each direction."""
    height, width = pixels.shape[:2]
    left, top = min(int(box[0] * width), width - 1), min(int(box[1] * height), height - 1)
    right, bottom = max(round(box[2] * width), left + 1), max(round(box[3] * height), top + 1)
    return pixels[top:bottom, left:right]


def padded(
    pixels: np.ndarray, objects: np.ndarray, scale: float, fill: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Image at a random position of a ``scale`` times larger one filled with ``fill``."""
    height, width, channels = pixels.shape
    rows, columns = int(height * scale), int(width * scale)
    found = np.full((rows, columns, channels), fill, np.uint8)
    top, left = random.integers((rows - height, columns - width), endpoint=True)
    found[top : top + height, left : left + width] = pixels
    box = (-left / width, -top / height, (columns - left) / width, (rows - top) / height)
    return found, placed(objects, box)


def mirrored(objects: np.ndarray) -> np.ndarray:
    """Objects of the flipped image."""
    found = objects.copy()
    found[:, 1], found[:, 3] = 1 - objects[:, 3], 1 - objects[:, 1]
    return found


def placed(objects: np.ndarray, box: Box) -> np.ndarray:
    """Objects with boxes in fractions of ``box``."""
    found = objects.copy()
    low, high = np.array(box[:2]), np.array(box[2:])
    size = np.maximum(high - low, 1e-12)
    found[:, 1:3] = np.clip((objects[:, 1:3] - low) / size, 0, 1)
    found[:, 3:5] = np.clip((objects[:, 3:5] - low) / size, 0, 1)
    return found


def recoloured(pixels: np.ndarray, hue: int, lightness: int, saturation: int) -> np.ndarray:
    """RGB image with these values added; hue in units of 2 degrees, the others in 255ths."""
    red, green, blue = np.moveaxis(pixels.astype(np.float32) / 255, -1, 0)
    most, least = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    span, light = most - least, (most + least) / 2
    safe = np.where(span == 0, 1, span)
    colour = np.select(
        [most == red, most == green],
        [(green - blue) / safe % 6, (blue - red) / safe + 2],
        (red - green) / safe + 4,
    )
    full = span / np.maximum(1 - np.abs(2 * light - 1), 1e-6)
    light = np.clip(light + lightness / 255, 0, 1)
    full = np.clip(np.where(span == 0, 0, full) + saturation / 255, 0, 1)
    return _from_hue((colour + hue / 30) % 6, light, full)


def _from_hue(colour: np.ndarray, light: np.ndarray, full: np.ndarray) -> np.ndarray:
    """8-bit pixels from hue in sixths of the circle, lightness and saturation from 0 to 1."""
    reach = full * np.minimum(light, 1 - light)
    turns = [(colour + third) % 6 for third in (0, 4, 2)]  # red, green and blue: offsets of a third
    parts = [light + reach * np.clip(2 * np.abs(turn - 3) - 3, -1, 1) for turn in turns]
    return np.rint(np.clip(np.stack(parts, -1), 0, 1) * 255).astype(np.uint8)


def _shared(boxes: np.ndarray, box: Box) -> np.ndarray:
    low = np.maximum(boxes[:, :2], box[:2])
    return np.concatenate([low, np.maximum(np.minimum(boxes[:, 2:], box[2:]), low)], 1)


def _areas(boxes: np.ndarray) -> np.ndarray:
    found: np.ndarray = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return found

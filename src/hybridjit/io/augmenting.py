"""Random augmentations of ``ImageRecordIter``, applied before normalization.

Input: RGB pixels (rows, columns, C), 0 to 255. Output: pixels of the requested size. Sizes precede
colours, in MXNet's order: scaling and stretching, padding, cropping; brightness, contrast and
saturation in random order; hue, lightness and saturation of HLS; noise along the principal axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import MXNetError
from .picture_records import resized

_GREY = np.array([0.299, 0.587, 0.114], np.float32)
# Standard deviations along the principal axes of ImageNet's colours, and these axes as columns.
_SPREAD = np.array([55.46, 4.794, 1.148], np.float32)
_AXES = np.array(
    [
        [-0.5675, 0.7192, 0.4009],
        [-0.5808, -0.0045, -0.814],
        [-0.5836, -0.6948, 0.4203],
    ],
    np.float32,
)
_ATTEMPTS = 10


@dataclass(frozen=True)
class Augmentation:
    """Augmentations of ``ImageRecordIter`` by MXNet's names; the defaults change nothing.

    max_random_scale, min_random_scale  both sides are scaled by a random factor between them
    max_aspect_ratio   without ``random_resized_crop``: maximal relative change of the aspect ratio
    max_img_size, min_img_size  limits of the sides after that, in pixels
    pad, fill_value    pixels added on every side, and their value
    max_crop_size, min_crop_size  crop a square of a size between them and resize it
    random_resized_crop  crop and resize: the area is a fraction between ``min_random_area`` and
                       ``max_random_area`` of the image's, the aspect ratio is between
                       ``min_aspect_ratio`` (1 if None) and ``max_aspect_ratio``, or its inverse
    brightness, contrast, saturation  factors of 1 +- a random value up to this
    random_h, random_l, random_s  added to hue (0 to 180), lightness and saturation (0 to 255)
    pca_noise          standard deviation of the noise along the colours' principal axes
    """

    random_resized_crop: bool = False
    max_aspect_ratio: float = 0.0
    min_aspect_ratio: float | None = None
    max_random_area: float = 1.0
    min_random_area: float = 1.0
    max_random_scale: float = 1.0
    min_random_scale: float = 1.0
    max_img_size: float = 1e10
    min_img_size: float = 0.0
    max_crop_size: int = -1
    min_crop_size: int = -1
    pad: int = 0
    fill_value: int = 255
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    random_h: int = 0
    random_s: int = 0
    random_l: int = 0
    pca_noise: float = 0.0

    def require_possible(self) -> None:
        """Raise MXNetError for a lower bound above its upper bound."""
        least = self._aspects()[0] if self.random_resized_crop else 0.0
        pairs = {
            "random_scale": (self.min_random_scale, self.max_random_scale),
            "random_area": (self.min_random_area, self.max_random_area),
            "img_size": (self.min_img_size, self.max_img_size),
            "crop_size": (self.min_crop_size, self.max_crop_size),
            "aspect_ratio": (least, max(least, self._aspects()[1])),
        }
        for name, (low, high) in pairs.items():
            if not low <= high or (low <= 0 and name in ("random_scale", "random_area")):
                raise MXNetError(
                    f"ImageRecordIter: min_{name} must be above 0 and at most max_{name}, got "
                    f"{low} and {high}"
                )

    def _aspects(self) -> tuple[float, float]:
        least = 1.0 if self.min_aspect_ratio is None else self.min_aspect_ratio
        return least, self.max_aspect_ratio or least

    # ---- sizes ----------------------------------------------------------------------------------

    def enlarged(self, pixels: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Scale, stretch and pad."""
        h, w = pixels.shape[:2]
        scale = random.uniform(self.min_random_scale, self.max_random_scale)
        stretch = 0.0 if self.random_resized_crop else self.max_aspect_ratio
        ratio = 1 + random.uniform(-stretch, stretch)
        tall = 2 * scale / (1 + ratio)
        if (tall, ratio) != (1.0, 1.0) or not self.min_img_size <= min(h, w) <= self.max_img_size:
            pixels = resized(pixels, self._bounded(tall * h), self._bounded(ratio * tall * w))
        border = ((self.pad, self.pad), (self.pad, self.pad), (0, 0))
        return np.pad(pixels, border, constant_values=self.fill_value) if self.pad else pixels

    def _bounded(self, size: float) -> int:
        return max(1, round(max(self.min_img_size, min(self.max_img_size, size))))

    def part(
        self, pixels: np.ndarray, random: np.random.Generator, is_random: bool
    ) -> np.ndarray | None:
        """Region to resize to the wanted shape; None if that shape itself is cropped."""
        if self.random_resized_crop:
            return self._area(pixels, random)
        if max(self.min_crop_size, self.max_crop_size) < 1:
            return None
        h, w = pixels.shape[:2]
        low, high = (n if n > 0 else self.max_crop_size for n in
                     (self.min_crop_size, self.max_crop_size))  # fmt: skip
        size = min(int(random.integers(low, high, endpoint=True)), h, w)
        return cut(pixels, size, size, random if is_random else None)

    def _area(self, pixels: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Region by area and ratio; the central square if ten attempts do not fit."""
        h, w = pixels.shape[:2]
        for _ in range(_ATTEMPTS):
            area = h * w * random.uniform(self.min_random_area, self.max_random_area)
            ratio = random.uniform(*self._aspects())
            ratio = ratio if random.random() < 0.5 else 1 / ratio
            rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < rows <= h and 0 < columns <= w:
                return cut(pixels, rows, columns, random)
        return cut(pixels, min(h, w), min(h, w), None)

    # ---- colours --------------------------------------------------------------------------------

    def coloured(self, pixels: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Change colours, as float32 if anything changes; grey images do not change."""
        if pixels.shape[2] != 3:
            return pixels
        jitters: list[tuple[float, Callable[..., np.ndarray]]] = [
            (self.brightness, lambda x, f: x * f),
            (self.contrast, lambda x, f: x * f + (x @ _GREY).mean() * (1 - f)),
            (self.saturation, lambda x, f: x * f + (x @ _GREY)[..., None] * (1 - f)),
        ]
        for place in random.permutation(len(jitters)):
            width, change = jitters[place]
            if width > 0:
                factor = np.float32(1 + random.uniform(-width, width))
                pixels = np.clip(change(pixels.astype(np.float32), factor), 0, 255)
        if self.random_h or self.random_s or self.random_l:
            pixels = self._in_hls(pixels, random)
        if self.pca_noise > 0:
            strength = random.normal(0, self.pca_noise, 3).astype(np.float32) * _SPREAD
            pixels = np.clip(pixels + _AXES @ strength, 0, 255)
        return pixels

    def _in_hls(self, pixels: np.ndarray, random: np.random.Generator) -> np.ndarray:
        hue, light, vivid = hls(pixels.astype(np.float32) / 255)
        most = (self.random_h, self.random_l, self.random_s)
        turn, lighter, livelier = (random.uniform(-each, each) for each in most)
        return 255 * rgb(
            (hue + turn / 180) % 1,
            np.clip(light + lighter / 255, 0, 1),
            np.clip(vivid + livelier / 255, 0, 1),
        )


def cut(
    pixels: np.ndarray, rows: int, columns: int, random: np.random.Generator | None
) -> np.ndarray:
    """Crop of this size at a random position or, without ``random``, at the centre."""
    y, x = pixels.shape[0] - rows, pixels.shape[1] - columns
    y, x = (y // 2, x // 2) if random is None else random.integers((y, x), endpoint=True)
    return pixels[y : y + rows, x : x + columns]


def hls(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hue, lightness and saturation, each 0 to 1, of RGB values from 0 to 1."""
    red, green, blue = np.moveaxis(pixels, -1, 0)
    high, low = pixels.max(-1), pixels.min(-1)
    width, light = high - low, (high + low) / 2
    some = np.where(width == 0, 1, width)
    bound = np.where(light <= 0.5, high + low, 2 - high - low)
    hue = np.where(
        high == red,
        (green - blue) / some,
        np.where(high == green, 2 + (blue - red) / some, 4 + (red - green) / some),
    )
    return hue / 6 % 1, light, width / np.where(bound == 0, 1, bound)


def rgb(hue: np.ndarray, light: np.ndarray, vivid: np.ndarray) -> np.ndarray:
    """Inverse of :func:`hls`."""
    reach = vivid * np.minimum(light, 1 - light)
    turns = [(n + 12 * hue) % 12 for n in (0, 8, 4)]
    parts = [light - reach * np.clip(np.minimum(k - 3, 9 - k), -1, 1) for k in turns]
    return np.stack(parts, -1).astype(np.float32)

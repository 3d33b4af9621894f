"""Rotation of images by an angle.

Input: float32 images (C, H, W) or (N, C, H, W). Output: the same shape; pixels from outside of the
image are 0.
"""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np

from .. import nd
from ..nd import NDArray

__all__ = ["imrotate", "random_rotate"]


def imrotate(
    src: NDArray, rotation_degrees: object, zoom_in: bool = False, zoom_out: bool = False
) -> NDArray:
    """Rotate around the centre by degrees: a number, or for a batch an NDArray of one per image.

    ``zoom_in`` scales until no pixel from outside is visible, ``zoom_out`` until the whole image is
    visible. Raises TypeError unless the image is float32, ValueError for another rank or number of
    angles.
    """
    if zoom_in and zoom_out:
        raise ValueError("`zoom_in` and `zoom_out` cannot be both True")
    if np.dtype(src.dtype) != np.float32:
        raise TypeError("Only `float32` images are supported by this function")
    if src.ndim == 3 and not isinstance(rotation_degrees, Number):
        raise TypeError(
            "When a single image is passed the rotation angle is required to be a scalar."
        )
    if src.ndim not in (3, 4):
        raise ValueError("Only 3D and 4D are supported by this function")
    batch = src.reshape((1, *src.shape)) if src.ndim == 3 else src
    angles = _angles(rotation_degrees, len(batch))
    grid = _grid(np.deg2rad(angles), batch.shape[2], batch.shape[3], zoom_in, zoom_out)
    rotated = nd.BilinearSampler(batch, nd.array(grid))  # type: ignore[attr-defined]
    return rotated[0] if src.ndim == 3 else rotated


def random_rotate(
    src: NDArray, angle_limits: tuple[float, float], zoom_in: bool = False, zoom_out: bool = False
) -> NDArray:
    """:func:`imrotate` by a random angle between two limits; in a batch one for each image."""
    count = None if src.ndim == 3 else len(src)
    drawn = np.random.uniform(*angle_limits, size=count)  # noqa: NPY002
    return imrotate(src, float(drawn) if count is None else nd.array(drawn), zoom_in, zoom_out)


def _angles(degrees: Any, count: int) -> np.ndarray:
    if isinstance(degrees, Number):
        return np.full(count, degrees, np.float64)
    if len(degrees) != count:
        raise ValueError(
            "The number of images must be equal to the number of rotation angles: "
            f"{count} and {len(degrees)}"
        )
    return degrees.asnumpy().astype(np.float64)


def _grid(angles: np.ndarray, h: int, w: int, zoom_in: bool, zoom_out: bool) -> np.ndarray:
    """Source coordinates of each pixel, (N, 2, h, w), x before y, in [-1, 1]."""
    middle_y, middle_x = (h - 1) / 2, (w - 1) / 2
    y, x = np.mgrid[:h, :w] - np.array([middle_y, middle_x])[:, None, None]
    cos, sin = np.cos(angles)[:, None, None], np.sin(angles)[:, None, None]
    with np.errstate(all="ignore"):  # division by 0 for one row or column
        grid = np.stack([(x * cos - y * sin) / middle_x, (x * sin + y * cos) / middle_y], 1)
    if zoom_in or zoom_out:
        grid *= _zoom(np.abs(angles), h, w, zoom_out)[:, None, None, None]
    return grid.astype(np.float32)


def _zoom(angles: np.ndarray, h: int, w: int, zoom_out: bool) -> np.ndarray:
    """Size of the visible region relative to the image."""
    radius, corner = np.hypot(h, w), np.arctan2(h, w)
    both = np.stack([corner + angles, corner - angles])
    reach_x = np.abs(radius * np.cos(both)).max(0)
    reach_y = np.abs(radius * np.sin(both)).max(0)
    if zoom_out:
        return np.maximum(reach_x / w, reach_y / h)
    return np.minimum(w / reach_x, h / reach_y)

"""Regions of interest: checks, bins of integer pixels, and gradients by regions.

Regions are data: they may have any position and size. The work for a region is bounded by the size
of the image. Coordinates are limited to +-2^30; NaN counts as outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..._core.types import Shape, TensorType, product, shape_text
from ...errors import AttributeValueError, ShapeError
from .. import native
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..casting import bounded, widened
from ..registry import lookup
from ..rules import forward, require_float, same_dtype
from ..signatures import Gradient
from ..tensor.by_index import whole

MOST_SAMPLES = 1024  # limit of an attribute: samples of a bin along one axis
FAR = 1 << 30  # limit of coordinates, and of samples of a bin along one axis
_NATIVE = ("float32", "float64")
MARGIN = 2  # extra samples at each end of the computed range


def check_regions(data: TensorType, rois: TensorType, pooled_size: Shape, widths: Shape) -> None:
    """Raise ShapeError or AttributeValueError unless data is 4D, regions have one of the ``widths``
    and ``pooled_size`` is two positive integers."""
    same_dtype(data, rois)
    require_float("the operator", data)
    if data.ndim != 4:
        raise ShapeError(f"data should be a 4D tensor, got {shape_text(data.shape)}")
    if rois.ndim != 2 or rois.dims[1] not in widths:
        expected = " or ".join(str(w) for w in widths)
        raise ShapeError(f"rois should be rows of {expected} values, got {shape_text(rois.shape)}")
    if len(pooled_size) != 2 or min(pooled_size) < 1:
        raise AttributeValueError(
            f"pooled_size must be two positive integers, got {shape_text(pooled_size)}"
        )


def check_samples(name: str, count: int) -> None:
    """Raise AttributeValueError if ``count`` exceeds the limit of samples along one axis."""
    if count > MOST_SAMPLES:
        raise AttributeValueError(f"{name} must be at most {MOST_SAMPLES}, got {count}")


def infer_back(head: TensorType, *others: TensorType, shape: Shape, **attrs: object) -> TensorType:
    return head.with_shape(shape)


def by_regions(back: str) -> Gradient:
    """Gradient rule of pooling that is linear in the data; regions have no gradient."""

    def grad(
        g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared
    ) -> tuple[X, None]:
        shape = g.type(ins[0]).dims
        return g.op(lookup(back), douts[0], ins[1], shape=shape, **attrs), None

    return grad


def back_again(forth: str) -> Gradient:
    """Gradient rule of the operators of :func:`by_regions`: pooling of the gradient."""

    def grad(
        g: Builder[X],
        ins: Many[X],
        outs: Many[X],
        douts: Many[X],
        *,
        shape: Shape,
        **attrs: Declared,
    ) -> tuple[X, None]:
        return g.op(lookup(forth), douts[0], ins[1], **attrs), None

    return grad


def rounded(x: np.ndarray) -> np.ndarray:
    """Nearest integers, ties away from zero, limited to +-FAR; NaN becomes -FAR."""
    wide = widened(x)
    nearest = wide + np.copysign(wide.dtype.type(0.5), wide)
    return bounded(nearest, -FAR, FAR).astype(np.int64)


class Bin(NamedTuple):
    """Non-empty bin: its index in the result, and its cells in the data."""

    place: tuple[int | slice, ...]
    image: int
    rows: slice
    columns: slice


class Bins(NamedTuple):
    """Bins of regions: images (R), -1 for those that are not there, and the first and
    last-plus-one rows (R, ph, 2) and columns (R, pw, 2), within the image.
    """

    images: np.ndarray
    rows: np.ndarray
    columns: np.ndarray

    def with_cells(self) -> Iterator[Bin]:
        """Those that have cells, of images that are there."""
        tables = (self.images.tolist(), self.rows.tolist(), self.columns.tolist())
        for region, (image, rows, columns) in enumerate(zip(*tables)):
            if image < 0:
                continue
            for i, (top, bottom) in enumerate(rows):
                for j, (left, right) in enumerate(columns):
                    if top < bottom and left < right:
                        place = (region, slice(None), i, j)
                        yield Bin(place, image, slice(top, bottom), slice(left, right))

    def run(self, how: str, shape: Shape, arrays: Sequence[np.ndarray], groups: int = 1) -> bool:
        """Compute all bins by machine code if the sizes of one image make that worth it.

        ``arrays`` are the data of this ``shape``, bins and gradients; one that ``how`` does not
        need may be any.
        """
        if 0 in shape or 0 in arrays[1].shape or arrays[1].dtype.name not in _NATIVE:
            return False
        run = native.routine("bins", how, arrays[1].dtype.name, size=product(shape[1:]))
        if run is None:
            return False
        tables = [np.ascontiguousarray(table, np.int64) for table in self]
        operands = [np.ascontiguousarray(array) for array in arrays]
        regions, channels, *pooled = arrays[1].shape
        run([*operands, *tables], [regions, channels, *shape[2:], *pooled, groups])
        return True


def images_of(rois: np.ndarray, count: int) -> np.ndarray:
    """The image of each region, -1 for one that is not there."""
    images = whole(rois[:, 0])
    return np.where((images >= 0) & (images < count), images, -1)


def on_channels_last(ref: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def turned(data: np.ndarray, rois: np.ndarray, **attrs: AttrValue) -> np.ndarray:
        y = ref(np.moveaxis(data, 3, 1), rois, **attrs)
        return np.ascontiguousarray(np.moveaxis(y, 1, 3))

    return turned


@forward
def infer_last(
    data: TensorType, rois: TensorType, *, pooled_size: Shape, **attrs: AttrValue
) -> TensorType:
    return data.with_shape((rois.dims[0], *pooled_size, data.dims[3]))

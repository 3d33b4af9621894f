"""Preparation of images: conversion from HWC to CHW, normalization, cropping, resizing.

Input: one image (three axes) or a batch (four). Output: the same number of axes.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from ..._core.types import FLOAT32, Shape, TensorType, shape_text
from ...errors import AttributeValueError, DTypeError, ShapeError
from ..building import Builder, X
from ..casting import widened
from ..elementwise.binary import DIVIDE, SUBTRACT
from ..elementwise.element_type import cast
from ..gradient import NoGradientError
from ..record import Traits
from ..registry import register
from ..rules import forward
from ..tensor.movement import REVERSE
from ..tensor.primitives import part, transpose
from .interpolation import METHODS, resample


def _check_image(t: TensorType) -> None:
    if t.ndim not in (3, 4):
        raise ShapeError(f"an image must have 3 axes, or 4 for a batch, got {shape_text(t.shape)}")


@forward
def _infer_to_tensor(data: TensorType) -> TensorType:
    """(..., H, W, C) -> (..., C, H, W) in float32."""
    _check_image(data)
    *lead, height, width, channels = data.dims
    return TensorType((*lead, channels, height, width), FLOAT32)


def _to_tensor(data: np.ndarray) -> np.ndarray:
    """Channels first, divided by 255."""
    y = np.moveaxis(data, -1, -3).astype(np.float32, order="C")
    return y / np.float32(255)


def _to_tensor_parts(g: Builder[X], data: X) -> X:
    """to_tensor(image)  =>  transpose(Cast(image)) / 255"""
    ndim = g.type(data).ndim
    share = g.op(DIVIDE.scalar, cast(g, data, FLOAT32, at="wide"), at="part", scalar=255.0)
    return transpose(g, share, (*range(ndim - 3), ndim - 1, ndim - 3, ndim - 2))


register(
    "_image_to_tensor",
    "data",
    infer=_infer_to_tensor,
    ref=_to_tensor,
    expand=_to_tensor_parts,
    traits=Traits(names_data=True),
    doc="HWC image to CHW float32 in [0, 1].",
)


@forward
def _infer_normalize(
    data: TensorType, *, mean: tuple[float, ...], std: tuple[float, ...]
) -> TensorType:
    """Like the data, (..., C, H, W)."""
    _check_image(data)
    if data.dtype is not None and data.dtype.kind != "f":
        raise DTypeError(
            f"_image_normalize takes floating types, got {data.dtype.name}: ToTensor() before it "
            "makes float32 of pictures in bytes"
        )
    channels = data.dims[-3]
    if channels not in (1, 3):
        raise ShapeError(f"_image_normalize needs 1 or 3 channels on axis -3, got {channels}")
    for name, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, channels, 4):  # 4 is the length of the defaults
            raise AttributeValueError(f"{name} has {len(values)} values for {channels} channels")
    return data


def _per_channel(numbers: tuple[float, ...], channels: int, dtype: np.dtype) -> np.ndarray:
    chosen = numbers * channels if len(numbers) == 1 else numbers[:channels]
    return np.array(chosen, dtype).reshape(channels, 1, 1)


def _normalize(data: np.ndarray, *, mean: tuple[float, ...], std: tuple[float, ...]) -> np.ndarray:
    """(x - mean) / std per channel; one value applies to all channels."""
    channels, x = data.shape[-3], widened(data)
    y = (x - _per_channel(mean, channels, x.dtype)) / _per_channel(std, channels, x.dtype)
    return y.astype(data.dtype, copy=False)


CHANNEL_NUMBERS = register(
    "_channel_numbers",
    "",
    "numbers:floats! channels:int! dtype:dtype!",
    internal=True,
    infer=forward(lambda numbers, channels, dtype: TensorType((channels, 1, 1), dtype)),
    ref=_per_channel,
    doc="One value for each channel of an image; created by the compiler only.",
)


def _normalize_parts(
    g: Builder[X], data: X, *, mean: tuple[float, ...], std: tuple[float, ...]
) -> X:
    """normalize(image)  =>  (image - mean) / std per channel"""
    t = g.type(data)
    means, stds = (
        g.op(CHANNEL_NUMBERS, at=at, numbers=numbers, channels=t.dims[-3], dtype=t.dtype)
        for at, numbers in (("mean", mean), ("std", std))
    )
    moved = g.op(SUBTRACT.broadcasting, data, means, at="moved")
    return g.op(DIVIDE.broadcasting, moved, stds)


register(
    "_image_normalize",
    "data",
    "mean:floats=(0,0,0,0) std:floats=(1,1,1,1)",
    infer=_infer_normalize,
    ref=_normalize,
    expand=_normalize_parts,
    traits=Traits(parts_in_floats=True, names_data=True),
    doc="Subtract each channel's mean and divide by its standard deviation.",
)


@forward
def _infer_crop(data: TensorType, *, x: int, y: int, width: int, height: int) -> TensorType:
    """(..., height, width, C)."""
    _check_image(data)
    rows, columns = data.dims[-3:-1]
    if min(x, y) < 0 or min(width, height) < 1 or x + width > columns or y + height > rows:
        raise ShapeError(
            f"the crop of {height} x {width} at row {y}, column {x} is not inside the image of "
            f"{rows} x {columns}"
        )
    return data.with_shape((*data.dims[:-3], height, width, data.dims[-1]))


def _crop(data: np.ndarray, *, x: int, y: int, width: int, height: int) -> np.ndarray:
    return data[..., y : y + height, x : x + width, :].copy()


def _crop_as_slice(g: Builder[X], data: X, *, x: int, y: int, width: int, height: int) -> X:
    """image crop  =>  slice"""
    *lead, _, _, channels = g.type(data).dims
    begin = (*(0 for _ in lead), y, x, 0)
    return part(g, data, begin, (*lead, y + height, x + width, channels))


register(
    "_image_crop",
    "data",
    "x:int! y:int! width:int! height:int!",
    infer=_infer_crop,
    ref=_crop,
    expand=_crop_as_slice,
    doc="Crop a rectangle of an HWC image.",
)


def _target(rows: int, columns: int, size: Shape, keep_ratio: bool) -> Shape:
    """Height and width for ``size``: (w, h), or one value for both or for the shorter side."""
    if not 1 <= len(size) <= 2 or min(size) < 1:
        raise AttributeValueError(f"size must be one or two positive integers, got {size}")
    if len(size) == 2:
        return size[1], size[0]
    if not keep_ratio:
        return size[0], size[0]
    if rows > columns:
        return rows * size[0] // columns, size[0]
    return size[0], columns * size[0] // rows


@forward
def _infer_resize(data: TensorType, *, size: Shape, keep_ratio: bool, interp: int) -> TensorType:
    """(..., height, width, C)."""
    _check_image(data)
    if interp not in METHODS:
        known = ", ".join(f"{number} ({name})" for number, name in METHODS.items())
        raise AttributeValueError(f"interp must be one of {known}, got {interp}")
    *lead, rows, columns, channels = data.dims
    if not rows or not columns:
        raise ShapeError(f"an image of {rows} x {columns} has no pixels")
    return data.with_shape((*lead, *_target(rows, columns, size, keep_ratio), channels))


def _resize(data: np.ndarray, *, size: Shape, keep_ratio: bool, interp: int) -> np.ndarray:
    """Image resized by OpenCV's method of this code; integers are rounded."""
    height, width = _target(data.shape[-3], data.shape[-2], size, keep_ratio)
    return resample(data, height, width, interp)


def _no_gradient(*args: object, **attrs: object) -> NoReturn:
    """Raise NoGradientError at differentiation, not at bind: MXNet binds gradients of this
    operator."""
    raise NoGradientError("image.resize has no gradient here: use contrib.BilinearResize2D")


register(
    "_image_resize",
    "data",
    "size:shape=() keep_ratio:bool=False interp:int=1",
    infer=_infer_resize,
    ref=_resize,
    grad=_no_gradient,
    doc="Resize an HWC image.",
)


@forward
def _infer_flip(data: TensorType) -> TensorType:
    """Like the data, (H, W, C)."""
    if data.ndim != 3:
        raise ShapeError(
            f"Input image must have shape (height, width, channels), got {shape_text(data.shape)}"
        )
    return data


def _flip(name: str, axis: int, doc: str) -> None:
    def expand(g: Builder[X], data: X) -> X:
        """image flip  =>  reverse"""
        return g.op(REVERSE, data, axis=(axis,))

    register(name, "data", infer=_infer_flip, expand=expand, doc=doc)


_flip("_image_flip_left_right", 1, "Columns of an image (H, W, C) in reverse order.")
_flip("_image_flip_top_bottom", 0, "Rows of an image (H, W, C) in reverse order.")

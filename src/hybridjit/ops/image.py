"""Preparation of images: HWC pictures to CHW tensors, normalising, cropping, resizing.

In: one image (three axes) or a batch (four). Out: the same number of axes.
"""

from __future__ import annotations

import numpy as np

from ..errors import AttributeValueError, ShapeError
from ..types import FLOAT32, Shape, TensorType, shape_text
from .casting import widened
from .interpolation import METHODS, resample
from .registry import Kind, register
from .rules import forward, require_float


def _check_image(t: TensorType) -> None:
    if t.ndim not in (3, 4):
        raise ShapeError(f"an image has 3 axes, a batch of them 4, got {shape_text(t.shape)}")


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


register(
    "_image_to_tensor",
    "data",
    kind=Kind.HOST,
    infer=_infer_to_tensor,
    ref=_to_tensor,
    doc="HWC image to CHW float32 in [0, 1].",
)


@forward
def _infer_normalize(
    data: TensorType, *, mean: tuple[float, ...], std: tuple[float, ...]
) -> TensorType:
    """Like the data, (..., C, H, W)."""
    _check_image(data)
    require_float("_image_normalize", data)
    channels = data.dims[-3]
    if channels not in (1, 3):
        raise ShapeError(f"_image_normalize takes 1 or 3 channels on axis -3, got {channels}")
    for name, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, channels, 4):  # 4 is the length of the defaults
            raise AttributeValueError(f"{name} has {len(values)} numbers for {channels} channels")
    return data


def _per_channel(numbers: tuple[float, ...], channels: int, dtype: np.dtype) -> np.ndarray:
    chosen = numbers * channels if len(numbers) == 1 else numbers[:channels]
    return np.array(chosen, dtype).reshape(channels, 1, 1)


def _normalize(data: np.ndarray, *, mean: tuple[float, ...], std: tuple[float, ...]) -> np.ndarray:
    """(x - mean) / std per channel; one number serves all channels."""
    channels, x = data.shape[-3], widened(data)
    y = (x - _per_channel(mean, channels, x.dtype)) / _per_channel(std, channels, x.dtype)
    return y.astype(data.dtype, copy=False)


register(
    "_channel_numbers",
    "",
    "numbers:floats! channels:int! dtype:dtype!",
    internal=True,
    kind=Kind.HOST,
    infer=forward(lambda numbers, channels, dtype: TensorType((channels, 1, 1), dtype)),
    ref=_per_channel,
    doc="A number for each channel of an image; made by the compiler only.",
)
register(
    "_image_normalize",
    "data",
    "mean:floats=(0,0,0,0) std:floats=(1,1,1,1)",
    kind=Kind.HOST,
    infer=_infer_normalize,
    ref=_normalize,
    doc="Subtract the mean of each channel and divide by its deviation.",
)


@forward
def _infer_crop(data: TensorType, *, x: int, y: int, width: int, height: int) -> TensorType:
    """(..., height, width, C)."""
    _check_image(data)
    rows, columns = data.dims[-3:-1]
    if min(x, y) < 0 or min(width, height) < 1 or x + width > columns or y + height > rows:
        raise ShapeError(
            f"the crop of {height} x {width} at row {y}, column {x} leaves the image of "
            f"{rows} x {columns}"
        )
    return data.with_shape((*data.dims[:-3], height, width, data.dims[-1]))


def _crop(data: np.ndarray, *, x: int, y: int, width: int, height: int) -> np.ndarray:
    return data[..., y : y + height, x : x + width, :].copy()


register(
    "_image_crop",
    "data",
    "x:int! y:int! width:int! height:int!",
    kind=Kind.HOST,
    infer=_infer_crop,
    ref=_crop,
    doc="A rectangle of an HWC image.",
)


def _target(rows: int, columns: int, size: Shape, keep_ratio: bool) -> Shape:
    """Height and width: size is (w, h), or one number for both or for the shorter side."""
    if not 1 <= len(size) <= 2 or min(size) < 1:
        raise AttributeValueError(f"size takes one or two positive numbers, got {size}")
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
        raise AttributeValueError(f"interp is one of {known}, got {interp}")
    *lead, rows, columns, channels = data.dims
    if not rows or not columns:
        raise ShapeError(f"an image of {rows} x {columns} has no pixels")
    return data.with_shape((*lead, *_target(rows, columns, size, keep_ratio), channels))


def _resize(data: np.ndarray, *, size: Shape, keep_ratio: bool, interp: int) -> np.ndarray:
    """The picture with OpenCV's method of this number; integers are rounded."""
    height, width = _target(data.shape[-3], data.shape[-2], size, keep_ratio)
    return resample(data, height, width, interp)


register(
    "_image_resize",
    "data",
    "size:shape=() keep_ratio:bool=False interp:int=1",
    kind=Kind.HOST,
    infer=_infer_resize,
    ref=_resize,
    doc="An HWC image in another size.",
)


@forward
def _infer_flip(data: TensorType) -> TensorType:
    """Like the data, (H, W, C)."""
    if data.ndim != 3:
        raise ShapeError(
            f"Input image must have shape (height, width, channels), got {shape_text(data.shape)}"
        )
    return data


register(
    "_image_flip_left_right",
    "data",
    kind=Kind.HOST,
    infer=_infer_flip,
    ref=lambda data: data[:, ::-1].copy(),
    doc="The columns of an image (H, W, C) in reverse.",
)
register(
    "_image_flip_top_bottom",
    "data",
    kind=Kind.HOST,
    infer=_infer_flip,
    ref=lambda data: data[::-1].copy(),
    doc="The rows of an image (H, W, C) in reverse.",
)

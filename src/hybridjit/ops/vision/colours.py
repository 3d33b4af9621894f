"""Random changes of colours and orientation of images.

Input: images (..., height, width, channels) of any dtype with 3 channels or 1. Output: the same
shape and dtype; 8-bit results are clamped and truncated, as in MXNet. Random numbers come from the
generator of ``mx.random.seed``. Gradients pass unchanged, as in MXNet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ...errors import AttributeValueError, ShapeError
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..random.draws import generator
from ..record import Traits
from ..registry import register
from ..rules import Types, same_type
from .interpolation import picked

_GREY = np.array([0.299, 0.587, 0.114], np.float32)
# Principal components of the colours of ImageNet, times their standard deviations.
_LIGHT = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
) * [55.46, 4.794, 1.148]

# Pixels whose hues are rotated at once: forty arrays of 32 KB, which stay in the caches.
_BLOCK = 1 << 13

Change = Callable[[np.ndarray, float], np.ndarray]


def _image_types(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    for name in ("min_factor", "max_factor"):
        if not attrs.get(name, 0) >= 0:  # type: ignore[operator]
            raise AttributeValueError(f"{name} must be at least 0, got {attrs[name]}")
    weights = attrs.get("alpha", (0.0,) * 3)
    if len(weights) != 3:  # type: ignore[arg-type]
        raise AttributeValueError(f"alpha needs the weights of 3 components, got {weights}")
    ins, outs = same_type(ins, outs)
    dims = ins[0].shape
    if dims is not None and (len(dims) not in (3, 4) or dims[-1] not in (1, 3, None)):
        raise ShapeError(
            "an image must be (height, width, channels), or a batch of these, with 3 channels or "
            "1, got "
            f"{dims}"
        )
    return ins, outs


def _unchanged(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared) -> X:
    """Pass the output gradient."""
    return douts[0]


def _register(name: str, attrs: str, ref: Callable[..., np.ndarray], doc: str) -> None:
    register(
        f"_image_{name}",
        "data",
        attrs,
        infer=_image_types,
        ref=ref,
        grad=_unchanged,
        traits=Traits(random=name.startswith("random"), names_data=True),
        doc=doc,
    )


def _stored(pixels: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Convert to the dtype of ``data``; integers are clamped and truncated."""
    kind = data.dtype
    if kind.kind in "iu":
        info = np.iinfo(kind)
        pixels = np.clip(pixels, info.min, info.max)
    return np.ascontiguousarray(pixels.astype(kind))


def _drawn(low: float, high: float) -> float:
    return float(generator().uniform(low, high))


def _by_factor(
    data: np.ndarray, change: Change, *, min_factor: float, max_factor: float
) -> np.ndarray:
    factor = _drawn(min_factor, max_factor)
    return _stored(change(data.astype(np.float32), factor), data)


def _flipped(data: np.ndarray, axis: int) -> np.ndarray:
    if generator().random() >= 0.5:
        return np.array(data, order="C")
    y, x = (np.arange(size, dtype=np.int64) for size in data.shape[-3:-1])
    y, x = (y, x[::-1]) if axis == -2 else (y[::-1].copy(), x)
    return np.ascontiguousarray(picked(data, y, x))


def _jittered(
    data: np.ndarray, *, brightness: float, contrast: float, saturation: float, hue: float
) -> np.ndarray:
    """Apply all four in random order, with factors within the given distances from 1 (hue: 0)."""
    steps = [
        (function, middle + _drawn(-width, width))
        for function, middle, width in (
            (_brightened, 1.0, brightness),
            (_contrasted, 1.0, contrast),
            (_saturated, 1.0, saturation),
            (_hue_rotated, 0.0, hue),
        )
        if width > 0
    ]
    pixels = data
    for i in generator().permutation(len(steps)):
        function, factor = steps[i]
        pixels = _stored(function(pixels.astype(np.float32), factor), data)
    return np.array(pixels, order="C")


def _lit(data: np.ndarray, *, alpha: Sequence[float]) -> np.ndarray:
    light = (_LIGHT @ np.asarray(alpha)).astype(np.float32)
    if data.shape[-1] == 1:
        return data.copy()
    # Along whole rows NumPy adds ten times as fast as along three channels.
    rows = data.reshape(*data.shape[:-2], -1).astype(np.float32)
    rows += np.tile(light, data.shape[-2])
    return _stored(rows, data).reshape(data.shape)


def _lit_at_random(data: np.ndarray, *, alpha_std: float) -> np.ndarray:
    return _lit(data, alpha=generator().normal(0.0, alpha_std, 3).tolist())


def _brightened(x: np.ndarray, factor: float) -> np.ndarray:
    return x * np.float32(factor)


def _contrasted(x: np.ndarray, factor: float) -> np.ndarray:
    mean = (x @ _GREY if x.shape[-1] > 1 else x).mean(axis=(-2, -1) if x.shape[-1] > 1 else None)
    mean = np.reshape(mean, (*np.shape(mean), 1, 1, 1)) if np.ndim(mean) else mean
    return x * np.float32(factor) + np.float32(1 - factor) * mean


def _saturated(x: np.ndarray, factor: float) -> np.ndarray:
    if x.shape[-1] == 1:
        return x
    return x * np.float32(factor) + np.float32(1 - factor) * (x @ _GREY)[..., None]


def _hue_rotated(x: np.ndarray, part: float) -> np.ndarray:
    """Rotate the hue by ``part`` of the circle; lightness and saturation do not change."""
    if x.shape[-1] == 1:
        return x
    made = np.empty(x.shape, np.float32)
    pixels, rotated = x.reshape(-1, 3), made.reshape(-1, 3)
    for first in range(0, len(pixels), _BLOCK):
        block = slice(first, first + _BLOCK)
        _rotate_block(pixels[block], part, rotated[block])
    return made


def _rotate_block(x: np.ndarray, part: float, made: np.ndarray) -> None:
    """Pixels (count, 3) rotated as in :func:`_hue_rotated`, written to ``made``."""
    r, g, b = (x[:, channel] / np.float32(255) for channel in range(3))
    top, bottom = np.maximum(np.maximum(r, g), b), np.minimum(np.minimum(r, g), b)
    lightness, spread = (top + bottom) / 2, top - bottom
    # Grey pixels have chroma 0, so their other values do not matter.
    over = 1 / np.where(spread > 0, spread, np.float32(1))
    room = np.where(lightness < 0.5, top + bottom, 2 - top - bottom)
    limit = np.minimum(lightness, 1 - lightness)
    chroma = np.where(spread > 0, spread / np.where(room > 0, room, np.float32(1)), 0) * limit
    sixth = np.where(
        top == r, (g - b) * over, np.where(top == g, 2 + (b - r) * over, 4 + (r - g) * over)
    )
    hue = sixth + np.float32(6 * part)
    for channel, turn in enumerate((2, 0, -2)):
        part_of = _channel(hue + np.float32(turn), lightness, chroma)
        np.multiply(part_of, np.float32(255), out=made[:, channel])


def _channel(hue: np.ndarray, lightness: np.ndarray, chroma: np.ndarray) -> np.ndarray:
    """Channel value of a hue in sixths of the circle: rises in one, constant in two, falls."""
    sixth = hue - 6 * np.floor(hue * np.float32(1 / 6))
    return lightness + chroma * np.clip(np.minimum(sixth, 4 - sixth) * 2 - 1, -1, 1)


_FACTORS = "min_factor:float! max_factor:float!"
for _name, _change, _doc in (
    ("brightness", _brightened, "Images times a random factor between the two."),
    (
        "contrast",
        _contrasted,
        "Difference of the images from their mean grey, times a random factor between the two.",
    ),
    (
        "saturation",
        _saturated,
        "Difference of every pixel from its grey, times a random factor between the two.",
    ),
    ("hue", _hue_rotated, "Images with hues rotated by a random part of a circle between the two."),
):
    _register(f"random_{_name}", _FACTORS, partial(_by_factor, change=_change), _doc)
for _name, _axis, _doc in (
    ("left_right", -2, "Images, flipped left to right with probability 1/2."),
    ("top_bottom", -3, "Images, flipped upside down with probability 1/2."),
):
    _register(f"random_flip_{_name}", "", partial(_flipped, axis=_axis), _doc)
_register(
    "random_color_jitter",
    "brightness:float! contrast:float! saturation:float! hue:float!",
    _jittered,
    "Images with random changes of brightness, contrast, saturation and hue.",
)
_register(
    "adjust_lighting",
    "alpha:floats!",
    _lit,
    "Images plus ImageNet's principal colour components weighted by alpha.",
)
_register(
    "random_lighting",
    "alpha_std:float=0.05",
    _lit_at_random,
    "adjust_lighting with normal random weights of this standard deviation.",
)

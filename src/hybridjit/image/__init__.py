"""``mx.image``: pictures read from files, resized, cropped and normalized."""

from . import detection, image
from .decoding import imdecode, imread
from .image import (
    center_crop,
    color_normalize,
    copyMakeBorder,
    fixed_crop,
    imresize,
    random_crop,
    random_size_crop,
    resize_short,
    scale_down,
)
from .rotation import imrotate, random_rotate

__all__ = [
    "center_crop",
    "color_normalize",
    "copyMakeBorder",
    "detection",
    "fixed_crop",
    "image",
    "imdecode",
    "imread",
    "imresize",
    "imrotate",
    "random_crop",
    "random_rotate",
    "random_size_crop",
    "resize_short",
    "scale_down",
]

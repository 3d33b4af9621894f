"""``nd.image``: image operators, filled from the registry, and changes at random."""

from .colours import (
    adjust_lighting,
    random_brightness,
    random_color_jitter,
    random_contrast,
    random_flip_left_right,
    random_flip_top_bottom,
    random_hue,
    random_lighting,
    random_saturation,
)

__all__ = [
    "adjust_lighting",
    "random_brightness",
    "random_color_jitter",
    "random_contrast",
    "random_flip_left_right",
    "random_flip_top_bottom",
    "random_hue",
    "random_lighting",
    "random_saturation",
]

"""Functions of ``nd.image``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any

from .colours import adjust_lighting as adjust_lighting
from .colours import random_brightness as random_brightness
from .colours import random_color_jitter as random_color_jitter
from .colours import random_contrast as random_contrast
from .colours import random_flip_left_right as random_flip_left_right
from .colours import random_flip_top_bottom as random_flip_top_bottom
from .colours import random_hue as random_hue
from .colours import random_lighting as random_lighting
from .colours import random_saturation as random_saturation
from .ndarray import NDArray

_Sizes = int | Sequence[Any]

def crop(
    data: NDArray | None = ...,
    x: int = ...,
    y: int = ...,
    width: int = ...,
    height: int = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def flip_left_right(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def flip_top_bottom(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def normalize(
    data: NDArray | None = ...,
    mean: _Sizes = ...,
    std: _Sizes = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def resize(
    data: NDArray | None = ...,
    size: _Sizes = (),
    keep_ratio: bool = False,
    interp: int = 1,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def to_tensor(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...

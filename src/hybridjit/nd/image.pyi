"""Functions of ``nd.image``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any

from .ndarray import NDArray

_Sizes = int | Sequence[Any]

def adjust_lighting(
    data: NDArray | None = ...,
    alpha: _Sizes = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
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
def random_brightness(
    data: NDArray | None = ...,
    min_factor: float = ...,
    max_factor: float = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def random_color_jitter(
    data: NDArray | None = ...,
    brightness: float = ...,
    contrast: float = ...,
    saturation: float = ...,
    hue: float = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def random_contrast(
    data: NDArray | None = ...,
    min_factor: float = ...,
    max_factor: float = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def random_flip_left_right(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def random_flip_top_bottom(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def random_hue(
    data: NDArray | None = ...,
    min_factor: float = ...,
    max_factor: float = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def random_lighting(
    data: NDArray | None = ...,
    alpha_std: float = 0.05,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def random_saturation(
    data: NDArray | None = ...,
    min_factor: float = ...,
    max_factor: float = ...,
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

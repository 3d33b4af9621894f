"""Functions of ``nd.image``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any, TypedDict

from typing_extensions import Unpack

from .ndarray import NDArray

_Sizes = int | Sequence[Any]

class _Call(TypedDict, total=False):
    ctx: Any
    out: Any
    name: str | None

def adjust_lighting(
    data: NDArray | None = ..., alpha: _Sizes = ..., **call: Unpack[_Call],
) -> NDArray: ...
def crop(
    data: NDArray | None = ..., x: int = ..., y: int = ..., width: int = ..., height: int = ...,
    **call: Unpack[_Call],
) -> NDArray: ...
def flip_left_right(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def flip_top_bottom(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def normalize(
    data: NDArray | None = ..., mean: _Sizes = ..., std: _Sizes = ..., **call: Unpack[_Call],
) -> NDArray: ...
def random_brightness(
    data: NDArray | None = ..., min_factor: float = ..., max_factor: float = ...,
    **call: Unpack[_Call],
) -> NDArray: ...
def random_color_jitter(
    data: NDArray | None = ..., brightness: float = ..., contrast: float = ...,
    saturation: float = ..., hue: float = ..., **call: Unpack[_Call],
) -> NDArray: ...
def random_contrast(
    data: NDArray | None = ..., min_factor: float = ..., max_factor: float = ...,
    **call: Unpack[_Call],
) -> NDArray: ...
def random_flip_left_right(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def random_flip_top_bottom(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def random_hue(
    data: NDArray | None = ..., min_factor: float = ..., max_factor: float = ...,
    **call: Unpack[_Call],
) -> NDArray: ...
def random_lighting(
    data: NDArray | None = ..., alpha_std: float = 0.05, **call: Unpack[_Call],
) -> NDArray: ...
def random_saturation(
    data: NDArray | None = ..., min_factor: float = ..., max_factor: float = ...,
    **call: Unpack[_Call],
) -> NDArray: ...
def resize(
    data: NDArray | None = ..., size: _Sizes = (), keep_ratio: bool = False, interp: int = 1,
    **call: Unpack[_Call],
) -> NDArray: ...
def to_tensor(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...

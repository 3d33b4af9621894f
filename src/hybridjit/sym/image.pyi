"""Functions of ``sym.image``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from typing_extensions import Unpack

from .symbol import Symbol

_Sizes = int | Sequence[Any]

class _Call(TypedDict, total=False):
    attr: Mapping[str, str] | None
    name: str | None

def adjust_lighting(
    data: Symbol | None = ..., alpha: _Sizes = ..., **call: Unpack[_Call],
) -> Symbol: ...
def crop(
    data: Symbol | None = ..., x: int = ..., y: int = ..., width: int = ..., height: int = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def flip_left_right(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def flip_top_bottom(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def normalize(
    data: Symbol | None = ..., mean: _Sizes = ..., std: _Sizes = ..., **call: Unpack[_Call],
) -> Symbol: ...
def random_brightness(
    data: Symbol | None = ..., min_factor: float = ..., max_factor: float = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def random_color_jitter(
    data: Symbol | None = ..., brightness: float = ..., contrast: float = ...,
    saturation: float = ..., hue: float = ..., **call: Unpack[_Call],
) -> Symbol: ...
def random_contrast(
    data: Symbol | None = ..., min_factor: float = ..., max_factor: float = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def random_flip_left_right(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def random_flip_top_bottom(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def random_hue(
    data: Symbol | None = ..., min_factor: float = ..., max_factor: float = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def random_lighting(
    data: Symbol | None = ..., alpha_std: float = 0.05, **call: Unpack[_Call],
) -> Symbol: ...
def random_saturation(
    data: Symbol | None = ..., min_factor: float = ..., max_factor: float = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def resize(
    data: Symbol | None = ..., size: _Sizes = (), keep_ratio: bool = False, interp: int = 1,
    **call: Unpack[_Call],
) -> Symbol: ...
def to_tensor(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...

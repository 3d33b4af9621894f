"""Functions of ``sym.image``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any

from .symbol import Symbol

_Sizes = int | Sequence[Any]

def crop(
    data: Symbol | None = ...,
    x: int = ...,
    y: int = ...,
    width: int = ...,
    height: int = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> Symbol: ...
def flip_left_right(data: Symbol | None = ..., name: str | None = ..., **kwargs: Any) -> Symbol: ...
def flip_top_bottom(data: Symbol | None = ..., name: str | None = ..., **kwargs: Any) -> Symbol: ...
def normalize(
    data: Symbol | None = ...,
    mean: _Sizes = ...,
    std: _Sizes = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> Symbol: ...
def resize(
    data: Symbol | None = ...,
    size: _Sizes = (),
    keep_ratio: bool = False,
    interp: int = 1,
    name: str | None = ...,
    **kwargs: Any,
) -> Symbol: ...
def to_tensor(data: Symbol | None = ..., name: str | None = ..., **kwargs: Any) -> Symbol: ...

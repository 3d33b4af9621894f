"""Functions of ``nd.image``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any

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

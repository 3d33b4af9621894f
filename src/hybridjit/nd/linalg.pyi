"""Functions of ``nd.linalg``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any

from .ndarray import NDArray

_Sizes = int | Sequence[Any]

def det(A: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any) -> Any: ...
def extractdiag(
    A: NDArray | None = ..., offset: int = 0, out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def extracttrian(
    A: NDArray | None = ...,
    offset: int = 0,
    lower: bool = True,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def gelqf(
    A: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> Any: ...
def gemm(
    A: NDArray | None = ...,
    B: NDArray | None = ...,
    C: NDArray | None = ...,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 1.0,
    axis: int = -2,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def gemm2(
    A: NDArray | None = ...,
    B: NDArray | None = ...,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    axis: int = -2,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def inverse(
    A: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def makediag(
    A: NDArray | None = ..., offset: int = 0, out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def maketrian(
    A: NDArray | None = ...,
    offset: int = 0,
    lower: bool = True,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def potrf(
    A: NDArray | None = ...,
    lower: bool = True,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def potri(
    A: NDArray | None = ...,
    lower: bool = True,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def slogdet(
    A: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> Any: ...
def sumlogdiag(
    A: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def syevd(
    A: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> Any: ...
def syrk(
    A: NDArray | None = ...,
    transpose: bool = False,
    alpha: float = 1.0,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def trmm(
    A: NDArray | None = ...,
    B: NDArray | None = ...,
    transpose: bool = False,
    rightside: bool = False,
    lower: bool = True,
    alpha: float = 1.0,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def trsm(
    A: NDArray | None = ...,
    B: NDArray | None = ...,
    transpose: bool = False,
    rightside: bool = False,
    lower: bool = True,
    alpha: float = 1.0,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...

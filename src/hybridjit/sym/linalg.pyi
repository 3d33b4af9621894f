"""Functions of ``sym.linalg``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any

from .symbol import Symbol

_Sizes = int | Sequence[Any]

def det(A: Symbol | None = ..., name: str | None = ..., **kwargs: Any) -> Symbol: ...
def extractdiag(
    A: Symbol | None = ..., offset: int = 0, name: str | None = ..., **kwargs: Any
) -> Symbol: ...
def extracttrian(
    A: Symbol | None = ...,
    offset: int = 0,
    lower: bool = True,
    name: str | None = ...,
    **kwargs: Any,
) -> Symbol: ...
def gelqf(A: Symbol | None = ..., name: str | None = ..., **kwargs: Any) -> Symbol: ...
def gemm(
    A: Symbol | None = ...,
    B: Symbol | None = ...,
    C: Symbol | None = ...,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 1.0,
    axis: int = -2,
    name: str | None = ...,
    **kwargs: Any,
) -> Symbol: ...
def gemm2(
    A: Symbol | None = ...,
    B: Symbol | None = ...,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    axis: int = -2,
    name: str | None = ...,
    **kwargs: Any,
) -> Symbol: ...
def inverse(A: Symbol | None = ..., name: str | None = ..., **kwargs: Any) -> Symbol: ...
def makediag(
    A: Symbol | None = ..., offset: int = 0, name: str | None = ..., **kwargs: Any
) -> Symbol: ...
def maketrian(
    A: Symbol | None = ...,
    offset: int = 0,
    lower: bool = True,
    name: str | None = ...,
    **kwargs: Any,
) -> Symbol: ...
def potrf(
    A: Symbol | None = ..., lower: bool = True, name: str | None = ..., **kwargs: Any
) -> Symbol: ...
def potri(
    A: Symbol | None = ..., lower: bool = True, name: str | None = ..., **kwargs: Any
) -> Symbol: ...
def slogdet(A: Symbol | None = ..., name: str | None = ..., **kwargs: Any) -> Symbol: ...
def sumlogdiag(A: Symbol | None = ..., name: str | None = ..., **kwargs: Any) -> Symbol: ...
def syevd(A: Symbol | None = ..., name: str | None = ..., **kwargs: Any) -> Symbol: ...
def syrk(
    A: Symbol | None = ...,
    transpose: bool = False,
    alpha: float = 1.0,
    name: str | None = ...,
    **kwargs: Any,
) -> Symbol: ...
def trmm(
    A: Symbol | None = ...,
    B: Symbol | None = ...,
    transpose: bool = False,
    rightside: bool = False,
    lower: bool = True,
    alpha: float = 1.0,
    name: str | None = ...,
    **kwargs: Any,
) -> Symbol: ...
def trsm(
    A: Symbol | None = ...,
    B: Symbol | None = ...,
    transpose: bool = False,
    rightside: bool = False,
    lower: bool = True,
    alpha: float = 1.0,
    name: str | None = ...,
    **kwargs: Any,
) -> Symbol: ...

"""Functions of ``nd.sparse``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any

from .ndarray import NDArray

_Sizes = int | Sequence[Any]

def ElementWiseSum(
    *data: NDArray, num_args: int = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def Embedding(
    data: NDArray | None = ...,
    weight: NDArray | None = ...,
    input_dim: int = ...,
    output_dim: int = ...,
    dtype: Any = ...,
    sparse_grad: bool = False,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def FullyConnected(
    data: NDArray | None = ...,
    weight: NDArray | None = ...,
    bias: NDArray | None = ...,
    num_hidden: int = ...,
    no_bias: bool = False,
    flatten: bool = True,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def LinearRegressionOutput(
    data: NDArray | None = ...,
    label: NDArray | None = ...,
    grad_scale: float = 1.0,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def LogisticRegressionOutput(
    data: NDArray | None = ...,
    label: NDArray | None = ...,
    grad_scale: float = 1.0,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def MAERegressionOutput(
    data: NDArray | None = ...,
    label: NDArray | None = ...,
    grad_scale: float = 1.0,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def _contrib_round_ste(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def _contrib_sign_ste(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def abs(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def add_n(
    *data: NDArray, num_args: int = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def arccos(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def arccosh(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def arcsin(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def arcsinh(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def arctan(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def arctanh(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def broadcast_add(
    lhs: NDArray | None = ...,
    rhs: NDArray | None = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def broadcast_div(
    lhs: NDArray | None = ...,
    rhs: NDArray | None = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def broadcast_minus(
    lhs: NDArray | None = ...,
    rhs: NDArray | None = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def broadcast_mul(
    lhs: NDArray | None = ...,
    rhs: NDArray | None = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def broadcast_plus(
    lhs: NDArray | None = ...,
    rhs: NDArray | None = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def broadcast_sub(
    lhs: NDArray | None = ...,
    rhs: NDArray | None = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def cbrt(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def ceil(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def clip(
    data: NDArray | None = ...,
    a_min: float = ...,
    a_max: float = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def concat(
    *data: NDArray,
    num_args: int = ...,
    dim: int = 1,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def cos(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def cosh(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def degrees(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def dot(
    lhs: NDArray | None = ...,
    rhs: NDArray | None = ...,
    transpose_a: bool = False,
    transpose_b: bool = False,
    forward_stype: str = "None",
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def elemwise_add(
    lhs: NDArray | None = ...,
    rhs: NDArray | None = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def elemwise_div(
    lhs: NDArray | None = ...,
    rhs: NDArray | None = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def elemwise_mul(
    lhs: NDArray | None = ...,
    rhs: NDArray | None = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def elemwise_sub(
    lhs: NDArray | None = ...,
    rhs: NDArray | None = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def exp(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def expm1(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def fix(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def floor(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def gamma(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def gammaln(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def log(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def log10(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def log1p(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def log2(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def make_loss(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> Any: ...
def mean(
    data: NDArray | None = ...,
    axis: _Sizes | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def negative(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def norm(
    data: NDArray | None = ...,
    ord: int = 2,
    axis: _Sizes | None = None,
    out_dtype: Any = None,
    keepdims: bool = False,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def radians(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def relu(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def rint(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def round(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def rsqrt(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def sigmoid(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def sign(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def sin(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def sinh(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def slice(
    data: NDArray | None = ...,
    begin: _Sizes = ...,
    end: _Sizes = ...,
    step: _Sizes = (),
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def sqrt(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def square(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def stop_gradient(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def sum(
    data: NDArray | None = ...,
    axis: _Sizes | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def tan(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def tanh(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def trunc(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...
def where(
    condition: NDArray | None = ...,
    x: NDArray | None = ...,
    y: NDArray | None = ...,
    out: Any = ...,
    name: str | None = ...,
    **kwargs: Any,
) -> NDArray: ...
def zeros_like(
    data: NDArray | None = ..., out: Any = ..., name: str | None = ..., **kwargs: Any
) -> NDArray: ...

"""Functions of ``nd.sparse``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any, TypedDict

from typing_extensions import Unpack

import hybridjit.nd as _whole

from .ndarray import NDArray
from .sparse_arrays import BaseSparseNDArray as BaseSparseNDArray
from .sparse_arrays import CSRNDArray as CSRNDArray
from .sparse_arrays import RowSparseNDArray as RowSparseNDArray
from .sparse_arrays import add as add
from .sparse_arrays import array as array
from .sparse_arrays import csr_matrix as csr_matrix
from .sparse_arrays import divide as divide
from .sparse_arrays import empty as empty
from .sparse_arrays import multiply as multiply
from .sparse_arrays import row_sparse_array as row_sparse_array
from .sparse_arrays import subtract as subtract
from .sparse_arrays import zeros as zeros

_Sizes = int | Sequence[Any]

class _Call(TypedDict, total=False):
    ctx: Any
    out: Any
    name: str | None

def _contrib_round_ste(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def _contrib_sign_ste(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def adagrad_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., history: NDArray | None = ...,
    lr: float = ..., epsilon: float = 1e-07, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> NDArray: ...
def retain(
    data: NDArray | None = ..., indices: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...

ElementWiseSum = _whole.add_n
Embedding = _whole.Embedding
FullyConnected = _whole.FullyConnected
LinearRegressionOutput = _whole.LinearRegressionOutput
LogisticRegressionOutput = _whole.LogisticRegressionOutput
MAERegressionOutput = _whole.MAERegressionOutput
abs = _whole.abs
adam_update = _whole.adam_update
add_n = _whole.add_n
arccos = _whole.arccos
arccosh = _whole.arccosh
arcsin = _whole.arcsin
arcsinh = _whole.arcsinh
arctan = _whole.arctan
arctanh = _whole.arctanh
broadcast_add = _whole.broadcast_add
broadcast_div = _whole.broadcast_div
broadcast_minus = _whole.broadcast_sub
broadcast_mul = _whole.broadcast_mul
broadcast_plus = _whole.broadcast_add
broadcast_sub = _whole.broadcast_sub
cast_storage = _whole.cast_storage
cbrt = _whole.cbrt
ceil = _whole.ceil
clip = _whole.clip
concat = _whole.Concat
cos = _whole.cos
cosh = _whole.cosh
degrees = _whole.degrees
dot = _whole.dot
elemwise_add = _whole.elemwise_add
elemwise_div = _whole.elemwise_div
elemwise_mul = _whole.elemwise_mul
elemwise_sub = _whole.elemwise_sub
exp = _whole.exp
expm1 = _whole.expm1
fix = _whole.fix
floor = _whole.floor
ftrl_update = _whole.ftrl_update
gamma = _whole.gamma
gammaln = _whole.gammaln
log = _whole.log
log10 = _whole.log10
log1p = _whole.log1p
log2 = _whole.log2
make_loss = _whole.make_loss
mean = _whole.mean
negative = _whole.negative
norm = _whole.norm
radians = _whole.radians
relu = _whole.relu
rint = _whole.rint
round = _whole.round
rsqrt = _whole.rsqrt
sgd_mom_update = _whole.sgd_mom_update
sgd_update = _whole.sgd_update
sigmoid = _whole.sigmoid
sign = _whole.sign
sin = _whole.sin
sinh = _whole.sinh
slice = _whole.slice
sqrt = _whole.sqrt
square = _whole.square
stop_gradient = _whole.BlockGrad
sum = _whole.sum
tan = _whole.tan
tanh = _whole.tanh
trunc = _whole.trunc
where = _whole.where
zeros_like = _whole.zeros_like

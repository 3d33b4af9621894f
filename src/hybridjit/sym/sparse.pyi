"""Functions of ``sym.sparse``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from typing_extensions import Unpack

import hybridjit.sym as _whole

from .symbol import Symbol

_Sizes = int | Sequence[Any]

class _Call(TypedDict, total=False):
    attr: Mapping[str, str] | None
    name: str | None

def _contrib_round_ste(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def _contrib_sign_ste(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def adagrad_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., history: Symbol | None = ...,
    lr: float = ..., epsilon: float = 1e-07, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> Symbol: ...
def retain(
    data: Symbol | None = ..., indices: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...

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

"""Functions of the ``sym`` namespace. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from typing_extensions import Unpack

from . import contrib as contrib
from . import image as image
from . import linalg as linalg
from . import op as op
from . import random as random
from . import sparse as sparse
from .creation import Group as Group
from .creation import Variable as Variable
from .creation import arange as arange
from .creation import eye as eye
from .creation import full as full
from .creation import histogram as histogram
from .creation import linspace as linspace
from .creation import load as load
from .creation import load_json as load_json
from .creation import ones as ones
from .creation import var as var
from .creation import zeros as zeros
from .custom import Custom as Custom
from .symbol import Symbol as Symbol
from .symbol import hypot as hypot
from .symbol import maximum as maximum
from .symbol import minimum as minimum
from .symbol import power as power
from .symbol import split_v2 as split_v2

_Sizes = int | Sequence[Any]

class _Call(TypedDict, total=False):
    attr: Mapping[str, str] | None
    name: str | None

pow = power

def Activation(data: Symbol | None = ..., act_type: str = ..., **call: Unpack[_Call]) -> Symbol: ...
def BatchNorm(
    data: Symbol | None = ..., gamma: Symbol | None = ..., beta: Symbol | None = ...,
    moving_mean: Symbol | None = ..., moving_var: Symbol | None = ..., eps: float = 0.001,
    momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False,
    output_mean_var: bool = False, axis: int = 1, min_calib_range: float | None = None,
    max_calib_range: float | None = None, workspace: Any = ..., cudnn_tune: Any = ...,
    cudnn_off: Any = ..., **call: Unpack[_Call],
) -> Symbol: ...
def BatchNorm_v1(
    data: Symbol | None = ..., gamma: Symbol | None = ..., beta: Symbol | None = ...,
    moving_mean: Symbol | None = ..., moving_var: Symbol | None = ..., eps: float = 0.001,
    momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False,
    output_mean_var: bool = False, workspace: Any = ..., cudnn_tune: Any = ...,
    cudnn_off: Any = ..., **call: Unpack[_Call],
) -> Symbol: ...
def BilinearSampler(
    data: Symbol | None = ..., grid: Symbol | None = ..., workspace: Any = ...,
    cudnn_tune: Any = ..., cudnn_off: Any = ..., **call: Unpack[_Call],
) -> Symbol: ...
def BlockGrad(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def CTCLoss(
    data: Symbol | None = ..., label: Symbol | None = ..., data_lengths: Symbol | None = ...,
    label_lengths: Symbol | None = ..., use_data_lengths: bool = False,
    use_label_lengths: bool = False, blank_label: str = "first", **call: Unpack[_Call],
) -> Symbol: ...
def Cast(data: Symbol | None = ..., dtype: Any = ..., **call: Unpack[_Call]) -> Symbol: ...
def Concat(*data: Symbol, num_args: int = ..., dim: int = 1, **call: Unpack[_Call]) -> Symbol: ...
def Convolution(
    data: Symbol | None = ..., weight: Symbol | None = ..., bias: Symbol | None = ...,
    kernel: _Sizes = ..., stride: _Sizes = (), dilate: _Sizes = (), pad: _Sizes = (),
    num_filter: int = ..., num_group: int = 1, no_bias: bool = False, layout: str | None = None,
    workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ..., **call: Unpack[_Call],
) -> Symbol: ...
def Convolution_v1(
    data: Symbol | None = ..., weight: Symbol | None = ..., bias: Symbol | None = ...,
    kernel: _Sizes = ..., stride: _Sizes = (), dilate: _Sizes = (), pad: _Sizes = (),
    num_filter: int = ..., num_group: int = 1, no_bias: bool = False, layout: str | None = None,
    workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ..., **call: Unpack[_Call],
) -> Symbol: ...
def Correlation(
    data1: Symbol | None = ..., data2: Symbol | None = ..., kernel_size: int = 1,
    max_displacement: int = 1, stride1: int = 1, stride2: int = 1, pad_size: int = 0,
    is_multiply: bool = True, **call: Unpack[_Call],
) -> Symbol: ...
def Crop(
    *data: Symbol, num_args: int = ..., offset: _Sizes = ..., h_w: _Sizes = ...,
    center_crop: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def Deconvolution(
    data: Symbol | None = ..., weight: Symbol | None = ..., bias: Symbol | None = ...,
    kernel: _Sizes = ..., stride: _Sizes = (), dilate: _Sizes = (), pad: _Sizes = (),
    adj: _Sizes = (), target_shape: _Sizes = (), num_filter: int = ..., num_group: int = 1,
    no_bias: bool = True, layout: str | None = None, workspace: Any = ..., cudnn_tune: Any = ...,
    cudnn_off: Any = ..., **call: Unpack[_Call],
) -> Symbol: ...
def Dropout(
    data: Symbol | None = ..., p: float = 0.5, mode: str = "training", axes: _Sizes = (),
    workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ..., **call: Unpack[_Call],
) -> Symbol: ...
def Embedding(
    data: Symbol | None = ..., weight: Symbol | None = ..., input_dim: int = ...,
    output_dim: int = ..., dtype: Any = ..., sparse_grad: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def Flatten(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def FullyConnected(
    data: Symbol | None = ..., weight: Symbol | None = ..., bias: Symbol | None = ...,
    num_hidden: int = ..., no_bias: bool = False, flatten: bool = True, **call: Unpack[_Call],
) -> Symbol: ...
def GridGenerator(
    data: Symbol | None = ..., transform_type: str = ..., target_shape: _Sizes = ...,
    workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ..., **call: Unpack[_Call],
) -> Symbol: ...
def GroupNorm(
    data: Symbol | None = ..., gamma: Symbol | None = ..., beta: Symbol | None = ...,
    num_groups: int = 1, eps: float = 1e-05, output_mean_var: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def IdentityAttachKLSparseReg(
    data: Symbol | None = ..., moving_avg: Symbol | None = ..., sparseness_target: float = 0.1,
    penalty: float = 0.001, momentum: float = 0.9, **call: Unpack[_Call],
) -> Symbol: ...
def InstanceNorm(
    data: Symbol | None = ..., gamma: Symbol | None = ..., beta: Symbol | None = ...,
    eps: float = 0.001, **call: Unpack[_Call],
) -> Symbol: ...
def L2Normalization(
    data: Symbol | None = ..., eps: float = 1e-10, mode: str = "instance", **call: Unpack[_Call],
) -> Symbol: ...
def LRN(
    data: Symbol | None = ..., alpha: float = 0.0001, beta: float = 0.75, knorm: float = 2.0,
    nsize: int = ..., **call: Unpack[_Call],
) -> Symbol: ...
def LayerNorm(
    data: Symbol | None = ..., gamma: Symbol | None = ..., beta: Symbol | None = ...,
    axis: int = -1, eps: float = 1e-05, output_mean_var: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def LeakyReLU(
    data: Symbol | None = ..., gamma: Symbol | None = ..., act_type: str = "leaky",
    slope: float = 0.25, lower_bound: float = 0.125, upper_bound: float = 0.334,
    **call: Unpack[_Call],
) -> Symbol: ...
def LinearRegressionOutput(
    data: Symbol | None = ..., label: Symbol | None = ..., grad_scale: float = 1.0,
    **call: Unpack[_Call],
) -> Symbol: ...
def LogisticRegressionOutput(
    data: Symbol | None = ..., label: Symbol | None = ..., grad_scale: float = 1.0,
    **call: Unpack[_Call],
) -> Symbol: ...
def MAERegressionOutput(
    data: Symbol | None = ..., label: Symbol | None = ..., grad_scale: float = 1.0,
    **call: Unpack[_Call],
) -> Symbol: ...
def MakeLoss(
    data: Symbol | None = ..., grad_scale: float = 1.0, valid_thresh: float = 0.0,
    normalization: str = "null", **call: Unpack[_Call],
) -> Symbol: ...
def Pad(
    data: Symbol | None = ..., mode: str = ..., pad_width: _Sizes = ...,
    constant_value: float = 0.0, **call: Unpack[_Call],
) -> Symbol: ...
def Pooling(
    data: Symbol | None = ..., kernel: _Sizes = (), pool_type: str = "max",
    global_pool: bool = False, pooling_convention: str = "valid", stride: _Sizes = (),
    pad: _Sizes = (), p_value: int | None = None, count_include_pad: bool | None = None,
    layout: str | None = None, workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def Pooling_v1(
    data: Symbol | None = ..., kernel: _Sizes = (), pool_type: str = "max",
    global_pool: bool = False, pooling_convention: str = "valid", stride: _Sizes = (),
    pad: _Sizes = (), workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def RNN(
    data: Symbol | None = ..., parameters: Symbol | None = ..., state: Symbol | None = ...,
    state_cell: Symbol | None = ..., sequence_length: Symbol | None = ..., state_size: int = ...,
    num_layers: int = ..., bidirectional: bool = False, mode: str = ..., p: float = 0.0,
    state_outputs: bool = False, projection_size: int | None = None,
    lstm_state_clip_min: float | None = None, lstm_state_clip_max: float | None = None,
    lstm_state_clip_nan: bool = False, use_sequence_length: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def ROIPooling(
    data: Symbol | None = ..., rois: Symbol | None = ..., pooled_size: _Sizes = ...,
    spatial_scale: float = ..., **call: Unpack[_Call],
) -> Symbol: ...
def Reshape(
    data: Symbol | None = ..., shape: _Sizes = (), reverse: bool = False, target_shape: _Sizes = (),
    keep_highest: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def SVMOutput(
    data: Symbol | None = ..., label: Symbol | None = ..., margin: float = 1.0,
    regularization_coefficient: float = 1.0, use_linear: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def SequenceLast(
    data: Symbol | None = ..., sequence_length: Symbol | None = ...,
    use_sequence_length: bool = False, axis: int = 0, **call: Unpack[_Call],
) -> Symbol: ...
def SequenceMask(
    data: Symbol | None = ..., sequence_length: Symbol | None = ...,
    use_sequence_length: bool = False, value: float = 0.0, axis: int = 0, **call: Unpack[_Call],
) -> Symbol: ...
def SequenceReverse(
    data: Symbol | None = ..., sequence_length: Symbol | None = ...,
    use_sequence_length: bool = False, axis: int = 0, **call: Unpack[_Call],
) -> Symbol: ...
def SliceChannel(
    data: Symbol | None = ..., num_outputs: int = ..., axis: int = 1, squeeze_axis: bool = False,
    **call: Unpack[_Call],
) -> Symbol: ...
def SoftmaxActivation(
    data: Symbol | None = ..., mode: str = "instance", **call: Unpack[_Call],
) -> Symbol: ...
def SoftmaxOutput(
    data: Symbol | None = ..., label: Symbol | None = ..., grad_scale: float = 1.0,
    ignore_label: float = -1.0, multi_output: bool = False, use_ignore: bool = False,
    preserve_shape: bool = False, normalization: str = "null", out_grad: bool = False,
    smooth_alpha: float = 0.0, **call: Unpack[_Call],
) -> Symbol: ...
def SpatialTransformer(
    data: Symbol | None = ..., loc: Symbol | None = ..., target_shape: _Sizes = ...,
    transform_type: str = ..., sampler_type: str = ..., workspace: Any = ..., cudnn_tune: Any = ...,
    cudnn_off: Any = ..., **call: Unpack[_Call],
) -> Symbol: ...
def SwapAxis(
    data: Symbol | None = ..., dim1: int = 0, dim2: int = 0, **call: Unpack[_Call],
) -> Symbol: ...
def UpSampling(
    *data: Symbol, scale: int = ..., num_filter: int = 0, sample_type: str = ...,
    multi_input_mode: str = "concat", num_args: int = ..., **call: Unpack[_Call],
) -> Symbol: ...
def abs(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def adam_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., mean: Symbol | None = ...,
    var: Symbol | None = ..., lr: float = ..., beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-08, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    lazy_update: bool = True, **call: Unpack[_Call],
) -> Symbol: ...
def add_n(*data: Symbol, num_args: int = ..., **call: Unpack[_Call]) -> Symbol: ...
def all_finite(
    data: Symbol | None = ..., init_output: bool = True, **call: Unpack[_Call],
) -> Symbol: ...
def amp_cast(data: Symbol | None = ..., dtype: Any = ..., **call: Unpack[_Call]) -> Symbol: ...
def amp_multicast(
    *data: Symbol, num_outputs: int = ..., cast_narrow: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def arccos(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def arccosh(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def arcsin(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def arcsinh(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def arctan(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def arctanh(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def argmax(
    data: Symbol | None = ..., axis: int | None = None, keepdims: bool = False,
    **call: Unpack[_Call],
) -> Symbol: ...
def argmax_channel(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def argmin(
    data: Symbol | None = ..., axis: int | None = None, keepdims: bool = False,
    **call: Unpack[_Call],
) -> Symbol: ...
def argsort(
    data: Symbol | None = ..., axis: int | None = -1, is_ascend: bool = True, dtype: Any = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def batch_dot(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., transpose_a: bool = False,
    transpose_b: bool = False, forward_stype: str = "None", **call: Unpack[_Call],
) -> Symbol: ...
def batch_take(
    a: Symbol | None = ..., indices: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_add(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_axis(
    data: Symbol | None = ..., axis: _Sizes = (), size: _Sizes = (), **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_div(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_equal(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_greater(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_greater_equal(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_hypot(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_lesser(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_lesser_equal(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_like(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., lhs_axes: _Sizes | None = None,
    rhs_axes: _Sizes | None = None, **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_logical_and(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_logical_or(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_logical_xor(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_maximum(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_minimum(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_mod(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_mul(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_not_equal(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_power(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_sub(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def broadcast_to(
    data: Symbol | None = ..., shape: _Sizes = (), **call: Unpack[_Call],
) -> Symbol: ...
def cast_storage(data: Symbol | None = ..., stype: str = ..., **call: Unpack[_Call]) -> Symbol: ...
def cbrt(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def ceil(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def clip(
    data: Symbol | None = ..., a_min: float = ..., a_max: float = ..., **call: Unpack[_Call],
) -> Symbol: ...
def col2im(
    data: Symbol | None = ..., output_size: _Sizes = ..., kernel: _Sizes = ..., stride: _Sizes = (),
    dilate: _Sizes = (), pad: _Sizes = (), **call: Unpack[_Call],
) -> Symbol: ...
def cos(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def cosh(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def cumsum(
    a: Symbol | None = ..., axis: int | None = None, dtype: Any = None, **call: Unpack[_Call],
) -> Symbol: ...
def degrees(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def depth_to_space(
    data: Symbol | None = ..., block_size: int = ..., **call: Unpack[_Call],
) -> Symbol: ...
def diag(
    data: Symbol | None = ..., k: int = 0, axis1: int = 0, axis2: int = 1, **call: Unpack[_Call],
) -> Symbol: ...
def dot(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., transpose_a: bool = False,
    transpose_b: bool = False, forward_stype: str = "None", **call: Unpack[_Call],
) -> Symbol: ...
def elemwise_add(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def elemwise_div(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def elemwise_mul(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def elemwise_sub(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def erf(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def erfinv(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def exp(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def expand_dims(data: Symbol | None = ..., axis: int = ..., **call: Unpack[_Call]) -> Symbol: ...
def expm1(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def fill_element_0index(
    lhs: Symbol | None = ..., mhs: Symbol | None = ..., rhs: Symbol | None = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def fix(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def floor(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def ftml_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., d: Symbol | None = ...,
    v: Symbol | None = ..., z: Symbol | None = ..., lr: float = ..., beta1: float = 0.6,
    beta2: float = 0.999, epsilon: float = 1e-08, t: int = ..., wd: float = 0.0,
    rescale_grad: float = 1.0, clip_grad: float = -1.0, **call: Unpack[_Call],
) -> Symbol: ...
def ftrl_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., z: Symbol | None = ...,
    n: Symbol | None = ..., lr: float = ..., lamda1: float = 0.01, beta: float = 1.0,
    wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> Symbol: ...
def gamma(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def gammaln(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def gather_nd(
    data: Symbol | None = ..., indices: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def hard_sigmoid(
    data: Symbol | None = ..., alpha: float = 0.2, beta: float = 0.5, **call: Unpack[_Call],
) -> Symbol: ...
def identity(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def im2col(
    data: Symbol | None = ..., kernel: _Sizes = ..., stride: _Sizes = (), dilate: _Sizes = (),
    pad: _Sizes = (), **call: Unpack[_Call],
) -> Symbol: ...
def khatri_rao(*data: Symbol, num_args: int = ..., **call: Unpack[_Call]) -> Symbol: ...
def lamb_update_phase1(
    weight: Symbol | None = ..., grad: Symbol | None = ..., mean: Symbol | None = ...,
    var: Symbol | None = ..., beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-06,
    t: int = ..., bias_correction: bool = True, wd: float = ..., rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> Symbol: ...
def lamb_update_phase2(
    weight: Symbol | None = ..., g: Symbol | None = ..., r1: Symbol | None = ...,
    r2: Symbol | None = ..., lr: float = ..., lower_bound: float = -1.0, upper_bound: float = -1.0,
    **call: Unpack[_Call],
) -> Symbol: ...
def linalg_det(A: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def linalg_extractdiag(
    A: Symbol | None = ..., offset: int = 0, **call: Unpack[_Call],
) -> Symbol: ...
def linalg_extracttrian(
    A: Symbol | None = ..., offset: int = 0, lower: bool = True, **call: Unpack[_Call],
) -> Symbol: ...
def linalg_gelqf(A: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def linalg_gemm(
    A: Symbol | None = ..., B: Symbol | None = ..., C: Symbol | None = ...,
    transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0, beta: float = 1.0,
    axis: int = -2, **call: Unpack[_Call],
) -> Symbol: ...
def linalg_gemm2(
    A: Symbol | None = ..., B: Symbol | None = ..., transpose_a: bool = False,
    transpose_b: bool = False, alpha: float = 1.0, axis: int = -2, **call: Unpack[_Call],
) -> Symbol: ...
def linalg_inverse(A: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def linalg_makediag(A: Symbol | None = ..., offset: int = 0, **call: Unpack[_Call]) -> Symbol: ...
def linalg_maketrian(
    A: Symbol | None = ..., offset: int = 0, lower: bool = True, **call: Unpack[_Call],
) -> Symbol: ...
def linalg_potrf(A: Symbol | None = ..., lower: bool = True, **call: Unpack[_Call]) -> Symbol: ...
def linalg_potri(A: Symbol | None = ..., lower: bool = True, **call: Unpack[_Call]) -> Symbol: ...
def linalg_slogdet(A: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def linalg_sumlogdiag(A: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def linalg_syevd(A: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def linalg_syrk(
    A: Symbol | None = ..., transpose: bool = False, alpha: float = 1.0, **call: Unpack[_Call],
) -> Symbol: ...
def linalg_trmm(
    A: Symbol | None = ..., B: Symbol | None = ..., transpose: bool = False,
    rightside: bool = False, lower: bool = True, alpha: float = 1.0, **call: Unpack[_Call],
) -> Symbol: ...
def linalg_trsm(
    A: Symbol | None = ..., B: Symbol | None = ..., transpose: bool = False,
    rightside: bool = False, lower: bool = True, alpha: float = 1.0, **call: Unpack[_Call],
) -> Symbol: ...
def log(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def log10(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def log1p(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def log2(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def log_softmax(
    data: Symbol | None = ..., axis: int = -1, temperature: float | None = None, dtype: Any = None,
    use_length: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def logical_not(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def make_loss(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def max(
    data: Symbol | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def mean(
    data: Symbol | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def min(
    data: Symbol | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def moments(
    data: Symbol | None = ..., axes: _Sizes | None = None, keepdims: bool = False,
    **call: Unpack[_Call],
) -> Symbol: ...
def mp_lamb_update_phase1(
    weight: Symbol | None = ..., grad: Symbol | None = ..., mean: Symbol | None = ...,
    var: Symbol | None = ..., weight32: Symbol | None = ..., beta1: float = 0.9,
    beta2: float = 0.999, epsilon: float = 1e-06, t: int = ..., bias_correction: bool = True,
    wd: float = ..., rescale_grad: float = 1.0, clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> Symbol: ...
def mp_lamb_update_phase2(
    weight: Symbol | None = ..., g: Symbol | None = ..., r1: Symbol | None = ...,
    r2: Symbol | None = ..., weight32: Symbol | None = ..., lr: float = ...,
    lower_bound: float = -1.0, upper_bound: float = -1.0, **call: Unpack[_Call],
) -> Symbol: ...
def mp_nag_mom_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., mom: Symbol | None = ...,
    weight32: Symbol | None = ..., lr: float = ..., momentum: float = 0.0, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> Symbol: ...
def mp_sgd_mom_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., mom: Symbol | None = ...,
    weight32: Symbol | None = ..., lr: float = ..., momentum: float = 0.0, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True,
    **call: Unpack[_Call],
) -> Symbol: ...
def mp_sgd_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., weight32: Symbol | None = ...,
    lr: float = ..., wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    lazy_update: bool = True, **call: Unpack[_Call],
) -> Symbol: ...
def multi_all_finite(
    *data: Symbol, num_arrays: int = 1, init_output: bool = True, **call: Unpack[_Call],
) -> Symbol: ...
def multi_lars(
    lrs: Symbol | None = ..., weights_sum_sq: Symbol | None = ...,
    grads_sum_sq: Symbol | None = ..., wds: Symbol | None = ..., eta: float = ..., eps: float = ...,
    rescale_grad: float = 1.0, **call: Unpack[_Call],
) -> Symbol: ...
def multi_mp_sgd_mom_update(
    *data: Symbol, lrs: _Sizes = ..., wds: _Sizes = ..., momentum: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1,
    **call: Unpack[_Call],
) -> Symbol: ...
def multi_mp_sgd_update(
    *data: Symbol, lrs: _Sizes = ..., wds: _Sizes = ..., rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, num_weights: int = 1, **call: Unpack[_Call],
) -> Symbol: ...
def multi_sgd_mom_update(
    *data: Symbol, lrs: _Sizes = ..., wds: _Sizes = ..., momentum: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1,
    **call: Unpack[_Call],
) -> Symbol: ...
def multi_sgd_update(
    *data: Symbol, lrs: _Sizes = ..., wds: _Sizes = ..., rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, num_weights: int = 1, **call: Unpack[_Call],
) -> Symbol: ...
def multi_sum_sq(*data: Symbol, num_arrays: int = ..., **call: Unpack[_Call]) -> Symbol: ...
def nag_mom_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., mom: Symbol | None = ...,
    lr: float = ..., momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> Symbol: ...
def nanprod(
    data: Symbol | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def nansum(
    data: Symbol | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def negative(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def norm(
    data: Symbol | None = ..., ord: int = 2, axis: _Sizes | None = None, out_dtype: Any = None,
    keepdims: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def normal(
    loc: float = 0.0, scale: float = 1.0, shape: _Sizes | None = None, dtype: Any = None,
    **call: Unpack[_Call],
) -> Symbol: ...
def one_hot(
    indices: Symbol | None = ..., depth: int = ..., on_value: float = 1.0, off_value: float = 0.0,
    dtype: Any = ..., **call: Unpack[_Call],
) -> Symbol: ...
def ones_like(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def pick(
    data: Symbol | None = ..., index: Symbol | None = ..., axis: int | None = -1,
    keepdims: bool = False, mode: str = "clip", **call: Unpack[_Call],
) -> Symbol: ...
def preloaded_multi_mp_sgd_mom_update(
    *data: Symbol, momentum: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    num_weights: int = 1, **call: Unpack[_Call],
) -> Symbol: ...
def preloaded_multi_mp_sgd_update(
    *data: Symbol, rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1,
    **call: Unpack[_Call],
) -> Symbol: ...
def preloaded_multi_sgd_mom_update(
    *data: Symbol, momentum: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    num_weights: int = 1, **call: Unpack[_Call],
) -> Symbol: ...
def preloaded_multi_sgd_update(
    *data: Symbol, rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1,
    **call: Unpack[_Call],
) -> Symbol: ...
def prod(
    data: Symbol | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def radians(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def random_exponential(
    lam: float = 1.0, shape: _Sizes | None = None, dtype: Any = None, **call: Unpack[_Call],
) -> Symbol: ...
def random_gamma(
    alpha: float = 1.0, beta: float = 1.0, shape: _Sizes | None = None, dtype: Any = None,
    **call: Unpack[_Call],
) -> Symbol: ...
def random_generalized_negative_binomial(
    mu: float = 1.0, alpha: float = 1.0, shape: _Sizes | None = None, dtype: Any = None,
    **call: Unpack[_Call],
) -> Symbol: ...
def random_negative_binomial(
    k: int = 1, p: float = 1.0, shape: _Sizes | None = None, dtype: Any = None,
    **call: Unpack[_Call],
) -> Symbol: ...
def random_pdf_dirichlet(
    sample: Symbol | None = ..., alpha: Symbol | None = ..., is_log: bool = False,
    **call: Unpack[_Call],
) -> Symbol: ...
def random_pdf_exponential(
    sample: Symbol | None = ..., lam: Symbol | None = ..., is_log: bool = False,
    **call: Unpack[_Call],
) -> Symbol: ...
def random_pdf_gamma(
    sample: Symbol | None = ..., alpha: Symbol | None = ..., beta: Symbol | None = ...,
    is_log: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def random_pdf_generalized_negative_binomial(
    sample: Symbol | None = ..., mu: Symbol | None = ..., alpha: Symbol | None = ...,
    is_log: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def random_pdf_negative_binomial(
    sample: Symbol | None = ..., k: Symbol | None = ..., p: Symbol | None = ...,
    is_log: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def random_pdf_normal(
    sample: Symbol | None = ..., mu: Symbol | None = ..., sigma: Symbol | None = ...,
    is_log: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def random_pdf_poisson(
    sample: Symbol | None = ..., lam: Symbol | None = ..., is_log: bool = False,
    **call: Unpack[_Call],
) -> Symbol: ...
def random_pdf_uniform(
    sample: Symbol | None = ..., low: Symbol | None = ..., high: Symbol | None = ...,
    is_log: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def random_poisson(
    lam: float = 1.0, shape: _Sizes | None = None, dtype: Any = None, **call: Unpack[_Call],
) -> Symbol: ...
def random_randint(
    low: int = ..., high: int = ..., shape: _Sizes | None = None, dtype: Any = None,
    **call: Unpack[_Call],
) -> Symbol: ...
def random_uniform(
    low: float = 0.0, high: float = 1.0, shape: _Sizes | None = None, dtype: Any = None,
    **call: Unpack[_Call],
) -> Symbol: ...
def ravel_multi_index(
    data: Symbol | None = ..., shape: _Sizes | None = None, **call: Unpack[_Call],
) -> Symbol: ...
def rcbrt(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def reciprocal(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def relu(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def repeat(
    data: Symbol | None = ..., repeats: int = ..., axis: int | None = None, **call: Unpack[_Call],
) -> Symbol: ...
def reset_arrays(*data: Symbol, num_arrays: int = ..., **call: Unpack[_Call]) -> Symbol: ...
def reshape_like(
    lhs: Symbol | None = ..., rhs: Symbol | None = ..., lhs_begin: int | None = None,
    lhs_end: int | None = None, rhs_begin: int | None = None, rhs_end: int | None = None,
    **call: Unpack[_Call],
) -> Symbol: ...
def reverse(data: Symbol | None = ..., axis: _Sizes = ..., **call: Unpack[_Call]) -> Symbol: ...
def rint(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def rmsprop_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., n: Symbol | None = ..., lr: float = ...,
    gamma1: float = 0.95, epsilon: float = 1e-08, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, clip_weights: float = -1.0, **call: Unpack[_Call],
) -> Symbol: ...
def rmspropalex_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., n: Symbol | None = ...,
    g: Symbol | None = ..., delta: Symbol | None = ..., lr: float = ..., gamma1: float = 0.95,
    gamma2: float = 0.9, epsilon: float = 1e-08, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, clip_weights: float = -1.0, **call: Unpack[_Call],
) -> Symbol: ...
def round(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def rsqrt(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def sample_exponential(
    lam: Symbol | None = ..., shape: _Sizes = (), dtype: Any = None, **call: Unpack[_Call],
) -> Symbol: ...
def sample_gamma(
    alpha: Symbol | None = ..., beta: Symbol | None = ..., shape: _Sizes = (), dtype: Any = None,
    **call: Unpack[_Call],
) -> Symbol: ...
def sample_generalized_negative_binomial(
    mu: Symbol | None = ..., alpha: Symbol | None = ..., shape: _Sizes = (), dtype: Any = None,
    **call: Unpack[_Call],
) -> Symbol: ...
def sample_multinomial(
    data: Symbol | None = ..., shape: _Sizes = (), get_prob: bool = False, dtype: Any = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def sample_negative_binomial(
    k: Symbol | None = ..., p: Symbol | None = ..., shape: _Sizes = (), dtype: Any = None,
    **call: Unpack[_Call],
) -> Symbol: ...
def sample_normal(
    mu: Symbol | None = ..., sigma: Symbol | None = ..., shape: _Sizes = (), dtype: Any = None,
    **call: Unpack[_Call],
) -> Symbol: ...
def sample_poisson(
    lam: Symbol | None = ..., shape: _Sizes = (), dtype: Any = None, **call: Unpack[_Call],
) -> Symbol: ...
def sample_uniform(
    low: Symbol | None = ..., high: Symbol | None = ..., shape: _Sizes = (), dtype: Any = None,
    **call: Unpack[_Call],
) -> Symbol: ...
def scatter_nd(
    data: Symbol | None = ..., indices: Symbol | None = ..., shape: _Sizes = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def sgd_mom_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., mom: Symbol | None = ...,
    lr: float = ..., momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, lazy_update: bool = True, **call: Unpack[_Call],
) -> Symbol: ...
def sgd_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., lr: float = ..., wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True,
    **call: Unpack[_Call],
) -> Symbol: ...
def shape_array(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def shuffle(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def sigmoid(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def sign(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def signsgd_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., lr: float = ..., wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> Symbol: ...
def signum_update(
    weight: Symbol | None = ..., grad: Symbol | None = ..., mom: Symbol | None = ...,
    lr: float = ..., momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, wd_lh: float = 0.0, **call: Unpack[_Call],
) -> Symbol: ...
def sin(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def sinh(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def size_array(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def slice(
    data: Symbol | None = ..., begin: _Sizes = ..., end: _Sizes = ..., step: _Sizes = (),
    **call: Unpack[_Call],
) -> Symbol: ...
def slice_axis(
    data: Symbol | None = ..., axis: int = ..., begin: int = ..., end: int | None = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def slice_like(
    data: Symbol | None = ..., shape_like: Symbol | None = ..., axes: _Sizes | None = (),
    **call: Unpack[_Call],
) -> Symbol: ...
def smooth_l1(data: Symbol | None = ..., scalar: float = 1.0, **call: Unpack[_Call]) -> Symbol: ...
def softmax(
    data: Symbol | None = ..., length: Symbol | None = ..., axis: int = -1,
    temperature: float | None = None, dtype: Any = None, use_length: bool = False,
    **call: Unpack[_Call],
) -> Symbol: ...
def softmax_cross_entropy(
    data: Symbol | None = ..., label: Symbol | None = ..., **call: Unpack[_Call],
) -> Symbol: ...
def softmin(
    data: Symbol | None = ..., axis: int = -1, temperature: float | None = None, dtype: Any = None,
    use_length: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def softsign(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def sort(
    data: Symbol | None = ..., axis: int | None = -1, is_ascend: bool = True, **call: Unpack[_Call],
) -> Symbol: ...
def space_to_depth(
    data: Symbol | None = ..., block_size: int = ..., **call: Unpack[_Call],
) -> Symbol: ...
def sqrt(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def square(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def squeeze(
    data: Symbol | None = ..., axis: _Sizes | None = None, **call: Unpack[_Call],
) -> Symbol: ...
def stack(*data: Symbol, axis: int = 0, num_args: int = ..., **call: Unpack[_Call]) -> Symbol: ...
def sum(
    data: Symbol | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> Symbol: ...
def take(
    a: Symbol | None = ..., indices: Symbol | None = ..., axis: int = 0, mode: str = "clip",
    **call: Unpack[_Call],
) -> Symbol: ...
def tan(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def tanh(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def tile(data: Symbol | None = ..., reps: _Sizes = ..., **call: Unpack[_Call]) -> Symbol: ...
def topk(
    data: Symbol | None = ..., axis: int | None = -1, k: int = 1, ret_typ: str = "indices",
    is_ascend: bool = False, dtype: Any = ..., **call: Unpack[_Call],
) -> Symbol: ...
def transpose(data: Symbol | None = ..., axes: _Sizes = (), **call: Unpack[_Call]) -> Symbol: ...
def trunc(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...
def unravel_index(
    data: Symbol | None = ..., shape: _Sizes | None = None, **call: Unpack[_Call],
) -> Symbol: ...
def where(
    condition: Symbol | None = ..., x: Symbol | None = ..., y: Symbol | None = ...,
    **call: Unpack[_Call],
) -> Symbol: ...
def zeros_like(data: Symbol | None = ..., **call: Unpack[_Call]) -> Symbol: ...

ElementWiseSum = add_n
Softmax = SoftmaxOutput
broadcast_axes = broadcast_axis
broadcast_minus = broadcast_sub
broadcast_plus = broadcast_add
cast = Cast
choose_element_0index = pick
concat = Concat
crop = slice
ctc_loss = CTCLoss
flatten = Flatten
flip = reverse
max_axis = max
min_axis = min
pad = Pad
random_normal = normal
reshape = Reshape
split = SliceChannel
stop_gradient = BlockGrad
sum_axis = sum
swapaxes = SwapAxis
uniform = random_uniform

"""Functions of the ``nd`` namespace. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any, TypedDict

from typing_extensions import Unpack

from . import contrib as contrib
from . import image as image
from . import linalg as linalg
from . import op as op
from . import random as random
from . import sparse as sparse
from .creation import arange as arange
from .creation import array as array
from .creation import concatenate as concatenate
from .creation import empty as empty
from .creation import eye as eye
from .creation import from_numpy as from_numpy
from .creation import full as full
from .creation import histogram as histogram
from .creation import imdecode as imdecode
from .creation import linspace as linspace
from .creation import moveaxis as moveaxis
from .creation import onehot_encode as onehot_encode
from .creation import ones as ones
from .creation import waitall as waitall
from .creation import zeros as zeros
from .custom import Custom as Custom
from .dlpack import from_dlpack as from_dlpack
from .dlpack import to_dlpack_for_read as to_dlpack_for_read
from .dlpack import to_dlpack_for_write as to_dlpack_for_write
from .files import load as load
from .files import load_frombuffer as load_frombuffer
from .files import save as save
from .ndarray import NDArray as NDArray
from .ndarray import add as add
from .ndarray import divide as divide
from .ndarray import equal as equal
from .ndarray import greater as greater
from .ndarray import greater_equal as greater_equal
from .ndarray import invoke as invoke
from .ndarray import lesser as lesser
from .ndarray import lesser_equal as lesser_equal
from .ndarray import logical_and as logical_and
from .ndarray import logical_or as logical_or
from .ndarray import logical_xor as logical_xor
from .ndarray import maximum as maximum
from .ndarray import minimum as minimum
from .ndarray import modulo as modulo
from .ndarray import multiply as multiply
from .ndarray import not_equal as not_equal
from .ndarray import power as power
from .ndarray import split_v2 as split_v2
from .ndarray import subtract as subtract
from .ndarray import true_divide as true_divide

_Sizes = int | Sequence[Any]

class _Call(TypedDict, total=False):
    ctx: Any
    out: Any
    name: str | None

def Activation(
    data: NDArray | None = ..., act_type: str = ..., **call: Unpack[_Call],
) -> NDArray: ...
def BatchNorm(
    data: NDArray | None = ..., gamma: NDArray | None = ..., beta: NDArray | None = ...,
    moving_mean: NDArray | None = ..., moving_var: NDArray | None = ..., eps: float = 0.001,
    momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False,
    output_mean_var: bool = False, axis: int = 1, min_calib_range: float | None = None,
    max_calib_range: float | None = None, workspace: Any = ..., cudnn_tune: Any = ...,
    cudnn_off: Any = ..., **call: Unpack[_Call],
) -> Any: ...
def BatchNorm_v1(
    data: NDArray | None = ..., gamma: NDArray | None = ..., beta: NDArray | None = ...,
    moving_mean: NDArray | None = ..., moving_var: NDArray | None = ..., eps: float = 0.001,
    momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False,
    output_mean_var: bool = False, workspace: Any = ..., cudnn_tune: Any = ...,
    cudnn_off: Any = ..., **call: Unpack[_Call],
) -> Any: ...
def BilinearSampler(
    data: NDArray | None = ..., grid: NDArray | None = ..., workspace: Any = ...,
    cudnn_tune: Any = ..., cudnn_off: Any = ..., **call: Unpack[_Call],
) -> NDArray: ...
def BlockGrad(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def CTCLoss(
    data: NDArray | None = ..., label: NDArray | None = ..., data_lengths: NDArray | None = ...,
    label_lengths: NDArray | None = ..., use_data_lengths: bool = False,
    use_label_lengths: bool = False, blank_label: str = "first", **call: Unpack[_Call],
) -> Any: ...
def Cast(data: NDArray | None = ..., dtype: Any = ..., **call: Unpack[_Call]) -> NDArray: ...
def Concat(*data: NDArray, num_args: int = ..., dim: int = 1, **call: Unpack[_Call]) -> NDArray: ...
def Convolution(
    data: NDArray | None = ..., weight: NDArray | None = ..., bias: NDArray | None = ...,
    kernel: _Sizes = ..., stride: _Sizes = (), dilate: _Sizes = (), pad: _Sizes = (),
    num_filter: int = ..., num_group: int = 1, no_bias: bool = False, layout: str | None = None,
    workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ..., **call: Unpack[_Call],
) -> NDArray: ...
def Convolution_v1(
    data: NDArray | None = ..., weight: NDArray | None = ..., bias: NDArray | None = ...,
    kernel: _Sizes = ..., stride: _Sizes = (), dilate: _Sizes = (), pad: _Sizes = (),
    num_filter: int = ..., num_group: int = 1, no_bias: bool = False, layout: str | None = None,
    workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ..., **call: Unpack[_Call],
) -> NDArray: ...
def Correlation(
    data1: NDArray | None = ..., data2: NDArray | None = ..., kernel_size: int = 1,
    max_displacement: int = 1, stride1: int = 1, stride2: int = 1, pad_size: int = 0,
    is_multiply: bool = True, **call: Unpack[_Call],
) -> NDArray: ...
def Crop(
    *data: NDArray, num_args: int = ..., offset: _Sizes = ..., h_w: _Sizes = ...,
    center_crop: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def Deconvolution(
    data: NDArray | None = ..., weight: NDArray | None = ..., bias: NDArray | None = ...,
    kernel: _Sizes = ..., stride: _Sizes = (), dilate: _Sizes = (), pad: _Sizes = (),
    adj: _Sizes = (), target_shape: _Sizes = (), num_filter: int = ..., num_group: int = 1,
    no_bias: bool = True, layout: str | None = None, workspace: Any = ..., cudnn_tune: Any = ...,
    cudnn_off: Any = ..., **call: Unpack[_Call],
) -> NDArray: ...
def Dropout(
    data: NDArray | None = ..., p: float = 0.5, mode: str = "training", axes: _Sizes = (),
    workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ..., **call: Unpack[_Call],
) -> NDArray: ...
def Embedding(
    data: NDArray | None = ..., weight: NDArray | None = ..., input_dim: int = ...,
    output_dim: int = ..., dtype: Any = ..., sparse_grad: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def Flatten(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def FullyConnected(
    data: NDArray | None = ..., weight: NDArray | None = ..., bias: NDArray | None = ...,
    num_hidden: int = ..., no_bias: bool = False, flatten: bool = True, **call: Unpack[_Call],
) -> NDArray: ...
def GridGenerator(
    data: NDArray | None = ..., transform_type: str = ..., target_shape: _Sizes = ...,
    workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ..., **call: Unpack[_Call],
) -> NDArray: ...
def GroupNorm(
    data: NDArray | None = ..., gamma: NDArray | None = ..., beta: NDArray | None = ...,
    num_groups: int = 1, eps: float = 1e-05, output_mean_var: bool = False, **call: Unpack[_Call],
) -> Any: ...
def IdentityAttachKLSparseReg(
    data: NDArray | None = ..., moving_avg: NDArray | None = ..., sparseness_target: float = 0.1,
    penalty: float = 0.001, momentum: float = 0.9, **call: Unpack[_Call],
) -> NDArray: ...
def InstanceNorm(
    data: NDArray | None = ..., gamma: NDArray | None = ..., beta: NDArray | None = ...,
    eps: float = 0.001, **call: Unpack[_Call],
) -> NDArray: ...
def L2Normalization(
    data: NDArray | None = ..., eps: float = 1e-10, mode: str = "instance", **call: Unpack[_Call],
) -> NDArray: ...
def LRN(
    data: NDArray | None = ..., alpha: float = 0.0001, beta: float = 0.75, knorm: float = 2.0,
    nsize: int = ..., **call: Unpack[_Call],
) -> NDArray: ...
def LayerNorm(
    data: NDArray | None = ..., gamma: NDArray | None = ..., beta: NDArray | None = ...,
    axis: int = -1, eps: float = 1e-05, output_mean_var: bool = False, **call: Unpack[_Call],
) -> Any: ...
def LeakyReLU(
    data: NDArray | None = ..., gamma: NDArray | None = ..., act_type: str = "leaky",
    slope: float = 0.25, lower_bound: float = 0.125, upper_bound: float = 0.334,
    **call: Unpack[_Call],
) -> NDArray: ...
def LinearRegressionOutput(
    data: NDArray | None = ..., label: NDArray | None = ..., grad_scale: float = 1.0,
    **call: Unpack[_Call],
) -> NDArray: ...
def LogisticRegressionOutput(
    data: NDArray | None = ..., label: NDArray | None = ..., grad_scale: float = 1.0,
    **call: Unpack[_Call],
) -> NDArray: ...
def MAERegressionOutput(
    data: NDArray | None = ..., label: NDArray | None = ..., grad_scale: float = 1.0,
    **call: Unpack[_Call],
) -> NDArray: ...
def MakeLoss(
    data: NDArray | None = ..., grad_scale: float = 1.0, valid_thresh: float = 0.0,
    normalization: str = "null", **call: Unpack[_Call],
) -> NDArray: ...
def Pad(
    data: NDArray | None = ..., mode: str = ..., pad_width: _Sizes = ...,
    constant_value: float = 0.0, **call: Unpack[_Call],
) -> NDArray: ...
def Pooling(
    data: NDArray | None = ..., kernel: _Sizes = (), pool_type: str = "max",
    global_pool: bool = False, pooling_convention: str = "valid", stride: _Sizes = (),
    pad: _Sizes = (), p_value: int | None = None, count_include_pad: bool | None = None,
    layout: str | None = None, workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ...,
    **call: Unpack[_Call],
) -> NDArray: ...
def Pooling_v1(
    data: NDArray | None = ..., kernel: _Sizes = (), pool_type: str = "max",
    global_pool: bool = False, pooling_convention: str = "valid", stride: _Sizes = (),
    pad: _Sizes = (), workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ...,
    **call: Unpack[_Call],
) -> NDArray: ...
def RNN(
    data: NDArray | None = ..., parameters: NDArray | None = ..., state: NDArray | None = ...,
    state_cell: NDArray | None = ..., sequence_length: NDArray | None = ..., state_size: int = ...,
    num_layers: int = ..., bidirectional: bool = False, mode: str = ..., p: float = 0.0,
    state_outputs: bool = False, projection_size: int | None = None,
    lstm_state_clip_min: float | None = None, lstm_state_clip_max: float | None = None,
    lstm_state_clip_nan: bool = False, use_sequence_length: bool = False, **call: Unpack[_Call],
) -> Any: ...
def ROIPooling(
    data: NDArray | None = ..., rois: NDArray | None = ..., pooled_size: _Sizes = ...,
    spatial_scale: float = ..., **call: Unpack[_Call],
) -> NDArray: ...
def Reshape(
    data: NDArray | None = ..., shape: _Sizes = (), reverse: bool = False,
    target_shape: _Sizes = (), keep_highest: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def SVMOutput(
    data: NDArray | None = ..., label: NDArray | None = ..., margin: float = 1.0,
    regularization_coefficient: float = 1.0, use_linear: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def SequenceLast(
    data: NDArray | None = ..., sequence_length: NDArray | None = ...,
    use_sequence_length: bool = False, axis: int = 0, **call: Unpack[_Call],
) -> NDArray: ...
def SequenceMask(
    data: NDArray | None = ..., sequence_length: NDArray | None = ...,
    use_sequence_length: bool = False, value: float = 0.0, axis: int = 0, **call: Unpack[_Call],
) -> NDArray: ...
def SequenceReverse(
    data: NDArray | None = ..., sequence_length: NDArray | None = ...,
    use_sequence_length: bool = False, axis: int = 0, **call: Unpack[_Call],
) -> NDArray: ...
def SliceChannel(
    data: NDArray | None = ..., num_outputs: int = ..., axis: int = 1, squeeze_axis: bool = False,
    **call: Unpack[_Call],
) -> Any: ...
def SoftmaxActivation(
    data: NDArray | None = ..., mode: str = "instance", **call: Unpack[_Call],
) -> NDArray: ...
def SoftmaxOutput(
    data: NDArray | None = ..., label: NDArray | None = ..., grad_scale: float = 1.0,
    ignore_label: float = -1.0, multi_output: bool = False, use_ignore: bool = False,
    preserve_shape: bool = False, normalization: str = "null", out_grad: bool = False,
    smooth_alpha: float = 0.0, **call: Unpack[_Call],
) -> NDArray: ...
def SpatialTransformer(
    data: NDArray | None = ..., loc: NDArray | None = ..., target_shape: _Sizes = ...,
    transform_type: str = ..., sampler_type: str = ..., workspace: Any = ..., cudnn_tune: Any = ...,
    cudnn_off: Any = ..., **call: Unpack[_Call],
) -> NDArray: ...
def SwapAxis(
    data: NDArray | None = ..., dim1: int = 0, dim2: int = 0, **call: Unpack[_Call],
) -> NDArray: ...
def UpSampling(
    *data: NDArray, scale: int = ..., num_filter: int = 0, sample_type: str = ...,
    multi_input_mode: str = "concat", num_args: int = ..., **call: Unpack[_Call],
) -> NDArray: ...
def abs(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def adam_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., mean: NDArray | None = ...,
    var: NDArray | None = ..., lr: float = ..., beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-08, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    lazy_update: bool = True, **call: Unpack[_Call],
) -> NDArray: ...
def add_n(*data: NDArray, num_args: int = ..., **call: Unpack[_Call]) -> NDArray: ...
def all_finite(
    data: NDArray | None = ..., init_output: bool = True, **call: Unpack[_Call],
) -> NDArray: ...
def amp_cast(data: NDArray | None = ..., dtype: Any = ..., **call: Unpack[_Call]) -> NDArray: ...
def amp_multicast(
    *data: NDArray, num_outputs: int = ..., cast_narrow: bool = False, **call: Unpack[_Call],
) -> Any: ...
def arccos(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def arccosh(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def arcsin(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def arcsinh(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def arctan(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def arctanh(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def argmax(
    data: NDArray | None = ..., axis: int | None = None, keepdims: bool = False,
    **call: Unpack[_Call],
) -> NDArray: ...
def argmax_channel(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def argmin(
    data: NDArray | None = ..., axis: int | None = None, keepdims: bool = False,
    **call: Unpack[_Call],
) -> NDArray: ...
def argsort(
    data: NDArray | None = ..., axis: int | None = -1, is_ascend: bool = True, dtype: Any = ...,
    **call: Unpack[_Call],
) -> NDArray: ...
def batch_dot(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., transpose_a: bool = False,
    transpose_b: bool = False, forward_stype: str = "None", **call: Unpack[_Call],
) -> NDArray: ...
def batch_take(
    a: NDArray | None = ..., indices: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_add(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_axis(
    data: NDArray | None = ..., axis: _Sizes = (), size: _Sizes = (), **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_div(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_equal(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_greater(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_greater_equal(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_hypot(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_lesser(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_lesser_equal(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_like(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., lhs_axes: _Sizes | None = None,
    rhs_axes: _Sizes | None = None, **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_logical_and(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_logical_or(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_logical_xor(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_maximum(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_minimum(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_mod(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_mul(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_not_equal(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_power(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_sub(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def broadcast_to(
    data: NDArray | None = ..., shape: _Sizes = (), **call: Unpack[_Call],
) -> NDArray: ...
def cast_storage(
    data: NDArray | None = ..., stype: str = ..., **call: Unpack[_Call],
) -> NDArray: ...
def cbrt(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def ceil(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def clip(
    data: NDArray | None = ..., a_min: float = ..., a_max: float = ..., **call: Unpack[_Call],
) -> NDArray: ...
def col2im(
    data: NDArray | None = ..., output_size: _Sizes = ..., kernel: _Sizes = ...,
    stride: _Sizes = (), dilate: _Sizes = (), pad: _Sizes = (), **call: Unpack[_Call],
) -> NDArray: ...
def cos(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def cosh(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def cumsum(
    a: NDArray | None = ..., axis: int | None = None, dtype: Any = None, **call: Unpack[_Call],
) -> NDArray: ...
def degrees(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def depth_to_space(
    data: NDArray | None = ..., block_size: int = ..., **call: Unpack[_Call],
) -> NDArray: ...
def diag(
    data: NDArray | None = ..., k: int = 0, axis1: int = 0, axis2: int = 1, **call: Unpack[_Call],
) -> NDArray: ...
def dot(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., transpose_a: bool = False,
    transpose_b: bool = False, forward_stype: str = "None", **call: Unpack[_Call],
) -> NDArray: ...
def elemwise_add(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def elemwise_div(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def elemwise_mul(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def elemwise_sub(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def erf(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def erfinv(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def exp(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def expand_dims(data: NDArray | None = ..., axis: int = ..., **call: Unpack[_Call]) -> NDArray: ...
def expm1(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def fill_element_0index(
    lhs: NDArray | None = ..., mhs: NDArray | None = ..., rhs: NDArray | None = ...,
    **call: Unpack[_Call],
) -> NDArray: ...
def fix(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def floor(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def ftml_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., d: NDArray | None = ...,
    v: NDArray | None = ..., z: NDArray | None = ..., lr: float = ..., beta1: float = 0.6,
    beta2: float = 0.999, epsilon: float = 1e-08, t: int = ..., wd: float = 0.0,
    rescale_grad: float = 1.0, clip_grad: float = -1.0, **call: Unpack[_Call],
) -> NDArray: ...
def ftrl_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., z: NDArray | None = ...,
    n: NDArray | None = ..., lr: float = ..., lamda1: float = 0.01, beta: float = 1.0,
    wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> NDArray: ...
def gamma(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def gammaln(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def gather_nd(
    data: NDArray | None = ..., indices: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def hard_sigmoid(
    data: NDArray | None = ..., alpha: float = 0.2, beta: float = 0.5, **call: Unpack[_Call],
) -> NDArray: ...
def identity(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def im2col(
    data: NDArray | None = ..., kernel: _Sizes = ..., stride: _Sizes = (), dilate: _Sizes = (),
    pad: _Sizes = (), **call: Unpack[_Call],
) -> NDArray: ...
def khatri_rao(*data: NDArray, num_args: int = ..., **call: Unpack[_Call]) -> NDArray: ...
def lamb_update_phase1(
    weight: NDArray | None = ..., grad: NDArray | None = ..., mean: NDArray | None = ...,
    var: NDArray | None = ..., beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-06,
    t: int = ..., bias_correction: bool = True, wd: float = ..., rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> NDArray: ...
def lamb_update_phase2(
    weight: NDArray | None = ..., g: NDArray | None = ..., r1: NDArray | None = ...,
    r2: NDArray | None = ..., lr: float = ..., lower_bound: float = -1.0, upper_bound: float = -1.0,
    **call: Unpack[_Call],
) -> NDArray: ...
def linalg_det(A: NDArray | None = ..., **call: Unpack[_Call]) -> Any: ...
def linalg_extractdiag(
    A: NDArray | None = ..., offset: int = 0, **call: Unpack[_Call],
) -> NDArray: ...
def linalg_extracttrian(
    A: NDArray | None = ..., offset: int = 0, lower: bool = True, **call: Unpack[_Call],
) -> NDArray: ...
def linalg_gelqf(A: NDArray | None = ..., **call: Unpack[_Call]) -> Any: ...
def linalg_gemm(
    A: NDArray | None = ..., B: NDArray | None = ..., C: NDArray | None = ...,
    transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0, beta: float = 1.0,
    axis: int = -2, **call: Unpack[_Call],
) -> NDArray: ...
def linalg_gemm2(
    A: NDArray | None = ..., B: NDArray | None = ..., transpose_a: bool = False,
    transpose_b: bool = False, alpha: float = 1.0, axis: int = -2, **call: Unpack[_Call],
) -> NDArray: ...
def linalg_inverse(A: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def linalg_makediag(A: NDArray | None = ..., offset: int = 0, **call: Unpack[_Call]) -> NDArray: ...
def linalg_maketrian(
    A: NDArray | None = ..., offset: int = 0, lower: bool = True, **call: Unpack[_Call],
) -> NDArray: ...
def linalg_potrf(A: NDArray | None = ..., lower: bool = True, **call: Unpack[_Call]) -> NDArray: ...
def linalg_potri(A: NDArray | None = ..., lower: bool = True, **call: Unpack[_Call]) -> NDArray: ...
def linalg_slogdet(A: NDArray | None = ..., **call: Unpack[_Call]) -> Any: ...
def linalg_sumlogdiag(A: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def linalg_syevd(A: NDArray | None = ..., **call: Unpack[_Call]) -> Any: ...
def linalg_syrk(
    A: NDArray | None = ..., transpose: bool = False, alpha: float = 1.0, **call: Unpack[_Call],
) -> NDArray: ...
def linalg_trmm(
    A: NDArray | None = ..., B: NDArray | None = ..., transpose: bool = False,
    rightside: bool = False, lower: bool = True, alpha: float = 1.0, **call: Unpack[_Call],
) -> NDArray: ...
def linalg_trsm(
    A: NDArray | None = ..., B: NDArray | None = ..., transpose: bool = False,
    rightside: bool = False, lower: bool = True, alpha: float = 1.0, **call: Unpack[_Call],
) -> NDArray: ...
def log(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def log10(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def log1p(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def log2(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def log_softmax(
    data: NDArray | None = ..., axis: int = -1, temperature: float | None = None, dtype: Any = None,
    use_length: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def logical_not(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def make_loss(data: NDArray | None = ..., **call: Unpack[_Call]) -> Any: ...
def max(
    data: NDArray | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def mean(
    data: NDArray | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def min(
    data: NDArray | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def moments(
    data: NDArray | None = ..., axes: _Sizes | None = None, keepdims: bool = False,
    **call: Unpack[_Call],
) -> Any: ...
def mp_lamb_update_phase1(
    weight: NDArray | None = ..., grad: NDArray | None = ..., mean: NDArray | None = ...,
    var: NDArray | None = ..., weight32: NDArray | None = ..., beta1: float = 0.9,
    beta2: float = 0.999, epsilon: float = 1e-06, t: int = ..., bias_correction: bool = True,
    wd: float = ..., rescale_grad: float = 1.0, clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> NDArray: ...
def mp_lamb_update_phase2(
    weight: NDArray | None = ..., g: NDArray | None = ..., r1: NDArray | None = ...,
    r2: NDArray | None = ..., weight32: NDArray | None = ..., lr: float = ...,
    lower_bound: float = -1.0, upper_bound: float = -1.0, **call: Unpack[_Call],
) -> NDArray: ...
def mp_nag_mom_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., mom: NDArray | None = ...,
    weight32: NDArray | None = ..., lr: float = ..., momentum: float = 0.0, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> NDArray: ...
def mp_sgd_mom_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., mom: NDArray | None = ...,
    weight32: NDArray | None = ..., lr: float = ..., momentum: float = 0.0, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True,
    **call: Unpack[_Call],
) -> NDArray: ...
def mp_sgd_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., weight32: NDArray | None = ...,
    lr: float = ..., wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    lazy_update: bool = True, **call: Unpack[_Call],
) -> NDArray: ...
def multi_all_finite(
    *data: NDArray, num_arrays: int = 1, init_output: bool = True, **call: Unpack[_Call],
) -> NDArray: ...
def multi_lars(
    lrs: NDArray | None = ..., weights_sum_sq: NDArray | None = ...,
    grads_sum_sq: NDArray | None = ..., wds: NDArray | None = ..., eta: float = ...,
    eps: float = ..., rescale_grad: float = 1.0, **call: Unpack[_Call],
) -> NDArray: ...
def multi_mp_sgd_mom_update(
    *data: NDArray, lrs: _Sizes = ..., wds: _Sizes = ..., momentum: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1,
    **call: Unpack[_Call],
) -> Any: ...
def multi_mp_sgd_update(
    *data: NDArray, lrs: _Sizes = ..., wds: _Sizes = ..., rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, num_weights: int = 1, **call: Unpack[_Call],
) -> Any: ...
def multi_sgd_mom_update(
    *data: NDArray, lrs: _Sizes = ..., wds: _Sizes = ..., momentum: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1,
    **call: Unpack[_Call],
) -> Any: ...
def multi_sgd_update(
    *data: NDArray, lrs: _Sizes = ..., wds: _Sizes = ..., rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, num_weights: int = 1, **call: Unpack[_Call],
) -> Any: ...
def multi_sum_sq(*data: NDArray, num_arrays: int = ..., **call: Unpack[_Call]) -> NDArray: ...
def nag_mom_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., mom: NDArray | None = ...,
    lr: float = ..., momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> NDArray: ...
def nanprod(
    data: NDArray | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def nansum(
    data: NDArray | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def negative(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def norm(
    data: NDArray | None = ..., ord: int = 2, axis: _Sizes | None = None, out_dtype: Any = None,
    keepdims: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def normal(
    loc: float = 0.0, scale: float = 1.0, shape: _Sizes | None = None, dtype: Any = None,
    **call: Unpack[_Call],
) -> NDArray: ...
def one_hot(
    indices: NDArray | None = ..., depth: int = ..., on_value: float = 1.0, off_value: float = 0.0,
    dtype: Any = ..., **call: Unpack[_Call],
) -> NDArray: ...
def ones_like(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def pick(
    data: NDArray | None = ..., index: NDArray | None = ..., axis: int | None = -1,
    keepdims: bool = False, mode: str = "clip", **call: Unpack[_Call],
) -> NDArray: ...
def preloaded_multi_mp_sgd_mom_update(
    *data: NDArray, momentum: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    num_weights: int = 1, **call: Unpack[_Call],
) -> Any: ...
def preloaded_multi_mp_sgd_update(
    *data: NDArray, rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1,
    **call: Unpack[_Call],
) -> Any: ...
def preloaded_multi_sgd_mom_update(
    *data: NDArray, momentum: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    num_weights: int = 1, **call: Unpack[_Call],
) -> Any: ...
def preloaded_multi_sgd_update(
    *data: NDArray, rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1,
    **call: Unpack[_Call],
) -> Any: ...
def prod(
    data: NDArray | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def radians(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def random_exponential(
    lam: float = 1.0, shape: _Sizes | None = None, dtype: Any = None, **call: Unpack[_Call],
) -> NDArray: ...
def random_gamma(
    alpha: float = 1.0, beta: float = 1.0, shape: _Sizes | None = None, dtype: Any = None,
    **call: Unpack[_Call],
) -> NDArray: ...
def random_generalized_negative_binomial(
    mu: float = 1.0, alpha: float = 1.0, shape: _Sizes | None = None, dtype: Any = None,
    **call: Unpack[_Call],
) -> NDArray: ...
def random_negative_binomial(
    k: int = 1, p: float = 1.0, shape: _Sizes | None = None, dtype: Any = None,
    **call: Unpack[_Call],
) -> NDArray: ...
def random_pdf_dirichlet(
    sample: NDArray | None = ..., alpha: NDArray | None = ..., is_log: bool = False,
    **call: Unpack[_Call],
) -> NDArray: ...
def random_pdf_exponential(
    sample: NDArray | None = ..., lam: NDArray | None = ..., is_log: bool = False,
    **call: Unpack[_Call],
) -> NDArray: ...
def random_pdf_gamma(
    sample: NDArray | None = ..., alpha: NDArray | None = ..., beta: NDArray | None = ...,
    is_log: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def random_pdf_generalized_negative_binomial(
    sample: NDArray | None = ..., mu: NDArray | None = ..., alpha: NDArray | None = ...,
    is_log: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def random_pdf_negative_binomial(
    sample: NDArray | None = ..., k: NDArray | None = ..., p: NDArray | None = ...,
    is_log: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def random_pdf_normal(
    sample: NDArray | None = ..., mu: NDArray | None = ..., sigma: NDArray | None = ...,
    is_log: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def random_pdf_poisson(
    sample: NDArray | None = ..., lam: NDArray | None = ..., is_log: bool = False,
    **call: Unpack[_Call],
) -> NDArray: ...
def random_pdf_uniform(
    sample: NDArray | None = ..., low: NDArray | None = ..., high: NDArray | None = ...,
    is_log: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def random_poisson(
    lam: float = 1.0, shape: _Sizes | None = None, dtype: Any = None, **call: Unpack[_Call],
) -> NDArray: ...
def random_randint(
    low: int = ..., high: int = ..., shape: _Sizes | None = None, dtype: Any = None,
    **call: Unpack[_Call],
) -> NDArray: ...
def random_uniform(
    low: float = 0.0, high: float = 1.0, shape: _Sizes | None = None, dtype: Any = None,
    **call: Unpack[_Call],
) -> NDArray: ...
def ravel_multi_index(
    data: NDArray | None = ..., shape: _Sizes | None = None, **call: Unpack[_Call],
) -> NDArray: ...
def rcbrt(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def reciprocal(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def relu(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def repeat(
    data: NDArray | None = ..., repeats: int = ..., axis: int | None = None, **call: Unpack[_Call],
) -> NDArray: ...
def reset_arrays(*data: NDArray, num_arrays: int = ..., **call: Unpack[_Call]) -> Any: ...
def reshape_like(
    lhs: NDArray | None = ..., rhs: NDArray | None = ..., lhs_begin: int | None = None,
    lhs_end: int | None = None, rhs_begin: int | None = None, rhs_end: int | None = None,
    **call: Unpack[_Call],
) -> NDArray: ...
def reverse(data: NDArray | None = ..., axis: _Sizes = ..., **call: Unpack[_Call]) -> NDArray: ...
def rint(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def rmsprop_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., n: NDArray | None = ...,
    lr: float = ..., gamma1: float = 0.95, epsilon: float = 1e-08, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, clip_weights: float = -1.0,
    **call: Unpack[_Call],
) -> NDArray: ...
def rmspropalex_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., n: NDArray | None = ...,
    g: NDArray | None = ..., delta: NDArray | None = ..., lr: float = ..., gamma1: float = 0.95,
    gamma2: float = 0.9, epsilon: float = 1e-08, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, clip_weights: float = -1.0, **call: Unpack[_Call],
) -> NDArray: ...
def round(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def rsqrt(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def sample_exponential(
    lam: NDArray | None = ..., shape: _Sizes = (), dtype: Any = None, **call: Unpack[_Call],
) -> NDArray: ...
def sample_gamma(
    alpha: NDArray | None = ..., beta: NDArray | None = ..., shape: _Sizes = (), dtype: Any = None,
    **call: Unpack[_Call],
) -> NDArray: ...
def sample_generalized_negative_binomial(
    mu: NDArray | None = ..., alpha: NDArray | None = ..., shape: _Sizes = (), dtype: Any = None,
    **call: Unpack[_Call],
) -> NDArray: ...
def sample_multinomial(
    data: NDArray | None = ..., shape: _Sizes = (), get_prob: bool = False, dtype: Any = ...,
    **call: Unpack[_Call],
) -> Any: ...
def sample_negative_binomial(
    k: NDArray | None = ..., p: NDArray | None = ..., shape: _Sizes = (), dtype: Any = None,
    **call: Unpack[_Call],
) -> NDArray: ...
def sample_normal(
    mu: NDArray | None = ..., sigma: NDArray | None = ..., shape: _Sizes = (), dtype: Any = None,
    **call: Unpack[_Call],
) -> NDArray: ...
def sample_poisson(
    lam: NDArray | None = ..., shape: _Sizes = (), dtype: Any = None, **call: Unpack[_Call],
) -> NDArray: ...
def sample_uniform(
    low: NDArray | None = ..., high: NDArray | None = ..., shape: _Sizes = (), dtype: Any = None,
    **call: Unpack[_Call],
) -> NDArray: ...
def scatter_nd(
    data: NDArray | None = ..., indices: NDArray | None = ..., shape: _Sizes = ...,
    **call: Unpack[_Call],
) -> NDArray: ...
def sgd_mom_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., mom: NDArray | None = ...,
    lr: float = ..., momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, lazy_update: bool = True, **call: Unpack[_Call],
) -> NDArray: ...
def sgd_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., lr: float = ..., wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True,
    **call: Unpack[_Call],
) -> NDArray: ...
def shape_array(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def shuffle(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def sigmoid(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def sign(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def signsgd_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., lr: float = ..., wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, **call: Unpack[_Call],
) -> NDArray: ...
def signum_update(
    weight: NDArray | None = ..., grad: NDArray | None = ..., mom: NDArray | None = ...,
    lr: float = ..., momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, wd_lh: float = 0.0, **call: Unpack[_Call],
) -> NDArray: ...
def sin(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def sinh(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def size_array(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def slice(
    data: NDArray | None = ..., begin: _Sizes = ..., end: _Sizes = ..., step: _Sizes = (),
    **call: Unpack[_Call],
) -> NDArray: ...
def slice_axis(
    data: NDArray | None = ..., axis: int = ..., begin: int = ..., end: int | None = ...,
    **call: Unpack[_Call],
) -> NDArray: ...
def slice_like(
    data: NDArray | None = ..., shape_like: NDArray | None = ..., axes: _Sizes | None = (),
    **call: Unpack[_Call],
) -> NDArray: ...
def smooth_l1(
    data: NDArray | None = ..., scalar: float = 1.0, **call: Unpack[_Call],
) -> NDArray: ...
def softmax(
    data: NDArray | None = ..., length: NDArray | None = ..., axis: int = -1,
    temperature: float | None = None, dtype: Any = None, use_length: bool = False,
    **call: Unpack[_Call],
) -> NDArray: ...
def softmax_cross_entropy(
    data: NDArray | None = ..., label: NDArray | None = ..., **call: Unpack[_Call],
) -> NDArray: ...
def softmin(
    data: NDArray | None = ..., axis: int = -1, temperature: float | None = None, dtype: Any = None,
    use_length: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def softsign(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def sort(
    data: NDArray | None = ..., axis: int | None = -1, is_ascend: bool = True,
    **call: Unpack[_Call],
) -> Any: ...
def space_to_depth(
    data: NDArray | None = ..., block_size: int = ..., **call: Unpack[_Call],
) -> NDArray: ...
def sqrt(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def square(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def squeeze(
    data: NDArray | None = ..., axis: _Sizes | None = None, **call: Unpack[_Call],
) -> NDArray: ...
def stack(*data: NDArray, axis: int = 0, num_args: int = ..., **call: Unpack[_Call]) -> NDArray: ...
def sum(
    data: NDArray | None = ..., axis: _Sizes | None = None, keepdims: bool = False,
    exclude: bool = False, **call: Unpack[_Call],
) -> NDArray: ...
def take(
    a: NDArray | None = ..., indices: NDArray | None = ..., axis: int = 0, mode: str = "clip",
    **call: Unpack[_Call],
) -> NDArray: ...
def tan(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def tanh(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def tile(data: NDArray | None = ..., reps: _Sizes = ..., **call: Unpack[_Call]) -> NDArray: ...
def topk(
    data: NDArray | None = ..., axis: int | None = -1, k: int = 1, ret_typ: str = "indices",
    is_ascend: bool = False, dtype: Any = ..., **call: Unpack[_Call],
) -> Any: ...
def transpose(data: NDArray | None = ..., axes: _Sizes = (), **call: Unpack[_Call]) -> NDArray: ...
def trunc(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...
def unravel_index(
    data: NDArray | None = ..., shape: _Sizes | None = None, **call: Unpack[_Call],
) -> NDArray: ...
def where(
    condition: NDArray | None = ..., x: NDArray | None = ..., y: NDArray | None = ...,
    **call: Unpack[_Call],
) -> NDArray: ...
def zeros_like(data: NDArray | None = ..., **call: Unpack[_Call]) -> NDArray: ...

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

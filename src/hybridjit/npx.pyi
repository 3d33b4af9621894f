"""Functions of ``npx``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any, TypedDict

from typing_extensions import Unpack

from .np.arrays import ndarray

_Sizes = int | Sequence[Any]

class _Call(TypedDict, total=False):
    ctx: Any
    out: Any
    name: str | None

image: Any
random: Any

def cond(pred: Any, then_func: Any, else_func: Any) -> Any: ...
def cpu(device_id: int = 0) -> Any: ...
def cpu_pinned(device_id: int = 0) -> Any: ...
def current_context() -> Any: ...
def foreach(body: Any, data: Any, init_states: Any) -> Any: ...
def get_cuda_compute_capability(ctx: Any) -> Any: ...
def gpu(device_id: int = 0) -> Any: ...
def gpu_memory_info(device_id: int = 0) -> Any: ...
def is_np_array() -> Any: ...
def is_np_shape() -> Any: ...
def load(file: str) -> Any: ...
def num_gpus() -> Any: ...
def reset_np() -> Any: ...
def save(file: str, arr: Any) -> Any: ...
def savez(file: Any, *args: Any, **kwds: Any) -> Any: ...
def seed(seed: Any, ctx: Any = "all") -> Any: ...
def set_np(shape: bool = True, array: bool = True) -> Any: ...
def use_np(func: Any) -> Any: ...
def waitall() -> Any: ...
def while_loop(cond: Any, func: Any, loop_vars: Any, max_iterations: int | None = None) -> Any: ...
def activation(
    data: ndarray | None = ..., act_type: str = ..., **call: Unpack[_Call]
) -> ndarray: ...
def arange_like(
    data: ndarray | None = ...,
    start: float = 0.0,
    step: float = 1.0,
    repeat: int = 1,
    axis: int | None = None,
    **call: Unpack[_Call],
) -> ndarray: ...
def batch_dot(
    lhs: ndarray | None = ...,
    rhs: ndarray | None = ...,
    transpose_a: bool = False,
    transpose_b: bool = False,
    forward_stype: str = "None",
    **call: Unpack[_Call],
) -> ndarray: ...
def batch_flatten(data: ndarray | None = ..., **call: Unpack[_Call]) -> ndarray: ...
def batch_norm(
    data: ndarray | None = ...,
    gamma: ndarray | None = ...,
    beta: ndarray | None = ...,
    moving_mean: ndarray | None = ...,
    moving_var: ndarray | None = ...,
    eps: float = 0.001,
    momentum: float = 0.9,
    fix_gamma: bool = True,
    use_global_stats: bool = False,
    output_mean_var: bool = False,
    axis: int = 1,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    workspace: Any = ...,
    cudnn_tune: Any = ...,
    cudnn_off: Any = ...,
    **call: Unpack[_Call],
) -> Any: ...
def box_nms(
    data: ndarray | None = ...,
    overlap_thresh: float = 0.5,
    valid_thresh: float = 0.0,
    topk: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = -1,
    background_id: int = -1,
    force_suppress: bool = False,
    in_format: str = "corner",
    out_format: str = "corner",
    **call: Unpack[_Call],
) -> Any: ...
def broadcast_like(
    lhs: ndarray | None = ...,
    rhs: ndarray | None = ...,
    lhs_axes: _Sizes | None = None,
    rhs_axes: _Sizes | None = None,
    **call: Unpack[_Call],
) -> ndarray: ...
def cast(data: ndarray | None = ..., dtype: Any = ..., **call: Unpack[_Call]) -> ndarray: ...
def constraint_check(
    input: ndarray | None = ..., msg: str = "", **call: Unpack[_Call]
) -> ndarray: ...
def convolution(
    data: ndarray | None = ...,
    weight: ndarray | None = ...,
    bias: ndarray | None = ...,
    kernel: _Sizes = ...,
    stride: _Sizes = (),
    dilate: _Sizes = (),
    pad: _Sizes = (),
    num_filter: int = ...,
    num_group: int = 1,
    no_bias: bool = False,
    layout: str | None = None,
    workspace: Any = ...,
    cudnn_tune: Any = ...,
    cudnn_off: Any = ...,
    **call: Unpack[_Call],
) -> ndarray: ...
def deconvolution(
    data: ndarray | None = ...,
    weight: ndarray | None = ...,
    bias: ndarray | None = ...,
    kernel: _Sizes = ...,
    stride: _Sizes = (),
    dilate: _Sizes = (),
    pad: _Sizes = (),
    adj: _Sizes = (),
    target_shape: _Sizes = (),
    num_filter: int = ...,
    num_group: int = 1,
    no_bias: bool = True,
    layout: str | None = None,
    workspace: Any = ...,
    cudnn_tune: Any = ...,
    cudnn_off: Any = ...,
    **call: Unpack[_Call],
) -> ndarray: ...
def dropout(
    data: ndarray | None = ...,
    p: float = 0.5,
    mode: str = "training",
    axes: _Sizes = (),
    workspace: Any = ...,
    cudnn_tune: Any = ...,
    cudnn_off: Any = ...,
    **call: Unpack[_Call],
) -> ndarray: ...
def embedding(
    data: ndarray | None = ...,
    weight: ndarray | None = ...,
    input_dim: int = ...,
    output_dim: int = ...,
    dtype: Any = ...,
    sparse_grad: bool = False,
    **call: Unpack[_Call],
) -> ndarray: ...
def erf(data: ndarray | None = ..., **call: Unpack[_Call]) -> ndarray: ...
def erfinv(data: ndarray | None = ..., **call: Unpack[_Call]) -> ndarray: ...
def fully_connected(
    data: ndarray | None = ...,
    weight: ndarray | None = ...,
    bias: ndarray | None = ...,
    num_hidden: int = ...,
    no_bias: bool = False,
    flatten: bool = True,
    **call: Unpack[_Call],
) -> ndarray: ...
def gamma(data: ndarray | None = ..., **call: Unpack[_Call]) -> ndarray: ...
def gammaln(data: ndarray | None = ..., **call: Unpack[_Call]) -> ndarray: ...
def gather_nd(
    data: ndarray | None = ..., indices: ndarray | None = ..., **call: Unpack[_Call]
) -> ndarray: ...
def group_norm(
    data: ndarray | None = ...,
    gamma: ndarray | None = ...,
    beta: ndarray | None = ...,
    num_groups: int = 1,
    eps: float = 1e-05,
    output_mean_var: bool = False,
    **call: Unpack[_Call],
) -> Any: ...
def index_add(
    a: ndarray | None = ...,
    ind: ndarray | None = ...,
    val: ndarray | None = ...,
    **call: Unpack[_Call],
) -> ndarray: ...
def index_update(
    a: ndarray | None = ...,
    ind: ndarray | None = ...,
    val: ndarray | None = ...,
    **call: Unpack[_Call],
) -> ndarray: ...
def instance_norm(
    data: ndarray | None = ...,
    gamma: ndarray | None = ...,
    beta: ndarray | None = ...,
    eps: float = 0.001,
    **call: Unpack[_Call],
) -> ndarray: ...
def interleaved_matmul_encdec_qk(
    queries: ndarray | None = ...,
    keys_values: ndarray | None = ...,
    heads: int = ...,
    **call: Unpack[_Call],
) -> ndarray: ...
def interleaved_matmul_encdec_valatt(
    keys_values: ndarray | None = ...,
    attention: ndarray | None = ...,
    heads: int = ...,
    **call: Unpack[_Call],
) -> ndarray: ...
def interleaved_matmul_selfatt_qk(
    queries_keys_values: ndarray | None = ..., heads: int = ..., **call: Unpack[_Call]
) -> ndarray: ...
def interleaved_matmul_selfatt_valatt(
    queries_keys_values: ndarray | None = ...,
    attention: ndarray | None = ...,
    heads: int = ...,
    **call: Unpack[_Call],
) -> ndarray: ...
def layer_norm(
    data: ndarray | None = ...,
    gamma: ndarray | None = ...,
    beta: ndarray | None = ...,
    axis: int = -1,
    eps: float = 1e-05,
    output_mean_var: bool = False,
    **call: Unpack[_Call],
) -> Any: ...
def leaky_relu(
    data: ndarray | None = ...,
    gamma: ndarray | None = ...,
    act_type: str = "leaky",
    slope: float = 0.25,
    lower_bound: float = 0.125,
    upper_bound: float = 0.334,
    **call: Unpack[_Call],
) -> ndarray: ...
def log_softmax(
    data: ndarray | None = ...,
    axis: int = -1,
    temperature: float | None = None,
    dtype: Any = None,
    use_length: bool = False,
    **call: Unpack[_Call],
) -> ndarray: ...
def multibox_detection(
    cls_prob: ndarray | None = ...,
    loc_pred: ndarray | None = ...,
    anchor: ndarray | None = ...,
    clip: bool = True,
    threshold: float = 0.01,
    background_id: int = 0,
    nms_threshold: float = 0.5,
    force_suppress: bool = False,
    variances: _Sizes = ...,
    nms_topk: int = -1,
    **call: Unpack[_Call],
) -> ndarray: ...
def multibox_prior(
    data: ndarray | None = ...,
    sizes: _Sizes = ...,
    ratios: _Sizes = ...,
    clip: bool = False,
    steps: _Sizes = ...,
    offsets: _Sizes = ...,
    **call: Unpack[_Call],
) -> ndarray: ...
def multibox_target(
    anchor: ndarray | None = ...,
    label: ndarray | None = ...,
    cls_pred: ndarray | None = ...,
    overlap_threshold: float = 0.5,
    ignore_label: float = -1.0,
    negative_mining_ratio: float = -1.0,
    negative_mining_thresh: float = 0.5,
    minimum_negative_samples: int = 0,
    variances: _Sizes = ...,
    **call: Unpack[_Call],
) -> Any: ...
def nonzero(x: ndarray | None = ..., **call: Unpack[_Call]) -> ndarray: ...
def norm(
    data: ndarray | None = ...,
    ord: int = 2,
    axis: _Sizes | None = None,
    out_dtype: Any = None,
    keepdims: bool = False,
    **call: Unpack[_Call],
) -> ndarray: ...
def one_hot(
    indices: ndarray | None = ...,
    depth: int = ...,
    on_value: float = 1.0,
    off_value: float = 0.0,
    dtype: Any = ...,
    **call: Unpack[_Call],
) -> ndarray: ...
def pick(
    data: ndarray | None = ...,
    index: ndarray | None = ...,
    axis: int | None = -1,
    keepdims: bool = False,
    mode: str = "clip",
    **call: Unpack[_Call],
) -> ndarray: ...
def pooling(
    data: ndarray | None = ...,
    kernel: _Sizes = (),
    pool_type: str = "max",
    global_pool: bool = False,
    pooling_convention: str = "valid",
    stride: _Sizes = (),
    pad: _Sizes = (),
    p_value: int | None = None,
    count_include_pad: bool | None = None,
    layout: str | None = None,
    workspace: Any = ...,
    cudnn_tune: Any = ...,
    cudnn_off: Any = ...,
    **call: Unpack[_Call],
) -> ndarray: ...
def relu(data: ndarray | None = ..., **call: Unpack[_Call]) -> ndarray: ...
def reshape_like(
    lhs: ndarray | None = ...,
    rhs: ndarray | None = ...,
    lhs_begin: int | None = None,
    lhs_end: int | None = None,
    rhs_begin: int | None = None,
    rhs_end: int | None = None,
    **call: Unpack[_Call],
) -> ndarray: ...
def rnn(
    data: ndarray | None = ...,
    parameters: ndarray | None = ...,
    state: ndarray | None = ...,
    state_cell: ndarray | None = ...,
    sequence_length: ndarray | None = ...,
    state_size: int = ...,
    num_layers: int = ...,
    bidirectional: bool = False,
    mode: str = ...,
    p: float = 0.0,
    state_outputs: bool = False,
    projection_size: int | None = None,
    lstm_state_clip_min: float | None = None,
    lstm_state_clip_max: float | None = None,
    lstm_state_clip_nan: bool = False,
    use_sequence_length: bool = False,
    **call: Unpack[_Call],
) -> Any: ...
def roi_pooling(
    data: ndarray | None = ...,
    rois: ndarray | None = ...,
    pooled_size: _Sizes = ...,
    spatial_scale: float = ...,
    **call: Unpack[_Call],
) -> ndarray: ...
def sequence_mask(
    data: ndarray | None = ...,
    sequence_length: ndarray | None = ...,
    use_sequence_length: bool = False,
    value: float = 0.0,
    axis: int = 0,
    **call: Unpack[_Call],
) -> ndarray: ...
def shape_array(data: ndarray | None = ..., **call: Unpack[_Call]) -> ndarray: ...
def sigmoid(data: ndarray | None = ..., **call: Unpack[_Call]) -> ndarray: ...
def slice(
    data: ndarray | None = ...,
    begin: _Sizes = ...,
    end: _Sizes = ...,
    step: _Sizes = (),
    **call: Unpack[_Call],
) -> ndarray: ...
def smooth_l1(
    data: ndarray | None = ..., scalar: float = 1.0, **call: Unpack[_Call]
) -> ndarray: ...
def softmax(
    data: ndarray | None = ...,
    length: ndarray | None = ...,
    axis: int = -1,
    temperature: float | None = None,
    dtype: Any = None,
    use_length: bool = False,
    **call: Unpack[_Call],
) -> ndarray: ...
def stop_gradient(data: ndarray | None = ..., **call: Unpack[_Call]) -> ndarray: ...
def topk(
    data: ndarray | None = ...,
    axis: int | None = -1,
    k: int = 1,
    ret_typ: str = "indices",
    is_ascend: bool = False,
    dtype: Any = ...,
    **call: Unpack[_Call],
) -> Any: ...

"""Functions of ``sym.npx``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from typing_extensions import Unpack

from .np.symbols import _Symbol

_Sizes = int | Sequence[Any]

class _Call(TypedDict, total=False):
    attr: Mapping[str, str] | None
    name: str | None

image: Any
random: Any

def cond(pred: Any, then_func: Any, else_func: Any, name: str = "cond") -> Any: ...
def foreach(body: Any, data: Any, init_states: Any, name: str = "foreach") -> Any: ...
def masked_log_softmax(data: Any, mask: Any, axis: int = -1, temperature: float = 1.0) -> Any: ...
def masked_softmax(data: Any, mask: Any, axis: int = -1, temperature: float = 1.0) -> Any: ...
def reshape(a: Any, newshape: Any, reverse: Any = False, order: Any = "C") -> Any: ...
def while_loop(
    cond: Any, func: Any, loop_vars: Any, max_iterations: int | None = None,
    name: str = "while_loop",
) -> Any: ...
def activation(
    data: _Symbol | None = ..., act_type: str = ..., **call: Unpack[_Call],
) -> _Symbol: ...
def arange_like(
    data: _Symbol | None = ..., start: float = 0.0, step: float = 1.0, repeat: int = 1,
    axis: int | None = None, **call: Unpack[_Call],
) -> _Symbol: ...
def batch_dot(
    lhs: _Symbol | None = ..., rhs: _Symbol | None = ..., transpose_a: bool = False,
    transpose_b: bool = False, forward_stype: str = "None", **call: Unpack[_Call],
) -> _Symbol: ...
def batch_flatten(data: _Symbol | None = ..., **call: Unpack[_Call]) -> _Symbol: ...
def batch_norm(
    data: _Symbol | None = ..., gamma: _Symbol | None = ..., beta: _Symbol | None = ...,
    moving_mean: _Symbol | None = ..., moving_var: _Symbol | None = ..., eps: float = 0.001,
    momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False,
    output_mean_var: bool = False, axis: int = 1, min_calib_range: float | None = None,
    max_calib_range: float | None = None, workspace: Any = ..., cudnn_tune: Any = ...,
    cudnn_off: Any = ..., **call: Unpack[_Call],
) -> _Symbol: ...
def box_nms(
    data: _Symbol | None = ..., overlap_thresh: float = 0.5, valid_thresh: float = 0.0,
    topk: int = -1, coord_start: int = 2, score_index: int = 1, id_index: int = -1,
    background_id: int = -1, force_suppress: bool = False, in_format: str = "corner",
    out_format: str = "corner", **call: Unpack[_Call],
) -> _Symbol: ...
def broadcast_like(
    lhs: _Symbol | None = ..., rhs: _Symbol | None = ..., lhs_axes: _Sizes | None = None,
    rhs_axes: _Sizes | None = None, **call: Unpack[_Call],
) -> _Symbol: ...
def cast(data: _Symbol | None = ..., dtype: Any = ..., **call: Unpack[_Call]) -> _Symbol: ...
def constraint_check(
    input: _Symbol | None = ..., msg: str = "", **call: Unpack[_Call],
) -> _Symbol: ...
def convolution(
    data: _Symbol | None = ..., weight: _Symbol | None = ..., bias: _Symbol | None = ...,
    kernel: _Sizes = ..., stride: _Sizes = (), dilate: _Sizes = (), pad: _Sizes = (),
    num_filter: int = ..., num_group: int = 1, no_bias: bool = False, layout: str | None = None,
    workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ..., **call: Unpack[_Call],
) -> _Symbol: ...
def deconvolution(
    data: _Symbol | None = ..., weight: _Symbol | None = ..., bias: _Symbol | None = ...,
    kernel: _Sizes = ..., stride: _Sizes = (), dilate: _Sizes = (), pad: _Sizes = (),
    adj: _Sizes = (), target_shape: _Sizes = (), num_filter: int = ..., num_group: int = 1,
    no_bias: bool = True, layout: str | None = None, workspace: Any = ..., cudnn_tune: Any = ...,
    cudnn_off: Any = ..., **call: Unpack[_Call],
) -> _Symbol: ...
def dropout(
    data: _Symbol | None = ..., p: float = 0.5, mode: str = "training", axes: _Sizes = (),
    workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ..., **call: Unpack[_Call],
) -> _Symbol: ...
def embedding(
    data: _Symbol | None = ..., weight: _Symbol | None = ..., input_dim: int = ...,
    output_dim: int = ..., dtype: Any = ..., sparse_grad: bool = False, **call: Unpack[_Call],
) -> _Symbol: ...
def erf(data: _Symbol | None = ..., **call: Unpack[_Call]) -> _Symbol: ...
def erfinv(data: _Symbol | None = ..., **call: Unpack[_Call]) -> _Symbol: ...
def fully_connected(
    data: _Symbol | None = ..., weight: _Symbol | None = ..., bias: _Symbol | None = ...,
    num_hidden: int = ..., no_bias: bool = False, flatten: bool = True, **call: Unpack[_Call],
) -> _Symbol: ...
def gamma(data: _Symbol | None = ..., **call: Unpack[_Call]) -> _Symbol: ...
def gammaln(data: _Symbol | None = ..., **call: Unpack[_Call]) -> _Symbol: ...
def gather_nd(
    data: _Symbol | None = ..., indices: _Symbol | None = ..., **call: Unpack[_Call],
) -> _Symbol: ...
def group_norm(
    data: _Symbol | None = ..., gamma: _Symbol | None = ..., beta: _Symbol | None = ...,
    num_groups: int = 1, eps: float = 1e-05, output_mean_var: bool = False, **call: Unpack[_Call],
) -> _Symbol: ...
def index_add(
    a: _Symbol | None = ..., ind: _Symbol | None = ..., val: _Symbol | None = ...,
    **call: Unpack[_Call],
) -> _Symbol: ...
def index_update(
    a: _Symbol | None = ..., ind: _Symbol | None = ..., val: _Symbol | None = ...,
    **call: Unpack[_Call],
) -> _Symbol: ...
def instance_norm(
    data: _Symbol | None = ..., gamma: _Symbol | None = ..., beta: _Symbol | None = ...,
    eps: float = 0.001, **call: Unpack[_Call],
) -> _Symbol: ...
def interleaved_matmul_encdec_qk(
    queries: _Symbol | None = ..., keys_values: _Symbol | None = ..., heads: int = ...,
    **call: Unpack[_Call],
) -> _Symbol: ...
def interleaved_matmul_encdec_valatt(
    keys_values: _Symbol | None = ..., attention: _Symbol | None = ..., heads: int = ...,
    **call: Unpack[_Call],
) -> _Symbol: ...
def interleaved_matmul_selfatt_qk(
    queries_keys_values: _Symbol | None = ..., heads: int = ..., **call: Unpack[_Call],
) -> _Symbol: ...
def interleaved_matmul_selfatt_valatt(
    queries_keys_values: _Symbol | None = ..., attention: _Symbol | None = ..., heads: int = ...,
    **call: Unpack[_Call],
) -> _Symbol: ...
def layer_norm(
    data: _Symbol | None = ..., gamma: _Symbol | None = ..., beta: _Symbol | None = ...,
    axis: int = -1, eps: float = 1e-05, output_mean_var: bool = False, **call: Unpack[_Call],
) -> _Symbol: ...
def leaky_relu(
    data: _Symbol | None = ..., gamma: _Symbol | None = ..., act_type: str = "leaky",
    slope: float = 0.25, lower_bound: float = 0.125, upper_bound: float = 0.334,
    **call: Unpack[_Call],
) -> _Symbol: ...
def log_softmax(
    data: _Symbol | None = ..., axis: int = -1, temperature: float | None = None, dtype: Any = None,
    use_length: bool = False, **call: Unpack[_Call],
) -> _Symbol: ...
def multibox_detection(
    cls_prob: _Symbol | None = ..., loc_pred: _Symbol | None = ..., anchor: _Symbol | None = ...,
    clip: bool = True, threshold: float = 0.01, background_id: int = 0, nms_threshold: float = 0.5,
    force_suppress: bool = False, variances: _Sizes = ..., nms_topk: int = -1,
    **call: Unpack[_Call],
) -> _Symbol: ...
def multibox_prior(
    data: _Symbol | None = ..., sizes: _Sizes = ..., ratios: _Sizes = ..., clip: bool = False,
    steps: _Sizes = ..., offsets: _Sizes = ..., **call: Unpack[_Call],
) -> _Symbol: ...
def multibox_target(
    anchor: _Symbol | None = ..., label: _Symbol | None = ..., cls_pred: _Symbol | None = ...,
    overlap_threshold: float = 0.5, ignore_label: float = -1.0, negative_mining_ratio: float = -1.0,
    negative_mining_thresh: float = 0.5, minimum_negative_samples: int = 0, variances: _Sizes = ...,
    **call: Unpack[_Call],
) -> _Symbol: ...
def nonzero(x: _Symbol | None = ..., **call: Unpack[_Call]) -> _Symbol: ...
def norm(
    data: _Symbol | None = ..., ord: int = 2, axis: _Sizes | None = None, out_dtype: Any = None,
    keepdims: bool = False, **call: Unpack[_Call],
) -> _Symbol: ...
def one_hot(
    indices: _Symbol | None = ..., depth: int = ..., on_value: float = 1.0, off_value: float = 0.0,
    dtype: Any = ..., **call: Unpack[_Call],
) -> _Symbol: ...
def pick(
    data: _Symbol | None = ..., index: _Symbol | None = ..., axis: int | None = -1,
    keepdims: bool = False, mode: str = "clip", **call: Unpack[_Call],
) -> _Symbol: ...
def pooling(
    data: _Symbol | None = ..., kernel: _Sizes = (), pool_type: str = "max",
    global_pool: bool = False, pooling_convention: str = "valid", stride: _Sizes = (),
    pad: _Sizes = (), p_value: int | None = None, count_include_pad: bool | None = None,
    layout: str | None = None, workspace: Any = ..., cudnn_tune: Any = ..., cudnn_off: Any = ...,
    **call: Unpack[_Call],
) -> _Symbol: ...
def relu(data: _Symbol | None = ..., **call: Unpack[_Call]) -> _Symbol: ...
def reshape_like(
    lhs: _Symbol | None = ..., rhs: _Symbol | None = ..., lhs_begin: int | None = None,
    lhs_end: int | None = None, rhs_begin: int | None = None, rhs_end: int | None = None,
    **call: Unpack[_Call],
) -> _Symbol: ...
def rnn(
    data: _Symbol | None = ..., parameters: _Symbol | None = ..., state: _Symbol | None = ...,
    state_cell: _Symbol | None = ..., sequence_length: _Symbol | None = ..., state_size: int = ...,
    num_layers: int = ..., bidirectional: bool = False, mode: str = ..., p: float = 0.0,
    state_outputs: bool = False, projection_size: int | None = None,
    lstm_state_clip_min: float | None = None, lstm_state_clip_max: float | None = None,
    lstm_state_clip_nan: bool = False, use_sequence_length: bool = False, **call: Unpack[_Call],
) -> _Symbol: ...
def roi_pooling(
    data: _Symbol | None = ..., rois: _Symbol | None = ..., pooled_size: _Sizes = ...,
    spatial_scale: float = ..., **call: Unpack[_Call],
) -> _Symbol: ...
def sequence_mask(
    data: _Symbol | None = ..., sequence_length: _Symbol | None = ...,
    use_sequence_length: bool = False, value: float = 0.0, axis: int = 0, **call: Unpack[_Call],
) -> _Symbol: ...
def shape_array(data: _Symbol | None = ..., **call: Unpack[_Call]) -> _Symbol: ...
def sigmoid(data: _Symbol | None = ..., **call: Unpack[_Call]) -> _Symbol: ...
def slice(
    data: _Symbol | None = ..., begin: _Sizes = ..., end: _Sizes = ..., step: _Sizes = (),
    **call: Unpack[_Call],
) -> _Symbol: ...
def smooth_l1(
    data: _Symbol | None = ..., scalar: float = 1.0, **call: Unpack[_Call],
) -> _Symbol: ...
def softmax(
    data: _Symbol | None = ..., length: _Symbol | None = ..., axis: int = -1,
    temperature: float | None = None, dtype: Any = None, use_length: bool = False,
    **call: Unpack[_Call],
) -> _Symbol: ...
def stop_gradient(data: _Symbol | None = ..., **call: Unpack[_Call]) -> _Symbol: ...
def topk(
    data: _Symbol | None = ..., axis: int | None = -1, k: int = 1, ret_typ: str = "indices",
    is_ascend: bool = False, dtype: Any = ..., **call: Unpack[_Call],
) -> _Symbol: ...

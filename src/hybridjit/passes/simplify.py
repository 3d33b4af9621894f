"""Simplify: compounds are taken apart, and the many spellings of one idea become one.

After this pass the only shape-changing operators are ``_reshape_to`` (literal sizes),
``transpose``, ``slice`` (explicit bounds) and ``broadcast_to``; the only softmax is ``softmax`` or
``log_softmax``; the only matrix products are ``FullyConnected`` on two dimensions and
``batch_dot`` on three without transposition; BatchNorm has one output and no activation.
"""

from __future__ import annotations

from ..ir.graph import Graph, Use, Value, make
from ..ir.rewrite import Match, Replacement, rewrite, rule
from ..ops.activation import gamma_shape
from ..ops.registry import Kind
from ..types import Shape, product
from .compounds import COMPOUNDS
from .compounds_nn import LAYERS
from .compounds_rnn import RECURRENT
from .compounds_vision import VISION
from .moves import cut, reshaped, transposed
from .rearranging import REARRANGING
from .share_equal import share_equal

_PLAIN_IDENTITIES = {
    "_copy",
    "BlockGrad",
    "make_loss",
    "MakeLoss",
    "Dropout",
    "LinearRegressionOutput",
    "MAERegressionOutput",
    "SVMOutput",
    "IdentityAttachKLSparseReg",
    "_contrib_gradientmultiplier",
    "_identity_with_attr_like_rhs",
}

_ALL, _SINGLE_OR_DOUBLE = ("all",), ("float32", "float64")
# Operators without a kernel of their own, and the element types for which their parts have one.
TAKEN_APART: dict[str, tuple[str, ...]] = {
    "BatchNorm_v1": _SINGLE_OR_DOUBLE,
    "LogisticRegressionOutput": _ALL,
    "Pooling_v1": _SINGLE_OR_DOUBLE,
    "_contrib_BatchNormWithReLU": _SINGLE_OR_DOUBLE,
    "_contrib_DeformableConvolution": _SINGLE_OR_DOUBLE,
    "_contrib_ModulatedDeformableConvolution": _SINGLE_OR_DOUBLE,
    "_contrib_SparseEmbedding": _ALL,
    "_contrib_box_decode": _SINGLE_OR_DOUBLE,
    "_contrib_div_sqrt_dim": _SINGLE_OR_DOUBLE,
    "_image_crop": _ALL,
    "_image_flip_left_right": _ALL,
    "_image_flip_top_bottom": _ALL,
    "_image_normalize": _SINGLE_OR_DOUBLE,
    "_image_to_tensor": _ALL,
    "_rnn_param_concat": _ALL,
    "moments": _SINGLE_OR_DOUBLE,
    "softmax_cross_entropy": _SINGLE_OR_DOUBLE,
}


def simplify(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Compounds taken apart, canonical spellings, then what they make redundant or equal."""
    graph = rewrite(graph, (*COMPOUNDS, *LAYERS, *VISION, *RECURRENT), fired)
    graph = rewrite(graph, REARRANGING, fired)
    graph = rewrite(graph, CANONICAL, fired)
    graph = rewrite(graph, (pointwise_on_rows,), fired)
    return share_equal(rewrite(graph, REDUNDANT, fired), fired)


@rule("identity(x)  =>  x")
def drop_identity(value: Value, match: Match) -> Replacement:
    if value.op is None or value.op.name not in _PLAIN_IDENTITIES:
        return None
    if value.attrs.get("mode") == "always" or value.type != value.inputs[0].type:
        return None
    return value.inputs[0]


@rule("reshape by codes, Flatten, expand_dims, squeeze, ...  =>  _reshape_to(x, sizes)")
def literal_reshape(value: Value, match: Match) -> Replacement:
    if not value.is_op("Reshape", "Flatten", "expand_dims", "squeeze", "reshape_like"):
        return None
    return reshaped(value.inputs[0], value.shape, value.name, value.source)


@rule("Cast(x) to the type of x  =>  x")
def drop_cast(value: Value, match: Match) -> Replacement:
    same = value.is_op("Cast", "amp_cast") and value.type == value.inputs[0].type
    return value.inputs[0] if same else None


@rule("SwapAxis(x)  =>  transpose(x)")
def swap_to_transpose(value: Value, match: Match) -> Replacement:
    if not value.is_op("SwapAxis"):
        return None
    axes = list(range(len(value.shape)))
    a, b = value.attrs["dim1"], value.attrs["dim2"]
    axes[a], axes[b] = axes[b], axes[a]
    return transposed(value.inputs[0], tuple(axes), value.name)


@rule("transpose(x, ())  =>  transpose(x, reversed axes)")
def explicit_transpose(value: Value, match: Match) -> Replacement:
    if not value.is_op("transpose") or value.attrs["axes"]:
        return None
    axes = tuple(reversed(range(len(value.shape))))
    return transposed(value.inputs[0], axes, value.name) if axes else None


@rule("slice_axis, slice_like, SliceChannel  =>  slice with explicit bounds")
def explicit_slice(value: Value, match: Match) -> Replacement:
    source = value.inputs[0] if value.inputs else None
    if value.is_op("slice_axis") and source:
        axis, begin = value.attrs["axis"] % source.type.ndim, value.attrs["begin"]
        begin += source.type.dims[axis] if begin < 0 else 0
        return cut(source, axis, begin, value.shape[axis], value.name, value.source)
    if value.is_op("SliceChannel") and source:
        axis = value.attrs["axis"] % source.type.ndim
        size = source.type.dims[axis] // len(value.types)
        parts = (
            cut(source, axis, i * size, size, f"{value.name}:part{i}", value.source)
            for i in range(len(value.types))
        )
        return tuple(
            reshaped(part, t.dims, f"{value.name}:squeezed{i}")
            for i, (part, t) in enumerate(zip(parts, value.types))
        )
    if value.is_op("slice_like") and source and value.type.size:
        return Use(
            make(
                "slice",
                value.name,
                [source],
                value.source,
                begin=(0,) * len(value.shape),
                end=value.shape,
                step=(1,) * len(value.shape),
            )
        )
    return None


@rule("broadcast_axis, broadcast_like  =>  broadcast_to(x, sizes)")
def literal_broadcast(value: Value, match: Match) -> Replacement:
    if not value.is_op("broadcast_axis", "broadcast_like") or 0 in value.shape:
        return None
    if value.type == value.inputs[0].type:
        return value.inputs[0]
    return Use(make("broadcast_to", value.name, value.inputs[:1], value.source, shape=value.shape))


@rule("LeakyReLU(x, gamma, prelu)  =>  _prelu(x, gamma on its axis)")
def aligned_prelu(value: Value, match: Match) -> Replacement:
    if not value.is_op("LeakyReLU") or value.attrs["act_type"] != "prelu":
        return None
    data, gamma = value.inputs
    shape = gamma_shape(data.type.dims, gamma.type.dims)
    if gamma.type.size > 1 and gamma.type.dims != shape:
        gamma = reshaped(gamma, shape, f"{value.name}:gamma")
    return Use(make("_prelu", value.name, [data, gamma], value.source))


@rule("SoftmaxOutput(x, label), SoftmaxActivation(x)  =>  softmax(x)")
def plain_softmax(value: Value, match: Match) -> Replacement:
    if not value.is_op("SoftmaxOutput", "SoftmaxActivation"):
        return None
    data, attrs = value.inputs[0], value.attrs
    shape = data.type.dims
    if attrs.get("preserve_shape") or attrs.get("mode") == "instance":
        return Use(make("softmax", value.name, [data], value.source, axis=-1))
    if attrs.get("multi_output") or attrs.get("mode") == "channel":
        return Use(make("softmax", value.name, [data], value.source, axis=1))
    if len(shape) < 2 or 0 in shape:
        return None
    rows = reshaped(data, (shape[0], product(shape[1:])), f"{value.name}:rows")
    result = Use(make("softmax", f"{value.name}:softmax", [rows], value.source, axis=1))
    return reshaped(result, shape, value.name)


@rule("FullyConnected(x of any rank)  =>  FullyConnected(x as rows)")
def dense_on_rows(value: Value, match: Match) -> Replacement:
    if not value.is_op("FullyConnected"):
        return None
    data, attrs = value.inputs[0], value.attrs
    columns = value.inputs[1].type.dims[1]
    shape = (product(value.shape[:-1]), columns)
    if data.type.shape == shape or data.type.size != product(shape):
        return None
    rows = reshaped(data, shape, f"{value.name}:rows")
    full = dict(attrs) | {"flatten": True}
    name = value.name if len(value.shape) == 2 else f"{value.name}:dense"
    result = make("FullyConnected", name, [rows, *value.inputs[1:]], value.source, **full)
    return reshaped(Use(result), value.shape, value.name)


@rule("f(reshape(x), ...)  =>  reshape(f(x, ...)) behind a product: it ends its kernel")
def pointwise_on_rows(value: Value, match: Match) -> Replacement:
    """For operands of the result's shape, which are reshaped as x is."""
    if value.op is None or value.op.kind is not Kind.POINTWISE or len(value.types) > 1:
        return None
    shape = next((shape for use in value.inputs if (shape := _shape_of_product(use))), None)
    if shape is None or any(use.type.dims != value.shape for use in value.inputs):
        return None
    inputs = [_on_rows(use, shape, f"{value.name}:rows{i}") for i, use in enumerate(value.inputs)]
    result = make(value.op.name, f"{value.name}:on_rows", inputs, value.source, **value.attrs)
    return reshaped(Use(result), value.shape, value.name)


def _on_rows(use: Use, shape: Shape, name: str) -> Use:
    """``use`` under another shape; where it is a reshape of that, what it reshapes."""
    if use.value.is_op("_reshape_to") and use.value.inputs[0].type.dims == shape:
        return use.value.inputs[0]
    return reshaped(use, shape, name)


def _shape_of_product(use: Use) -> Shape | None:
    """The shape of the product, or of what follows from one, that ``use`` is a reshape of."""
    if not use.value.is_op("_reshape_to"):
        return None
    source = use.value.inputs[0]
    while source.value.op is not None and source.value.op.kind is Kind.POINTWISE:
        whole = [u for u in source.value.inputs if u.type.dims == source.type.dims]
        if not whole:
            return None
        source = whole[0]
    is_product = source.value.is_op("FullyConnected", "batch_dot")
    return use.value.inputs[0].type.dims if is_product else None


@rule("dot(a, b)  =>  FullyConnected(a as rows, b as columns)")
def dot_to_dense(value: Value, match: Match) -> Replacement:
    if not value.is_op("dot"):
        return None
    a, b = value.inputs
    if a.type.ndim == 0 or b.type.ndim == 0 or value.type.size == 0 or a.type.size == 0:
        return None
    if value.attrs["transpose_a"] and a.type.ndim > 1:
        a = transposed(a, (*range(1, a.type.ndim), 0), f"{value.name}:a")
    inner = a.type.dims[-1]
    if value.attrs["transpose_b"] and b.type.ndim > 1:
        b = reshaped(b, (b.type.size // inner, inner), f"{value.name}:b")
    else:
        flat = reshaped(b, (inner, b.type.size // inner), f"{value.name}:b_rows")
        b = transposed(flat, (1, 0), f"{value.name}:b")
    rows = reshaped(a, (a.type.size // inner, inner), f"{value.name}:rows")
    count = b.type.dims[0]
    shape = (rows.type.dims[0], count)
    name = value.name if shape == value.shape else f"{value.name}:dense"
    result = make("FullyConnected", name, [rows, b], value.source, num_hidden=count, no_bias=True)
    return reshaped(Use(result), value.shape, value.name)


@rule("batch_dot with transpositions  =>  batch_dot(transpose(a), transpose(b)) on three axes")
def plain_batch_dot(value: Value, match: Match) -> Replacement:
    if not value.is_op("batch_dot"):
        return None
    flags = (value.attrs["transpose_a"], value.attrs["transpose_b"])
    if value.type.size == 0 or (flags == (False, False) and len(value.shape) == 3):
        return None
    sides = []
    for use, flip, side in zip(value.inputs, flags, "ab"):
        rows, columns = use.type.dims[-2:]
        batch = product(use.type.dims[:-2])
        flat = reshaped(use, (batch, rows, columns), f"{value.name}:{side}_flat")
        sides.append(transposed(flat, (0, 2, 1) if flip else (0, 1, 2), f"{value.name}:{side}"))
    name = value.name if len(value.shape) == 3 else f"{value.name}:product"
    return reshaped(Use(make("batch_dot", name, sides, value.source)), value.shape, value.name)


@rule("BatchNorm with statistics as outputs  =>  BatchNorm, mean, 1 / sqrt(variance + eps)")
def single_output_batchnorm(value: Value, match: Match) -> Replacement:
    if not value.is_op("BatchNorm", "_contrib_SyncBatchNorm", "BatchNorm_v1"):
        return None
    attrs = {k: value.attrs[k] for k in ("eps", "fix_gamma", "momentum", "use_global_stats")}
    attrs["axis"] = value.attrs.get("axis", 1) % len(value.shape)
    if value.is_op("BatchNorm") and not value.attrs["output_mean_var"]:
        return None
    plain = Use(make("BatchNorm", value.name, value.inputs, value.source, **attrs))
    if not value.attrs["output_mean_var"]:
        return plain
    _, gamma, _, mean, var = value.inputs
    if value.is_op("BatchNorm_v1"):
        return plain, mean, var
    inverse = make(
        "_bn_scale", f"{value.name}:invstd", [gamma, var], eps=attrs["eps"], fix_gamma=True
    )
    return plain, mean, Use(inverse)


@rule("zeros_like(x), ones_like(x)  =>  a constant")
def constant_like(value: Value, match: Match) -> Replacement:
    if not value.is_op("zeros_like", "ones_like") or value.type.size == 0 or not value.shape:
        return None  # an empty shape attribute stands for an unknown shape
    name = "_zeros" if value.is_op("zeros_like") else "_ones"
    attrs = {"shape": value.shape, "dtype": value.type.dtype}
    return Use(make(name, value.name, [], value.source, **attrs))


@rule("_reshape_to(_reshape_to(x, a), b)  =>  _reshape_to(x, b)")
def merge_reshapes(value: Value, match: Match) -> Replacement:
    if not value.is_op("_reshape_to") or not value.inputs[0].value.is_op("_reshape_to"):
        return None
    return reshaped(value.inputs[0].value.inputs[0], value.shape, value.name)


@rule("transpose(transpose(x, a), b)  =>  transpose(x, a then b)")
def merge_transposes(value: Value, match: Match) -> Replacement:
    if not value.is_op("transpose") or not value.inputs[0].value.is_op("transpose"):
        return None
    inner = value.inputs[0].value
    axes = tuple(inner.attrs["axes"][a] for a in value.attrs["axes"])
    return transposed(inner.inputs[0], axes, value.name)


@rule("transpose(x) that keeps the order of all sizes but 1  =>  _reshape_to(x)")
def transpose_of_ones(value: Value, match: Match) -> Replacement:
    if not value.is_op("transpose"):
        return None
    sizes = value.inputs[0].type.dims
    moved = [a for a in value.attrs["axes"] if sizes[a] != 1]
    if moved != sorted(moved):
        return None
    return reshaped(value.inputs[0], value.shape, value.name)


@rule("Concat(x)  =>  x")
def drop_single_concat(value: Value, match: Match) -> Replacement:
    single = value.is_op("Concat", "add_n") and len(value.inputs) == 1
    return value.inputs[0] if single else None


CANONICAL = (
    drop_identity,
    drop_cast,
    literal_reshape,
    swap_to_transpose,
    explicit_transpose,
    explicit_slice,
    literal_broadcast,
    aligned_prelu,
    plain_softmax,
    dense_on_rows,
    dot_to_dense,
    plain_batch_dot,
    single_output_batchnorm,
    constant_like,
    drop_single_concat,
)
REDUNDANT = (merge_reshapes, merge_transposes, transpose_of_ones)

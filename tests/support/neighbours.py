"""Layers that become a kernel, and epilogues that may be computed in the same kernel.

In: the names of a layer and of its epilogue. Out: the outputs of a graph, an array for every
variable in it, and which variables are parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from compiling import call, var
from hybridjit._core.options import Options
from hybridjit._core.types import FLOAT32, FLOAT64, TensorType
from hybridjit.ir.node import Output, topological
from hybridjit.passes.infer import infer_node_types

Layer = Callable[[Output], Output]
Shape = tuple[int, ...]


class Network(NamedTuple):
    """A graph, an array for every variable, and the names of the variables that are parameters.

    ``options`` are the compiler's.
    """

    outputs: list[Output]
    arrays: dict[str, np.ndarray]
    params: list[str]
    options: Options = Options()

    @property
    def inputs(self) -> list[np.ndarray]:
        return [a for n, a in self.arrays.items() if n not in self.params]


def in_bfloat16(net: Network) -> Network:
    """The same network with products of bfloat16."""
    return net._replace(options=Options(precision="bfloat16"))


def in_double(net: Network) -> Network:
    """The same network with its float32 arrays in float64."""
    wide = {n: a.astype(FLOAT64) if a.dtype == FLOAT32 else a for n, a in net.arrays.items()}
    return net._replace(arrays=wide)


def layer(op: str, *others: Output, **attrs: object) -> Layer:
    return lambda x: call(op, x, *others, name="layer", **attrs)


def conv(filters: int, kernel: Shape = (3, 3), **attrs: object) -> Layer:
    weights = (var("w"), var("b"))
    return layer("Convolution", *weights, kernel=kernel, num_filter=filters, **attrs)


def deconv(filters: int, kernel: Shape, **attrs: object) -> Layer:
    weights = (var("w"), var("b"))
    both = {"kernel": kernel, "num_filter": filters, "no_bias": False, **attrs}
    return layer("Deconvolution", *weights, **both)


def pool(**attrs: object) -> Layer:
    return layer("Pooling", **attrs)


def dense(units: int) -> Layer:
    return layer("FullyConnected", var("w"), var("b"), num_hidden=units)


def dense_across(units: int, axis: int = 1) -> Layer:
    """A dense layer on places of sequences, which a mean along this axis has put together."""

    def make(x: Output) -> Output:
        across = call("broadcast_sub", x, call("mean", x, axis=axis, keepdims=True), name="before")
        weights = (var("w"), var("b"))
        return call(
            "FullyConnected", across, *weights, num_hidden=units, flatten=False, name="layer"
        )

    return make


def conv_weight(shape: Shape, kernel: Shape = (3, 3), **attrs: object) -> Layer:
    """The gradient of a convolution by its weight, from the result's gradient of this shape."""
    return layer("_convolution_by_weight", var("d", shape), kernel=kernel, **attrs)


def unpool(result: Shape, **attrs: object) -> Layer:
    """The gradient of maximum pooling, from its result's gradient of this shape."""

    def make(x: Output) -> Output:
        both = {"kernel": (), **attrs}
        y = call("Pooling", x, name="pooled", **{k: v for k, v in both.items() if k != "to_all"})
        return call("_back_from_max_pooling", x, y, var("d", result), name="layer", **both)

    return make


def unpool_average(shape: Shape, **attrs: object) -> Layer:
    """The same of average pooling of data of this shape."""
    op = "_back_from_average_pooling"
    return lambda x: call(op, x, name="layer", shape=shape, **attrs)


def recurrent(mode: str, hidden: int, **attrs: object) -> Layer:
    """The fused recurrent operator; its begin states are inputs."""
    states = [var("h"), *([var("c")] if mode == "lstm" else [])]
    return layer("RNN", var("w"), *states, mode=mode, state_size=hidden, num_layers=1, **attrs)


LSTM = {"mode": "lstm", "state_size": 19, "num_layers": 1}
GRU = {"mode": "gru", "state_size": 18, "num_layers": 1}


def recurrent_back(mode: str, data: Shape, hidden: int) -> Layer:
    """Backward through steps from saved values; in reverse order for a plain cell."""
    steps, batch = data[:2]
    state, y = (batch, hidden), (steps, batch, hidden)
    reads = {"lstm": [var("c", state)], "gru": [var("y", y), var("h", state)]}.get(mode, [])
    heads = [var("d", y), *([var("e", state)] if mode == "lstm" else [])]
    weight = var("w", (hidden, {"lstm": 4, "gru": 3}.get(mode, 1) * hidden))
    attrs = {"mode": mode, "backward": not reads, "of_cell": mode == "lstm"}
    return lambda x: call("_rnn_steps_back", x, *reads, weight, *heads, name="layer", **attrs)


def inside(make: Layer, axes: int = 2) -> Layer:
    """The layer in the midst of a region with channels last: a pooling over one place before it."""
    return lambda x: make(call("Pooling", x, name="before", kernel=(1,) * axes))


LAYERS: dict[str, tuple[Layer, Shape]] = {
    "conv3x3-first": (conv(7, pad=(1, 1)), (2, 5, 9, 10)),
    "conv7x7-first": (conv(18, (7, 7), stride=(2, 2), pad=(3, 3)), (1, 3, 17, 19)),
    "conv3x3": (inside(conv(40, pad=(1, 1))), (2, 12, 7, 13)),
    "conv1x1": (inside(conv(18, (1, 1))), (2, 17, 5, 6)),
    "conv-strided": (inside(conv(16, (5, 3), stride=(2, 3), pad=(2, 0))), (1, 3, 16, 15)),
    "conv-dilated": (inside(conv(9, dilate=(2, 2), pad=(2, 2))), (1, 8, 9, 9)),
    "conv-grouped": (inside(conv(12, num_group=3, pad=(1, 1))), (2, 6, 7, 7)),
    "conv-winograd": (inside(conv(70, pad=(1, 1))), (2, 65, 12, 13)),
    "conv-winograd-volume": (
        inside(conv(70, (3, 3, 3), pad=(1, 1, 1)), axes=3),
        (1, 65, 4, 11, 9),
    ),
    "conv-winograd-dilated": (inside(conv(70, dilate=(3, 2), pad=(3, 1))), (1, 65, 13, 20)),
    "conv-winograd-strided": (inside(conv(35, stride=(2, 2), pad=(1, 0))), (2, 33, 29, 27)),
    "conv-winograd-groups": (inside(conv(105, num_group=3, pad=(1, 1))), (2, 99, 12, 13)),
    "conv-winograd-row": (inside(conv(34, (1, 7), pad=(0, 3))), (1, 33, 5, 13)),
    "conv-winograd-column": (inside(conv(33, (5, 1), stride=(2, 2), pad=(2, 0))), (2, 34, 27, 7)),
    "conv-winograd-5x5": (inside(conv(33, (5, 5), pad=(2, 1))), (1, 35, 11, 14)),
    "conv-strassen": (inside(conv(384, (1, 1))), (2, 384, 5, 19)),
    "conv-small-groups": (inside(conv(36, num_group=9, pad=(1, 1))), (2, 36, 7, 8)),
    "conv-eights": (inside(conv(40, num_group=5, pad=(1, 1))), (2, 40, 7, 8)),
    "conv-pairs": (inside(conv(10, (3, 2), stride=(1, 2), num_group=5)), (1, 10, 8, 9)),
    "depthwise": (inside(conv(19, num_group=19, pad=(1, 1))), (2, 19, 7, 8)),
    "conv1d": (inside(conv(6, (3,), pad=(1,)), 1), (2, 5, 12)),
    "conv3d-3x3": (inside(conv(70, (1, 3, 3), pad=(0, 1, 1)), 3), (1, 65, 3, 12, 13)),
    "conv3d-flat": (inside(conv(70, (1, 3, 3), pad=(0, 1, 1)), 3), (1, 65, 1, 12, 13)),
    "conv3d": (inside(conv(5, (2, 3, 3), pad=(0, 1, 1)), 3), (1, 4, 4, 5, 6)),
    "deconv": (inside(deconv(18, (4, 3), stride=(2, 2), pad=(1, 0), adj=(0, 1))), (2, 5, 6, 7)),
    "deconv-depthwise": (
        inside(deconv(17, (2, 5), stride=(3, 2), dilate=(2, 1), num_group=17)),
        (1, 17, 4, 5),
    ),
    "weight": (conv_weight((3, 40, 7, 13), (3, 5), pad=(1, 2)), (3, 12, 7, 13)),
    "weight-winograd": (conv_weight((1, 82, 32, 33), pad=(2, 1)), (1, 65, 30, 33)),
    "weight-strided": (conv_weight((2, 18, 3, 4), (1, 1), stride=(2, 2)), (2, 17, 5, 7)),
    "weight-blocks": (conv_weight((9, 83, 6, 7), (1, 1)), (9, 17, 6, 7)),
    "weight-few": (conv_weight((2, 6, 8, 9), (5, 5)), (2, 1, 12, 13)),
    "weight-lines": (conv_weight((3, 2, 9, 21), (4, 5), pad=(1, 2)), (3, 1, 10, 21)),
    "weight-dilated": (conv_weight((2, 9, 9, 8), pad=(4, 4), dilate=(4, 4)), (2, 8, 9, 8)),
    "weight-grouped": (
        conv_weight((2, 12, 4, 7), (3, 2), stride=(2, 1), num_group=3),
        (2, 6, 9, 8),
    ),
    "weight-depthwise": (
        conv_weight((2, 19, 4, 4), stride=(2, 2), pad=(1, 1), num_group=19),
        (2, 19, 7, 8),
    ),
    "weight-1d": (conv_weight((2, 6, 12), (3,), pad=(1,)), (2, 5, 12)),
    "weight-3d": (conv_weight((1, 5, 3, 5, 6), (2, 3, 3), pad=(0, 1, 1)), (1, 4, 4, 5, 6)),
    "dense": (dense(21), (3, 37)),
    "dense-strassen": (dense_across(384), (2, 95, 384)),
    "dense-strassen-places-first": (dense_across(384, axis=0), (95, 2, 384)),
    "dense-one-row": (dense(64), (1, 50)),
    "batch-dot": (layer("batch_dot", var("other", (3, 17, 19))), (3, 5, 17)),
    "batch-dot-turned": (
        layer("batch_dot", var("other", (2, 45, 35)), transpose_b=True),
        (2, 14, 35),
    ),
    "attention": (
        layer("_attention", var("k", (2, 3, 300, 18)), var("v", (2, 3, 300, 21))),
        (2, 3, 14, 18),
    ),
    "maxpool": (inside(pool(kernel=(3, 3), stride=(2, 2), pad=(1, 1))), (2, 19, 9, 8)),
    "avgpool": (pool(kernel=(2, 2), pool_type="avg"), (1, 5, 6, 7)),
    "global-pool": (pool(pool_type="avg", global_pool=True), (2, 18, 5, 5)),
    "unpool": (unpool((2, 19, 4, 3), kernel=(2, 2), stride=(2, 2)), (2, 19, 8, 7)),
    "unpool-over": (
        unpool((2, 70, 5, 4), kernel=(3, 3), stride=(2, 2), pad=(1, 1)),
        (2, 70, 9, 8),
    ),
    "unpool-ties": (
        unpool((2, 5, 6, 5), kernel=(2, 3), stride=(1, 1), to_all=True),
        (2, 5, 7, 7),
    ),
    "unpool-global": (unpool((3, 5, 1, 1), global_pool=True), (3, 5, 4, 6)),
    "unpool-3d": (unpool((1, 4, 2, 3, 3), kernel=(3, 2, 2), stride=(2, 3, 2)), (1, 4, 5, 8, 7)),
    "unpool-sum": (
        unpool_average((2, 6, 9), kernel=(3,), stride=(2,), pool_type="sum"),
        (2, 6, 4),
    ),
    "unpool-average": (
        unpool_average(
            (2, 18, 7, 8),
            kernel=(3, 3),
            stride=(2, 2),
            pad=(1, 1),
            pool_type="avg",
            count_include_pad=False,
            pooling_convention="full",
        ),
        (2, 18, 4, 5),
    ),
    "sum-last": (layer("sum", axis=(2,)), (3, 5, 33)),
    "max-middle": (layer("max", axis=(1,), keepdims=True), (2, 7, 19)),
    "layer-norm": (layer("LayerNorm", var("w"), var("b")), (3, 5, 18)),
    "layer-norm-across": (layer("LayerNorm", var("w"), var("b"), axis=1), (2, 35, 18)),
    "instance-norm": (layer("InstanceNorm", var("w"), var("b")), (2, 5, 6, 7)),
    "instance-norm-last": (inside(layer("InstanceNorm", var("w"), var("b"))), (2, 19, 16, 17)),
    "group-norm": (layer("GroupNorm", var("w"), var("b"), num_groups=3), (2, 6, 3, 5)),
    "l2-norm": (inside(layer("L2Normalization", mode="channel")), (2, 20, 3, 4)),
    "lrn": (layer("LRN", nsize=5, alpha=0.5), (2, 19, 3, 7)),
    "lrn-last": (inside(layer("LRN", nsize=5, alpha=0.5)), (2, 19, 3, 7)),
    "upsampling": (
        inside(layer("UpSampling", scale=2, sample_type="nearest", num_args=1)),
        (2, 19, 4, 5),
    ),
    "bilinear": (layer("_contrib_BilinearResize2D", height=7, width=8), (2, 17, 4, 5)),
    "adaptive": (layer("_contrib_AdaptiveAvgPooling2D", output_size=(3, 2)), (2, 19, 7, 5)),
    "softmax": (layer("softmax"), (3, 35)),
    "lstm": (recurrent("lstm", 19, bidirectional=True), (3, 2, 5)),
    "gru": (recurrent("gru", 18), (2, 9, 4)),
    "rnn": (recurrent("rnn_tanh", 5), (3, 1, 6)),
    "lstm-kept": (
        layer("_RNN_keeping", var("w"), var("h"), var("c"), **LSTM),
        (3, 2, 5),
    ),
    "gru-kept": (layer("_RNN_keeping", var("w"), var("h"), **GRU), (2, 9, 4)),
    "lstm-back": (recurrent_back("lstm", (3, 2), 19), (3, 2, 95)),
    "gru-back": (recurrent_back("gru", (2, 9), 18), (2, 9, 72)),
    "rnn-back": (recurrent_back("rnn_tanh", (3, 1), 5), (3, 1, 5)),
    "softmax-across": (layer("log_softmax", axis=1), (2, 5, 18)),
}


def norm(y: Output) -> Output:
    states = [var(f"bn_{n}") for n in ("gamma", "beta", "mean", "var")]
    return call("BatchNorm", y, *states, fix_gamma=False)


# Consumers of the layer's result y: ``same`` is a tensor like y, ``channel`` has one number per
# sample and channel, ``place`` one per place.
TAILS: dict[str, Callable[[Output], list[Output]]] = {
    "nothing": lambda y: [y],
    "relu": lambda y: [call("relu", y)],
    "residual-relu": lambda y: [call("relu", call("elemwise_add", y, var("same")))],
    "residual-first": lambda y: [call("elemwise_sub", var("same"), y)],
    "gate": lambda y: [call("broadcast_mul", y, var("channel"))],
    "places": lambda y: [call("broadcast_add", y, var("place"))],
    "batchnorm-relu": lambda y: [call("relu", norm(y))],
    "swish": lambda y: [call("elemwise_mul", y, call("sigmoid", y))],
    "twice": lambda y: [call("relu", y), y],
    "scalar-clip": lambda y: [
        call("clip", call("_plus_scalar", y, scalar=0.5), a_min=-0.25, a_max=0.75)
    ],
    "prelu": lambda y: [call("LeakyReLU", y, var("slope"), act_type="prelu")],
}
FIXED = frozenset({"w", "b", "slope", *(f"bn_{n}" for n in ("gamma", "beta", "mean", "var"))})


def network(make: Layer, shape: Shape, tail: str = "nothing") -> Network:
    """``make`` on an input of this shape, with ``tail`` behind it."""
    outputs = TAILS[tail](make(var("x")))
    known = _shapes(make, shape)
    random = np.random.default_rng(len(shape) + sum(shape))
    needed = [n.name for n in topological(outputs) if n.is_variable]
    arrays = {n: random.normal(0, 1, known[n]).astype(np.float32) for n in needed}
    if "w" in arrays:  # results of about one, whatever the size of the layer
        arrays["w"] /= np.float32(np.sqrt(arrays["w"][0].size))
    if "bn_var" in arrays:
        arrays["bn_var"] = np.abs(arrays["bn_var"]) + np.float32(0.5)
    return Network(outputs, arrays, [n for n in arrays if n in FIXED])


def _shapes(make: Layer, shape: Shape) -> dict[str, Shape]:
    """The shape of every variable that a layer or a tail may have."""
    types = infer_node_types([make(var("x"))], {"x": TensorType(shape, FLOAT32)})
    known = {n.name: t[0].dims for n, t in types.items()}
    known.pop("before", None)
    result = known.pop("layer")
    channels, places = result[1], result[2:]
    return known | {
        "same": result,
        "channel": (result[0], channels, *(1 for _ in places)),
        "place": (1, 1, *places),
        **dict.fromkeys(FIXED - set(known), (channels,)),
    }


# Layers whose weights kernels pack if they are not parameters.
_PACKED = (
    "conv3x3-first", "conv7x7-first", "conv3x3", "conv1x1", "conv-strided", "conv-dilated",
    "conv-grouped", "conv-winograd", "conv-small-groups", "conv-eights", "conv-pairs", "depthwise",
    "conv1d", "conv3d-flat", "conv3d", "deconv", "deconv-depthwise", "dense", "dense-one-row",
    "lstm", "gru", "rnn",
)  # fmt: skip
LIVE: dict[str, tuple[Layer, Shape]] = {
    **{name: LAYERS[name] for name in _PACKED},
    "deconv-small-groups": (
        inside(deconv(12, (3, 3), stride=(2, 2), num_group=4)), (1, 12, 4, 5)
    ),
    "conv-winograd-at-once": (inside(conv(128, (3, 3), pad=(1, 1))), (1, 128, 8, 8)),
    "conv-winograd-groups": (inside(conv(128, num_group=2, pad=(1, 1))), (1, 66, 12, 13)),
    "deconv-winograd": (inside(deconv(70, (3, 3), pad=(1, 1))), (1, 65, 12, 13)),
    "deconv-without-taps": (inside(deconv(9, (1, 2), stride=(2, 3), pad=(0, 1))), (2, 5, 4, 3)),
    "conv-few": (inside(conv(2, (3, 5), pad=(1, 2))), (2, 3, 24, 24)),
    "dense-many-rows": (dense(130), (70, 300)),
    "dense-long": (dense(40), (20, 9000)),
    "dense-one-row": (dense(45), (1, 2061)),
    "dense-one-short-row": (dense(3), (1, 19)),
    "dense-columns": (layer("dot", var("w", (37, 21))), (5, 37)),
    "dense-many-columns": (layer("dot", var("w", (300, 130))), (90, 300)),
    "lstm-wide": (recurrent("lstm", 40), (2, 3, 20)),
}  # fmt: skip
# How a weight [F, C, h, w] may lie in memory: the order of the stored axes, and the step
# along its last axis.
STORED = {
    "filters first": ((0, 1, 2, 3), 1),
    "channels last": ((0, 2, 3, 1), 1),
    "filters last": ((1, 2, 3, 0), 1),
    "every second": ((0, 1, 2, 3), 2),
}


def live(net: Network) -> Network:
    """The same network with inputs in place of its parameters."""
    return net._replace(params=[])


def of_stored(op: str, shape: Shape, weight: Shape, stored: str, **attrs: object) -> Network:
    """A convolution in a region with channels last, whose live weight lies in memory as it is said.

    ``weight`` is its shape as the operator takes it.
    """
    axes, step = STORED[stored]
    inside_memory = [weight[axis] for axis in axes]
    inside_memory[-1] *= step
    begin, steps = (0,) * len(axes), (*(1,) * (len(axes) - 1), step)
    cut = call("slice", var("w"), begin=begin, end=tuple(inside_memory), step=steps)
    w = call("transpose", cut, axes=tuple(np.argsort(axes)))
    x = call("Pooling", var("x"), name="before", kernel=(1,) * (len(axes) - 2))
    random = np.random.default_rng(sum(shape) + sum(weight))
    arrays = {"x": random.normal(0, 1, shape), "w": random.normal(0, 0.1, inside_memory)}
    outputs = [call(op, x, w, kernel=weight[2:], no_bias=True, name="layer", **attrs)]
    return Network(outputs, {n: a.astype(FLOAT32) for n, a in arrays.items()}, [])


def of_bytes(filters: int, shape: Shape, kernel: Shape = (3, 3), **attrs: object) -> Network:
    """A convolution of bytes with channels last, quantized again."""
    groups = attrs.get("num_group", 1)
    assert isinstance(groups, int)
    random = np.random.default_rng(filters + sum(shape))
    weight = (filters, *kernel, shape[-1] // groups)
    arrays = {
        "x": random.integers(0, 256, shape).astype(np.uint8),
        "w": random.integers(-127, 128, weight).astype(np.int8),
    }
    how = {"kernel": kernel, "num_filter": filters, "no_bias": True, "layout": "NHWC", **attrs}
    sums = call("_integer_convolution", var("x"), var("w"), name="layer", **how)
    scaled = call("_mul_scalar", call("Cast", sums, dtype="float32"), scalar=2.0**-10)
    made = call("_to_bytes", scaled, scale=0.5, zero=100, dtype="uint8")
    return Network([made], arrays, ["w"])


def dense_of_bytes(rows: int, size: int, filters: int) -> Network:
    """A dense layer of bytes without a zero point, in float32."""
    random = np.random.default_rng(rows + size + filters)
    arrays = {
        "x": random.integers(0, 256, (rows, size)).astype(np.uint8),
        "w": random.integers(-127, 128, (filters, size)).astype(np.int8),
    }
    attrs = {"num_hidden": filters, "no_bias": True, "name": "layer"}
    sums = call("_integer_dense", var("x"), var("w"), **attrs)  # type: ignore[arg-type]
    made = call("_mul_scalar", call("Cast", sums, dtype="float32"), scalar=2.0**-10)
    return Network([made], arrays, ["w"])


def matrices_of_bytes(rows: int, size: int, columns: int, turned: bool = False) -> Network:
    """Products of matrices of bytes with zero points, in float32."""
    random = np.random.default_rng(rows + size + columns)
    shape = (2, columns, size) if turned else (2, size, columns)
    arrays = {
        "x": random.integers(0, 256, (2, rows, size)).astype(np.uint8),
        "z": random.integers(0, 256, shape).astype(np.uint8),
    }
    attrs = {"lhs_zero": 9, "rhs_zero": 100, "transpose_b": turned, "name": "layer"}
    sums = call("_integer_batch_dot", var("x"), var("z"), **attrs)  # type: ignore[arg-type]
    made = call("_mul_scalar", call("Cast", sums, dtype="float32"), scalar=2.0**-10)
    return Network([made], arrays, [])


def table_of_bytes(size: int) -> Network:
    """Bytes of a table of 256 bytes."""
    random = np.random.default_rng(size)
    arrays = {
        name: random.integers(0, 256, n).astype(np.uint8) for name, n in (("x", size), ("t", 256))
    }
    return Network([call("take", var("t"), var("x"), name="layer")], arrays, ["t"])


def pool_of_bytes(shape: Shape) -> Network:
    """Max pooling of bytes with channels last."""
    arrays = {"x": np.random.default_rng(sum(shape)).integers(0, 256, shape).astype(np.uint8)}
    attrs = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 1), "pool_type": "max"}
    made = call("_byte_pooling", var("x"), name="layer", layout="NHWC", **attrs)  # type: ignore[arg-type]
    return Network([made], arrays, [])


def bordered_pixels(channels: int, width: int) -> Network:
    """A border around bytes whose channels become the last axis."""
    shape = (1, channels, 3, width)
    arrays = {"x": np.random.default_rng(width).integers(0, 256, shape).astype(np.uint8)}
    last = call("transpose", var("x"), axes=(0, 2, 3, 1))
    border = {"before": (0, 1, 1, 0), "after": (0, 0, 2, 0), "value": 9.0}
    made = call("_pad_axes", last, name="layer", mode="constant", **border)  # type: ignore[arg-type]
    return Network([made], arrays, [])


def of_nibbles(rows: int, size: int, filters: int, block: int) -> Network:
    """A dense layer with weights of 4 bits and its relu."""
    random = np.random.default_rng(rows + size + filters)
    arrays = {
        "x": random.normal(0, 1, (rows, size)).astype(FLOAT32),
        "w": random.integers(0, 256, (filters, size // 2)).astype(np.uint8),
        "s": random.normal(0, 0.1, (filters, size // block)).astype(FLOAT32),
    }
    dense = call("_nibble_dense", *map(var, "xws"), block=block, name="layer")
    return Network([call("relu", dense)], arrays, ["w", "s"])

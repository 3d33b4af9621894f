"""Random gluon layers: every layer, cell and loss, with arguments over their whole range.

In: a stream of choices and a layer's name. Out: its path and arguments, and its input arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mxnet_side.draw import Draw
from mxnet_side.ops_layers import LAST, LAYOUTS, each


@dataclass
class LayerCase:
    """A layer to build on both sides: the arguments of ``layer_call.built``, and arrays in
    order."""

    layer: list[Any]
    arrays: list[np.ndarray]
    call: str = "call"  # or "states": all arrays but the first are one list; or "unroll"
    steps: int = 0
    layout: str = "NTC"
    merge: bool | None = None
    lengths: bool = False
    tolerance: float = 3e-5

    def __str__(self) -> str:
        shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in self.arrays)
        return f"{self.layer} on {shapes}"


Recipe = Callable[[Draw, str], LayerCase]
LAYERS: dict[str, Recipe] = {}
ACTIVATIONS = (None, "relu", "sigmoid", "tanh", "softrelu", "softsign")


def recipe(names: str) -> Callable[[Recipe], Recipe]:
    def add(function: Recipe) -> Recipe:
        LAYERS.update(dict.fromkeys(names.split(), function))
        return function

    return add


def one_or_each(draw: Draw, rank: int, low: int, high: int) -> Any:
    return draw.pick(draw.int(low, high), each(draw, rank, low, high))


def full(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else value


@recipe("nn.Conv1D nn.Conv2D nn.Conv3D contrib.cnn.DeformableConvolution "
        "contrib.cnn.ModulatedDeformableConvolution")  # fmt: skip
def convolution(draw: Draw, name: str) -> LayerCase:
    is_plain = name.startswith("nn.")
    rank = int(name[-2]) if is_plain else 2
    group = draw.pick(1, 1, 2, 3) if is_plain else 1
    channels = group * draw.int(1, 4)
    kernel = one_or_each(draw, rank, 1, 3)
    given = draw.some(
        strides=one_or_each(draw, rank, 1, 2), padding=one_or_each(draw, rank, 0, 2),
        dilation=one_or_each(draw, rank, 1, 2), activation=draw.pick(*ACTIVATIONS),
        use_bias=draw.chance(0.5), in_channels=channels,
    )  # fmt: skip
    given.update(draw.some(layout=LAYOUTS[rank][0]) if is_plain else {})
    given.update(channels=group * draw.int(1, 5), kernel_size=kernel)
    given.update({"groups": group} if group > 1 else {})
    if not is_plain and draw.chance(0.3) and channels % 2 == 0:
        given["num_deformable_group"] = 2
    spread = full(given.get("dilation", 1), rank)
    extent = [(k - 1) * d + draw.int(1, 6) for k, d in zip(full(kernel, rank), spread)]
    return LayerCase([name, given], [draw.normal((draw.int(1, 2), channels, *extent))])


@recipe("nn.Conv1DTranspose nn.Conv2DTranspose nn.Conv3DTranspose")
def transposed(draw: Draw, name: str) -> LayerCase:
    rank, group = int(name[7]), draw.pick(1, 1, 2)
    channels, stride = group * draw.int(1, 3), one_or_each(draw, rank, 1, 3)
    given = draw.some(
        padding=draw.pick(0, 1), activation=draw.pick(*ACTIVATIONS), use_bias=draw.chance(0.5),
        in_channels=channels, strides=stride,
    )  # fmt: skip
    low = min(full(given.get("strides", 1), rank)) - 1
    given.update(draw.some(output_padding=draw.int(0, low)))
    given.update(channels=group * draw.int(1, 4), kernel_size=one_or_each(draw, rank, 3, 4))
    given.update({"groups": group} if group > 1 else {})
    shape = (draw.int(1, 2), channels, *each(draw, rank, 1, 5))
    return LayerCase([name, given], [draw.normal(shape)])


@recipe("nn.MaxPool1D nn.MaxPool2D nn.MaxPool3D nn.AvgPool1D nn.AvgPool2D nn.AvgPool3D")
def pooling(draw: Draw, name: str) -> LayerCase:
    rank = int(name[-2])
    size = one_or_each(draw, rank, 1, 3)
    given = draw.some(pool_size=size, ceil_mode=draw.chance(0.5))
    given.update(draw.some(strides=draw.pick(None, one_or_each(draw, rank, 1, 3))))
    low = min(full(given.get("pool_size", 2), rank))
    given.update(draw.some(padding=draw.int(0, low - 1)))
    if "Avg" in name:
        given.update(draw.some(count_include_pad=draw.chance(0.5)))
        if rank == 3:  # MXNet has nan for empty windows there, 0 in one and two axes
            given.pop("ceil_mode", None)
    return on_image(draw, name, given, rank, 3)


@recipe("nn.GlobalMaxPool1D nn.GlobalMaxPool2D nn.GlobalMaxPool3D nn.GlobalAvgPool1D "
        "nn.GlobalAvgPool2D nn.GlobalAvgPool3D")  # fmt: skip
def global_pooling(draw: Draw, name: str) -> LayerCase:
    return on_image(draw, name, {}, int(name[-2]), 1)


def on_image(draw: Draw, name: str, given: dict[str, Any], rank: int, low: int) -> LayerCase:
    """Channels second or, for pooling, last."""
    shape = (draw.int(1, 2), draw.int(1, 5), *each(draw, rank, low, 7 if rank < 3 else 5))
    data = draw.normal(shape)
    if draw.chance(0.25):
        given["layout"] = LAST[rank]
        data = np.moveaxis(data, 1, -1).copy()
    return LayerCase([name, given], [data])


@recipe("nn.Dense")
def dense(draw: Draw, name: str) -> LayerCase:
    shape = draw.shape(2, 4)
    flatten = draw.chance(0.5)
    given = draw.some(activation=draw.pick(*ACTIVATIONS), use_bias=draw.chance(0.5))
    given.update(draw.some(in_units=int(np.prod(shape[1:])) if flatten else shape[-1]))
    given.update({} if flatten and draw.chance(0.5) else {"flatten": flatten})
    dtype = draw.pick("float32", "float32", "float64")
    given.update({"dtype": dtype} if dtype != "float32" else {})
    return LayerCase([name, {"units": draw.int(1, 9), **given}], [draw.normal(shape, dtype)])


@recipe("nn.BatchNorm nn.BatchNormReLU contrib.nn.SyncBatchNorm nn.InstanceNorm nn.LayerNorm "
        "nn.GroupNorm")  # fmt: skip
def norm(draw: Draw, name: str) -> LayerCase:
    shape = draw.shape(3, 4)
    given = draw.some(center=draw.chance(0.5), scale=draw.chance(0.5), epsilon=0.01)
    if "Batch" in name:
        given.update(draw.some(momentum=0.5, use_global_stats=draw.chance(0.5)))
    if name == "nn.BatchNormReLU" or name == "contrib.nn.SyncBatchNorm":
        shape = (*shape[:2], *shape[2:])
    elif name != "nn.GroupNorm":
        axis = draw.int(-len(shape), len(shape) - 1)
        given.update(draw.some(axis=axis if name != "nn.InstanceNorm" else draw.pick(1, 2, -1)))
    if name == "nn.GroupNorm":
        groups = draw.int(1, 3)
        shape = (shape[0], groups * draw.int(1, 3), *shape[2:])
        given["num_groups"] = groups
    if name == "contrib.nn.SyncBatchNorm":
        given.update(draw.some(in_channels=shape[1]))
    # few numbers: their variance is a difference of nearly equal ones
    return LayerCase([name, given], [draw.normal(shape)], tolerance=3e-4)


@recipe("nn.Activation nn.LeakyReLU nn.PReLU nn.ELU nn.SELU nn.GELU nn.Swish nn.Flatten nn.Dropout "
        "nn.HybridLambda contrib.nn.Identity")  # fmt: skip
def activation(draw: Draw, name: str) -> LayerCase:
    shape = draw.shape(2, 5)
    arguments: dict[str, Any] = {
        "nn.Activation": {"activation": draw.pick(*ACTIVATIONS[1:])},
        "nn.LeakyReLU": {"alpha": draw.pick(0.1, 0, 1)},
        "nn.PReLU": draw.some(in_channels=shape[1]),
        "nn.ELU": draw.some(alpha=draw.pick(0.5, 2)),
        "nn.Swish": draw.some(beta=draw.pick(0.5, -1, 2)),
        "nn.Dropout": {"rate": draw.pick(0, 0.4), **draw.some(axes=draw.pick((), (1,)))},
        "nn.HybridLambda": {"function": draw.pick("tanh", "sigmoid", "square")},
    }
    return LayerCase([name, arguments.get(name, {})], [draw.normal(shape)])


@recipe("nn.Embedding contrib.nn.SparseEmbedding")
def embedding(draw: Draw, name: str) -> LayerCase:
    rows = draw.int(1, 9)
    given: dict[str, Any] = {"input_dim": rows, "output_dim": draw.int(1, 6)}
    if name == "nn.Embedding":
        given.update(draw.some(dtype=draw.pick("float32", "float64")))
    dtype = draw.pick("float32", "int32")
    return LayerCase([name, given], [draw.integers(draw.shape(1, 3), 0, rows, dtype)])


@recipe("nn.ReflectionPad2D")
def reflection(draw: Draw, name: str) -> LayerCase:
    width = draw.pick(0, 1, 2, (0, 0, 0, 0, *each(draw, 4, 0, 2)))
    return LayerCase([name, {"padding": width}], [draw.normal((2, 3, *each(draw, 2, 3, 6)))])


@recipe("contrib.nn.PixelShuffle1D contrib.nn.PixelShuffle2D contrib.nn.PixelShuffle3D")
def shuffle(draw: Draw, name: str) -> LayerCase:
    rank = int(name[-2])
    factor = one_or_each(draw, rank, 1, 3) if rank > 1 else draw.int(1, 3)
    channels = draw.int(1, 3) * int(np.prod(full(factor, rank)))
    shape = (draw.int(1, 2), channels, *each(draw, rank, 1, 4))
    return LayerCase([name, {"factor": factor}], [draw.normal(shape)])


@recipe("nn.HybridSequential contrib.nn.HybridConcurrent")
def container(draw: Draw, name: str) -> LayerCase:
    children = [["nn.Dense", {"units": draw.int(1, 5)}] for _ in range(draw.int(1, 3))]
    return LayerCase([name, {}, *children], [draw.normal(draw.shape(2, 3))])


@recipe("rnn.RNN rnn.LSTM rnn.GRU")
def fused(draw: Draw, name: str) -> LayerCase:
    hidden, layers, ways = draw.int(1, 7), draw.int(1, 3), draw.int(1, 2)
    steps, batch, width = draw.int(1, 5), draw.int(1, 3), draw.int(1, 6)
    layout = draw.pick("TNC", "NTC")
    given = draw.some(dropout=0.3, input_size=width, layout=layout, bidirectional=ways == 2)
    given.update(draw.some(num_layers=layers))
    ways, layers = 1 + given.get("bidirectional", False), given.get("num_layers", 1)
    width_of_state = hidden
    if name == "rnn.RNN":
        given.update(draw.some(activation=draw.pick("relu", "tanh")))
    if name == "rnn.LSTM":
        given.update(draw.pick({}, {}, {"state_clip_min": -0.2, "state_clip_max": 0.3}))
        if draw.chance(0.25):
            width_of_state = given["projection_size"] = draw.int(1, hidden)
    is_time_first = given.get("layout", "TNC") == "TNC"
    shape = (steps, batch, width) if is_time_first else (batch, steps, width)
    arrays = [draw.normal(shape)]
    if draw.chance(0.5):
        arrays.append(draw.normal((layers * ways, batch, width_of_state)))
        if name == "rnn.LSTM":
            arrays.append(draw.normal((layers * ways, batch, hidden)))
    layer = [name, {"hidden_size": hidden, **given}]
    return LayerCase(layer, arrays, "states", tolerance=1e-4)


def a_cell(draw: Draw, width: int, hidden: int) -> tuple[list[Any], list[int]]:
    """A simple cell, and the widths of its states."""
    kind = draw.pick("RNN", "LSTM", "GRU", "LSTMP")
    given: dict[str, Any] = {"hidden_size": hidden, **draw.some(input_size=width)}
    if kind == "LSTMP":
        given.update(hidden_size=hidden + draw.int(0, 3), projection_size=hidden)
        return ["contrib.rnn.LSTMPCell", given], [hidden, given["hidden_size"]]
    if kind == "RNN":
        given.update(draw.some(activation=draw.pick(*ACTIVATIONS[1:])))
    if kind == "LSTM":
        given.update(draw.some(activation="relu", recurrent_activation="softsign"))
    return [f"rnn.{kind}Cell", given], [hidden] * (2 if kind == "LSTM" else 1)


@recipe("rnn.RNNCell rnn.ResidualCell rnn.ZoneoutCell rnn.DropoutCell rnn.BidirectionalCell "
        "rnn.HybridSequentialRNNCell contrib.rnn.VariationalDropoutCell")  # fmt: skip
def cell(draw: Draw, name: str) -> LayerCase:
    width, batch, steps = draw.int(1, 5), draw.int(1, 3), draw.int(1, 4)
    hidden = width if name == "rnn.ResidualCell" else draw.int(1, 5)
    first, states = a_cell(draw, width, hidden)
    if name == "rnn.RNNCell":
        layer = first
    elif name == "rnn.DropoutCell":
        layer, states = [name, {"rate": 0.3}], []
    elif name == "rnn.BidirectionalCell":
        second, more = a_cell(draw, width, draw.int(1, 5))
        layer, states = [name, {"l_cell": first, "r_cell": second}], states + more
    elif name == "rnn.HybridSequentialRNNCell":
        second, more = a_cell(draw, hidden, draw.int(1, 5))
        layer, states = [name, {}, first, ["rnn.DropoutCell", {"rate": 0.2}], second], states + more
    else:
        rates = {"rnn.ZoneoutCell": {"zoneout_outputs": 0.2, "zoneout_states": 0.3}}
        layer = [name, {"base_cell": first, **rates.get(name, {})}]
    layout = draw.pick("NTC", "TNC")
    shape = (batch, steps, width) if layout == "NTC" else (steps, batch, width)
    case = LayerCase(layer, [draw.normal(shape)], "unroll", steps, layout)
    case.merge = draw.pick(None, True, False)
    if draw.chance(0.3) and name not in ("rnn.ZoneoutCell", "rnn.DropoutCell"):
        case.lengths = True
        case.arrays.append(draw.integers((batch,), 1, steps + 1, "float32"))
    if draw.chance(0.5) or name == "rnn.BidirectionalCell" or case.lengths:
        case.arrays += [draw.normal((batch, size)) for size in states]
    case.tolerance = 1e-4
    return case


@recipe(
    " ".join(f"contrib.rnn.Conv{n}D{kind}Cell" for n in "123" for kind in ("RNN", "LSTM", "GRU"))
)
def convolutional_cell(draw: Draw, name: str) -> LayerCase:
    rank, steps, batch = int(name[16]), draw.int(1, 3), draw.int(1, 2)
    shape = (draw.int(1, 3), *each(draw, rank, 3, 5))
    given: dict[str, Any] = {"input_shape": shape, "hidden_channels": draw.int(1, 3)}
    given.update(i2h_kernel=(3,) * rank, h2h_kernel=(draw.pick(1, 3),) * rank)
    given.update(draw.some(i2h_pad=(1,) * rank, activation=draw.pick("relu", "tanh")))
    given.update(draw.some(h2h_dilate=(draw.int(1, 2),) * rank))
    data = draw.normal((batch, steps, *shape))
    return LayerCase([name, given], [data], "unroll", steps, "NTC", True, tolerance=1e-4)


@recipe("loss.L2Loss loss.L1Loss loss.SigmoidBCELoss loss.HuberLoss loss.HingeLoss "
        "loss.SquaredHingeLoss loss.LogisticLoss loss.PoissonNLLLoss loss.KLDivLoss "
        "loss.TripletLoss")  # fmt: skip
def loss(draw: Draw, name: str) -> LayerCase:
    shape = draw.shape(2, 4)
    pred, label = draw.normal(shape), draw.uniform(shape, 0.05, 0.95)
    given = draw.some(weight=draw.pick(0.5, 2), batch_axis=draw.pick(0, 0, 1))
    kind = name.removeprefix("loss.")
    if "Hinge" in kind or kind == "LogisticLoss":
        label = np.sign(draw.normal(shape))
    if kind == "SigmoidBCELoss":
        given.update(draw.some(from_sigmoid=draw.chance(0.5)))
        pred = draw.uniform(shape, 0.05, 0.95) if given.get("from_sigmoid") else pred
    if kind == "LogisticLoss" and draw.chance(0.5):
        given["label_format"], label = "binary", (label + 1) / 2
    if kind in ("PoissonNLLLoss", "KLDivLoss"):
        given.update(draw.some(from_logits=draw.chance(0.5)))
        if not given.get("from_logits", True) and kind == "PoissonNLLLoss":
            pred = np.abs(pred)
    if kind == "PoissonNLLLoss" and draw.chance(0.3):
        given["compute_full"], label = True, np.round(label * 9)
    given.update(draw.some(rho=0.4) if kind == "HuberLoss" else {})
    given.update(draw.some(margin=0.4) if "Hinge" in kind or kind == "TripletLoss" else {})
    arrays = [pred, label] if kind != "TripletLoss" else [pred, label, draw.normal(shape)]
    if draw.chance(0.3) and kind != "TripletLoss":
        arrays.append(draw.uniform((shape[0], *(1,) * (len(shape) - 1)), 0, 2))
    return LayerCase([name, given], arrays, tolerance=1e-4)


@recipe("loss.SoftmaxCELoss")
def entropy(draw: Draw, name: str) -> LayerCase:
    shape = draw.shape(2, 3)
    axis = draw.int(1, len(shape) - 1)
    given = draw.some(axis=draw.pick(axis, axis - len(shape)), weight=0.5, from_logits=True)
    axis = given.get("axis", -1) % len(shape)
    rest = tuple(size for a, size in enumerate(shape) if a != axis)
    label = draw.integers(rest, 0, shape[axis], "float32")
    if draw.chance(0.4):
        given["sparse_label"], label = False, draw.uniform(shape, 0, 1)
    return LayerCase([name, given], [draw.normal(shape), label], tolerance=1e-4)


@recipe("loss.CosineEmbeddingLoss")
def cosine(draw: Draw, name: str) -> LayerCase:
    shape = draw.shape(2, 2)
    arrays = [draw.normal(shape), draw.normal(shape), np.sign(draw.normal(shape[:1]))]
    return LayerCase([name, draw.some(margin=0.2, weight=2)], arrays, tolerance=1e-4)


@recipe("loss.CTCLoss")
def ctc(draw: Draw, name: str) -> LayerCase:
    steps, batch, classes, width = draw.int(5, 8), draw.int(1, 3), draw.int(3, 6), draw.int(1, 2)
    layout, label_layout = draw.pick("NTC", "TNC"), draw.pick("NT", "TN")
    pred = draw.normal((batch, steps, classes) if layout == "NTC" else (steps, batch, classes))
    shape = (batch, width) if label_layout == "NT" else (width, batch)
    label = draw.integers(shape, 0, classes - 1, "float32")
    given = {"layout": layout, "label_layout": label_layout, **draw.some(weight=0.5)}
    return LayerCase([name, given], [pred, label], tolerance=1e-4)

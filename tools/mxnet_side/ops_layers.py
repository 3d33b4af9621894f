"""Recipes of the layers: convolutions, pooling, dense, normalisation, products, recurrent nets."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxnet_side.draw import Draw
from mxnet_side.singles import FLOATS, Single, axis_of, fixed, recipe, special

LAYOUTS = {1: ("NCW",), 2: ("NCHW",), 3: ("NCDHW",)}
LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
WIDE = ("float32", "float32", "float64")


def each(draw: Draw, rank: int, low: int, high: int) -> tuple[int, ...]:
    return tuple(draw.int(low, high) for _ in range(rank))


def weights(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    fan_in = max(int(np.prod(shape[1:])), 1)
    return draw.normal(shape) / np.float32(np.sqrt(fan_in))


def bias(draw: Draw, given: dict[str, Any], filters: int, none: bool = False) -> list[np.ndarray]:
    return [] if given.get("no_bias", none) else [draw.normal((filters,))]


@recipe("Convolution", WIDE)
def convolution(draw: Draw, name: str) -> Single:
    rank = draw.pick(1, 2, 2, 2, 3)
    group = draw.pick(1, 1, 2, 3)
    channels, filters = group * draw.int(1, 5), group * draw.int(1, 9)
    kernel = each(draw, rank, 1, 4)
    given: dict[str, Any] = {"kernel": kernel, "num_filter": filters}
    given.update(draw.some(stride=each(draw, rank, 1, 3), pad=each(draw, rank, 0, 3)))
    given.update(draw.some(dilate=each(draw, rank, 1, 3), no_bias=draw.chance(0.5)))
    given.update(draw.some(layout=draw.pick(None, *LAYOUTS[rank]), workspace=512))
    if group > 1 or draw.chance(0.3):
        given["num_group"] = group
    spread = [(k - 1) * d + 1 for k, d in zip(kernel, given.get("dilate", (1,) * rank))]
    extent = [max(s - 2 * p, 1) for s, p in zip(spread, given.get("pad", (0,) * rank))]
    extent = [n + draw.int(0, {1: 20, 2: 9, 3: 4}[rank]) for n in extent]
    data = draw.normal((draw.int(1, 3), channels, *extent))
    arrays = [data, weights(draw, (filters, channels // group, *kernel))]
    return Single(name, arrays + bias(draw, given, filters), given)


@recipe("Convolution_v1")
def convolution_v1(draw: Draw, name: str) -> Single:
    kernel, group = each(draw, 2, 1, 3), draw.pick(1, 1, 2)
    filters, channels = group * draw.int(1, 5), group * draw.int(1, 4)
    given: dict[str, Any] = {"kernel": kernel, "num_filter": filters}
    given.update({"num_group": group} if group > 1 else draw.some(layout="NCHW"))
    given.update(draw.some(stride=each(draw, 2, 1, 2), pad=each(draw, 2, 0, 2), no_bias=True))
    given.update(draw.some(dilate=each(draw, 2, 1, 2)))
    arrays = [
        draw.normal((2, channels, 7, 9)),
        weights(draw, (filters, channels // group, *kernel)),
    ]
    return Single(name, arrays + bias(draw, given, filters), given)


@recipe("Deconvolution", WIDE)
def deconvolution(draw: Draw, name: str) -> Single:
    rank = draw.pick(1, 2, 2, 2, 3)
    group = draw.pick(1, 1, 2, 3)
    channels, each_filters = group * draw.int(1, 5), draw.int(1, 5)
    kernel, stride = each(draw, rank, 1, 4), each(draw, rank, 1, 3)
    extent = each(draw, rank, 1, 7 if rank < 3 else 4)
    given: dict[str, Any] = {"kernel": kernel, "num_filter": group * each_filters}
    given.update(draw.some(stride=stride, no_bias=draw.chance(0.5)))
    given.update(draw.some(dilate=each(draw, rank, 1, 2), layout=LAYOUTS[rank][0]))
    if group > 1:
        given["num_group"] = group
    stride, dilate = given.get("stride", (1,) * rank), given.get("dilate", (1,) * rank)
    spread = [d * (k - 1) + 1 for k, d in zip(kernel, dilate)]
    full = [s * (n - 1) + k for n, s, k in zip(extent, stride, spread)]
    if draw.chance(0.2):
        given["target_shape"] = tuple(draw.int(max(1, f - 3), f) for f in full)
    elif draw.chance(0.5):
        given["pad"] = tuple(draw.int(0, (k - 1) // 2) for k in spread)
    if "target_shape" not in given and draw.chance(0.5):
        given["adj"] = tuple(draw.int(0, s - 1) for s in stride)
    data = draw.normal((draw.int(1, 2), channels, *extent))
    arrays = [data, weights(draw, (channels, each_filters, *kernel))]
    arrays += bias(draw, given, given["num_filter"], True)
    if "dilate" in given:  # in double precision MXNet's own code takes the stride for it
        arrays = [fixed(array) for array in arrays]
    return Single(name, arrays, given)


@recipe("Pooling", FLOATS)
def pooling(draw: Draw, name: str) -> Single:
    rank = draw.pick(1, 2, 2, 2, 3)
    kernel = each(draw, rank, 1, 4)
    kind = draw.pick("max", "max", "avg", "avg", "sum", "lp")
    given: dict[str, Any] = draw.some(stride=each(draw, rank, 1, 4), layout=LAYOUTS[rank][0])
    given.update(draw.some(pad=tuple(draw.int(0, k - 1) for k in kernel)))
    given.update(draw.some(pooling_convention=draw.pick("valid", "full"), pool_type=kind))
    given.update(draw.some(count_include_pad=draw.pick(True, False, None)))
    kind = given.get("pool_type", "max")
    if draw.chance(0.2):
        given["global_pool"] = True
    if not given.get("global_pool") or draw.chance(0.5):
        given["kernel"] = kernel
    if kind == "lp":
        given["p_value"] = draw.int(1, 3)
    if rank == 3 and kind == "avg":  # MXNet has nan for empty windows there, 0 in one and two axes
        given.pop("pooling_convention", None)
    extent = [k + draw.int(0, 9 if rank < 3 else 4) for k in kernel]
    data = draw.normal((draw.int(1, 3), draw.int(1, 9), *extent))
    if kind != "lp":
        data = special(draw, data, 0.15)
    if rank == 1 and kind == "max" and draw.chance(0.3):
        given.update(pooling_convention="same", pad=(0,) * 3)
    elif draw.chance(0.25):
        given["layout"] = LAST[rank]
        data = np.moveaxis(data, 1, -1).copy()
    return Single(name, [data], given)


@recipe("Pooling_v1")
def pooling_v1(draw: Draw, name: str) -> Single:
    kernel = each(draw, 2, 1, 3)
    given: dict[str, Any] = {"kernel": kernel, **draw.some(stride=each(draw, 2, 1, 3))}
    given.update(draw.some(pool_type=draw.pick("max", "avg", "sum"), global_pool=True))
    given.update(draw.some(pad=tuple(draw.int(0, k - 1) for k in kernel)))
    given.update(draw.some(pooling_convention=draw.pick("valid", "full")))
    extent = [k + draw.int(0, 8) for k in kernel]
    return Single(name, [draw.normal((2, draw.int(1, 4), *extent))], given)


@recipe("FullyConnected", WIDE)
def dense(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    hidden = draw.int(1, 20)
    given = draw.some(flatten=draw.chance(0.5), no_bias=draw.chance(0.5))
    width = shape[-1]
    if given.get("flatten", True):
        width = int(np.prod(shape[1:]))
    arrays = [draw.normal(shape), weights(draw, (hidden, width)), *bias(draw, given, hidden)]
    return Single(name, arrays, {"num_hidden": hidden, **given})


@recipe("BatchNorm _contrib_BatchNormWithReLU _contrib_SyncBatchNorm BatchNorm_v1")
def batch_norm(draw: Draw, name: str) -> Single:
    shape = draw.shape(2, 5)
    given = draw.some(
        eps=draw.pick(1e-5, 0.1), momentum=draw.pick(0.5, 0), fix_gamma=draw.chance(0.5)
    )
    given.update(draw.some(use_global_stats=draw.chance(0.5)))
    axis = 1
    if name in ("BatchNorm", "_contrib_BatchNormWithReLU"):
        given.update(draw.some(axis=axis_of(draw, len(shape))))
        axis = given.get("axis", 1)
        if draw.chance(0.2):
            given.update(min_calib_range=-1.0, max_calib_range=1.0)
    if name == "_contrib_SyncBatchNorm":
        given.update(key="bn", **draw.some(ndev=1))
    if draw.chance(0.15) and name != "_contrib_SyncBatchNorm":  # MXNet leaves them unwritten
        given["output_mean_var"] = True
    size = (shape[axis],)
    gamma, beta, mean = (draw.normal(size) for _ in range(3))
    arrays = [draw.normal(shape), gamma, beta, mean, draw.uniform(size, 0.3, 2)]
    return Single(name, arrays, given)


@recipe("Dropout", FLOATS)
def dropout(draw: Draw, name: str) -> Single:
    always = draw.chance(0.2)
    given = draw.some(p=draw.pick(0, 0.3, 0.9), axes=draw.pick((), (0,), None))
    given.update({"mode": "always"} if always else draw.some(mode="training"))
    return Single(name, [draw.normal(draw.shape(1, 4))], given, has_values=not always)


@recipe("InstanceNorm LayerNorm GroupNorm")
def normalisation(draw: Draw, name: str) -> Single:
    shape = draw.shape(3 if name != "LayerNorm" else 2, 4)
    given = draw.some(eps=draw.pick(1e-5, 0.1))
    size = shape[1]
    if name == "LayerNorm":
        given.update(draw.some(axis=axis_of(draw, len(shape))))
        size = shape[given.get("axis", -1)]
    if name == "GroupNorm":
        size = draw.int(1, 4)
        shape = (shape[0], size * draw.int(1, 3), *shape[2:])
        given.update(num_groups=size)
    if name != "InstanceNorm" and draw.chance(0.25):
        given["output_mean_var"] = True
    arrays = [draw.normal(shape), draw.normal((size,)), draw.normal((size,))]
    # few numbers: their variance is a difference of nearly equal ones
    return Single(name, arrays, given, tolerance=3e-4)


@recipe("L2Normalization")
def l2(draw: Draw, name: str) -> Single:
    mode = draw.pick("instance", "channel", "spatial")
    shape = draw.shape(2 if mode == "instance" else 3, 5)
    return Single(name, [draw.normal(shape)], draw.some(mode=mode, eps=draw.pick(1e-10, 0.1)))


@recipe("LRN")
def lrn(draw: Draw, name: str) -> Single:
    given = draw.some(alpha=draw.pick(1e-4, 0.1, 1), beta=draw.pick(0.5, 1.5))
    given.update(draw.some(knorm=draw.pick(1, 3)))
    shape = (draw.int(1, 3), draw.int(1, 12), draw.int(1, 6), draw.int(1, 6))
    return Single(name, [draw.normal(shape)], {"nsize": draw.pick(1, 3, 5, 7), **given})


@recipe("UpSampling", WIDE)
def upsampling(draw: Draw, name: str) -> Single:
    scale = draw.int(1, 4)
    batch, channels = draw.int(1, 2), draw.int(1, 4)
    height, width = draw.int(1, 6), draw.int(1, 6)
    data = draw.normal((batch, channels, height, width))
    if draw.chance(0.35):
        size = 2 * scale - scale % 2
        kernel = draw.normal((channels, 1, size, size))
        given = {"scale": scale, "sample_type": "bilinear", "num_filter": channels, "num_args": 2}
        return Single(name, [data, kernel], given)
    arrays = [data]
    summed = draw.chance(0.5)
    for _ in range(draw.pick(0, 0, 1, 2)):
        factor = draw.pick(*[f for f in (1, 2, 3, 4) if scale % f == 0])
        deep = channels if summed else draw.int(1, 4)
        arrays.append(draw.normal((batch, deep, height * factor, width * factor)))
    given = {"scale": scale, "sample_type": "nearest", "num_args": len(arrays)}
    given.update({"multi_input_mode": "sum"} if summed else draw.some(multi_input_mode="concat"))
    return Single(name, arrays, given)


@recipe("Crop", WIDE)
def crop(draw: Draw, name: str) -> Single:
    height, width = draw.int(2, 9), draw.int(2, 9)
    arrays = [draw.normal((2, draw.int(1, 3), height, width))]
    h, w = draw.int(1, height), draw.int(1, width)
    given: dict[str, Any] = {}
    if draw.chance(0.4):
        arrays.append(draw.normal((2, draw.int(1, 3), h, w)))
    else:
        given["h_w"] = (h, w)
    if draw.chance(0.4):
        given["center_crop"] = True
    else:
        given.update(draw.some(offset=(draw.int(0, height - h), draw.int(0, width - w))))
    return Single(name, arrays, {"num_args": len(arrays), **given})


@recipe("dot", WIDE)
def dot(draw: Draw, name: str) -> Single:
    m, n, k = draw.int(1, 20), draw.int(1, 20), draw.int(1, 20)
    a, b = draw.chance(0.4), draw.chance(0.4)
    left, right = draw.pick((), (m,), (m, 2)), draw.pick((), (n,), (n, 2))
    lhs = (k, *left) if a and left else (*left, k)
    rhs = (*right, k) if b and right else (k, *right)
    given = draw.some(transpose_a=a, transpose_b=b, forward_stype=draw.pick("default", None))
    if a or b:
        given.update(transpose_a=a, transpose_b=b)
    return Single(name, [draw.normal(lhs), draw.normal(rhs)], given)


@recipe("batch_dot _linalg_gemm2 _linalg_gemm", WIDE)
def batch_dot(draw: Draw, name: str) -> Single:
    m, n, k = draw.int(1, 12), draw.int(1, 12), draw.int(1, 12)
    lead = draw.shape(1, 2) if name != "_linalg_gemm2" else draw.pick((), (3,), (2, 2))
    a, b = draw.chance(0.5), draw.chance(0.5)
    lhs, rhs = (k, m) if a else (m, k), (n, k) if b else (k, n)
    given = {k: v for k, v in (("transpose_a", a), ("transpose_b", b)) if v or draw.chance(0.5)}
    shapes = [lhs, rhs] + ([(m, n)] if name == "_linalg_gemm" else [])
    axis = -2
    if name == "batch_dot":
        given.update(draw.some(forward_stype=draw.pick("default", None)))
    else:
        given.update(draw.some(alpha=draw.pick(0.5, -2)))
        if lead and draw.chance(0.3):
            axis = draw.pick(-3, 0)
            given["axis"] = axis
    if name == "_linalg_gemm":
        given.update(draw.some(beta=draw.pick(0.5, -2, 0)))
    arrays = [np.moveaxis(draw.normal((*lead, *s)), -2, axis).copy() for s in shapes]
    return Single(name, arrays, given)


@recipe("khatri_rao", WIDE)
def khatri_rao(draw: Draw, name: str) -> Single:
    columns = draw.int(1, 5)
    arrays = [draw.normal((draw.int(1, 4), columns)) for _ in range(draw.int(1, 4))]
    return Single(name, arrays, {"num_args": len(arrays)})


@recipe("RNN", WIDE)
def rnn(draw: Draw, name: str) -> Single:
    mode = draw.pick("lstm", "lstm", "gru", "rnn_tanh", "rnn_relu")
    layers, directions, hidden = draw.int(1, 3), draw.int(1, 2), draw.int(1, 9)
    steps, batch, width = draw.int(1, 6), draw.int(1, 4), draw.int(1, 9)
    given: dict[str, Any] = {"mode": mode, "state_size": hidden, "num_layers": layers}
    given.update(draw.some(p=draw.pick(0, 0.5), state_outputs=draw.chance(0.7)))
    if directions == 2:
        given["bidirectional"] = True
    out = hidden
    if mode == "lstm" and draw.chance(0.2):
        out = given["projection_size"] = draw.int(1, hidden)
    if mode == "lstm" and draw.chance(0.2):
        given.update(lstm_state_clip_min=draw.pick(-0.3, -1), lstm_state_clip_max=0.4)
        given.update(draw.some(lstm_state_clip_nan=draw.chance(0.5)))
    gates = {"lstm": 4, "gru": 3}.get(mode, 1)
    size, inner = 0, width
    for _ in range(layers):
        each_way = gates * hidden * (inner + out) + 2 * gates * hidden
        each_way += out * hidden if "projection_size" in given else 0
        size += directions * each_way
        inner = directions * out
    arrays = [draw.normal((steps, batch, width)), draw.uniform((size,), -0.6, 0.6)]
    arrays.append(draw.normal((layers * directions, batch, out)))
    if mode == "lstm":
        arrays.append(draw.normal((layers * directions, batch, hidden)))
    if draw.chance(0.15):
        given["use_sequence_length"] = True
        arrays.append(fixed(draw.integers((batch,), 1, steps + 1, arrays[0].dtype.name)))
    return Single(name, arrays, given, tolerance=1e-4)


@recipe("im2col", WIDE)
def im2col(draw: Draw, name: str) -> Single:
    kernel = each(draw, 2, 1, 3)  # MXNet's only works on planes
    given = draw.some(stride=each(draw, 2, 1, 2), pad=each(draw, 2, 0, 2))
    given.update(draw.some(dilate=each(draw, 2, 1, 2)))
    extent = [2 * k + draw.int(0, 3) for k in kernel]
    return Single(name, [draw.normal((2, draw.int(1, 3), *extent))], {"kernel": kernel, **given})


@recipe("col2im", WIDE)
def col2im(draw: Draw, name: str) -> Single:
    kernel = each(draw, 2, 1, 3)
    given: dict[str, Any] = draw.some(stride=each(draw, 2, 1, 2), pad=each(draw, 2, 0, 2))
    given.update(draw.some(dilate=each(draw, 2, 1, 2)))
    size = tuple(2 * k + draw.int(0, 3) for k in kernel)
    steps = 1
    for n, k, s, p, d in zip(
        size, kernel, given.get("stride", (1, 1)), given.get("pad", (0, 0)),
        given.get("dilate", (1, 1)),
    ):  # fmt: skip
        steps *= (n + 2 * p - d * (k - 1) - 1) // s + 1
    data = draw.normal((2, draw.int(1, 3) * kernel[0] * kernel[1], steps))
    return Single(name, [data], {"output_size": size, "kernel": kernel, **given})


@recipe("CTCLoss")
def ctc(draw: Draw, name: str) -> Single:
    steps, batch, classes = draw.int(3, 8), draw.int(1, 3), draw.int(3, 6)
    width = draw.int(1, 3)
    blank = draw.pick("first", "last")
    low, high = (1, classes) if blank == "first" else (0, classes - 1)
    label = draw.integers((batch, width), low, high, "float32")
    given: dict[str, Any] = draw.some(blank_label=blank)
    if given.get("blank_label", "first") == "first":
        label = np.maximum(label, 1)
    arrays = [draw.normal((steps, batch, classes)), fixed(label)]
    if draw.chance(0.4):
        given["use_data_lengths"] = True
        low = min(2 * width + 1, steps)
        arrays.append(fixed(draw.integers((batch,), low, steps + 1, "float32")))
    if draw.chance(0.4):
        given["use_label_lengths"] = True
        arrays.append(fixed(draw.integers((batch,), 1, width + 1, "float32")))
    return Single(name, arrays, given, tolerance=1e-4)


@recipe(
    "_contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_selfatt_valatt "
    "_contrib_interleaved_matmul_encdec_qk _contrib_interleaved_matmul_encdec_valatt"
)
def attention(draw: Draw, name: str) -> Single:
    heads, width = draw.int(1, 4), draw.int(1, 9)
    length, other, batch = draw.int(1, 7), draw.int(1, 6), draw.int(1, 3)
    is_self = "selfatt" in name
    memory = draw.normal((length if is_self else other, batch, heads * width * (2 + is_self)))
    reach = length if is_self else other
    arrays = [memory]
    if name.endswith("valatt"):
        arrays.append(draw.uniform((batch * heads, length, reach), 0, 1))
    elif not is_self:
        arrays.insert(0, draw.normal((length, batch, heads * width)))
    return Single(name, arrays, {"heads": heads})

"""Random cases of the layers: convolution, pooling, dense, normalisation, activation, softmax.

Sizes lie around the kernels' tiles; every attribute takes every kind of value that MXNet's CPU
build can run. The caller skips cases that MXNet rejects, so ranges may be generous.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridjit import sym
from hybridjit.sym import Symbol
from mxnet_side.draw import Case, Draw, data

ACTIVATIONS = ("relu", "sigmoid", "tanh", "softrelu", "softsign")
LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def rank_of(draw: Draw) -> int:
    return draw.pick(2, 2, 2, 2, 2, 1, 3)


def sizes(draw: Draw, rank: int, low: int, high: int) -> tuple[int, ...]:
    """One number for all axes, mostly; else one for each."""
    if draw.chance(0.6):
        return (draw.int(low, high),) * rank
    return tuple(draw.int(low, high) for _ in range(rank))


def tail(draw: Draw, x: Symbol, channel_axis: int = 1, prefix: str = "tail") -> Symbol:
    """Some common epilogues of a layer."""
    for step in range(draw.pick(0, 0, 1, 1, 2, 3)):
        kind = draw.pick("act", "relu", "bn", "leaky", "clip", "scalar", "residual", "gate")
        name = f"{prefix}{step}"
        if kind == "act":
            x = sym.Activation(x, act_type=draw.pick(*ACTIVATIONS), name=name)
        elif kind == "relu":
            x = sym.relu(x, name=name)
        elif kind == "bn":
            x = batch_norm(draw, x, name, axis=channel_axis)
        elif kind == "leaky":
            x = leaky(draw, x, name)
        elif kind == "clip":
            x = sym.clip(x, a_min=draw.pick(0, -1), a_max=draw.pick(0.5, 6), name=name)
        elif kind == "scalar":
            x = x * draw.pick(0.5, 2, -1.25) + draw.pick(0, 1, -0.5)
        elif kind == "residual":
            x = x + sym.Activation(x, act_type=draw.pick(*ACTIVATIONS), name=name)
        else:
            x = x * sym.sigmoid(x, name=name)
    return x


def batch_norm(draw: Draw, x: Symbol, name: str, axis: int = 1) -> Symbol:
    given = draw.some(
        eps=draw.pick(1e-5, 1e-3, 0.1),
        fix_gamma=draw.chance(0.5),
        use_global_stats=draw.chance(0.5),
        momentum=0.5,
    )
    return sym.BatchNorm(x, axis=axis, name=name, **given)


def leaky(draw: Draw, x: Symbol, name: str) -> Symbol:
    kind = draw.pick("leaky", "elu", "selu", "gelu", "prelu", "rrelu")
    return sym.LeakyReLU(x, act_type=kind, name=name, **draw.some(slope=draw.pick(0.1, 0.7)))


def convolution(draw: Draw) -> Case:
    rank = rank_of(draw)
    group, channels, filters = groups(draw)
    kernel = draw.pick((3,) * rank, (1,) * rank, sizes(draw, rank, 1, 3), sizes(draw, rank, 1, 7))
    given = draw.some(
        stride=sizes(draw, rank, 1, 3),
        pad=sizes(draw, rank, 0, 3),
        dilate=draw.pick((1,) * rank, sizes(draw, rank, 1, 3)),
        no_bias=draw.chance(0.6),
        layout=LAYOUTS[rank],
    )
    if group > 1:
        given["num_group"] = group
    extent = [
        max((k - 1) * d + 1 - 2 * p, 1) + draw.int(0, {1: 40, 2: 18, 3: 6}[rank])
        for k, d, p in zip(kernel, given.get("dilate", (1,) * 3), given.get("pad", (0,) * 3))
    ]
    x = sym.Convolution(data(), kernel=kernel, num_filter=filters, name="conv", **given)
    shape = (draw.pick(1, 1, 2, 3), channels, *extent)
    return Case(tail(draw, x), {"data": draw.normal(shape)}, tolerance=2e-5)


def groups(draw: Draw) -> tuple[int, int, int]:
    """Number of groups, input channels, filters: one group, depthwise, or several."""
    kind = draw.pick("one", "one", "one", "depthwise", "several")
    if kind == "one":
        return 1, draw.channels(), draw.channels()
    group = draw.channels() if kind == "depthwise" else draw.int(2, 5)
    if kind == "depthwise":
        return group, group, group * draw.pick(1, 1, 1, 2, 3)
    return group, group * draw.int(1, 9), group * draw.int(1, 9)


def convolution_3x3(draw: Draw) -> Case:
    """Where Winograd's transform may be chosen: 3x3, stride 1, many channels."""
    channels, filters = draw.pick(8, 16, 17, 24, 32, 40), draw.pick(8, 15, 16, 32, 40)
    pad = draw.pick((0, 0), (1, 1), (1, 0), (2, 2))
    x = sym.Convolution(
        data(), kernel=(3, 3), num_filter=filters, pad=pad, name="conv", no_bias=draw.chance(0.5)
    )
    shape = (draw.pick(1, 1, 2, 5), channels, draw.int(3, 30), draw.int(3, 30))
    return Case(tail(draw, x), {"data": draw.normal(shape)}, tolerance=5e-5)


def deconvolution(draw: Draw) -> Case:
    rank = draw.pick(2, 2, 2, 1)
    group, channels, filters = groups(draw)
    kernel = sizes(draw, rank, 1, 5)
    stride = sizes(draw, rank, 1, 3)
    given = draw.some(
        stride=stride,
        pad=tuple(draw.int(0, (k - 1) // 2) for k in kernel),
        dilate=draw.pick((1,) * rank, sizes(draw, rank, 1, 2)),
        no_bias=draw.chance(0.5),
        num_group=group,
    )
    if "stride" in given and draw.chance(0.5):
        given["adj"] = tuple(draw.int(0, s - 1) for s in stride)
    if "num_group" not in given:
        channels, filters = draw.channels(), draw.channels()
    x = sym.Deconvolution(data(), kernel=kernel, num_filter=filters, name="deconv", **given)
    extent = [draw.int(1, 12) for _ in range(rank)]
    shape = (draw.pick(1, 2), channels, *extent)
    return Case(tail(draw, x), {"data": draw.normal(shape)}, tolerance=2e-5)


def pooling(draw: Draw) -> Case:
    rank = rank_of(draw)
    kind = draw.pick("max", "max", "avg", "avg", "sum", "lp")
    kernel = sizes(draw, rank, 1, 4)
    given = draw.some(
        kernel=kernel,
        stride=sizes(draw, rank, 1, 4),
        pad=tuple(draw.int(0, k - 1) for k in kernel),
        pooling_convention=draw.pick("valid", "full"),
        count_include_pad=draw.chance(0.5),
        global_pool=draw.chance(0.4),
    )
    if not given.get("global_pool"):
        given["kernel"] = kernel
    if rank == 3 and kind == "avg":  # MXNet has nan for empty windows there, 0 in one and two axes
        given.pop("pooling_convention", None)
    if kind == "lp":
        given["p_value"] = draw.int(1, 3)
    extent = [k + draw.int(0, 12 if rank < 3 else 5) for k in kernel]
    x = sym.Pooling(data(), pool_type=kind, name="pool", **given)
    shape = (draw.pick(1, 1, 2, 3), draw.channels(), *extent)
    return Case(tail(draw, x), {"data": draw.normal(shape)})


def dense(draw: Draw) -> Case:
    shape = draw.pick(
        (draw.int(1, 9), draw.int(1, 130)), (draw.int(1, 70), draw.channels()), draw.shape(3, 4)
    )
    flatten = draw.chance(0.5)
    given = draw.some(no_bias=draw.chance(0.5))
    hidden = draw.pick(draw.channels(), draw.int(1, 130))
    x = sym.FullyConnected(data(), num_hidden=hidden, flatten=flatten, name="fc", **given)
    channel_axis = 1 if flatten else len(shape) - 1
    return Case(tail(draw, x, channel_axis), {"data": draw.normal(shape)}, tolerance=2e-5)


def normalisation(draw: Draw) -> Case:
    kind = draw.pick("batch", "batch", "layer", "instance", "group", "l2", "lrn")
    shape = (draw.pick(1, 2, 3), draw.channels(), *draw.shape(1, 3))
    axis = draw.int(-len(shape), len(shape) - 1)
    tolerance = 2e-5
    if kind == "batch":
        x = batch_norm(draw, data(), "bn", axis)
    elif kind == "layer":
        x = sym.LayerNorm(data(), axis=axis, name="ln", **draw.some(eps=draw.pick(1e-5, 0.1)))
        tolerance = 1e-4 if shape[axis] < 3 else tolerance
    elif kind == "instance":
        x = sym.InstanceNorm(data(), name="in", **draw.some(eps=draw.pick(1e-5, 0.1)))
    elif kind == "group":
        group = draw.int(1, 5)
        shape = (shape[0], group * draw.int(1, 6), *shape[2:])
        x = sym.GroupNorm(
            data(), num_groups=group, name="gn", **draw.some(eps=draw.pick(1e-5, 0.1))
        )
    elif kind == "l2":
        mode = draw.pick("instance", "channel", "spatial")
        x = sym.L2Normalization(
            data(), mode=mode, name="l2", **draw.some(eps=draw.pick(1e-10, 0.1))
        )
    else:
        shape = (shape[0], shape[1], draw.int(1, 9), draw.int(1, 9))
        given = draw.some(alpha=draw.pick(1e-4, 0.1), beta=draw.pick(0.75, 0.5), knorm=1)
        x = sym.LRN(data(), nsize=draw.pick(1, 3, 5), name="lrn", **given)
    return Case(tail(draw, x), {"data": draw.normal(shape)}, tolerance=tolerance)


def activation(draw: Draw) -> Case:
    shape = draw.pick(draw.shape(1, 5), (draw.int(1, 3), draw.channels(), *draw.shape(1, 2)))
    values = draw.normal(shape) * np.float32(draw.pick(0.01, 1, 5, 30))
    kind = draw.pick("Activation", "LeakyReLU", "LeakyReLU", "hard_sigmoid", "chain")
    if kind == "Activation":
        x = sym.Activation(data(), act_type=draw.pick(*ACTIVATIONS), name="act")
    elif kind == "LeakyReLU":
        x = leaky(draw, data(), "act")
    elif kind == "hard_sigmoid":
        x = sym.hard_sigmoid(data(), **draw.some(alpha=draw.pick(0.1, 0.5), beta=0.3))
    else:
        x = tail(draw, tail(draw, data()), prefix="more") + 0  # at least one operator
    return Case(x, {"data": values}, tolerance=2e-5 if kind == "chain" else 1e-5)


def softmaxes(draw: Draw) -> Case:
    shape = draw.shape(2, 4)
    values = draw.normal(shape) * np.float32(draw.pick(0.1, 1, 10))
    kind = draw.pick(
        "softmax", "softmax", "log_softmax", "softmin", "activation", "output", "length"
    )
    axis = draw.int(-len(shape), len(shape) - 1)
    given: dict[str, Any] = draw.some(temperature=draw.pick(0.5, 2.0, 10.0))
    inputs = {"data": values}
    if kind == "activation":
        x = sym.SoftmaxActivation(data(), **draw.some(mode=draw.pick("instance", "channel")))
    elif kind == "output":
        # MXNet disagrees with itself on four dimensions: with oneDNN it takes the last axis
        plain = {} if len(shape) != 4 else {"multi_output": True}
        kinds = draw.pick(plain, {"multi_output": True}, {"preserve_shape": True})
        x = sym.SoftmaxOutput(data(), name="softmax", **kinds)
    elif kind == "length":
        axis = len(shape) - 1
        inputs["length"] = draw.integers(shape[:-1], 1, shape[-1] + 1, "int32")
        x = sym.softmax(data(), data("length", "int32"), axis=axis, use_length=True, **given)
    else:
        x = getattr(sym, kind)(data(), axis=axis, **given)
    # oneDNN's logarithm is good to 2e-6
    return Case(x, inputs, tolerance=3e-4 if kind == "log_softmax" else 1e-5)


def networks(draw: Draw) -> Case:
    """A small network: convolutions, poolings, branches that meet again, a dense layer."""
    channels = draw.pick(1, 3, 8)
    shape = (draw.pick(1, 2), channels, draw.int(10, 24), draw.int(10, 24))
    x = data()
    for block in range(draw.int(1, 4)):
        filters = draw.pick(4, 8, 12, 16, 24)
        kind = draw.pick("plain", "plain", "residual", "inception", "dense", "separable", "pool")
        x = _block(draw, x, kind, filters, f"b{block}")
    x = sym.Pooling(x, global_pool=True, pool_type=draw.pick("avg", "max"), name="head_pool")
    x = sym.FullyConnected(x, num_hidden=draw.int(1, 20), name="head")
    if draw.chance(0.5):
        x = sym.softmax(x, name="prob")
    return Case(x, {"data": draw.normal(shape)}, tolerance=1e-4)


def _block(draw: Draw, x: Symbol, kind: str, filters: int, name: str) -> Symbol:
    if kind == "plain":
        return _conv_bn(draw, x, filters, draw.pick(1, 3, 5), name)
    if kind == "residual":
        trunk = _conv_bn(draw, x, filters, 1, f"{name}_in")
        inner = _conv_bn(draw, trunk, filters, 3, f"{name}_mid")
        return sym.relu(trunk + inner, name=f"{name}_out")
    if kind == "inception":
        kernels = draw.pick((1, 3), (1, 3, 5), (3, 3))
        parts = [_conv_bn(draw, x, filters, k, f"{name}_{i}") for i, k in enumerate(kernels)]
        return sym.concat(*parts, dim=1, name=f"{name}_cat")
    if kind == "dense":
        return sym.concat(x, _conv_bn(draw, x, filters, 3, f"{name}_new"), dim=1, name=name)
    if kind == "separable":
        x = _conv_bn(draw, x, filters, 1, f"{name}_point")
        x = sym.Convolution(
            x, kernel=(3, 3), pad=(1, 1), num_filter=filters, num_group=filters, name=f"{name}_deep"
        )
        return sym.clip(batch_norm(draw, x, f"{name}_bn"), 0, 6, name=f"{name}_six")
    kinds = draw.pick("max", "avg")
    pad, convention = draw.pick((0, 0), (1, 1)), draw.pick("valid", "full")
    return sym.Pooling(
        x, kernel=(3, 3), stride=(2, 2), pad=pad, pool_type=kinds, pooling_convention=convention,
        name=name,
    )  # fmt: skip


def _conv_bn(draw: Draw, x: Symbol, filters: int, kernel: int, name: str) -> Symbol:
    x = sym.Convolution(
        x,
        kernel=(kernel, kernel),
        pad=(kernel // 2, kernel // 2),
        num_filter=filters,
        no_bias=draw.chance(0.5),
        name=f"{name}_conv",
    )
    if draw.chance(0.7):
        x = batch_norm(draw, x, f"{name}_bn")
    return sym.Activation(x, act_type=draw.pick("relu", "relu", "sigmoid"), name=f"{name}_act")


KINDS = {
    "convolution": (10, convolution),
    "convolution_3x3": (4, convolution_3x3),
    "deconvolution": (2, deconvolution),
    "pooling": (6, pooling),
    "dense": (4, dense),
    "normalisation": (4, normalisation),
    "activation": (3, activation),
    "softmaxes": (3, softmaxes),
    "networks": (4, networks),
}

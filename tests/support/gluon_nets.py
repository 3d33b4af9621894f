"""Layers and small nets that can be built with MXNet as with hybridjit, and numbers to put in.

``tools/mxnet_side/record_gluon.py`` builds them with real MXNet and records its files and
results; ``test_gluon_against_mxnet.py`` compares hybridjit with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ZOO = (
    *("alexnet", "densenet121", "densenet161", "densenet169", "densenet201", "inceptionv3"),
    *("mobilenet0.25", "mobilenet0.5", "mobilenet0.75", "mobilenet1.0", "mobilenetv2_0.25"),
    *("mobilenetv2_0.5", "mobilenetv2_0.75", "mobilenetv2_1.0", "resnet18_v1", "resnet34_v1"),
    *("resnet50_v1", "resnet101_v1", "resnet152_v1", "resnet18_v2", "resnet34_v2", "resnet50_v2"),
    *("resnet101_v2", "resnet152_v2", "squeezenet1.0", "squeezenet1.1", "vgg11", "vgg13", "vgg16"),
    *("vgg19", "vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn"),
)
Net = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]


def values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers for the parameter or input of this name: the same wherever it is asked."""
    count = int(np.prod(shape))
    waves = 0.5 * np.sin(0.7 * np.arange(count) + sum(map(ord, name.partition("_")[2])))
    if name.endswith(("gamma", "running_var", "alpha")):
        waves = 1 + waves
    return waves.reshape(shape).astype(np.float32)


def fill(mx: Any, net: Any) -> None:
    """Give every parameter of an initialised net its numbers."""
    for name, param in net.collect_params().items():
        if not isinstance(param, mx.gluon.Constant):
            param.set_data(mx.nd.array(values(name, param.shape)))


def structure(mx: Any, name: str) -> str:
    """All that files depend on in a model of the zoo: its graph, its parameters, their paths."""
    with mx.name.NameManager():
        net = mx.gluon.model_zoo.vision.get_model(name)
    params = str(net.collect_params()).replace("<class 'numpy.float32'>", "float32")
    graph = net(mx.sym.var("data")).tojson()
    return "\n".join([graph, params, *net._collect_params_with_prefix(), repr(net)])


def layers(mx: Any) -> dict[str, Net]:
    """Every layer of gluon.nn and gluon.contrib.nn, with the shapes of its inputs."""
    nn, contrib = mx.gluon.nn, mx.gluon.contrib.nn
    image, row, series, volume = ((2, 3, 8, 8),), ((2, 4),), ((2, 3, 8),), ((1, 2, 4, 4, 4),)
    return {
        "dense": (lambda **k: nn.Dense(3, "tanh", **k), image),
        "dense_keep": (lambda **k: nn.Dense(3, flatten=False, use_bias=False, **k), image),
        "conv1d": (lambda **k: nn.Conv1D(4, 3, 2, 1, **k), series),
        "conv2d": (lambda **k: nn.Conv2D(4, 3, 2, 1, 2, activation="relu", **k), image),
        "conv2d_grouped": (lambda **k: nn.Conv2D(6, 1, groups=3, use_bias=False, **k), image),
        "conv3d": (lambda **k: nn.Conv3D(2, 2, **k), volume),
        "deconv1d": (lambda **k: nn.Conv1DTranspose(2, 3, 2, **k), series),
        "deconv2d": (lambda **k: nn.Conv2DTranspose(4, 3, 2, 1, 1, **k), image),
        "deconv2d_grouped": (lambda **k: nn.Conv2DTranspose(6, 2, groups=3, **k), image),
        "maxpool1d": (lambda **k: nn.MaxPool1D(**k), series),
        "maxpool2d": (lambda **k: nn.MaxPool2D(3, 2, 1, ceil_mode=True, **k), image),
        "maxpool3d": (lambda **k: nn.MaxPool3D(**k), volume),
        "avgpool1d": (lambda **k: nn.AvgPool1D(**k), series),
        "avgpool2d": (lambda **k: nn.AvgPool2D(3, 2, 1, count_include_pad=False, **k), image),
        "avgpool3d": (lambda **k: nn.AvgPool3D(**k), volume),
        "globalavgpool1d": (lambda **k: nn.GlobalAvgPool1D(**k), series),
        "globalavgpool2d": (lambda **k: nn.GlobalAvgPool2D(**k), image),
        "globalmaxpool2d": (lambda **k: nn.GlobalMaxPool2D(**k), image),
        "globalmaxpool3d": (lambda **k: nn.GlobalMaxPool3D(**k), volume),
        "batchnorm": (lambda **k: nn.BatchNorm(**k), image),
        "batchnorm_last": (lambda **k: nn.BatchNorm(axis=-1, epsilon=1e-3, **k), image),
        "batchnorm_fixed": (lambda **k: nn.BatchNorm(scale=False, center=False, **k), image),
        "batchnormrelu": (lambda **k: nn.BatchNormReLU(**k), image),
        "instancenorm": (lambda **k: nn.InstanceNorm(**k), image),
        "instancenorm_axis2": (lambda **k: nn.InstanceNorm(axis=2, **k), image),
        "layernorm": (lambda **k: nn.LayerNorm(**k), image),
        "groupnorm": (lambda **k: nn.GroupNorm(3, **k), image),
        "dropout": (lambda **k: nn.Dropout(0.3, axes=(1,), **k), row),
        "dropout_none": (lambda **k: nn.Dropout(0, **k), row),
        "embedding": (lambda **k: nn.Embedding(5, 3, **k), row),
        "flatten": (lambda **k: nn.Flatten(**k), image),
        "softsign": (lambda **k: nn.Activation("softsign", **k), row),
        "leakyrelu": (lambda **k: nn.LeakyReLU(0.1, **k), row),
        "prelu": (lambda **k: nn.PReLU(in_channels=3, **k), image),
        "elu": (lambda **k: nn.ELU(0.5, **k), row),
        "selu": (lambda **k: nn.SELU(**k), row),
        "gelu": (lambda **k: nn.GELU(**k), row),
        "swish": (lambda **k: nn.Swish(1.5, **k), row),
        "reflectionpad": (lambda **k: nn.ReflectionPad2D(2, **k), image),
        "lambda_name": (lambda **k: nn.HybridLambda("sigmoid", **k), row),
        "lambda": (lambda **k: nn.HybridLambda(lambda F, x: F.relu(x) + 1, **k), row),
        "pixelshuffle1d": (lambda **k: contrib.PixelShuffle1D(3), ((2, 6, 4),)),
        "pixelshuffle2d": (lambda **k: contrib.PixelShuffle2D((2, 3)), ((2, 12, 2, 2),)),
        "pixelshuffle3d": (lambda **k: contrib.PixelShuffle3D((2, 1, 3)), ((1, 6, 2, 2, 2),)),
        "identity": (lambda **k: contrib.Identity(**k), row),
    }


def nets(mx: Any) -> dict[str, Net]:
    """Nets: scopes and none, shared parameters, constants, several inputs and outputs."""
    nn, contrib = mx.gluon.nn, mx.gluon.contrib.nn

    def chain(scoped: bool, *makers: Callable[[], Any], **k: Any) -> Any:
        net = nn.HybridSequential(**k)
        if scoped:
            with net.name_scope():
                net.add(*[make() for make in makers])
        else:
            net.add(*[make() for make in makers])
        return net

    def branches(**k: Any) -> Any:
        net = contrib.HybridConcurrent(axis=1, **k)
        with net.name_scope():
            net.add(nn.Dense(3), contrib.Identity())
        return net

    dense, bare = (lambda: nn.Dense(5, "relu")), (lambda: nn.Dense(2, use_bias=False))
    return {
        "tutorial": (_tutorial(mx), ((2, 1, 28, 28),)),
        "residual": (_residual(mx), ((2, 3, 12, 12),)),
        "constant": (_constant(mx), ((2, 2), (2, 3))),
        "shared": (_shared(mx), ((2, 4),)),
        "operators": (_operators(mx), ((2, 4),)),
        "scoped": (lambda **k: chain(True, dense, nn.LayerNorm, dense, **k), ((2, 4),)),
        "unscoped": (lambda **k: chain(False, dense, nn.BatchNorm, bare, **k), ((2, 4),)),
        "nested": (
            lambda **k: chain(True, lambda: chain(True, dense, bare), dense, **k),
            ((2, 4),),
        ),
        "branches": (branches, ((2, 4),)),
        **_recurrent(mx),
    }


def _recurrent(mx: Any) -> dict[str, Net]:
    """Fused layers inside a net, and unrolled cells, on (N, T, C)."""
    rnn, nn = mx.gluon.rnn, mx.gluon.nn

    class Fused(mx.gluon.HybridBlock):
        def __init__(self, make, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.layer = make()
                self.output = nn.Dense(2)

        def hybrid_forward(self, F, x):
            return self.output(self.layer(x))

    class Unrolled(mx.gluon.HybridBlock):
        def __init__(self, make, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.cell = make()

        def hybrid_forward(self, F, x):
            return self.cell.unroll(3, x, merge_outputs=True)

    def row():
        cells = rnn.HybridSequentialRNNCell()
        with cells.name_scope():
            cells.add(rnn.LSTMCell(3))
            cells.add(rnn.DropoutCell(0.3))
            cells.add(rnn.ResidualCell(rnn.GRUCell(3)))
        return cells

    fused = {
        "lstm": lambda: rnn.LSTM(3, 2, layout="NTC", dropout=0.2),
        "gru": lambda: rnn.GRU(3, bidirectional=True, layout="NTC"),
        "rnn": lambda: rnn.RNN(2, activation="tanh"),
        "lstm_projected": lambda: rnn.LSTM(3, projection_size=2),
    }
    cells = {
        "cells": row,
        "bidirectional": lambda: rnn.BidirectionalCell(rnn.LSTMCell(3), rnn.GRUCell(2)),
        "zoneout": lambda: rnn.ZoneoutCell(rnn.RNNCell(3), 0.2, 0.3),
    }
    shapes = ((2, 3, 4),)
    nets = {name: (lambda make=make, **k: Fused(make, **k), shapes) for name, make in fused.items()}
    nets |= {n: (lambda make=make, **k: Unrolled(make, **k), shapes) for n, make in cells.items()}
    return nets


def _tutorial(mx: Any) -> Any:
    gluon, nn = mx.gluon, mx.gluon.nn

    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.conv1 = nn.Conv2D(6, kernel_size=5)
                self.pool1 = nn.MaxPool2D(pool_size=2)
                self.conv2 = nn.Conv2D(16, kernel_size=5)
                self.pool2 = nn.MaxPool2D(pool_size=2)
                self.fc1 = nn.Dense(120)
                self.fc2 = nn.Dense(84)
                self.fc3_weight = self.params.get("fc3_weight", shape=(10, 84))

        def hybrid_forward(self, F, x, fc3_weight):
            x = self.pool1(F.relu(self.conv1(x)))
            x = self.pool2(F.relu(self.conv2(x)))
            x = x.reshape((0, -1))
            x = F.relu(self.fc1(x))
            x = F.relu(self.fc2(x))
            return F.dot(x, fc3_weight, transpose_b=True)

    return Net


def _residual(mx: Any) -> Any:
    gluon, nn = mx.gluon, mx.gluon.nn

    class Unit(gluon.HybridBlock):
        def __init__(self, channels, stride, **kwargs):
            super().__init__(**kwargs)
            self.body = nn.HybridSequential(prefix="")
            self.body.add(
                nn.Conv2D(channels, 3, stride, 1, use_bias=False),
                nn.BatchNorm(),
                nn.Activation("relu"),
                nn.Conv2D(channels, 3, 1, 1, use_bias=False),
                nn.BatchNorm(),
            )
            self.shortcut = None
            if stride > 1:
                self.shortcut = nn.HybridSequential(prefix="")
                self.shortcut.add(nn.Conv2D(channels, 1, stride, use_bias=False), nn.BatchNorm())

        def hybrid_forward(self, F, x):
            rest = x if self.shortcut is None else self.shortcut(x)
            return F.Activation(self.body(x) + rest, act_type="relu")

    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.features = nn.HybridSequential(prefix="")
                self.features.add(
                    nn.BatchNorm(scale=False, center=False),
                    nn.Conv2D(4, 3, 1, 1),
                    Unit(4, 1),
                    Unit(8, 2),
                    nn.GlobalAvgPool2D(),
                    nn.Flatten(),
                )
                self.output = nn.Dense(3)

        def hybrid_forward(self, F, x):
            return self.output(self.features(x))

    return Net


def _constant(mx: Any) -> Any:
    class Net(mx.gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.c = self.params.get_constant("c", mx.nd.array([[1, 2], [3, 4]]))
                self.w = self.params.get("w", shape=(2, 2))

        def hybrid_forward(self, F, x, y, c, w):
            return F.dot(x, c) + w, (y - 1, [F.split(x, num_outputs=2, axis=1)])

    return Net


def _shared(mx: Any) -> Any:
    nn = mx.gluon.nn

    class Net(mx.gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.a = nn.Dense(4, in_units=4, activation="tanh")
                self.b = nn.Dense(4, in_units=4, params=self.a.params)

        def hybrid_forward(self, F, x):
            return self.b(self.a(x)) * 2 - x / 3

    return Net


def _operators(mx: Any) -> Any:
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            a = 1 - x
            return [
                a, 2 / (x + 3), x**2, 2**x, x > 0.3, x < 1, -x, x % 0.3, x == x, x != x, abs(x),
                F.maximum(x, a), F.minimum(x, 0.2), x.exp().log(),
                F.broadcast_add(x, x.mean(axis=1, keepdims=True)),
                F.concat(x, a, dim=1), F.stack(x, a), F.softmax(x),
                x.slice_axis(axis=1, begin=0, end=2), x.transpose((1, 0)).expand_dims(0),
                x.clip(0, 1), x.sum(),
            ]  # fmt: skip

    return Net

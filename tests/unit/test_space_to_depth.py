"""Strided first layers by plain windows: the numbers, for every way a window may lie."""

from __future__ import annotations

import numpy as np
import pytest

from compiling import call, var
from hybridjit import autograd, nd
from hybridjit._core.config import override
from hybridjit._core.options import Options
from hybridjit._core.types import type_of
from hybridjit.compilation import compile_graph
from hybridjit.compiler import new_log
from hybridjit.gluon import nn


def layer_of(window, stride, pad, channels=3, filters=32):
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(filters, window, stride, pad, in_channels=channels, activation="relu"))
        net.add(nn.BatchNorm(in_channels=filters))
    net.initialize()
    random = np.random.default_rng(1)
    for parameter in net.collect_params().values():
        if "var" not in parameter.name:
            value = random.normal(size=parameter.shape) / np.sqrt(np.prod(parameter.shape[1:]))
            parameter.set_data(nd.array(value.astype(np.float32)))
    return net


def image_of(batch, channels, size, seed=0):
    random = np.random.default_rng(seed)
    return nd.array(random.normal(size=(batch, channels, *size)).astype(np.float32))


def deviation(result, wanted):
    return np.abs(result - wanted).max() / wanted.std()


@pytest.mark.parametrize("target", ["native", "avx2", "sse2"])
@pytest.mark.parametrize(
    ("window", "stride", "pad", "channels", "size"),
    [
        ((7, 7), 2, (3, 3), 3, (32, 32)),
        ((7, 7), 2, (3, 3), 3, (31, 33)),
        ((7, 7), 2, (0, 0), 4, (40, 23)),
        ((5, 5), 2, (2, 2), 3, (26, 17)),
        ((7, 5), 2, (1, 4), 3, (21, 20)),
        ((9, 9), 2, (4, 4), 3, (30, 30)),
        ((7, 7), 3, (3, 3), 2, (29, 40)),
        ((11, 11), 4, (2, 2), 3, (63, 67)),
        ((11, 11), 4, (2, 2), 3, (64, 65)),
    ],
)
def test_numbers_are_those_of_the_definition(target, window, stride, pad, channels, size):
    net, x = layer_of(window, stride, pad, channels), image_of(2, channels, size)
    wanted = net(x).asnumpy()
    with override(target=target):
        net.hybridize()
        found = net(x).asnumpy()
        assert found.shape == wanted.shape
        assert deviation(found, wanted) < 1e-4
        np.testing.assert_array_equal(net(x[1:]).asnumpy()[0], found[1])


def spaces(window, stride, options=None, **attrs):
    """Whether a layer of one image gets plain windows."""
    shapes = {"x": (1, 3, 33, 34), "w": (attrs.get("num_filter", 32), 3, *window)}
    arrays = {n: type_of(np.zeros(s, np.float32)) for n, s in shapes.items()}
    given = {"kernel": window, "stride": stride, "num_filter": 32, "no_bias": True, **attrs}
    outputs = [call("Convolution", var("x"), var("w"), **given)]
    log = new_log(("space-to-depth",), lambda number, stage, text: seen.append(text))
    seen: list[str] = []
    types = {"x": arrays.pop("x")}
    compile_graph(outputs, types, arrays, options or Options(), log)
    return "squares" in "".join(seen)


def test_only_where_winograd_gains():
    assert spaces((7, 7), (2, 2))
    assert not spaces((3, 3), (2, 2))
    assert not spaces((4, 4), (2, 2))
    assert spaces((9, 5), (2, 2))
    assert not spaces((11, 5), (2, 2))
    assert not spaces((7, 7), (1, 1))
    assert not spaces((7, 7), (2, 3))
    assert not spaces((7, 7), (2, 2), dilate=(2, 2))
    assert not spaces((7, 7), (2, 2), num_filter=8)
    assert not spaces((7, 7), (2, 2), Options(winograd=False))
    assert not spaces((7, 7), (2, 2), Options(precision="bfloat16"))
    with override(skip=("winograd",)):
        assert not spaces((7, 7), (2, 2))


def test_weights_changed_later_count():
    net, x = layer_of((7, 7), 2, (3, 3)), image_of(1, 3, (24, 24))
    net.hybridize()
    before = net(x).asnumpy()
    weight = net[0].weight
    weight.set_data(2 * weight.data())
    after = net(x).asnumpy()
    assert deviation(after, before) > 0.01
    net.hybridize(active=False)
    assert deviation(after, net(x).asnumpy()) < 1e-4


def test_training_takes_the_layer_as_it_is():
    layer, x = layer_of((7, 7), 2, (3, 3))[0], image_of(2, 3, (24, 24))
    grads = []
    for active in (False, True):
        layer.hybridize(active=active)
        with autograd.record():
            loss = (layer(x) ** 2).sum()
        loss.backward()
        grads.append(layer.weight.grad().asnumpy().copy())
    assert deviation(grads[1], grads[0]) < 1e-5

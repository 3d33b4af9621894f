"""Transposed layers of few filters by one convolution: numbers, bits, and where it applies."""

from __future__ import annotations

import numpy as np
import pytest

from hybridjit import nd
from hybridjit._core.config import override
from hybridjit.gluon import nn

LAYERS = {1: nn.Conv1DTranspose, 2: nn.Conv2DTranspose, 3: nn.Conv3DTranspose}


def layer_of(rank, filters, **attrs):
    net = LAYERS[rank](filters, in_channels=20, **attrs)
    net.initialize()
    random = np.random.default_rng(1)
    for parameter in net.collect_params().values():
        parameter.set_data(nd.array(random.normal(size=parameter.shape).astype(np.float32)))
    return net


def image_of(*sizes, batch=2):
    random = np.random.default_rng(len(sizes))
    return nd.array(random.normal(size=(batch, 20, *sizes)).astype(np.float32))


@pytest.mark.parametrize("target", ["native", "avx2", "sse2"])
@pytest.mark.parametrize(
    ("sizes", "filters", "kernel", "stride", "pad", "more"),
    [
        ((9,), 1, 16, 8, 4, 0),
        ((9,), 2, 16, 8, 0, 5),  # more cells than the windows reach
        ((9,), 3, 7, 3, 2, 1),
        ((7, 6), 3, 4, 2, 1, 0),
        ((7, 6), 3, 3, 2, 1, 1),
        ((7, 6), 1, (4, 6), (4, 3), (0, 2), 0),
        ((5, 4, 3), 1, 4, 2, 1, 0),
    ],
    ids=str,
)
def test_numbers_are_those_of_the_definition(target, sizes, filters, kernel, stride, pad, more):
    window = {"kernel_size": kernel, "strides": stride, "padding": pad, "output_padding": more}
    net, x = layer_of(len(sizes), filters, **window), image_of(*sizes)
    wanted = net(x).asnumpy()
    with override(target=target):
        net.hybridize()
        found = net(x).asnumpy()
        np.testing.assert_allclose(found, wanted, atol=1e-5 * wanted.std(), rtol=0)
        np.testing.assert_array_equal(net(x[1:]).asnumpy()[0], found[1])


def test_bits_do_not_depend_on_the_sizes_before():
    window = {"kernel_size": 4, "strides": 2, "padding": 1}
    images = [image_of(*sizes) for sizes in ((7, 6), (9, 5), (8, 12), (11, 10))]
    net = layer_of(2, 3, **window)
    net.hybridize()
    for x in images:
        found = net(x).asnumpy()
        fresh = layer_of(2, 3, **window)
        fresh.hybridize()
        np.testing.assert_array_equal(found, fresh(x).asnumpy())


def test_weights_changed_later_count():
    net, x = layer_of(2, 3, kernel_size=4, strides=2), image_of(6, 5)
    net.hybridize()
    before = net(x).asnumpy()
    net.weight.set_data(2 * net.weight.data())
    net.bias.set_data(2 * net.bias.data())
    np.testing.assert_array_equal(net(x).asnumpy(), 2 * before)

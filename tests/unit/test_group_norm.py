"""Group normalization between convolutions, with channels last: numbers and bits."""

from __future__ import annotations

import numpy as np
import pytest

from hybridjit import nd
from hybridjit._core.config import override
from hybridjit.gluon import nn


def network(groups, bias=0.0, kernel=3):
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(24, kernel, padding=kernel // 2, in_channels=8))
        net.add(nn.GroupNorm(groups), nn.Activation("relu"))
        net.add(nn.Conv2D(5, 1, in_channels=24))
    net.initialize()
    net(image(4, 4))
    random = np.random.default_rng(2)
    for parameter in net.collect_params().values():
        value = random.normal(size=parameter.shape).astype(np.float32)
        parameter.set_data(nd.array(value.round() if bias else value))
    net[0].bias.set_data(net[0].bias.data() + bias)
    return net


def image(*sizes, batch=3):
    random = np.random.default_rng(sum(sizes))
    return nd.array(random.normal(size=(batch, 8, *sizes)).astype(np.float32))


@pytest.mark.parametrize("target", ["native", "avx2", "sse2"])
@pytest.mark.parametrize("groups", [1, 3, 8, 24])
def test_numbers_are_those_of_eager_mode(target, groups):
    net, x = network(groups), image(11, 13)
    wanted = net(x).asnumpy()
    with override(target=target):
        net.hybridize()
        found = net(x).asnumpy()
        np.testing.assert_allclose(found, wanted, atol=1e-5 * wanted.std(), rtol=0)
        np.testing.assert_array_equal(net(x[1:2]).asnumpy()[0], found[1])


def test_a_mean_far_from_zero_is_subtracted_first():
    """Of exact integers; sums of squares would lose the variance, of which (3000 / 5)^2 is 4e5."""
    net, x = network(4, bias=3000.0, kernel=1), image(11, 13).round()
    wanted = net(x).asnumpy()
    net.hybridize()
    found = net(x).asnumpy()
    np.testing.assert_allclose(found, wanted, atol=1e-4 * wanted.std(), rtol=0)


def test_bits_depend_neither_on_threads_nor_on_sizes_before():
    images = [image(*sizes) for sizes in ((11, 13), (15, 9), (20, 22), (17, 31))]
    net = network(3)
    net.hybridize()
    found = [net(x).asnumpy() for x in images]
    with override(num_threads=2):
        for x, before in zip(images, found):
            fresh = network(3)
            fresh.hybridize()
            np.testing.assert_array_equal(fresh(x).asnumpy(), before)

"""Kernels of fixed sizes that layers share: how many there are, and the bits of separate ones."""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from compiling import AVAILABLE
from hybridjit import nd, threads
from hybridjit._core.config import override
from hybridjit.codegen.emit import generate
from hybridjit.gluon import nn

TARGETS = ["" if name == "native" else name for name in AVAILABLE]
CHANNELS = (256, 512, 768, 512, 256)


class Layers(nn.HybridSequential):
    """1x1 layers with ReLU, then two with a sum: their operands have a row for each position."""

    def __init__(self):
        super().__init__()
        self.add(*(nn.Conv2D(n, 1, activation="relu") for n in CHANNELS))
        self.last = [nn.Conv2D(n, 1) for n in (512, 512)]
        self.add(*self.last)

    def hybrid_forward(self, F, x):
        *layers, wide, other = self._children.values()
        for layer in layers:
            x = layer(x)
        x = wide(x)
        return F.relu(x + other(x))


def made(monkeypatch, net, x, winograd, shares=True):
    """The results of a network compiled anew, and the specs of its 1x1 layers."""
    found = []
    chosen = generate.choose_for

    def noted(*args):
        one = chosen(*args)
        found.extend(str(call.spec) for row in one.calls for call in row)
        return one

    with monkeypatch.context() as patch:
        patch.setattr(generate, "choose_for", noted)
        if not shares:
            patch.setattr(generate, "share_kernels", lambda calls, target: calls)
        net.hybridize(winograd=winograd)
        y = net(x).asnumpy()
    return y, [spec for spec in found if spec.startswith(("strassen", "conv"))]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("winograd", [False, "always"], ids=["direct", "strassen"])
@pytest.mark.parametrize("sizes", [(14, 14), (7, 7), (5, 13), (3, 3)], ids=str)
def test_layers_that_differ_in_channels_share_a_kernel_and_keep_their_bits(
    monkeypatch, nothing_stored, sizes, winograd, target
):
    net = Layers()
    net.initialize(mx.init.Normal(0.05))
    x = nd.array(np.random.default_rng(1).standard_normal((2, 256, *sizes)))
    with override(target=target):
        one, few = made(monkeypatch, net, x, winograd)
        other, many = made(monkeypatch, net, x, winograd, shares=False)
    assert len(few) == len(many) and len(set(few)) < len(set(many)), few
    assert "#" in "".join(few) and "#" not in "".join(many)  # an argument of the call
    np.testing.assert_array_equal(one, other)


def test_shares_of_threads_have_the_same_bits(nothing_stored):
    net = Layers()
    net.initialize(mx.init.Normal(0.05))
    net.hybridize(winograd="always")
    x = nd.array(np.random.default_rng(2).standard_normal((3, 256, 28, 28)))
    found = []
    for count in (1, 2, 3):
        with threads(count):
            found.append(net(x).asnumpy())
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


def test_a_layer_that_shares_with_none_keeps_its_constants(monkeypatch, nothing_stored):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(256, 1, activation="relu"), nn.Conv2D(256, 1))
    net.initialize()
    x = nd.ones((1, 256, 14, 14))
    _, specs = made(monkeypatch, net, x, "always")
    assert len(set(specs)) == 2 and all("ic=256 " in spec for spec in specs), specs


class Residuals(nn.HybridBlock):
    """Two layers of equal sizes that are added to their input, from either side."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Conv2D(64, 3, padding=1) for _ in range(2))

    def hybrid_forward(self, F, x):
        x = F.relu(x + self.first(x))
        return F.relu(self.second(x) + x)


def test_layers_with_a_sum_in_another_order_share_a_kernel(monkeypatch, nothing_stored):
    net = Residuals()
    net.initialize(mx.init.Normal(0.05))
    x = nd.array(np.random.default_rng(1).standard_normal((1, 64, 14, 14)))
    y, specs = made(monkeypatch, net, x, False)
    assert len(specs) == 2 and len(set(specs)) == 1, specs
    net.hybridize(active=False)
    np.testing.assert_allclose(y, net(x).asnumpy(), atol=1e-5 * np.abs(y).max())

"""Gradients of gradients through hybridized blocks: equal to eager mode, and to slopes."""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit.gluon import nn, rnn

IMAGES = np.random.default_rng(1).normal(0, 1, (3, 2, 6, 6))


class Critic(gluon.HybridBlock):
    """Convolution, statistics of the batch, chance, a dense layer."""

    def __init__(self, dropped: float) -> None:
        super().__init__(prefix="critic_")
        with self.name_scope():
            self.conv = nn.Conv2D(3, 3, in_channels=2)
            self.norm = nn.BatchNorm(in_channels=3)
            self.drop = nn.Dropout(dropped)
            self.fc = nn.Dense(2, in_units=12)

    def hybrid_forward(self, F, x):
        y = F.tanh(self.norm(self.conv(x)))
        y = F.Pooling(y, kernel=(2, 2), stride=(2, 2), pool_type="avg")
        return F.sigmoid(self.fc(self.drop(y)))


class Noisy(gluon.HybridBlock):
    """A random draw is read after a nonlinear function of its sum."""

    def hybrid_forward(self, F, x):
        noise = F.random.normal_like(x)
        chosen = F.sample_multinomial(F.softmax(x), shape=2, get_prob=True)[1]
        return F.square(F.sum(F.exp(x + noise), axis=1)) + F.square(F.sum(chosen, axis=1))


class Unrolled(gluon.HybridBlock):
    """A recurrent cell, step by step."""

    def __init__(self) -> None:
        super().__init__(prefix="unrolled_")
        with self.name_scope():
            self.cell = rnn.GRUCell(4, input_size=6)

    def hybrid_forward(self, F, x):
        return self.cell.unroll(2, x, layout="NTC", merge_outputs=True)[0]


def live(net: gluon.HybridBlock) -> list[nd.NDArray]:
    return [p.data() for p in net.collect_params().values() if p.grad_req != "null"]


def penalised(net: gluon.HybridBlock, x: nd.NDArray, dtype: str = "float64") -> list[np.ndarray]:
    """Gradients, those of their squares, and the auxiliary states afterwards."""
    mx.random.seed(3)
    x.attach_grad()
    with autograd.record():
        y = net(x)
        firsts = autograd.grad(y.sum(), [x, *live(net)], create_graph=True)
        penalty = sum((d * d).sum() for d in firsts) + y.sum()
    penalty.backward()
    found = [*firsts, x.grad, *(w.grad for w in live(net))]
    states = [p.data() for p in net.collect_params().values() if p.grad_req == "null"]
    return [array.asnumpy() for array in (*found, *states)]


def both(make, x: np.ndarray, dtype: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Eagerly, and hybridized."""
    found = []
    for is_hybrid in (False, True):
        mx.random.seed(1)
        net = make()
        net.initialize(mx.init.Normal(0.4))
        net.cast(dtype)
        net.hybridize(is_hybrid)
        found.append(penalised(net, nd.array(x, dtype=dtype)))
    return found[0], found[1]


NETS = {
    "images": (lambda: Critic(0.0), IMAGES),
    "dropout": (lambda: Critic(0.4), IMAGES),
    "noise": (Noisy, IMAGES.reshape(-1)[:20].reshape(4, 5)),
    "cell": (Unrolled, IMAGES[:, :, 0]),
    "layer-norm": (lambda: nn.LayerNorm(in_channels=6), IMAGES[:, 0]),
    "softmax": (lambda: nn.HybridLambda(lambda F, x: F.log_softmax(F.square(x))), IMAGES[:, 0, 0]),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    # cells begin with states in float32
    [(n, t) for n in NETS for t in ("float32", "float64") if (n, t) != ("cell", "float64")],
)
def test_they_are_those_of_eager_mode(name: str, dtype: str):
    eager, compiled = both(*NETS[name], dtype)
    assert len(eager) == len(compiled) > 1
    largest = max(abs(right).max() for right in eager)
    for found, right in zip(compiled, eager):
        assert found.dtype == right.dtype
        near = (1e-5 if dtype == "float32" else 1e-12) * (abs(right).max() + 0.01 * largest)
        np.testing.assert_allclose(found, right, rtol=0, atol=near)


def test_they_are_slopes_of_first_gradients():
    """Statistics of the batch follow from the data: their share counts, hybridized or not."""
    for is_hybrid in (False, True):
        mx.random.seed(1)
        net = Critic(0.0)
        net.initialize(mx.init.Normal(0.4))
        net.cast("float64")
        net.hybridize(is_hybrid)
        x, step = nd.array(IMAGES, dtype="float64"), 1e-5
        direction = np.random.default_rng(2).normal(0, 1, IMAGES.shape)

        def size(at: np.ndarray, net: Critic = net) -> float:
            found = nd.array(at, dtype="float64")
            found.attach_grad()
            with autograd.record():
                y = net(found)
            y.backward()
            return float((found.grad.asnumpy() ** 2).sum())

        slope = (size(IMAGES + step * direction) - size(IMAGES - step * direction)) / (2 * step)
        x.attach_grad()
        with autograd.record():
            (first,) = autograd.grad(net(x), [x], create_graph=True)
            penalty = (first * first).sum()
        penalty.backward()
        assert (x.grad.asnumpy() * direction).sum() == pytest.approx(slope, rel=1e-6)


def test_third_gradients_and_a_block_behind_another():
    first = nn.HybridLambda(lambda F, x: F.exp(x))
    second = nn.HybridLambda(lambda F, x: F.square(x) * x)
    first.hybridize()
    second.hybridize()
    x = nd.array([0.1, 0.5])
    x.attach_grad()
    with autograd.record():
        y = second(first(x))
        for _ in range(2):
            (y,) = autograd.grad(y, [x], create_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 27 * np.exp(3 * x.asnumpy()), rtol=1e-5)


def test_statistics_move_once_for_a_penalised_step():
    for is_hybrid in (False, True):
        net = nn.BatchNorm(in_channels=2, momentum=0.5)
        net.initialize()
        net.hybridize(is_hybrid)
        x = nd.array(IMAGES)
        penalised(net, x)
        mean = IMAGES.mean(axis=(0, 2, 3)) * 0.5
        np.testing.assert_allclose(net.running_mean.data().asnumpy(), mean, rtol=1e-4)


def test_an_operator_without_second_gradients_is_named():
    net = nn.MaxPool2D(2)
    net.hybridize()
    x = nd.array(IMAGES)
    x.attach_grad()
    with autograd.record():
        (first,) = autograd.grad(net(x), [x], create_graph=True)
    with pytest.raises(mx.MXNetError, match="_back_from_max_pooling is non-differentiable"):
        first.backward()

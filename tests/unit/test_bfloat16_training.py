"""Training in bfloat16: gradients, master weights, saved values, and the result of training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_bfloat16 import small_network

import hybridjit as mx
from compiling import AVAILABLE
from hybridjit import autograd, gluon, nd
from hybridjit._core.config import override
from hybridjit._core.options import Options
from hybridjit._core.types import BFLOAT16, type_of
from hybridjit.compilation import compile_training
from hybridjit.contrib import amp
from hybridjit.gluon import nn
from hybridjit.gluon.precision import DEFAULT
from hybridjit.ops.bfloat16 import rounded
from hybridjit.runtime.threads import threads

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


class Attention(gluon.HybridBlock):
    """Products of activations, of which each operand has a gradient."""

    def __init__(self) -> None:
        super().__init__(prefix="attention_")
        with self.name_scope():
            self.qkv = nn.Dense(36, flatten=False, in_units=20)
            self.norm = nn.LayerNorm(in_channels=12)

    def hybrid_forward(self, F, x):
        q, k, v = F.split(self.qkv(x), num_outputs=3, axis=2)
        return self.norm(F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True)), v))


def stacked(*layers: gluon.HybridBlock) -> gluon.HybridBlock:
    net = nn.HybridSequential(prefix="net_")
    net.add(*layers)
    return net


# Shapes of the data, and networks in which each layer's data have a gradient.
NETS = {
    "strides": ((2, 3, 17, 15), lambda: stacked(nn.Conv2D(16, 3), nn.Conv2D(24, 3, 2, 1))),
    "winograd": ((2, 3, 14, 14), lambda: stacked(nn.Conv2D(32, 1), nn.Conv2D(32, 3, 1, 1))),
    "odd": ((3, 9, 9, 9), lambda: stacked(nn.Conv2D(11, 3), nn.Conv2D(13, 3, 2))),
    "groups": ((2, 32, 9, 9), lambda: stacked(nn.Conv2D(32, 3, groups=2), nn.Conv2D(8, 1))),
    "depthwise": ((2, 16, 9, 9), lambda: stacked(nn.Conv2D(16, 3, groups=16), nn.Conv2D(8, 1))),
    "dilated": ((2, 10, 12, 12), lambda: stacked(nn.Conv2D(10, 3, dilation=2), nn.Conv2D(9, 1))),
    "line": ((3, 12, 21), lambda: stacked(nn.Conv1D(16, 3), nn.Conv1D(8, 5, 2))),
    "volume": ((2, 8, 6, 7, 5), lambda: stacked(nn.Conv3D(8, 3, padding=1), nn.Conv3D(9, 2))),
    "transposed": ((2, 8, 6, 6), lambda: stacked(nn.Conv2DTranspose(12, 3, 2), nn.Conv2D(8, 1))),
    "dense": ((7, 19), lambda: stacked(nn.Dense(33, activation="tanh"), nn.Dense(10))),
    "attention": ((2, 9, 20), Attention),
    "statistics": ((4, 3, 30, 30), small_network),
}


def made(name: str) -> tuple[gluon.HybridBlock, nd.NDArray]:
    """A network that has been called with its data."""
    shape, make = NETS[name]
    mx.random.seed(3)
    net, x = make(), nd.random.normal(shape=shape)
    net.initialize(mx.init.Xavier())
    net(x)
    return net, x


@pytest.mark.parametrize("name", NETS)
def test_gradients_are_those_of_float32_but_for_rounding(name):
    net, x = made(name)
    net.hybridize(precision="bfloat16")
    verdict = net.verify(x, train=True)
    assert verdict.agrees, verdict
    assert max(gap.relative for _, gap in verdict.outputs) > 1e-4


@pytest.mark.parametrize("target", AVAILABLE[1:])
@pytest.mark.parametrize("name", ["strides", "attention"])
def test_other_cpus_multiply_the_same_rounded_numbers(name, target):
    net, x = made(name)
    net.hybridize(precision="bfloat16")
    right = gradients(net, x)
    with override(target=target):
        for parameter, found in gradients(net, x).items():
            gap = np.abs(found - right[parameter]).max()
            assert gap <= 8e-3 * np.abs(right[parameter]).max(), parameter


def gradients(net: gluon.HybridBlock, x: nd.NDArray) -> dict[str, np.ndarray]:
    with autograd.record():
        y = net(x)
    y.backward(nd.array(np.random.default_rng(1).normal(0, 1, y.shape)))
    params = net.collect_params().items()
    return {name: p.grad().asnumpy() for name, p in params if p.grad_req != "null"}


@pytest.mark.parametrize("name", ["strides", "odd", "attention", "statistics"])
def test_any_threads_give_the_same_bits(name):
    net, x = made(name)
    net.hybridize(precision="bfloat16")
    alone = gradients(net, x)
    for count in (2, 3):
        with threads(count):
            for parameter, found in gradients(net, x).items():
                assert found.tobytes() == alone[parameter].tobytes(), parameter


def test_the_gradient_of_a_maximum_reaches_one_number():
    """Even if other layers read the pooled value and the maximum in 16 bits."""

    class Pooled(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.before = nn.Conv2D(16, 3, in_channels=8)
            self.beside = nn.Conv2D(16, 2, 2, in_channels=16)
            self.behind = nn.Conv2D(16, 1, in_channels=16)

        def hybrid_forward(self, F, x):
            y = F.relu(self.before(x))
            pooled = F.Pooling(y, kernel=(2, 2), stride=(2, 2), pool_type="max")
            return self.behind(pooled) + self.beside(y)

    mx.random.seed(1)
    net, x = Pooled(), nd.random.normal(shape=(2, 8, 10, 10))
    net.initialize()
    net.hybridize(precision="bfloat16")
    verdict = net.verify(x, train=True)
    assert verdict.agrees, verdict


def test_weights_keep_changes_that_bfloat16_would_lose():
    net = nn.Dense(1, in_units=8, use_bias=False)
    net.initialize(mx.init.One())
    net.hybridize(precision="bfloat16")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 2.0**-12})
    for _ in range(4):
        with autograd.record():
            y = net(nd.ones((1, 8)))
        y.backward()
        trainer.step(1)
    np.testing.assert_array_equal(net.weight.data().asnumpy(), np.full((1, 8), 1 - 2.0**-10, "f4"))
    assert (rounded(net.weight.data().asnumpy()) == 1).all()


def test_operands_of_products_are_saved_in_16_bits():
    net, x = made("attention")
    traced = net._traced((x,))
    arrays = {"data": x, **{n: p.data() for n, p in net.collect_params().items()}}
    types = {n: type_of(a._data) for n, a in arrays.items() if n in traced.symbol.list_inputs()}
    sizes = {}
    for precision in ("float32", "bfloat16"):
        options = Options(precision=precision)
        trained = compile_training(traced.outputs, types, set(types), True, options)
        sizes[precision] = trained.parts.saved_bytes
    assert any(use.type.dtype == BFLOAT16 for use in trained.parts.saved)
    assert sizes["bfloat16"] < sizes["float32"]


def digits() -> tuple[nd.NDArray, nd.NDArray]:
    with np.load(DIGITS / "digits-test.npz") as file:
        pictures, labels = file["images"] / np.float32(16), file["labels"]
    return nd.array(pictures[:, None]), nd.array(labels)


def losses(precision: str, steps: int = 40) -> list[float]:
    """Of a network that learns handwritten digits; eager where no precision is named."""
    mx.random.seed(11)
    random = np.random.default_rng(2)
    net = stacked(
        *(nn.Conv2D(16, 3, padding=1, in_channels=1), nn.BatchNorm(), nn.Activation("relu")),
        *(nn.Conv2D(32, 3, in_channels=16, activation="relu"), nn.MaxPool2D()),
        *(nn.Dense(48, activation="relu"), nn.Dense(10)),
    )
    net.initialize(mx.init.Xavier())
    pictures, labels = digits()
    net(pictures[:2])
    if precision:
        net.hybridize(precision=precision)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
    found = []
    for _ in range(steps):
        rows = nd.array(random.integers(0, len(labels), 32))
        with autograd.record():
            value = loss(net(pictures.take(rows)), labels.take(rows))
        value.backward()
        trainer.step(32)
        found.append(float(value.mean().asscalar()))
    return found


def test_digits_are_learned_as_in_float32():
    """The losses of the first steps within 2 %, and of the last ones within 0.1."""
    eager, found = losses(""), losses("bfloat16")
    assert found != eager
    np.testing.assert_allclose(found[:4], eager[:4], rtol=2e-2)
    assert eager[0] > 2
    assert np.mean(eager[-10:]) < 0.5
    assert abs(np.mean(found[-10:]) - np.mean(eager[-10:])) < 0.1


def test_a_step_in_one_call_is_the_loop_but_for_rounding():
    """The gradient of the network's output is rounded for all readers there, as others are."""
    ends = []
    for joined in (False, True):
        net, x = made("statistics")
        net.hybridize(precision="bfloat16")
        loss, y = gluon.loss.SoftmaxCrossEntropyLoss(), nd.array([1, 0, 3, 2])
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        step = mx.train_step(net, loss, trainer)
        for _ in range(2):
            if joined:
                step(x, y)
                continue
            with autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(4)
        ends.append([p.data().asnumpy() for p in net.collect_params().values()])
    for mine, theirs in zip(*ends):
        np.testing.assert_allclose(mine, theirs, rtol=1e-2, atol=2e-3)


class TestAmp:
    @pytest.fixture
    def ready(self, monkeypatch):
        """``amp`` as it is after ``init``, and as it was afterwards."""
        monkeypatch.setattr(DEFAULT, "precision", "float32")
        monkeypatch.setattr(amp.amp, "_amp_initialized", False)
        amp.init("bfloat16")

    def test_networks_hybridized_after_init_train_in_bfloat16(self, ready):
        grads = []
        for flags in ({}, {"precision": "bfloat16"}, {"precision": "float32"}):
            net, x = made("statistics")
            net.hybridize(**flags)
            grads.append([*gradients(net, x).values()])
        for usual, short, _ in zip(*grads):
            np.testing.assert_array_equal(usual, short)
        assert any((short != plain).any() for _, short, plain in zip(*grads))

    def test_losses_are_scaled_by_1(self, ready):
        net = nn.Dense(1, in_units=4)
        net.initialize()
        net.hybridize()
        options = {"learning_rate": 0.5, "rescale_grad": 0.25}
        trainer = gluon.Trainer(net.collect_params(), "sgd", options)
        forgotten = pytest.raises(AssertionError, match="did you forget to call amp.init_trainer")
        with forgotten, amp.scale_loss(1, trainer):
            pass
        amp.init_trainer(trainer)
        for is_unscaled, expected in ((False, 2.0), (True, 0.5)):
            before = net.weight.data().asnumpy()
            with autograd.record():
                loss = net(nd.ones((2, 4))).sum()
                with amp.scale_loss(loss, trainer) as scaled:
                    assert scaled is loss
                    scaled.backward()
            if is_unscaled:
                amp.unscale(trainer)
            np.testing.assert_array_equal(net.weight.grad().asnumpy(), np.full((1, 4), expected))
            trainer.step(2)
            moved = before - net.weight.data().asnumpy()
            np.testing.assert_allclose(moved, np.full((1, 4), 0.125), rtol=1e-5)

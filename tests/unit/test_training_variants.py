"""One compilation for training serves many sizes, with the bits of a compilation for each."""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit.gluon import nn, rnn

pytestmark = pytest.mark.usefixtures("unoptimised_kernels")


class WithLoss(gluon.HybridBlock):
    """A network and its loss as one graph."""

    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def hybrid_forward(self, F, x, y):
        return self.loss(self.net(x), y)


class Recurrent(gluon.HybridBlock):
    """Embedding of (samples, steps), a recurrent layer, and a dense layer on ``taken`` of it."""

    def __init__(self, layer, taken="last"):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(50, 12), layer
        self.dense = nn.Dense(5, flatten=False)
        self.taken = taken

    def hybrid_forward(self, F, x):
        y = self.layer(F.transpose(self.embedding(x), axes=(1, 0, 2)))
        if self.taken == "mean":
            y = F.mean(y, axis=0)
        return self.dense(F.SequenceLast(y) if self.taken == "last" else y)


def sequence(*blocks):
    net = nn.HybridSequential()
    net.add(*blocks)
    return net


def convolutions():
    return sequence(
        nn.Conv2D(16, 3, padding=1, activation="relu"),
        nn.MaxPool2D(2),
        nn.Conv2D(8, 3),
        nn.BatchNorm(),
        nn.AvgPool2D(3, 2, 1),
        nn.GlobalAvgPool2D(),
        nn.Dense(10),
    )


def reals(*shape):
    return nd.array(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


def whole(below, *shape):
    values = np.random.default_rng(sum(shape)).integers(0, below, shape)
    return nd.array(values.astype(np.float32))


def classes(net, inputs, labels):
    """A maker of a classifier, and data of n samples of length t."""
    loss = gluon.loss.SoftmaxCrossEntropyLoss
    return lambda: WithLoss(net(), loss()), lambda n, t: (inputs(n, t), labels(n, t))


def flat(n, t):
    return reals(n, 20)


def text(n, t):
    return whole(50, n, t)


def one_label(n, t):
    return whole(5, n)


NETS = {
    "dense": classes(
        lambda: sequence(nn.Dense(33, activation="relu"), nn.Dense(7)), flat, one_label
    ),
    "dense, wide": (
        lambda: WithLoss(
            sequence(nn.Dense(130, activation="tanh"), nn.Dense(64), nn.Dense(1)),
            gluon.loss.L2Loss(),
        ),
        lambda n, t: (reals(n, 200), reals(n, 1)),
    ),
    "dropout": classes(
        lambda: sequence(nn.Dense(33, activation="relu"), nn.Dropout(0.5), nn.Dense(7)),
        flat,
        one_label,
    ),
    "batch norm": classes(
        lambda: sequence(nn.Dense(33), nn.BatchNorm(), nn.Dense(7)), flat, one_label
    ),
    "layer norm": classes(
        lambda: sequence(nn.Dense(33), nn.LayerNorm(), nn.Dense(7)), flat, one_label
    ),
    "embedding": classes(
        lambda: sequence(nn.Embedding(50, 16), nn.Dense(7)), lambda n, t: whole(50, n, 6), one_label
    ),
    "convolutions, batch": classes(convolutions, lambda n, t: reals(n, 3, 14, 13), one_label),
    "convolutions, images": classes(
        convolutions, lambda n, t: reals(2, 3, n + 10, t + 10), lambda n, t: whole(5, 2)
    ),
    "lstm": classes(lambda: Recurrent(rnn.LSTM(8)), text, one_label),
    "lstm, mean": classes(lambda: Recurrent(rnn.LSTM(8), "mean"), text, one_label),
    "gru": classes(lambda: Recurrent(rnn.GRU(8, bidirectional=True)), text, one_label),
    "rnn": classes(lambda: Recurrent(rnn.RNN(8)), text, one_label),
    "tags": classes(lambda: Recurrent(rnn.LSTM(8), "all"), text, lambda n, t: whole(5, t, n)),
}
SIZES = [(8, 11), (3, 17), (16, 5), (1, 1)]


def numbers(net, arrays, seed):
    """The loss and all gradients of one step."""
    mx.random.seed(seed)
    with autograd.record():
        loss = net(*arrays)
    loss.backward()
    params = net.collect_params().values()
    return [loss.asnumpy(), *(p.grad().asnumpy().copy() for p in params if p.grad_req != "null")]


@pytest.mark.parametrize("name", NETS)
def test_gradients_have_the_bits_of_the_specialised_executable_in_any_order(name):
    make, data = NETS[name]
    net = make()
    net.initialize(mx.init.Normal(0.3))
    inputs = [data(*size) for size in SIZES]
    net(*inputs[0])
    net.hybridize(dynamic=False)
    expected = [numbers(net, arrays, i) for i, arrays in enumerate(inputs)]
    net.hybridize()
    order = range(len(inputs))
    for i in (*order, *reversed(order)):
        for mine, wanted in zip(numbers(net, inputs[i], i), expected[i]):
            np.testing.assert_array_equal(mine, wanted)


IMAGES = {
    "3x3": lambda: nn.Conv2D(32, 3, padding=1),
    "few channels": lambda: nn.Conv2D(9, 7, 2, 3, in_channels=3),
    "1x1 stride 2": lambda: nn.Conv2D(40, 1, 2),
    "grouped, dilated": lambda: nn.Conv2D(24, 3, padding=2, dilation=2, groups=3),
    "depthwise": lambda: nn.Conv2D(24, 3, 2, 1, groups=24),
    "transposed": lambda: nn.Conv2DTranspose(9, 4, 2, 1),
    "maximum": lambda: nn.MaxPool2D(3, 2, 1),
    "maximum apart": lambda: nn.MaxPool2D(2),
    "average": lambda: nn.AvgPool2D(3, 2, 1, count_include_pad=False),
}


@pytest.mark.parametrize("name", IMAGES)
def test_gradients_of_images_of_all_sizes_need_two_compilations(name):
    """Forward and backward are one variant, with the bits of a compilation for each size."""
    channels = 3 if name == "few channels" else 24
    net = sequence(IMAGES[name]())
    net.initialize(mx.init.Normal(0.3))
    inputs = [reals(2, channels, *size) for size in ((24, 31), (17, 40), (33, 12), (16, 16))]
    for x in inputs:
        x.attach_grad()

    def gradients(x):
        return [*numbers(net, [x], 0), x.grad.asnumpy().copy()]

    net(inputs[0])
    net.hybridize(dynamic=False)
    expected = [gradients(x) for x in inputs]
    net.hybridize(dynamic={"data": [2, 3]})
    before = mx.compile_stats()["compilations"]
    for x, wanted in zip(inputs, expected):
        for mine, one in zip(gradients(x), wanted, strict=True):
            np.testing.assert_array_equal(mine, one)
    assert mx.compile_stats()["compilations"] - before <= 2


@pytest.mark.parametrize("sizes", [range(2, 60, 7), range(300, 310)])
def test_sums_over_few_and_many_steps_have_the_bits_of_the_specialised_executable(sizes):
    """From 2048 products on a sum is one of sums."""
    net = sequence(nn.Dense(13, flatten=False, in_units=9))
    net.initialize(mx.init.Normal(0.3))
    found = {}
    for dynamic in (False, None):
        net.hybridize(dynamic=dynamic)
        for t in sizes:
            found.setdefault(t, []).append(numbers(net, [reals(8, t, 9)], 0))
    for fixed, symbolic in found.values():
        for mine, wanted in zip(symbolic, fixed):
            np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize(
    "name, most", [("lstm", 3), ("dense", 3), ("batch norm", 3), ("dropout", 3)]
)
def test_training_at_many_sizes_needs_few_compilations(name, most):
    make, data = NETS[name]
    net = make()
    net.initialize()
    net(*data(16, 16))
    net.hybridize()
    before = mx.compile_stats()["compilations"]
    for n, t in zip([16, 17, 24, 31, 16, 40, 20], [16, 17, 40, 31, 33, 18, 29]):
        numbers(net, data(n, t), 0)
    assert mx.compile_stats()["compilations"] - before <= most


def first(F, i):
    """The first index as an array that broadcasts."""
    return F.reshape(F.slice(i, begin=(0,), end=(1,)), shape=(1, 1, 1))


BY_INDEX = {
    "last steps": lambda F, x, i: F.SequenceLast(x, i, use_sequence_length=True),
    "clipped rows": lambda F, x, i: F.take(x, i, mode="clip"),
    "wrapped rows": lambda F, x, i: F.take(x, i, mode="wrap"),
    "sorted rows": lambda F, x, i: F.broadcast_mul(F.sort(x, axis=0), first(F, i)),
    "largest rows": lambda F, x, i: F.broadcast_mul(
        F.topk(x, axis=0, k=3, ret_typ="value"), first(F, i)
    ),
    "largest of each row": lambda F, x, i: F.broadcast_mul(
        F.topk(x, k=2, ret_typ="value"), first(F, i)
    ),
}


@pytest.mark.parametrize("name", BY_INDEX)
def test_gradients_by_index_into_a_symbolic_size_need_one_variant(name):
    """Ends of the valid indices follow from the size: no number of it is in a kernel."""
    data = [(reals(t, 4, 5), nd.array([1, t, t + 2, 3])) for t in (9, 12, 17, 11, 10, 23)]
    for x, _ in data:
        x.attach_grad()
    results = {}
    for dynamic in (False, None):
        net = nn.HybridLambda(BY_INDEX[name])
        net.hybridize(dynamic=dynamic)
        before = mx.compile_stats()
        results[dynamic] = [[*numbers(net, each, 0), each[0].grad.asnumpy()] for each in data]
        after = mx.compile_stats()
    for mine, wanted in zip(results[None], results[False]):
        for one, other in zip(mine, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    assert after["compilations"] - before["compilations"] <= 2
    assert after["classes"] - before["classes"] <= 2


def test_the_gradient_of_a_mean_over_samples_needs_one_variant():
    """Its factor follows from a size: NumPy computes it for each, also where it is reshaped."""
    net = nn.HybridLambda(lambda F, x: F.dot(F.mean(F.sigmoid(x), axis=0), F.ones((5, 3))))
    net.hybridize(dynamic=True)
    before = mx.compile_stats()["compilations"]
    for n in (3, 5, 7):
        x = reals(n, 8, 5)
        x.attach_grad()
        numbers(net, [x], 0)
        sigmoid = 1 / (1 + np.exp(-x.asnumpy()))
        wanted = 3 * sigmoid * (1 - sigmoid) / n
        np.testing.assert_allclose(x.grad.asnumpy(), wanted, rtol=1e-5)
    assert mx.compile_stats()["compilations"] - before == 1


@pytest.mark.parametrize("axes", [[0], [0, 2]])
@pytest.mark.parametrize("kernel", [(2, 2), (1, 4), (4, 3)])
def test_phases_of_unlike_widths_have_kernels_of_their_own_widths(kernel, axes):
    """The gradient of stride 2 consists of phases; in odd images, one of them has fewer cells."""
    net = nn.Conv2D(6, kernel, strides=2, in_channels=16)
    net.initialize(mx.init.Normal(1))
    found = {}
    for dynamic in (False, {"data": axes}):
        net.hybridize(dynamic=dynamic)
        for n in (4, 7, 2):
            x = reals(n, 16, 5, 5)
            x.attach_grad()
            with autograd.record():
                y = net(x)
            y.backward()
            found.setdefault(n, []).append(x.grad.asnumpy())
    for fixed, symbolic in found.values():
        np.testing.assert_array_equal(fixed, symbolic)


def test_a_refused_call_does_not_make_its_sizes_vary():
    net = sequence(nn.Dense(4, in_units=20))
    net.initialize()
    net.hybridize()
    net(reals(3, 20))
    with pytest.raises(mx.MXNetError):
        net(reals(3, 21))
    before = mx.compile_stats()
    net(reals(4, 20))
    (variants,) = net._cached.graph._variants.values()
    assert [str(t) for t in variants.variants[0].signature.types] == ["f32[s0,20]"]
    assert mx.compile_stats()["compilations"] == before["compilations"] + 1


def test_gradients_of_gradients_of_a_variant():
    net = sequence(nn.Dense(6, activation="tanh"), nn.Dense(1))
    net.initialize()
    found = {}
    for dynamic in (False, None):
        net.hybridize(dynamic=dynamic)
        for n in (4, 5, 6):
            x = reals(n, 3)
            x.attach_grad()
            with autograd.record():
                y = net(x)
                (dx,) = autograd.grad(y, [x], create_graph=True)
                z = (dx * dx).sum()
            z.backward()
            found.setdefault(n, []).append(x.grad.asnumpy())
    for fixed, symbolic in found.values():
        np.testing.assert_array_equal(fixed, symbolic)


def weights_after_steps(dynamic, sizes, make):
    """The weights after a step at each size; ``make(net)`` gives a function of data and labels."""
    mx.random.seed(3)
    net = sequence(nn.Dense(9, activation="relu", in_units=6), nn.BatchNorm(in_channels=9))
    net.add(nn.Dense(4, in_units=9))
    net.initialize(mx.init.Normal(0.3))
    net.hybridize(dynamic=dynamic)
    step = make(net)
    for n in sizes:
        step(reals(n, 6), whole(4, n))
    return [p.data().asnumpy() for p in net.collect_params().values()]


def train_step_of(net):
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    return mx.train_step(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)


def loop_of(net):
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})

    def step(x, y):
        with autograd.record():
            value = loss(net(x), y)
        value.backward()
        trainer.step(x.shape[0])

    return step


@pytest.mark.parametrize("make", [train_step_of, loop_of])
@pytest.mark.parametrize("sizes", [[8, 5, 12, 3, 8, 12], [12, 8, 3, 5, 12, 3]])
def test_weights_after_steps_have_the_bits_of_fixed_sizes(make, sizes):
    expected = weights_after_steps(False, sizes, make)
    before = mx.compile_stats()
    for mine, wanted in zip(weights_after_steps(None, sizes, make), expected):
        np.testing.assert_array_equal(mine, wanted)
    assert mx.compile_stats()["new_sizes"] > before["new_sizes"]


def test_steps_at_further_sizes_share_memory():
    net = sequence(nn.Dense(700, activation="relu", in_units=6), nn.Dense(4, in_units=700))
    net.initialize(mx.init.Normal(0.3))
    net.hybridize()
    step = train_step_of(net)

    def memory(sizes):
        for n in sizes:
            step(reals(n, 6), whole(4, n))
        stats = mx.memory_stats()
        return stats["arena_bytes"], stats["saved_bytes"] + stats["saved_idle_bytes"]

    arenas, saved = memory([150, 400, 399])
    more, same = memory([390, 301, 222, 150, 333, 210, 400, 205])
    assert same == saved
    assert more - arenas < 1 << 19, "passes that need less than 256 KB have memory of their own"


def test_a_reshaped_executor_trains_by_the_variant_of_the_first_one():
    data, weight = mx.sym.var("data"), mx.sym.var("weight")
    product = mx.sym.FullyConnected(data, weight, no_bias=True, num_hidden=3)
    head = mx.sym.SoftmaxOutput(product, mx.sym.var("label"))
    values = reals(3, 6)
    gradients = {}
    before = mx.compile_stats()["compilations"]
    executor = head.simple_bind(mx.cpu(), data=(8, 6), label=(8,))
    executor.copy_params_from({"weight": values})
    for n in (8, 5, 12, 7, 8):
        executor = executor.reshape(allow_up_sizing=True, data=(n, 6), label=(n,))
        executor.forward(is_train=True, data=reals(n, 6), label=whole(3, n))
        executor.backward()
        gradients[n] = executor.grad_dict["weight"].asnumpy().copy()
    assert mx.compile_stats()["compilations"] - before == 2
    for n, found in gradients.items():
        alone = head.simple_bind(mx.cpu(), data=(n, 6), label=(n,))
        alone.copy_params_from({"weight": values})
        alone.forward(is_train=True, data=reals(n, 6), label=whole(3, n))
        alone.backward()
        np.testing.assert_array_equal(found, alone.grad_dict["weight"].asnumpy())


def test_gradients_of_a_graph_whose_backward_pass_reads_no_input():
    """Sizes are in its results alone: the gradient of a sum is ones."""
    net = nn.HybridLambda(lambda F, x: F.sum(x))
    net.hybridize()
    for n in (3, 4, 5):
        x = reals(n, 4)
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), np.ones((n, 4)))

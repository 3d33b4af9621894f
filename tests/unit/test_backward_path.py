"""Where the backward path ends: zero gradients, frozen layers, and which statistics move.

The behaviour of MXNet 1.9.1 is recorded: ``fixtures/training/backward_path.json`` has for each
operator a call's attributes, the operands at which its backward path ends, and the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd, sym
from hybridjit.gluon import nn
from hybridjit.ops import lookup
from hybridjit.ops.gradient import NoGradientError, stops

FOLDER = Path(__file__).parent.parent / "fixtures" / "training"
RECORDED = json.loads((FOLDER / "backward_path.json").read_text(encoding="utf-8"))
X = np.random.default_rng(0).normal(1.0, 2.0, (5, 3)).astype(np.float32)

# By name: an index computed from a layer's output.
INDICES: dict[str, Callable] = {
    "argmax": lambda F, h: F.argmax(h, axis=1),
    "argmin": lambda F, h: F.argmin(h, axis=1),
    "argsort": lambda F, h: F.argsort(h, axis=1),
    "topk": lambda F, h: F.topk(h, k=2),
    "topk mask": lambda F, h: F.topk(h, k=2, ret_typ="mask"),
    "topk both": lambda F, h: F.topk(h, k=2, ret_typ="both")[1],
    "round": lambda F, h: F.round(h),
    "floor": lambda F, h: F.floor(h),
    "ceil": lambda F, h: F.ceil(h),
    "rint": lambda F, h: F.rint(h),
    "fix": lambda F, h: F.fix(h),
    "trunc": lambda F, h: F.trunc(h),
    "greater": lambda F, h: h > 0.1,
    "lesser": lambda F, h: F.broadcast_lesser(h, F.zeros_like(h)),
    "not": lambda F, h: F.logical_not(h),
    "and": lambda F, h: F.broadcast_logical_and(h, h),
    "BlockGrad": lambda F, h: F.BlockGrad(h),
    "one_hot": lambda F, h: F.one_hot(F.argmax(h, axis=1), depth=4),
    "multinomial": lambda F, h: F.sample_multinomial(F.softmax(h)),
    "multinomial and its logarithm": lambda F, h: F.sample_multinomial(F.softmax(h), get_prob=True)[
        0
    ],
    "arange_like": lambda F, h: F.contrib.arange_like(h, axis=1),
    "zeros_like": lambda F, h: F.zeros_like(h),
    "ones_like": lambda F, h: F.ones_like(h),
    "shape_array": lambda F, h: F.shape_array(h),
    "size_array": lambda F, h: F.size_array(h),
    "index_array": lambda F, h: F.contrib.index_array(h),
    "whole": lambda F, h: F.cast(F.floor(h), "int32") * 2 + 1,
    "where": lambda F, h: F.where(h > 0, F.ones_like(h), F.zeros_like(h)),
    "make_loss of a step": lambda F, h: F.make_loss(F.floor(h)),
    "broadcast_like": lambda F, h: F.broadcast_like(F.argmax(h, axis=1, keepdims=True), h),
}
REFUSED: dict[str, Callable] = {
    "direct": lambda F, h: h,
    "cast": lambda F, h: F.cast(h, "int32"),
    "clip": lambda F, h: F.clip(h, 0, 3),
    "sign": lambda F, h: F.sign(h),
    "topk values": lambda F, h: F.topk(h, k=2, ret_typ="value"),
}


class Looked(gluon.HybridBlock):
    """An Embedding after a layer, with an index computed from the layer's output."""

    def __init__(self, index: Callable, sparse: bool = False) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = nn.Dense(4)
            self.table = nn.Embedding(6, 3, sparse_grad=sparse)
        self.index = index

    def hybrid_forward(self, F, x):
        return self.table(self.index(F, self.dense(x)))


def looked(index: Callable, how: str) -> Looked:
    net = Looked(index, how == "sparse")
    net.initialize(mx.init.One())
    net.hybridize(how != "eager")
    return net


@pytest.mark.parametrize("how", ["eager", "hybridized", "sparse"])
@pytest.mark.parametrize("name", INDICES)
def test_an_index_computed_from_parameters_trains_the_table(name: str, how: str):
    net = looked(INDICES[name], how)
    with autograd.record():
        y = net(nd.array(X))
    y.backward()
    assert net.table.weight.grad().asnumpy().sum() == y.size
    assert not net.dense.weight.grad().asnumpy().any()


@pytest.mark.parametrize("name", INDICES)
def test_executors_train_the_table(name: str):
    out = looked(INDICES[name], "eager")(sym.var("data"))
    run = out.simple_bind(mx.cpu(), data=X.shape)
    run.forward(is_train=True, data=nd.array(X))
    run.backward([nd.ones(y.shape) for y in run.outputs])
    (table,) = (d for n, d in run.grad_dict.items() if "embedding" in n)
    assert table.asnumpy().sum() == run.outputs[0].size


@pytest.mark.parametrize("how", ["eager", "hybridized", "sparse"])
@pytest.mark.parametrize("name", REFUSED)
def test_an_index_with_a_gradient_is_refused_by_backward(name: str, how: str):
    net = looked(REFUSED[name], how)
    with autograd.record():
        y = net(nd.array(X))
    with pytest.raises(NoGradientError, match="calculate data gradient"):
        y.backward()


@pytest.mark.parametrize("parts", [(True, False), (False, True), (True, True)], ids=str)
def test_the_index_and_the_table_may_be_in_different_blocks(parts: tuple[bool, bool]):
    index = nn.HybridSequential()
    index.add(nn.Dense(4), nn.HybridLambda(lambda F, x: F.argmax(x, axis=1)))
    table = nn.Embedding(6, 3)
    for block, is_hybrid in zip((index, table), parts):
        block.initialize()
        block.hybridize(is_hybrid)
    with autograd.record():
        y = table(index(nd.array(X)))
    y.backward()
    assert table.weight.grad().asnumpy().sum() == y.size


def test_an_image_is_resized_behind_a_step():
    x = nd.random.normal(shape=(4, 4, 3))
    x.attach_grad()
    with autograd.record():
        y = nd.image.resize(nd.floor(x), size=(2, 2)).sum() + x.sum()
    y.backward()
    assert (x.grad.asnumpy() == 1).all()


@pytest.mark.parametrize("name", RECORDED)
def test_the_path_ends_where_it_does_in_mxnet(name: str):
    op = lookup(name)
    for text, ended, passed in RECORDED[name]:
        attrs = op.parse(text)
        assert [i for i in sorted(ended + passed) if stops(op, i, attrs)] == ended, text


# ---- which statistics move ----------------------------------------------------------------------

NORMS: dict[str, Callable] = {
    "BatchNorm": nn.BatchNorm,
    "SyncBatchNorm": lambda: gluon.contrib.nn.SyncBatchNorm(num_devices=1),
}


class Normed(gluon.HybridBlock):
    """dense - before - norm - after - head."""

    def __init__(self, norm: str, before: str, after: str) -> None:
        super().__init__()
        with self.name_scope():
            self.dense, self.norm, self.head = nn.Dense(4), NORMS[norm](), nn.Dense(2)
        self.before, self.after = BETWEEN[before], BETWEEN[after]

    def hybrid_forward(self, F, x):
        return self.head(self.after(F, self.norm(self.before(F, self.dense(x)))))


BETWEEN: dict[str, Callable] = {
    "": lambda F, h: h,
    "BlockGrad": lambda F, h: F.BlockGrad(h),
    "relu, BlockGrad": lambda F, h: F.BlockGrad(F.relu(h)),
    "argmax": lambda F, h: F.argmax(h, axis=1, keepdims=True),
    "sign": lambda F, h: F.sign(h),
    "floor": lambda F, h: F.floor(h),
    "greater": lambda F, h: F.broadcast_greater(h, F.zeros_like(h)),
    "zeros_like": lambda F, h: F.zeros_like(h),
    "make_loss": lambda F, h: F.make_loss(h),
}

# The layers that are frozen, the operators before and after the norm, and whether MXNet moves the
# norm's statistics.
MOVED = [
    ("", "", "", True),
    ("", "", "BlockGrad", True),
    ("", "", "relu, BlockGrad", True),
    ("", "", "argmax", True),
    ("", "", "zeros_like", True),
    ("dense", "", "", True),
    ("dense", "", "BlockGrad", True),
    ("dense norm", "", "", False),
    ("dense norm", "", "BlockGrad", False),
    ("norm", "", "", True),
    ("norm", "", "BlockGrad", True),
    ("norm", "", "argmax", True),
    ("norm", "BlockGrad", "", False),
    ("norm", "floor", "", False),
    ("norm", "greater", "BlockGrad", False),
    ("norm", "zeros_like", "", False),
    ("norm", "make_loss", "", False),
    ("norm", "sign", "", True),
    ("head", "BlockGrad", "", True),
    ("dense head", "", "argmax", True),
    ("dense norm head", "", "", False),
]


def frozen(net: Normed, layers: str) -> list:
    """The net's statistics, after these layers were frozen."""
    for layer in layers.split():
        getattr(net, layer).collect_params().setattr("grad_req", "null")
    return [net.norm.running_mean, net.norm.running_var]


def normed(norm: str, layers: str, before: str, after: str) -> tuple[Normed, list]:
    net = Normed(norm, before, after)
    net.initialize(mx.init.Normal(0.5))
    net(nd.array(X))
    return net, frozen(net, layers)


def values(params: list) -> list[np.ndarray]:
    return [p.data().asnumpy() for p in params]


@pytest.mark.parametrize("how", ["eager", "hybridized", "static"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("layers", "before", "after", "moves"), MOVED)
def test_statistics_move_where_the_backward_pass_is_needed(
    norm: str, layers: str, before: str, after: str, moves: bool, how: str
):
    net, statistics = normed(norm, layers, before, after)
    if how != "eager":
        net.hybridize(static_alloc=how == "static")
    x = nd.array(X)
    x.attach_grad(grad_req="null" if layers != "dense norm head" else "write")
    was = values(statistics)
    with autograd.record():
        y = net(nd.BlockGrad(x)) if layers == "dense norm head" else net(x)
    y.backward()
    now = values(statistics)
    assert [bool((a != b).any()) for a, b in zip(was, now)] == [moves, moves]


@pytest.mark.parametrize(("layers", "before", "after", "moves"), MOVED[:-1])
def test_one_step_moves_the_same_statistics(layers: str, before: str, after: str, moves: bool):
    net, statistics = normed("BatchNorm", layers, before, after)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.0})
    step = mx.train_step(net, gluon.loss.L2Loss(), trainer)
    was = values(statistics)
    step(nd.array(X), nd.zeros((5, 2)), batch_size=5)
    now = values(statistics)
    assert [bool((a != b).any()) for a, b in zip(was, now)] == [moves, moves]


@pytest.mark.parametrize(("layers", "before", "after", "moves"), MOVED[:-1])
def test_modules_move_the_same_statistics(layers: str, before: str, after: str, moves: bool):
    net, _ = normed("BatchNorm", layers, before, after)
    out = sym.LinearRegressionOutput(net(sym.var("data")), sym.var("label"))
    fixed = [n for n, p in net.collect_params().items() if p.grad_req == "null"]
    fixed = [n for n in fixed if "running" not in n]
    module = mx.mod.Module(out, label_names=["label"], fixed_param_names=fixed)
    module.bind([("data", (5, 3))], [("label", (5, 2))])
    module.init_params(mx.init.Normal(0.5))
    was = {n: a.asnumpy() for n, a in module.get_params()[1].items()}
    module.forward(mx.io.DataBatch([nd.array(X)], [nd.zeros((5, 2))]), is_train=True)
    module.backward()
    now = {n: a.asnumpy() for n, a in module.get_params()[1].items()}
    assert [bool((was[n] != now[n]).any()) for n in was] == [moves, moves]


def test_frozen_features_of_a_network_stay():
    net = gluon.model_zoo.vision.resnet18_v1(classes=3)
    net.initialize()
    net.features.collect_params().setattr("grad_req", "null")
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    x, label = nd.random.normal(shape=(2, 3, 32, 32)), nd.array([0, 2])
    net(x)
    params = list(net.features.collect_params().values())
    was, head = values(params), net.output.weight.data().asnumpy()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    with autograd.record():
        y = loss(net(x), label)
    y.backward()
    trainer.step(2)
    mx.train_step(net, loss, trainer)(x, label, batch_size=2)
    assert all((a == b).all() for a, b in zip(was, values(params)))
    assert (net.output.weight.data().asnumpy() != head).any()


@pytest.mark.parametrize("hybridize", [False, True])
def test_of_two_outputs_the_unused_one_moves_where_it_is_one_call(hybridize: bool):
    """As in MXNet: a hybridized block is one call, whose backward pass is that of all outputs."""

    class Two(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.used, self.unused = nn.BatchNorm(), nn.BatchNorm()

        def hybrid_forward(self, F, x):
            return self.used(x), self.unused(x)

    net = Two()
    net.initialize()
    net.hybridize(hybridize)
    with autograd.record():
        y, _ = net(nd.array(X))
    y.backward()
    assert net.used.running_mean.data().asnumpy().any()
    assert net.unused.running_mean.data().asnumpy().any() == hybridize


@pytest.mark.parametrize("hybridize", [False, True])
def test_gradients_of_a_layer_behind_a_norm_do_not_move_it(hybridize: bool):
    net, statistics = normed("BatchNorm", "", "", "")
    net.hybridize(hybridize)
    was = values(statistics)
    for layer, moves in ((net.head, False), (net.dense, True)):
        with autograd.record():
            y = net(nd.array(X))
        autograd.grad(y, [layer.weight.data()])
        assert (values(statistics)[0] != was[0]).any() == moves


@pytest.mark.parametrize("hybridize", [False, True])
def test_an_input_that_is_not_learned_does_not_move_a_frozen_norm(hybridize: bool):
    """The block's input is on the tape, but no gradient arrives from it anywhere."""
    first, norm = nn.Dense(4), nn.BatchNorm()
    for block in (first, norm):
        block.initialize()
    norm.hybridize(hybridize)
    norm(first(nd.array(X)))
    norm.collect_params().setattr("grad_req", "null")
    for cut, moves in ((nd.BlockGrad, False), (nd.identity, True)):
        with autograd.record():
            y = norm(cut(first(nd.array(X))))
        y.backward()
        assert norm.running_mean.data().asnumpy().any() == moves


# ---- gradients that do not come from the heads --------------------------------------------------

LOSSES: dict[str, Callable] = {
    "make_loss": lambda F, x: F.make_loss(x),
    "MakeLoss": lambda F, x: F.MakeLoss(x, grad_scale=2),
    "LinearRegressionOutput": lambda F, x: F.LinearRegressionOutput(x, F.zeros_like(x)),
    "SoftmaxOutput": lambda F, x: F.SoftmaxOutput(x, F.zeros_like(F.sum(x, axis=1))),
}


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_behind_which_gradients_stop_has_its_gradient(name: str, hybridize: bool):
    found = []
    for stop in (lambda F, x: x, lambda F, x: F.BlockGrad(x), lambda F, x: F.floor(x)):
        net = nn.HybridLambda(lambda F, x, stop=stop: stop(F, LOSSES[name](F, x)))
        net.hybridize(hybridize)
        x = nd.array(X)
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward()
        found.append(x.grad.asnumpy())
    assert found[0].any()
    assert all((d == found[0]).all() for d in found)


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_penalty_behind_which_gradients_stop_counts(hybridize: bool):
    x, state = nd.array(1 / (1 + np.exp(-X))), nd.full((3,), 0.5)
    net = nn.HybridLambda(
        lambda F, x, s: F.BlockGrad(F.IdentityAttachKLSparseReg(x, s, penalty=0.1))
    )
    net.hybridize(hybridize)
    x.attach_grad()
    with autograd.record():
        y = net(x, state)
    y.backward()
    average = 0.9 * 0.5 + 0.1 * x.asnumpy().mean(axis=0)
    slope = 0.1 * (0.9 / (1 - average) - 0.1 / average)
    np.testing.assert_allclose(x.grad.asnumpy(), np.broadcast_to(slope, X.shape), rtol=1e-5)
    np.testing.assert_allclose(state.asnumpy(), average, rtol=1e-6)


def test_a_function_behind_which_gradients_stop_is_called_with_zeros():
    seen = []

    class Twice(autograd.Function):
        def forward(self, x):
            return 2 * x

        def backward(self, d):
            seen.append(d.asnumpy())
            return 2 * d

    x = nd.array(X)
    x.attach_grad()
    with autograd.record():
        y = nd.BlockGrad(Twice()(x)) + x
    y.backward()
    assert len(seen) == 1 and not seen[0].any()
    assert (x.grad.asnumpy() == 1).all()

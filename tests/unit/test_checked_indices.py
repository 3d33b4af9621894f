"""HYBRIDJIT_CHECK refuses indices and labels that MXNet clips or ignores, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd, sym
from hybridjit._core.config import override
from hybridjit.gluon import nn

SCORES = nd.ones((2, 3))
LOSS = gluon.loss.SoftmaxCELoss
GOOD, HIGH, LOW = ([0, 2], [0, 7], [-1, 2])


class Written(gluon.HybridBlock):
    """A block of one function of F and the inputs."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, *args):
        return self.function(F, *args)


READERS = {
    "Embedding": lambda F, i: F.Embedding(i, F.ones((3, 4)), input_dim=3, output_dim=4),
    "take": lambda F, i: F.take(F.ones((3, 4)), i),
    "pick": lambda F, i: F.pick(F.ones((2, 3)), i),
    "batch_take": lambda F, i: F.batch_take(F.ones((2, 3)), F.cast(i, "int32")),
    "softmax_cross_entropy": lambda F, i: F.softmax_cross_entropy(F.ones((2, 3)), i),
}
IGNORING = {
    "one_hot": lambda F, i: F.one_hot(i, depth=3),
    "take, wrapped": lambda F, i: F.take(F.ones((3, 4)), i, mode="wrap"),
    "ignored label": lambda F, i: F.SoftmaxOutput(
        F.ones((2, 3)), F.clip(i, -1, 2), use_ignore=True, ignore_label=-1
    ),
}


def block(function, hybridized):
    net = Written(function)
    if hybridized:
        net.hybridize()
    return net


@pytest.mark.parametrize("check", ["indices", "1"])
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", READERS)
def test_an_index_out_of_range_is_refused(name, hybridized, check):
    net = block(READERS[name], hybridized)
    wanted = net(nd.array(GOOD)).asnumpy()
    clipped = net(nd.array(HIGH)).asnumpy()  # without the switch
    with override(check=check):
        assert (net(nd.array(GOOD)).asnumpy() == wanted).all()
        for bad in (HIGH, LOW):
            with pytest.raises(mx.MXNetError, match=f"index {7 if bad is HIGH else -1} is not"):
                net(nd.array(bad))
    assert (net(nd.array(HIGH)).asnumpy() == clipped).all()


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", IGNORING)
def test_indices_with_a_meaning_are_computed(name, hybridized):
    net = block(IGNORING[name], hybridized)
    wanted = [net(nd.array(some)).asnumpy() for some in (HIGH, LOW)]
    with override(check="indices"):
        for some, right in zip((HIGH, LOW), wanted):
            assert (net(nd.array(some)).asnumpy() == right).all()


@pytest.mark.parametrize("check", ["indices", "1"])
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_a_label_of_a_training_step_is_refused_at_the_users_line(hybridized, check):
    net, loss = nn.Dense(3, in_units=4), LOSS()
    net.initialize()
    if hybridized:
        net.hybridize()
        loss.hybridize()
    with override(check=check):
        for label in ([0, 2], [0, 3]):
            with autograd.record():
                scores = net(nd.ones((2, 4)))
                if label[1] < 3:
                    loss(scores, nd.array(label)).backward()
                    continue
                with pytest.raises(mx.MXNetError, match="pick: index 3 .* 0 to 2; without HYB"):
                    loss(scores, nd.array(label))


def test_inference_reads_no_label():
    with override(check="indices"):
        assert nd.SoftmaxOutput(SCORES, nd.array(HIGH)).shape == (2, 3)
        with autograd.record(), pytest.raises(mx.MXNetError, match="SoftmaxOutput: index 7 is not"):
            nd.SoftmaxOutput(SCORES, nd.array(HIGH))


def test_labels_of_a_module_are_refused():
    graph = sym.SoftmaxOutput(sym.FullyConnected(sym.var("data"), num_hidden=3), name="softmax")
    for labels in ([0, 2], [0, 3]):
        with override(check="indices"):
            module = mx.mod.Module(graph)
            batches = mx.io.NDArrayIter(np.ones((2, 4)), np.array(labels), 2)
            if labels[1] < 3:
                module.fit(batches, num_epoch=1)
            else:
                with pytest.raises(mx.MXNetError, match="SoftmaxOutput: index 3 is not"):
                    module.fit(batches, num_epoch=1)


def test_indices_of_varying_length_are_checked():
    net = nn.Embedding(5, 4)
    net.initialize()
    net.hybridize()
    with override(check="indices"):
        for length in (3, 4, 6, 7):
            assert net(nd.ones((2, length))).shape == (2, length, 4)
            with pytest.raises(mx.MXNetError, match="Embedding: index 5 is not in the range 0 to"):
                net(nd.ones((2, length)) * 5)


def test_switches_of_code_take_effect_between_equal_calls():
    net = nn.Dense(3, in_units=4)
    net.initialize()
    net.hybridize()
    net(nd.ones((2, 4)))
    before = mx.compile_stats()["compilations"]
    with override(skip="fuse"):
        net(nd.ones((2, 4)))
        net(nd.ones((2, 4)))
    net(nd.ones((2, 4)))
    assert mx.compile_stats()["compilations"] == before + 1

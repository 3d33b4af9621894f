"""Training with gradients by rows: lazy updates, Trainers, stores, hybridized nets.

The numbers are those of MXNet 1.9.1.
"""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd

GRADIENT = nd.sparse.row_sparse_array((np.float32([[1, 2], [0, 0]]), [1, 3]), shape=(5, 2))


def steps(optimizer, count=2, weight=None):
    """A weight of ones after updates by :data:`GRADIENT`, then one of another row."""
    weight = nd.ones((5, 2)) if weight is None else weight
    updater = mx.optimizer.get_updater(optimizer)
    for _ in range(count):
        updater(0, GRADIENT, weight)
    other = nd.sparse.row_sparse_array((np.float32([[4, 4]]), [0]), shape=(5, 2))
    updater(0, other, weight)
    return weight.asnumpy()


def dense_steps(optimizer):
    weight, updater = nd.ones((5, 2)), mx.optimizer.get_updater(optimizer)
    first, last = GRADIENT.tostype("default"), nd.zeros((5, 2))
    last[0] = 4
    for g in (first, first, last):
        updater(0, g, weight)
    return weight.asnumpy()


SGD = {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1}
LAZY = {
    "sgd": [[0.59, 0.59], [0.6821, 0.3931], [1.0, 1.0], [0.9711, 0.9711], [1.0, 1.0]],
    "adam": [
        [0.9361182, 0.9361182],
        [0.8000236, 0.8000114],
        [1.0, 1.0],
        [0.8004114, 0.8004114],
        [1.0, 1.0],
    ],
}
GIVEN = {"sgd": SGD, "adam": {"learning_rate": 0.1, "wd": 0.1}}


@pytest.mark.parametrize("name", GIVEN)
def test_rows_without_a_gradient_wait(name):
    for kind in ("default", "row_sparse"):
        weight = nd.ones((5, 2)).tostype(kind)
        found = steps(mx.optimizer.create(name, lazy_update=True, **GIVEN[name]), weight=weight)
        np.testing.assert_allclose(found, np.float32(LAZY[name]), rtol=2e-6)
        assert found[2].tolist() == [1, 1]


@pytest.mark.parametrize("name", GIVEN)
def test_all_rows_where_updates_are_not_lazy(name):
    found = steps(mx.optimizer.create(name, lazy_update=False, **GIVEN[name]))
    wanted = dense_steps(mx.optimizer.create(name, **GIVEN[name]))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_other_optimizers():
    """Of ftrl and a dense weight all rows are computed, as of those that know no rows."""
    for name in ("adagrad", "ftrl", "rmsprop", "groupadagrad"):
        found = steps(mx.optimizer.create(name, learning_rate=0.1))
        wanted = dense_steps(mx.optimizer.create(name, learning_rate=0.1))
        np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=name)


class Bag(gluon.HybridBlock):
    """Rows of a table, added."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        with self.name_scope():
            self.table = gluon.nn.Embedding(6, 3, sparse_grad=sparse)
            self.last = gluon.nn.Dense(2, in_units=3)

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.last(self.table(x).sum(axis=1))


@pytest.mark.parametrize("hybrid", [False, True])
def test_an_embedding_is_trained_by_rows(hybrid):
    """The same as by dense gradients where nothing decays; rows that occur are all there are."""
    results = []
    for sparse in (True, False):
        mx.random.seed(3)
        net = Bag(sparse)
        net.initialize(mx.init.Xavier())
        if hybrid:
            net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
        if sparse and hybrid:
            with pytest.raises(mx.MXNetError, match="row_sparse"):
                mx.train_step(net, gluon.loss.L2Loss(), trainer)(nd.ones((2, 2)), nd.ones((2, 2)))
        for batch in ([[1, 1], [4, 1]], [[0, 4], [4, 5]]):
            with autograd.record():
                loss = nd.square(net(nd.array(batch))).sum()
            loss.backward()
            trainer.step(2)
        results.append(net.table.weight.data().asnumpy())
        grad = net.table.weight.grad()
        assert grad.stype == ("row_sparse" if sparse else "default")
        if sparse:
            assert grad.indices.asnumpy().tolist() == [0, 4, 5]
            net.table.weight.zero_grad()
            assert grad.asnumpy().sum() == 0 and grad.data.shape == (0, 3)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)


def test_contexts_add_up_rows():
    net = gluon.nn.Embedding(6, 3, sparse_grad=True)
    places = [mx.cpu(0), mx.cpu(1)]
    net.initialize(mx.init.One(), ctx=places)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    with autograd.record():
        losses = [net(nd.array([n, 2], ctx=place)).sum() for n, place in zip((0, 5), places)]
    autograd.backward(losses)
    trainer.step(1)
    for place in places:
        found = net.weight.data(place).asnumpy()[:, 0]
        assert found.tolist() == [0, 1, -1, 1, 1, 0]


def test_rows_of_a_store():
    store = mx.kv.create("local")
    store.init("w", nd.ones((4, 2)).tostype("row_sparse"))
    out = nd.sparse.zeros("row_sparse", (4, 2))
    store.row_sparse_pull("w", out=out, row_ids=nd.array([3, 1, 3]))
    assert out.indices.asnumpy().tolist() == [1, 3]
    store.pull("w", out=out)  # passed over
    assert out.indices.asnumpy().tolist() == [1, 3]
    store.pull("w", out=out, ignore_sparse=False)
    assert out.data.shape == (4, 2)
    with pytest.raises(mx.MXNetError, match="row_sparse arrays"):
        store.row_sparse_pull("w", out=nd.ones((4, 2)), row_ids=nd.array([1]))
    store.push("w", [out, out])
    store.row_sparse_pull("w", out=out, row_ids=nd.array([0]))
    assert out.data.asnumpy().tolist() == [[2, 2]]

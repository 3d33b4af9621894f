"""row_sparse parameters of Gluon with a Trainer, and of modules; values are MXNet 1.9.1's."""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd, sym

F, K = 10, 3


def parameter(contexts=1, stype="row_sparse", grad_stype="row_sparse") -> gluon.Parameter:
    found = gluon.Parameter("x", shape=(4, 2), stype=stype, grad_stype=grad_stype)
    found.initialize("ones", ctx=[mx.cpu(i) for i in range(contexts)])
    return found


def step(param, **options) -> tuple[gluon.Trainer, list[float]]:
    """A step by gradients of 2 in all rows, and the first column after it."""
    trainer = gluon.Trainer([param], "sgd", {"learning_rate": 1}, **options)
    is_sparse = param.stype != "default"
    weights = param.list_row_sparse_data(nd.array([0, 2])) if is_sparse else param.list_data()
    with mx.autograd.record():
        results = [weight * 2 for weight in weights]
    for result in results:
        result.backward()
    trainer.step(1)
    found = param.row_sparse_data(nd.arange(4)) if is_sparse else param.data(mx.cpu(0))
    return trainer, found.asnumpy()[:, 0].tolist()


def test_rows_come_from_the_trainers_store():
    param = parameter()
    for ask in (param.data, param.list_data):
        with pytest.raises(RuntimeError, match="storage type is row_sparse. Please use row_sparse"):
            ask()
    for ask in (param.row_sparse_data, param.list_row_sparse_data):
        with pytest.raises(RuntimeError, match="when no Trainer is created with it"):
            ask(nd.array([0]))
    trainer = gluon.Trainer([param], "sgd")
    found = param.row_sparse_data(nd.array([3, 1, 1]))
    assert found.indices.asnumpy().tolist() == [1, 3]
    assert found.asnumpy()[:, 0].tolist() == [0, 1, 0, 1]
    assert (trainer._kvstore.type, trainer._update_on_kvstore) == ("device", True)
    param.set_data(nd.ones((4, 2)) * 3)
    assert param.row_sparse_data(nd.array([0, 1])).asnumpy()[:, 0].tolist() == [3, 3, 0, 0]
    with pytest.raises(RuntimeError, match="More than one trainers for a row_sparse Parameter"):
        gluon.Trainer([param], "sgd")
    assert param.grad().stype == "row_sparse"
    param.cast("float64")
    assert param.row_sparse_data(nd.array([0])).dtype == np.float64


def test_dense_parameters_have_no_rows():
    param = parameter(stype="default")
    with pytest.raises(RuntimeError, match=r"via row_sparse_data\(\) .* default. Please use data"):
        param.row_sparse_data(nd.array([0]))
    with pytest.raises(RuntimeError, match=r"via list_row_sparse_data\(\)"):
        param.list_row_sparse_data(nd.array([0]))


@pytest.mark.parametrize("kind", ["local", "device"])
@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("grad_stype", ["row_sparse", "default"])
def test_a_store_updates_sparse_parameters(kind, contexts, grad_stype):
    trainer, values = step(parameter(contexts, grad_stype=grad_stype), kvstore=kind)
    assert (trainer._kvstore.type, trainer._update_on_kvstore) == (kind, True)
    assert values == [1 - 2 * contexts] * 4
    with pytest.raises(ValueError, match="Cannot set update_on_kvstore=False when sparse weights"):
        step(parameter(contexts), kvstore=kind, update_on_kvstore=False)
    with pytest.raises(TypeError, match="KVStore with row_sparse parameters"):
        step(parameter(contexts), kvstore=None)


@pytest.mark.parametrize(
    "asked, contexts, updates",
    [(None, 1, None), (None, 2, False), (True, 2, True), (False, 2, False)],
)
def test_dense_parameters_with_rows_of_gradients_are_updated_where_they_are(
    asked, contexts, updates
):
    param = parameter(contexts, stype="default")
    trainer, values = step(param, update_on_kvstore=asked)
    assert trainer._update_on_kvstore is updates
    assert values == [1 - 2 * contexts] * 4


def test_an_embedding_with_sparse_weights_is_trained():
    class Net(gluon.Block):
        def __init__(self):
            super().__init__()
            options = {"stype": "row_sparse", "grad_stype": "row_sparse"}
            self.embed_weight = self.params.get("embed_weight", shape=(4, 3), **options)
            self.dense = gluon.nn.Dense(2)

        def forward(self, x):
            weight = self.embed_weight.row_sparse_data(x)
            return self.dense(nd.Embedding(x, weight, input_dim=4, output_dim=3, sparse_grad=True))

    net = Net()
    net.initialize(mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
    with mx.autograd.record():
        y = net(nd.array([[0, 2], [1, 2]]))
    y.backward()
    trainer.step(1)
    weight = net.embed_weight.row_sparse_data(nd.arange(4)).asnumpy()
    assert weight[:, 0].tolist() == [-1, -1, -3, 1]


def test_files_keep_all_rows(tmp_path):
    params = gluon.ParameterDict("net_")
    sparse = params.get("w", shape=(4, 2), stype="row_sparse")
    params.initialize(mx.init.Uniform())
    gluon.Trainer(params, "sgd")
    sparse.row_sparse_data(nd.array([1]))
    params.save(str(tmp_path / "a.params"))
    assert nd.load(str(tmp_path / "a.params"))["net_w"].stype == "row_sparse"
    for stype in ("row_sparse", "default"):
        again = gluon.ParameterDict("net_")
        found = again.get("w", shape=(4, 2), stype=stype)
        again.load(str(tmp_path / "a.params"))
        values = found.data() if stype == "default" else found._reduce()
        expected = sparse.row_sparse_data(nd.arange(4)).asnumpy()
        np.testing.assert_array_equal(values.asnumpy(), expected)
        assert values.stype == stype


def test_blocks_refuse_sparse_parameters():
    product = sym.dot(sym.var("data"), sym.var("weight", stype="row_sparse"))
    with pytest.raises(AssertionError, match="SymbolBlock doesn't support Parameter 'weight'"):
        gluon.SymbolBlock(product, sym.var("data"))

    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.w = self.params.get("w", shape=(3, 2), stype="row_sparse")

        def hybrid_forward(self, F, x, w):
            return F.dot(x, w)

    net = Net()
    net.initialize()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="storage type is row_sparse"):
            net(nd.ones((2, 3)))
        net.hybridize()


def factorization_machine() -> sym.Symbol:
    x = sym.var("data", stype="csr")
    v = sym.var("v", shape=(F, K), stype="row_sparse", init=mx.init.Normal(0.1))
    w = sym.var("w", shape=(F, 1), stype="row_sparse", init=mx.init.Normal(0.1))
    linear = sym.broadcast_add(sym.dot(x, w), sym.var("b", shape=(1,), init=mx.init.Zero()))
    squares = sym.dot(sym.square(x), sym._internal._square_sum(v, axis=1, keepdims=True))
    pairs = 0.5 * sym.square(sym.dot(x, v))
    both = sym.sum(sym.Concat(linear, pairs, dim=1), axis=1, keepdims=True)
    score = sym.elemwise_add(both, -0.5 * squares)
    return sym.LogisticRegressionOutput(score, sym.var("softmax_label"))


# The sum of the values, of their sizes, and of row 3, which no sample has
@pytest.mark.parametrize("store", [None, "local"])
@pytest.mark.parametrize(
    "optimizer, v, w",
    [
        ("sgd", [1.04539, 17.23133, -1.13189], [-0.06916, 6.61868, -0.98999]),
        ("adam", [0.38878, 15.36354, -1.13189], [-1.67995, 6.75387, -0.98999]),
        ("adagrad", [0.75736, 17.13306, -1.13189], [-0.55128, 6.70998, -0.98999]),
        ("ftrl", [-1.52603, 3.87402, -1.13189], [-0.89042, 1.50126, -0.98999]),
    ],
)
def test_a_module_trains_the_rows_that_occur(store, optimizer, v, w):
    x = np.float32(np.abs(np.sin(np.arange(12 * F).reshape(12, F) * 1.7)))
    x[x < 0.8] = 0
    x[:, 3] = 0
    labels = np.float32(np.arange(12) % 2)
    data = mx.io.NDArrayIter(nd.sparse.csr_matrix(x), labels, 4, last_batch_handle="discard")
    mod = mx.mod.Module(factorization_machine())
    mod.bind(data.provide_data, data.provide_label)
    mod.init_params()
    first = {"v": np.sin(np.arange(F * K)).reshape(F, K), "w": np.cos(np.arange(F)).reshape(F, 1)}
    given = {name: nd.array(array).tostype("row_sparse") for name, array in first.items()}
    mod.set_params({**given, "b": nd.array([0.1])}, {})
    kept = None if store is None else mx.kv.create(store)
    mod.init_optimizer(kept, optimizer, {"learning_rate": 0.05, "wd": 0.01})
    for _ in range(3):
        data.reset()
        for batch in data:
            mod.prepare(batch, sparse_row_id_fn=lambda b: {"w": nd.arange(F), "v": nd.arange(F)})
            mod.forward_backward(batch)
            mod.update()
    values, _ = mod.get_params()
    for name, expected in (("v", v), ("w", w)):
        assert values[name].stype == "row_sparse"
        found = values[name].asnumpy()
        sums = [found.sum(), np.abs(found).sum(), found[3].sum()]
        np.testing.assert_allclose(sums, expected, atol=3e-5)


def test_a_module_stores_its_inputs_as_its_variables_say():
    mod = mx.mod.Module(sym.square(sym.var("data", stype="csr")), label_names=None)
    mod.bind([("data", (2, 3))], for_training=False)
    mod.init_params()
    mod.forward(mx.io.DataBatch([nd.array([[0, 2, 0], [1, 0, 3]])]))
    (found,) = mod.get_outputs()
    assert found.stype == "csr" and found.data.asnumpy().tolist() == [4, 1, 9]


def test_csr_data_is_split_by_rows():
    data = nd.array(np.arange(12).reshape(4, 3)).tostype("csr")
    parts = gluon.utils.split_and_load(data, [mx.cpu(0), mx.cpu(1)])
    assert [(x.stype, x.context) for x in parts] == [("csr", mx.cpu(0)), ("csr", mx.cpu(1))]
    np.testing.assert_array_equal(parts[1].asnumpy(), np.arange(6, 12).reshape(2, 3))
    uneven = gluon.utils.split_data(data, 3, even_split=False)
    assert [x.shape[0] for x in uneven] == [2, 1, 1]
    columns = gluon.utils.split_data(data, 3, batch_axis=1)
    assert [x.stype for x in columns] == ["default"] * 3


def test_a_module_initializes_row_sparse_parameters():
    init = mx.init.Uniform(0.1)
    weight = sym.var("v", shape=(5, 1), stype="row_sparse", init=init)
    mod = mx.mod.Module(sym.dot(sym.var("data", stype="csr"), weight), label_names=None)
    mod.bind([("data", (8, 5))], for_training=False)
    assert mod._arg_params is None
    mod.init_params()
    values = mod._arg_params["v"]
    assert values.stype == "row_sparse" and np.abs(values.asnumpy()).sum() > 0
    assert mod._aux_params == {}

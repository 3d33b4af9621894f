"""Modules that are trained: fit, gradients, optimizers, buckets, chains, checkpoints."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import io, nd, sym
from hybridjit.kvstore.base import TestStore as AddingStore
from hybridjit.mod import BucketingModule, Module, PythonLossModule, SequentialModule

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(64, 4)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] > 0).astype(np.float32)


def network(name: str = "softmax") -> sym.Symbol:
    hidden = sym.FullyConnected(sym.var("data"), num_hidden=16, name="fc1")
    hidden = sym.Activation(hidden, act_type="tanh", name="act")
    return sym.SoftmaxOutput(sym.FullyConnected(hidden, num_hidden=2, name="fc2"), name=name)


def bound(net: sym.Symbol | None = None, **options) -> Module:
    module = Module(net or network())
    module.bind([("data", (8, 4))], [("softmax_label", (8,))], **options)
    mx.random.seed(1)
    module.init_params(mx.init.Xavier())
    return module


def batch(start: int = 0) -> io.DataBatch:
    rows = slice(start, start + 8)
    return io.DataBatch([nd.array(X[rows])], [nd.array(Y[rows])])


def expected_gradients(values: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> dict:
    hidden = np.tanh(x @ values["fc1_weight"].T + values["fc1_bias"])
    scores = hidden @ values["fc2_weight"].T + values["fc2_bias"]
    p = np.exp(scores - scores.max(1, keepdims=True))
    d = p / p.sum(1, keepdims=True) - np.eye(2)[y.astype(int)]
    back = d @ values["fc2_weight"] * (1 - hidden**2)
    return {
        "fc2_weight": d.T @ hidden,
        "fc2_bias": d.sum(0),
        "fc1_weight": back.T @ x,
        "fc1_bias": back.sum(0),
        "data": back @ values["fc1_weight"],
    }


def as_arrays(module: Module) -> dict[str, np.ndarray]:
    return {name: value.asnumpy() for name, value in module.get_params()[0].items()}


def test_gradients_and_one_step():
    module = bound(inputs_need_grad=True)
    before = as_arrays(module)
    wanted = expected_gradients(before, X[:8], Y[:8])
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    module.forward_backward(batch())
    (by_data,) = module.get_input_grads()
    np.testing.assert_allclose(by_data.asnumpy(), wanted["data"], rtol=1e-3, atol=1e-5)
    module.update()
    for name, new in as_arrays(module).items():
        step = 0.5 * wanted[name] / 8  # gradients are divided by the batch's size
        np.testing.assert_allclose(new, before[name] - step, rtol=1e-3, atol=1e-5)


def test_gradients_that_are_not_wanted_are_none():
    module = bound(inputs_need_grad=True, grad_req={"data": "null", "fc1_bias": "null"})
    before = as_arrays(module)
    module.forward_backward(batch())
    assert module.get_input_grads() == [None]
    found = dict(zip(module._exec_group.param_names, module._exec_group.grad_arrays))
    assert found["fc1_bias"] == [None]
    wanted = expected_gradients(before, X[:8], Y[:8])["fc1_weight"]  # "write" where nothing is said
    np.testing.assert_allclose(found["fc1_weight"][0].asnumpy(), wanted, rtol=1e-3, atol=1e-5)


def test_fit_learns(caplog):
    seen = []
    np.random.seed(0)
    mx.random.seed(0)
    module = Module(network())
    with caplog.at_level(logging.INFO):
        module.fit(
            io.NDArrayIter(X, Y, 8, shuffle=True),
            io.NDArrayIter(X, Y, 8),
            optimizer="adam",
            optimizer_params={"learning_rate": 0.03},
            initializer=mx.init.Xavier(),
            num_epoch=50,
            batch_end_callback=lambda param: seen.append((param.epoch, param.nbatch)),
            epoch_end_callback=lambda epoch, symbol, args, auxs: seen.append(sorted(args)),
        )
    assert module.score(io.NDArrayIter(X, Y, 8), "acc")[0][1] > 0.95
    names = ["fc1_bias", "fc1_weight", "fc2_bias", "fc2_weight"]
    assert seen[:9] == [*((0, number) for number in range(8)), names] and len(seen) == 50 * 9
    assert "Epoch[49] Train-accuracy=" in caplog.text
    assert "Epoch[49] Validation-accuracy=" in caplog.text
    with pytest.raises(AssertionError, match="number of epochs"):
        module.fit(io.NDArrayIter(X, Y, 8))


def test_a_batch_that_the_program_writes_to_after_forward():
    module, other = bound(), bound()
    ours, theirs = batch(), batch()
    other.forward(theirs)
    other.backward()
    module.forward(ours)
    for array in (*ours.data, *ours.label):
        array[:] = 0
    module.backward()
    for found, wanted in zip(module._exec_group.grad_arrays, other._exec_group.grad_arrays):
        np.testing.assert_array_equal(found[0].asnumpy(), wanted[0].asnumpy())


def test_gradients_follow_grad_req():
    module = bound(grad_req={"fc1_weight": "add", "fc1_bias": "null"})
    wanted = expected_gradients(as_arrays(module), X[:8], Y[:8])
    for _ in range(2):
        module.forward_backward(batch())
    grads = module._exec_group.execs[0].grad_dict
    np.testing.assert_allclose(
        grads["fc1_weight"].asnumpy(), 2 * wanted["fc1_weight"], rtol=1e-3, atol=1e-5
    )
    np.testing.assert_allclose(
        grads["fc2_weight"].asnumpy(), wanted["fc2_weight"], rtol=1e-3, atol=1e-5
    )
    assert grads["fc1_bias"] is None


def test_fixed_parameters_stay():
    module = Module(network(), fixed_param_names=["fc1_weight"])
    module.bind([("data", (8, 4))], [("softmax_label", (8,))])
    module.init_params()
    module.init_optimizer()
    before = as_arrays(module)
    module.forward_backward(batch())
    module.update()
    after = as_arrays(module)
    changed = {name for name in before if (before[name] != after[name]).any()}
    assert changed == {"fc1_bias", "fc2_weight", "fc2_bias"}


def test_calls_in_the_wrong_order_raise():
    module = bound()
    for call in (module.backward, module.update, module.get_input_grads):
        with pytest.raises(AssertionError, match="call "):
            call()
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    module = Module(net, label_names=None)
    module.bind([("data", (8, 4))])
    module.init_params()
    module.forward(batch(), is_train=True)
    with pytest.raises(mx.MXNetError, match="the last operator is not Loss function"):
        module.backward()
    module.backward([nd.ones((8, 2))])
    with pytest.raises(mx.MXNetError, match="dist_async.*use 'dist_sync'"):
        module.init_optimizer(kvstore="dist_async")


@pytest.mark.parametrize("store", ["local", None, "teststore", mx.kv.create, AddingStore])
def test_who_adds_up_changes_no_number(store):
    """A store that updates, one that only adds up, and none."""
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    net = sym.LinearRegressionOutput(net, sym.var("softmax_label"))
    module = Module(net)
    module.bind([("data", (8, 4))], [("softmax_label", (8, 2))])
    module.init_params(mx.init.One())
    given = store() if callable(store) else store
    module.init_optimizer(given, "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    assert module._kvstore is (given if callable(store) else None)
    assert (module._updater is None) == (store is mx.kv.create)
    for _ in range(3):
        module.forward_backward(mx.io.DataBatch([nd.ones((8, 4))], [nd.zeros((8, 2))]))
        module.update()
    np.testing.assert_allclose(
        module.get_params()[0]["fc_bias"].asnumpy(), [-0.8945] * 2, rtol=1e-6
    )


@pytest.mark.parametrize("asked", ["1", "0"])
def test_several_contexts_have_a_store(asked, monkeypatch, tmp_path):
    """As in MXNet it updates the summed parameters, and stores the states by name."""
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", asked)
    modules = [Module(network(), context=[mx.cpu(i) for i in range(n)]) for n in (1, 2)]
    for module in modules:
        module.bind([("data", (8, 4))], [("softmax_label", (8,))])
        mx.random.seed(1)
        module.init_params(mx.init.Xavier())
        module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
        for _ in range(2):
            module.forward_backward(batch())
            module.update()
    one, two = modules
    assert one._kvstore is None and two._kvstore.type == "local"
    assert (two._updater is None) == (asked == "1")
    for mine, other in zip(as_arrays(one).values(), as_arrays(two).values()):
        np.testing.assert_array_equal(mine, other)
    two.save_checkpoint(str(tmp_path / "net"), 0, save_optimizer_states=True)
    loaded = Module.load(str(tmp_path / "net"), 0, load_optimizer_states=True)
    loaded.bind([("data", (8, 4))], [("softmax_label", (8,))])
    loaded.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    saved = (two._updater or two._kvstore._updater).states
    assert set(loaded._updater.states) == set(saved)
    assert all(isinstance(key, str if asked == "1" else int) for key in saved)


def test_stores_by_name(monkeypatch):
    class DistStore(AddingStore):
        pass

    monkeypatch.setitem(mx.kv.KVStoreBase.kv_registry, "diststore", DistStore)
    module = Module(sym.FullyConnected(sym.var("data"), num_hidden=2), label_names=None)
    module.bind([("data", (8, 4))])
    module.init_params()
    with pytest.raises(TypeError, match="kvstore must be KVStore, str or None, got int"):
        module.init_optimizer(kvstore=3)
    module.init_optimizer(kvstore="DistStore")
    assert isinstance(module._kvstore, DistStore)


def test_a_network_without_parameters():
    module = Module(sym.Dropout(sym.var("data"), p=0.5), label_names=None)
    module.bind([("data", (8, 4))])
    module.init_params()
    module.init_optimizer()
    module.forward_backward(batch())
    module.update()
    assert module.get_outputs()[0].shape == (8, 4)
    assert module._optimizer is module._updater.optimizer and module._kvstore is None


def test_an_optimizer_that_does_not_divide():
    module = bound()
    with pytest.warns(UserWarning, match=r"rescale_grad is not normalized.*1.0 vs. 0.125"):
        module.init_optimizer(optimizer=mx.optimizer.SGD(learning_rate=0.1))


def test_checkpoints_with_states(tmp_path, caplog):
    prefix = str(tmp_path / "net")
    options = {"optimizer": "adam", "optimizer_params": {"learning_rate": 0.1}}
    module = bound()
    module.init_optimizer(**options)
    module.forward_backward(batch())
    module.update()
    with caplog.at_level("INFO"):
        module.save_checkpoint(prefix, 1, save_optimizer_states=True)
    assert caplog.messages == [
        f'Saved {what}"'
        for what in (
            f'checkpoint to "{prefix}-0001.params',
            f'optimizer state to "{prefix}-0001.states',
        )
    ]
    loaded = Module.load(prefix, 1, load_optimizer_states=True)
    loaded.bind([("data", (8, 4))], [("softmax_label", (8,))])
    loaded.init_optimizer(**options)
    first = dict(module._updater.states)
    for index, states in loaded._updater.states.items():
        for mine, theirs in zip(states, first[index]):
            np.testing.assert_array_equal(mine.asnumpy(), theirs.asnumpy())
    (tmp_path / "broken.states").write_bytes(b"\x80\x02nothing")
    with pytest.raises(mx.MXNetError):
        loaded.load_optimizer_states(str(tmp_path / "broken.states"))


def test_an_iterator_of_data_alone():
    class Noise(io.DataIter):
        def iter_next(self):
            return True

        def getdata(self):
            return [nd.ones((8, 4))]

    made = Noise(8).next()
    assert made.label is None and made.pad is None and made.index is None
    module = Module(sym.FullyConnected(sym.var("data"), num_hidden=2), label_names=None)
    module.bind([("data", (8, 4))])
    module.init_params()
    module.forward(made)
    assert module.get_outputs()[0].shape == (8, 2)


def test_buckets_share_parameters_and_optimizer():
    def generate(length):
        data = sym.var("data")
        total = sym.sum(sym.Reshape(data, shape=(0, length, 1)), axis=1)
        scores = sym.FullyConnected(total, num_hidden=2, name="fc")
        return sym.SoftmaxOutput(scores, name="softmax"), ("data",), ("softmax_label",)

    module = BucketingModule(generate, 6)
    module.bind([("data", (4, 6))], [("softmax_label", (4,))])
    module.init_params()
    module.init_optimizer(optimizer="sgd", optimizer_params={"momentum": 0.9})
    weights = []
    for length in (6, 3, 6):
        data = io.DataBatch([nd.ones((4, length))], [nd.array([0, 1, 1, 1])], bucket_key=length)
        data.provide_data = [("data", (4, length))]
        data.provide_label = [("softmax_label", (4,))]
        module.forward_backward(data)
        module.update()
        weights.append(module.get_params()[0]["fc_weight"].asnumpy())
    assert all((a != b).any() for a, b in zip(weights, weights[1:]))
    updaters = {id(bucket._updates) for bucket in module._buckets.values()}
    assert len(module._buckets) == 2 and len(updaters) == 1


def test_a_chain_and_a_loss_in_python():
    first = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc1")
    second = sym.FullyConnected(sym.var("hidden"), num_hidden=2, name="fc2")

    def slope(scores, labels):
        p = np.exp(scores.asnumpy())
        return p / p.sum(1, keepdims=True) - np.eye(2)[labels.asnumpy().astype(int)]

    chain = SequentialModule()
    chain.add(Module(first, label_names=None))
    chain.add(Module(second, ["hidden"], None), auto_wiring=True)
    chain.add(PythonLossModule(grad_func=slope), take_labels=True, auto_wiring=True)
    chain.bind([("data", (8, 4))], [("softmax_label", (8,))])
    chain.init_params(mx.init.Xavier())
    chain.init_optimizer(optimizer_params={"learning_rate": 0.5})
    before = {name: value.asnumpy() for name, value in chain.get_params()[0].items()}
    hidden = X[:8] @ before["fc1_weight"].T + before["fc1_bias"]
    scores = hidden @ before["fc2_weight"].T + before["fc2_bias"]
    d = slope(nd.array(scores), nd.array(Y[:8]))
    chain.forward_backward(batch())
    chain.update()
    after = {name: value.asnumpy() for name, value in chain.get_params()[0].items()}
    by_first = (d @ before["fc2_weight"]).T @ X[:8]
    np.testing.assert_allclose(
        after["fc1_weight"], before["fc1_weight"] - 0.5 * by_first / 8, rtol=1e-3, atol=1e-5
    )


def test_feed_forward():
    np.random.seed(2)
    mx.random.seed(2)
    net = mx.model.FeedForward.create(
        network(),
        X,
        Y,
        num_epoch=60,
        optimizer="adam",
        learning_rate=0.03,
        numpy_batch_size=8,
        initializer=mx.init.Xavier(),
    )
    assert (net.predict(X).argmax(1) == Y).mean() > 0.95
    with pytest.raises(ValueError, match="y must be specified"):
        mx.model.FeedForward(network(), num_epoch=1).fit(X)


def test_the_outputs_are_the_callers():
    module = bound()
    module.forward(batch(), is_train=True)
    kept = module.get_outputs()[0]
    values = kept.asnumpy()
    kept[:] = 7
    module.backward()
    module.forward(batch(8), is_train=True)
    assert (kept.asnumpy() == 7).all() and not (module.get_outputs()[0].asnumpy() == values).all()

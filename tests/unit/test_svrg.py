"""contrib.svrg_optimization: MXNet's losses, and the optimizers of a store's keys."""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import nd
from hybridjit.contrib.svrg_optimization.svrg_module import SVRGModule
from hybridjit.contrib.svrg_optimization.svrg_optimizer import _SVRGOptimizer

LABEL = "lin_reg_label"
RATE = {"learning_rate": 0.05}
MOMENTUM = {"learning_rate": 0.02, "momentum": 0.9, "wd": 0.01}


def module(update_freq: object = 2, **given) -> SVRGModule:
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc1")
    loss = mx.sym.LinearRegressionOutput(dense, mx.sym.var(LABEL), name="lro")
    return SVRGModule(loss, ["data"], [LABEL], update_freq=update_freq, **given)


def samples(count: int, shuffle: bool = False) -> mx.io.NDArrayIter:
    data = np.random.RandomState(1).randn(count, 4).astype("float32")
    labels = data @ np.array([1, 2, -1, 0.5], "float32")
    return mx.io.NDArrayIter(data, labels, 8, shuffle=shuffle, label_name=LABEL)


def parameters() -> dict[str, nd.NDArray]:
    shapes = {"fc1_weight": (1, 4), "fc1_bias": (1,)}
    return {
        name: nd.array(np.random.RandomState(len(name)).randn(*shape) * 0.1)
        for name, shape in shapes.items()
    }


def losses(trained: SVRGModule, data: mx.io.NDArrayIter, epochs: int, **given) -> list[float]:
    found: list[float] = []

    def note(epoch, symbol, args, auxs):
        found.append(measured.get()[1])

    measured = mx.metric.MSE()
    trained.fit(
        data,
        eval_metric=measured,
        arg_params=parameters(),
        num_epoch=epochs,
        epoch_end_callback=note,
        **{"optimizer_params": RATE, **given},
    )
    return found


@pytest.mark.parametrize(
    "count, shuffle, freq, options, wanted",
    [
        (40, False, 2, RATE, [3.028715, 2.110529, 1.453447, 0.939434, 0.616300]),
        (37, False, 2, RATE, [3.025539, 1.814527, 1.141826, 0.696593, 0.477710]),
        (37, True, 2, RATE, [2.575934, 1.722972, 1.205102, 0.872728, 0.505478]),
        (40, True, 1, MOMENTUM, [3.008857, 1.927476, 0.439331, 0.257021]),
    ],
)
def test_losses_are_mxnets(count, shuffle, freq, options, wanted):
    """The last batch of 37 samples is filled with 3 of the first."""
    np.random.seed(7)
    found = losses(module(freq), samples(count, shuffle), len(wanted), optimizer_params=options)
    np.testing.assert_allclose(found, wanted, rtol=2e-6)


@pytest.mark.parametrize("store, contexts", [(None, 1), ("own", 1), ("local", 2)])
def test_a_store_and_several_contexts_change_nothing(store, contexts):
    """MXNet zeroes the weights of the first batch where there is a store."""
    given = mx.kv.create("local") if store == "own" else store
    trained = module(context=[mx.cpu(i) for i in range(contexts)])
    found = losses(trained, samples(40), 3, kvstore=given)
    assert found == pytest.approx([3.028715, 2.110529, 1.453447], rel=2e-6)


def test_the_first_epoch_has_full_gradients():
    """MXNet trains from epoch 1 only where its number is a multiple."""
    assert losses(module(2), samples(40), 2, begin_epoch=1) == pytest.approx([3.028715], rel=1e-6)


def test_full_gradients():
    trained = module()
    data = samples(40)
    trained.bind(data.provide_data, data.provide_label)
    trained.init_params(arg_params=parameters())
    trained.init_optimizer(optimizer_params=RATE)
    batch = next(iter(data))
    with pytest.raises(AssertionError, match="call update_full_grads first"):
        trained.forward(batch)
    trained.update_full_grads(data)
    error = (data.data[0][1].asnumpy() @ parameters()["fc1_weight"].asnumpy().T).ravel()
    error += parameters()["fc1_bias"].asnumpy() - data.label[0][1].asnumpy()
    np.testing.assert_allclose(
        trained._param_dict[0]["fc1_bias"].asnumpy(), error.sum() / 5, rtol=1e-5
    )
    trained.forward_backward(batch)  # still at the older weights: the full gradient remains
    trained.update()
    np.testing.assert_allclose(
        trained._params["fc1_bias"].grad().asnumpy(), error.sum() / 5, rtol=1e-5
    )
    assert trained._mod_aux.get_params()[0]["fc1_bias"] == parameters()["fc1_bias"]


def test_fixed_parameters_stay():
    trained = module(fixed_param_names=["fc1_bias"])
    losses(trained, samples(16), 2)
    after = trained.get_params()[0]
    assert after["fc1_bias"] == parameters()["fc1_bias"]
    assert not np.allclose(after["fc1_weight"].asnumpy(), parameters()["fc1_weight"].asnumpy())


def test_other_shapes_and_prediction():
    trained = module()
    losses(trained, samples(40), 1)
    trained.reshape([("data", (3, 4))], [(LABEL, (3,))])
    batch = mx.io.DataBatch([nd.ones((3, 4))], [nd.ones(3)])
    trained.forward_backward(batch)
    trained.update()
    assert trained.get_outputs()[0].shape == (3, 1)
    assert trained.predict(samples(40)).shape == (40, 1)


@pytest.mark.parametrize(
    "given, kind, text",
    [
        (None, TypeError, "an integer .* got None"),
        (2.0, TypeError, "an integer .* got 2.0"),
        (0, ValueError, "a positive integer .* got 0"),
    ],
)
def test_update_freq(given, kind, text):
    with pytest.raises(kind, match=f"update_freq in SVRGModule must be {text}"):
        module(given)


class TestOptimizer:
    def test_keys_of_full_gradients_are_assigned(self):
        names = {0: "fully_weight", 1: "fully_weight_full"}
        made = _SVRGOptimizer("sgd", param_idx2name=names, learning_rate=1.0)
        store = mx.kv.create("local")
        store.set_optimizer(made)
        out = nd.zeros(3)
        for key, start, wanted in ((0, 0, -1), (1, 5, 1)):
            store.init(key, nd.zeros(3) + start)
            store.push(key, nd.ones(3))
            store.pull(key, out)
            assert out.asnumpy().tolist() == [wanted] * 3

    def test_arguments_go_to_the_optimizer(self):
        made = _SVRGOptimizer(
            "adam", param_idx2name={0: "w"}, learning_rate=0.5, beta1=0.8, rescale_grad=0.1
        )
        assert type(made.default_opt) is mx.optimizer.Adam
        assert (made.default_opt.lr, made.default_opt.beta1) == (0.5, 0.8)
        assert (made.lr, made.rescale_grad) == (0.5, 0.1)
        assert len(made.create_state(0, nd.ones(2))) == 2
        given = mx.optimizer.SGD(learning_rate=3)
        assert _SVRGOptimizer(given).default_opt is given
        with pytest.raises(ValueError, match="Cannot find optimizer"):
            _SVRGOptimizer("newton")

"""gluon.Trainer and the stores behind it: who adds up, who updates, files, stale gradients."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit.gluon import nn

TRAINING = Path(__file__).parent.parent / "fixtures" / "training"
TWO = [mx.cpu(0), mx.cpu(1)]
X = nd.array([[1.0, 2, 3], [-1, 0.5, 2]])

# Weight and bias of MXNet's Dense layer after three steps of `fit`, and after a fourth.
ADAM = ([0.7661272883, 0.765955627, 0.7659184337], -0.2465544045)
ADAM_AFTER = ([0.7273472548, 0.7272482514, 0.7272270918], -0.2919294238)
SGD = ([0.4000888467, -0.3059949875, -1.0120790005], -0.4404956102)
SGD_AFTER = ([0.0881427824, -0.793736577, -1.6756162643], -0.5326154232)
ADAM_GIVEN = {"learning_rate": 0.1, "wd": 0.01}
SGD_GIVEN = {"momentum": 0.9, "learning_rate": 0.01}


def dense(ctx=None) -> nn.Dense:
    net = nn.Dense(2, in_units=3, prefix="d_")
    net.initialize(mx.init.One(), ctx=ctx)
    return net


def backward(net, x=X) -> None:
    with autograd.record():
        loss = (net(x) ** 2).sum()
    loss.backward()


def fit(net, trainer, steps=3) -> None:
    for i in range(steps):
        backward(net, X * (i + 1))
        trainer.step(2)


def assert_parameters(net, wanted) -> None:
    weight, bias = wanted
    np.testing.assert_allclose(net.weight.data().asnumpy(), [weight] * 2, rtol=2e-6)
    np.testing.assert_allclose(net.bias.data().asnumpy(), [bias] * 2, rtol=2e-6)


def scheduled() -> dict[str, object]:
    scheduler = mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
    return {"lr_scheduler": scheduler, **ADAM_GIVEN}


class TestSteps:
    @pytest.mark.parametrize("hybrid", [False, True])
    def test_parameters_are_mxnets(self, hybrid):
        net = dense()
        if hybrid:
            net.hybridize()
        fit(net, gluon.Trainer(net.collect_params(), "adam", scheduled()))
        assert_parameters(net, ADAM)

    def test_a_net_learns(self):
        mx.random.seed(1)
        net = nn.HybridSequential()
        net.add(nn.Dense(16, activation="relu"), nn.Dense(1))
        net.initialize(mx.init.Xavier())
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
        x = nd.random.uniform(-1, 1, shape=(64, 2))
        y, loss, losses = x[:, 0:1] * x[:, 1:2], gluon.loss.L2Loss(), []
        for _ in range(60):
            with autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(64)
            losses.append(value.mean().asscalar())
        assert losses[-1] < 0.2 * losses[0]

    def test_gradients_are_divided_by_the_batch(self):
        net = dense()
        optimizer = mx.optimizer.SGD(learning_rate=1.0, rescale_grad=0.5)
        trainer = gluon.Trainer(net.collect_params(), optimizer)
        backward(net)
        grad = net.bias.grad().asnumpy()
        trainer.step(4)
        np.testing.assert_allclose(net.bias.data().asnumpy(), -grad / 8)
        assert optimizer.rescale_grad == 0.125 and trainer.optimizer is optimizer

    def test_factors_of_parameters(self):
        net = dense()
        net.weight.lr_mult, net.bias.wd_mult = 0.0, 0.0
        given = {"learning_rate": 0.1, "wd": 0.5}
        trainer = gluon.Trainer(net.collect_params(), "sgd", given)
        backward(net)
        trainer.step(1)
        assert (net.weight.data().asnumpy() == 1).all() and net.bias.data().asnumpy().all()

    def test_requests_change_at_any_time(self):
        net = dense()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        net.weight.grad_req = "null"
        backward(net)
        trainer.step(1)
        assert (net.weight.data().asnumpy() == 1).all()
        net.weight.grad_req = "add"
        backward(net)
        once = net.weight.grad().asnumpy()
        backward(net)
        np.testing.assert_allclose(net.weight.grad().asnumpy(), 2 * once)
        trainer.step(1)
        assert (net.weight.data().asnumpy() != 1).all()
        net.collect_params().zero_grad()
        assert not net.weight.grad().asnumpy().any()

    def test_learning_rate(self):
        net = dense()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        trainer.set_learning_rate(0.5)
        assert trainer.learning_rate == trainer.optimizer.lr == 0.5
        with pytest.raises(UserWarning, match="already been defined"):
            gluon.Trainer(net.collect_params(), "adam", scheduled()).set_learning_rate(1)

    def test_two_trainers_share_a_net(self):
        net = dense()
        one = gluon.Trainer([net.weight], "sgd", {"learning_rate": 0.1})
        two = gluon.Trainer([net.bias], "adam", {"learning_rate": 0.1})
        backward(net)
        one.step(1)
        assert not net.bias.data().asnumpy().any()
        two.step(1)
        np.testing.assert_allclose(net.bias.data().asnumpy(), [-0.1] * 2, rtol=1e-5)

    def test_compiled_nets_see_new_values(self):
        net = dense()
        net.hybridize()
        before = net(X).asnumpy()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        backward(net)
        trainer.step(2)
        after = net(X).asnumpy()
        weight, bias = net.weight.data().asnumpy(), net.bias.data().asnumpy()
        np.testing.assert_allclose(after, X.asnumpy() @ weight.T + bias, rtol=1e-5)
        assert (after != before).all()

    def test_nets_that_were_trained_travel(self):
        net = dense()
        fit(net, gluon.Trainer(net.collect_params(), "sgd", SGD_GIVEN))
        for again in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
            assert_parameters(again, SGD)
            assert again.weight._trainer is None
            fit(again, gluon.Trainer(again.collect_params(), "sgd", SGD_GIVEN), 1)


class TestStaleGradients:
    def test_raised_before_anything_changes(self):
        net = dense()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        with pytest.raises(UserWarning, match="`d_bias` on context cpu.0. has not been updated"):
            trainer.step(1)
        backward(net)
        trainer.step(1)
        with pytest.raises(UserWarning, match="d_bias"):
            trainer.step(1)

    def test_ignored_stale_gradients_leave_parameters_unchanged(self):
        net, other = dense(), nn.Dense(1, in_units=1, prefix="e_")
        other.initialize(mx.init.One())
        params = {**net.collect_params(), **other.collect_params()}
        trainer = gluon.Trainer(params, "sgd", {"learning_rate": 0.1, "wd": 0.1})
        backward(net)
        trainer.step(1, ignore_stale_grad=True)
        assert other.weight.data().asscalar() == 1 and (net.weight.data().asnumpy() != 1).all()
        assert trainer.optimizer._index_update_count == {0: 1, 1: 1}


class TestMistakes:
    @pytest.mark.parametrize(
        "params, says", [(3, "got <class 'int'>"), ([3], "got list of <class 'int'>")]
    )
    def test_no_parameters(self, params, says):
        with pytest.raises(ValueError, match=says):
            gluon.Trainer(params, "sgd")

    def test_parameters_without_values(self):
        net = nn.Dense(2, in_units=3)
        with pytest.raises(RuntimeError, match="has not been initialized"):
            gluon.Trainer(net.collect_params(), "sgd")
        net = nn.Dense(2)
        net.initialize()
        trainer = gluon.Trainer([net.weight], "sgd")
        with pytest.raises(mx.gluon.parameter.DeferredInitializationError):
            trainer.step(1)

    def test_different_contexts(self):
        one, two = dense(), dense(TWO)
        with pytest.raises(AssertionError, match="same set of contexts"):
            gluon.Trainer([one.weight, two.weight], "sgd")

    def test_an_optimizer_has_its_arguments(self):
        with pytest.raises(AssertionError, match="optimizer_params must be None"):
            gluon.Trainer(dense().collect_params(), mx.optimizer.SGD(), {"wd": 1})
        with pytest.raises(ValueError, match="Cannot find optimizer foo"):
            gluon.Trainer(dense().collect_params(), "foo")

    def test_wrong_stores_raise(self):
        params = dense(TWO).collect_params()
        with pytest.raises(TypeError, match="kvstore must be KVStore, str or None"):
            gluon.Trainer(params, "sgd", kvstore=3).allreduce_grads()
        with pytest.raises(mx.MXNetError, match="'dist_async' updates without waiting"):
            gluon.Trainer(params, "sgd", kvstore="dist_async").allreduce_grads()
        with pytest.raises(ValueError, match="Please set update_on_kvstore=False"):
            gluon.Trainer(params, "sgd", kvstore="teststore", update_on_kvstore=True).step(1)
        with pytest.raises(AssertionError, match="when parameters are updated on kvstore"):
            gluon.Trainer(params, "sgd").update(1)


class TestFiles:
    @pytest.mark.parametrize(
        "name, given, before, after",
        [("adam", scheduled, ADAM, ADAM_AFTER), ("sgd", lambda: SGD_GIVEN, SGD, SGD_AFTER)],
    )
    def test_training_goes_on_from_mxnets_file(self, name, given, before, after):
        net = dense()
        net.weight.set_data(nd.array([before[0]] * 2))
        net.bias.set_data(nd.array([before[1]] * 2))
        trainer = gluon.Trainer(net.collect_params(), "sgd")
        trainer.load_states(str(TRAINING / f"{name}.states"))
        assert type(trainer.optimizer).__name__.lower() == name
        backward(net)
        trainer.step(2)
        assert_parameters(net, after)

    @pytest.mark.parametrize("contexts", [None, TWO])
    def test_training_goes_on_from_its_own_file(self, tmp_path, contexts):
        nets = [dense(contexts), dense(contexts)]
        trainers = [gluon.Trainer(net.collect_params(), "adam", scheduled()) for net in nets]
        for _ in range(2):
            step_on(nets[0], trainers[0])
        path = str(tmp_path / "a.states")
        trainers[0].save_states(path)
        nets[1].weight.set_data(nets[0].weight.data(mx.cpu(0)))
        nets[1].bias.set_data(nets[0].bias.data(mx.cpu(0)))
        trainers[1].load_states(path)
        for net, trainer in zip(nets, trainers):
            step_on(net, trainer)
        for one, two in zip(*(net.collect_params().values() for net in nets)):
            for a, b in zip(one.list_data(), two.list_data()):
                np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())

    def test_other_files(self, tmp_path):
        trainer = gluon.Trainer(dense().collect_params(), "sgd")
        (tmp_path / "a").write_bytes(b"nothing")
        with pytest.raises(mx.MXNetError):
            trainer.load_states(str(tmp_path / "a"))
        with pytest.raises(mx.MXNetError):
            trainer.load_states(str(tmp_path / "missing"))


def step_on(net, trainer) -> None:
    """A step on half of the batch on each context."""
    contexts = net.weight.list_ctx()
    with autograd.record():
        losses = [(net(x) ** 2).sum() for x in gluon.utils.split_and_load(X, contexts)]
    autograd.backward(losses)
    trainer.step(2)


class TestContexts:
    @pytest.mark.parametrize("kvstore", ["device", "local", "teststore", "anything"])
    @pytest.mark.parametrize("on_store", [None, False])
    def test_two_devices_are_as_one(self, kvstore, on_store):
        one, two = dense(), dense(TWO)
        given = {"learning_rate": 0.1, "momentum": 0.9}
        trainers = [
            gluon.Trainer(one.collect_params(), "sgd", given),
            gluon.Trainer(two.collect_params(), "sgd", given, kvstore, None, on_store),
        ]
        for _ in range(3):
            for net, trainer in zip((one, two), trainers):
                step_on(net, trainer)
        for ctx in TWO:
            wanted = one.weight.data().asnumpy()
            np.testing.assert_allclose(two.weight.data(ctx).asnumpy(), wanted, rtol=1e-5)

    def test_without_a_store_every_device_is_on_its_own(self):
        net = dense(TWO)
        step_on(net, gluon.Trainer(net.collect_params(), "sgd", kvstore=None))
        a, b = (data.asnumpy() for data in net.weight.list_data())
        assert (a != b).any()

    def test_halves_of_a_step(self):
        nets = [dense(TWO), dense(TWO)]
        trainers = [
            gluon.Trainer(net.collect_params(), "sgd", update_on_kvstore=False) for net in nets
        ]
        for net in nets:
            with autograd.record():
                losses = [(net(x) ** 2).sum() for x in gluon.utils.split_and_load(X, TWO)]
            autograd.backward(losses)
        trainers[0].step(2)
        trainers[1].allreduce_grads()
        gluon.utils.clip_global_norm(nets[1].weight.list_grad(), 1e9)
        trainers[1].update(2)
        wanted = nets[0].weight.data(mx.cpu(1)).asnumpy()
        np.testing.assert_allclose(nets[1].weight.data(mx.cpu(1)).asnumpy(), wanted)

    @pytest.mark.parametrize("how", ["set_data", "load_parameters"])
    def test_new_values_reach_a_store_that_updates(self, how, tmp_path):
        net, zeros = dense(TWO), dense()
        zeros.initialize(mx.init.Zero(), force_reinit=True)
        zeros.save_parameters(str(tmp_path / "zeros.params"))
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        step_on(net, trainer)
        if how == "set_data":
            net.weight.set_data(nd.zeros((2, 3)))
            net.bias.set_data(nd.zeros((2,)))
        else:
            net.load_parameters(str(tmp_path / "zeros.params"), ctx=TWO)
        step_on(net, trainer)
        assert not net.weight.data(mx.cpu(0)).asnumpy().any()

    def test_a_store_of_ones_own(self):
        calls = []

        class Noting(mx.kv.KVStoreBase):
            def broadcast(self, key, value, out, priority=0):
                calls.append(("broadcast", key))

            def pushpull(self, key, value, out=None, priority=0):
                calls.append(("pushpull", key, len(value), out, priority))

            @staticmethod
            def is_capable(capability):
                calls.append(capability)
                return False

        net = dense()
        trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=Noting())
        backward(net)
        trainer.step(1)
        assert calls == [
            *("optimizer", ("broadcast", 0), ("broadcast", 1)),
            *(("pushpull", 0, 1, None, 0), ("pushpull", 1, 1, None, -1)),
        ]


class TestStore:
    def test_stores_add_up_pushed_values(self):
        kv = mx.kv.create("Local")
        assert (kv.type, kv.rank, kv.num_workers) == ("local", 0, 1)
        kv.init(3, nd.ones((2,)))
        out = nd.zeros((2,))
        kv.pull(3, out=out)
        assert out.asnumpy().tolist() == [1, 1]
        kv.push(3, [nd.ones((2,)), nd.full((2,), 4.0, ctx=mx.cpu(1))])
        kv.pull(3, out=[out])
        assert out.asnumpy().tolist() == [5, 5]
        grads = [nd.ones((2,)), nd.ones((2,), ctx=mx.cpu(1))]
        kv.pushpull(3, grads)
        assert [g.asnumpy().tolist() for g in grads] == [[2, 2]] * 2
        kv.init([4, 5], [nd.ones((1,)), nd.zeros((1,))])
        kv.pull([4, 5], out=[out[:1], out[1:]])
        assert out.asnumpy().tolist() == [1, 0]

    def test_an_updater_receives_key_sum_and_value(self):
        kv, seen = mx.kv.create("device"), []
        kv.init("w", nd.ones((2,)))

        def update(key, grad, kept):
            seen.append(key)
            kept += 2 * grad

        kv._set_updater(update)
        kv.push("w", nd.ones((2,)))
        out = nd.zeros((2,))
        kv.pull("w", out=out)
        assert seen == [b"w"] and out.asnumpy().tolist() == [3, 3]
        with pytest.raises(AssertionError, match="Cannot save states"):
            kv.save_optimizer_states("x")

    def test_optimizer_states_are_saved_and_loaded(self, tmp_path):
        path = str(tmp_path / "s")
        stores = [mx.kv.create(), mx.kv.create()]
        for kv in stores:
            kv.init("w", nd.ones((2,)))
            kv.set_optimizer(mx.optimizer.Adam())
        stores[0].push("w", nd.ones((2,)))
        stores[0].save_optimizer_states(path, dump_optimizer=True)
        stores[1].load_optimizer_states(path)
        found = stores[1]._updater
        assert found.optimizer.num_update == 1 and found.states.keys() == {"w"}

    def test_compression_carries_over_rounding_errors(self):
        kv = mx.kv.create("device")
        kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        kv.init(0, nd.zeros((4,)))
        given, found = nd.array([0.3, 0.6, -0.3, -2]), []
        for _ in range(3):
            kv.push(0, [given, given.as_in_context(mx.cpu(1))])
            out = nd.zeros((4,))
            kv.pull(0, out=out)
            found.append(out.asnumpy().tolist())
        assert found == [[0, 1, 0, -1], [1, 1, -1, -1], [0, 1, 0, -1]]

    @pytest.mark.parametrize(
        "do, error, says",
        [
            (lambda kv: kv.init(3, nd.ones(1)), mx.MXNetError, "duplicate init of key 3"),
            (lambda kv: kv.pull(4, nd.ones(1)), mx.MXNetError, "key 4 has not been inited"),
            (lambda kv: kv.init("a", nd.ones(1)), mx.MXNetError, "Mixed key types"),
            (lambda kv: kv.init(1.5, nd.ones(1)), AssertionError, "unexpected type for keys"),
            (lambda kv: kv.is_capable("foo"), ValueError, "Unknown capability: foo"),
            (lambda kv: kv.set_gradient_compression({}), Exception, "not supported for this"),
            (lambda kv: mx.kv.create(3), TypeError, "name must be a string"),
            (lambda kv: mx.kv.create("nccl"), mx.MXNetError, "nccl"),
            (lambda kv: mx.kv.create("dist_async"), mx.MXNetError, "dist_async"),
        ],
    )
    def test_stores_raise_for_wrong_calls(self, do, error, says):
        kv = mx.kv.create("local")
        kv.init(3, nd.ones((1,)))
        with pytest.raises(error, match=says):
            do(kv)

    def test_registered_stores_are_created_by_name(self, monkeypatch):
        monkeypatch.setattr(mx.kv.KVStoreBase, "kv_registry", {})

        @mx.kv.KVStoreBase.register
        class Mine(mx.kv.KVStoreBase):
            pass

        assert isinstance(mx.kv.create("MINE"), Mine)

    @pytest.mark.parametrize(
        "call, text",
        [
            (lambda s: s.broadcast(1, 2, 3), r"broadcast\(key, value, out, .* write it to every"),
            (lambda s: s.pushpull(1, 2), r"pushpull\(key, value, .* add up the arrays"),
            (lambda s: s.set_optimizer(1), r"set_optimizer\(optimizer\).* update stored values"),
            (lambda s: s.save_optimizer_states("x"), r"save_optimizer_states\(.* write the states"),
            (
                lambda s: s.load_optimizer_states("x"),
                r"load_optimizer_states\(fname\).* read a file",
            ),
            (lambda s: s.type, "type, a property, .* return its name"),
            (lambda s: s.rank, "rank, a property, .* the number of this worker"),
            (lambda s: s.num_workers, "num_workers, a property, .* the number of workers"),
        ],
    )
    def test_undefined_methods_of_a_store_raise_with_a_description(self, call, text):
        class Half(mx.kv.KVStoreBase):
            pass

        with pytest.raises(NotImplementedError, match=f"^Half does not define {text}"):
            call(Half())

    def test_a_store_without_is_capable_raises(self):
        with pytest.raises(NotImplementedError, match=r"is_capable\(capability\), a static method"):
            mx.kv.KVStoreBase.is_capable("optimizer")

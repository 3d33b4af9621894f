"""All weights of an optimizer in one compiled call: the bits of its operators, one by one."""

from __future__ import annotations

import copy
import signal
from typing import Any

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit.gluon import nn
from hybridjit.optimizer import SGD, Optimizer, Updater, get_updater, one_call

SHAPES = ((3, 4), (5,), (1,), (2, 3, 41))
CASES: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {"wd": 0.01}),
    ("sgd", {"wd": 0.01, "momentum": 0.9, "clip_gradient": 0.5}),
    ("ccsgd", {"momentum": 0.5}),
    ("nag", {"wd": 0.01}),
    ("nag", {"wd": 0.01, "momentum": 0.9, "clip_gradient": 0.5}),
    ("signum", {"momentum": 0.0, "wd": 0.01}),
    ("signum", {"wd_lh": 0.1, "wd": 0.01}),
    ("adam", {"wd": 0.01, "clip_gradient": 0.5}),
    ("adagrad", {"wd": 0.01, "clip_gradient": 0.5}),
    ("adadelta", {"wd": 0.01, "clip_gradient": 0.5}),
    ("rmsprop", {"wd": 0.01, "clip_weights": 0.8}),
    ("rmsprop", {"wd": 0.01, "centered": True}),
    ("ftrl", {"wd": 0.01}),
]
NAMES = [f"{name} {' '.join(given)}" for name, given in CASES]


def gradients(step: int, dtype: str) -> list[nd.NDArray]:
    """Gradients of one step, some of them 0, infinite or NaN."""
    random = np.random.RandomState(step)
    found = [random.normal(0, 2, shape) for shape in SHAPES]
    found[0][0, :2] = 0, -0.0
    if step == 2:
        found[0][1, :2], found[3][1, 1, 3] = (np.inf, -np.inf), np.nan
    return [nd.array(g, dtype=dtype) for g in found]


def states_of(state: Any) -> list[np.ndarray]:
    if isinstance(state, (list, tuple)):
        return [array for part in state for array in states_of(part)]
    return [] if state is None else [state.asnumpy()]


def trained(optimizer: Optimizer, dtype: str, at_once: bool) -> tuple[list[np.ndarray], Updater]:
    """Weights and states after some steps, of all weights at once or one after the other."""
    update, random = get_updater(optimizer), np.random.RandomState(7)
    weights = [nd.array(random.normal(0, 1, shape), dtype=dtype) for shape in SHAPES]
    for step in range(4):
        grads, indices = gradients(step, dtype), list(range(len(SHAPES)))
        if at_once:
            update(indices, grads, weights)
        else:
            for one in zip(indices, grads, weights):
                update(*one)
    states = [array for i in indices for array in states_of(update.states[i])]
    return [*(w.asnumpy() for w in weights), *states], update


def assert_same_bits(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted):
        np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
        x, y = (np.where(np.isnan(z), np.ones_like(z), z) for z in (x, y))
        assert x.dtype == y.dtype
        assert x.tobytes() == y.tobytes()


@pytest.mark.filterwarnings("ignore:Accumulating")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_bits_are_those_of_the_operators(case, dtype):
    name, given = case

    def made() -> Optimizer:
        scale: dict[str, Any] = {"rescale_grad": 1 / 37, "multi_precision": dtype == "float16"}
        return mx.optimizer.create(name, learning_rate=0.05, **scale, **given)

    found, update = trained(made(), dtype, at_once=True)
    wanted, other = trained(made(), dtype, at_once=False)
    assert_same_bits(found, wanted)
    assert update.optimizer.num_update == other.optimizer.num_update == 4
    # Both apply numbers to a double gradient in double: their operators cannot.
    in_double = ("adagrad", "adadelta")
    assert (update._one_call is None) == (name in in_double and dtype == "float64")
    assert other._one_call is None


def test_weights_with_equal_rules_share_code(monkeypatch):
    made = []
    compile_update = one_call.compile_update

    def counted(rule):
        made.append(rule)
        return compile_update(rule)

    monkeypatch.setattr(one_call, "compile_update", counted)
    _, trainer, step = net_of("sgd", {"momentum": 0.9})
    step()
    assert used(trainer)
    assert len(made) == 1


def net_of(optimizer: str | Optimizer, given: dict[str, Any] | None = None) -> Any:
    """A small net, its trainer, and a function that trains it for a step."""
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Dense(5, in_units=4, activation="relu"), nn.BatchNorm(in_channels=5))
    net.add(nn.Dense(2, in_units=5))
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), optimizer, given)
    x = nd.random.normal(shape=(6, 4))

    def step() -> list[np.ndarray]:
        with autograd.record():
            loss = (net(x.astype(net[0].weight.dtype)) ** 2).mean()
        loss.backward()
        trainer.step(6)
        return [p.data().asnumpy() for p in net.collect_params().values()]

    return net, trainer, step


def used(trainer: gluon.Trainer) -> bool:
    return trainer._updaters[0]._one_call is not None


def one_by_one(monkeypatch) -> None:
    """From now on updaters call the operators."""
    monkeypatch.setattr(Updater, "_updated_at_once", lambda *_: False)


class TestTrainers:
    GIVEN: dict[str, Any] = {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}

    def steps(self, change=lambda net, trainer: None) -> tuple[list[np.ndarray], Any]:
        net, trainer, step = net_of("sgd", dict(self.GIVEN))
        for _ in range(2):
            step()
        change(net, trainer)
        for _ in range(2):
            found = step()
        return found, trainer

    @staticmethod
    def _rates(net, trainer) -> None:
        net[0].weight.lr_mult, net[0].bias.wd_mult = 0.5, 3.0
        trainer.set_learning_rate(0.03)
        trainer.optimizer.momentum = 0.7

    @staticmethod
    def _types(net, trainer) -> None:
        net[0].weight.set_data(net[0].weight.data() * 2)
        net[2].bias.data().attach_grad()
        net[2].bias.hold([nd.ones(2)])

    @staticmethod
    def _bound(net, trainer) -> None:
        trainer.optimizer.clip_gradient = 0.001

    @staticmethod
    def _frozen(net, trainer) -> None:
        net[0].weight.grad_req = "null"

    @staticmethod
    def _states(net, trainer) -> None:
        pickled = trainer._updaters[0].get_states(dump_optimizer=False)
        trainer._updaters[0].set_states(pickled)

    @pytest.mark.parametrize("change", ["_rates", "_types", "_bound", "_frozen", "_states"])
    def test_changes_between_steps_take_effect(self, change, monkeypatch):
        found, trainer = self.steps(getattr(self, change))
        assert used(trainer)
        one_by_one(monkeypatch)
        wanted, other = self.steps(getattr(self, change))
        assert not used(other)
        assert_same_bits(found, wanted)
        plain, _ = self.steps()
        assert change == "_states" or any((x != y).any() for x, y in zip(plain, wanted))

    def test_weights_that_are_behind_count_for_themselves(self, monkeypatch):
        def steps() -> list[np.ndarray]:
            scheduler = mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=0.1)
            net, trainer, step = net_of("adam", {"lr_scheduler": scheduler})
            step()
            net[0].weight.grad_req = "null"
            step()
            net[0].weight.grad_req = "write"
            return step()

        found = steps()
        one_by_one(monkeypatch)
        assert_same_bits(found, steps())

    def test_compiled_networks_take_the_new_weights(self):
        net, trainer, step = net_of("sgd", self.GIVEN)
        x = nd.ones((1, 4))
        net.hybridize()
        before = net(x).asnumpy()
        step()
        step()
        assert used(trainer)
        after = net(x).asnumpy()
        net.hybridize(False)
        assert (after != before).any()
        np.testing.assert_allclose(net(x).asnumpy(), after, rtol=1e-5)

    def test_memory_that_two_weights_share_is_updated_one_by_one(self):
        update, weight = get_updater(mx.optimizer.SGD(learning_rate=1.0)), nd.zeros((4,))
        update([0, 1], [nd.ones((4,)), nd.ones((2,))], [weight, weight[1:3]])
        assert update._one_call is None
        assert weight.asnumpy().tolist() == [-1, -2, -2, -1]

    def test_arrays_that_moved_are_gathered_again(self):
        update = get_updater(mx.optimizer.SGD(learning_rate=1.0))
        weight, grad = nd.zeros((3,)), nd.ones((3,))
        update([0], [grad], [weight])
        before = update._one_call
        update([0], [grad], [weight])
        assert update._one_call is before is not None
        weight._data = weight._data.copy()
        update([0], [grad], [weight])
        assert update._one_call is not before
        assert weight.asnumpy().tolist() == [-3, -3, -3]

    def test_a_trainer_may_be_copied(self):
        _, trainer, step = net_of("sgd", self.GIVEN)
        step()
        assert used(trainer)
        assert copy.deepcopy(trainer._updaters[0])._one_call is None


class Halved(mx.optimizer.Adam):
    """A user's own optimizer."""

    def update(self, index, weight, grad, state) -> None:
        weight[:] = weight / 2


class Faster(SGD):
    """A user's own learning rate."""

    def _get_lrs(self, indices) -> list[float]:
        return [2.0 for _ in indices]


class TestUsersOwn:
    def test_an_overridden_update_is_called(self):
        net, trainer, step = net_of(Halved())
        before = net[0].weight.data().asnumpy()
        step()
        np.testing.assert_array_equal(net[0].weight.data().asnumpy(), before / 2)
        assert not used(trainer)

    def test_an_overridden_learning_rate_is_used(self):
        update, weight = get_updater(Faster()), nd.zeros((3,))
        update([0], [nd.ones((3,))], [weight])
        assert weight.asnumpy().tolist() == [-2, -2, -2]

    def test_a_method_of_one_optimizer(self):
        optimizer = SGD(learning_rate=1.0)
        update, weight, seen = get_updater(optimizer), nd.zeros((3,)), []
        update([0], [nd.ones((3,))], [weight])
        own = "update_multi_precision"
        setattr(optimizer, own, lambda *given: seen.append(given))
        update([0], [nd.ones((3,))], [weight])
        assert len(seen) == 1
        assert weight.asnumpy().tolist() == [-1, -1, -1]

    @pytest.mark.parametrize("name", ["SGD", "NAG", "LAMB", "LARS"])
    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    def test_these_do_not_call_an_update_of_a_subclass(self, name, dtype):
        kind = getattr(mx.optimizer, name)

        class Own(kind):  # type: ignore[misc, valid-type]
            def update(self, index, weight, grad, state) -> None:
                raise AssertionError("MXNet steps by update_multi_precision alone")

        found = []
        for made in (kind, Own):
            update = get_updater(made(learning_rate=0.5, multi_precision=True))
            weights = [nd.ones((3,), dtype=dtype), nd.ones((2,), dtype=dtype)]
            update([0, 1], [w * 2 for w in weights], weights)
            found.append([w.asnumpy().tolist() for w in weights])
        assert found[0] == found[1] != [[1, 1, 1], [1, 1]]


def large(threads: int) -> list[np.ndarray]:
    with mx.threads(threads):
        optimizer = mx.optimizer.Adam(learning_rate=0.1)
        update, random = get_updater(optimizer), np.random.RandomState(0)
        weights = [nd.array(random.normal(0, 1, n)) for n in (700_001, 3, 600_000)]
        for _ in range(2):
            update([0, 1, 2], [w * 0.5 for w in weights], weights)
        return [w.asnumpy() for w in weights]


def test_bits_do_not_depend_on_threads():
    wanted = large(1)
    for threads in (2, 3):
        assert_same_bits(large(threads), wanted)


@pytest.mark.parametrize("threads", [1, 2])
def test_signals_leave_weights_whole(threads):
    """A handler that raises is heard when the call is done: every weight is before or after."""
    update = get_updater(mx.optimizer.SGD(learning_rate=1.0))
    weights, grads = [nd.zeros((4_000_000,)) for _ in "ab"], [nd.ones((4_000_000,)) for _ in "ab"]
    update([0, 1], grads, weights)

    def handler(*_: object) -> None:
        raise KeyboardInterrupt

    old, heard = signal.signal(signal.SIGALRM, handler), 0
    try:
        with mx.threads(threads):
            for i in range(30):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-4 * (1 + i))
                    update([0, 1], grads, weights)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    heard += 1
                (first,), (second,) = (np.unique(w.asnumpy()) for w in weights)
                assert first == second
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert heard


@pytest.mark.parametrize("name", ["adam", "ftrl", "nag", "rmsprop", "sgd", "signum"])
@pytest.mark.parametrize(
    "given", [{"learning_rate": 1e300}, {"wd": -1e300}, {"rescale_grad": 4e38}]
)
def test_numbers_beyond_float32_are_refused_and_leave_the_weights(name, given):
    updater = get_updater(mx.optimizer.create(name, **given))
    weights = [nd.ones((3,)), nd.ones((2,))]
    with pytest.raises(mx.MXNetError, match="takes .*float"):
        updater([0, 1], [nd.ones((3,)), nd.ones((2,))], weights)
    assert all((weight.asnumpy() == 1).all() for weight in weights)


@pytest.mark.parametrize("name", ["adam", "ftrl", "nag", "rmsprop", "signum"])
def test_denormal_rates_are_refused_as_in_mxnet(name):
    """Ftrl divides by its rate: a weight would be NaN."""
    weights = [nd.ones((3,)), nd.ones((2,))]
    updater = get_updater(mx.optimizer.create(name, learning_rate=1e-40))
    with pytest.raises(mx.MXNetError, match="lr takes float of at least 1.18e-38"):
        updater([0, 1], [nd.ones((3,)), nd.ones((2,))], weights)
    assert all((weight.asnumpy() == 1).all() for weight in weights)


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adadelta"])
def test_denormal_rates_that_mxnet_takes(name):
    given = {} if name == "adadelta" else {"learning_rate": 1e-40}
    updater = get_updater(mx.optimizer.create(name, wd=1e-40, **given))
    weight = nd.ones((3,))
    updater([0], [nd.zeros((3,))], [weight])
    assert (weight.asnumpy() == 1).all()


@pytest.mark.parametrize(
    "name, argument",
    [
        *(("ftrl", "lamda1"), ("ftrl", "beta"), ("adam", "epsilon"), ("rmsprop", "gamma1")),
        *(("ftml", "beta1"), ("lamb", "epsilon"), ("signum", "wd_lh"), ("sgd", "rescale_grad")),
    ],
)
def test_none_is_not_the_default_of_the_operator(name, argument):
    weight = nd.ones((3,))
    with pytest.raises(TypeError, match=f"{argument} of .* is a number, got None"):
        get_updater(mx.optimizer.create(name, **{argument: None}))(0, nd.ones((3,)), weight)
    assert (weight.asnumpy() == 1).all()

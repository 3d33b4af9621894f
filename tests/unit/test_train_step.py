"""hybridjit.train_step: forward, loss, backward and update in one call, with the loop's numbers."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit.gluon import nn

Batch = tuple[nd.NDArray, ...]


class TwoInputs(gluon.HybridBlock):
    """Two inputs, two outputs, a parameter that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(6, in_units=4), nn.Dense(6, in_units=3)
        self.out = nn.Dense(2, in_units=6)

    def hybrid_forward(self, F, x, y):
        h = F.tanh(self.first(x) + self.second(y))
        return self.out(h), self.out(h * h)


class Both(gluon.HybridBlock):
    """A loss of two predictions that gives two results."""

    def hybrid_forward(self, F, found, label):
        first, second = found
        return F.mean(F.square(first - label), axis=1), F.sum(F.abs(second - label))


def plain() -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu"), nn.Dense(2))
    return net


def with_states() -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2))
    net.add(nn.Dropout(0.3), nn.Dense(2))
    return net


class Recurrent(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = gluon.rnn.LSTM(5, layout="NTC", input_size=4), nn.Dense(2)

    def hybrid_forward(self, F, x):
        return self.out(self.cell(x))


L2, CROSS = gluon.loss.L2Loss, gluon.loss.SoftmaxCrossEntropyLoss
Case = tuple[Callable[[], gluon.HybridBlock], Callable[[], gluon.HybridBlock], Any, Any]
NETS: dict[str, Case] = {
    "dense": (plain, L2, [(6, 4)], (6, 2)),
    "states": (with_states, CROSS, [(4, 3, 6, 6)], (4,)),
    "recurrent": (Recurrent, L2, [(3, 5, 4)], (3, 2)),
    "two inputs": (TwoInputs, Both, [(6, 4), (6, 3)], (6, 2)),
}
SGD: dict[str, Any] = {"learning_rate": 0.05, "momentum": 0.9, "wd": 0.01}


def batches(case: Case, count: int = 4) -> list[Batch]:
    """Inputs and a label for each step."""
    _, _, shapes, label = case
    found = []
    for i in range(count):
        random = np.random.RandomState(i)
        given = [nd.array(random.normal(0, 1, shape)) for shape in shapes]
        found.append((*given, nd.array(random.randint(0, 2, label).astype("f"))))
    return found


class Made:
    """A network with its loss and trainer, always from the same numbers."""

    def __init__(self, case: Case, optimizer: str = "sgd", given: Any = None) -> None:
        mx.random.seed(5)
        self.net, self.loss = case[0](), case[1]()
        self.net.initialize(mx.init.Xavier())
        self.net(*batches(case, 1)[0][:-1])
        self.net.hybridize()
        self.trainer = gluon.Trainer(self.net.collect_params(), optimizer, given or dict(SGD))

    def by_loop(self, batch: Batch, bound: float | None = None) -> list[nd.NDArray]:
        with autograd.record():
            made = self.loss(self.net(*batch[:-1]), batch[-1])
        losses = list(made) if isinstance(made, (list, tuple)) else [made]
        autograd.backward(losses)
        if bound is not None:
            gluon.utils.clip_global_norm([p.grad() for p in self.trained()], bound)
        self.trainer.step(batch[0].shape[0])
        return losses

    def trained(self) -> list[gluon.Parameter]:
        return [p for p in self.net.collect_params().values() if p.grad_req != "null"]

    def numbers(self) -> list[np.ndarray]:
        values = [p.data().asnumpy() for p in self.net.collect_params().values()]
        return values + [p.grad().asnumpy() for p in self.trained()]


def as_list(made: Any) -> list[np.ndarray]:
    return [y.asnumpy() for y in (made if isinstance(made, (list, tuple)) else [made])]


def assert_same(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def compare(case: Case, change=lambda made: None, optimizer="sgd", given=None, **options) -> Made:
    """Train both ways; the numbers after each step agree. Returns the network of the step."""
    loop, ours = Made(case, optimizer, given), Made(case, optimizer, given)
    change(loop)
    change(ours)
    step = mx.train_step(ours.net, ours.loss, ours.trainer, **options)
    bound = options.get("clip_global_norm")
    for i, batch in enumerate(batches(case)):
        mx.random.seed(i)
        wanted = [y.asnumpy() for y in loop.by_loop(batch, bound)]
        mx.random.seed(i)
        assert_same(as_list(step(*batch)), wanted)
        assert_same(ours.numbers(), loop.numbers())
    return ours


class TestNumbers:
    @pytest.mark.parametrize("name", NETS)
    def test_they_are_the_loops(self, name):
        compare(NETS[name])

    @pytest.mark.parametrize("name", ["adam", "rmsprop", "adamax"])
    def test_of_other_optimizers(self, name):
        compare(NETS["dense"], optimizer=name, given={"learning_rate": 0.01})

    def test_with_a_schedule(self):
        scheduler = mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=0.1)
        compare(NETS["dense"], given={"lr_scheduler": scheduler})

    def test_with_a_bound_for_all_gradients(self):
        ours = compare(NETS["states"], clip_global_norm=0.1)
        norm = np.sqrt(sum((p.grad().asnumpy() ** 2).sum() for p in ours.trained()))
        assert norm <= 0.1001

    def test_where_some_have_no_gradient_and_others_add(self):
        def change(made: Made) -> None:
            made.net[0].weight.grad_req = "null"
            made.net[1].weight.grad_req = "add"

        ours = compare(NETS["dense"], change)
        before = Made(NETS["dense"]).net[0].weight.data().asnumpy()
        np.testing.assert_array_equal(ours.net[0].weight.data().asnumpy(), before)

    def test_in_double(self):
        made = Made(NETS["dense"])
        made.net.cast("float64")
        step = mx.train_step(made.net, made.loss, made.trainer)
        x, y = (array.astype("float64") for array in batches(NETS["dense"], 1)[0])
        assert step(x, y).dtype == np.float64

    def test_of_batches_of_other_sizes(self):
        loop, ours = Made(NETS["dense"]), Made(NETS["dense"])
        step = mx.train_step(ours.net, ours.loss, ours.trainer)
        for size in (6, 3, 6):
            x, y = (array[:size] for array in batches(NETS["dense"], 1)[0])
            loop.by_loop((x, y))
            step(x, y)
        assert_same(ours.numbers(), loop.numbers())

    def test_the_loss_is_the_callers(self):
        ours = Made(NETS["dense"])
        step = mx.train_step(ours.net, ours.loss, ours.trainer)
        first = step(*batches(NETS["dense"], 1)[0])
        before = first.asnumpy().copy()
        step(*batches(NETS["dense"], 2)[1])
        np.testing.assert_array_equal(first.asnumpy(), before)

    def test_batch_size_divides_gradients(self):
        found = []
        for size in (None, 6, 12):
            ours = Made(NETS["dense"])
            step = mx.train_step(ours.net, ours.loss, ours.trainer)
            step(*batches(NETS["dense"], 1)[0], batch_size=size)
            found.append(ours.net[0].weight.data().asnumpy())
        np.testing.assert_array_equal(found[0], found[1])
        assert (found[0] != found[2]).any()


class Joined(gluon.HybridBlock):
    """A network and its loss, as a step has them in one graph."""

    def __init__(self, net: gluon.HybridBlock, loss: gluon.HybridBlock) -> None:
        super().__init__()
        self.net, self.loss = net, loss

    def hybrid_forward(self, F, x, *args):
        *inputs, label = (x, *args)
        return self.loss(self.net(*inputs), label)


@pytest.mark.parametrize("name", NETS)
def test_bits_are_those_of_network_and_loss_as_one_block(name):
    loop, ours = Made(NETS[name]), Made(NETS[name])
    step = mx.train_step(ours.net, ours.loss, ours.trainer)
    joined = Joined(loop.net, loop.loss)
    joined.hybridize()
    for i, batch in enumerate(batches(NETS[name])):
        mx.random.seed(i)
        with autograd.record():
            made = joined(*batch)
        autograd.backward(made)
        loop.trainer.step(batch[0].shape[0])
        mx.random.seed(i)
        found = [*as_list(step(*batch)), *ours.numbers()]
        for x, y in zip(found, [*as_list(made), *loop.numbers()]):
            np.testing.assert_array_equal(x, y)


class TestChanges:
    """Changes between two steps take effect in the next one."""

    def steps(self, by_loop: bool, change: Callable[[Made], None]) -> list[np.ndarray]:
        made = Made(NETS["dense"])
        step = mx.train_step(made.net, made.loss, made.trainer)
        for i, batch in enumerate(batches(NETS["dense"])):
            if i == 2:
                change(made)
            if by_loop:
                made.by_loop(batch)
            else:
                step(*batch)
        return made.numbers()

    @pytest.mark.parametrize(
        "change",
        [
            lambda made: made.net[0].weight.set_data(made.net[0].weight.data() * 2),
            lambda made: made.net[0].bias.hold([nd.ones(8)]),
            lambda made: setattr(made.net[1].weight, "grad_req", "null"),
            lambda made: setattr(made.net[1].weight, "grad_req", "add"),
            lambda made: made.trainer.set_learning_rate(0.5),
            lambda made: made.net.hybridize(False),
        ],
        ids=["values", "array", "null", "add", "rate", "eager"],
    )
    def test_changed_parameters_take_effect(self, change):
        assert_same(self.steps(False, change), self.steps(True, change))

    def test_inference_between_steps(self):
        made = Made(NETS["states"])
        step = mx.train_step(made.net, made.loss, made.trainer)
        x, y = batches(NETS["states"], 1)[0]
        step(x, y)
        before = made.net(x).asnumpy()
        step(x, y)
        after = made.net(x).asnumpy()
        made.net.hybridize(False)
        assert (before != after).any()
        np.testing.assert_allclose(made.net(x).asnumpy(), after, rtol=1e-4, atol=1e-5)


class TestErrors:
    def made(self) -> tuple[Made, nd.NDArray, nd.NDArray]:
        return Made(NETS["dense"]), *batches(NETS["dense"], 1)[0]

    def test_other_things_than_blocks(self):
        made, _, _ = self.made()
        with pytest.raises(TypeError, match="net of a train_step must be a HybridBlock"):
            mx.train_step(lambda x: x, made.loss, made.trainer)
        with pytest.raises(TypeError, match="loss of a train_step must be a HybridBlock"):
            mx.train_step(made.net, lambda x, y: x, made.trainer)
        with pytest.raises(TypeError, match=r"must be a gluon\.Trainer"):
            mx.train_step(made.net, made.loss, made.trainer.optimizer)

    def test_hooks_and_several_contexts(self):
        made, _, _ = self.made()
        handle = made.net.register_forward_hook(lambda *_: None)
        with pytest.raises(ValueError, match="hooks"):
            mx.train_step(made.net, made.loss, made.trainer)
        handle.detach()
        two = plain()
        two.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
        trainer = gluon.Trainer(two.collect_params(), "sgd")
        with pytest.raises(ValueError, match="one context"):
            mx.train_step(two, made.loss, trainer)

    def test_step_raises_for_wrong_arguments(self):
        made, x, y = self.made()
        step = mx.train_step(made.net, made.loss, made.trainer)
        with pytest.raises(TypeError, match="at least 2 arrays, got 1"):
            step(x)
        with pytest.raises(TypeError, match="argument 1 is"):
            step(x, y.asnumpy())
        with autograd.record(), pytest.raises(mx.MXNetError, match="outside of"):
            step(x, y)
        with pytest.raises(mx.MXNetError, match="Dense|FullyConnected|shape"):
            step(nd.ones((6, 9)), y)
        variable = nd.ones((6, 4))
        variable.attach_grad()
        with pytest.raises(mx.MXNetError, match="argument 0 is a variable"):
            step(variable, y)
        step(x, y)

    def test_nothing_to_train_and_parameters_that_are_not_reached(self):
        made, x, y = self.made()
        other = nn.Dense(3, in_units=2)
        other.initialize()
        params = [*made.net.collect_params().values(), other.weight]
        step = mx.train_step(made.net, made.loss, gluon.Trainer(params, "sgd"))
        with pytest.raises(UserWarning, match="has not been updated by backward"):
            step(x, y)
        mx.train_step(made.net, made.loss, gluon.Trainer(params, "sgd"), ignore_stale_grad=True)(
            x, y
        )
        made.net.collect_params().setattr("grad_req", "null")
        step = mx.train_step(made.net, made.loss, made.trainer)
        with pytest.raises(mx.MXNetError, match="needs a parameter with a gradient"):
            step(x, y)


@pytest.mark.parametrize("earlier", [0, 1, 3], ids="after {} calls".format)
def test_an_input_in_the_memory_of_a_gradient_is_refused_in_every_call(earlier):
    net, label = gluon.nn.Dense(4, in_units=4), nd.ones((4, 4))
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    step = mx.train_step(net, gluon.loss.L2Loss(), trainer)
    for _ in range(earlier):
        step(label, label)
    gradient = net.weight.grad()
    gradient[:] = 2
    weights = net.weight.data().asnumpy()
    for shared in (gradient, gradient[:]):
        with pytest.raises(mx.MXNetError, match="must not share memory"):
            step(shared, label)
    assert (gradient.asnumpy() == 2).all()
    np.testing.assert_array_equal(net.weight.data().asnumpy(), weights)
    step(label, label)
    assert (net.weight.data().asnumpy() != weights).any()


class Sums(gluon.HybridBlock):
    """The gradient by every weight is 1, whatever the weights are."""

    def __init__(self) -> None:
        super().__init__()
        self.a = self.params.get("a", shape=(30_000,), init="zeros")
        self.b = self.params.get("b", shape=(30_000,), init="zeros")

    def hybrid_forward(self, F, x, a, b):
        return F.broadcast_add(F.sum(a), F.sum(b)) + 0 * F.sum(x)


class Found(gluon.HybridBlock):
    """The profile is of the loss."""

    def hybrid_forward(self, F, found, label):
        return found + 0 * F.sum(label)


def interrupted(step: Callable[[], object], seconds: float) -> int:
    """How often a handler raised, 0 or 1, which is called after so long."""
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        step()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return 1
    return 0


def test_signals_leave_parameters_whole():
    """After a handler raised, wherever, all weights are of one and the same step."""
    net, x = Sums(), nd.ones((1,))
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    step = mx.train_step(net, Found(), trainer)
    step(x, x)

    def handler(*_: object) -> None:
        raise KeyboardInterrupt

    old, heard = signal.signal(signal.SIGALRM, handler), 0
    try:
        for i in range(60):
            heard += interrupted(lambda: step(x, x), 1e-5 * (1 + i))
            assert np.unique([net.a.data().asnumpy(), net.b.data().asnumpy()]).size == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert heard
    before = net.a.data().asnumpy()[0]
    step(x, x)
    assert (net.b.data().asnumpy() == before - 1).all()


def twins() -> list[gluon.nn.HybridSequential]:
    """The same network, run line by line and hybridized."""
    made = []
    for is_hybrid in (False, True):
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(5, in_units=5, activation="tanh"), gluon.nn.Dense(5, in_units=5))
        net.initialize(mx.init.Constant(0.1))
        for number, param in enumerate(net.collect_params().values()):
            param.set_data(nd.array(np.random.RandomState(number).normal(0, 1, param.shape)))
        net.hybridize(is_hybrid)
        made.append(net)
    return made


def written(net: gluon.nn.HybridSequential) -> None:
    net[0].weight.set_data(net[0].weight.data() * 2)


def replaced(net: gluon.nn.HybridSequential) -> None:
    net.initialize(mx.init.One(), force_reinit=True, ctx=[mx.cpu(0), mx.cpu(1)])
    net.collect_params().reset_ctx(mx.cpu(0))


def added(net: gluon.nn.HybridSequential) -> None:
    net[1].weight.grad_req = "add"


def frozen(net: gluon.nn.HybridSequential) -> None:
    net[0].bias.grad_req = "null"


def marked(net: gluon.nn.HybridSequential) -> None:
    weight = net[1].weight.data()
    autograd.mark_variables(weight, nd.zeros(weight.shape))


CHANGES = [written, replaced, added, frozen, marked]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_between_calls_take_effect_in_a_loop(change):
    """Cached information of the previous call is outdated: the loop detects it."""
    found = [[*steps_of(net, change)] for net in twins()]
    assert len(found[0]) == len(found[1])
    for eager, compiled in zip(*found):
        np.testing.assert_allclose(compiled, eager, rtol=1e-4, atol=1e-5 * np.abs(eager).max())


def steps_of(net: gluon.nn.HybridSequential, change: Callable[[Any], None]):
    """The losses and gradients of six calls, with a change in the middle.

    Some of the inputs are in a gradient's memory, which that very call's backward writes.
    """
    for number in range(6):
        if number == 3:
            change(net)
        x = nd.array(np.random.RandomState(number).normal(0, 1, (5, 5)))
        with autograd.record():
            value = net(net[0].weight.grad() if number in (2, 4) else x).square().mean()
        value.backward()
        yield value.asnumpy()
        for param in net.collect_params().values():
            if param.grad_req != "null":
                yield param.data().grad.asnumpy()

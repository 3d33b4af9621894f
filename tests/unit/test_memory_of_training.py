"""Memory of training: saved values, gradients and states separately; no growth."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from test_fuzz_graphs import tool

import hybridjit as mx
from compiling import call, var
from hybridjit import autograd, gluon, nd
from hybridjit._core.types import FLOAT32, TensorType
from hybridjit.compilation import compile_training
from hybridjit.gluon import nn
from hybridjit.ir.graph import Use, from_symbol
from hybridjit.passes.infer import infer_node_types
from hybridjit.passes.training.checkpoint import checkpoint
from hybridjit.runtime import saved
from hybridjit.trained import Trained

KINDS = ("saved_bytes", "gradient_bytes", "state_bytes")


def counted() -> tuple[int, ...]:
    gc.collect()
    stats = mx.memory_stats()
    return tuple(stats[kind] for kind in KINDS)


def test_saved_values_gradients_and_states_are_counted_separately():
    before = counted()

    def more() -> tuple[int, ...]:
        return tuple(now - then for now, then in zip(counted(), before))

    net = nn.HybridSequential()
    net.add(nn.Dense(50, activation="tanh", in_units=20), nn.Dense(3, in_units=50))
    net.initialize()
    net.hybridize()
    weights = 4 * (50 * 20 + 50 + 3 * 50 + 3)
    assert more() == (0, weights, 0)
    trainer = gluon.Trainer(net.collect_params(), "adam")
    x = nd.ones((8, 20))
    with autograd.record():
        y = net(x)
    saved, gradients, states = more()
    assert saved >= 4 * 8 * 50 and (gradients, states) == (weights, 0)
    y.backward()
    trainer.step(8)
    del y
    assert more() == (0, weights, 2 * weights)
    net = trainer = None  # parameters know their trainer: they go together
    assert more() == (0, 0, 0)


def test_gradients_of_an_executor_and_of_shared_memory_count_once():
    before = counted()[1]
    x = nd.ones((4, 5))
    grad = nd.zeros((4, 5))
    executor = mx.sym.square(mx.sym.var("x")).bind(mx.cpu(), {"x": x}, {"x": grad})
    assert counted()[1] - before == 80
    autograd.mark_variables([x], [grad])
    assert counted()[1] - before == 80
    executor.forward(is_train=True)
    executor.backward(nd.ones((4, 5)))
    np.testing.assert_array_equal(grad.asnumpy(), 2)
    assert counted()[1] - before == 80


def test_an_incomplete_lease_can_be_deleted(monkeypatch):
    wrong: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", wrong.append)
    saved._Lease.__new__(saved._Lease)  # goes at once
    assert not wrong


@pytest.mark.parametrize("is_hybrid", [False, True])
def test_steps_do_not_grow_the_process(is_hybrid: bool):
    soak = tool("soak")
    grown = soak.train(soak.make_net, (8, 3, 12, 12), steps=600, hybrid=is_hybrid, report=0)
    # The heap of one process varies by 1.5 MB; 6,000 steps take no more than 60.
    assert grown.bytes <= 3 << 20 and grown.objects <= 20 and grown.counted == 0, grown


def trained_layers(count: int) -> Trained:
    """Dense layers with a relu each, compiled for training, all weights wanted."""
    x, width = var("x"), 32
    types = {"x": TensorType((256, width), FLOAT32)}
    for i in range(count):
        types[f"w{i}"] = TensorType((width, width), FLOAT32)
        attrs = {"num_hidden": width, "no_bias": True}
        x = call("relu", call("FullyConnected", x, var(f"w{i}"), name=f"fc{i}", **attrs))
    return compile_training([x], types, [f"w{i}" for i in range(count)], training=True)


def test_backward_memory_does_not_grow_with_depth():
    """A weight's gradient is computed before the step to the layer below, which frees its head."""
    few, many = trained_layers(4), trained_layers(12)
    assert few.backward is not None and many.backward is not None
    assert many.backward.plan.live_bytes == few.backward.plan.live_bytes
    assert many.backward.plan.live_bytes <= 3 * 4 * 256 * 32


def test_recomputed_values_are_computed_next_to_their_readers():
    """Of each layer the product is saved, and the operand of the next product; of the factors,
    which
    no kernel reads, one lives at a time."""
    x, types = var("x"), {"x": TensorType((256, 32), FLOAT32)}
    for i in range(10):
        types[f"w{i}"] = TensorType((32, 32), FLOAT32)
        product = call("dot", x, var(f"w{i}"), name=f"dot{i}")
        x = call("elemwise_mul", product, call("tanh", product))
    trained = compile_training([x], types, [f"w{i}" for i in range(10)], training=True)
    assert trained.backward is not None
    assert trained.parts.saved_bytes == 19 * 4 * 256 * 32
    assert trained.backward.plan.live_bytes <= 3 * 4 * 256 * 32


def test_an_output_that_is_copied_is_copied_at_once():
    """A transposed gradient does not keep the memory of the one that it is made from."""
    types = {"x": TensorType((4, 64, 9, 9), FLOAT32)}
    x, weights = var("x"), []
    for i in range(6):
        weights.append(f"w{i}")
        types[f"w{i}"] = TensorType((64, 64, 3, 3), FLOAT32)
        attrs = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 64, "no_bias": True}
        x = call("relu", call("Convolution", x, var(f"w{i}"), name=f"conv{i}", **attrs))
    trained = compile_training([x], types, weights, training=True)
    assert trained.backward is not None
    plan = trained.backward.plan
    assert sum(step.kind == "copy" for step in plan.steps) >= 6
    assert plan.live_bytes < 4 * (3 * 4 * 64 * 81 + 2 * 64 * 64 * 9)


@pytest.mark.parametrize("add", [lambda x, y: nd.identity(x), lambda x, y: x + y])
def test_requested_gradients_are_separate_arrays(add):
    """A sum passes one array on to both operands, and that may be the caller's head gradient."""
    x, y, head = nd.ones((3,)), nd.ones((3,)), nd.array([1, 2, 3])
    for variable in (x, y):
        variable.attach_grad()
    with autograd.record():
        total = add(x, y)
        again = total + y
    first = autograd.grad(total, [x], head_grads=head, retain_graph=True)[0]
    found = autograd.grad(again, [x, y], head_grads=head)
    first[:] = found[0][:] = 0
    assert head.asnumpy().tolist() == [1, 2, 3] and found[1].asnumpy().all()


def dense(units: int) -> nn.Dense:
    """A hybridized layer whose weight is a square."""
    net = nn.Dense(units, in_units=units, use_bias=False, flatten=False)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def test_gradients_are_written_in_their_own_memory():
    net, x = dense(512), nd.ones((2, 512))
    for _ in range(2):
        with autograd.record():
            y = net(x)
        tracemalloc.start()
        y.backward()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < net.weight.grad()._data.nbytes // 4


def through_gradient(net: nn.Dense, grad: nd.NDArray) -> nd.NDArray:
    return net(grad)


def behind_gradient(net: nn.Dense, grad: nd.NDArray) -> nd.NDArray:
    x = nd.ones((8, 8))
    x.attach_grad()
    return net(x * grad)


def head_is_gradient(net: nn.Dense, grad: nd.NDArray) -> nd.NDArray:
    return net(nd.ones((8, 8)))


@pytest.mark.parametrize("read", [through_gradient, behind_gradient, head_is_gradient])
@pytest.mark.parametrize("request_", ["write", "add"])
def test_a_gradient_read_by_backward_keeps_its_old_value_until_then(read, request_: str):
    found = []
    for is_hybrid in (False, True):
        net = dense(8)
        net.hybridize(is_hybrid)
        values = np.random.RandomState(3).rand(8, 8).astype(np.float32)
        net.weight.set_data(nd.array(values))
        net.weight.grad_req = request_
        grad = net.weight.grad()
        grad[:] = nd.array(values.T)
        with autograd.record():
            y = read(net, grad)
        y.backward(grad if read is head_is_gradient else None)
        found.append(grad.asnumpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_variables_that_share_a_gradient_are_not_written_over_each_other():
    net, x = dense(8), nd.random.uniform(shape=(8, 8))
    net.weight.set_data(nd.random.uniform(shape=(8, 8)))
    with autograd.record():
        net(x).backward()
    wanted = net.weight.grad().asnumpy()
    shared = nd.zeros((8, 8))
    autograd.mark_variables([net.weight.data(), x], [shared, shared])
    with autograd.record():
        y = net(x)
    y.backward()
    passed_on = nd.dot(nd.ones((8, 8)), net.weight.data()).asnumpy()
    assert any(np.allclose(shared.asnumpy(), each, 1e-5) for each in (wanted, passed_on))


def test_forward_and_backward_work_in_the_same_memory():
    gc.collect()
    before = mx.memory_stats()["arena_bytes"]
    net = nn.HybridSequential()
    halved = nn.HybridLambda(lambda F, x: F.sum(F.reshape(x, shape=(0, -1, 2)), axis=2))
    for _ in range(3):
        net.add(nn.Dense(1024, in_units=512), halved, nn.LayerNorm(in_channels=512))
    net.initialize()
    net.hybridize()
    for _ in range(2):
        with autograd.record():
            y = net(nd.ones((256, 512)))
        y.backward()
    (trained,) = net._cached.graph.training._compiled.values()
    rooms = [trained.forward.room, trained.backward.room]
    used = mx.memory_stats()["arena_bytes"] - before
    assert min(room.arena for room in rooms) > 0
    assert used <= max(room.arena for room in rooms) + max(r.scratch + r.shared for r in rooms) * 2


class Residual(nn.HybridBlock):
    """A block that adds the result of its convolutions to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.HybridSequential()
        for _ in range(2):
            self.body.add(nn.Conv2D(16, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"))

    def hybrid_forward(self, F, x):
        return F.relu(x + self.body(x))


def residual() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, padding=1), nn.MaxPool2D(2), *(Residual() for _ in range(4)))
    net.add(nn.Dropout(0.3), nn.GlobalAvgPool2D(), nn.Dense(4))
    return net


def stacked() -> nn.HybridSequential:
    net = nn.HybridSequential()
    for _ in range(7):
        net.add(nn.Dense(64, activation="tanh"), nn.Dropout(0.2), nn.LayerNorm())
    return net


def recurrent() -> nn.HybridSequential:
    net = nn.HybridSequential()
    for _ in range(3):
        net.add(gluon.rnn.LSTM(24, layout="NTC"), nn.Dense(24, flatten=False, activation="relu"))
    return net


def steps_of(make, x: nd.NDArray, **flags: str) -> tuple[list[bytes], int]:
    """The state after three training steps, bit for bit, and the bytes that a call saves."""
    mx.random.seed(5)
    net = make()
    net.initialize(mx.init.Xavier())
    net.hybridize(**flags)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    found = []
    for _ in range(3):
        gc.collect()
        before = mx.memory_stats()["saved_bytes"]
        with autograd.record():
            y = net(x)
        saved = mx.memory_stats()["saved_bytes"] - before
        y.backward()
        trainer.step(x.shape[0])
        found.append(y.asnumpy().tobytes())
        del y
    for parameter in net.collect_params().values():
        found.append(parameter.data().asnumpy().tobytes())
    return found, saved


@pytest.mark.parametrize(
    ("make", "shape", "part"),
    [(residual, (4, 3, 16, 16), 0.5), (stacked, (32, 64), 0.75), (recurrent, (8, 12, 24), 0.9)],
)
def test_small_memory_saves_less_and_keeps_every_bit(make, shape: tuple[int, ...], part: float):
    x = nd.array(np.random.RandomState(1).rand(*shape))
    wanted, usual = steps_of(make, x)
    assert steps_of(make, x, memory="default") == (wanted, usual)
    found, saved = steps_of(make, x, memory="small")
    assert found == wanted
    assert saved < part * usual


def test_small_memory_is_said_in_numbers(capsys):
    net = residual()
    net.initialize()
    net.hybridize(memory="small")
    with mx.override(explain=True), autograd.record():
        net(nd.ones((4, 3, 16, 16)))
    lines = [line for line in capsys.readouterr().err.splitlines() if "memory small: " in line]
    now, before = (int(n) for n in re.findall(r"(\d+) B", lines[0]))
    assert len(lines) == 1 and now < 0.51 * before


def test_small_memory_agrees_with_numpy():
    net = residual()
    net.initialize(mx.init.Xavier())
    net.hybridize(memory="small")
    assert net.verify(nd.random.uniform(shape=(2, 3, 16, 16)), train=True).agrees


def test_memory_is_default_or_small():
    with pytest.raises(ValueError, match="memory is 'default' or 'small', got 'tiny'"):
        nn.Dense(3).hybridize(memory="tiny")


@pytest.mark.parametrize("count", [9, 16, 36])
def test_checkpoints_of_equal_layers_are_about_their_square_root(count: int):
    x, types, order = (
        var("x"),
        {"x": TensorType((8, 8), FLOAT32)},
        [f"fc{i}" for i in range(count)],
    )
    for name in order:
        attrs = {"num_hidden": 8, "no_bias": True}
        x = call("FullyConnected", call("tanh", x), var("x"), name=name, **attrs)
    values = from_symbol([x], types, infer_node_types([x], types)).values
    saved = [Use(value) for value in values if value.name in order]
    chosen = checkpoint(values, saved)
    places = sorted(order.index(use.value.name) for use in chosen.saved)
    last = 0
    while places[-1] == count - 1 - last:  # nothing of the last segment is computed again
        places.pop()
        last += 1
    places.append(count - last)
    assert last > 1 and len(places) <= 1.3 * count**0.5
    segments = np.diff([-1, *places, count])
    assert max(segments) - 1 + len(places) <= 2 * count**0.5


LLVMS_CODE = """
import numpy as np
from hybridjit import autograd, gluon, nd

def resident():
    "Megabytes of LLVM's code."
    found = is_code = 0
    for line in open("/proc/self/smaps"):
        word, *rest = line.split()
        if "-" in word and not word.endswith(":"):
            is_code = "libllvmlite" in line and rest[0] == "r-xp"
        elif word == "Rss:" and is_code:
            found += int(rest[0]) / 1024
    return found

net = gluon.nn.HybridSequential()
with net.name_scope():
    net.add(gluon.nn.Dense(2048, "tanh", flatten=False), gluon.nn.Dense(4, flatten=False))
net.initialize()
net.hybridize()
inference, x = net(nd.ones((1, 8))), nd.ones((8192, 8))
before = resident()
with autograd.record():
    y = net(x)
print(before, resident())
y.backward()
trainer = gluon.Trainer(net.collect_params(), "adam")
trainer.step(1)
print(resident())
assert np.isfinite(net(x).asnumpy()).all()
"""


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="nothing says what is resident")
def test_llvms_code_goes_when_a_large_step_is_compiled():
    """And comes again: a kernel of the optimizer is compiled after that."""
    environment = {**os.environ, "HYBRIDJIT_CACHE_DIR": "off", "HYBRIDJIT_NUM_THREADS": "1"}
    command = [sys.executable, "-c", LLVMS_CODE]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    before, compiled, updated = map(float, said.stdout.split())
    assert before > 15
    assert compiled < 8 and updated < 8

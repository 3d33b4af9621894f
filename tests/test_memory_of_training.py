"""What training holds in memory: saved values, gradients and states apart; nothing grows."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit.gluon import nn
from test_fuzz_graphs import tool

KINDS = ("saved_bytes", "gradient_bytes", "state_bytes")


def counted() -> tuple[int, ...]:
    gc.collect()
    stats = mx.memory_stats()
    return tuple(stats[kind] for kind in KINDS)


def test_saved_values_gradients_and_states_are_told_apart():
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


@pytest.mark.parametrize("is_hybrid", [False, True])
def test_steps_do_not_grow_the_process(is_hybrid: bool):
    soak = tool("soak")
    grown = soak.train(soak.make_net, (8, 3, 12, 12), steps=60, hybrid=is_hybrid, report=0)
    assert grown.bytes <= 1 << 20 and grown.objects <= 20 and grown.counted == 0, grown

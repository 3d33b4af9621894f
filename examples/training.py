"""Training, step by step: gradients, a Trainer, a compiled network, one call a step, files.

    python examples/training.py

Each part prints what it shows. ``digits_training.py`` trains a real network on real images.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit.gluon import nn


def show_gradients() -> None:
    """What is computed under ``record`` has gradients: of sum(x^2) by x that is 2 x."""
    x = nd.array([1.0, 2.0, 3.0])
    x.attach_grad()
    with autograd.record():
        y = (x * x).sum()
    y.backward()
    assert x.grad is not None
    print(f"1. The gradient of sum(x * x) at {x.asnumpy().tolist()}: {x.grad.asnumpy().tolist()}")


def samples(count: int) -> tuple[nd.NDArray, nd.NDArray]:
    """Points of the plane [count,2], and 1 for those inside of a circle, else 0."""
    points = np.random.uniform(-1, 1, (count, 2))
    inside = (points**2).sum(1) < 0.6
    return nd.array(points), nd.array(inside)


def make_network() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="tanh"), nn.BatchNorm(), nn.Dense(2))
    net.initialize(mx.init.Xavier())
    return net


def train(net: nn.HybridSequential, steps: int) -> list[float]:
    """The loss of each step. Under ``record`` BatchNorm takes the batch's own statistics."""
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    losses = []
    for _ in range(steps):
        x, y = samples(64)
        with autograd.record():
            value = loss(net(x), y)
        value.backward()  # into the parameters' gradients
        trainer.step(batch_size=64)  # which are divided by the batch's size
        losses.append(float(value.mean().asscalar()))
    return losses


def train_in_one_call(net: nn.HybridSequential, steps: int) -> float:
    """The last loss. The same as the loop of :func:`train`, in less time for small networks."""
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    step = mx.train_step(net, loss, trainer)
    for _ in range(steps):
        value = step(*samples(64))
    return float(value.mean().asscalar())


def accuracy(net: gluon.Block) -> float:
    x, y = samples(1000)
    return float((net(x).asnumpy().argmax(1) == y.asnumpy()).mean())


def main() -> int:
    np.random.seed(3)
    mx.random.seed(3)
    show_gradients()

    net = make_network()
    losses = train(net, 20)
    fall = f"from {losses[0]:.2f} to {losses[-1]:.2f}"
    print(f"2. Twenty steps on NumPy, line by line: the loss goes {fall}")

    net.hybridize()  # from here on forward and backward are machine code
    losses = train(net, 300)
    right = accuracy(net)
    print(f"3. Three hundred steps, compiled: a loss of {losses[-1]:.2f}")
    print(f"   {100 * right:.0f} % of new points are right")
    print(f"   and a hundred by train_step, one call each: {train_in_one_call(net, 100):.2f}")
    right = accuracy(net)

    with tempfile.TemporaryDirectory() as folder:
        net.export(str(Path(folder) / "circle"))
        files = [str(Path(folder) / name) for name in ("circle-symbol.json", "circle-0000.params")]
        loaded = gluon.SymbolBlock.imports(files[0], ["data"], files[1])
        x, _ = samples(5)
        same = np.abs(loaded(x).asnumpy() - net(x).asnumpy()).max() < 1e-5
    print(f"4. Exported as MXNet's files and read again: {'the same' if same else 'other'} numbers")
    return 0 if right > 0.9 and same else 1


if __name__ == "__main__":
    sys.exit(main())

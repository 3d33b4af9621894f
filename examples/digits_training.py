"""Handwritten digits: the network of ``digits.py`` trained from nothing, in a few seconds.

    python examples/digits_training.py                 trains, and writes MXNet's files
    python examples/digits_training.py --epochs 3      fewer passes over the images

Trains on 1,437 images as an MXNet program does: ``autograd.record``, ``backward`` and
``Trainer.step``. Draws how the loss falls, labels the 360 images that it never saw, and writes
``trained-symbol.json`` and ``trained-0000.params`` to ``--out``. The exit code is 1 if fewer than
98 in 100 are right after all epochs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import hybridjit as mx
from digits import FOLDER, prepare, short
from hybridjit import autograd, gluon, nd
from hybridjit.gluon import nn

EPOCHS = 20
SLOWER = 15  # the epoch from which the steps are smaller
BATCH = 64
WANTED = 0.98
BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-=+*#@"


class Net(gluon.HybridBlock):
    """Two convolutions with pooling, two dense layers, and a product with a weight of its own."""

    def __init__(self, prefix: str | None = None) -> None:
        super().__init__(prefix)
        with self.name_scope():
            self.conv1, self.pool1 = nn.Conv2D(6, kernel_size=5), nn.MaxPool2D(pool_size=2)
            self.conv2, self.pool2 = nn.Conv2D(16, kernel_size=5), nn.MaxPool2D(pool_size=2)
            self.fc1, self.fc2 = nn.Dense(120), nn.Dense(84)
            self.fc3_weight = self.params.get("fc3_weight", shape=(10, 84))

    def hybrid_forward(self, F, x, fc3_weight):  # noqa: ANN001, ANN201 (F is nd or sym)
        x = self.pool1(F.relu(self.conv1(x)))
        x = self.pool2(F.relu(self.conv2(x)))
        x = F.relu(self.fc1(x.reshape((0, -1))))
        return F.dot(F.relu(self.fc2(x)), fc3_weight, transpose_b=True)


def images_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The images [n,1,28,28] and labels [n] of one of the files beside the network."""
    data = np.load(FOLDER / name)
    return prepare(data["images"]), data["labels"].astype("float32")


def train_epoch(net: Net, trainer: gluon.Trainer, images: np.ndarray, labels: np.ndarray) -> float:
    """One pass over the images in a new order; the mean loss."""
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    total = 0.0
    order = np.random.permutation(len(images))
    for rows in np.split(order, range(BATCH, len(order), BATCH)):
        x, y = nd.array(images[rows]), nd.array(labels[rows])
        with autograd.record():
            value = loss(net(x), y)
        value.backward()
        trainer.step(len(rows))
        total += float(value.sum().asscalar())
    return total / len(images)


def accuracy(net: Net, images: np.ndarray, labels: np.ndarray) -> float:
    """The share of images that get their label."""
    return float((net(nd.array(images)).asnumpy().argmax(1) == labels).mean())


def curve(values: list[float]) -> str:
    """One character for each value, as high as its logarithm."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    bars = BARS if encoding.startswith("utf") else ASCII_BARS
    logs = np.log(np.maximum(values, 1e-9))
    reach = max(float(logs.max() - logs.min()), 1e-9)
    places = ((logs - logs.min()) / reach * (len(bars) - 1)).round().astype(int)
    return "".join(bars[place] for place in places)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Train a network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="passes over the images")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for MXNet's files")
    chosen = parser.parse_args(arguments)
    if chosen.epochs < 1:
        parser.error(f"--epochs is at least 1, got {chosen.epochs}")

    mx.random.seed(42)
    np.random.seed(42)
    train, test = images_of("digits-train.npz"), images_of("digits-test.npz")
    net = Net(prefix="digits_")
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 2e-3})
    start, losses = time.perf_counter(), []
    for epoch in range(chosen.epochs):
        if epoch == SLOWER:
            trainer.set_learning_rate(4e-4)
        losses.append(train_epoch(net, trainer, *train))
        right = accuracy(net, *test)
        print(
            f"  epoch {epoch + 1:>2}   loss {losses[-1]:.4f}   test {100 * right:.2f} %", flush=True
        )
    print(f"\nThe loss, epoch by epoch:  {curve(losses)}")
    print(f"{chosen.epochs} epochs of 1,437 images took {time.perf_counter() - start:.1f} s.")
    chosen.out.mkdir(parents=True, exist_ok=True)
    net.export(str(chosen.out / "trained"))
    print(f"Written, as MXNet writes them: {short(chosen.out / 'trained-symbol.json')} and")
    print("trained-0000.params beside it.")
    if chosen.epochs >= EPOCHS and right < WANTED:
        print(f"\nFewer than {100 * WANTED:.0f} % of the test images are right.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Many signatures of one net, or many steps of training, one after the other: does it grow?

    python tools/soak.py --signatures 5000 [--seed 0]
    python tools/soak.py --steps 1000 [--size 32] [--eager]
    python tools/soak.py --steps 10000 --net lenet

Prints how much memory and how many mappings the process has gained since the first signatures
(which fill bounded caches), and fails when that is more than 30 MB, or any mapping. Objects are
not kept on disk: everything is compiled.

``--steps`` trains ResNet-18, or LeNet on 32 images of 28x28, on random images, forward, backward
and update, prints memory now and then, and counts from the eleventh step on: bytes, Python's
objects, and the counts of ``memory_stats``. More than 1 MB, 20 objects or a byte that is counted is
too much.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hybridjit import autograd, gluon, memory_stats, nd, override, threads
from hybridjit.gluon.model_zoo import vision

_MOST_BYTES = 30 << 20
_WARM_UP = 200
_FIRST_STEPS = 10


def make_net() -> gluon.nn.HybridSequential:
    """A kernel of each common kind: convolutions, pooling, a dense layer, softmax."""
    net = gluon.nn.HybridSequential()
    with net.name_scope():
        net.add(gluon.nn.Conv2D(16, 3, padding=1, activation="relu", in_channels=3))
        net.add(gluon.nn.MaxPool2D(2))
        net.add(gluon.nn.Conv2D(8, 1, in_channels=16))
        net.add(gluon.nn.GlobalAvgPool2D())
        net.add(gluon.nn.Dense(10, in_units=8))
        net.add(gluon.nn.HybridLambda("softmax"))
    net.initialize()
    return net


def shapes(seed: int) -> list[tuple[int, ...]]:
    """Distinct inputs in random order."""
    found = [(n, 3, h, w) for n in (1, 2, 3) for h in range(4, 46) for w in range(4, 46)]
    random.Random(seed).shuffle(found)
    return found


def mappings() -> int:
    try:
        return len(Path("/proc/self/maps").read_text().splitlines())
    except OSError:
        return 0


def own_bytes() -> int:
    """Memory of the process without pages of files, which come and go as they are needed."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    return memory_stats()["resident_bytes"]


def soak(signatures: int, seed: int = 0) -> tuple[int, int]:
    """Bytes and mappings that the process gained after its warm-up."""
    net = make_net()
    net.hybridize()
    start = (0, 0)
    for number, shape in enumerate(shapes(seed)[: signatures + _WARM_UP]):
        if number == _WARM_UP:
            gc.collect()
            start = (own_bytes(), mappings())
        net(nd.ones(shape))
        if number % 500 == 0:
            print(number, memory_stats(), "mappings", mappings(), flush=True)
    gc.collect()
    return own_bytes() - start[0], mappings() - start[1]


class Growth(NamedTuple):
    """Growth of a process: bytes, Python's objects, and bytes that ``memory_stats`` counts."""

    bytes: int
    objects: int
    counted: int


def train(
    make: Callable[[], gluon.HybridBlock],
    shape: tuple[int, ...],
    steps: int,
    hybrid: bool = True,
    report: int = 100,
) -> Growth:
    """Growth by training steps after the first ten."""
    net = make()
    net.hybridize(hybrid)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    x, labels = nd.random.normal(shape=shape), nd.zeros((shape[0],))
    start = _held()
    for number in range(steps + _FIRST_STEPS):
        if number == _FIRST_STEPS:
            start = _held()
        with autograd.record():
            value = loss(net(x), labels)
        value.backward()
        trainer.step(shape[0])
        if report and number % report == 0:
            print(number, memory_stats(), flush=True)
    return Growth(*(now - then for now, then in zip(_held(), start)))


def _held() -> Growth:
    gc.collect()
    stats = memory_stats()
    kinds = ("arena_bytes", "packed_bytes", "saved_bytes", "gradient_bytes", "state_bytes")
    counted = sum(stats[kind] for kind in kinds)
    return Growth(own_bytes(), len(gc.get_objects()), counted)


def resnet() -> gluon.HybridBlock:
    """ResNet-18 for ten classes."""
    net = vision.get_model("resnet18_v1", classes=10)
    net.initialize()
    return net


def lenet() -> gluon.HybridBlock:
    """LeNet for images of one channel and 28x28."""
    net = gluon.nn.HybridSequential()
    with net.name_scope():
        for channels in (20, 50):
            net.add(gluon.nn.Conv2D(channels, kernel_size=5, activation="tanh"))
            net.add(gluon.nn.MaxPool2D(pool_size=2, strides=2))
        net.add(gluon.nn.Dense(500, activation="tanh"), gluon.nn.Dense(10))
    net.initialize()
    return net


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signatures", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="steps of training instead")
    parser.add_argument("--size", type=int, default=32, help="of its images (32)")
    parser.add_argument("--net", choices=("resnet", "lenet"), default="resnet")
    parser.add_argument("--eager", action="store_true", help="train without compiling")
    args = parser.parse_args(arguments)
    if args.steps is not None:
        shape = (2, 3, args.size, args.size) if args.net == "resnet" else (32, 1, 28, 28)
        make = resnet if args.net == "resnet" else lenet
        grown = train(make, shape, args.steps, not args.eager, max(100, args.steps // 10))
        print(f"{args.steps} steps: {grown.bytes / 1e6:+.1f} MB, {grown.objects:+d} objects, "
              f"{grown.counted:+d} bytes counted")  # fmt: skip
        return 0 if grown.bytes <= 1 << 20 and grown.objects <= 20 and not grown.counted else 1
    with override(cache_dir="off"), threads(1):
        grown, mapped = soak(args.signatures, args.seed)
    print(f"{args.signatures} signatures: {grown / 1e6:+.1f} MB, {mapped:+d} mappings")
    return 0 if grown <= _MOST_BYTES and mapped <= 0 else 1


if __name__ == "__main__":
    sys.exit(main())

"""ResNet-20 trained here and by MXNet on the same made-up pictures: a comparison of accuracies.

    python tools/accuracy.py --mxnet /path/to/mxnets/python [--seeds 5] [--epochs 5] [--threads 1]

2,000 pictures of 32x32 in ten classes to train on and 1,000 to test: each is its class's pattern,
moved and faint, under noise, and every twentieth label is another one. A seed decides pictures,
their order, how they are mirrored and the first weights, which both engines get as they are; each
run is a separate process. Prints the accuracies by seed, and exits with 1 if the mean of those
here is outside of the range of MXNet's seeds, or is off by more than three standard errors.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time

import numpy as np

TRAINED, TESTED, CLASSES, BATCH = 2000, 1000, 10, 50


def pictures(random, count, patterns):
    """Pictures (count, 3, 32, 32) and the classes that they are of."""
    classes = random.randint(0, CLASSES, count)
    moves = random.randint(-4, 5, (count, 2))
    moved = [np.roll(patterns[c], tuple(m), (1, 2)) for c, m in zip(classes, moves)]
    faint = random.uniform(0.25, 1, (count, 1, 1, 1))
    noisy = faint * np.array(moved) + random.standard_normal((count, 3, 32, 32))
    return noisy.astype("float32"), classes


def draw(seed):
    """Data for training and testing."""
    random = np.random.RandomState(seed)
    coarse = random.standard_normal((CLASSES, 3, 8, 8))
    patterns = 0.7 * np.kron(coarse, np.ones((4, 4)))
    images, labels = pictures(random, TRAINED, patterns)
    wrong = random.rand(TRAINED) < 0.05
    labels = np.where(wrong, random.randint(0, CLASSES, TRAINED), labels)
    return images, labels, *pictures(random, TESTED, patterns)


def resnet20(mx):
    """The network for pictures of 32x32 with three stages of three blocks."""
    nn = mx.gluon.nn

    class Block(mx.gluon.HybridBlock):
        def __init__(self, channels, stride, before, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.body = nn.HybridSequential()
                self.body.add(
                    nn.Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=before),
                    nn.BatchNorm(in_channels=channels),
                    nn.Activation("relu"),
                    nn.Conv2D(channels, 3, 1, 1, use_bias=False, in_channels=channels),
                    nn.BatchNorm(in_channels=channels),
                )
                self.beside = nn.HybridSequential()
                if channels != before:
                    self.beside.add(
                        nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=before),
                        nn.BatchNorm(in_channels=channels),
                    )

        def hybrid_forward(self, F, x):
            return F.relu(self.beside(x) + self.body(x))

    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(16, 3, 1, 1, use_bias=False, in_channels=3))
        net.add(nn.BatchNorm(in_channels=16), nn.Activation("relu"))
        before = 16
        for channels in (16, 32, 64):
            for number in range(3):
                stride = 2 if channels > 16 and number == 0 else 1
                net.add(Block(channels, stride, before))
                before = channels
        net.add(nn.GlobalAvgPool2D(), nn.Dense(CLASSES, in_units=64))
    return net


def fill(mx, net, seed):
    """The same first weights for both engines."""
    net.initialize()
    random = np.random.RandomState(1000 + seed)
    for param in net.collect_params().values():
        if param.name.endswith("weight"):
            fan_in = np.prod(param.shape[1:])
            values = random.standard_normal(param.shape) * np.sqrt(2 / fan_in)
            param.set_data(mx.nd.array(values.astype("float32")))


def train(engine, seed, epochs):
    """The accuracy on the test data, and the duration in seconds."""
    mx = importlib.import_module(engine)
    images, labels, tested, classes = draw(seed)
    net = resnet20(mx)
    fill(mx, net, seed)
    net.hybridize()
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    rates = mx.lr_scheduler.FactorScheduler(epochs * TRAINED // BATCH * 2 // 3, 0.1, base_lr=0.05)
    options = {"momentum": 0.9, "wd": 1e-4, "lr_scheduler": rates}
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", options)
    random = np.random.RandomState(2000 + seed)
    begin = time.process_time()
    for _ in range(epochs):
        for places in random.permutation(TRAINED).reshape(-1, BATCH):
            batch = images[places]
            mirrored = random.rand(BATCH) < 0.5
            batch[mirrored] = batch[mirrored, :, :, ::-1]
            with mx.autograd.record():
                value = loss(net(mx.nd.array(batch)), mx.nd.array(labels[places]))
            value.backward()
            trainer.step(BATCH)
    found = [net(mx.nd.array(part)).asnumpy().argmax(1) for part in np.split(tested, 10)]
    return float(np.mean(np.concatenate(found) == classes)), time.process_time() - begin


def run(python, engine, seed, args):
    """One training in a separate process."""
    words = [python, __file__, "--engine", engine, "--seed", str(seed), "--epochs"]
    ended = subprocess.run(
        [*words, str(args.epochs)],
        env=os.environ | {"OMP_NUM_THREADS": str(args.threads)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(ended.stdout.splitlines()[-1])


def compare(args):
    """Print a line for each seed and a summary; return whether the result is good."""
    print("seed   here     MXNet    CPU seconds here, MXNet")
    found = []
    for seed in range(args.seeds):
        engines = ((sys.executable, "hybridjit"), (args.mxnet, "mxnet"))
        (here, fast), (there, slow) = (run(*engine, seed, args) for engine in engines)
        found.append((here, there))
        print(f"{seed:4}   {here:.3f}    {there:.3f}    {fast:.0f}, {slow:.0f}", flush=True)
    here, there = np.array(found).T
    errors = np.sqrt((here.var(ddof=1) + there.var(ddof=1)) / len(here))
    off = here.mean() - there.mean()
    print(f"mean   {here.mean():.3f}    {there.mean():.3f}")
    print(f"span   {here.min():.3f} to {here.max():.3f}, MXNet {there.min():.3f} to ", end="")
    print(f"{there.max():.3f}; the means differ by {off:+.4f}, {abs(off) / errors:.1f} errors")
    return there.min() <= here.mean() <= there.max() and abs(off) <= 3 * errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mxnet", help="the interpreter that has MXNet")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.engine:
        print(json.dumps(train(args.engine, args.seed, args.epochs)))
        return
    if not args.mxnet:
        parser.error("--mxnet says where MXNet is")
    sys.exit(0 if compare(args) else 1)


if __name__ == "__main__":
    main()

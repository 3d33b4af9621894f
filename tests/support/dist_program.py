"""Trains a small network in the processes of a job, and writes the result.

    mpirun -n 4 python dist_program.py FOLDER [INTERFACE] [MISTAKE]

Rank 0 writes FOLDER/weights.npy; every rank takes its part of the same batches. INTERFACE is
trainer, module or horovod; a MISTAKE is made by rank 1 before the last step. Prints how many steps
had gradients on their way when backward was over.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hybridjit as mx
from hybridjit import autograd, gluon, nd, sym
from hybridjit.kvstore.exchange import Exchange

STEPS, BATCH = 4, 16
MISTAKES: dict[str, Callable[[], object]] = {
    "raise": lambda: 1 / 0,
    "exit": lambda: sys.exit(0),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "other": lambda: mx.kv.create("dist_sync").init("another", nd.zeros(3)),
}


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    """The same for all: inputs (16, 6) and labels (16,) of each step."""
    random = np.random.default_rng(0)
    return [
        (random.standard_normal((BATCH, 6)).astype("float32"), random.integers(0, 3, BATCH))
        for _ in range(STEPS)
    ]


def network() -> gluon.nn.HybridSequential:
    """Two layers, whose values are random."""
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(8, activation="tanh"), gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def train(
    net: gluon.nn.HybridSequential, trainer: gluon.Trainer, parts: int, mine: slice
) -> list[np.ndarray]:
    """Weights after the steps, on parts ``mine`` of every batch, a context for each."""
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    contexts = [mx.cpu(i) for i in range(mine.stop - mine.start)]
    for step, (data, labels) in enumerate(batches()):
        if step == STEPS - 1:
            make_mistake()
        pieces = zip(np.split(data, parts)[mine], np.split(labels, parts)[mine])
        with autograd.record():
            losses = [
                loss(net(nd.array(x, ctx)), nd.array(y, ctx))
                for (x, y), ctx in zip(pieces, contexts)
            ]
        autograd.backward(losses)
        trainer.step(BATCH)
    return [p.list_data()[0].asnumpy() for p in net.collect_params().values()]


def make_mistake() -> None:
    """The mistake on the command line, if this is rank 1."""
    if len(sys.argv) > 3 and mx.kv.create("dist_sync").rank == 1:
        MISTAKES[sys.argv[3]]()


def by_trainer() -> tuple[int, list[np.ndarray]]:
    """The rank, and the weights of Gluon's loop."""
    store = mx.kv.create("dist_sync")
    mx.random.seed(store.rank)  # the first one's values are taken
    net = network()
    net(nd.zeros((1, 6)))
    options = {"learning_rate": 0.1, "momentum": 0.9}
    trainer = gluon.Trainer(net.collect_params(), "sgd", options, kvstore=store)
    rank, size = store.rank, store.num_workers
    trainer._prepare()
    return rank, train(net, trainer, size, slice(rank, rank + 1))


def by_horovod() -> tuple[int, list[np.ndarray]]:
    """The rank, and the weights of Horovod's loop."""
    mx.install_as_mxnet()
    hvd: Any = importlib.import_module("horovod.mxnet")
    hvd.init()
    mx.random.seed(hvd.rank())
    net = network()
    hvd.broadcast_parameters(net.collect_params())
    options = {"learning_rate": 0.1, "momentum": 0.9}
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", options)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for data, labels in batches():
        x, y = (np.split(a, hvd.size())[hvd.rank()] for a in (data, labels))
        with autograd.record():
            value = loss(net(nd.array(x)), nd.array(y))
        value.backward()
        trainer.step(len(x))
    return hvd.rank(), [p.data().asnumpy() for p in net.collect_params().values()]


def by_module() -> tuple[int, list[np.ndarray]]:
    """The rank, and the weights of Module's loop."""
    store = mx.kv.create("dist_sync")
    hidden = sym.tanh(sym.FullyConnected(sym.var("data"), num_hidden=8, name="a"))
    net = sym.SoftmaxOutput(sym.FullyConnected(hidden, num_hidden=3, name="b"), name="softmax")
    module = mx.mod.Module(net)
    size = BATCH // store.num_workers
    module.bind([("data", (size, 6))], [("softmax_label", (size,))])
    mx.random.seed(store.rank)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(store, "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    for data, labels in batches():
        x, y = (np.split(a, store.num_workers)[store.rank] for a in (data, labels))
        module.forward_backward(mx.io.DataBatch([nd.array(x)], [nd.array(y)]))
        module.update()
    params = module.get_params()[0]
    return store.rank, [params[name].asnumpy() for name in sorted(params)]


def main(folder: Path, interface: str = "trainer", mistake: str = "") -> None:
    begun, finish = [], Exchange.finish

    def watched(exchange: Exchange) -> list[nd.NDArray]:
        begun.append(exchange.is_under_way)
        return finish(exchange)

    Exchange.finish = watched  # type: ignore[method-assign]
    run = {"trainer": by_trainer, "horovod": by_horovod, "module": by_module}[interface]
    rank, weights = run()
    print(f"{sum(begun)} steps begun in backward")
    np.save(folder / f"{rank}.npy", np.concatenate([w.reshape(-1) for w in weights]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

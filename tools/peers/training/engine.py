"""One engine that trains one network in one process: ``engine.py ENGINE NAME THREADS WEIGHTS``.

Prints one JSON line {"compile_s", "losses", "rss_mb"} and then times of steps, as ../turns.py says:
the time until the first step has ended, and the mean losses of ten steps of SGD with momentum on
ten batches. A step is forward, loss, backward, update, and reading the loss. The Gluon engines
start from WEIGHTS and must print the same losses; ``engine.py write NAME THREADS WEIGHTS`` writes
these with MXNet.
"""

import itertools
import sys
import time
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from turns import bound_threads, clock_for, serve

SGD = {"learning_rate": 0.01, "momentum": 0.9, "wd": 1e-4}
COUNT = 10  # of different batches


def drawn(name):
    import numpy as np
    from batches import BATCHES

    return [BATCHES[name](np.random.RandomState(i)) for i in range(COUNT)]


class Gluon:
    """A network of nets_gluon.py with its batches, whose shapes are known."""

    def __init__(self, mx, name):
        from nets_gluon import NETS

        self.mx = mx
        self.net, self.loss = NETS[name](mx)
        mx.random.seed(7)
        self.net.initialize(mx.init.Xavier())
        self.batches = [tuple(mx.nd.array(a) for a in batch) for batch in drawn(name)]
        self.net(self.batches[0][0])

    def start(self, weights, hybrid):
        self.net.load_parameters(weights)
        if hybrid:
            self.net.hybridize(static_alloc=True, static_shape=True)
            self.loss.hybridize(static_alloc=True, static_shape=True)
        self.trainer = self.mx.gluon.Trainer(self.net.collect_params(), "sgd", SGD)

    def train(self, x, y):
        with self.mx.autograd.record():
            value = self.loss(self.net(x), y)
        value.backward()
        self.trainer.step(x.shape[0])
        return value


def write(name, weights):
    warnings.filterwarnings("ignore")
    import mxnet as mx

    Gluon(mx, name).net.save_parameters(weights)


def load_mxnet(name, threads, weights):
    warnings.filterwarnings("ignore")
    import mxnet as mx

    made = Gluon(mx, name)
    made.start(weights, hybrid=True)
    return gluon_step(mx, made.batches, made.train)


def load_hybridjit(name, threads, weights, hybrid=True, joined=False):
    """``joined``: the network, its loss and the trainer as one ``train_step``, and not the loop."""
    import hybridjit as mx

    made = Gluon(mx, name)
    made.start(weights, hybrid)
    train = mx.train_step(made.net, made.loss, made.trainer) if joined else made.train
    return gluon_step(mx, made.batches, train)


def gluon_step(mx, batches, train):
    def step(i):
        value = float(train(*batches[i % COUNT]).mean().asscalar())
        mx.nd.waitall()  # MXNet has the loss while backward and the update still run
        return value

    return step


def load_torch(name, threads, weights, compiled=False):
    import torch
    from nets_torch import CHANNELS_LAST, NETS

    torch.set_num_threads(threads)
    torch.manual_seed(7)
    net, loss = NETS[name]()
    net.train()
    if name in CHANNELS_LAST:
        net = net.to(memory_format=torch.channels_last)
    return torch_step(
        torch.compile(net) if compiled else net, loss, torch_sgd(net), torch_batches(name)
    )


def torch_sgd(net):
    import torch

    rates = {"lr": SGD["learning_rate"], "momentum": SGD["momentum"], "weight_decay": SGD["wd"]}
    return torch.optim.SGD(net.parameters(), foreach=True, **rates)


def torch_batches(name):
    import torch
    from batches import TOKENS
    from nets_torch import CHANNELS_LAST

    batches = [tuple(torch.from_numpy(a) for a in batch) for batch in drawn(name)]
    if name in TOKENS:
        return [(x.long(), y) for x, y in batches]
    if name in CHANNELS_LAST:
        return [(x.to(memory_format=torch.channels_last), y) for x, y in batches]
    return batches


def torch_step(run, loss, optimizer, batches):
    def step(i):
        x, y = batches[i % COUNT]
        optimizer.zero_grad()
        value = loss(run(x), y)
        value.backward()
        optimizer.step()
        return float(value.detach())

    return step


LOADERS = {
    "hybridjit": load_hybridjit,
    "hybridjit-eager": lambda *args: load_hybridjit(*args, hybrid=False),
    "hybridjit-step": lambda *args: load_hybridjit(*args, joined=True),
    "mxnet": load_mxnet,
    "torch": load_torch,
    "torch-compile": lambda *args: load_torch(*args, compiled=True),
}


def main(engine, name, threads, weights):
    bound_threads(threads)
    if engine == "write":
        write(name, weights)
        return
    start = time.perf_counter()
    step = LOADERS[engine](name, int(threads), weights)
    losses = [step(0)]
    took = time.perf_counter() - start
    losses += [step(i) for i in range(1, COUNT)]
    numbers = itertools.count()
    serve(lambda: step(next(numbers)), clock_for(threads), compile_s=took, losses=losses)


if __name__ == "__main__":
    main(*sys.argv[1:])

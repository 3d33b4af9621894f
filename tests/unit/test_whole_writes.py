"""A call sees all of the old parameters or all of the new ones, whatever writes several of them.

A writer that stops in the middle starts a reader and gives it time, and a reader that stops while
it packs parameters starts a writer: without a lock each ends there, and the call sees a mixture.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit.gluon import nn
from hybridjit.nd.memory import DenseArray
from hybridjit.runtime.binding import Binding
from patience import PATIENCE

A_WHILE = 0.4  # seconds in which a thread that is not blocked would go on
X = nd.array(np.random.default_rng(0).normal(size=(3, 8)).astype("f4"))
LABEL = nd.ones((3, 2))
Write = Callable[[], object]


def made_net() -> gluon.nn.HybridSequential:
    mx.random.seed(2)
    net = nn.HybridSequential(prefix="whole_")
    with net.name_scope():
        net.add(nn.Dense(16, in_units=8), nn.BatchNorm(in_channels=16), nn.Dense(2, in_units=16))
    net.initialize(mx.init.Xavier(magnitude=20))
    net.hybridize()
    net(X)
    return net


def trainer_of(net: Any, optimizer: str) -> gluon.Trainer:
    return gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.5})


def stepping(net: Any, optimizer: str) -> Write:
    trainer = trainer_of(net, optimizer)
    for _ in range(2):
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(X), LABEL)
        loss.backward()
        trainer.step(3)
    with autograd.record():
        loss = gluon.loss.L2Loss()(net(X), LABEL)
    loss.backward()
    return lambda: trainer.step(3)


def train_step(net: Any, optimizer: str) -> Write:
    step = mx.train_step(net, gluon.loss.L2Loss(), trainer_of(net, optimizer))
    step(X, LABEL)
    return lambda: step(X, LABEL)


def loading(net: Any, path: str) -> Write:
    other = made_net()
    for param in other.collect_params().values():
        param.set_data(param.data() * 3 + 1)
    other.save_parameters(path)
    return lambda: net.load_parameters(path)


def loading_by_names(net: Any, path: str) -> Write:
    arrays = {name: param.data() * 3 + 1 for name, param in net.collect_params().items()}
    return lambda: net.collect_params().load_dict(arrays)


def initializing(net: Any, path: str) -> Write:
    return lambda: net.collect_params().initialize(mx.init.Uniform(0.5), force_reinit=True)


BY_PYTHON: dict[str, Callable[[Any, str], Write]] = {
    "Trainer.step with Nadam": lambda net, _: stepping(net, "nadam"),
    "Trainer.step with LAMB": lambda net, _: stepping(net, "lamb"),
    "train_step with Nadam": lambda net, _: train_step(net, "nadam"),
    "load_parameters": loading,
    "load_dict": loading_by_names,
    "initialize": initializing,
}
WRITERS = {
    **BY_PYTHON,
    "Trainer.step with SGD": lambda net, _: stepping(net, "sgd"),
    "Trainer.step with Adam": lambda net, _: stepping(net, "adam"),
    "train_step with Adam": lambda net, _: train_step(net, "adam"),
}


class Other:
    """Work in another thread, which is waited for a while and once more in the end."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.found: list[Any] = []
        self._thread = threading.Thread(target=lambda: self.found.append(work()), daemon=True)
        self._thread.start()
        self._thread.join(A_WHILE)

    def finish(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "two threads wait for each other"


def is_one_of(found: np.ndarray, *wanted: np.ndarray) -> bool:
    return any((found == each).all() for each in wanted)


@pytest.mark.parametrize("writer", BY_PYTHON)
def test_a_call_in_the_middle_of_writes(writer, tmp_path: Path, monkeypatch):
    net = made_net()
    write = WRITERS[writer](net, str(tmp_path / "net.params"))
    old = net(X).asnumpy()
    memory = {id(p.data()._data) for p in net.collect_params().values()}
    original, readers, written = DenseArray._write, [], []

    def stopping(array: Any, *args: Any) -> None:
        original(array, *args)
        if id(array._data) in memory:
            written.append(array)
            if len(written) == 3:
                readers.append(Other(lambda: net(X).asnumpy()))

    monkeypatch.setattr(DenseArray, "_write", stopping)
    write()
    monkeypatch.undo()
    (reader,) = readers
    reader.finish()
    new = net(X).asnumpy()
    assert not (old == new).any()
    assert is_one_of(reader.found[0], old, new)


@pytest.mark.parametrize("writer", WRITERS)
def test_writes_in_the_middle_of_a_call(writer, tmp_path: Path, monkeypatch):
    net = made_net()
    write = WRITERS[writer](net, str(tmp_path / "net.params"))
    old = net(X).asnumpy()
    net[0].bias.set_data(net[0].bias.data())  # the next call packs all parameters again
    original, writers = Binding._keep, []

    def stopping(binding: Any, *args: Any) -> None:
        original(binding, *args)
        if not writers:
            writers.append(Other(write))

    monkeypatch.setattr(Binding, "_keep", stopping)
    with mx.threads(1):
        found = net(X).asnumpy()
    monkeypatch.undo()
    (other,) = writers
    other.finish()
    new = net(X).asnumpy()
    assert not (old == new).any()
    assert is_one_of(found, old, new)

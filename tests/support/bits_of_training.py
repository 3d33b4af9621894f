"""The bits of training: gradients, and parameters after some steps, under different conditions.

In: a network, its batch, an optimizer. Out: bytes to compare: for numbers of threads, for samples
at other places of a batch, for arrays at other addresses.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit._core.types import type_of
from hybridjit.compilation import compile_training
from hybridjit.gluon import nn, rnn
from hybridjit.nd import NDArray
from hybridjit.runtime.threads import threads


class Net(NamedTuple):
    """A network, the shape of its batch, and the axis of samples."""

    make: Callable[[], gluon.HybridBlock]
    shape: tuple[int, ...]
    axis: int = 0


def _images() -> gluon.HybridBlock:
    net = nn.HybridSequential(prefix="images_")
    with net.name_scope():
        net.add(nn.Conv2D(12, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D())
        net.add(nn.Conv2D(17, 3, strides=2), nn.PReLU(), nn.Conv2D(17, 3, padding=1, groups=17))
        net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(5))
    return net


def _plain() -> gluon.HybridBlock:
    """Without statistics of the batch: a sample does not depend on the others."""
    net = nn.HybridSequential(prefix="plain_")
    with net.name_scope():
        net.add(nn.Conv2D(16, 3, padding=1, activation="relu"), nn.AvgPool2D())
        net.add(nn.InstanceNorm(), nn.Conv2D(8, 1, activation="tanh"), nn.Dense(5))
    return net


def _rows() -> gluon.HybridBlock:
    net = nn.HybridSequential(prefix="rows_")
    with net.name_scope():
        net.add(nn.Dense(70, activation="softrelu"), nn.LayerNorm(), nn.Dropout(0.3), nn.Dense(9))
    return net


def _series() -> gluon.HybridBlock:
    net = nn.HybridSequential(prefix="series_")
    with net.name_scope():
        net.add(rnn.LSTM(20, num_layers=2), rnn.GRU(9, bidirectional=True))
        net.add(nn.Dense(4, flatten=False))
    return net


NETS = {
    "images": Net(_images, (6, 3, 13, 11)),
    "plain": Net(_plain, (6, 3, 12, 12)),
    "rows": Net(_rows, (37, 50)),
    "series": Net(_series, (7, 5, 6), 1),
}


def prepared(net: Net) -> tuple[gluon.HybridBlock, np.ndarray]:
    """The network, initialized and hybridized, and a batch: the same at each call."""
    mx.random.seed(3)
    made = net.make()
    made.initialize(mx.init.Xavier())
    made.hybridize()
    random = np.random.default_rng(zlib.crc32(repr(net.shape).encode()))
    x = random.normal(0, 1, net.shape).astype(np.float32)
    made(nd.array(x))
    return made, x


def after_steps(net: Net, count: int, steps: int = 10, optimizer: str = "sgd") -> list[bytes]:
    """Gradients of the first step and all parameters after the last, on this number of threads."""
    block, batch = prepared(net)
    trainer = gluon.Trainer(block.collect_params(), optimizer, {"learning_rate": 0.05})
    found: list[bytes] = []
    mx.random.seed(4)
    with threads(count):
        for step in range(steps):
            x = nd.array(batch)
            x.attach_grad()
            with autograd.record():
                value = nd.square(block(x))
            value.backward()
            if step == 0:
                found.append(bits(x.grad))
                found += [bits(p.grad()) for p in _learned(block)]
            trainer.step(len(batch))
    return found + [bits(p.data()) for p in block.collect_params().values()]


def _learned(block: gluon.HybridBlock) -> list[gluon.Parameter]:
    return [p for p in block.collect_params().values() if p.grad_req != "null"]


def bits(array: NDArray) -> bytes:
    """The bytes of an array."""
    return array.asnumpy().tobytes()


def of_sample(net: Net, places: Sequence[int], sample: int) -> bytes:
    """The gradient of one sample, where the batch has the samples ``places`` in this order."""
    block, batch = prepared(net)
    x = nd.array(np.take(batch, places, net.axis))
    x.attach_grad()
    with autograd.record():
        value = nd.square(block(x))
    value.backward()
    return np.take(x.grad.asnumpy(), [places.index(sample)], net.axis).tobytes()


def at_offset(net: Net, offset: int) -> list[bytes]:
    """Outputs, gradients and new states with all arrays at this offset from a boundary of 64
    bytes."""
    block, batch = prepared(net)
    data = mx.sym.var("data")
    outputs = tuple(block(data).outputs)
    params = {n: p.data().asnumpy() for n, p in block.collect_params().items()}
    arrays = {n: moved(a, offset) for n, a in {"data": batch, **params}.items()}
    types = {name: type_of(array) for name, array in arrays.items()}
    trained = compile_training(outputs, types, {"data", *params}, True)
    assert trained.backward is not None
    for executable in (trained.forward, trained.backward):
        executable.bind({})
    mx.random.seed(5)
    made = trained.forward([*arrays.values()])
    visible = len(outputs)
    reads = [*(arrays[name] for name in trained.parts.reads), *made[visible:]]
    reads += [moved(np.ones_like(made[number]), offset) for number in trained.parts.heads]
    types_of_results = trained.backward.output_types
    outs = [moved(np.empty(*each), offset) for each in types_of_results]
    found = [*made[:visible], *trained.backward(reads, outs)]
    return [array.tobytes() for array in found]


def moved(array: np.ndarray, offset: int) -> np.ndarray:
    """The same array ``offset`` bytes from a boundary of 64."""
    room = np.empty(array.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    found = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found

"""Networks built with our gluon, exported, and read by real MXNet: the files must mean the same.

In: a folder. Out: one :class:`Exported` for each network, with the results of our call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import hybridjit as mx
from hybridjit import gluon, init
from hybridjit.gluon import nn


@dataclass
class Exported:
    """An exported network: its prefix, its inputs by name, and our outputs for them."""

    name: str
    prefix: str
    inputs: dict[str, np.ndarray]
    outputs: list[np.ndarray]
    net: gluon.HybridBlock


class Residual(gluon.HybridBlock):
    """Two convolutions beside a shortcut."""

    def __init__(self, channels: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential(prefix="body_")
            self.body.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm())
            self.body.add(nn.Activation("relu"), nn.Conv2D(channels, 3, padding=1))
            self.shortcut = nn.Conv2D(channels, 1, use_bias=False)

    def hybrid_forward(self, F, x):
        return F.Activation(self.body(x) + self.shortcut(x), act_type="relu")


class TwoInputs(gluon.HybridBlock):
    """Two inputs and two outputs, with a direct parameter."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(1, 6), init=init.One())
            self.left = nn.Dense(6, activation="tanh")
            self.right = nn.Dense(6)

    def hybrid_forward(self, F, x, y, scale):
        both = self.left(x) * F.sigmoid(self.right(y))
        return F.broadcast_mul(both, scale), F.concat(both, x, dim=1)


def lenet() -> gluon.HybridBlock:
    net = nn.HybridSequential(prefix="lenet_")
    with net.name_scope():
        net.add(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(2, 2))
        net.add(nn.Conv2D(16, 3, activation="relu"), nn.AvgPool2D(2, 2, ceil_mode=True))
        net.add(nn.Flatten(), nn.Dense(20, activation="sigmoid"), nn.Dropout(0.5), nn.Dense(10))
    return net


def normalised() -> gluon.HybridBlock:
    net = nn.HybridSequential(prefix="norms_")
    with net.name_scope():
        net.add(nn.Conv2D(8, 3, groups=2), nn.BatchNorm(scale=False), nn.LeakyReLU(0.2))
        net.add(nn.InstanceNorm(), nn.PReLU(), nn.GroupNorm(num_groups=2), nn.ELU(0.7))
        net.add(nn.GlobalAvgPool2D(), nn.Dense(5, flatten=False), nn.LayerNorm(), nn.GELU())
    return net


def residual() -> gluon.HybridBlock:
    net = nn.HybridSequential(prefix="res_")
    with net.name_scope():
        net.add(Residual(8), Residual(12), nn.MaxPool2D(), nn.Conv2DTranspose(4, 3, strides=2))
        net.add(nn.Swish(), nn.GlobalMaxPool2D(), nn.Dense(3))
    return net


NETS: dict[str, tuple[Callable[[], gluon.HybridBlock], tuple[tuple[int, ...], ...]]] = {
    "lenet": (lenet, ((2, 1, 20, 20),)),
    "normalised": (normalised, ((2, 4, 9, 9),)),
    "residual": (residual, ((1, 3, 12, 12),)),
    "two_inputs": (lambda: TwoInputs(prefix="two_"), ((3, 4), (3, 5))),
}


def export_all(folder: Path, seed: int) -> Iterator[Exported]:
    """Initialise, call, export and save every network."""
    for name, (make, shapes) in NETS.items():
        rng = np.random.default_rng(seed)
        net = make()
        net.initialize(init.Normal(0.3))
        net.hybridize()
        arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
        net(*map(mx.nd.array, arrays))
        for parameter in net.collect_params().values():
            if parameter.name.endswith("running_var"):
                parameter.set_data(mx.nd.array(rng.uniform(0.5, 2, parameter.shape)))
        result = net(*map(mx.nd.array, arrays))
        outputs = result if isinstance(result, (list, tuple)) else [result]
        prefix = str(folder / name)
        net.export(prefix)
        net.save_parameters(f"{prefix}.params")
        names = ["data"] if len(arrays) == 1 else [f"data{i}" for i in range(len(arrays))]
        yield Exported(name, prefix, dict(zip(names, arrays)), [o.asnumpy() for o in outputs], net)

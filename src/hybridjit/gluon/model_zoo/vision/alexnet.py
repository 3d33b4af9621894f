"""AlexNet, in the one-column form (Krizhevsky, 1404.5997)."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ....context import Context
from ... import nn
from ...hybrid_block import HybridBlock
from ...naming import BlockArgs
from ...types import Tensor, Unpack
from ..model_store import load_pretrained


class AlexNet(HybridBlock):
    """Five convolutions and three dense layers."""

    def __init__(self, classes: int = 1000, **kwargs: Unpack[BlockArgs]) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                self.features.add(
                    nn.Conv2D(64, 11, 4, 2, activation="relu"),
                    nn.MaxPool2D(3, 2),
                    nn.Conv2D(192, 5, 1, 2, activation="relu"),
                    nn.MaxPool2D(3, 2),
                    nn.Conv2D(384, 3, 1, 1, activation="relu"),
                    nn.Conv2D(256, 3, 1, 1, activation="relu"),
                    nn.Conv2D(256, 3, 1, 1, activation="relu"),
                    nn.MaxPool2D(3, 2),
                    nn.Flatten(),
                    nn.Dense(4096, activation="relu"),
                    nn.Dropout(0.5),
                    nn.Dense(4096, activation="relu"),
                    nn.Dropout(0.5),
                )
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.output(self.features(x))


def alexnet(
    pretrained: bool = False, ctx: Context | None = None, root: str | None = None, **kwargs: Any
) -> AlexNet:
    """AlexNet (Krizhevsky, "One weird trick", 2014) for images of 224x224."""
    net = AlexNet(**kwargs)
    if pretrained:
        load_pretrained(net, "alexnet", ctx, root)
    return net

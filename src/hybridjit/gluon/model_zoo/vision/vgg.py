"""VGG (Simonyan and Zisserman, 1409.1556), with and without BatchNorm."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ....context import Context
from ....initializer import Xavier
from ... import nn
from ...hybrid_block import HybridBlock
from ...naming import BlockArgs
from ...types import Tensor, Unpack
from ..model_store import load_pretrained, named

_FILTERS = (64, 128, 256, 512, 512)
_LAYERS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


class VGG(HybridBlock):
    """``layers`` convolutions of ``filters`` channels per stage, then three dense layers."""

    def __init__(
        self,
        layers: tuple[int, ...],
        filters: tuple[int, ...],
        classes: int = 1000,
        batch_norm: bool = False,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(**kwargs)
        assert len(layers) == len(filters), (
            f"layers and filters must have one element per stage, got {len(layers)} and "
            f"{len(filters)}"
        )
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            for count, channels in zip(layers, filters):
                self._add_stage(count, channels, batch_norm)
            for _ in range(2):
                self.features.add(
                    nn.Dense(4096, activation="relu", weight_initializer="normal"), nn.Dropout(0.5)
                )
            self.output = nn.Dense(classes, weight_initializer="normal")

    def _add_stage(self, count: int, channels: int, batch_norm: bool) -> None:
        for _ in range(count):
            init = Xavier(rnd_type="gaussian", factor_type="out", magnitude=2)
            self.features.add(nn.Conv2D(channels, 3, padding=1, weight_initializer=init))
            if batch_norm:
                self.features.add(nn.BatchNorm())
            self.features.add(nn.Activation("relu"))
        self.features.add(nn.MaxPool2D(strides=2))

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.output(self.features(x))


def get_vgg(
    num_layers: int,
    pretrained: bool = False,
    ctx: Context | None = None,
    root: str | None = None,
    **kwargs: Any,
) -> VGG:
    """VGG of 11, 13, 16 or 19 layers."""
    net = VGG(_LAYERS[num_layers], _FILTERS, **kwargs)
    if pretrained:
        suffix = "_bn" if kwargs.get("batch_norm") else ""
        load_pretrained(net, f"vgg{num_layers}{suffix}", ctx, root)
    return net


def _plain(num_layers: int) -> Callable[..., VGG]:
    doc = f"VGG-{num_layers} (Simonyan and Zisserman, 2014) for images of 224x224."
    return named(f"vgg{num_layers}", doc, get_vgg, num_layers)


def _normalized(num_layers: int) -> Callable[..., VGG]:
    paper = "(Simonyan and Zisserman, 2014)"
    doc = f"VGG-{num_layers} {paper} with BatchNorm, for images of 224x224."
    return named(f"vgg{num_layers}_bn", doc, get_vgg, num_layers, batch_norm=True)


vgg11, vgg13, vgg16, vgg19 = map(_plain, (11, 13, 16, 19))
vgg11_bn, vgg13_bn, vgg16_bn, vgg19_bn = map(_normalized, (11, 13, 16, 19))

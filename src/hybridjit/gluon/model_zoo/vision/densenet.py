"""DenseNet (Huang et al., 1608.06993)."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ....context import Context
from ... import nn
from ...contrib.nn import HybridConcurrent, Identity
from ...hybrid_block import HybridBlock
from ...naming import BlockArgs
from ...types import Tensor, Unpack
from ..model_store import load_pretrained, named

# Depth: channels at the start, growth per layer, layers per block.
_SPECS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}


def _conv_after_norm(channels: int, kernel: int, padding: int) -> list[HybridBlock]:
    return [
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.Conv2D(channels, kernel, padding=padding, use_bias=False),
    ]


def _dense_layer(growth: int, bn_size: int, dropout: float) -> HybridConcurrent:
    """The input, concatenated with ``growth`` new channels."""
    new = nn.HybridSequential(prefix="")
    new.add(*_conv_after_norm(bn_size * growth, 1, 0), *_conv_after_norm(growth, 3, 1))
    if dropout:
        new.add(nn.Dropout(dropout))
    joined = HybridConcurrent(axis=1, prefix="")
    joined.add(Identity(), new)
    return joined


def _dense_block(
    number: int, layers: int, bn_size: int, growth: int, dropout: float
) -> nn.HybridSequential:
    block = nn.HybridSequential(prefix=f"stage{number}_")
    with block.name_scope():
        block.add(*[_dense_layer(growth, bn_size, dropout) for _ in range(layers)])
    return block


def _transition(channels: int) -> nn.HybridSequential:
    """Reduces the channels, and halves the size."""
    block = nn.HybridSequential(prefix="")
    block.add(*_conv_after_norm(channels, 1, 0), nn.AvgPool2D(2, 2))
    return block


class DenseNet(HybridBlock):
    """``block_config`` is the number of layers per block; each adds ``growth_rate`` channels."""

    def __init__(
        self,
        num_init_features: int,
        growth_rate: int,
        block_config: tuple[int, ...],
        bn_size: int = 4,
        dropout: float = 0,
        classes: int = 1000,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(
                nn.Conv2D(num_init_features, 7, 2, 3, use_bias=False),
                nn.BatchNorm(),
                nn.Activation("relu"),
                nn.MaxPool2D(3, 2, 1),
            )
            channels = num_init_features
            for i, layers in enumerate(block_config):
                if i:
                    channels //= 2
                    self.features.add(_transition(channels))
                self.features.add(_dense_block(i + 1, layers, bn_size, growth_rate, dropout))
                channels += layers * growth_rate
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(7), nn.Flatten())
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.output(self.features(x))


def get_densenet(
    num_layers: int,
    pretrained: bool = False,
    ctx: Context | None = None,
    root: str | None = None,
    **kwargs: Any,
) -> DenseNet:
    """DenseNet of 121, 161, 169 or 201 layers."""
    net = DenseNet(*_SPECS[num_layers], **kwargs)
    if pretrained:
        load_pretrained(net, f"densenet{num_layers}", ctx, root)
    return net


def _densenet(num_layers: int) -> Callable[..., DenseNet]:
    doc = f"DenseNet-{num_layers} (Huang et al., 2017) for images of 224x224."
    return named(f"densenet{num_layers}", doc, get_densenet, num_layers)


densenet121, densenet161, densenet169, densenet201 = map(_densenet, (121, 161, 169, 201))

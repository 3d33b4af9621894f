"""SqueezeNet 1.0 and 1.1 (Iandola et al., 1602.07360)."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ....context import Context
from ... import nn
from ...contrib.nn import HybridConcurrent
from ...hybrid_block import HybridBlock
from ...naming import BlockArgs
from ...types import Tensor, Unpack
from ..model_store import load_pretrained, named

# The first convolution (channels, kernel), then squeeze widths in order; 0 is a pooling.
_SPECS = {
    "1.0": ((96, 7), (0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64)),
    "1.1": ((64, 3), (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64)),
}


def _conv_relu(channels: int, kernel: int, padding: int = 0) -> nn.HybridSequential:
    block = nn.HybridSequential(prefix="")
    block.add(nn.Conv2D(channels, kernel, padding=padding), nn.Activation("relu"))
    return block


def _fire(squeeze: int) -> nn.HybridSequential:
    """1x1 to ``squeeze`` channels, then 1x1 and 3x3 with four times as many each, concatenated."""
    block = nn.HybridSequential(prefix="")
    block.add(_conv_relu(squeeze, 1))
    expanded = HybridConcurrent(axis=1, prefix="")
    expanded.add(_conv_relu(4 * squeeze, 1), _conv_relu(4 * squeeze, 3, 1))
    block.add(expanded)
    return block


class SqueezeNet(HybridBlock):
    """``version`` is '1.0' or '1.1'."""

    def __init__(self, version: str, classes: int = 1000, **kwargs: Unpack[BlockArgs]) -> None:
        super().__init__(**kwargs)
        assert version in _SPECS, f"Unsupported SqueezeNet version {version}: 1.0 or 1.1 expected"
        (channels, kernel), widths = _SPECS[version]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(channels, kernel, 2), nn.Activation("relu"))
            for width in widths:
                self.features.add(_fire(width) if width else nn.MaxPool2D(3, 2, ceil_mode=True))
            self.features.add(nn.Dropout(0.5))
            self.output = nn.HybridSequential(prefix="")
            self.output.add(
                nn.Conv2D(classes, 1), nn.Activation("relu"), nn.AvgPool2D(13), nn.Flatten()
            )

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.output(self.features(x))


def get_squeezenet(
    version: str,
    pretrained: bool = False,
    ctx: Context | None = None,
    root: str | None = None,
    **kwargs: Any,
) -> SqueezeNet:
    """SqueezeNet (Iandola et al., 2016), version "1.0" or "1.1", for images of 224x224."""
    net = SqueezeNet(version, **kwargs)
    if pretrained:
        load_pretrained(net, f"squeezenet{version}", ctx, root)
    return net


def _squeezenet(name: str, version: str) -> Callable[..., SqueezeNet]:
    doc = f"SqueezeNet {version} (Iandola et al., 2016) for images of 224x224."
    return named(name, doc, get_squeezenet, version)


squeezenet1_0 = _squeezenet("squeezenet1_0", "1.0")
squeezenet1_1 = _squeezenet("squeezenet1_1", "1.1")

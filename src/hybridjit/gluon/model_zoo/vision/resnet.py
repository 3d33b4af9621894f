"""Residual networks: activation after the sum (V1, 1512.03385) or before (V2, 1603.05027)."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ....context import Context
from ... import nn
from ...hybrid_block import HybridBlock
from ...naming import BlockArgs
from ...types import Tensor, Unpack
from ..model_store import load_pretrained, named

# Depth: kind of block, blocks per stage, channels before the stages and of each.
_NARROW, _WIDE = (64, 64, 128, 256, 512), (64, 256, 512, 1024, 2048)
_SPECS = {
    18: ("basic", (2, 2, 2, 2), _NARROW),
    34: ("basic", (3, 4, 6, 3), _NARROW),
    50: ("bottleneck", (3, 4, 6, 3), _WIDE),
    101: ("bottleneck", (3, 4, 23, 3), _WIDE),
    152: ("bottleneck", (3, 8, 36, 3), _WIDE),
}


def _conv3x3(channels: int, stride: int, in_channels: int) -> nn.Conv2D:
    return nn.Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=in_channels)


def _conv1x1(channels: int, stride: int = 1, in_channels: int = 0) -> nn.Conv2D:
    return nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels)


class _Unit(HybridBlock):
    """A body and a shortcut; subclasses make both, in the order of parameter files."""

    def __init__(
        self,
        channels: int,
        stride: int,
        downsample: bool = False,
        in_channels: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(**kwargs)
        self._fill_body(channels, stride, in_channels)
        self.downsample = self._shortcut(channels, stride, in_channels) if downsample else None

    def _fill_body(self, channels: int, stride: int, in_channels: int) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not define _fill_body")

    def _shortcut(self, channels: int, stride: int, in_channels: int) -> HybridBlock:
        return _conv1x1(channels, stride, in_channels)


class _UnitV1(_Unit):
    def _shortcut(self, channels: int, stride: int, in_channels: int) -> HybridBlock:
        shortcut = nn.HybridSequential(prefix="")
        shortcut.add(_conv1x1(channels, stride, in_channels), nn.BatchNorm())
        return shortcut


class BasicBlockV1(_UnitV1):
    """Two 3x3 convolutions."""

    def _fill_body(self, channels: int, stride: int, in_channels: int) -> None:
        self.body = nn.HybridSequential(prefix="")
        self.body.add(
            _conv3x3(channels, stride, in_channels),
            nn.BatchNorm(),
            nn.Activation("relu"),
            _conv3x3(channels, 1, channels),
            nn.BatchNorm(),
        )

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.Activation(shortcut + self.body(x), act_type="relu")


class BottleneckV1(_UnitV1):
    """1x1 to a quarter of the channels, 3x3, 1x1 back."""

    def _fill_body(self, channels: int, stride: int, in_channels: int) -> None:
        inner = channels // 4
        self.body = nn.HybridSequential(prefix="")
        self.body.add(
            nn.Conv2D(inner, 1, stride),
            nn.BatchNorm(),
            nn.Activation("relu"),
            _conv3x3(inner, 1, inner),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.Conv2D(channels, 1, 1),
            nn.BatchNorm(),
        )

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.Activation(self.body(x) + shortcut, act_type="relu")


class BasicBlockV2(_Unit):
    """Two 3x3 convolutions, each after BatchNorm and relu."""

    def _fill_body(self, channels: int, stride: int, in_channels: int) -> None:
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv3x3(channels, stride, in_channels)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(channels, 1, channels)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        active = F.Activation(self.bn1(x), act_type="relu")
        shortcut = x if self.downsample is None else self.downsample(active)
        out = self.conv1(active)
        out = self.conv2(F.Activation(self.bn2(out), act_type="relu"))
        return out + shortcut


class BottleneckV2(_Unit):
    """1x1, 3x3 and 1x1 convolutions, each after BatchNorm and relu."""

    def _fill_body(self, channels: int, stride: int, in_channels: int) -> None:
        inner = channels // 4
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv1x1(inner)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(inner, stride, inner)
        self.bn3 = nn.BatchNorm()
        self.conv3 = _conv1x1(channels)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        active = F.Activation(self.bn1(x), act_type="relu")
        shortcut = x if self.downsample is None else self.downsample(active)
        out = self.conv1(active)
        out = self.conv2(F.Activation(self.bn2(out), act_type="relu"))
        out = self.conv3(F.Activation(self.bn3(out), act_type="relu"))
        return out + shortcut


class _ResNet(HybridBlock):
    """``features`` and ``output``; ``layers`` and ``channels`` as in the table of depths."""

    def __init__(
        self,
        block: type[HybridBlock],
        layers: tuple[int, ...],
        channels: tuple[int, ...],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(**kwargs)
        assert len(layers) == len(channels) - 1, (
            f"channels must have one element more than layers, got {len(channels)} and "
            f"{len(layers)}"
        )
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self._add_start(channels[0], thumbnail)
            for i, count in enumerate(layers):
                self.features.add(_stage(block, i + 1, count, channels[i], channels[i + 1]))
            self._add_end()
            self.output = nn.Dense(classes, in_units=channels[-1])

    def _add_start(self, channels: int, thumbnail: bool) -> None:
        if thumbnail:
            self.features.add(_conv3x3(channels, 1, 0))
            return
        self.features.add(
            nn.Conv2D(channels, 7, 2, 3, use_bias=False),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.MaxPool2D(3, 2, 1),
        )

    def _add_end(self) -> None:
        self.features.add(nn.GlobalAvgPool2D())

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.output(self.features(x))


def _stage(
    block: type[HybridBlock], number: int, count: int, in_channels: int, channels: int
) -> nn.HybridSequential:
    """``count`` blocks; the first one changes the size, except in the first stage."""
    stage = nn.HybridSequential(prefix=f"stage{number}_")
    stride = 1 if number == 1 else 2
    kwargs: Any = {"prefix": ""}
    with stage.name_scope():
        stage.add(
            block(channels, stride, channels != in_channels, in_channels=in_channels, **kwargs)  # type: ignore[arg-type, call-arg]
        )
        for _ in range(count - 1):
            stage.add(block(channels, 1, False, in_channels=channels, **kwargs))  # type: ignore[arg-type, call-arg]
    return stage


class ResNetV1(_ResNet):
    """Built of BasicBlockV1 or BottleneckV1."""


class ResNetV2(_ResNet):
    """Built of BasicBlockV2 or BottleneckV2."""

    def _add_start(self, channels: int, thumbnail: bool) -> None:
        self.features.add(nn.BatchNorm(scale=False, center=False))
        super()._add_start(channels, thumbnail)

    def _add_end(self) -> None:
        self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten())


_NETS: dict[int, type[_ResNet]] = {1: ResNetV1, 2: ResNetV2}
_BLOCKS: dict[tuple[int, str], type[HybridBlock]] = {
    (1, "basic"): BasicBlockV1,
    (1, "bottleneck"): BottleneckV1,
    (2, "basic"): BasicBlockV2,
    (2, "bottleneck"): BottleneckV2,
}


def get_resnet(
    version: int,
    num_layers: int,
    pretrained: bool = False,
    ctx: Context | None = None,
    root: str | None = None,
    **kwargs: Any,
) -> _ResNet:
    """ResNet of this version (1, 2) and depth. Raises AssertionError for others."""
    assert num_layers in _SPECS, (
        f"Invalid number of layers: {num_layers}. Options are {list(_SPECS)}"
    )
    assert version in _NETS, f"Invalid resnet version: {version}. Options are 1 and 2."
    kind, layers, channels = _SPECS[num_layers]
    net = _NETS[version](_BLOCKS[version, kind], layers, channels, **kwargs)
    if pretrained:
        load_pretrained(net, f"resnet{num_layers}_v{version}", ctx, root)
    return net


def _resnet(version: int, num_layers: int) -> Callable[..., _ResNet]:
    kind, year = ("", 2015) if version == 1 else (" V2", 2016)
    doc = f"ResNet-{num_layers}{kind} (He et al., {year}) for images of 224x224."
    return named(f"resnet{num_layers}_v{version}", doc, get_resnet, version, num_layers)


resnet18_v1, resnet18_v2 = _resnet(1, 18), _resnet(2, 18)
resnet34_v1, resnet34_v2 = _resnet(1, 34), _resnet(2, 34)
resnet50_v1, resnet50_v2 = _resnet(1, 50), _resnet(2, 50)
resnet101_v1, resnet101_v2 = _resnet(1, 101), _resnet(2, 101)
resnet152_v1, resnet152_v2 = _resnet(1, 152), _resnet(2, 152)

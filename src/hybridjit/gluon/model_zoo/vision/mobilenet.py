"""MobileNet (Howard et al., 1704.04861) and MobileNetV2 (Sandler et al., 1801.04381)."""

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

# V1: input channels, output channels and stride of each depthwise-separable convolution.
_V1 = (
    (32, 64, 1),
    (64, 128, 2),
    (128, 128, 1),
    (128, 256, 2),
    (256, 256, 1),
    (256, 512, 2),
    *((512, 512, 1),) * 5,
    (512, 1024, 2),
    (1024, 1024, 1),
)
# V2: output channels, number of bottlenecks, stride of the first.
_V2 = ((16, 1, 1), (24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1))


class RELU6(HybridBlock):
    """min(max(x, 0), 6)."""

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.clip(x, 0, 6, name="relu6")


def _conv(
    channels: int, kernel: int = 1, stride: int = 1, padding: int = 0, groups: int = 1
) -> list[HybridBlock]:
    """Convolution and BatchNorm."""
    return [
        nn.Conv2D(channels, kernel, stride, padding, groups=groups, use_bias=False),
        nn.BatchNorm(),
    ]


class LinearBottleneck(HybridBlock):
    """1x1 to ``t`` times the channels, depthwise 3x3, 1x1 without activation; plus the input."""

    def __init__(
        self, in_channels: int, channels: int, t: int, stride: int, **kwargs: Unpack[BlockArgs]
    ) -> None:
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        wide = in_channels * t
        with self.name_scope():
            self.out = nn.HybridSequential()
            self.out.add(*_conv(wide), RELU6())
            self.out.add(*_conv(wide, 3, stride, 1, groups=wide), RELU6())
            self.out.add(*_conv(channels))

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNet(HybridBlock):
    """Depthwise-separable convolutions; ``multiplier`` scales all channels."""

    def __init__(
        self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Unpack[BlockArgs]
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                self._add(int(32 * multiplier), 3, 2, 1)
                for before, after, stride in _V1:
                    inner = int(before * multiplier)
                    self._add(inner, 3, stride, 1, inner)
                    self._add(int(after * multiplier))
                self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)

    def _add(self, *sizes: int) -> None:
        self.features.add(*_conv(*sizes), nn.Activation("relu"))

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.output(self.features(x))


class MobileNetV2(HybridBlock):
    """Linear bottlenecks; ``multiplier`` scales all channels but the last."""

    def __init__(
        self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Unpack[BlockArgs]
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                self.features.add(*_conv(int(32 * multiplier), 3, 2, 1), RELU6())
                self._add_bottlenecks(multiplier)
                last = int(1280 * multiplier) if multiplier > 1.0 else 1280
                self.features.add(*_conv(last), RELU6(), nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())

    def _add_bottlenecks(self, multiplier: float) -> None:
        before = int(32 * multiplier)
        for group, (channels, count, stride) in enumerate(_V2):
            after = int(channels * multiplier)
            for i in range(count):
                t = 6 if group else 1
                self.features.add(LinearBottleneck(before, after, t, 1 if i else stride))
                before = after

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.output(self.features(x))


def _multiplier_text(multiplier: float) -> str:
    """Multiplier as in file names: ``1.0``, ``0.75``."""
    text = f"{multiplier:.2f}"
    return text[:-1] if text.endswith("0") else text


def get_mobilenet(
    multiplier: float,
    pretrained: bool = False,
    ctx: Context | None = None,
    root: str | None = None,
    **kwargs: Any,
) -> MobileNet:
    """MobileNet (Howard et al., 2017) of this width for images of 224x224."""
    net = MobileNet(multiplier, **kwargs)
    if pretrained:
        load_pretrained(net, f"mobilenet{_multiplier_text(multiplier)}", ctx, root)
    return net


def get_mobilenet_v2(
    multiplier: float,
    pretrained: bool = False,
    ctx: Context | None = None,
    root: str | None = None,
    **kwargs: Any,
) -> MobileNetV2:
    """MobileNetV2 (Sandler et al., 2018) of this width for images of 224x224."""
    net = MobileNetV2(multiplier, **kwargs)
    if pretrained:
        load_pretrained(net, f"mobilenetv2_{_multiplier_text(multiplier)}", ctx, root)
    return net


def _mobilenet(name: str, multiplier: float) -> Callable[..., MobileNet]:
    doc = f"MobileNet (Howard et al., 2017) of width {multiplier} for images of 224x224."
    return named(name, doc, get_mobilenet, multiplier)


def _mobilenet_v2(name: str, multiplier: float) -> Callable[..., MobileNetV2]:
    doc = f"MobileNetV2 (Sandler et al., 2018) of width {multiplier} for images of 224x224."
    return named(name, doc, get_mobilenet_v2, multiplier)


mobilenet1_0 = _mobilenet("mobilenet1_0", 1.0)
mobilenet0_75 = _mobilenet("mobilenet0_75", 0.75)
mobilenet0_5 = _mobilenet("mobilenet0_5", 0.5)
mobilenet0_25 = _mobilenet("mobilenet0_25", 0.25)
mobilenet_v2_1_0 = _mobilenet_v2("mobilenet_v2_1_0", 1.0)
mobilenet_v2_0_75 = _mobilenet_v2("mobilenet_v2_0_75", 0.75)
mobilenet_v2_0_5 = _mobilenet_v2("mobilenet_v2_0_5", 0.5)
mobilenet_v2_0_25 = _mobilenet_v2("mobilenet_v2_0_25", 0.25)

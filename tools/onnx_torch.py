"""Write the ONNX files of tests/fixtures/pytorch with PyTorch's exporter.

    python tools/onnx_torch.py FOLDER

Needs the packages torch and onnx. Small networks in the shape of well-known ones, with drawn
weights and statistics; beside each file stand an input and PyTorch's output.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, channels: int, filters: int, stride: int = 1) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(channels, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters)
        )
        self.second = nn.Sequential(
            nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(filters)
        )
        self.beside = nn.Identity()
        if stride > 1 or channels != filters:
            self.beside = nn.Sequential(
                nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + self.beside(x))


class Gate(nn.Module):
    """Each channel times a number that follows from the means of all."""

    def __init__(self, channels: int, gate: nn.Module) -> None:
        super().__init__()
        self.inner, self.outer = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)
        self.gate = gate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean((2, 3), keepdim=True)
        return x * self.gate(self.outer(functional.silu(self.inner(mean))))


class Inverted(nn.Module):
    """A depthwise convolution of more channels, with a gate."""

    def __init__(
        self, sizes: tuple[int, int, int], kernel: int, stride: int, act: type, gate: nn.Module
    ) -> None:
        super().__init__()
        channels, wide, filters = sizes
        self.is_added = stride == 1 and channels == filters
        self.body = nn.Sequential(
            *(nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), act()),
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False),
            *(nn.BatchNorm2d(wide), act(), Gate(wide, gate)),
            *(nn.Conv2d(wide, filters, 1, bias=False), nn.BatchNorm2d(filters)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.is_added else self.body(x)


class Vision(nn.Module):
    """A transformer on pieces of a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces = nn.Conv2d(3, 16, 8, 8)
        self.first = nn.Parameter(torch.randn(1, 1, 16))
        self.places = nn.Parameter(torch.randn(1, 17, 16))
        layer = nn.TransformerEncoderLayer(
            16, 4, 32, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pieces = self.pieces(x).flatten(2).transpose(1, 2)
        rows = torch.cat([self.first.expand(pieces.shape[0], -1, -1), pieces], 1) + self.places
        return self.head(self.norm(self.layers(rows))[:, 0])


class Words(nn.Module):
    """Two layers of LSTM in both directions on embedded words."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.layers = nn.LSTM(8, 12, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.table(x))[0])


def _cells(channels: int, filters: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, filters, 3, padding=1), nn.BatchNorm2d(filters), nn.ReLU()
    )


class UNet(nn.Module):
    """Down twice and up again, once by a transposed convolution and once by interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.middle = _cells(3, 8), _cells(8, 16), _cells(16, 16)
        self.up = nn.ConvTranspose2d(16, 16, 2, 2)
        self.third, self.fourth = _cells(32, 8), _cells(16, 8)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.first(x)
        second = self.second(torch.max_pool2d(first, 2))
        middle = self.up(self.middle(torch.max_pool2d(second, 2)))
        third = self.third(torch.cat([middle, second], 1))
        wide = functional.interpolate(third, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.fourth(torch.cat([wide, first], 1)))


def _drawn(net: nn.Module) -> nn.Module:
    """The network with statistics as after training."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.2)
    return net


def _start(act: nn.Module) -> list[nn.Module]:
    return [nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), act]


def networks() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Networks by name, each with an input."""
    picture = torch.randn(1, 3, 32, 32)
    end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(1)]
    resnet = nn.Sequential(
        *(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.MaxPool2d(3, 2, 1), Residual(8, 8), Residual(8, 16, 2), *end, nn.Linear(16, 10)),
    )
    mobile = nn.Sequential(
        *_start(nn.Hardswish()),
        Inverted((8, 16, 8), 3, 1, nn.ReLU, nn.Hardsigmoid()),
        Inverted((8, 24, 12), 5, 2, nn.Hardswish, nn.Hardsigmoid()),
        *(*end, nn.Linear(12, 24), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(24, 10)),
    )
    efficient = nn.Sequential(
        *_start(nn.SiLU()),
        Inverted((8, 16, 8), 3, 1, nn.SiLU, nn.Sigmoid()),
        Inverted((8, 24, 12), 5, 2, nn.SiLU, nn.Sigmoid()),
        *(*end, nn.Linear(12, 10)),
    )
    words = torch.randint(0, 20, (2, 6))
    made = {"resnet": resnet, "mobilenet_v3": mobile, "efficientnet": efficient, "vit": Vision()}
    made |= {"lstm": Words(), "unet": UNet()}
    return {name: (_drawn(n), words if name == "lstm" else picture) for name, n in made.items()}


def main() -> None:
    """Write all into the folder that the command line names."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for name, (net, x) in networks().items():
        net.eval()
        path = folder / f"{name}.onnx"
        names = {"input_names": ["x"], "output_names": ["y"]}
        torch.onnx.export(net, (x,), path, dynamo=False, opset_version=17, **names)
        with torch.no_grad():
            np.savez(path.with_suffix(".npz"), x=x.numpy(), y=net(x).numpy())


if __name__ == "__main__":
    main()

"""Write networks as PyTorch exports them: ``torch_networks.py MODELS [NAME ...] [--batch 1 8]``.

For each network and batch one ONNX file NAME-bBATCH.onnx, and NAME-io.npz with an input ``x`` and
PyTorch's output ``y`` for batch 1: the files that engine.py reads. With --open one file NAME.onnx
whose batch, height, width and length are open, and NAME.npz, for tools/recorded_sizes.py. Weights
are drawn. Run it in an environment with torch, torchvision and onnx.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torchvision.models as vision
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Heads over all pairs of steps; ``bias`` gives T5's table of biases by distance."""

    def __init__(self, units, heads, steps=0, linear_bias=True):
        super().__init__()
        self.heads, self.q = heads, nn.Linear(units, units, bias=linear_bias)
        self.k, self.v = (nn.Linear(units, units, bias=linear_bias) for _ in range(2))
        self.o = nn.Linear(units, units, bias=linear_bias)
        self.bias = nn.Parameter(0.1 * torch.randn(1, heads, steps, steps)) if steps else None

    def forward(self, x):
        batch, steps, units = x.shape
        q, k, v = (
            made(x).view(batch, steps, self.heads, -1).transpose(1, 2)
            for made in (self.q, self.k, self.v)
        )
        scores = q @ k.transpose(2, 3)
        if self.bias is None:
            scores = scores * (units // self.heads) ** -0.5
        else:
            scores = scores + self.bias
        together = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, steps, units)
        return self.o(together)


class RootMean(nn.Module):
    """T5's normalisation, without a mean."""

    def __init__(self, units):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(units))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Block(nn.Module):
    """Attention and two dense layers, normalised before (ViT, Whisper, T5) or after (BERT)."""

    def __init__(self, units, heads, before, act=F.gelu, wide=4, steps=0, norm=nn.LayerNorm):
        super().__init__()
        bias = norm is nn.LayerNorm
        self.before, self.act = before, act
        self.a = Attention(units, heads, steps, bias)
        self.f1 = nn.Linear(units, wide * units, bias=bias)
        self.f2 = nn.Linear(wide * units, units, bias=bias)
        self.n1, self.n2 = norm(units), norm(units)

    def forward(self, x):
        if self.before:
            x = x + self.a(self.n1(x))
            return x + self.f2(self.act(self.f1(self.n2(x))))
        x = self.n1(x + self.a(x))
        return self.n2(x + self.f2(self.act(self.f1(x))))


class Bert(nn.Module):
    def __init__(self, steps, units=768, heads=12, layers=12):
        super().__init__()
        self.e, self.p = nn.Embedding(3000, units), nn.Parameter(0.1 * torch.randn(steps, units))
        self.n, self.o = nn.LayerNorm(units), nn.Linear(units, 2)
        self.body = nn.Sequential(*(Block(units, heads, False) for _ in range(layers)))

    def forward(self, x):
        return self.o(self.body(self.n(self.e(x) + self.p))[:, 0])


class T5(nn.Module):
    """The encoder of T5 small."""

    def __init__(self, steps):
        super().__init__()
        self.e = nn.Embedding(3000, 512)
        parts = (Block(512, 8, True, F.relu, 4, steps, RootMean) for _ in range(6))
        self.body = nn.Sequential(*parts, RootMean(512))

    def forward(self, x):
        return self.body(self.e(x))


class Whisper(nn.Module):
    """The encoder of Whisper tiny: 3,000 frames of 80 bands, two convolutions, 1,500 steps."""

    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(80, 384, 3, 1, 1), nn.Conv1d(384, 384, 3, 2, 1)
        self.p = nn.Parameter(0.1 * torch.randn(1500, 384))
        self.body = nn.Sequential(*(Block(384, 6, True) for _ in range(4)), nn.LayerNorm(384))

    def forward(self, x):
        x = F.gelu(self.c2(F.gelu(self.c1(x)))).transpose(1, 2)
        return self.body(x + self.p)


class Vit(nn.Module):
    """ViT tiny: patches of 16x16, 12 layers of 192."""

    def __init__(self):
        super().__init__()
        self.e, self.first = nn.Conv2d(3, 192, 16, 16), nn.Parameter(torch.randn(1, 1, 192))
        self.p = nn.Parameter(0.1 * torch.randn(1, 197, 192))
        self.body = nn.Sequential(*(Block(192, 3, True) for _ in range(12)), nn.LayerNorm(192))
        self.o = nn.Linear(192, 1000)

    def forward(self, x):
        rows = self.e(x).flatten(2).transpose(1, 2)
        rows = torch.cat([self.first.expand(rows.shape[0], -1, -1), rows], 1) + self.p
        return self.o(self.body(rows)[:, 0])


class Lstm(nn.Module):
    def __init__(self, units, layers, both):
        super().__init__()
        self.e = nn.Embedding(5000, units)
        self.r = nn.LSTM(units, units, layers, batch_first=True, bidirectional=both)
        self.o = nn.Linear(units * (1 + both), 10)

    def forward(self, x):
        return self.o(self.r(self.e(x))[0])


class LeNet(nn.Sequential):
    def __init__(self):
        super().__init__(
            *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            *(nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        )


def cell(inputs, outputs, size, stride=1, groups=1, act=nn.ReLU):
    """A convolution with normalisation and activation."""
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), *([act()] if act else []))


def mobilenet():
    rows = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5)
    parts, inputs = [cell(3, 32, 3, 2)], 32
    for outputs, stride in (*rows, (1024, 2), (1024, 1)):
        parts += [cell(inputs, inputs, 3, stride, inputs), cell(inputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


class Inverted(nn.Module):
    """The block of MobileNetV4: depthwise (or none), wide, depthwise (or none), narrow."""

    def __init__(self, inputs, outputs, first, middle, wide, stride):
        super().__init__()
        self.is_added = inputs == outputs and stride == 1
        inner = inputs * wide
        at_first = stride if first and not middle else 1
        parts = [cell(inputs, inputs, first, at_first, inputs, None)] if first else []
        parts.append(cell(inputs, inner, 1))
        parts += [cell(inner, inner, middle, stride, inner)] if middle else []
        self.body = nn.Sequential(*parts, cell(inner, outputs, 1, act=None))

    def forward(self, x):
        return x + self.body(x) if self.is_added else self.body(x)


def mobilenet_v4():
    """As the small convolutional MobileNetV4."""
    rows = (
        *((64, 96, 5, 5, 3, 2), *[(96, 96, 0, 3, 2, 1)] * 4, (96, 96, 3, 0, 4, 1)),
        *((96, 128, 3, 3, 6, 2), (128, 128, 5, 5, 4, 1), (128, 128, 0, 5, 4, 1)),
        *((128, 128, 0, 5, 3, 1), *[(128, 128, 0, 3, 4, 1)] * 2),
    )
    return nn.Sequential(
        *(cell(3, 32, 3, 2), cell(32, 32, 3, 2), cell(32, 32, 1), cell(32, 96, 3, 2)),
        *(cell(96, 64, 1), *(Inverted(*row) for row in rows), cell(128, 960, 1)),
        *(nn.AdaptiveAvgPool2d(1), cell(960, 1280, 1), nn.Flatten(), nn.Linear(1280, 1000)),
    )


class Residual(nn.Module):
    """A block of a diffusion model's UNet."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(32, inputs), nn.Conv2d(inputs, outputs, 3, 1, 1)
        self.n2, self.c2 = nn.GroupNorm(32, outputs), nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.time = nn.Parameter(0.1 * torch.randn(1, outputs, 1, 1))
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        y = self.c1(F.silu(self.n1(x))) + self.time
        return self.skip(x) + self.c2(F.silu(self.n2(y)))


class Mixed(nn.Module):
    """Attention over the pixels of an image."""

    def __init__(self, channels):
        super().__init__()
        self.n, self.a = nn.GroupNorm(32, channels), Attention(channels, channels // 64)

    def forward(self, x):
        rows = self.a(self.n(x).flatten(2).transpose(1, 2))
        return x + rows.transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):
    """One step of a small diffusion model on 32x32 latents, attention at 16x16 and 8x8."""

    def __init__(self, channels=(128, 256, 256)):
        super().__init__()
        self.first, inputs, skips = nn.Conv2d(4, 128, 3, 1, 1), 128, [128]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level, outputs in enumerate(channels):
            for _ in range(2):
                parts = [Residual(inputs, outputs), *([Mixed(outputs)] if level else [])]
                self.down.append(nn.Sequential(*parts))
                inputs = outputs
                skips.append(outputs)
            if level < len(channels) - 1:
                self.down.append(nn.Conv2d(outputs, outputs, 3, 2, 1))
                skips.append(outputs)
        self.middle = nn.Sequential(
            Residual(inputs, inputs), Mixed(inputs), Residual(inputs, inputs)
        )
        for level in reversed(range(len(channels))):
            for i in range(3):
                outputs = channels[level]
                parts = [Residual(inputs + skips.pop(), outputs)]
                parts += [Mixed(outputs)] if level else []
                if i == 2 and level:
                    parts += [nn.Upsample(scale_factor=2), nn.Conv2d(outputs, outputs, 3, 1, 1)]
                self.up.append(nn.Sequential(*parts))
                inputs = outputs
        self.last = nn.Sequential(
            nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, 4, 3, 1, 1)
        )

    def forward(self, x):
        x = self.first(x)
        kept = [x]
        for part in self.down:
            x = part(x)
            kept.append(x)
        x = self.middle(x)
        for part in self.up:
            x = part(torch.cat([x, kept.pop()], 1))
        return self.last(x)


class Separator(nn.Module):
    """Conv-TasNet's shape: two voices of 16,000 samples, dilated depthwise layers between norms."""

    def __init__(self, narrow=128, wide=512):
        super().__init__()
        self.take, self.give = nn.Conv1d(1, wide, 16, 8), nn.ConvTranspose1d(wide, 1, 16, 8)
        self.first = nn.Sequential(nn.GroupNorm(1, wide), nn.Conv1d(wide, narrow, 1))
        self.body = nn.ModuleList(self.block(narrow, wide, 2 ** (n % 8)) for n in range(24))
        self.masks = nn.Sequential(nn.PReLU(), nn.Conv1d(narrow, 2 * wide, 1), nn.Sigmoid())

    @staticmethod
    def block(narrow, wide, gap):
        middle = nn.Conv1d(wide, wide, 3, padding=gap, dilation=gap, groups=wide)
        return nn.Sequential(
            *(nn.Conv1d(narrow, wide, 1), nn.PReLU(), nn.GroupNorm(1, wide)),
            *(middle, nn.PReLU(), nn.GroupNorm(1, wide), nn.Conv1d(wide, narrow, 1)),
        )

    def forward(self, x):
        taken = F.relu(self.take(x))
        y = self.first(taken)
        for part in self.body:
            y = y + part(y)
        batch, wide, places = taken.shape
        voices = self.masks(y).view(batch, 2, wide, places) * taken[:, None]
        return self.give(voices.reshape(2 * batch, wide, places)).view(batch, 2, -1)


def image(side=224):
    return lambda batch: torch.rand(batch, 3, side, side)


def tokens(steps, count=3000, samples=1):
    return lambda batch: torch.randint(0, count, (samples * batch, steps))


NETS = {
    "lenet": (LeNet, lambda batch: torch.rand(batch, 1, 28, 28)),
    "resnet18": (vision.resnet18, image()),
    "resnet50": (vision.resnet50, image()),
    "vgg16": (vision.vgg16, image()),
    "inception_v3": (lambda: vision.inception_v3(init_weights=False), image(299)),
    "squeezenet1_1": (vision.squeezenet1_1, image()),
    "densenet121": (vision.densenet121, image()),
    "mobilenet": (mobilenet, image()),
    "mobilenet_v2": (vision.mobilenet_v2, image()),
    "mobilenet_v3": (vision.mobilenet_v3_large, image()),
    "mobilenet_v4": (mobilenet_v4, image()),
    "efficientnet_b0": (vision.efficientnet_b0, image()),
    "resnext50": (vision.resnext50_32x4d, image()),
    "lstm": (lambda: Lstm(650, 2, False), tokens(35, 5000)),
    "bilstm": (lambda: Lstm(256, 1, True), tokens(64, 5000, 16)),
    "vit_tiny": (Vit, image()),
    "bert_128": (lambda: Bert(128), tokens(128)),
    "bert_512": (lambda: Bert(512), tokens(512)),
    "bert_small_2048": (lambda: Bert(2048, 256, 4, 4), tokens(2048)),
    "t5_512": (lambda: T5(512), tokens(512)),
    "whisper": (Whisper, lambda batch: torch.randn(batch, 80, 3000)),
    "unet": (UNet, lambda batch: torch.randn(batch, 4, 32, 32)),
    "separator": (Separator, lambda batch: torch.randn(batch, 1, 16000)),
    "convnext_tiny": (vision.convnext_tiny, image()),
    "swin_t": (vision.swin_t, image()),
    "efficientnet_v2_s": (vision.efficientnet_v2_s, image()),
    "regnet_y_1_6gf": (vision.regnet_y_1_6gf, image()),
    "shufflenet_v2": (vision.shufflenet_v2_x1_0, image()),
    "r3d_18": (vision.video.r3d_18, lambda batch: torch.rand(batch, 3, 8, 112, 112)),
}
# Open in their batch alone: their layers or the exporter need the other sizes.
OF_ONE_SIZE = {
    *("lenet", "vgg16", "vit_tiny", "bert_128", "bert_512", "bert_small_2048", "t5_512", "whisper")
}


def with_statistics(net):
    """The network with statistics as after training."""
    for module in net.modules():
        if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm3d)):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.7, 1.3)
            module.weight.data.uniform_(0.7, 1.3)
            module.bias.data.normal_(0, 0.1)
    return net.eval()


def drawn(name, recorded):
    """A network and its input; writes the input and PyTorch's output to ``recorded``."""
    make, draw = NETS[name]
    torch.manual_seed(0)
    net = with_statistics(make())
    x = draw(1)
    with torch.no_grad():
        np.savez(recorded, x=x.numpy(), y=net(x).numpy())
    return net, x


def write(folder, name, batches):
    net, x = drawn(name, folder / f"{name}-io.npz")
    for batch in batches:
        given = x.repeat(batch, *[1] * (x.ndim - 1))
        names = {"input_names": ["x"], "output_names": ["y"]}
        path = folder / f"{name}-b{batch}.onnx"
        torch.onnx.export(net, (given,), path, dynamo=False, opset_version=17, **names)
    print(name, tuple(x.shape), *batches, flush=True)


def write_open(folder, name):
    net, x = drawn(name, folder / f"{name}.npz")
    channels = {1} if x.ndim > 2 else set()
    kept = set(range(1, x.ndim)) if name in OF_ONE_SIZE else channels
    axes = {"x": {i: f"size{i}" for i in range(x.ndim) if i not in kept}}
    names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": axes}
    torch.onnx.export(net, (x,), folder / f"{name}.onnx", dynamo=False, opset_version=17, **names)
    print(name, axes["x"], flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(NETS))
    parser.add_argument("--batch", nargs="+", type=int, default=[1])
    parser.add_argument("--open", action="store_true", help="sizes that vary")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        if options.open:
            write_open(options.folder, name)
        else:
            write(options.folder, name, options.batch)


if __name__ == "__main__":
    main()

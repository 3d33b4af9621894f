"""The networks of nets_gluon.py in PyTorch: ``NETS[name]() -> (net, loss)``."""

import torch
from torch import nn
from torch.nn import functional as F


def lenet():
    layers = [nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    layers += [nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    return nn.Sequential(*layers), classes


def mlp():
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Dropout(0.2)]
    layers += [nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*layers), classes


class Residual(nn.Module):
    def __init__(self, body, down=None):
        super().__init__()
        self.body, self.down = nn.Sequential(*body), down

    def forward(self, x):
        return F.relu((x if self.down is None else self.down(x)) + self.body(x))


def conv(i, o, k, s=1, relu=True, groups=1, bias=False):
    made = nn.Conv2d(i, o, k, s, k // 2, groups=groups, bias=bias)
    return [made, nn.BatchNorm2d(o), *([nn.ReLU()] if relu else [])]


def shortcut(i, o, s):
    return nn.Sequential(*conv(i, o, 1, s, False)) if s > 1 or i != o else None


def basic(i, o, s):
    return Residual([*conv(i, o, 3, s), *conv(o, o, 3, relu=False)], shortcut(i, o, s))


def bottleneck(i, o, s):
    """Its 1x1 convolutions have biases, as those of MXNet's model zoo do."""
    inner = o // 4
    body = [*conv(i, inner, 1, s, bias=True), *conv(inner, inner, 3)]
    return Residual([*body, *conv(inner, o, 1, relu=False, bias=True)], shortcut(i, o, s))


def resnet(block, counts, widths):
    layers, i = [*conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for stage, (count, o) in enumerate(zip(counts, widths)):
        for j in range(count):
            layers.append(block(i, o, 2 if stage and j == 0 else 1))
            i = o
    return classifier(layers, i, 1000), classes


def classifier(layers, width, count):
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, count))


def cifar_resnet20():
    layers, i = [*conv(3, 16, 3)], 16
    for o, s in ((16, 1), (32, 2), (64, 2)):
        for j in range(3):
            layers.append(basic(i, o, s if j == 0 else 1))
            i = o
    return classifier(layers, 64, 10), classes


def mobilenet():
    layers, i = conv(3, 32, 3, 2), 32
    first = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2))
    for o, s in (*first, *((512, 1),) * 5, (1024, 2), (1024, 1)):
        layers += conv(i, i, 3, s, groups=i) + conv(i, o, 1)
        i = o
    return classifier(layers, 1024, 1000), classes


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.o = nn.Embedding(5000, 200), nn.Linear(200, 5000)
        self.r = nn.LSTM(200, 200, 2, batch_first=True)

    def forward(self, x):
        return self.o(self.r(self.e(x))[0])


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.r = nn.LSTM(12, 40, 2, batch_first=True)
        self.mu, self.sigma = nn.Linear(40, 1), nn.Linear(40, 1)

    def forward(self, x):
        y = self.r(x)[0]
        return self.mu(y), F.softplus(self.sigma(y)) + 1e-3


class Layer(nn.Module):
    def __init__(self, units=256, heads=4):
        super().__init__()
        self.h, self.qkv, self.o = heads, nn.Linear(units, 3 * units), nn.Linear(units, units)
        self.f1, self.f2 = nn.Linear(units, 4 * units), nn.Linear(4 * units, units)
        self.n1, self.n2, self.drop = nn.LayerNorm(units), nn.LayerNorm(units), nn.Dropout(0.1)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c)
        x = self.n1(x + self.drop(self.o(y)))
        return self.n2(x + self.drop(self.f2(F.gelu(self.f1(x)))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.o = nn.Embedding(3000, 256), nn.Linear(256, 2)
        self.body = nn.Sequential(*(Layer() for _ in range(4)))

    def forward(self, x):
        return self.o(self.body(self.e(x))[:, 0])


def classes(pred, label):
    return F.cross_entropy(pred.reshape(-1, pred.shape[-1]), label.reshape(-1).long())


def gaussian(pred, label):
    mu, sigma = pred
    return (0.5 * ((label - mu) / sigma) ** 2 + torch.log(sigma)).mean()


NETS = {
    "lenet": lenet,
    "mlp": mlp,
    "cifar_resnet20": cifar_resnet20,
    "resnet18": lambda: resnet(basic, (2, 2, 2, 2), (64, 128, 256, 512)),
    "resnet50": lambda: resnet(bottleneck, (3, 4, 6, 3), (256, 512, 1024, 2048)),
    "mobilenet": mobilenet,
    "lstm_lm": lambda: (LanguageModel(), classes),
    "forecast": lambda: (Forecast(), gaussian),
    "transformer": lambda: (Transformer(), classes),
}
CHANNELS_LAST = {"cifar_resnet20", "resnet18", "resnet50", "mobilenet"}  # PyTorch's faster layout

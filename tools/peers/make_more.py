"""Four more networks, written by MXNet 1.9.1 into ./models as make_models.py does.

They have layers that image networks lack: dense layers on many rows and attention
(``bert_base_128``: 12 layers of 768, 128 tokens; ``vit_tiny``: 12 layers of 192, 224x224),
recurrence (``bilstm_256``: both directions, batch 16, 64 steps), small groups (``resnext50``: 32
groups of 4). Each is written with one batch, always called ``-b1``. setup.sh runs this in MXNet's
environment.
"""

import sys
import warnings

warnings.filterwarnings("ignore")
import mxnet as mx
import numpy as np
import onnx
import onnx.checker
import onnx.defs
from mxnet import gluon, nd
from mxnet import onnx as mxonnx
from mxnet.gluon import nn, rnn

OPSET = 13  # MXNet's export writes this one, and declares and checks against the newest there is
onnx.checker.check_graph = onnx.checker.check_model = lambda *args, **kwargs: None
onnx.defs.onnx_opset_version = lambda: OPSET


class Layer(gluon.HybridBlock):
    """A transformer's layer, which normalises before its two parts (ViT) or after them (BERT)."""

    def __init__(self, units, heads, batch, steps, before):
        super().__init__()
        self.sizes, self.before = (batch, steps, heads, units // heads), before
        self.q, self.k, self.v, self.o = (rows(units, units) for _ in range(4))
        self.f1, self.f2 = rows(4 * units, units), rows(units, 4 * units)
        self.n1, self.n2 = nn.LayerNorm(in_channels=units), nn.LayerNorm(in_channels=units)

    def heads(self, F, x):
        """(batch, steps, units) as (batch * heads, steps, units of a head)."""
        b, t, h, d = self.sizes
        return F.reshape(F.transpose(F.reshape(x, (b, t, h, d)), (0, 2, 1, 3)), (b * h, t, d))

    def joined(self, F, x):
        """The inverse of ``heads``."""
        b, t, h, d = self.sizes
        return F.reshape(F.transpose(F.reshape(x, (b, h, t, d)), (0, 2, 1, 3)), (b, t, h * d))

    def attention(self, F, x):
        q, k, v = (self.heads(F, made(x)) for made in (self.q, self.k, self.v))
        scores = F.batch_dot(q * self.sizes[3] ** -0.5, k, transpose_b=True)
        return self.o(self.joined(F, F.batch_dot(F.softmax(scores, axis=-1), v)))

    def hidden(self, F, x):
        return self.f2(F.LeakyReLU(self.f1(x), act_type="gelu"))

    def hybrid_forward(self, F, x):
        if self.before:
            x = x + self.attention(F, self.n1(x))
            return x + self.hidden(F, self.n2(x))
        x = self.n1(x + self.attention(F, x))
        return self.n2(x + self.hidden(F, x))


def rows(units, inputs):
    return nn.Dense(units, flatten=False, in_units=inputs)


class Transformer(gluon.HybridBlock):
    """An encoder of tokens (BERT) or of 16x16 patches of an image (ViT), with a classifier."""

    def __init__(self, layers, units, heads, steps, image):
        super().__init__()
        self.image = image
        self.e = nn.Conv2D(units, 16, 16, in_channels=3) if image else nn.Embedding(3000, units)
        self.position = self.params.get("position", shape=(steps, units))
        self.n, self.body = nn.LayerNorm(in_channels=units), nn.HybridSequential()
        for _ in range(layers):
            self.body.add(Layer(units, heads, 1, steps, image))
        self.o = nn.Dense(1000 if image else 2, in_units=units)

    def hybrid_forward(self, F, x, position):
        y = self.e(x)
        if self.image:
            y = F.transpose(F.reshape(y, (0, 0, -1)), (0, 2, 1))
        y = F.broadcast_add(y, F.expand_dims(position, 0))
        if self.image:
            return self.o(F.mean(self.n(self.body(y)), axis=1))
        first = F.slice_axis(self.body(self.n(y)), axis=1, begin=0, end=1)
        return self.o(F.reshape(first, (0, -1)))


class BiLstm(gluon.HybridBlock):
    """Tags for tokens: embedding, an LSTM of both directions, a dense layer on every step."""

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(5000, 256)
        self.r = rnn.LSTM(256, 1, layout="NTC", input_size=256, bidirectional=True)
        self.o = nn.Dense(10, flatten=False)

    def hybrid_forward(self, F, x):
        return self.o(self.r(self.e(x)))


class Block(gluon.HybridBlock):
    """A residual block of ResNeXt: 1x1, 3x3 in 32 groups, 1x1."""

    def __init__(self, channels, stride, down):
        super().__init__()
        inner = channels // 2
        self.body, self.down = nn.HybridSequential(), None
        self.body.add(*convolution(inner, 1), nn.Activation("relu"))
        self.body.add(*convolution(inner, 3, stride, groups=32), nn.Activation("relu"))
        self.body.add(*convolution(channels, 1))
        if down:
            self.down = nn.HybridSequential()
            self.down.add(*convolution(channels, 1, stride))

    def hybrid_forward(self, F, x):
        return F.relu((self.down(x) if self.down else x) + self.body(x))


def convolution(channels, size, stride=1, groups=1):
    made = nn.Conv2D(channels, size, stride, size // 2, groups=groups, use_bias=False)
    return made, nn.BatchNorm()


def resnext50():
    net = nn.HybridSequential()
    net.add(*convolution(64, 7, 2), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
    for stage, (count, channels) in enumerate(((3, 256), (4, 512), (6, 1024), (3, 2048))):
        for i in range(count):
            net.add(Block(channels, 2 if stage and i == 0 else 1, i == 0))
    net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(1000))
    return net


def tokens(batch, steps, count):
    return lambda random: random.randint(0, count, (batch, steps)).astype("float32")


def image(random):
    return random.rand(1, 3, 224, 224)


NETS = {
    "bert_base_128": (lambda: Transformer(12, 768, 12, 128, False), tokens(1, 128, 3000)),
    "vit_tiny": (lambda: Transformer(12, 192, 3, 196, True), image),
    "bilstm_256": (BiLstm, tokens(16, 64, 5000)),
    "resnext50": (resnext50, image),
}


def values(random, key, shape):
    """Plausible values of a parameter of that name in a trained network."""
    if key.endswith(("running_var", "gamma")):
        return random.uniform(0.7, 1.3, shape)
    if "i2h" in key or "h2h" in key:
        return random.uniform(-0.1, 0.1, shape)
    deviation = (2.0 / np.prod(shape[1:])) ** 0.5 if len(shape) > 1 else 0.1
    return random.randn(*shape) * deviation


def made(make, draw):
    """A network with weights from a seed, and its input."""
    mx.random.seed(42)
    random = np.random.RandomState(42)
    net, x = make(), nd.array(draw(random))
    net.initialize()
    net(x)  # shapes become known
    for key, p in net.collect_params().items():
        p.set_data(nd.array(values(random, key, p.shape)))
    return net, x


def write_onnx(name, shape):
    """The same network as ONNX, with the opset that it is written in."""
    path = f"models/{name}-b1.onnx"
    files = f"models/{name}-symbol.json", f"models/{name}-0000.params"
    mxonnx.export_model(*files, [shape], np.float32, path)
    model = onnx.load(path)
    model.opset_import[0].version = OPSET
    onnx.save(model, path)


for name, (make, draw) in NETS.items():
    if sys.argv[1:] and name not in sys.argv[1:]:
        continue
    net, x = made(make, draw)
    net.hybridize()
    y = net(x)
    net.export(f"models/{name}")
    np.savez(f"models/{name}-io.npz", x=x.asnumpy(), y=y.asnumpy())
    write_onnx(name, x.shape)
    print(name, x.shape, y.shape, f"output std {y.asnumpy().std():.3g}", flush=True)

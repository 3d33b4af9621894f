"""The networks of the comparison at varying sizes, with drawn weights, and their sizes.

    python networks.py FOLDER NAME ...    write NAME-symbol.json, NAME-0000.params and NAME.onnx

Run by hybridjit, whose files MXNet reads. A network that cannot be written with open sizes has no
ONNX file: engines that need one leave it out.
"""

import random
import sys


def recurrent(mx):
    """Embedding, LSTM and a dense layer for every step; data are (steps, samples)."""
    nn = mx.gluon.nn

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.embedding, self.lstm = nn.Embedding(1000, 128), mx.gluon.rnn.LSTM(256)
            self.dense = nn.Dense(5, flatten=False)

        def hybrid_forward(self, F, x):
            return self.dense(self.lstm(self.embedding(x)))

    return Net()


def encoder(mx, layers=4, units=256, heads=4):
    """A transformer's encoder: embeddings, self-attention, dense layers; data are (1, steps)."""
    nn = mx.gluon.nn

    class Layer(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            for name in ("query", "key", "value", "out"):
                setattr(self, name, nn.Dense(units, flatten=False, in_units=units))
            self.inner = nn.Dense(4 * units, flatten=False, in_units=units)
            self.outer = nn.Dense(units, flatten=False, in_units=4 * units)
            self.first, self.second = (nn.LayerNorm(in_channels=units) for _ in range(2))

        def hybrid_forward(self, F, x):
            def split(made):
                return F.transpose(F.reshape(made, shape=(0, 0, heads, -1)), axes=(0, 2, 1, 3))

            query, key, value = map(split, (self.query(x), self.key(x), self.value(x)))
            scores = F.linalg.gemm2(query, key, transpose_b=True)
            weights = F.softmax(scores * (units // heads) ** -0.5)
            mixed = F.transpose(F.linalg.gemm2(weights, value), axes=(0, 2, 1, 3))
            mixed = F.reshape(mixed, shape=(0, 0, -1))
            x = self.first(x + self.out(mixed))
            return self.second(x + self.outer(F.LeakyReLU(self.inner(x), act_type="gelu")))

    net = nn.HybridSequential()
    net.add(nn.Embedding(1000, units), nn.LayerNorm(in_channels=units))
    net.add(*(Layer() for _ in range(layers)))
    return net


def bert(mx):
    """An encoder as large as BERT-base."""
    return encoder(mx, layers=12, units=768, heads=12)


def tagger(mx):
    """Embedding, two GRU layers in both directions and a dense layer; data are (steps, samples)."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Embedding(1000, 128), mx.gluon.rnn.GRU(128, 2, bidirectional=True))
    net.add(nn.Dense(9, flatten=False))
    return net


def text_classifier(mx):
    """Convolutions of 3, 4 and 5 words, their maxima, a dense layer; data are (samples, words)."""
    nn = mx.gluon.nn

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.embedding, self.dense = nn.Embedding(1000, 128), nn.Dense(2, in_units=384)
            for width in (3, 4, 5):
                setattr(self, f"words{width}", nn.Conv1D(128, width, activation="relu"))

        def hybrid_forward(self, F, x):
            x = F.transpose(self.embedding(x), axes=(0, 2, 1))
            found = [F.max(getattr(self, f"words{width}")(x), axis=2) for width in (3, 4, 5)]
            return self.dense(F.concat(*found, dim=1))

    return Net()


def detector(mx):
    """Scores and boxes of three scales of ResNet-18's features, as of SSD, one after the other."""
    nn = mx.gluon.nn
    features = mx.gluon.model_zoo.vision.resnet18_v1().features

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.first, self.scales = nn.HybridSequential(), nn.HybridSequential()
            self.heads = nn.HybridSequential()
            self.first.add(*features[:6])
            self.scales.add(*features[6:8], nn.Conv2D(256, 3, 2, 1, activation="relu"))
            self.heads.add(*(nn.Conv2D(4 * (20 + 1 + 4), 3, 1, 1) for _ in range(3)))

        def hybrid_forward(self, F, x):
            x, found = self.first(x), []
            for scale, head in zip(self.scales, self.heads):
                x = scale(x)
                found.append(F.reshape(F.transpose(head(x), axes=(0, 2, 3, 1)), shape=(0, -1, 25)))
            return F.concat(*found, dim=1)

    return Net()


def yolo(mx):
    """Three scales of Darknet-53's features, with the heads of YOLOv3 for 20 classes."""
    nn = mx.gluon.nn

    def row(*blocks):
        made = nn.HybridSequential()
        made.add(*blocks)
        return made

    def conv(filters, size, stride=1):
        layer = nn.Conv2D(filters, size, stride, size // 2, use_bias=False)
        return row(layer, nn.BatchNorm(epsilon=1e-5), nn.LeakyReLU(0.1))

    class Residual(mx.gluon.HybridBlock):
        def __init__(self, filters):
            super().__init__()
            self.body = row(conv(filters // 2, 1), conv(filters, 3))

        def hybrid_forward(self, F, x):
            return x + self.body(x)

    def stage(filters, count):
        return [conv(filters, 3, 2), *(Residual(filters) for _ in range(count))]

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            first = row(conv(32, 3), *stage(64, 1), *stage(128, 2), *stage(256, 8))
            self.stages = row(first, row(*stage(512, 8)), row(*stage(1024, 4)))
            both = [(n, (conv(n, 1), conv(2 * n, 3))) for n in (512, 256, 128)]
            self.bodies = row(
                *(row(*two, conv(n, 1), conv(2 * n, 3), conv(n, 1)) for n, two in both)
            )
            self.heads = row(*(row(conv(2 * n, 3), nn.Conv2D(75, 1)) for n, _ in both))
            self.narrow = row(conv(256, 1), conv(128, 1))

        def hybrid_forward(self, F, x):
            routes, found = [], []
            for each in self.stages:
                x = each(x)
                routes.append(x)
            for number, (body, head) in enumerate(zip(self.bodies, self.heads)):
                if number:
                    x = F.UpSampling(self.narrow[number - 1](x), scale=2, sample_type="nearest")
                    route = routes[2 - number]
                    x = F.concat(F.slice_like(x, route, axes=(2, 3)), route, dim=1)
                x = body(x)
                boxes = F.transpose(head(x), axes=(0, 2, 3, 1))
                found.append(F.reshape(boxes, shape=(0, -1, 25)))
            return F.concat(*found, dim=1)

    return Net()


def of_zoo(name):
    return lambda mx: getattr(mx.gluon.model_zoo.vision, name)()


def drawn(sizes, count):
    """``count`` of the sizes, or all, in an order that is always the same."""
    return random.Random(0).sample(sizes, min(count, len(sizes)))


IMAGES = [(1, 3, 8 * h, 8 * w) for h in range(25, 41) for w in range(25, 41)]
# For networks whose last windows cover the features of 224x224 pixels.
LARGER = [shape for shape in IMAGES if min(shape[2:]) >= 224]
# Of each network its maker, the sizes, and the number of values that its integers have, or 0.
NETWORKS = {
    "lstm": (recurrent, drawn([(t, n) for t in range(5, 65) for n in range(1, 9)], 480), 1000),
    "resnet18": (of_zoo("resnet18_v1"), drawn(IMAGES, 24), 0),
    "mobilenet": (of_zoo("mobilenet1_0"), drawn(IMAGES, 24), 0),
    "bert-like": (encoder, drawn([(1, t) for t in range(8, 513)], 60), 1000),
    "bert-base": (bert, drawn([(1, t) for t in range(8, 513)], 60), 1000),
    "tagger": (tagger, drawn([(t, n) for t in range(5, 65) for n in range(1, 5)], 120), 1000),
    "text": (text_classifier, drawn([(n, t) for t in range(8, 129) for n in (1, 2)], 120), 1000),
    "detector": (detector, drawn(IMAGES, 40), 0),
    "yolo": (yolo, drawn(IMAGES, 40), 0),
    "densenet": (of_zoo("densenet121"), drawn(LARGER, 24), 0),
    "squeezenet": (of_zoo("squeezenet1_1"), drawn(LARGER, 24), 0),
    "mobilenet-v2": (of_zoo("mobilenet_v2_1_0"), drawn(IMAGES, 24), 0),
}


def varying_axes(name):
    """The axes of a network's input whose sizes differ."""
    return tuple(i for i, sizes in enumerate(zip(*NETWORKS[name][1])) if len(set(sizes)) > 1)


def data_of(name, shape):
    """The input of a size, the same in every process."""
    import numpy as np

    generator = np.random.RandomState(sum(shape))
    values = NETWORKS[name][2]
    made = generator.randint(0, values, shape) if values else generator.randn(*shape)
    return made.astype(np.float32)


def write(folder, names):
    import hybridjit as mx

    for name in names:
        make, sizes, _ = NETWORKS[name]
        net = make(mx)
        mx.random.seed(0)
        net.initialize(mx.init.Xavier())
        net.hybridize()
        net(mx.nd.array(data_of(name, sizes[0])))
        prefix = f"{folder}/{name}"
        net.export(prefix)
        files = (f"{prefix}-symbol.json", f"{prefix}-0000.params")
        try:
            mx.onnx.export_model(*files, [sizes[0]], onnx_file_path=f"{prefix}.onnx", dynamic=True)
        except mx.MXNetError as error:
            print(f"{name} has no ONNX file: {error}", file=sys.stderr)


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2:])

"""The networks in Gluon, for MXNet 1.9.1 and for hybridjit: ``NETS[name](mx) -> (net, loss)``."""


def lenet(mx):
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(2))
    net.add(nn.Conv2D(16, 5, activation="relu"), nn.MaxPool2D(2), nn.Flatten())
    net.add(nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10))
    return net, classes(mx)


def mlp(mx):
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Dense(512, activation="relu"), nn.Dropout(0.2))
    net.add(nn.Dense(512, activation="relu"), nn.Dense(10))
    return net, classes(mx)


def zoo(name):
    return lambda mx: (mx.gluon.model_zoo.vision.get_model(name), classes(mx))


def classes(mx):
    return mx.gluon.loss.SoftmaxCrossEntropyLoss()


def cifar_resnet20(mx):
    nn = mx.gluon.nn

    def convolution(channels, size, stride):
        made = nn.Conv2D(channels, size, stride, size // 2, use_bias=False)
        return made, nn.BatchNorm()

    class Basic(mx.gluon.HybridBlock):
        def __init__(self, channels, stride, down):
            super().__init__()
            self.body, self.down = nn.HybridSequential(), None
            self.body.add(*convolution(channels, 3, stride), nn.Activation("relu"))
            self.body.add(*convolution(channels, 3, 1))
            if down:
                self.down = nn.HybridSequential()
                self.down.add(*convolution(channels, 1, stride))

        def hybrid_forward(self, F, x):
            return F.relu((self.down(x) if self.down else x) + self.body(x))

    net = nn.HybridSequential()
    net.add(*convolution(16, 3, 1), nn.Activation("relu"))
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        for i in range(3):
            net.add(Basic(channels, stride if i == 0 else 1, i == 0 and channels > 16))
    net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(10))
    return net, classes(mx)


def lstm_lm(mx):
    """A language model: embedding, two LSTM layers of 200, a dense layer over the vocabulary."""
    nn, gluon = mx.gluon.nn, mx.gluon

    class Model(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(5000, 200)
            self.r = gluon.rnn.LSTM(200, 2, layout="NTC", input_size=200)
            self.o = nn.Dense(5000, flatten=False, in_units=200)

        def hybrid_forward(self, F, x):
            return self.o(self.r(self.e(x)))

    return Model(), classes(mx)


def forecast(mx):
    """A network like DeepAR's: two LSTM layers of 40, a Gaussian for every step."""
    nn, gluon = mx.gluon.nn, mx.gluon

    class Model(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.r = gluon.rnn.LSTM(40, 2, layout="NTC", input_size=12)
            self.mu = nn.Dense(1, flatten=False, in_units=40)
            self.sigma = nn.Dense(1, flatten=False, in_units=40)

        def hybrid_forward(self, F, x):
            y = self.r(x)
            sigma = F.Activation(self.sigma(y), act_type="softrelu") + 1e-3
            return F.concat(self.mu(y), sigma, dim=2)

    class Gaussian(gluon.loss.Loss):
        def __init__(self):
            super().__init__(1.0, 0)

        def hybrid_forward(self, F, pred, label):
            mu = F.slice_axis(pred, axis=2, begin=0, end=1)
            sigma = F.slice_axis(pred, axis=2, begin=1, end=2)
            z = (label - mu) / sigma
            return F.mean(0.5 * F.square(z) + F.log(sigma), axis=0, exclude=True)

    return Model(), Gaussian()


def encoder_layer(mx, units, heads):
    """A layer like BERT's, whose three projections are one dense layer."""
    nn = mx.gluon.nn

    class Layer(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Dense(3 * units, flatten=False, in_units=units)
            self.o = nn.Dense(units, flatten=False, in_units=units)
            self.f1 = nn.Dense(4 * units, flatten=False, in_units=units)
            self.f2 = nn.Dense(units, flatten=False, in_units=4 * units)
            self.n1, self.n2 = nn.LayerNorm(in_channels=units), nn.LayerNorm(in_channels=units)
            self.drop = nn.Dropout(0.1)

        def heads(self, F, x):
            x = F.transpose(F.reshape(x, (0, 0, heads, -1)), (0, 2, 1, 3))
            return F.reshape(x, (-3, 0, 0))

        def joined(self, F, x):
            x = F.transpose(F.reshape(x, (-4, -1, heads, 0, 0)), (0, 2, 1, 3))
            return F.reshape(x, (0, 0, -3))

        def attention(self, F, x):
            q, k, v = (self.heads(F, s) for s in F.split(self.qkv(x), num_outputs=3, axis=2))
            scores = F.batch_dot(q, k, transpose_b=True) * (units // heads) ** -0.5
            return self.o(self.joined(F, F.batch_dot(F.softmax(scores, axis=-1), v)))

        def hybrid_forward(self, F, x):
            x = self.n1(x + self.drop(self.attention(F, x)))
            y = self.f2(F.LeakyReLU(self.f1(x), act_type="gelu"))
            return self.n2(x + self.drop(y))

    return Layer()


def transformer(mx):
    """An encoder like BERT: 4 layers of 256, 4 heads, two classes."""
    nn = mx.gluon.nn

    class Model(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.e, self.body = nn.Embedding(3000, 256), nn.HybridSequential()
            for _ in range(4):
                self.body.add(encoder_layer(mx, 256, 4))
            self.o = nn.Dense(2, in_units=256)

        def hybrid_forward(self, F, x):
            first = F.slice_axis(self.body(self.e(x)), axis=1, begin=0, end=1)
            return self.o(F.reshape(first, (0, -1)))

    return Model(), classes(mx)


NETS = {
    "lenet": lenet,
    "mlp": mlp,
    "cifar_resnet20": cifar_resnet20,
    "resnet18": zoo("resnet18_v1"),
    "resnet50": zoo("resnet50_v1"),
    "mobilenet": zoo("mobilenet1.0"),
    "lstm_lm": lstm_lm,
    "forecast": forecast,
    "transformer": transformer,
}

"""Networks for the comparison in 8 bits that the model zoo lacks, as functions of ``mx``."""

from varying.networks import encoder


def vit(mx, units=384, layers=6, heads=6):
    """A vision transformer: patches of 16x16, an encoder, the mean, a dense layer."""
    nn = mx.gluon.nn

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2D(units, 16, strides=16)
            self.encoder = encoder(mx, layers, units, heads)[2:]
            self.dense = nn.Dense(1000, in_units=units)

        def hybrid_forward(self, F, x):
            rows = F.transpose(F.reshape(self.patches(x), shape=(0, 0, -1)), axes=(0, 2, 1))
            return self.dense(F.mean(self.encoder(rows), axis=1))

    return Net()


def efficient(mx):
    """Inverted residuals with swish and gates of channels, as EfficientNet-B0 has them."""
    nn = mx.gluon.nn

    class Layer(mx.gluon.HybridBlock):
        def __init__(self, given, made, window, stride, wide):
            super().__init__()
            inner, self.adds = wide * given, given == made and stride == 1
            self.body, self.gate, self.end = (nn.HybridSequential() for _ in range(3))
            if wide > 1:
                self.body.add(nn.Conv2D(inner, 1, use_bias=False), nn.BatchNorm(), nn.Swish())
            depthwise = nn.Conv2D(
                inner, window, stride, window // 2, groups=inner, in_channels=inner, use_bias=False
            )
            self.body.add(depthwise, nn.BatchNorm(), nn.Swish())
            self.gate.add(nn.GlobalAvgPool2D(), nn.Conv2D(max(1, given // 4), 1), nn.Swish())
            self.gate.add(nn.Conv2D(inner, 1), nn.Activation("sigmoid"))
            self.end.add(nn.Conv2D(made, 1, use_bias=False), nn.BatchNorm())

        def hybrid_forward(self, F, x):
            y = self.body(x)
            y = self.end(F.broadcast_mul(y, self.gate(y)))
            return x + y if self.adds else y

    net, given = nn.HybridSequential(), 32
    net.add(nn.Conv2D(32, 3, 2, 1, use_bias=False), nn.BatchNorm(), nn.Swish())
    stages = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
              (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3))  # fmt: skip
    for wide, made, count, stride, window in stages:
        for number in range(count):
            net.add(Layer(given, made, window, stride if number == 0 else 1, wide))
            given = made
    net.add(nn.Conv2D(1280, 1, use_bias=False), nn.BatchNorm(), nn.Swish())
    net.add(nn.GlobalAvgPool2D(), nn.Dense(1000))
    return net


def recurrent(mx, units=512):
    """Embedding, LSTM and a dense layer for every step; data are (steps, samples)."""
    nn, net = mx.gluon.nn, mx.gluon.nn.HybridSequential()
    net.add(nn.Embedding(1000, units), mx.gluon.rnn.LSTM(units, input_size=units))
    net.add(nn.Dense(1000, flatten=False, in_units=units))
    return net


def decoder(mx, layers=6, units=768, heads=12, words=8192):
    """A step of a decoder as GPT-2 has it; data are a token (1, 1) and the keys and values of
    earlier ones (2 layers, heads, tokens, units of a head). Results: the scores of the next token,
    and the token's keys and values.
    """
    nn = mx.gluon.nn

    def dense(given, made):
        return nn.Dense(made, flatten=False, in_units=given)

    class Layer(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.first, self.second = (nn.LayerNorm(in_channels=units) for _ in range(2))
            self.attend, self.mix = dense(units, 3 * units), dense(units, units)
            self.inner, self.outer = dense(units, 4 * units), dense(4 * units, units)

        def hybrid_forward(self, F, x, keys, values):
            made = F.reshape(self.attend(self.first(x)), shape=(3, heads, 1, -1))
            query, key, value = F.split(made, num_outputs=3, axis=0, squeeze_axis=True)
            keys, values = F.concat(keys, key, dim=1), F.concat(values, value, dim=1)
            scores = F.batch_dot(query, keys, transpose_b=True)
            mixed = F.batch_dot(F.softmax(scores * (units // heads) ** -0.5), values)
            x = x + self.mix(F.reshape(mixed, shape=(1, 1, -1)))
            inner = F.LeakyReLU(self.inner(self.second(x)), act_type="gelu")
            return x + self.outer(inner), key, value

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.embedding, self.norm = nn.Embedding(words, units), nn.LayerNorm(in_channels=units)
            self.layers = nn.HybridSequential()
            self.layers.add(*(Layer() for _ in range(layers)))
            self.scores = dense(units, words)

        def hybrid_forward(self, F, x, past):
            past = F.split(past, num_outputs=2 * layers, axis=0, squeeze_axis=True)
            x, made = self.embedding(x), []
            for number, layer in enumerate(self.layers):
                x, key, value = layer(x, past[2 * number], past[2 * number + 1])
                made += [key, value]
            return self.scores(self.norm(x)), F.stack(*made, axis=0)

    return Net()

"""Networks of *Dive into Deep Learning* in NumPy mode, of sizes that one thread trains quickly.

``NETWORKS[name](mx)`` gives a network and ``BATCHES[name](random)`` its inputs as NumPy arrays, for
either package as ``mx``.
"""

STEPS = 32  # tokens of a sequence


def sequential(nn, *layers):
    made = nn.HybridSequential()
    made.add(*layers)
    return made


def mlp(mx):
    nn = mx.gluon.nn
    layers = (nn.Dense(256, activation="relu"), nn.Dropout(0.2), nn.Dense(128, activation="relu"))
    return sequential(nn, *layers, nn.Dense(10))


def lenet(mx):
    nn = mx.gluon.nn
    dense = (nn.Dense(120, activation="sigmoid"), nn.Dense(84, activation="sigmoid"), nn.Dense(10))
    first = nn.Conv2D(6, 5, padding=2, activation="sigmoid")
    second = nn.Conv2D(16, 5, activation="sigmoid")
    return sequential(nn, first, nn.AvgPool2D(2, 2), second, nn.AvgPool2D(2, 2), *dense)


def alexnet(mx):
    nn = mx.gluon.nn
    wide = [nn.Conv2D(size, 3, padding=1, activation="relu") for size in (96, 64)]
    first = nn.Conv2D(32, 5, 2, activation="relu")
    second = nn.Conv2D(64, 5, padding=2, activation="relu")
    head = (nn.Dense(256, activation="relu"), nn.Dropout(0.5), nn.Dense(10))
    pools = [nn.MaxPool2D(3, 2) for _ in range(3)]
    return sequential(nn, first, pools[0], second, pools[1], *wide, pools[2], *head)


def vgg(mx):
    nn = mx.gluon.nn
    layers = []
    for count, size in ((1, 16), (1, 32), (2, 64)):
        layers += [nn.Conv2D(size, 3, padding=1, activation="relu") for _ in range(count)]
        layers.append(nn.MaxPool2D(2, 2))
    return sequential(nn, *layers, nn.Dense(128, activation="relu"), nn.Dropout(0.5), nn.Dense(10))


def nin(mx):
    nn = mx.gluon.nn

    def part(size, *window):
        return [
            nn.Conv2D(size, *window, activation="relu"),
            nn.Conv2D(size, 1, activation="relu"),
            nn.Conv2D(size, 1, activation="relu"),
        ]

    parts = (*part(32, 5, 2, 0), nn.MaxPool2D(3, 2), *part(64, 3, 1, 1), nn.MaxPool2D(3, 2))
    tail = (nn.Dropout(0.5), *part(10, 3, 1, 1), nn.GlobalAvgPool2D(), nn.Flatten())
    return sequential(nn, *parts, *tail)


def googlenet(mx):
    nn = mx.gluon.nn

    class Inception(mx.gluon.HybridBlock):
        def __init__(self, one, three, five, pooled):
            super().__init__()
            self.one = nn.Conv2D(one, 1, activation="relu")
            self.before_three = nn.Conv2D(three[0], 1, activation="relu")
            self.three = nn.Conv2D(three[1], 3, padding=1, activation="relu")
            self.before_five = nn.Conv2D(five[0], 1, activation="relu")
            self.five = nn.Conv2D(five[1], 5, padding=2, activation="relu")
            self.pool = nn.MaxPool2D(3, 1, 1)
            self.pooled = nn.Conv2D(pooled, 1, activation="relu")

        def hybrid_forward(self, F, x):
            windows = (self.three(self.before_three(x)), self.five(self.before_five(x)))
            return F.np.concatenate((self.one(x), *windows, self.pooled(self.pool(x))), axis=1)

    parts = (Inception(16, (24, 32), (4, 8), 8), Inception(32, (32, 48), (8, 24), 16))
    first = (nn.Conv2D(32, 3, padding=1, activation="relu"), nn.MaxPool2D(3, 2, 1))
    last = Inception(48, (24, 52), (4, 12), 16)
    tail = (nn.GlobalAvgPool2D(), nn.Dense(10))
    return sequential(nn, *first, *parts, nn.MaxPool2D(3, 2, 1), last, *tail)


def resnet(mx):
    nn = mx.gluon.nn

    class Residual(mx.gluon.HybridBlock):
        def __init__(self, size, halves=False):
            super().__init__()
            self.first = nn.Conv2D(size, 3, 2 if halves else 1, 1)
            self.second = nn.Conv2D(size, 3, padding=1)
            self.beside = nn.Conv2D(size, 1, 2) if halves else None
            self.norms = sequential(nn, nn.BatchNorm(), nn.BatchNorm())

        def hybrid_forward(self, F, x):
            y = F.npx.relu(self.norms[0](self.first(x)))
            y = self.norms[1](self.second(y))
            return F.npx.relu(y + (self.beside(x) if self.beside else x))

    first = (nn.Conv2D(32, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
    parts = (Residual(32), Residual(64, True), Residual(64), Residual(128, True))
    return sequential(nn, *first, *parts, nn.GlobalAvgPool2D(), nn.Dense(10))


def densenet(mx):
    nn = mx.gluon.nn

    def activated(*layers):
        return sequential(nn, nn.BatchNorm(), nn.Activation("relu"), *layers)

    class Growing(mx.gluon.HybridBlock):
        def __init__(self, count, size):
            super().__init__()
            self.parts = nn.HybridSequential()
            self.parts.add(*(activated(nn.Conv2D(size, 3, padding=1)) for _ in range(count)))

        def hybrid_forward(self, F, x):
            for part in self.parts:
                x = F.np.concatenate((x, part(x)), axis=1)
            return x

    between = activated(nn.Conv2D(32, 1), nn.AvgPool2D(2, 2))
    tail = (activated(nn.GlobalAvgPool2D()), nn.Dense(10))
    return sequential(
        nn, nn.Conv2D(32, 3, padding=1), Growing(3, 16), between, Growing(3, 16), *tail
    )


def text_cnn(mx):
    nn = mx.gluon.nn

    class TextCNN(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(500, 64)
            self.windows = nn.HybridSequential()
            self.windows.add(*(nn.Conv1D(50, size, activation="relu") for size in (3, 4, 5)))
            self.classes = nn.Dense(2)

        def hybrid_forward(self, F, x):
            x = F.np.transpose(self.words(x), (0, 2, 1))
            tops = [F.np.max(window(x), axis=-1) for window in self.windows]
            return self.classes(F.np.concatenate(tops, axis=1))

    return TextCNN()


def gru(mx):
    class Language(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.words = mx.gluon.nn.Embedding(500, 64)
            self.steps = mx.gluon.rnn.GRU(128, input_size=64)
            self.next = mx.gluon.nn.Dense(500, flatten=False)

        def hybrid_forward(self, F, x, state):
            y, _ = self.steps(self.words(x), [state])
            return self.next(y)

    return Language()


def bert(mx, width=128, heads=4):
    nn = mx.gluon.nn

    def dense(size, **how):
        return nn.Dense(size, flatten=False, **how)

    class Attention(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.sides = nn.HybridSequential()
            self.sides.add(*(dense(width, use_bias=False) for _ in range(4)))

        def hybrid_forward(self, F, x):
            def split(y):
                y = F.npx.reshape(y, (-2, -2, heads, -1))
                return F.npx.reshape(F.np.transpose(y, (0, 2, 1, 3)), (-1, STEPS, width // heads))

            query, key, value = (split(side(x)) for side in list(self.sides)[:3])
            scores = F.npx.batch_dot(query, key, transpose_b=True) / (width // heads) ** 0.5
            y = F.npx.batch_dot(F.npx.softmax(scores), value)
            y = F.np.transpose(F.npx.reshape(y, (-1, heads, STEPS, width // heads)), (0, 2, 1, 3))
            return self.sides[3](F.npx.reshape(y, (-1, STEPS, width)))

    class Encoder(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.attention = Attention()
            self.norms = sequential(nn, nn.LayerNorm(), nn.LayerNorm())
            self.wide = sequential(nn, dense(2 * width, activation="relu"), dense(width))
            self.dropout = nn.Dropout(0.1)

        def hybrid_forward(self, F, x):
            x = self.norms[0](x + self.dropout(self.attention(x)))
            return self.norms[1](x + self.dropout(self.wide(x)))

    class Classifier(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(1000, width)
            self.places = self.params.get("places", shape=(1, STEPS, width))
            self.layers = sequential(nn, Encoder(), Encoder())
            self.classes = nn.Dense(10)

        def hybrid_forward(self, F, x, places):
            return self.classes(F.np.mean(self.layers(self.words(x) + places), axis=1))

    return Classifier()


def images(count, size):
    return lambda random: [random.normal(size=(count, 1, size, size))]


def words(kinds, *shape):
    return lambda random: [random.randint(0, kinds, shape)]


NETWORKS = {
    "MLP": mlp,
    "LeNet": lenet,
    "AlexNet": alexnet,
    "VGG": vgg,
    "NiN": nin,
    "GoogLeNet": googlenet,
    "ResNet": resnet,
    "DenseNet": densenet,
    "TextCNN": text_cnn,
    "GRU": gru,
    "BERT": bert,
}
BATCHES = {
    "MLP": images(64, 28),
    "LeNet": images(64, 28),
    "AlexNet": images(8, 96),
    "VGG": images(8, 64),
    "NiN": images(8, 96),
    "GoogLeNet": images(8, 48),
    "ResNet": images(8, 48),
    "DenseNet": images(8, 32),
    "TextCNN": words(500, 32, 50),
    "GRU": lambda random: [*words(500, 35, 16)(random), 0 * random.normal(size=(1, 16, 128))],
    "BERT": words(1000, 8, STEPS),
}

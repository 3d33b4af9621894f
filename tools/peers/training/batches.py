"""Training data of the networks of the comparison: ``BATCHES[name](random) -> (data, labels)``.

``random`` is a ``numpy.random.RandomState``. Both arrays are float32, class numbers and tokens too,
as MXNet takes them.
"""

SIZES = {"transformer": (8, 64, 3000), "lstm_lm": (20, 35, 5000)}  # batch, tokens, vocabulary


def images(batch, channels, side, classes):
    def draw(random):
        data = random.rand(batch, channels, side, side).astype("f")
        return data, random.randint(0, classes, batch).astype("f")

    return draw


def vectors(random):
    return random.rand(128, 784).astype("f"), random.randint(0, 10, 128).astype("f")


def language(random):
    """Tokens, and those that follow."""
    batch, steps, vocabulary = SIZES["lstm_lm"]
    return tuple(random.randint(0, vocabulary, (batch, steps)).astype("f") for _ in range(2))


def series(random):
    return random.rand(32, 48, 12).astype("f"), random.rand(32, 48, 1).astype("f")


def sentences(random):
    """Tokens, and one of two classes for each row."""
    batch, steps, vocabulary = SIZES["transformer"]
    data = random.randint(0, vocabulary, (batch, steps)).astype("f")
    return data, random.randint(0, 2, batch).astype("f")


BATCHES = {
    "lenet": images(64, 1, 28, 10),
    "mlp": vectors,
    "cifar_resnet20": images(64, 3, 32, 10),
    "resnet18": images(8, 3, 224, 1000),
    "resnet50": images(8, 3, 224, 1000),
    "mobilenet": images(8, 3, 224, 1000),
    "lstm_lm": language,
    "forecast": series,
    "transformer": sentences,
}
TOKENS = {*SIZES}  # their data are class numbers

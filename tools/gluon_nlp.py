"""Train networks of gluon-nlp on sentences of many lengths, and run them on others.

    python -m hybridjit.run tools/gluon_nlp.py                    one compilation for all lengths
    python -m hybridjit.run tools/gluon_nlp.py --fixed            one compilation for each length
    python tools/gluon_nlp.py                                     in an environment with MXNet

It needs gluonnlp 0.10.0 and a C compiler to build it. The sentences are drawn: of 5 to 60 words in
batches of 16, as its samplers cut them, padded to the longest. Prints a line for each network: the
loss of each epoch, then milliseconds of CPU time of a training step in each epoch, and of a
sentence, batch 1, in a first pass over new sentences and in a second one; the Transformer
translates them by a beam search of 20 steps. The initial weights follow from the names of the
parameters, and dropout is off, so the losses of engines agree.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
import zlib
from collections.abc import Callable

import gluonnlp
import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.ndarray import NDArray

WORDS, UNITS, LONGEST, SIZE = 500, 128, 64, 16


class DrawnByName(mx.init.Initializer):
    """Numbers that a parameter's name determines."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.draw = np.random.RandomState(zlib.crc32(name.encode()))

    def _init_weight(self, name: str, array: mx.nd.NDArray) -> None:
        array[:] = self.draw.normal(0, 0.05, array.shape)


class Network:
    """A network of gluon-nlp and its loss: losses of a batch, and inference on one sentence."""

    def __init__(self, net: gluon.Block) -> None:
        self.net, self.loss = net, gluon.loss.SoftmaxCrossEntropyLoss()

    def losses(self, x: NDArray, lengths: NDArray) -> NDArray:
        raise NotImplementedError

    def infer(self, x: NDArray, lengths: NDArray) -> NDArray:
        raise NotImplementedError


class Bert(Network):
    """BERT of 4 layers, which classifies a sentence by the number of its first word."""

    def __init__(self) -> None:
        encoder = gluonnlp.model.BERTEncoder(
            units=UNITS, hidden_size=512, num_layers=4, num_heads=4, max_length=LONGEST, dropout=0.0
        )
        options = {"use_decoder": False, "use_classifier": False}
        body = gluonnlp.model.BERTModel(encoder, WORDS, 2, UNITS, UNITS, prefix="bert_", **options)
        super().__init__(gluonnlp.model.BERTClassifier(body, 2, 0.0, prefix="classifier_"))

    def losses(self, x: NDArray, lengths: NDArray) -> NDArray:
        return self.loss(self.infer(x, lengths), x[:, 0] > WORDS / 2)

    def infer(self, x: NDArray, lengths: NDArray) -> NDArray:
        return self.net(x, nd.zeros_like(x), lengths)


class Lstm(Network):
    """A language model of 2 LSTMs."""

    def __init__(self) -> None:
        options = {"dropout": 0.0, "tie_weights": False, "prefix": "lm_"}
        super().__init__(gluonnlp.model.StandardRNN("lstm", WORDS, UNITS, UNITS, 2, **options))

    def losses(self, x: NDArray, lengths: NDArray) -> NDArray:
        return self.loss(self.infer(x[:, :-1], lengths), x.T[1:])

    def infer(self, x: NDArray, lengths: NDArray) -> NDArray:
        return self.net(x.T)[0]


class Transformer(Network):
    """A Transformer of 2 and 2 layers, which repeats a sentence."""

    def __init__(self) -> None:
        make = gluonnlp.model.transformer.get_transformer_encoder_decoder
        parts = make(2, 4, True, UNITS, 256, 0.0, True, LONGEST, LONGEST)
        words, options = range(WORDS), {"embed_size": UNITS, "prefix": "translator_"}
        super().__init__(gluonnlp.model.translation.NMTModel(words, words, *parts, **options))
        self.search = gluonnlp.model.BeamSearchSampler(
            4, self._step, eos_id=0, scorer=gluonnlp.model.BeamSearchScorer(), max_length=20
        )

    def _step(self, word: NDArray, states: list[NDArray]) -> tuple[NDArray, list[NDArray]]:
        found, states, _ = self.net.decode_step(word, states)
        return nd.log_softmax(found), states

    def losses(self, x: NDArray, lengths: NDArray) -> NDArray:
        return self.loss(self.net(x, x[:, :-1], lengths, lengths - 1)[0], x[:, 1:])

    def infer(self, x: NDArray, lengths: NDArray) -> NDArray:
        coded, _ = self.net.encode(x, valid_length=lengths)
        states = self.net.decoder.init_state_from_encoder(coded, lengths)
        return self.search(nd.ones((1,)), states)[0]


def sentences(count: int, seed: int) -> list[np.ndarray]:
    draw = np.random.RandomState(seed)
    return [draw.randint(1, WORDS, draw.randint(5, LONGEST - 3)) for _ in range(count)]


def batches(texts: list[np.ndarray]) -> list[tuple[NDArray, NDArray]]:
    """Words, padded with 0, and lengths."""
    sampler = gluonnlp.data.SortedBucketSampler([len(text) for text in texts], SIZE, mult=4)
    pad = gluonnlp.data.batchify.Pad(pad_val=0, ret_length=True, dtype="float32")
    padded = [pad([texts[i] for i in rows]) for rows in sampler]
    return [(words.copyto(mx.cpu()), n.copyto(mx.cpu()).astype("float32")) for words, n in padded]


def trained(network: Network, trainer: gluon.Trainer, data: list[tuple[NDArray, NDArray]]) -> str:
    """The loss of an epoch and the milliseconds of its steps."""
    since, total = time.process_time(), 0.0
    for x, lengths in data:
        with autograd.record():
            loss = network.losses(x, lengths).mean()
        loss.backward()
        trainer.step(1)
        total += float(loss.asscalar())
    return f"{total / len(data):.5f} ({1000 * (time.process_time() - since) / len(data):.1f} ms)"


def inferred(network: Network, texts: list[np.ndarray]) -> str:
    since = time.process_time()
    for text in texts:
        network.infer(nd.array(text[None]), nd.array([len(text)])).wait_to_read()
    return f"{1000 * (time.process_time() - since) / len(texts):.1f} ms"


def report(make: Callable[[], Network], args: argparse.Namespace) -> None:
    with mx.name.NameManager():
        network = make()
    for name, parameter in network.net.collect_params().items():
        parameter.initialize(DrawnByName(name) if name.endswith("weight") else parameter.init)
    network.net.hybridize(**({"dynamic": False} if args.fixed else {}))
    trainer = gluon.Trainer(network.net.collect_params(), "adam", {"learning_rate": 1e-3})
    data, others = batches(sentences(args.count, 0)), sentences(args.count // 8, 1)
    epochs = [trained(network, trainer, data) for _ in range(args.epochs)]
    passes = [inferred(network, others) for _ in range(2)]
    print(f"{make.__name__:12} {', '.join(epochs)}; {', '.join(passes)} a sentence", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fixed", action="store_true", help="hybridize(dynamic=False)")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--count", type=int, default=1600, help="sentences of an epoch")
    parser.add_argument("--only", nargs="+", default=["Bert", "Lstm", "Transformer"])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for make in (Bert, Lstm, Transformer):
        if make.__name__ in args.only:
            report(make, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())

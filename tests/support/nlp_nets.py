"""Encoders in the structure of gluon-nlp 0.10's BERT and Transformer, for MXNet and hybridjit.

Positions come from ``arange_like`` on learned embeddings; attention is interleaved in the one, and
made of batches of products in the other; masks follow from valid lengths.
``tools/mxnet_side/record_nlp.py`` trains them with real MXNet and records the losses and
gradients; ``test_nlp_encoders.py`` holds hybridjit against that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

BATCH, STEPS, UNITS, HEADS, VOCABULARY, LONGEST, LAYERS = 2, 7, 16, 4, 20, 9, 2
Blocks = tuple[Callable[[], Any], list[np.ndarray]]


def classes(mx: Any) -> dict[str, type]:
    """The blocks, on the classes of this package."""
    nn, HybridBlock = mx.gluon.nn, mx.gluon.HybridBlock

    class FeedForward(HybridBlock):
        """Two layers beside a residual connection, normalised after it."""

        def __init__(self, activation: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            with self.name_scope():
                self.wide = nn.Dense(2 * UNITS, flatten=False, prefix="wide_")
                self.narrow = nn.Dense(UNITS, flatten=False, prefix="narrow_")
                self.norm = nn.LayerNorm(prefix="norm_")
            self._activation = activation

        def hybrid_forward(self, F, x):
            y = (
                F.LeakyReLU(self.wide(x), act_type="gelu")
                if self._activation
                else (F.relu(self.wide(x)))
            )
            return self.norm(x + self.narrow(y))

    class SelfAttention(HybridBlock):
        """Weights of queries, keys and values, joined head by head for the interleaved products."""

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            with self.name_scope():
                for name in ("query", "key", "value"):
                    weight = self.params.get(f"{name}_weight", shape=(UNITS, UNITS))
                    bias = self.params.get(f"{name}_bias", shape=(UNITS,))
                    setattr(self, f"{name}_weight", weight)
                    setattr(self, f"{name}_bias", bias)

        def hybrid_forward(
            self, F, x, lengths, query_weight, key_weight, value_weight,
            query_bias, key_bias, value_bias,
        ):  # fmt: skip
            weights = [query_weight, key_weight, value_weight]
            rows = [w.reshape(shape=(HEADS, -1, 0), reverse=True) for w in weights]
            joined = F.reshape(F.concat(*rows, dim=-2), shape=(-1, 0), reverse=True)
            biases = [b.reshape(shape=(HEADS, -1)) for b in (query_bias, key_bias, value_bias)]
            bias = F.concat(*biases, dim=-1).reshape(shape=(-1,))
            three = F.FullyConnected(x, joined, bias, num_hidden=3 * UNITS, flatten=False)
            scores = F.contrib.interleaved_matmul_selfatt_qk(three, heads=HEADS)
            valid = F.broadcast_axis(F.expand_dims(lengths, axis=1), axis=1, size=HEADS)
            valid = F.expand_dims(valid.reshape(shape=(-1,)), axis=1)
            valid = F.broadcast_like(valid, scores, lhs_axes=(1,), rhs_axes=(1,))
            weights = F.softmax(scores, length=valid.astype("int32"), use_length=True, axis=-1)
            return F.contrib.interleaved_matmul_selfatt_valatt(three, weights, heads=HEADS)

    class BertLayer(HybridBlock):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            with self.name_scope():
                self.attention = SelfAttention(prefix="attention_")
                self.project = nn.Dense(UNITS, flatten=False, prefix="project_")
                self.norm = nn.LayerNorm(prefix="norm_")
                self.feed = FeedForward("gelu", prefix="feed_")

        def hybrid_forward(self, F, x, lengths):
            return self.feed(self.norm(x + self.project(self.attention(x, lengths))))

    class Bert(HybridBlock):
        """Pre-training of BERT: scores of masked words, and of the next sentence."""

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            with self.name_scope():
                self.words = nn.Embedding(VOCABULARY, UNITS, prefix="words_")
                self.kinds = nn.Embedding(2, UNITS, prefix="kinds_")
                self.position_weight = self.params.get("position_weight", shape=(LONGEST, UNITS))
                self.norm = nn.LayerNorm(prefix="norm_")
                self.layers = [BertLayer(prefix=f"layer{i}_") for i in range(LAYERS)]
                for layer in self.layers:
                    self.register_child(layer)
                self.pooled = nn.Dense(UNITS, activation="tanh", flatten=False, prefix="pooled_")
                self.next = nn.Dense(2, flatten=False, prefix="next_")
                self.masked = nn.HybridSequential(prefix="masked_")
                with self.masked.name_scope():
                    self.masked.add(
                        nn.Dense(UNITS, flatten=False),
                        nn.GELU(),
                        nn.LayerNorm(),
                        nn.Dense(VOCABULARY, flatten=False, params=self.words.params),
                    )

        def hybrid_forward(self, F, words, kinds, lengths, places, position_weight):
            x = F.swapaxes(self.words(words) + self.kinds(kinds), dim1=0, dim2=1)
            steps = F.contrib.arange_like(x, axis=0)
            positions = F.Embedding(steps, position_weight, LONGEST, UNITS)
            x = self.norm(F.broadcast_add(x, F.expand_dims(positions, axis=1)))
            for layer in self.layers:
                x = layer(x, lengths)
            x = F.swapaxes(x, dim1=0, dim2=1)
            first = F.reshape(F.slice_axis(x, axis=1, begin=0, end=1), shape=(0, -1))
            rows = F.contrib.index_array(places, axes=(0,)).reshape(shape=(1, -1))
            chosen = F.concat(rows, places.reshape(shape=(1, -1)).astype("int64"), dim=0)
            masked = self.masked(F.gather_nd(x, chosen))
            return self.next(self.pooled(first)), masked

    class CellAttention(HybridBlock):
        """Scaled products in batches of heads, with a mask of the pairs that may attend."""

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            with self.name_scope():
                layers = {
                    name: nn.Dense(UNITS, use_bias=False, flatten=False, prefix=f"{name}_")
                    for name in ("query", "key", "value")
                }
            for name, layer in layers.items():
                setattr(self, name, layer)

        def hybrid_forward(self, F, x, mask):
            def heads(y):
                split = F.transpose(F.reshape(y, shape=(0, 0, HEADS, -1)), axes=(0, 2, 1, 3))
                return F.reshape(split, shape=(-1, 0, 0), reverse=True)

            query = F.contrib.div_sqrt_dim(heads(self.query(x)))
            scores = F.batch_dot(query, heads(self.key(x)), transpose_b=True)
            wide = F.broadcast_axis(F.expand_dims(mask, axis=1), axis=1, size=HEADS)
            wide = F.reshape(wide, shape=(-1, 0, 0), reverse=True)
            scores = F.where(wide, scores, -1e18 * F.ones_like(scores))
            weights = F.softmax(scores, axis=-1) * wide
            together = F.reshape(
                F.batch_dot(weights, heads(self.value(x))), shape=(-1, HEADS, 0, 0), reverse=True
            )
            return F.reshape(F.transpose(together, axes=(0, 2, 1, 3)), shape=(0, 0, -1))

    class CellLayer(HybridBlock):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            with self.name_scope():
                self.attention = CellAttention(prefix="attention_")
                self.project = nn.Dense(UNITS, use_bias=False, flatten=False, prefix="project_")
                self.norm = nn.LayerNorm(prefix="norm_")
                self.feed = FeedForward("", prefix="feed_")

        def hybrid_forward(self, F, x, mask):
            return self.feed(self.norm(x + self.project(self.attention(x, mask))))

    class Transformer(HybridBlock):
        """The encoder of a translator: scaled embeddings and waves for positions."""

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            with self.name_scope():
                self.words = nn.Embedding(VOCABULARY, UNITS, prefix="words_")
                self.position_weight = self.params.get_constant("const", waves())
                self.norm = nn.LayerNorm(prefix="norm_")
                self.layers = [CellLayer(prefix=f"layer{i}_") for i in range(LAYERS)]
                for layer in self.layers:
                    self.register_child(layer)
                self.scores = nn.Dense(VOCABULARY, flatten=False, prefix="scores_")

        def hybrid_forward(self, F, words, lengths, position_weight):
            x = self.words(words) * UNITS**0.5
            steps = F.contrib.arange_like(x, axis=1)
            valid = F.broadcast_lesser(
                F.reshape(steps, shape=(1, -1)), F.reshape(lengths, shape=(-1, 1))
            )
            square = F.broadcast_axis(F.expand_dims(valid, axis=1), axis=1, size=STEPS)
            mask = F.broadcast_mul(square, F.expand_dims(valid, axis=2))
            positions = F.Embedding(steps, position_weight, LONGEST, UNITS)
            x = self.norm(F.broadcast_add(x, F.expand_dims(positions, axis=0)))
            for layer in self.layers:
                x = layer(x, mask)
            x = F.SequenceMask(x, lengths, use_sequence_length=True, axis=1)
            return (self.scores(x),)

    return {"bert": Bert, "transformer": Transformer}


def waves() -> np.ndarray:
    """Sines and cosines of the positions, of falling frequencies."""
    frequencies = 10000.0 ** (-np.arange(UNITS // 2) * 2 / UNITS)
    angles = np.arange(LONGEST)[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def inputs(name: str) -> list[np.ndarray]:
    """Operands of a step: words, lengths, and for BERT kinds and the places of masked words."""
    random = np.random.RandomState(3)
    words = random.randint(0, VOCABULARY, (BATCH, STEPS)).astype(np.float32)
    lengths = np.array([STEPS, STEPS - 3], np.float32)
    if name == "transformer":
        return [words, lengths]
    kinds = (np.arange(STEPS) >= 3).astype(np.float32) * np.ones((BATCH, 1), np.float32)
    return [words, kinds, lengths, np.array([[1, 4], [0, 3]], np.float32)]


def fill(mx: Any, net: Any) -> None:
    """Give every parameter numbers that follow from its order alone."""
    for number, (name, param) in enumerate(sorted(net.collect_params().items())):
        if not isinstance(param, mx.gluon.Constant):
            random = np.random.RandomState(number)
            value = random.normal(1.0 if name.endswith("gamma") else 0.0, 0.3, param.shape)
            param.set_data(mx.nd.array(value.astype(np.float32)))


def made(mx: Any, name: str) -> Any:
    """The net with its numbers, called once so that every shape is known."""
    net = classes(mx)[name](prefix="net_")
    net.initialize()
    net(*[mx.nd.array(x) for x in inputs(name)])
    fill(mx, net)
    return net


def gradients(mx: Any, name: str, net: Any) -> dict[str, np.ndarray]:
    """The loss of a step and the gradient of every parameter, by name."""
    given = [mx.nd.array(x) for x in inputs(name)]
    with mx.autograd.record():
        loss = sum(mx.nd.mean(mx.nd.log_softmax(y, axis=-1).square()) for y in net(*given))
    loss.backward()
    found = {"loss": loss.asnumpy()}
    for key, param in net.collect_params().items():
        if param.grad_req != "null":
            found[key] = param.grad().asnumpy()
    return found

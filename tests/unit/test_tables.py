"""Dense layers on rows of a table: their numbers, new weights, and any index."""

from __future__ import annotations

import numpy as np
import pytest

from compiling import call, compiled, run_reference, var
from hybridjit import nd
from hybridjit._core.config import override
from hybridjit.gluon import nn, rnn

RNG = np.random.default_rng(61)
# Of no row, between rows, and no number at all; and each row.
INDICES = [-1e9, -7, -0.5, 0.25, 10.99, 11, 4e9, np.inf, -np.inf, np.nan, *range(11)]


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def check(outputs, arrays, params):
    """Against every operator as it was written, in double precision."""
    executable = compiled(outputs, arrays, params)
    assert "table" in executable.plan.graph.bind.outputs[0].value.name
    found = executable([arrays[name] for name in arrays if name not in params])
    wide = {n: a.astype(np.float64) if n in params else a for n, a in arrays.items()}
    for array, wanted in zip(found, run_reference(outputs, wide), strict=True):
        np.testing.assert_allclose(array, wanted, atol=1e-5 * wanted.std(), rtol=0)


@pytest.mark.parametrize("no_bias", [False, True])
def test_every_index_of_an_embedding(no_bias):
    words = call("Embedding", var("x"), var("v"), input_dim=11, output_dim=40)
    weights = [var("w")] if no_bias else [var("w"), var("b")]
    layer = call("FullyConnected", words, *weights, num_hidden=9, flatten=False, no_bias=no_bias)
    index = np.array(INDICES, np.float32).reshape(3, 7)
    arrays = {"x": index, "v": numbers(11, 40), "w": numbers(9, 40), "b": numbers(9)}
    if no_bias:
        del arrays["b"]
    check([layer, call("relu", layer)], arrays, ["v", "w", "b"][: 3 - no_bias])


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_every_index_of_take(mode, dtype):
    rows = call("take", var("v"), var("x"), mode=mode)
    layer = call("FullyConnected", rows, var("w"), var("b"), num_hidden=33, no_bias=False)
    index = np.array([-12, -1, 0, 5, 10, 11, 25], dtype)
    arrays = {"x": index, "v": numbers(11, 40), "w": numbers(33, 40), "b": numbers(33)}
    check([layer], arrays, ["v", "w", "b"])


class Reader(nn.HybridBlock):
    """Words, recurrent layers in both directions, and the words themselves once more."""

    def __init__(self, layout):
        super().__init__()
        with self.name_scope():
            self.words = nn.Embedding(50, 32)
            self.layers = rnn.LSTM(24, 2, layout=layout, input_size=32, bidirectional=True)
            self.short = nn.Dense(48, flatten=False, in_units=32)

    def hybrid_forward(self, F, x):  # noqa: N803 (MXNet's name)
        words = self.words(x)
        return F.concat(self.layers(words) + self.short(words), words, dim=2)


def reader(layout="NTC"):
    net = Reader(layout)
    net.initialize()
    for parameter in net.collect_params().values():
        parameter.set_data(nd.array(numbers(*parameter.shape) / 8))
    return net


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_recurrent_layers_as_eagerly_and_alone_as_among_others(layout):
    net = reader(layout)
    words = RNG.integers(0, 50, (5, 7)).astype(np.float32)
    batch = nd.array(words if layout == "NTC" else words.T)
    wanted = net(batch).asnumpy()
    net.hybridize()
    found = net(batch).asnumpy()
    np.testing.assert_allclose(found, wanted, atol=1e-5 * wanted.std(), rtol=0)
    axis = 0 if layout == "NTC" else 1
    alone = net(nd.array(np.take(batch.asnumpy(), [3], axis=axis))).asnumpy()
    np.testing.assert_array_equal(alone, np.take(found, [3], axis=axis))


@pytest.mark.parametrize("changed", ["embedding0_weight", "dense0_weight", "l0_i2h_bias"])
def test_new_weights_take_effect(changed):
    net = reader()
    batch = nd.array(RNG.integers(0, 50, (2, 3)))
    net.hybridize()
    before = net(batch).asnumpy()
    (parameter,) = (p for name, p in net.collect_params().items() if name.endswith(changed))
    parameter.set_data(parameter.data() + 1)
    found = net(batch).asnumpy()
    net.hybridize(False)
    wanted = net(batch).asnumpy()
    assert np.abs(wanted - before).max() > 0.1
    np.testing.assert_allclose(found, wanted, atol=1e-5 * wanted.std(), rtol=0)


def test_left_out_as_asked_for():
    net = reader()
    batch = nd.array(RNG.integers(0, 50, (2, 3)))
    net.hybridize()
    wanted = net(batch).asnumpy()
    with override(skip=("precompute-embeddings",)):
        net.hybridize()
        found = net(batch).asnumpy()
    np.testing.assert_allclose(found, wanted, atol=1e-5 * wanted.std(), rtol=0)


def test_tables_in_bfloat16_equal_rounded_products():
    """Tables are made by products of rounded numbers, as rows would be."""
    net = reader()
    batch = nd.array(RNG.integers(0, 50, (2, 3)))
    wanted = net(batch).asnumpy()
    net.hybridize(precision="bfloat16")
    found = net(batch).asnumpy()
    assert np.abs(found - wanted).max() < 3e-2 * wanted.std()

"""Dropout's factors: bits by counter, the same in NumPy and in kernels, and as good as drawn."""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, nd
from hybridjit._core.options import Options
from hybridjit._core.types import type_of
from hybridjit.compilation import compile_graph
from hybridjit.gluon import nn
from hybridjit.ir.node import Node, Output, variable
from hybridjit.ops import lookup, run_ref
from hybridjit.ops.random.counter import bits_by_counter, limit_of
from hybridjit.ops.random.dropping import dropout_mask

F32 = np.dtype(np.float32)
MANY = 1 << 16


def dropped(hybrid: bool, p: float, dtype: str, axes: tuple[int, ...], threads: int = 1) -> list:
    """Results and gradients of two calls after a seed."""
    net = nn.HybridSequential()
    net.add(nn.Dropout(p, axes=axes), nn.Activation("relu"), nn.Dropout(p))
    net.hybridize(hybrid)
    x = nd.array(np.random.RandomState(1).normal(size=(70, 51)), dtype=dtype)
    x.attach_grad()
    mx.random.seed(3)
    found = []
    with mx.threads(threads):
        for _ in range(2):
            with autograd.record():
                y = net(x)
            y.backward()
            found += [y.asnumpy(), x.grad.asnumpy()]
    return found


@pytest.mark.parametrize("axes", [(), (0,), (1,)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_eager_and_compiled_calls_drop_the_same(p, dtype, axes):
    eager, compiled = (dropped(hybrid, p, dtype, axes) for hybrid in (False, True))
    for x, y in zip(eager, compiled):
        np.testing.assert_array_equal(x, y)
    assert np.array_equal(eager[0], eager[2], equal_nan=True) == (p != 0.3)
    assert np.isnan(eager).all() if p == 1.0 else np.isfinite(eager).all()


def test_any_number_of_threads_drops_the_same():
    net, x = nn.Dropout(0.5), nd.ones((2_100_000,))
    net.hybridize()
    found = []
    for threads in (1, 2, 3):
        mx.random.seed(5)
        with autograd.train_mode(), mx.threads(threads):
            found.append(net(x).asnumpy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    mx.random.seed(6)
    with autograd.train_mode():
        assert (net(x).asnumpy() != found[0]).any()


def test_kernels_mix_bits_as_numpy_does():
    words = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, (2, 999)).astype(np.int32)
    words[:, :4] = [[0, -1, 2**31 - 1, -(2**31)], [0, 0, -1, -1]]
    x, key = variable("x"), variable("key")
    node = Node(lookup("_mixed_bits"), "bits", {}, (Output(x, 0), Output(key, 0)), {})
    types = {"x": type_of(words[0]), "key": type_of(words[1])}
    code = compile_graph((Output(node, 0),), types, {}, Options())
    code.bind({})
    (wanted,) = run_ref(lookup("_mixed_bits"), [*words], {})
    np.testing.assert_array_equal(code([*words])[0], wanted)
    assert len(np.unique(wanted)) == len(np.unique(words.T, axis=0))


class TestBits:
    """Within five standard errors of the expectation for independent fair bits."""

    def bits(self) -> np.ndarray:
        """Calls by elements by bits."""
        mx.random.seed(11)
        drawn = np.array([bits_by_counter((MANY,)) for _ in range(4)])
        return np.unpackbits(drawn.view(np.uint8), axis=1).reshape(4, MANY, 32).astype(float) - 0.5

    def test_each_is_fair(self):
        assert np.abs(self.bits().mean(1)).max() < 5 * 0.5 / np.sqrt(MANY)

    def test_none_follows_from_another_or_from_its_neighbours(self):
        bits, most = self.bits(), 5 * 0.25 / np.sqrt(MANY)
        for call in bits:
            together = call.T @ call / MANY
            assert np.abs(together - np.diag(np.diag(together))).max() < most
        for step in (1, 2, 3, 64, 512, 4096):
            assert np.abs((bits[:, step:] * bits[:, :-step]).mean(1)).max() < 5 * 0.25 / np.sqrt(
                MANY - step
            )

    def test_calls_have_nothing_in_common(self):
        bits = self.bits()
        for i in range(4):
            for j in range(i):
                assert np.abs((bits[i] * bits[j]).mean(0)).max() < 5 * 0.25 / np.sqrt(MANY)


@pytest.mark.parametrize("p", [1e-3, 0.1, 0.5, 0.9])
def test_a_fraction_is_dropped_and_the_rest_is_scaled(p):
    mx.random.seed(2)
    mask = dropout_mask((MANY,), p, (), F32)
    assert set(np.unique(mask)) == {F32.type(0), F32.type(1 / (1 - p))}
    assert abs((mask == 0).mean() - p) < 5 * np.sqrt(p * (1 - p) / MANY)


def test_the_ends_keep_all_and_nothing():
    assert limit_of(1.0) == 2**31 - 1
    assert limit_of(0.5) == -1
    assert dropout_mask((99,), 0.0, (), F32).tolist() == [1] * 99
    assert np.isnan(dropout_mask((99,), 1.0, (), F32)).all()  # 0 times infinity, as in MXNet

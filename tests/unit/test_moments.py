"""Two statistics of one pass, compiled, beside the same in float64."""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit
from compiling import AVAILABLE, node, run_compiled, var
from hybridjit import autograd, nd
from hybridjit._core.config import override
from hybridjit.gluon import nn
from hybridjit.ir.node import Output

# Vectors across or along the axes that are summed; whole and partial ones, one chunk and several.
CASES = [
    ((2, 56, 56, 64), (1, 2)),
    ((2, 300, 70), (1,)),
    ((3, 7, 5, 6), (2, 3)),
    ((2, 3, 150, 70), (2, 3)),
    ((2, 3, 70, 150), (1, 2)),
    ((40, 33), (0,)),
]


def pair(op: str, arrays: dict[str, np.ndarray], axes: tuple[int, ...]) -> list[np.ndarray]:
    made = node(op, *map(var, arrays), axis=axes, keepdims=True)
    return run_compiled([Output(made, 0), Output(made, 1)], arrays)


def drawn(shape: tuple[int, ...], mean: float) -> np.ndarray:
    return (np.random.RandomState(3).randn(*shape) + mean).astype("float32")


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize("shape, axes", CASES)
def test_a_spread_around_a_mean_that_is_large_is_right(shape, axes, target: str):
    """The mean is the float32 next to it, or its neighbour; the spread has five digits."""
    x = drawn(shape, 1e4)
    with override(target=target):
        mean, spread = pair("_moments", {"x": x}, axes)
    wide = x.astype("float64")
    right = wide.mean(axes, keepdims=True)
    assert np.abs(mean - right).max() <= np.spacing(np.float32(1e4))
    np.testing.assert_allclose(spread, wide.var(axes, keepdims=True), 1e-5)


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize("shape, axes", CASES)
def test_sums_of_products_are_right(shape, axes, target: str):
    x, other = drawn(shape, 0.5), drawn(shape, 1e4)[::-1].copy()
    about = other.mean(axes, keepdims=True)
    with override(target=target):
        total, products = pair("_sums_about", {"x": x, "other": other, "about": about}, axes)
    wide = x.astype("float64")
    distance = other.astype("float64") - about
    np.testing.assert_allclose(total, wide.sum(axes, keepdims=True), 1e-5)
    most = np.abs(wide * distance).sum(axes, keepdims=True)
    right = (wide * distance).sum(axes, keepdims=True)
    assert (np.abs(products - right) <= 1e-6 * most).all()


def test_a_mean_of_infinities_is_infinite():
    """The spread around it is not a number, as in eager mode."""
    x = drawn((2, 200, 16), 0.0)
    x[0, 3, 5], x[1, 190, 7], x[1, 0, 9] = np.inf, -np.inf, np.nan
    mean, spread = pair("_moments", {"x": x}, (1,))
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(mean, x.mean(1, keepdims=True), 1e-5, 1e-6)
        np.testing.assert_allclose(spread, x.var(1, keepdims=True), 1e-5)


def test_equal_elements_have_variance_0():
    mean, spread = pair("_moments", {"x": np.full((2, 333, 16), 0.1, "float32")}, (1,))
    assert (mean == np.float32(0.1)).all() and (spread >= 0).all() and spread.max() < 1e-15


def head_of(shape: tuple[int, ...]) -> np.ndarray:
    """A head gradient that has nothing to do with the data."""
    return drawn(shape, 0.3)[::-1].copy()


def step_of(layer: nn.BatchNorm, data: np.ndarray) -> list[np.ndarray]:
    x = nd.array(data)
    x.attach_grad()
    with autograd.record():
        y = layer(x)
    y.backward(nd.array(head_of(data.shape)))
    return [a.asnumpy() for a in (y, x.grad, layer.gamma.grad(), layer.beta.grad())]


def test_batch_norm_has_the_same_bits_on_any_number_of_threads():
    before, data, found = hybridjit.get_num_threads(), drawn((5, 24, 30, 31), 7.0), []
    try:
        for threads in (1, 2, 3):
            hybridjit.set_num_threads(threads)
            layer = nn.BatchNorm()
            layer.initialize()
            layer.hybridize()
            found.append(step_of(layer, data))
    finally:
        hybridjit.set_num_threads(before)
    for others in found[1:]:
        for one, other in zip(found[0], others):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("axis, shape", [(1, (4, 24, 30, 31)), (-1, (4, 17, 9)), (1, (40, 33))])
def test_batch_norm_of_a_large_mean_is_float64s(axis: int, shape: tuple[int, ...]):
    """To half a unit in the last place of a float32 mean, for a deviation of 1."""
    data = drawn(shape, 1e4)
    layer = nn.BatchNorm(axis=axis)
    layer.initialize()
    layer.hybridize()
    y, dx, dgamma, dbeta = step_of(layer, data)
    others = tuple(i for i in range(len(shape)) if i != axis % len(shape))
    x, d = data.astype("float64"), head_of(shape).astype("float64")
    n = (x - x.mean(others, keepdims=True)) / np.sqrt(x.var(others, keepdims=True) + 1e-5)
    scale = 1 / np.sqrt(x.var(others, keepdims=True) + 1e-5)
    slope = (d * n).mean(others, keepdims=True)
    wanted = scale * (d - d.mean(others, keepdims=True) - n * slope)
    assert np.abs(y - n).max() <= 1e-3
    assert np.abs(dx - wanted).max() <= 1e-3 * np.abs(wanted).max()
    assert np.abs(dgamma - (d * n).sum(others)).max() <= 1e-3 * np.abs(d).sum(others).max()
    np.testing.assert_allclose(dbeta, d.sum(others), 1e-5)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_statistics_of_many_rows_are_right(is_compiled: bool):
    """Sums of 70,000 equal numbers, one after the other, are off by 6e-4 in float32."""
    norm = nn.BatchNorm(in_channels=3, momentum=0.0)
    norm.initialize()
    norm.hybridize(is_compiled)
    with autograd.record():
        y = norm(nd.full((70_000, 3), 3.7))
    y.backward()
    assert np.abs(y.asnumpy()).max() < 1e-3
    np.testing.assert_allclose(norm.running_mean.data().asnumpy(), 3.7, 1e-6)


def test_normalising_the_first_axis_equals_the_last_transposed():
    x = drawn((70_000, 2), 100.0)
    gamma, beta = nd.ones((70_000,)), nd.zeros((70_000,))
    rows = nd.LayerNorm(nd.array(x), gamma, beta, axis=0).asnumpy()
    columns = nd.LayerNorm(nd.array(x.T), gamma, beta, axis=1).asnumpy()
    np.testing.assert_allclose(rows, columns.T, 0, 1e-4)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_sum_beyond_float32_has_an_infinite_mean(axis):
    """MXNet: infinity, eager and hybridized; float16 and float64 hold their means."""
    for dtype, wanted in (("float32", np.inf), ("float64", 3e38), ("float16", 6e4)):
        x = nd.full((4, 8), 6e4 if dtype == "float16" else 3e38, dtype=dtype)
        for active in (False, True):
            net = nn.HybridLambda(lambda F, x: F.mean(x, axis=axis))
            net.hybridize(active)
            np.testing.assert_allclose(net(x).asnumpy(), wanted, rtol=1e-3)

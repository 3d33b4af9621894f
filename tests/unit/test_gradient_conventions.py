"""Gradients at kinks, ties, zeros, infinities and NaN: MXNet's conventions, verified there.

Each line is an operator's call on points, and MXNet 1.9.1's gradient for output gradients of ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hybridjit import autograd, cpu, gluon, nd, sym
from hybridjit.nd.ndarray import invoke
from hybridjit.ops import lookup

inf, nan = np.inf, np.nan

# name or (name, attributes): points, gradients
UNARY = [
    ("relu", [-1, 0, 2, nan], [0, 0, 1, nan]),
    (("Activation", {"act_type": "relu"}), [-1, 0, 2, nan], [0, 0, 1, 0]),
    ("abs", [-2, 0, 3, nan, -inf], [-1, 0, 1, 0, -1]),
    ("sign", [-2, 0, nan], [0, 0, 0]),
    ("round", [0.5, 1.2, nan], [0, 0, 0]),
    ("floor", [1, 1.5], [0, 0]),
    ("logical_not", [0, 1], [0, 0]),
    ("hard_sigmoid", [-3, -2.5, 0, 2.5, 3], [0, 0, 0.2, 0, 0]),
    (("clip", {"a_min": -1, "a_max": 2}), [-2, -1, 0, 2, 3, nan], [0, 1, 1, 1, 0, 1]),
    (("smooth_l1", {"scalar": 2}), [-1, -0.25, 0.1, 0.25, 9], [-1, -1, 0.4, 1, 1]),
    ("sqrt", [0, -0.0, 4, -1], [inf, -inf, 0.25, nan]),
    ("rsqrt", [0, -0.0, 4, -1, inf], [-inf, -inf, -1 / 16, nan, 0]),
    ("cbrt", [0, 8, -8], [inf, 1 / 12, 1 / 12]),
    ("rcbrt", [0, 8, -8], [-inf, -1 / 48, -1 / 48]),
    ("log", [0, -2, 4], [inf, -0.5, 0.25]),
    ("log2", [0, -2], [inf, -0.5 / np.log(2)]),
    ("log10", [0, -2], [inf, -0.5 / np.log(10)]),
    ("log1p", [-1, 1], [inf, 0.5]),
    ("reciprocal", [0, 2, inf], [-inf, -0.25, 0]),
    ("arcsin", [-1, 1, 2, 0], [inf, inf, nan, 1]),
    ("arccos", [-1, 1, 2, 0], [-inf, -inf, nan, -1]),
    ("arccosh", [1, 0], [inf, nan]),
    ("arctanh", [1, 2, 0], [inf, -1 / 3, 1]),
    ("erfinv", [-1, 1], [inf, inf]),
    ("gammaln", [0, -1, -2.5, inf, -inf, 1], [inf, inf, 1.1031566, inf, inf, -0.5772157]),
    ("gamma", [0, -0.0, -1, 1], [inf, -inf, nan, -0.5772157]),
    ("softsign", [-inf, -1, 0, inf, nan], [0, 0.25, 1, 0, nan]),
    (("Activation", {"act_type": "softsign"}), [-inf, 1], [0, 0.25]),
    (("Activation", {"act_type": "softrelu"}), [-inf, 0, inf, nan], [0, 0.5, 1, nan]),
    ("sigmoid", [-inf, 0, inf, nan], [0, 0.25, 0, nan]),
    ("tanh", [-inf, 0, inf, nan], [0, 1, 0, nan]),
    (("LeakyReLU", {"act_type": "leaky"}), [-1, 0, 2, nan], [0.25, 0.25, 1, 1]),
    (("LeakyReLU", {"act_type": "elu"}), [-inf, 0, 2, nan], [0, 0.25, 1, 1]),
    (("LeakyReLU", {"act_type": "selu"}), [0, 2], [1.7580993, 1.050701]),
    (("LeakyReLU", {"act_type": "gelu"}), [0], [0.5]),
    ("_contrib_round_ste", [0.3, nan], [1, 1]),
    ("_contrib_sign_ste", [0, -5], [1, 1]),
    (("_contrib_gradientmultiplier", {"scalar": -3}), [1, nan], [-3, -3]),
    (("_contrib_quadratic", {"a": 1, "b": 2, "c": 3}), [0, 2], [2, 6]),
    ("zeros_like", [1, nan], [0, 0]),
    ("_copy", [nan, 0], [1, 1]),
]

SCALAR = [
    (("_maximum_scalar", {"scalar": 1}), [0, 1, 2, nan], [0, 1, 1, 0]),
    (("_minimum_scalar", {"scalar": 1}), [0, 1, 2, nan], [1, 1, 0, 0]),
    (("_mod_scalar", {"scalar": 2}), [5, -5], [1, 1]),
    (("_rmod_scalar", {"scalar": 5}), [2, -2], [-2, 3]),
    (("_power_scalar", {"scalar": 0}), [0, 2], [nan, 0]),
    (("_power_scalar", {"scalar": 0.5}), [0, 4], [inf, 0.25]),
    (("_rpower_scalar", {"scalar": 1}), [-2, 3], [0, 0]),
    (("_rpower_scalar", {"scalar": -2}), [1, 2], [nan, nan]),
    (("_rpower_scalar", {"scalar": 0}), [0, 2], [-inf, nan]),
    (("_equal_scalar", {"scalar": 1}), [1, 2], [0, 0]),
]

# name: first operands, second operands, gradients of either
BINARY = [
    ("broadcast_maximum", [1, 2, 0, nan, 1], [1, 1, 1, 1, nan], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0]),
    ("broadcast_minimum", [1, 2, 0, nan, 1], [1, 1, 1, 1, nan], [1, 0, 1, 0, 0], [0, 1, 0, 0, 0]),
    ("_maximum", [1, 0], [1, 1], [1, 0], [0, 1]),
    ("broadcast_mod", [5, -5, 1], [2, 2, 0], [1, 1, 1], [-2, 3, -inf]),
    ("broadcast_power", [2, 0, 0, -2], [3, 2, 0, 2], [12, 0, nan, -4], [5.5451775, nan, -inf, nan]),
    ("broadcast_hypot", [3, 0], [4, 0], [0.6, nan], [0.8, nan]),
    ("broadcast_div", [1, 1, 0], [2, 0, 0], [0.5, inf, inf], [-0.25, -inf, nan]),
    ("broadcast_greater", [1, 2], [1, 1], [0, 0], [0, 0]),
    ("broadcast_logical_and", [1, 0], [1, 1], [0, 0], [0, 0]),
]

REDUCED = [
    (("max", {"axis": 1}), [2, 2, 1], [1, 1, 0]),
    (("max", {"axis": 1}), [nan, 2, 1], [0, 0, 0]),
    (("min", {"axis": 1}), [2, 1, 1], [0, 1, 1]),
    (("mean", {"axis": 1}), [2, 1, 1, 5], [0.25, 0.25, 0.25, 0.25]),
    (("nansum", {"axis": 1}), [nan, 2], [0, 1]),
    (("prod", {"axis": 1}), [0, 2, 3], [nan, 0, 0]),
    (("nanprod", {"axis": 1}), [nan, 2, 3], [0, 3, 2]),
    (("norm", {"axis": 1}), [0, 0], [nan, nan]),
    (("norm", {"axis": 1, "ord": 1}), [-3, 0, 2], [-1, 0, 1]),
]

INDEXED = [
    ("take", [1, 2, 3], [[2, 2], [0, -7]], [2, 0, 2]),
    (("take", {"mode": "wrap"}), [1, 2, 3], [[-1, 3]], [1, 0, 1]),
    ("scatter_nd", [1, 2], [[1, 1]], [1, 1]),
    ("gather_nd", [1, 2, 3], [[0, 0, 2]], [2, 0, 1]),
]


def gradients(call, *operands: np.ndarray) -> list[np.ndarray]:
    name, attrs = call if isinstance(call, tuple) else (call, {})
    xs = [nd.array(np.asarray(x, np.float32)) for x in operands]
    for x in xs:
        x.attach_grad()
    with autograd.record():
        y = invoke(lookup(name), xs, attrs)
    y.backward()
    return [x.grad.asnumpy() for x in xs]


@pytest.mark.parametrize("call, points, wanted", UNARY + SCALAR, ids=lambda v: str(v))
def test_of_one_number(call, points, wanted):
    (found,) = gradients(call, points)
    np.testing.assert_allclose(found, np.float32(wanted), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name, lhs, rhs, by_lhs, by_rhs", BINARY)
def test_of_two_numbers(name, lhs, rhs, by_lhs, by_rhs):
    found = gradients(name, lhs, rhs)
    for side, wanted in zip(found, (by_lhs, by_rhs)):
        np.testing.assert_allclose(side, np.float32(wanted), rtol=1e-5)


@pytest.mark.parametrize("call, row, wanted", REDUCED)
def test_of_a_row(call, row, wanted):
    (found,) = gradients(call, [row])
    np.testing.assert_allclose(found, np.float32([wanted]), rtol=1e-6)


@pytest.mark.parametrize("call, data, indices, wanted", INDEXED)
def test_of_selected_elements(call, data, indices, wanted):
    call = ("scatter_nd", {"shape": (3,)}) if call == "scatter_nd" else call
    by_data, by_indices = gradients(call, data, indices)
    np.testing.assert_array_equal(by_data, wanted)
    assert not by_indices.any()


def test_the_condition_of_where_has_none():
    found = gradients("where", [0, 1, nan, -1], [1, 2, 3, 4], [1, 2, 3, nan])
    assert [d.tolist() for d in found] == [[0, 0, 0, 0], [0, 1, 1, 1], [1, 0, 0, 0]]


def test_gradients_pass_through_whole_numbers():
    """Each cast passes gradients on in its operand's type."""
    x = nd.array([0.5, 1.5])
    x.attach_grad()
    with autograd.record():
        y = x.astype("int32").astype("float32") * 3
    y.backward()
    assert x.grad.asnumpy().tolist() == [3, 3]


class Result(gluon.HybridBlock):
    """A network of one function."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self._function = function

    def hybrid_forward(self, F, x):
        return self._function(F, x)


@pytest.mark.parametrize("hybridized", [False, True])
def test_head_gradients_of_whole_numbers_are_passed_on(hybridized: bool):
    net = Result(lambda F, x: [x * 2, F.Cast(x, dtype="int8")])
    net.hybridize(hybridized)
    x = nd.array([1.5, 2.5])
    x.attach_grad()
    with autograd.record():
        outputs = net(x)
    autograd.backward(outputs, [nd.array([1, 2]), nd.array([3, 4], dtype="int8")])
    assert x.grad.asnumpy().tolist() == [5, 8]


@pytest.mark.parametrize("hybridized", [False, True])
def test_whole_numbers_have_gradients_of_whole_numbers(hybridized: bool):
    net = Result(lambda F, x: F.Cast(x * x, dtype="float32") * 1.6)
    net.hybridize(hybridized)
    x = nd.array([1, 3], dtype="int32")
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward(nd.array([3, 3]))
    assert x.grad.dtype == np.int32
    assert x.grad.asnumpy().tolist() == [8, 24]


def test_sparseness_pulls_averages_towards_the_target():
    """Each backward pass moves the average before it reads it; the numbers are MXNet's."""
    made = sym.IdentityAttachKLSparseReg(
        sym.var("x"), penalty=0.1, sparseness_target=0.2, momentum=0.6
    )
    x = nd.array([[0.5, 0.25], [0.25, 0.75]])
    average, grad = nd.array([0.3, 0.4]), nd.zeros((2, 2))
    bound = made.bind(cpu(), {"x": x}, {"x": grad}, aux_states=[average])
    for moved, slope in (([0.33, 0.44], 1.0587969), ([0.348, 0.464], 1.0652285)):
        bound.forward(is_train=True)
        bound.backward([nd.ones((2, 2))])
        np.testing.assert_allclose(average.asnumpy(), moved, rtol=1e-6)
        np.testing.assert_allclose(grad.asnumpy()[:, 0], slope, rtol=1e-6)


def test_singular_matrices_have_gradients_of_zeros():
    matrices = [[[1, 2], [2, 4]], [[1, 2], [3, 4]]]
    (found,) = gradients("_linalg_det", matrices)
    np.testing.assert_allclose(found, [[[0, 0], [0, 0]], [[4, -3], [-2, 1]]], atol=1e-5)

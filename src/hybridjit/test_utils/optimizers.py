"""Comparison of two optimizers on the same weights and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import nd
from .._core.types import DType, Shape
from ..nd import NDArray
from ..optimizer.base import State
from .comparing import Tolerance, assert_almost_equal
from .examples import rand_ndarray

if TYPE_CHECKING:
    from ..optimizer import Optimizer


def compare_ndarray_tuple(
    t1: State, t2: State, rtol: Tolerance = None, atol: Tolerance = None
) -> None:
    """Compare arrays, or equally nested tuples of them. Raises AssertionError."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, (tuple, list)):
        for one, other in zip(t1, t2):
            compare_ndarray_tuple(one, other, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol, atol)


def compare_optimizer(
    opt1: Optimizer,
    opt2: Optimizer,
    shapes: Shape | Sequence[Shape],
    dtype: DType,
    w_stype: str = "default",
    g_stype: str = "default",
    rtol: float = 1e-4,
    atol: float = 1e-5,
    compare_states: bool = True,
    ntensors: int = 1,
) -> None:
    """Compare one step of each from the same random weights, gradients and initial states.

    The first optimizer has dense arrays; arrays of the second have ``w_stype`` and ``g_stype``.
    ``shapes`` is the shape of a weight, or a list of shapes of ``ntensors`` weights for one call.
    Raises AssertionError if weights or states differ.
    """
    several = isinstance(shapes, list)
    sizes: list[Any] = list(shapes)[:ntensors] if several else [shapes]
    weights = [nd.random.uniform(-1, 1, shape=size, dtype=dtype) for size in sizes]
    slopes = [rand_ndarray(size, g_stype, dtype=dtype) for size in sizes]
    found = []
    for optimizer, stored, given in ((opt1, "default", "default"), (opt2, w_stype, g_stype)):
        own = [weight.tostype(stored) for weight in weights]
        grads = [slope.tostype(given) for slope in slopes]
        states = [optimizer.create_state_multi_precision(i, w) for i, w in enumerate(own)]
        found.append((own, states))
        _step(optimizer, own, grads, states, several)
    (first, first_states), (second, second_states) = found
    if compare_states:
        compare_ndarray_tuple(first_states, second_states, rtol, atol)
    for one, other in zip(first, second):
        assert_almost_equal(one, other, rtol, atol)


def _step(
    optimizer: Optimizer,
    weights: list[NDArray],
    grads: list[NDArray],
    states: list[State],
    several: bool,
) -> None:
    if several:
        optimizer.update_multi_precision(list(range(len(weights))), weights, grads, states)
    else:
        optimizer.update_multi_precision(0, weights[0], grads[0], states[0])

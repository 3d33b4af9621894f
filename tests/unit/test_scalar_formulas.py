"""The two meanings of every pointwise operator against each other: NumPy's and the scalar one.

Both are run over the operator's domain and over all the special values of float32, for two
operands over all pairs of them.
"""

from __future__ import annotations

import numpy as np
import pytest

from hybridjit.ops import all_ops, run_ref
from hybridjit.ops.scalars import Scalars
from samples import ELEMENTWISE_ATTRS

# fmt: off
SPECIAL = np.array([
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, -3.5,
    0.49999997, -0.49999997, 0.50000006, 0.99999994, 1.0000001, 3.0, -3.0, 6.0, 7.0, -7.0,
    8388607.5, 8388609.0, -8388607.5, 16777216.0, 2147483648.0, -2147483648.0,
    1e-45, -1e-45, 1e-39, -1e-39, 1.1754944e-38, 1e-30, -1e-30, 1e-7, -1e-7, 1e-4, -1e-4,
    20.0, -20.0, 88.0, -88.0, 89.5, -89.5, 104.0, -104.0, 1e4, -1e4, 1e19, -1e19, 3e38, -3e38,
], np.float32)
# fmt: on
ULPS = 4
SINGLE = Scalars(np.dtype(np.float32))
# Units in the last place of 1, where the formula itself cancels: near a root away from zero, or
# 1 + erf(x) far below zero, a relative difference means nothing.
CANCELS = {"LeakyReLU-gelu": 4, "_contrib_quadratic": 64, "hard_sigmoid": 4}

# A cast has no formula: its operand has the result's type already.
CASTS = ("Cast", "amp_cast", "_to_bfloat16", "_from_bfloat16")
LEFT_OUT = (*CASTS, "_mixed_bits")  # of int32 alone: tests/unit/test_dropping.py compares it
SCALAR_OPS = [op for op in all_ops() if op.scalar is not None and op.name not in LEFT_OUT]
CASES = [
    pytest.param(op, text, id="-".join([op.name, *text.values()]))
    for op in SCALAR_OPS
    for text in ELEMENTWISE_ATTRS.get(op.name, [{}])
]


def operands(op, count: int) -> list[np.ndarray]:
    """Values over the domain followed by all special ones; for several operands all pairs."""
    random = np.random.default_rng(1)
    low, high = op.domain
    if count == 1:
        return [np.concatenate([np.linspace(low, high, 4001, dtype=np.float32), SPECIAL])]
    pairs = np.meshgrid(SPECIAL, SPECIAL)
    drawn = random.uniform(low, high, (count, 2000)).astype(np.float32)
    wrapped = [pairs[i % 2].ravel() for i in range(count)]
    return [np.concatenate([d, w]) for d, w in zip(drawn, wrapped)]


def assert_same(found: np.ndarray, wanted: np.ndarray, inputs, slack: float) -> None:
    wanted = wanted.astype(np.float32) if wanted.dtype.itemsize == 1 else wanted
    assert found.dtype == wanted.dtype == np.float32
    with np.errstate(all="ignore"):
        far = np.abs(found.astype(np.float64) - wanted)
        allowed = ULPS * np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
        bad = ~((found == wanted) | (np.isnan(found) & np.isnan(wanted)))
        bad &= ~(far <= np.maximum(allowed, slack * 2.0**-23))
    rows = list(zip(*(x[bad][:8] for x in (*inputs, found, wanted))))
    way = "a formula that cancels there belongs into CANCELS"
    assert not bad.any(), f"{bad.sum()} differ; operands, scalar, reference: {rows}; {way}"


@pytest.mark.parametrize("op, text", CASES)
def test_scalar_means_the_same_as_the_reference(op, text):
    attrs = op.parse(text)
    inputs = operands(op, len(op.input_names(attrs)))
    (wanted,) = run_ref(op, inputs, attrs)
    with np.errstate(all="ignore"):
        found = np.broadcast_to(op.scalar(SINGLE, *inputs, **attrs), wanted.shape)
    slack = CANCELS.get("-".join([op.name, *text.values()]), CANCELS.get(op.name, 0))
    assert_same(found, wanted, inputs, slack)


def test_prelu_takes_gamma_as_a_second_value():
    op = next(op for op in SCALAR_OPS if op.name == "LeakyReLU")
    attrs = op.parse({"act_type": "prelu"})
    x = np.stack([SPECIAL] * 3, axis=1)
    gamma = np.array([0.25, -2.0, 0.0], np.float32)
    (wanted,) = run_ref(op, [x, gamma], attrs)
    with np.errstate(all="ignore"):
        found = op.scalar(SINGLE, x, np.broadcast_to(gamma, x.shape), **attrs)
    np.testing.assert_array_equal(found, wanted)


def test_kernel_and_scalar_agree():
    """A pointwise operator has a scalar formula, and nothing else but a view of other bits has."""
    for op in all_ops():
        has_formula = op.is_pointwise or op.name == "_from_bfloat16"
        assert has_formula == (op.scalar is not None), op.name


def test_a_wrong_formula_is_found():
    """The comparison must notice a formula that forgets NaN."""
    op = next(op for op in SCALAR_OPS if op.name == "relu")
    (inputs,) = operands(op, 1)
    wrong = np.where(inputs > 0, inputs, np.float32(0))
    with pytest.raises(AssertionError, match="1 differ"):
        assert_same(wrong, run_ref(op, [inputs], {})[0], [inputs], 0)

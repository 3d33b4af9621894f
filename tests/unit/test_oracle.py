"""The NumPy references against loops written from the definitions (``oracle.py``)."""

from __future__ import annotations

import numpy as np
import pytest

from hybridjit._core.types import product
from hybridjit.ops import lookup, run_ref
from oracle import ORACLES
from samples import samples
from sampling import Sample

# Rounding of the result's own type, a few operations deep.
TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-12}
LARGEST = 120_000  # inner steps that a loop in Python does in well under a second


def steps(name: str, sample: Sample) -> int:
    """How often the oracle's innermost line runs, within a factor of two."""
    data, *others = (product(a.shape) for a in sample.arrays)
    if name in ("Convolution", "Deconvolution", "FullyConnected", "dot", "batch_dot"):
        return data * others[0] // max(1, min(sample.arrays[1].shape[0], data))
    return data * 9


CASES = [
    pytest.param(name, sample, id=f"{name}-{sample.name}")
    for name in ORACLES
    for sample in samples(lookup(name))
    if steps(name, sample) <= LARGEST
]


@pytest.mark.parametrize("name, sample", CASES)
def test_reference_matches_definition(name: str, sample: Sample):
    op = lookup(name)
    attrs = op.parse(sample.attrs)
    found = run_ref(op, list(sample.arrays), attrs)[0]
    wanted = ORACLES[name](*sample.arrays, **attrs)
    tolerance = TOLERANCE[min(found.dtype, sample.arrays[0].dtype, key=lambda t: t.itemsize).name]
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ORACLES)
def test_enough_samples_are_small(name):
    assert sum(case.values[0] == name for case in CASES) >= 6


def test_the_comparison_can_fail():
    """A reference that forgets the padding must not pass for the definition."""
    op = lookup("Convolution")
    sample = next(s for s in samples(op) if s.attrs.get("pad") == "(1, 1)")
    attrs = op.parse(sample.attrs)
    wanted = ORACLES["Convolution"](*sample.arrays, **attrs)
    found = run_ref(op, list(sample.arrays), attrs)[0]
    unpadded = run_ref(op, list(sample.arrays), {**attrs, "pad": ()})[0]
    assert unpadded.shape != wanted.shape
    assert not np.allclose(np.roll(found, 1, axis=-1), wanted, atol=1e-3)

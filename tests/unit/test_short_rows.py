"""Rows that are shorter than a vector, one of whose operands serves all rows."""

from __future__ import annotations

import numpy as np
import pytest

from hybridjit import gluon, nd


class Chosen(gluon.HybridBlock):
    """One row for all, or each its own."""

    def hybrid_forward(self, F, condition, own, shared):
        return F.where(condition, own, F.tile(shared, (3, 1)))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "int64", "uint8"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17])
def test_a_choice_in_short_rows(size, dtype):
    random = np.random.default_rng(size)
    condition = random.integers(0, 2, (3, size))
    own, shared = (random.integers(1, 99, shape) for shape in ((3, size), (1, size)))
    net = Chosen()
    net.hybridize()
    found = net(*(nd.array(array, dtype=dtype) for array in (condition, own, shared)))
    np.testing.assert_array_equal(found.asnumpy(), np.where(condition, own, shared))

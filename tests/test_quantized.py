"""Products of bytes and conversions to bytes: exact, and the same in files and on every CPU."""

from __future__ import annotations

import numpy as np

from hybridjit.ops import lookup, run_ref


def test_sums_of_bytes_are_exact_where_float32_is_not():
    """66,000 products of the largest bytes: more than 2**24, and less than 2**31."""
    data = np.full((1, 66_000), 255, np.uint8)
    weight = np.full((1, 66_000), 127, np.int8)
    weight[0, 0] = 126
    op = lookup("_integer_dense")
    attrs = op.parse({"num_hidden": "1", "no_bias": "True"})
    (found,) = run_ref(op, [data, weight], attrs)
    assert found.tolist() == [[255 * 127 * 66_000 - 255]]


def test_outside_of_the_data_bytes_are_the_zero_point():
    data = np.full((1, 1, 3, 3), 100, np.uint8)
    weight = np.ones((1, 1, 3, 3), np.int8)
    op = lookup("_integer_convolution")
    text = {"kernel": "(3, 3)", "pad": "(1, 1)", "num_filter": "1", "no_bias": "True"}
    (found,) = run_ref(op, [data, weight], op.parse({**text, "zero": "90"}))
    assert found[0, 0].tolist() == [[40, 60, 40], [60, 90, 60], [40, 60, 40]]

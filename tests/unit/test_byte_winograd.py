"""Layers of bytes by Winograd's algorithm: the integers of direct sums, for any values."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import hybridjit as mx
from compiling import call, compiled, run_reference, var
from hybridjit._core.config import override
from hybridjit.codegen.kinds.byte_winograd import choose
from hybridjit.codegen.kinds.byte_winograd.spec import (
    FILTER_MATRIX,
    MOST_CHANNELS,
    ByteWinogradSpec,
)
from neighbours import Network, of_bytes

TARGETS = ["native", "avx512", "avx2", "sse2"]
# Rows of the transform of data, and of that of products, which F(4x4, 3x3) has for these points.
DATA_MATRIX = [
    [4, 0, -5, 0, 1, 0],
    [0, -4, -4, 1, 1, 0],
    [0, 4, -4, -1, 1, 0],
    [0, -2, -1, 2, 1, 0],
    [0, 2, -1, -2, 1, 0],
    [0, 4, 0, -5, 0, 1],
]
RESULT_MATRIX = [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 3]]
LARGE, SHORT = np.iinfo(np.int16), 3  # of a line of the weights
# Filters, shape of the data, padding: whole tiles, parts of tiles, several parts of channels.
LAYERS = {
    "whole tiles": (32, (1, 16, 16, 32), (1, 1)),
    "parts of tiles, odd filters": (37, (2, 7, 10, 48), (1, 1)),
    "far padding": (16, (1, 5, 6, 16), (2, 2)),
    "no padding": (20, (1, 9, 7, 16), (0, 0)),
    "two parts": (33, (1, 6, 5, 256), (1, 1)),
    "four parts": (16, (1, 4, 4, 512), (1, 1)),
}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_gains", lambda layer, target: True)


def sums_of(filters: int, shape: tuple[int, ...], pad: tuple[int, int]) -> Network:
    """Sums of a 3x3 layer with a bias, in int32."""
    random = np.random.default_rng(filters)
    arrays = {
        "x": random.integers(0, 256, shape).astype(np.uint8),
        "w": random.integers(-128, 128, (filters, 3, 3, shape[-1])).astype(np.int8),
        "b": random.integers(-9999, 9999, filters).astype(np.int32),
    }
    how = {"kernel": (3, 3), "pad": pad, "num_filter": filters, "layout": "NHWC"}
    made = call("_integer_convolution", var("x"), var("w"), var("b"), name="layer", **how)
    return Network([made], arrays, ["w", "b"])


def specs_of(net: Network) -> list[ByteWinogradSpec]:
    calls = compiled(net.outputs, net.arrays, net.params).code.calls
    return [c.spec for row in calls for c in row if isinstance(c.spec, ByteWinogradSpec)]


def assert_exact(net: Network, target: str) -> None:
    with override(target=target):
        assert len(specs_of(net)) == 1
        found = compiled(net.outputs, net.arrays, net.params)(net.inputs)[0]
    np.testing.assert_array_equal(found, run_reference(net.outputs, net.arrays)[0])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LAYERS)
def test_sums_are_those_of_the_reference(always, name, target):
    assert_exact(sums_of(*LAYERS[name]), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("channels", [224, 512])
@pytest.mark.parametrize("weights", [(-128, -128), (127, 127), (127, -128)])
def test_largest_sums_are_exact(always, weights, channels, target):
    """224 channels are nearly the most whose sums are known; weights change from tap to tap."""
    net = sums_of(16, (1, 6, 6, channels), (1, 1))
    net.arrays["x"][...] = 255
    net.arrays["w"].reshape(-1, 9, channels)[:, ::2] = weights[0]
    net.arrays["w"].reshape(-1, 9, channels)[:, 1::2] = weights[1]
    assert_exact(net, target)


def test_data_and_filters_at_points_fit_into_16_bits():
    for matrix, low, high in ((DATA_MATRIX, 0, 255), (FILTER_MATRIX, -128, 127)):
        for row, column in product(matrix, matrix):
            factors = np.outer(row, column)
            up, down = factors.clip(min=0).sum(), -factors.clip(max=0).sum()
            assert up * high - down * low <= LARGE.max and up * low - down * high >= LARGE.min


def test_results_are_sums_times_nine_times_64():
    """The three matrices are those of the algorithm."""
    for x, w, result in np.ndindex(6, SHORT, 4):
        points = np.array(DATA_MATRIX)[:, x] * np.array(FILTER_MATRIX)[:, w]
        assert RESULT_MATRIX[result] @ points == 24 * (x == result + w)


def test_sums_of_a_part_are_known_modulo_2_to_the_26():
    assert 9 * MOST_CHANNELS * 255 * 128 < 2**26 <= 9 * (MOST_CHANNELS + 1) * 255 * 128
    assert [choose.parts_of(n, 16) for n in (16, 224, 240, 256, 320, 512)] == [1, 1, 3, 2, 2, 4]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_and_places_in_a_batch_give_the_same_bits(always, threads):
    net, before = of_bytes(64, (3, 18, 13, 64), pad=(1, 1)), mx.get_num_threads()
    right = run_reference(net.outputs, net.arrays)[0]
    try:
        mx.set_num_threads(threads)
        executable = compiled(net.outputs, net.arrays, net.params)
        np.testing.assert_array_equal(executable(net.inputs)[0], right)
        turned = [np.ascontiguousarray(net.inputs[0][::-1])]
        np.testing.assert_array_equal(executable(turned)[0], right[::-1])
    finally:
        mx.set_num_threads(before)


@pytest.mark.parametrize("target", ["avx512", "avx2"])
def test_it_computes_wide_layers_at_stride_1(target):
    with override(target=target):
        for filters, shape in ((64, (1, 56, 56, 64)), (128, (1, 28, 28, 128))):
            (spec,) = specs_of(of_bytes(filters, shape, pad=(1, 1)))
            assert spec.tiles >= 12 and spec.rows * spec.of_part * 2 * 36 < 1 << 20
        others = [
            of_bytes(512, (1, 7, 7, 512), pad=(1, 1)),  # filters at points would be 19 MB
            of_bytes(64, (1, 56, 56, 64), pad=(1, 1), stride=(2, 2)),
            of_bytes(64, (1, 56, 56, 64), pad=(2, 2), dilate=(2, 2)),
            of_bytes(64, (1, 56, 56, 64), pad=(1, 1), num_group=2),
            of_bytes(64, (1, 56, 56, 20), pad=(1, 1)),
        ]
        assert [specs_of(net) for net in others] == [[]] * len(others)
        live = of_bytes(64, (1, 56, 56, 64), pad=(1, 1))
        assert specs_of(Network(live.outputs, live.arrays, [])) == []
    with override(target=target, skip=("winograd",)):
        assert specs_of(live) == []

"""Layers of every kind give the same bits for any number of threads and any place in a batch."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import guarded
from compiling import AVAILABLE, call, compiled, var
from hybridjit import override
from hybridjit.ir.node import Output
from neighbours import LAYERS, Network, network

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="guarded memory is Linux's")

KINDS = (
    "deconv", "deconv-depthwise", "lstm", "gru", "rnn", "layer-norm-across", "instance-norm",
    "instance-norm-last", "group-norm", "l2-norm", "lrn", "lrn-last", "upsampling", "bilinear",
    "adaptive", "softmax", "global-pool", "conv-strassen", "conv-winograd-groups",
    "dense-strassen", "dense-strassen-places-first",
)  # fmt: skip

# Sums over a batch, and operators whose attributes or operands are of one batch.
OF_ONE_BATCH = (
    "weight", "weight-strided", "weight-blocks", "weight-few", "weight-lines", "weight-grouped",
    "attention", "weight-depthwise", "unpool", "unpool-over", "unpool-average",
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS + OF_ONE_BATCH)
def test_any_number_of_threads(name: str, monkeypatch):
    net = network(*LAYERS[name])
    executable = compiled(net.outputs, net.arrays, net.params)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(guarded, "THREADS", threads)
        outputs = guarded.GuardedRun(executable, at_end=threads == 2)(net.inputs)
        found.append([y.tobytes() for y in outputs])
    assert found[0] == found[1] == found[2]


def of_batch(name: str, count: int) -> tuple[Network, int]:
    """The layer on ``count`` samples, and the axis of samples; parameters do not depend on it."""
    make, shape = LAYERS[name]
    axis = 1 if name in ("lstm", "gru", "rnn", "dense-strassen-places-first") else 0
    return network(make, (*shape[:axis], count, *shape[axis + 1 :])), axis


@pytest.mark.parametrize("name", KINDS)
def test_any_place_in_a_batch(name: str):
    """Sample 6 of 8, which a register tile of 6 leaves over, and alone."""
    many, axis = of_batch(name, 8)
    one, _ = of_batch(name, 1)
    arrays = {
        n: a if n in many.params else np.ascontiguousarray(np.take(a, [6], axis))
        for n, a in many.arrays.items()
    }
    alone = compiled(one.outputs, arrays, one.params)
    whole = compiled(many.outputs, many.arrays, many.params)
    (small,) = alone([a for n, a in arrays.items() if n not in one.params])
    (large,) = whole(many.inputs)
    assert np.take(large, [6], axis).tobytes() == small.tobytes()


def test_selected_rows_are_the_table_s_own():
    table = np.random.default_rng(0).normal(0, 1, (50, 33)).astype(np.float32)
    at = np.arange(49, -1, -1).astype(np.float32)
    outputs: list[Output] = [call("take", var("x"), var("y"))]
    executable = compiled(outputs, {"x": table, "y": at})
    assert executable([table, at])[0].tobytes() == table[::-1].tobytes()


@pytest.mark.parametrize("size", [5000, 10000, 20000])
def test_a_long_sum_is_the_same_on_one_row_and_on_many(size: int):
    """Dense layers whose sums are sums of sums, with a bias to begin with."""
    random = np.random.default_rng(size)
    shapes = {"x": (4, size), "w": (20, size), "b": (20,)}
    arrays = {n: random.normal(0, 1, s).astype(np.float32) for n, s in shapes.items()}
    outputs = [call("FullyConnected", var("x"), var("w"), var("b"), num_hidden=20)]
    (many,) = compiled(outputs, arrays, ["w", "b"])([arrays["x"]])
    for row, wanted in zip(arrays["x"], many):
        one = {**arrays, "x": row[None]}
        (found,) = compiled(outputs, one, ["w", "b"])([one["x"]])
        assert found[0].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize("name", ["identity", "gelu"])
def test_a_row_is_the_same_among_any_number_of_rows(name: str, target: str):
    """Tiles of every height, with a program that is written once for all of them and without."""
    random = np.random.default_rng(7)
    whole = random.normal(0, 1, (26, 37)).astype(np.float32)
    arrays = {"w": random.normal(0, 1, (40, 37)).astype(np.float32), "b": whole[0, :1].repeat(40)}
    product = call("FullyConnected", var("x"), var("w"), var("b"), num_hidden=40)
    attrs = {"act_type": "gelu"} if name == "gelu" else {}
    outputs = [call("LeakyReLU" if attrs else name, product, **attrs)]
    wanted = None
    with override(target=target):
        for rows in (26, *range(1, 26)):
            x = whole[:rows]
            executable = compiled(outputs, {"x": x, **arrays}, ["w", "b"])
            (found,) = guarded.GuardedRun(executable, at_end=rows % 2 == 0)([x])
            wanted = found if wanted is None else wanted
            assert found.tobytes() == wanted[:rows].tobytes(), f"{rows} rows"

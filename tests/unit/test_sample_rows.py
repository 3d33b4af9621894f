"""Which rows of dense layers are of one sample for sure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiling import call, plan_of, var
from hybridjit.ir.graph import SampleRows
from hybridjit.ir.node import Output, topological
from hybridjit.ops.nn.matrix_products import FULLY_CONNECTED

PLACES, SIZE = 8, 24


def dense(x: Output, name: str = "w") -> Output:
    return call("FullyConnected", x, var(name), num_hidden=SIZE, flatten=False, no_bias=True)


def heads_of(x: Output) -> Output:
    """[batch * heads, places, size of a head]"""
    split = call("reshape", x, shape=(0, 0, 4, 6))
    return call("reshape", call("transpose", split, axes=(0, 2, 1, 3)), shape=(-3, 0, 0))


def attention(x: Output) -> Output:
    heads = heads_of(x)
    scores = call("softmax", call("batch_dot", heads, heads, transpose_b=True))
    split = call("reshape", call("batch_dot", scores, heads), shape=(-4, -1, 4, 0, 0))
    return call("reshape", call("transpose", split, axes=(0, 2, 1, 3)), shape=(0, 0, -1))


def one_of_joined(x: Output) -> Output:
    """One of two parts that lie beside each other in a row, as of joined queries, keys and values,
    on which attention runs."""
    joined = call("reshape", call("Concat", x, x, dim=2, num_args=2), shape=(0, 0, 2, 4, 6))
    part = call("reshape", call("slice_axis", joined, axis=2, begin=1, end=2), shape=(0, 0, -1))
    return attention(part)


def turned(x: Output) -> Output:
    return call("transpose", x, axes=(1, 0, 2))


def mean_of(axis: int) -> Callable[[Output], Output]:
    return lambda x: call("broadcast_sub", x, call("mean", x, axis=axis, keepdims=True))


def mixer(x: Output) -> Output:
    """A dense layer across places, whose results are as many."""
    columns = call("transpose", x, axes=(0, 2, 1))
    mixed = call(
        "FullyConnected", columns, var("m"), num_hidden=PLACES, flatten=False, no_bias=True
    )
    return call("elemwise_add", x, call("transpose", mixed, axes=(0, 2, 1)))


def patches(x: Output) -> Output:
    images = call("reshape", call("transpose", x, axes=(0, 2, 1)), shape=(0, 0, 2, 4))
    y = call("Convolution", images, var("k"), kernel=(1, 1), num_filter=SIZE, no_bias=True)
    return call("transpose", call("reshape", y, shape=(0, 0, -1)), axes=(0, 2, 1))


def one_more(x: Output) -> Output:
    return attention_on(
        call("Concat", call("slice_axis", x, axis=1, begin=0, end=1), x, dim=1, num_args=2)
    )


def attention_on(x: Output) -> Output:
    scores = call("softmax", call("batch_dot", x, x, transpose_b=True))
    return call("batch_dot", scores, x)


def interleaved(x: Output) -> Output:
    """Attention on places that come first, of parts that lie head by head."""
    scores = call("softmax", call("_contrib_interleaved_matmul_selfatt_qk", x, heads=2))
    values = call("_contrib_interleaved_matmul_selfatt_valatt", x, scores, heads=2)
    return call("Concat", values, values, values, dim=2, num_args=3)


def recurrent(x: Output) -> Output:
    weights, state = var("r"), call("zeros_like", call("slice_axis", x, axis=0, begin=0, end=1))
    return call("RNN", x, weights, state, mode="rnn_tanh", state_size=SIZE, num_layers=1)


PARAMS = {"w": (SIZE, SIZE), "m": (PLACES, PLACES), "k": (SIZE, SIZE, 1, 1), "p": (1, PLACES, SIZE)}
PARAMS |= {"r": (2 * SIZE * SIZE + 2 * SIZE,), "v": (SIZE, SIZE // 4)}
BEHIND: dict[str, tuple[Callable[[Output], Output], int]] = {
    "nothing": (lambda x: x, 1),
    "attention": (attention, PLACES),
    "one of joined parts": (one_of_joined, PLACES),
    "mean across places": (mean_of(1), PLACES),
    "mean across channels": (mean_of(2), 1),
    "softmax across channels": (lambda x: call("softmax", x, axis=-1), 1),
    "softmax across places": (lambda x: call("softmax", x, axis=1), PLACES),
    "mixer": (mixer, PLACES),
    "patches": (patches, PLACES),
    "a parameter for each place": (lambda x: call("broadcast_add", x, var("p")), 1),
    "one more place": (one_more, PLACES + 1),
}


PLACES_FIRST: dict[str, Callable[[Output], Output]] = {
    "attention": lambda x: turned(attention(turned(x))),
    "interleaved attention": interleaved,
    "mean across places": mean_of(0),
    "steps": recurrent,
}


def rows_of(outputs: list[Output], *places: int) -> list[SampleRows]:
    """Of the layers in front of ``outputs``, on data of (positions, channels)."""
    names = {n.name for n in topological(outputs) if n.is_variable} - {"x"}
    arrays = {name: np.ones(PARAMS[name], np.float32) for name in names}
    arrays["x"] = np.ones((*places, SIZE), np.float32)
    graph = plan_of(outputs, arrays, [*names]).graph
    layers = [v for v in graph.values if v.op is FULLY_CONNECTED and v.shape[1] == SIZE]
    return [graph.rows_of_sample(layer) for layer in layers]


@pytest.mark.parametrize("batch", [3, 1])
@pytest.mark.parametrize("name", BEHIND)
def test_rows_behind(name: str, batch: int):
    """The same of a batch of one: a sample that is alone has the bits that it has among others."""
    make, expected = BEHIND[name]
    assert rows_of([dense(make(var("x")))], batch, PLACES)[-1] == SampleRows(expected)


@pytest.mark.parametrize("batch", [3, 1])
@pytest.mark.parametrize("name", PLACES_FIRST)
def test_rows_of_adjacent_samples_are_recognised(name: str, batch: int):
    """Rows interleaved by sample, before and after layers over positions."""
    around = dense(PLACES_FIRST[name](dense(var("x"))))
    assert {*rows_of([around], PLACES, batch)} == {SampleRows(PLACES, batch)}


@pytest.mark.parametrize("batch", [3, 1])
def test_rows_between_others(batch: int):
    """Heads may be samples, as outer axes may: their positions are not merged."""
    heads = call("reshape", mean_of(1)(var("x")), shape=(0, 0, 4, 6))
    layer = call("FullyConnected", heads, var("v"), num_hidden=SIZE, flatten=False, no_bias=True)
    assert rows_of([layer], batch, PLACES) == [SampleRows()]


def test_later_layers_constrain_the_axes_of_samples():
    """Every layer of a network has the same axes."""
    first = dense(call("relu", var("x")))
    assert rows_of([first], 3, PLACES) == [SampleRows()]
    assert rows_of([attention(first)], 3, PLACES) == [SampleRows(PLACES)]
    assert rows_of([first, call("sum", first, axis=1)], 3, PLACES) == [SampleRows(PLACES)]

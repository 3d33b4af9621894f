"""Kernels whose operands and results are stored in another element type than they compute in.

float16 is such a type. Passes put casts around float16 layers, so here kernels take it themselves:
without the pass, and with a record of kinds that lets it through.
"""

from __future__ import annotations

import numpy as np
import pytest

from compiling import AVAILABLE, call, compiled, run_reference, var
from hybridjit._core.config import override
from hybridjit._core.target import SINGLE, TYPES_OF, ElementTypes
from hybridjit.ir import kinds

HALF = np.dtype("float16")


def dense(rows, inputs=40, outputs=37):
    x = var("x", (rows, inputs))
    y = call("FullyConnected", x, var("w"), var("b"), num_hidden=outputs)
    return call("Activation", y, act_type="relu"), {
        "x": (rows, inputs),
        "w": (outputs, inputs),
        "b": (outputs,),
    }


def product(batch=2, m=9, n=21, k=33):
    y = call("batch_dot", var("x"), var("w"))
    return y, {"x": (batch, m, k), "w": (batch, k, n)}


def convolution(channels=8, filters=24, groups=1, op="Convolution", **attrs):
    shape = (filters, channels // groups, 3, 3)
    y = call(
        op,
        var("x"),
        var("w"),
        var("b"),
        num_filter=filters,
        num_group=groups,
        kernel=(3, 3),
        **attrs,
    )
    return call("Activation", y, act_type="relu"), {
        "x": (2, channels, 9, 9),
        "w": shape,
        "b": (filters,),
    }


def pooling(kind):
    y = call("Pooling", var("x"), kernel=(3, 3), stride=(2, 2), pool_type=kind)
    return y, {"x": (2, 19, 11, 11)}


def of_one(op, shape, **attrs):
    return call(op, var("x"), **attrs), {"x": shape}


def layer_norm():
    return call("LayerNorm", var("x"), var("g"), var("b")), {"x": (5, 67), "g": (67,), "b": (67,)}


def resized():
    return of_one("_contrib_BilinearResize2D", (1, 5, 7, 7), height=12, width=13)


GRAPHS = {
    "dense_rows": lambda: dense(17),
    "dense_row": lambda: dense(1),
    "product": product,
    "conv": convolution,
    "conv_padded": lambda: convolution(pad=(1, 1), stride=(2, 2)),
    "depthwise": lambda: convolution(channels=24, groups=24, pad=(1, 1)),
    "max_pool": lambda: pooling("max"),
    "mean_pool": lambda: pooling("avg"),
    "layer_norm": layer_norm,
    "l2_norm": lambda: of_one("L2Normalization", (3, 5, 70)),
    "lrn": lambda: of_one("LRN", (2, 11, 5, 5), nsize=5),
    "resize": resized,
    "softmax": lambda: of_one("softmax", (7, 45)),
    "softmax_across": lambda: of_one("log_softmax", (7, 45, 3), axis=1),
}


@pytest.fixture(params=dict.fromkeys((AVAILABLE[0], AVAILABLE[-1])))
def half_in_kernels(request, monkeypatch):
    """Kernels take float16 as they take float32, on each CPU."""
    monkeypatch.setattr(kinds, "STORED", (*kinds.STORED, HALF))
    with override(target=request.param, skip=("lower-float16",)):
        yield


HAVE_WEIGHTS = ("dense_rows", "dense_row", "conv", "conv_padded", "depthwise")
CASES = [*((name, "") for name in GRAPHS), *((name, "wb") for name in HAVE_WEIGHTS)]


@pytest.mark.parametrize("name, fixed", CASES)
def test_float16_is_stored_and_float32_computed(name, fixed, half_in_kernels):
    """With live weights, which kernels pack, and with parameters."""
    output, shapes = GRAPHS[name]()
    random = np.random.default_rng(3)
    arrays = {n: random.uniform(-1, 1, s).astype(HALF) for n, s in shapes.items()}
    params = [n for n in fixed if n in arrays]
    executable = compiled([output], arrays, params)
    on_host = [step.name for step in executable.plan.steps if step.kind == "host"]
    assert not on_host
    found = executable([a for n, a in arrays.items() if n not in params])
    (wanted,) = run_reference([output], arrays)
    assert found[0].dtype == HALF
    np.testing.assert_allclose(found[0].astype(float), wanted.astype(float), rtol=2e-3, atol=2e-3)


def test_texts_name_types_that_differ():
    assert str(SINGLE) == "float32" and str(TYPES_OF["float64"]) == "float64"
    assert str(ElementTypes("float16", "float32", "float64")) == "float16:float32:float64"

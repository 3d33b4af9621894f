"""Traces of gradient rules: results, conditions, and bounds."""

from __future__ import annotations

import numpy as np
import pytest
from test_gradients import COMPARED, is_float

from gradient_cases import CONSTANTS
from hybridjit import autograd, nd
from hybridjit._core.types import TensorType
from hybridjit.nd import traced_rule
from hybridjit.nd.ndarray import ON_NDARRAYS, _owned
from hybridjit.nd.traced_rule import RuleUse, kind_of, trace_for
from hybridjit.ops import OpDef, lookup, run_ref
from hybridjit.ops.gradient import gradients
from samples import Sample, samples

# Operators whose gradient has a size that depends on values: traces know types alone.
SIZED_BY_VALUES = {"_mask_back"}


def taken_apart(op: OpDef, sample: Sample) -> tuple[list, list, list, dict]:
    """The operator's operands, results, output gradients and attributes."""
    attrs, ins = op.parse(sample.attrs), [np.array(a) for a in sample.arrays]
    outs = [np.ascontiguousarray(y) for y in run_ref(op, list(ins), attrs)]
    random = np.random.default_rng(len(sample.name))
    heads = [random.normal(size=y.shape).astype(y.dtype) if is_float(y) else None for y in outs]
    return ins, outs, heads, attrs


def wanted_of(op: OpDef, ins: list) -> list[bool]:
    return [i not in CONSTANTS.get(op.name, ()) for i in range(len(ins))]


def as_ndarrays(arrays: list) -> list:
    return [None if a is None else nd.NDArray(a) for a in arrays]


def trace_of(op: OpDef, ins: list, outs: list, heads: list, attrs: dict):
    """The trace that the second sight of these operands leaves behind."""
    kinds = [tuple(None if d is None else kind_of(d) for d in some) for some in (ins, outs, heads)]
    use = RuleUse(op, tuple(attrs.items()), *kinds, tuple(wanted_of(op, ins)), True)
    trace_for(use)
    return trace_for(use)


@pytest.mark.parametrize("op", COMPARED, ids=lambda op: op.name)
def test_a_trace_gives_the_bits_of_the_rule(op: OpDef):
    traced = 0
    for sample in samples(op):
        ins, outs, heads, attrs = taken_apart(op, sample)
        if not ins or not any(map(is_float, ins)):
            continue
        trace = trace_of(op, ins, outs, heads, attrs)
        if trace is None:
            continue
        traced += 1
        with autograd.train_mode():
            arrays = map(as_ndarrays, (ins, outs, heads))
            wanted = gradients(op, ON_NDARRAYS, *arrays, attrs, wanted_of(op, ins))
        given = [*ins, *outs, *(d for d in heads if d is not None)]
        values = trace.run(list(given), _owned)
        assert [n is None for n in trace.results] == [d is None for d in wanted], sample.name
        for number, d in zip(trace.results, wanted):
            if number is not None:
                assert values[number].dtype == d.dtype, sample.name
                assert values[number].tobytes() == d.asnumpy().tobytes(), sample.name
    has_floats = any(is_float(a) for sample in samples(op) for a in sample.arrays)
    assert bool(traced) == (has_floats and op.name not in SIZED_BY_VALUES)


def three_times(forward) -> list[tuple[bytes, ...]]:
    """The gradients of two variables, by the rules and twice by their traces."""
    x, w = (nd.array(np.random.default_rng(i).normal(size=(3, 4))) for i in (0, 1))
    found = []
    for _ in range(3):
        x.attach_grad()
        w.attach_grad()
        with autograd.record():
            y = forward(x, w)
        y.backward()
        found.append((x.grad.asnumpy().tobytes(), w.grad.asnumpy().tobytes()))
    return found


@pytest.mark.parametrize(
    "forward",
    [
        lambda x, w: nd.tanh(x * w) + x,
        lambda x, w: nd.softmax(nd.dot(x, w.T)) * nd.dot(x, x.T),
        lambda x, w: nd.LayerNorm(x, w[0], w[1]),
        lambda x, w: nd.concat(x, w, dim=0).sum(axis=0) ** 2,
        lambda x, w: nd.where(x > 0, x, w),
    ],
)
def test_the_tape_gives_the_same_bits_each_time(forward):
    first, second, third = three_times(forward)
    assert first == second == third


def test_variables_do_not_share_a_gradient():
    x, w = nd.ones((3,)), nd.ones((3,))
    for _ in range(3):
        x.attach_grad()
        w.attach_grad()
        with autograd.record():
            y = x + w
        y.backward()
        x.grad[:] = 7
        assert w.grad.asnumpy().tolist() == [1, 1, 1]


def test_random_operators_cannot_be_traced():
    """It would be drawn with no regard to the seed's order, and an auxiliary state not written."""
    tracer = traced_rule._Tracer([TensorType((2, 3), np.dtype("float32"))], True)
    with pytest.raises(traced_rule._UntraceableError):
        tracer.op(lookup("_random_normal_like"), tracer.given[0])


def test_traces_are_bounded():
    """Shapes without end, as of growing arrays, leave a bounded number of traces."""
    info = traced_rule._memo.cache_info
    square = lookup("square")
    for size in range(1, traced_rule.KEPT + 50):
        kinds = (((size,), np.dtype("float32")),)
        trace_for(RuleUse(square, (), kinds, kinds, kinds, (True,), False))
    assert info().currsize <= info().maxsize == traced_rule.KEPT

"""Every gradient against finite differences of the reference, in double precision.

The sum of the results, each weighted by numbers drawn at random, has a slope along a direction
drawn at random: from the gradients of the operands, and from the references at two places near by.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import hybridjit as mx
from gradient_cases import (
    CONSTANTS,
    HEADS,
    NO_SLOPE,
    NONE_IN_MXNET,
    NOTHING_TO_COMPARE,
    OF_BYTES,
    OF_PASSES,
    OF_SECOND_ORDER,
    SYMMETRIC,
)
from hybridjit import autograd, nd
from hybridjit._core.types import UNKNOWN, TensorType, type_of
from hybridjit.ops import OpDef, all_ops, lookup, run_ref
from hybridjit.ops.building import ON_ARRAYS
from hybridjit.ops.gradient import NoGradientError, gradients
from samples import Sample, accepts, samples

STEP = 1e-6
LARGEST = 1e100  # a maximum over padding alone is the lowest number
DIRECTIONS = 3
TOLERANCE = 2e-6  # of the slope, and of the largest term of the sum


class Place(NamedTuple):
    """Operands in double precision, and the results there, hidden ones included."""

    op: OpDef
    attrs: dict
    ins: list[np.ndarray]
    outs: list[np.ndarray]
    heads: list[np.ndarray | None]

    def moved(self, position: int, direction: np.ndarray, step: float) -> float:
        """The weighted sum of the results after a step of one operand."""
        ins = list(self.ins)
        ins[position] = ins[position] + step * direction
        outs = run_ref(self.op, ins, self.attrs)
        return sum(float((w * y).sum()) for w, y in zip(self.heads, outs) if w is not None)

    def slope(self, position: int, direction: np.ndarray) -> float:
        """By central differences, the error of the fourth order in the step."""
        near, far = (
            self.moved(position, direction, k * STEP) - self.moved(position, direction, -k * STEP)
            for k in (1, 2)
        )
        return (8 * near - far) / (12 * STEP)


def is_float(x: np.ndarray) -> bool:
    return np.asarray(x).dtype.kind == "f"


def place_of(op: OpDef, sample: Sample) -> Place | None:
    """Where the sample is looked at; None if it has no slope to compare."""
    ins = [a.astype(np.float64) if is_float(a) else a for a in sample.arrays]
    attrs = op.parse(sample.attrs)
    if not any(map(is_float, ins)) or not accepts(op, tuple(map(type_of, ins)), attrs):
        return None
    outs = [np.asarray(y) for y in run_ref(op, ins, attrs)]
    heads = [_head(op, sample, i, y) for i, y in enumerate(outs)]
    if any(is_float(y) and y.dtype != np.float64 for y in outs):
        return None  # rounded: the differences would be noise
    finite = all((np.abs(x) < LARGEST).all() for x in (*ins, *outs) if is_float(x))
    if not finite or not any(w is not None and w.size for w in heads):
        return None
    return Place(op, attrs, ins, outs, heads)


def _head(op: OpDef, sample: Sample, index: int, y: np.ndarray) -> np.ndarray | None:
    if not is_float(y) or index not in HEADS.get(op.name, (index,)):
        return None
    random = np.random.default_rng(zlib.crc32(f"{op.name} {sample.name} {index}".encode()))
    return random.normal(size=y.shape)


def places(op: OpDef) -> Iterator[tuple[Sample, Place]]:
    for sample in samples(op):
        if sample.arrays and sample.arrays[0].dtype != np.float16:  # others' in double precision
            place = place_of(op, sample)
            if place is not None:
                yield sample, place


def found_at(
    op: OpDef, ins: Sequence[np.ndarray], outs: list, heads: list, attrs: dict
) -> list[np.ndarray | None]:
    wanted = [i not in CONSTANTS.get(op.name, ()) for i in range(len(ins))]
    with np.errstate(all="ignore"):
        return gradients(op, ON_ARRAYS, ins, outs, heads, attrs, wanted)


def compare(sample: Sample, place: Place, found: list[np.ndarray | None]) -> None:
    """Each gradient has its operand's type; along random directions it gives the slope."""
    random = np.random.default_rng(zlib.crc32(sample.name.encode()))
    for position, (x, d) in enumerate(zip(place.ins, found)):
        assert d is None or type_of(d) == type_of(x), f"{sample.name}: operand {position}"
        if not is_float(x) or not x.size or position in CONSTANTS.get(place.op.name, ()):
            continue
        for _ in range(DIRECTIONS):
            direction = random.normal(size=x.shape)
            if place.op.name in SYMMETRIC:
                direction += direction.swapaxes(-1, -2)
            terms = np.zeros(1) if d is None else d * direction
            wanted = place.slope(position, direction)
            scale = abs(wanted) + np.abs(terms).max(initial=0) + 1e-3
            assert abs(terms.sum() - wanted) <= TOLERANCE * scale, (
                f"{sample.name}: operand {position} has the slope {wanted}, its gradient gives "
                f"{terms.sum()}"
            )


# MXNet refuses updates of parameters too.
OPTIMIZERS = {op.name for op in all_ops() if ".ops.optimizer." in op.ref.__module__}
WITHOUT = OPTIMIZERS | NONE_IN_MXNET | OF_BYTES | OF_PASSES | OF_SECOND_ORDER
COMPARED = [op for op in all_ops() if op.name not in WITHOUT | set(NO_SLOPE) and not op.is_random]
READING = [
    op
    for op in all_ops()
    if any(s.arrays and op.output_names(op.parse(s.attrs)) for s in samples(op))
]


@pytest.mark.parametrize("op", COMPARED, ids=lambda op: op.name)
def test_gradients_are_slopes(op: OpDef):
    compared = 0
    for sample, place in places(op):
        compare(sample, place, found_at(op, place.ins, place.outs, place.heads, place.attrs))
        compared += 1
    assert compared or op.name in NOTHING_TO_COMPARE or op not in READING


@pytest.mark.parametrize("op", READING, ids=lambda op: op.name)
def test_who_has_a_gradient(op: OpDef):
    """All operators but those of the tables."""
    refused = 0
    for sample in samples(op):
        attrs, ins = op.parse(sample.attrs), list(sample.arrays)
        outs = run_ref(op, ins, attrs)
        heads = [np.ones_like(y) for y in outs]
        try:
            assert len(found_at(op, ins, outs, heads, attrs)) == len(ins)
        except NoGradientError:
            refused += 1
    assert bool(refused) == (op.name in WITHOUT)


def test_a_wrong_rule_is_found():
    """The gradient of sin taken for that of cos."""
    sample, place = next(places(lookup("sin")))
    wrong = gradients(lookup("cos"), ON_ARRAYS, place.ins, place.outs, place.heads, place.attrs)
    with pytest.raises(AssertionError, match="operand 0 has the slope"):
        compare(sample, place, wrong)


def ruled(rule: Callable[..., object]) -> list:
    """The gradients of an addition that has this rule."""
    x = np.ones(3)
    op = replace(lookup("broadcast_add"), grad=rule)
    return gradients(op, ON_ARRAYS, [x, x], [x], [x], {})


def test_a_rule_gives_a_tuple_or_a_list():
    both = ruled(lambda g, ins, outs, douts, **attrs: [douts[0], douts[0] * 2])
    assert [d.tolist() for d in both] == [[1, 1, 1], [2, 2, 2]]


def test_a_rule_gives_as_many_results_as_there_are_operands():
    with pytest.raises(
        TypeError, match="broadcast_add must return a .* each of 2 operands, but returned 1"
    ):
        ruled(lambda g, ins, outs, douts, **attrs: douts[0])


class TestDropoutBetweenRecurrentLayers:
    ATTRS = {"state_size": 4, "num_layers": 3, "mode": "gru", "p": 0.5, "bidirectional": True}

    def operands(self) -> list[np.ndarray]:
        op, x = lookup("RNN"), TensorType((3, 2, 5), np.dtype(np.float64))
        attrs = op.with_defaults(self.ATTRS)
        ins, _ = op.infer((x, UNKNOWN, UNKNOWN), (UNKNOWN,), **attrs)
        random = np.random.default_rng(7)
        return [random.normal(size=t.dims) for t in ins]

    def run(self, arrays: list[np.ndarray], **attrs: object) -> list[nd.NDArray]:
        """Operands and result of a recorded call whose masks follow from one seed."""
        mx.random.seed(5)
        operands = [nd.array(a, dtype=a.dtype) for a in arrays]
        for x in operands:
            x.attach_grad()
        with autograd.record():
            return [*operands, nd.RNN(*operands, **{**self.ATTRS, **attrs})]

    def test_backward_uses_the_masks_of_forward(self):
        arrays = self.operands()
        *operands, y = self.run(arrays)
        assert not np.allclose(y.asnumpy(), self.run(arrays, p=0)[-1].asnumpy())
        head = np.random.default_rng(8).normal(size=y.shape)
        y.backward(nd.array(head, dtype=head.dtype))
        for position, x in enumerate(operands):
            direction = np.random.default_rng(position).normal(size=x.shape)
            sides = []
            for step in (STEP, -STEP):
                moved = list(arrays)
                moved[position] = moved[position] + step * direction
                sides.append((self.run(moved)[-1].asnumpy() * head).sum())
            slope = (sides[0] - sides[1]) / (2 * STEP)
            np.testing.assert_allclose((x.grad.asnumpy() * direction).sum(), slope, rtol=1e-5)

    def test_one_layer_and_prediction_drop_nothing(self):
        arrays = [nd.array(a, dtype=a.dtype) for a in self.operands()]
        predicted = nd.RNN(*arrays, **self.ATTRS)
        np.testing.assert_array_equal(
            predicted.asnumpy(), nd.RNN(*arrays, **{**self.ATTRS, "p": 0}).asnumpy()
        )


def test_the_third_result_of_the_first_batchnorm_is_the_variance():
    x = nd.array(np.random.default_rng(0).normal(size=(4, 2, 3)))
    others = (nd.ones(2), nd.zeros(2), nd.zeros(2), nd.ones(2))
    with autograd.record():
        _, mean, var = nd.BatchNorm_v1(x, *others, output_mean_var=True)
        _, _, inverse = nd.BatchNorm(x, *others, output_mean_var=True)
    wanted = x.asnumpy().var((0, 2))
    np.testing.assert_allclose(mean.asnumpy(), x.asnumpy().mean((0, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(var.asnumpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(inverse.asnumpy(), (wanted + 1e-3) ** -0.5, rtol=1e-5)


ROWS = np.array([[0, 2, 1], [1, 3, -1]])  # of four classes; -1 is none


@pytest.mark.parametrize(
    "shape, label, divisor, attrs",
    [
        ((6, 4), ROWS.reshape(6), 1, {}),
        ((6, 4), ROWS.reshape(6), 6, {"normalization": "batch"}),
        ((6, 4), ROWS.reshape(6), 5, {"normalization": "valid"}),
        ((6, 4), ROWS.reshape(6), 4, {"normalization": "valid", "use_ignore": True,
                                      "ignore_label": 1}),
        ((2, 3, 4), ROWS, 6, {"preserve_shape": True, "normalization": "batch"}),
        ((2, 4, 3), ROWS, 3, {"multi_output": True}),
        ((2, 4, 3), ROWS, 6, {"multi_output": True, "normalization": "batch"}),
        ((2, 4, 3), ROWS[:, None], 5, {"multi_output": True, "normalization": "valid"}),
        ((2, 2, 2), ROWS[:, :2], 4, {"normalization": "batch"}),
        ((6, 4), ROWS.reshape(6), 1, {"smooth_alpha": 0.3, "grad_scale": 2.0}),
    ],
)  # fmt: skip
def test_softmax_output_is_its_own_loss(shape, label, divisor, attrs):
    """As MXNet 1.9.1 gives it: softmax less the label, whatever comes back."""
    x = nd.array(np.random.default_rng(0).normal(size=shape))
    x.attach_grad()
    with autograd.record():
        y = nd.SoftmaxOutput(x, nd.array(label), **attrs)
    y.backward(nd.ones(shape) * 7)
    is_many = attrs.get("multi_output", False)
    lines = np.moveaxis(y.asnumpy(), 1, 2) if is_many else y.asnumpy()
    lines = lines.reshape(-1, 4).astype(np.float64)
    alpha = attrs.get("smooth_alpha", 0.0)
    for line, place in zip(lines, label.reshape(-1)):
        target = np.full(4, alpha / 3)
        if 0 <= place < 4:
            target[place] = 1 - alpha
        line -= target
        if attrs.get("use_ignore") and place == attrs["ignore_label"]:
            line[:] = 0
    wanted = lines.reshape(2, 3, 4).swapaxes(1, 2) if is_many else lines.reshape(shape)
    wanted = wanted * attrs.get("grad_scale", 1.0) / divisor
    np.testing.assert_allclose(x.grad.asnumpy(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["int32", "int64", "int8", "uint8"])
def test_remainders_of_whole_numbers_are_flat(name):
    """As in MXNet 1.9.1, a divisor of 0 among them; floats have slopes."""
    x, y = (nd.array(values, dtype=name) for values in ([7, 8, 9, 5], [3, 0, 2, 7]))
    for each in (x, y):
        each.attach_grad()
    for made in (lambda: nd.broadcast_mod(x, y), lambda: x % 2, lambda: 20 % y):
        with autograd.record():
            z = made()
        z.backward(nd.array([5] * 4, dtype=name))
        assert not x.grad.asnumpy().any() and not y.grad.asnumpy().any()

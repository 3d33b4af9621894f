"""Every operator against its own declaration: types, attribute text, strides, errors.

Registering an operator adds its tests; ``samples.py`` gives the inputs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

import numpy as np
import pytest

from hybridjit._core.types import UNKNOWN, TensorType, merge, type_of
from hybridjit.errors import MXNetError
from hybridjit.ir.kinds import KIND_NAMED
from hybridjit.ir.node import Output, apply, variable
from hybridjit.ops import OpDef, all_ops, lookup, run_ref
from hybridjit.ops.attrs import attr_text
from hybridjit.passes.infer import infer_node_types
from samples import Sample, accepts, error_samples, samples

SAMPLES = {op.name: samples(op) for op in all_ops()}
TEXTS = [
    pytest.param(op, dict(text), id=f"{op.name}-{i}")
    for op in all_ops()
    for i, text in enumerate(dict.fromkeys(tuple(s.attrs.items()) for s in samples(op)))
]
REFUSED = [
    pytest.param(op, bad, id=f"{op.name}-{i}-{bad.fragment}")
    for op in all_ops()
    for i, bad in enumerate(error_samples(op))
]

# The same numbers in another order of summation differ in the last digits.
STRIDED_TOLERANCE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}


def run(op: OpDef, arrays: list[np.ndarray], text: dict[str, str]) -> list[np.ndarray]:
    """The outputs by the reference."""
    return run_ref(op, arrays, op.parse(text))


@pytest.mark.parametrize("op", all_ops(), ids=lambda op: op.name)
class TestDeclaration:
    def test_has_samples(self, op):
        assert samples(op), (
            f"op '{op.name}' is registered but tests/support/samples_*.py have no inputs for it; "
            "add one entry to the file of its family"
        )

    def test_has_a_doc_line(self, op):
        assert op.doc and op.doc.endswith(".") and "\n" not in op.doc

    def test_aliases_find_it(self, op):
        assert all(lookup(name) is op for name in (op.name, *op.aliases))

    def test_its_kernel_is_of_a_kind(self, op):
        assert op.kernel in KIND_NAMED

    def test_attribute_names_are_unique(self, op):
        names = [attr.name for attr in op.attrs]
        assert len(set(names)) == len(names)


def of_every_sample(check: Callable[[Any, OpDef, Sample], None]) -> Callable[[Any, OpDef], None]:
    """A test of an operator that checks all of its samples; an error names the sample.

    One test for each of the 5,500 samples took 0.9 ms, of which 0.2 are the check's.
    """

    @wraps(check)
    def test(self: Any, op: OpDef) -> None:
        for sample in SAMPLES[op.name]:
            try:
                check(self, op, sample)
            except Exception as error:
                raise AssertionError(f"{op.name}-{sample.name}: {error}") from error

    del test.__wrapped__  # pytest would ask for a fixture named sample
    return test


@pytest.mark.parametrize("op", all_ops(), ids=lambda op: op.name)
class TestOp:
    @of_every_sample
    def test_infer_matches_reference(self, op: OpDef, sample: Sample):
        attrs = op.parse(sample.attrs)
        names = op.output_names(attrs)
        given = tuple(type_of(a) for a in sample.arrays)
        ins, outs = op.infer(given, (UNKNOWN,) * len(names), **attrs)
        made = run_ref(op, list(sample.arrays), attrs)
        assert tuple(ins) == given
        assert all(isinstance(y, np.ndarray) for y in made)  # NumPy returns scalars for shape ()
        found = [type_of(y) for y in made]
        if op.traits.sized_by_values:
            assert not any(t.is_known for t in outs)
            outs = tuple(merge(t, f) for t, f in zip(outs, found))
        assert [str(t) for t in outs] == [str(f) for f in found]
        assert len(made) == len(names)

    @of_every_sample
    def test_infer_completes_the_inputs(self, op: OpDef, sample: Sample):
        """Knowing the outputs as well must neither contradict nor lose anything."""
        attrs = op.parse(sample.attrs)
        given = tuple(type_of(a) for a in sample.arrays)
        outs = op.infer(given, (UNKNOWN,) * len(op.output_names(attrs)), **attrs)[1]
        assert op.infer(given, outs, **attrs) == (given, outs)

    @of_every_sample
    def test_infer_takes_partial_types(self, op: OpDef, sample: Sample):
        """Types inferred from partial information must agree with complete inference."""
        attrs = op.parse(sample.attrs)
        unknown = (UNKNOWN,) * len(op.output_names(attrs))
        given = tuple(type_of(a) for a in sample.arrays)
        outs = op.infer(given, unknown, **attrs)[1]
        for known in blurred(given):
            for results in (unknown, outs):
                found_ins, found_outs = op.infer(known, results, **attrs)
                pairs = list(zip((*found_ins, *found_outs), (*given, *outs)))
                if op.name in PRESUMED:
                    pairs = [pairs[i] for i, t in enumerate(known) if t.is_known]
                for found, whole in pairs:
                    assert merge(found, whole) == whole

    @of_every_sample
    def test_inputs_are_not_written(self, op: OpDef, sample: Sample):
        kept = [a.copy() for a in sample.arrays]
        for result in run(op, list(sample.arrays), sample.attrs):
            assert not any(np.shares_memory(result, a) for a in sample.arrays)
        for before, after in zip(kept, sample.arrays):
            np.testing.assert_array_equal(before, after)

    @of_every_sample
    def test_strided_inputs(self, op: OpDef, sample: Sample):
        wanted = run(op, list(sample.arrays), sample.attrs)
        for view in VIEWS:
            arrays = [view(a) for a in sample.arrays]
            made = run(op, arrays, sample.attrs)
            if not op.is_random:
                for a, b in zip(wanted, made):
                    assert_close(b, a)


@pytest.mark.parametrize("op, text", TEXTS)
def test_json_round_trip(op: OpDef, text: dict[str, str]):
    """Attributes mean the same after a file, whether spelled by the user or written by us."""
    attrs = op.parse(text)
    written = json.loads(json.dumps({k: attr_text(v) for k, v in attrs.items()}))
    assert str(op.parse(json.loads(json.dumps(text)))) == str(attrs)
    declared = {a.name: a for a in op.attrs}
    for key, value in attrs.items():
        if key in text or value is not None:
            assert str(declared[key].parse(written[key])) == str(value)


KINDS = ("conv", "deconv", "pool", "norm", "lrn", "softmax")
BATCHED = [op for op in all_ops() if op.kernel in KINDS or "BatchNorm" in op.name]


@pytest.mark.parametrize("op", BATCHED, ids=lambda op: op.name)
def test_a_batch_of_none(op: OpDef):
    """No samples in, no samples out: wherever the rule takes it, the reference does."""
    tried = 0
    for sample in samples(op):
        arrays = [sample.arrays[0][:0], *sample.arrays[1:]]
        attrs, types = op.parse(sample.attrs), tuple(type_of(a) for a in arrays)
        if accepts(op, types, attrs):
            outs = op.infer(types, (UNKNOWN,) * len(op.output_names(attrs)), **attrs)[1]
            assert [type_of(y) for y in run(op, arrays, sample.attrs)] == list(outs)
            tried += 1
    assert tried


IN_SINGLE = [op for op in all_ops() if op.traits.in_single]


@pytest.mark.parametrize("op", IN_SINGLE, ids=lambda op: op.name)
def test_half_is_computed_in_single_precision(op: OpDef):
    """The float16 result is the float32 result for the same numbers, rounded once.

    But for the lowest number, which a maximum over padding alone is.
    """
    tried = 0
    for sample in samples(op):
        for half in halved(sample.arrays):
            types, attrs = tuple(map(type_of, half)), op.parse(sample.attrs)
            if types[0].dtype == "f2" and accepts(op, types, attrs):
                wide = [a.astype("f4") if a.dtype == "f2" else a for a in half]
                for found, wanted in zip(run(op, half, sample.attrs), run(op, wide, sample.attrs)):
                    lowest = np.finfo(found.dtype).min
                    wanted = np.where(np.isfinite(wanted), np.maximum(wanted, lowest), wanted)
                    np.testing.assert_array_equal(found, wanted.astype(found.dtype))
                tried += 1
    assert tried


def halved(arrays: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """All float32 operands as float16, or the first alone: parameters may have to stay."""
    for count in (len(arrays), 1):
        yield [a.astype("f2") if i < count and a.dtype == "f4" else a for i, a in enumerate(arrays)]


@pytest.mark.parametrize("shape", [(), (5,), (2, 0, 3), (2, 3, 4, 5)])
def test_views_keep_the_values(shape):
    plain = np.arange(np.prod(shape)).reshape(shape)
    for view in VIEWS:
        np.testing.assert_array_equal(view(plain), plain)


# Operators that give an input of which nothing is said the type that it usually has.
PRESUMED = {
    "SoftmaxOutput": "a label per line, although one of the data's shape is accepted",
    "LeakyReLU": "a gamma per channel, although a single number is accepted",
    "CTCLoss": "lengths in float32, although integers are accepted",
    **dict.fromkeys(
        [
            "_plus_scalar",
            *(f"_npi_{each}_scalar" for each in ("add", "subtract", "rsubtract", "multiply")),
            *(f"_npi_{each}_scalar" for each in ("mod", "rmod", "power", "rpower")),
        ],
        "int64 data behind an int64 result, although bool data gives one too",
    ),
}


def blurred(types: tuple[TensorType, ...]) -> Iterator[tuple[TensorType, ...]]:
    """The types with one thing unknown each time: a size, a shape, a dtype, all but the first."""
    for i, t in enumerate(types):
        axes = range(t.ndim) if t.size else ()  # an unknown size does not follow from zero
        sizes = [(*t.dims[:a], None, *t.dims[a + 1 :]) for a in axes]
        for less in (*(t.with_shape(s) for s in (None, *sizes)), t.with_dtype(None), UNKNOWN):
            yield (*types[:i], less, *types[i + 1 :])
    yield tuple(t if i == 0 else UNKNOWN for i, t in enumerate(types))
    yield (UNKNOWN,) * len(types)


def assert_close(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    if wanted.dtype.kind == "f":
        tolerance = STRIDED_TOLERANCE[wanted.dtype.name]
        finite = np.abs(wanted[np.isfinite(wanted)])
        scale = max(1.0, float(finite.max(initial=0)))
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale)
    else:
        np.testing.assert_array_equal(found, wanted)


def _transposed(a: np.ndarray) -> np.ndarray:
    return a.T.copy("C").T


def _sliced(a: np.ndarray) -> np.ndarray:
    wide = np.zeros([2 * n + 1 for n in a.shape], a.dtype)
    view = wide[(..., *(slice(1, None, 2) for _ in a.shape))]
    view[...] = a
    return view


def _reversed(a: np.ndarray) -> np.ndarray:
    back = (..., *(slice(None, None, -1),) * a.ndim)
    return a[back].copy("C")[back]


def _read_only(a: np.ndarray) -> np.ndarray:
    copy = a.copy()
    copy.flags.writeable = False
    return copy


VIEWS = (_transposed, _sliced, _reversed, _read_only)


@pytest.mark.parametrize("op, bad", REFUSED)
def test_operators_reject_wrong_operands(op, bad):
    """The right exception, naming the operator and the rule."""
    data = [variable(f"x{i}") for i in range(len(bad.types))]
    with pytest.raises(MXNetError) as caught:
        node = apply(op, "node", [Output(d) for d in data], bad.attrs)
        infer_node_types([Output(node)], {d.name: t for d, t in zip(data, bad.types)})
    assert type(caught.value) is bad.exception
    assert bad.fragment in str(caught.value)
    assert f"{op.name} 'node'" in str(caught.value)

"""Attributes that no network has: many dimensions, huge and tiny numbers, counts without end.

``tools/fuzz_attributes.py`` makes as many cases as you like, for every operator.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hybridjit import nd, sym
from hybridjit.errors import AttributeValueError, MXNetError, ShapeError
from hybridjit.ops import lookup
from hybridjit.ops.attrs import attr_text
from operator_cases import Case, attribute_case, verdict
from patience import PATIENCE
from running import run

TOOL = Path(__file__).parent.parent.parent / "tools" / "fuzz_attributes.py"


def judged(name: str, *shapes: tuple[int, ...], **attrs: object) -> str:
    """Error of a call on arrays of these shapes, eagerly or compiled."""
    texts = {key.rstrip("_"): attr_text(value) for key, value in attrs.items()}
    random = np.random.default_rng(0)
    arrays = tuple(random.normal(0, 1, shape).astype(np.float32) for shape in shapes)
    return verdict(Case(lookup(name), texts, arrays))[0]


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called as on Linux")
def test_attributes_at_random():
    """300 calls; a hang or a crash ends a process of the tool's, not this one."""
    command = [sys.executable, str(TOOL), "--kind", "operators", "--count", "300"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    ran, wrong = (int(done.stdout.split(word)[0].split()[-1]) for word in (" ran", " wrong"))
    assert ran > 100 and not wrong


def test_a_number_gives_one_case_and_each_another():
    texts = [str(attribute_case(number)) for number in range(50, 150)]
    assert texts[7] == str(attribute_case(57))
    assert len(set(texts)) > 90


MANY = (1,) * 33


@pytest.mark.parametrize(
    "name, shapes, attrs",
    [
        ("tile", [(2,)], {"reps": (1,) * 65}),
        ("Reshape", [(2,)], {"shape": (1,) * 65 + (2,)}),
        ("Reshape", [(2,)], {"shape": (9223372036854775807,) * 300}),
        ("expand_dims", [(1,) * 32], {"axis": 0}),
        ("stack", [(1,) * 32], {"num_args": 1}),
        ("one_hot", [(1,) * 32], {"depth": 3}),
        ("_zeros", [], {"shape": MANY}),
        ("_full", [], {"shape": (1,) * 70, "value": 1.0}),
        ("_random_uniform", [], {"shape": (1,) * 65}),
        ("_random_normal", [], {"shape": (1,) * 40}),
        ("_sample_gamma", [(2,), (2,)], {"shape": (1,) * 40}),
        ("_sample_multinomial", [(2, 3)], {"shape": (1,) * 40}),
    ],
)
def test_more_dimensions_than_an_array_has(
    name: str, shapes: list[tuple[int, ...]], attrs: dict[str, object]
):
    with pytest.raises(ShapeError, match=r"an array has at most 32 dimensions, not \d+"):
        getattr(nd._internal if name.startswith("_") else nd, name)(
            *(nd.ones(shape) for shape in shapes), **attrs
        )
    assert not judged(name, *shapes, **attrs)


def test_arrays_of_many_dimensions_are_not_made():
    """Neither by functions that make arrays nor by those that accept NumPy's."""
    for make in (
        nd.zeros,
        nd.ones,
        nd.empty,
        nd.array([1.0]).reshape,
        nd.array([1.0]).broadcast_to,
    ):
        assert make((1,) * 32).ndim == 32
        with pytest.raises(ShapeError):
            make(MANY)
    with pytest.raises(MXNetError):
        sym.sum(sym.var("x") * 1).infer_shape(x=MANY)


def test_32_dimensions_compute():
    for name, attrs in (
        ("sum", {"axis": 31}),
        ("transpose", {}),
        ("flip", {"axis": 3}),
        ("tile", {"reps": (2,)}),
        ("argmax", {"axis": 31}),
        ("softmax", {}),
        ("relu", {}),
        ("slice_axis", {"axis": 31, "begin": 0, "end": 1}),
    ):
        assert not judged(name, (1,) * 30 + (2, 3), **attrs), name


@pytest.mark.parametrize(
    "name, shapes, attrs",
    [
        ("Concat", [(2, 3)], {"num_args": 2147483647}),
        ("stack", [(2, 3)], {"num_args": 1000000000}),
        ("add_n", [(2, 3)], {"num_args": 16385}),
        ("SliceChannel", [(2, 3)], {"num_outputs": 2147483647}),
        ("SliceChannel", [(2, 3)], {"num_outputs": -1}),
        ("_split_v2", [(2, 3)], {"indices": (), "sections": 2147483647}),
        ("_split_v2", [(2, 3)], {"indices": (), "sections": -2147483648}),
        ("amp_multicast", [(2, 3)], {"num_outputs": 1000000000}),
    ],
)
def test_counts_of_operands_are_bounded(
    name: str, shapes: list[tuple[int, ...]], attrs: dict[str, object]
):
    """Before a name is made for each of them."""
    with pytest.raises(AttributeValueError, match="must be between [01] and 16384"):
        run(name, *(np.ones(shape, np.float32) for shape in shapes), **attrs)


BILLION = 1_000_000_000
WIDE = (BILLION, BILLION)


@pytest.mark.parametrize(
    "name, shapes, attrs",
    [
        ("Deconvolution", [(1, 3, 5, 5), (3, 2, 4, 4)],
         {"kernel": (4, 4), "num_filter": 2, "dilate": WIDE, "target_shape": (9, 9)}),
        ("Deconvolution", [(1, 3, 5, 5), (3, 2, 4, 4)],
         {"kernel": (4, 4), "num_filter": 2, "stride": WIDE, "target_shape": (9, 9)}),
        ("Convolution", [(1, 1, 3, 3), (1, 1, 2, 2)],
         {"kernel": (2, 2), "num_filter": 1, "no_bias": True, "pad": WIDE, "stride": WIDE}),
        ("Pooling", [(1, 1, 3, 3)],
         {"kernel": WIDE, "pad": (BILLION - 1,) * 2, "stride": WIDE, "pool_type": "sum"}),
        ("im2col", [(1, 1, 3, 3)], {"kernel": (2, 2), "pad": WIDE, "stride": WIDE}),
        ("Correlation", [(1, 1, 3, 3)] * 2, {"pad_size": BILLION, "stride1": BILLION}),
    ],
)  # fmt: skip
def test_padding_of_images_is_bounded(
    name: str, shapes: list[tuple[int, ...]], attrs: dict[str, object]
):
    """The results are small; intermediate values are not."""
    with pytest.raises(ShapeError, match="is larger than any memory"):
        run(name, *(np.ones(shape, np.float32) for shape in shapes), **attrs)
    assert not judged(name, *shapes, **attrs)


@pytest.mark.parametrize("step", [1e-300, -1e-300])
def test_ranges_of_more_numbers_than_any_memory(step: float):
    ends = (0, 1e9) if step > 0 else (1e9, 0)
    with pytest.raises(AttributeValueError, match="too many elements"):
        run("_arange", start=ends[0], stop=ends[1], step=step)
    with pytest.raises(MXNetError):
        nd.arange(*ends, step)
    with pytest.raises(MXNetError):
        sym.arange(*ends, step).infer_shape()


@pytest.mark.parametrize(
    "name, rois, attrs",
    [
        ("_contrib_ROIAlign", 5, {"pooled_size": (2, 2), "sample_ratio": 1025}),
        ("_contrib_RROIAlign", 6, {"pooled_size": (2, 2), "sampling_ratio": 1000000}),
        ("_contrib_DeformablePSROIPooling", 5, {"sample_per_part": 1025, "no_trans": True,
         "pooled_size": 2, "group_size": 1, "output_dim": 2}),
    ],
)  # fmt: skip
def test_samples_of_a_bin_are_bounded(name: str, rois: int, attrs: dict[str, object]):
    with pytest.raises(AttributeValueError, match="must be at most 1024, got 10"):
        run(name, np.ones((1, 2, 4, 4), np.float32), np.ones((1, rois), np.float32),
            spatial_scale=1, **attrs)  # fmt: skip


def test_a_window_of_lrn_ends_with_the_channels():
    """As wide as they are, however wide it is."""
    x = np.random.default_rng(0).normal(0, 1, (2, 5, 2, 3)).astype(np.float32)
    numbers = {"alpha": 1000.0, "beta": 0.75, "knorm": 2}
    wide = run("LRN", x, nsize=2147483647, **numbers)
    energy = np.square(x).sum(axis=1, keepdims=True) * np.float32(1000 / 2147483647)
    np.testing.assert_allclose(wide, x * (2 + energy) ** -0.75, rtol=1e-5)
    assert not judged("LRN", (2, 5, 2, 3), nsize=2147483647, **numbers)


@pytest.mark.parametrize(
    "name, shapes, attrs",
    [
        ("_contrib_MultiBoxDetection", [(2, 3, 7), (2, 28), (1, 7, 4)], {"variances": (1, 1, 1)}),
        ("_contrib_PSROIPooling", [(1, 8, 4, 4), (1, 5)],
         {"spatial_scale": 1, "output_dim": 2, "pooled_size": 2, "group_size": -2}),
        ("_contrib_BilinearResize2D", [(1, 2, 5, 6)],
         {"mode": "odd_scale", "scale_height": 1.5, "scale_width": 1e308}),
        ("_histogram", [(9,)], {"bin_cnt": 3, "range": (-1e308, 1e308)}),
    ],
)  # fmt: skip
def test_numbers_that_an_operator_does_not_take(
    name: str, shapes: list[tuple[int, ...]], attrs: dict[str, object]
):
    with pytest.raises((AttributeValueError, ShapeError)):
        run(name, *(np.ones(shape, np.float32) for shape in shapes), **attrs)
    assert not judged(name, *shapes, **attrs)


@pytest.mark.parametrize(
    "name, shapes, attrs",
    [
        ("_contrib_Proposal", [(1, 4, 3, 4), (1, 8, 3, 4), (1, 3)],
         {"scales": (2,), "ratios": (0, 2), "rpn_post_nms_top_n": 3}),
        ("_contrib_MultiBoxTarget", [(1, 5, 4), (1, 2, 5), (1, 3, 5)],
         {"negative_mining_ratio": 3e38, "negative_mining_thresh": 2}),
        ("_contrib_DeformablePSROIPooling", [(1, 8, 4, 4), (1, 5)],
         {"spatial_scale": 1, "output_dim": 2, "pooled_size": 2, "group_size": 2,
          "no_trans": True, "part_size": 2147483647}),
        ("_histogram", [(9,)], {"bin_cnt": 3, "range": (-1e308, 0)}),
        ("SoftmaxOutput", [(2, 3, 4), (2, 4)], {"multi_output": True, "preserve_shape": True}),
    ],
)  # fmt: skip
def test_numbers_that_an_operator_takes(
    name: str, shapes: list[tuple[int, ...]], attrs: dict[str, object]
):
    run(name, *(np.ones(shape, np.float32) for shape in shapes), **attrs)
    assert not judged(name, *shapes, **attrs)

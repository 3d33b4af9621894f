"""Numbers that say where, which or how many: NaN, infinite, huge, negative, and none at all.

``tools/fuzz_data.py`` makes as many cases as you like, for every operator.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hybridjit import nd
from hybridjit.errors import MXNetError, ShapeError
from hybridjit.ops import lookup
from hybridjit.ops.attrs import attr_text
from operator_cases import Case, data_case, verdict
from patience import PATIENCE
from running import run

TOOL = Path(__file__).parent.parent.parent / "tools" / "fuzz_data.py"
NAN, INF = float("nan"), float("inf")
FAR = (NAN, INF, -INF, 1e9, -1e9, 3e38, -3e38, -88.0, 2.0**31, 2.0**63)


def judged(name: str, *arrays: object, **attrs: object) -> str:
    """Error of a call, eagerly or compiled in fenced memory."""
    texts = {key: attr_text(value) for key, value in attrs.items()}
    operands = tuple(a if isinstance(a, np.ndarray) else np.array(a, np.float32) for a in arrays)
    return verdict(Case(lookup(name), texts, operands))[0]


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called as on Linux")
def test_numbers_at_random():
    """300 cases; a hang or a crash ends a process of the tool's, not this one."""
    command = [sys.executable, str(TOOL), "--count", "300"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    ran, wrong = (int(done.stdout.split(word)[0].split()[-1]) for word in (" ran", " wrong"))
    assert ran > 200 and not wrong


def test_a_number_gives_one_case_and_each_another():
    texts = [str(data_case(number)) for number in range(50, 150)]
    assert texts[7] == str(data_case(57))
    assert len(set(texts)) > 90


_LONG_REGIONS = """
import numpy as np
from hybridjit import gluon, nd

class Net(gluon.HybridBlock):
    def hybrid_forward(self, F, x, rois):
        return F.contrib.ROIAlign(x, rois, pooled_size=(2, 2), spatial_scale=1, sample_ratio=-1)

x = nd.array(np.random.default_rng(0).normal(0, 1, (1, 3, 20, 20)))
rois = [[0, -s, -s, s, s] for s in (1e4, 3e4, 1e6, 1e9, 1e12, 3e38)]
net = Net()
eager = net(x, nd.array(rois)).asnumpy()
net.hybridize()
net(x, nd.zeros((len(rois), 5)))
compiled = net(x, nd.array(rois)).asnumpy()
np.testing.assert_allclose(compiled, eager, rtol=1e-5, atol=1e-12)
"""


@pytest.fixture(scope="module")
def regions_end() -> subprocess.CompletedProcess:
    """A case that may run forever first runs in a process that can be ended."""
    words = [sys.executable, "-c", _LONG_REGIONS]
    return subprocess.run(words, timeout=PATIENCE, capture_output=True, text=True)


def test_regions_of_any_size_end(regions_end: subprocess.CompletedProcess):
    """Work is bounded by the image: 20 x 20 cells, though a region asks for 10^18 samples."""
    assert regions_end.returncode == 0, regions_end.stderr


def test_a_long_region_has_all_of_its_samples():
    """By the definition, one sample after the other: only few of 5,000 a bin lie in the image."""
    x, (low, high) = images(1, 1, 6, 5)[0, 0], (np.float32(-7000), np.float32(3000))
    step = (high - low) / np.float32(2)
    rows = [_between(low + b * step + (np.arange(5000) + 0.5) * step / 5000, 6) for b in (0, 1)]
    columns = [_between(low + b * step + (np.arange(5000) + 0.5) * step / 5000, 5) for b in (0, 1)]
    expected = np.array([[r @ x @ c for c in columns] for r in rows]) / 5000**2
    found = run("_contrib_ROIAlign", x[None, None], [[0, low, low, high, high]],
                pooled_size=(2, 2), spatial_scale=1)  # fmt: skip
    np.testing.assert_allclose(found[0, 0], expected, rtol=2e-3, atol=1e-12)
    assert np.abs(expected).max() > 1e-8


def _between(places: np.ndarray, length: int) -> np.ndarray:
    """The sum of the weights of each cell over all places."""
    weights = np.zeros(length)
    for at in places[(places >= -1) & (places <= length)]:
        at = min(max(at, 0), length - 1)
        low = int(at)
        weights[low] += 1 - (at - low)
        weights[min(low + 1, length - 1)] += at - low
    return weights


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("column", range(5))
def test_pooling_of_any_regions_is_safe(
    column: int, far: float, regions_end: subprocess.CompletedProcess
):
    assert regions_end.returncode == 0, regions_end.stderr
    rois = np.array([[0, 1, 1, 3, 4], [1, 0, 2, 2, 5]], np.float32)
    rois[0, column] = far
    bins = {"pooled_size": (2, 3), "spatial_scale": 0.5}
    for ratio in (-1, 2):
        for aligned in (False, True):
            assert not judged("_contrib_ROIAlign", images(2, 5, 6, 4), rois, sample_ratio=ratio,
                              aligned=aligned, **bins)  # fmt: skip
    assert not judged("ROIPooling", images(2, 5, 6, 4), rois, **bins)
    turned = np.concatenate([rois, [[30], [far]]], 1).astype(np.float32)
    assert not judged("_contrib_RROIAlign", images(2, 5, 6, 4), turned, **bins)
    attrs = {"spatial_scale": 0.5, "output_dim": 2, "pooled_size": 2, "group_size": 2}
    assert not judged("_contrib_PSROIPooling", images(2, 8, 6, 4), rois, **attrs)
    moves = images(2, 2, 2, 2)
    moves[0, 0, 1, 1] = far
    assert not judged("_contrib_DeformablePSROIPooling", images(2, 8, 6, 4), rois, moves,
                      trans_std=0.5, sample_per_part=2, **attrs)  # fmt: skip


def test_a_region_of_no_image_is_zero():
    rois = [[2, 0, 0, 3, 3], [-1, 0, 0, 3, 3], [NAN, 0, 0, 3, 3], [1e9, 0, 0, 3, 3]]
    turned = [[*row, 30] for row in rois]
    bins = {"pooled_size": (2, 2), "spatial_scale": 1}
    for name, regions in (("ROIPooling", rois), ("_contrib_ROIAlign", rois),
                          ("_contrib_RROIAlign", turned)):  # fmt: skip
        assert not run(name, images(2, 5, 6, 4), regions, **bins).any()
    for name in ("_contrib_PSROIPooling", "_contrib_DeformablePSROIPooling"):
        more = {"no_trans": True} if name.endswith("DeformablePSROIPooling") else {}
        found = run(name, images(2, 8, 6, 4), rois, spatial_scale=1, output_dim=2, pooled_size=2,
                    group_size=2, **more)  # fmt: skip
        assert not found.any()


@pytest.mark.parametrize("kind", ["ROIPooling", "_contrib_ROIAlign", "BilinearSampler"])
@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 3, 0, 5), (2, 3, 4, 0)])
def test_images_without_cells(kind: str, shape: tuple[int, ...]):
    """Nothing is read of them."""
    if kind == "BilinearSampler":
        assert not judged(kind, images(*shape), np.zeros((shape[0], 2, 3, 3), np.float32))
    else:
        rois = np.array([[0, 0, 0, 3, 3]], np.float32)
        assert not judged(kind, images(*shape), rois, pooled_size=(2, 2), spatial_scale=1)


@pytest.mark.parametrize("far", FAR)
def test_offsets_and_grids(far: float):
    offsets = images(1, 2, 3, 3)
    offsets[0, :, 1, 1], offsets[0, 0, 0, 2] = far, far
    layer = {"kernel": (1, 1), "num_filter": 2, "no_bias": True}
    weight, x = images(2, 4, 1, 1), images(1, 4, 3, 3)
    assert not judged("_contrib_DeformableConvolution", x, offsets, weight, **layer)
    mask = np.ones((1, 1, 3, 3), np.float32)
    name = "_contrib_ModulatedDeformableConvolution"
    assert not judged(name, x, offsets, mask, weight, **layer)
    assert not run(name, x, offsets, mask, weight, **layer)[:, :, 1, 1].any()
    assert not judged("BilinearSampler", x, offsets)


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("column", range(3))
def test_proposals_of_any_values_are_safe(column: int, far: float):
    random = np.random.default_rng(5)
    info = np.array([[24, 32, 1]], np.float32)
    info[0, column] = far
    moves = random.normal(0, 0.3, (1, 16, 3, 4)).astype(np.float32)
    moves[0, column, 1, 1] = far
    assert not judged("_contrib_Proposal", random.random((1, 8, 3, 4), np.float32), moves, info,
                      scales=(2, 4), ratios=(0.5, 1), feature_stride=8, rpn_min_size=4,
                      rpn_post_nms_top_n=5)  # fmt: skip


def test_a_picture_of_negative_size_leaves_no_place_inside():
    """Every score becomes -1, not only those of the last rows."""
    scores = np.random.default_rng(5).random((1, 8, 3, 4), np.float32)
    moves, info = np.zeros((1, 16, 3, 4), np.float32), np.array([[-8, 32, 1]], np.float32)
    _, found = run("_contrib_Proposal", scores, moves, info, scales=(2, 4), ratios=(0.5, 1),
                   feature_stride=8, rpn_min_size=4, rpn_post_nms_top_n=5,
                   output_score=True)  # fmt: skip
    assert (found == -1).all()


@pytest.mark.parametrize("far", FAR)
def test_boxes_of_any_values_are_safe(far: float):
    random = np.random.default_rng(3)
    anchors = random.random((1, 5, 4), np.float32)
    anchors[..., 2:] += anchors[..., :2]
    labels = np.array([[[1, 0.1, 0.1, 0.6, 0.7], [0, 0.4, 0.4, 1, 1]]], np.float32)
    scores = random.random((1, 3, 5), np.float32)
    for where in range(4):
        bad_anchors, bad_labels = anchors.copy(), labels.copy()
        bad_anchors[0, 1, where] = bad_labels[0, 0, where] = far
        for first, second in ((bad_anchors, labels), (anchors, bad_labels)):
            assert not judged("_contrib_MultiBoxTarget", first, second, scores)
        offsets = random.normal(0, 1, (1, 20)).astype(np.float32)
        offsets[0, where] = far
        assert not judged("_contrib_MultiBoxDetection", scores, offsets, bad_anchors)
        rows = random.random((1, 6, 6), np.float32)
        rows[0, 2, where + 1] = far
        assert not judged("_contrib_box_nms", rows, id_index=0)


def test_nan_offsets_of_detections_are_clipped():
    """As MXNet has it: to 1."""
    scores, anchors = np.array([[[0.1], [0.9]]], np.float32), [[[0, 0, 0.5, 0.5]]]
    found = run("_contrib_MultiBoxDetection", scores, [[0, 0, 0, NAN]], anchors)
    np.testing.assert_array_equal(found[0, 0], np.array([0, 0.9, 0, 1, 0.5, 1], np.float32))


@pytest.mark.parametrize("far", FAR)
def test_lengths_and_labels(far: float):
    data, labels = images(5, 2, 4), np.array([[1, 2, 0], [3, 3, 1]], np.float32)
    lengths = np.array([far, 2], np.float32)
    assert not judged("CTCLoss", data, labels, lengths, use_data_lengths=True)
    assert not judged("CTCLoss", data, labels, lengths, use_label_lengths=True)
    labels[0, 1] = far
    assert not judged("CTCLoss", data, labels)
    assert not judged("softmax_cross_entropy", images(2, 4), lengths)
    for name in ("SequenceLast", "SequenceMask", "SequenceReverse"):
        assert not judged(name, images(4, 2, 3), lengths, use_sequence_length=True)


def test_lengths_that_do_not_fit():
    """A length below 1 is the first step, however far below it is."""
    found = run("SequenceLast", [[[1]], [[2]]], [-(2.0**63)], use_sequence_length=True)
    assert found.tolist() == [[1]]
    whole = [run("CTCLoss", images(5, 2, 4), [[1, 2, 0], [3, 3, 1]], np.float32([n, 2]),
                 use_label_lengths=True) for n in (-1, 0, -1e9)]  # fmt: skip
    assert whole[0].tolist() == whole[1].tolist() == whole[2].tolist()


def test_labels_and_lengths_of_ctc_are_rounded():
    """As MXNet 1.9.1 printed it, halves away from zero."""
    data = np.random.RandomState(0).normal(size=(5, 2, 4)).astype(np.float32)
    labels = np.float32([[1, 2, 0], [3, 3, 1]])
    found = [
        run("CTCLoss", data, labels, np.float32([3.5, 4.5]), use_data_lengths=True),
        run("CTCLoss", data, labels, np.float32([0.5, 2.5]), use_label_lengths=True),
        run("CTCLoss", data, np.float32([[1.6, 2.4, 0], [3, 3, 1]])),
    ]
    expected = [[3.5800102, 6.4191446], [4.5995336, 6.4191446], [3.9466832, 6.4191446]]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_probability_of_zero_counts_as_a_little():
    """-log(1e-8), as MXNet 1.9.1 printed it; NaN stays NaN."""
    rows = np.float32([[208.455, 12.09, 31.6], [2, 3, 4]])
    assert run("softmax_cross_entropy", rows, [1, 1])[0] == np.float32(19.828287)
    assert not judged("softmax_cross_entropy", rows, [1, 1])
    assert not judged("softmax_cross_entropy", [[NAN, 1, 2], [1, 2, 3]], [1, 1])
    assert np.isnan(run("softmax_cross_entropy", [[NAN, 1, 2], [1, 2, 3]], [1, 1])[0])


@pytest.mark.parametrize(
    "name, arrays, attrs",
    [
        ("gather_nd", [(4, 3), (0, 3)], {}),
        ("scatter_nd", [(3, 4, 3), (0, 3)], {"shape": (4, 3)}),
        ("_contrib_fft", [(3, 0)], {}),
        ("_contrib_ifft", [(3, 0)], {}),
        ("_contrib_BilinearResize2D", [(1, 2, 5, 0)], {"height": 2, "width": 2}),
        ("_contrib_AdaptiveAvgPooling2D", [(1, 2, 0, 5)], {}),
        ("UpSampling", [(1, 2, 0, 5)], {"scale": 2, "sample_type": "nearest", "num_args": 1}),
        ("_contrib_Proposal", [(1, 24, 0, 5), (1, 48, 0, 5), (1, 3)], {}),
    ],
)
def test_operators_raise_for_empty_arrays(
    name: str, arrays: list[tuple[int, ...]], attrs: dict[str, object]
):
    with pytest.raises(ShapeError):
        run(name, *(np.zeros(shape, np.float32) for shape in arrays), **attrs)
    assert not judged(name, *(np.zeros(shape, np.float32) for shape in arrays), **attrs)


@pytest.mark.parametrize(
    "name, arrays",
    [
        ("_contrib_MultiBoxTarget", [(1, 0, 4), (2, 2, 5), (2, 3, 0)]),
        ("_contrib_MultiBoxTarget", [(1, 5, 4), (0, 2, 5), (0, 3, 5)]),
        ("_contrib_MultiBoxDetection", [(2, 1, 7), (2, 28), (1, 7, 4)]),
        ("_linalg_syevd", [(2, 0, 0)]),
        ("_contrib_MultiBoxPrior", [(1, 2, 0, 4)]),
        ("slice_like", [(4, 5), (0, 5)]),
    ],
)
def test_operators_accept_empty_arrays(name: str, arrays: list[tuple[int, ...]]):
    assert not judged(name, *(np.ones(shape, np.float32) for shape in arrays))


def test_a_label_that_names_no_class_is_refused():
    with pytest.raises(MXNetError, match="is not one of the 4 classes"):
        nd.CTCLoss(nd.ones((5, 1, 4)), nd.array([[1, NAN, 0]]))

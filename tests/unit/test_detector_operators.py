"""Numbers that MXNet 1.9.1 printed for operators of detectors, and spectra by their definition."""

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import nd
from hybridjit.gluon import nn

ANCHORS = [[[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1], [0, 0.5, 0.5, 1], [0.4, 0.4, 0.9, 0.9]]]
LABELS = [[[1, 0, 0, 0.4, 0.5], [0, 0.5, 0.5, 0.9, 0.95]], [[-1] * 5, [0, 0.5, 0.5, 0.9, 0.95]]]
SCORES = np.arange(24).reshape(2, 3, 4)


def assert_numbers(found, wanted):
    np.testing.assert_allclose(found.asnumpy().ravel(), np.ravel(wanted), atol=2e-4)


def targets(**options):
    return nd.contrib.MultiBoxTarget(*map(nd.array, (ANCHORS, LABELS, SCORES)), **options)


def test_targets_of_labels():
    offsets, masks, classes = targets()
    assert_numbers(offsets[0], [-1, 0, -1.1157, 0, -1, -0.5, -1.1157, -0.5268, 0, 0, 0, 0,
                                1, 1.5, -1.1157, -0.5268])  # fmt: skip
    assert_numbers(masks[0], np.repeat([1, 1, 0, 1], 4))
    assert_numbers(classes, [2, 1, 0, 1, -1, -1, -1, -1])


def test_targets_of_the_best_anchors_only():
    assert_numbers(targets(overlap_threshold=-1)[2][0], [2, 1, 0, 0])


def test_targets_leave_out_easy_negatives():
    assert_numbers(targets(negative_mining_ratio=0.2, ignore_label=-7)[2][0], [2, 1, -7, 1])


def test_targets_want_enough_negatives():
    with pytest.raises(
        mx.MXNetError, match="needs 1 anchors that overlap less than 0, but only 0 exist"
    ):
        targets(negative_mining_ratio=1, negative_mining_thresh=0)


def test_matching_lets_one_pair_more_through_than_topk():
    scores = nd.array([[[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]]])
    rows, columns = nd.contrib.bipartite_matching(scores, threshold=1e-12)
    assert_numbers(rows, [1, -1, 0])
    assert_numbers(columns, [2, 0])
    ties = nd.contrib.bipartite_matching(nd.ones((3, 3)), threshold=0.5, topk=1)
    assert_numbers(ties[0], [0, 1, -1])


def test_encoded_boxes():
    boxes = nd.array([[[0, 0, 1, 1], [0, 0, 2, 2]]]), nd.array([[[0, 0, 1, 2]]])
    samples = nd.array([[1, 0.4]]), nd.zeros((1, 2))
    found, masks = nd.contrib.box_encode(*samples, *boxes, nd.zeros(4), nd.ones(4))
    assert_numbers(found, [0, 0.5, 0, 0.6931, 0, 0, 0, 0])
    assert_numbers(masks, [1, 1, 1, 1, 0, 0, 0, 0])


def test_rroialign_pools_rotated_regions():
    data = nd.arange(72).reshape((1, 2, 6, 6))
    found = nd.contrib.RROIAlign(
        data, nd.array([[0, 3, 3, 4, 2, 30]]), pooled_size=(2, 2), spatial_scale=1
    )
    assert_numbers(found[0, 0], [20.2859, 16.0179, 25.9821, 21.7141])


def rotated_bin(
    image: np.ndarray, roi: np.ndarray, bins: tuple[int, int], at: tuple[int, int]
) -> np.ndarray:
    """A bin of a rotated region (x, y, w, h, degrees), one bilinear sample after the other."""
    x, y, *size, degrees = roi.astype(np.float64)
    cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    steps = np.maximum(size[::-1], 1) / bins
    counts = np.ceil(steps).astype(int)
    total = np.zeros(len(image))
    for sample in np.ndindex(*counts):
        v, u = (np.add(at, (np.array(sample) + 0.5) / counts) - np.divide(bins, 2)) * steps
        point = np.array([v * cos - u * sin + y, u * cos + v * sin + x])
        if (point < -1).any() or (point > image.shape[1:]).any():
            continue
        point = np.clip(point, 0, np.array(image.shape[1:]) - 1)
        for corner in np.ndindex(2, 2):
            cell = np.minimum(np.floor(point).astype(int) + corner, np.array(image.shape[1:]) - 1)
            shares = np.where(corner, point % 1, 1 - point % 1)
            total += image[:, cell[0], cell[1]] * shares.prod()
    return total / counts.prod()


@pytest.mark.parametrize("shape", [(2, 3, 11, 7), (1, 67, 5, 13)])
def test_rotated_regions_by_their_definition(shape: tuple[int, ...]):
    rng = np.random.default_rng(3)
    data = rng.standard_normal(shape).astype(np.float32)
    low, high = (-4, -4, 0, 0, -180), (15, 15, 24, 24, 180)
    places = rng.uniform(low, high, (9, 5)).astype(np.float32)
    batch = rng.integers(0, shape[0], 9)
    rois = np.concatenate([batch[:, None], places], 1).astype(np.float32)
    found = nd.contrib.RROIAlign(
        nd.array(data), nd.array(rois), pooled_size=(3, 1), spatial_scale=1
    )
    for k, i in np.ndindex(9, 3):
        wanted = rotated_bin(data[batch[k]], places[k], (3, 1), (i, 0))
        np.testing.assert_allclose(found.asnumpy()[k, :, i, 0], wanted, rtol=1e-4, atol=1e-4)


def test_bins_that_move():
    data = nd.arange(288).reshape((1, 8, 6, 6))
    regions, moves = nd.array([[0, 0, 0, 4, 4]]), nd.zeros((1, 2, 2, 2))
    bins = {"spatial_scale": 1, "output_dim": 2, "group_size": 2, "pooled_size": 2}
    pool = nd.contrib.DeformablePSROIPooling
    still = pool(data, regions, moves, **bins)
    assert_numbers(still, [0, 38, 84, 122, 144, 182, 228, 266])
    same = pool(data, regions, no_trans=True, **bins)
    np.testing.assert_array_equal(same.asnumpy(), still.asnumpy())


@pytest.mark.parametrize("dtype, last", [("float32", 24), ("float64", 25)])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_bins_begin_where_the_data_type_says(dtype: str, last: int, is_compiled: bool):
    """11 / 11 of 25 cells are 25 of them in float32 and a little more in float64."""
    net = nn.HybridLambda(
        lambda F, x, r: F.ROIPooling(x, r, pooled_size=(11, 1), spatial_scale=1.0)
    )
    net.hybridize(is_compiled)
    data = nd.arange(27, dtype=dtype).reshape((1, 1, 27, 1))
    found = net(data, nd.array([[0, 0, 0, 0, 24]], dtype=dtype))
    assert_numbers(found, [2, 4, 6, 9, 11, 13, 15, 18, 20, 22, last])


def test_spectra_undo_each_other_but_for_the_length():
    rows = np.random.default_rng(0).normal(size=(3, 10))
    pairs = nd.contrib.fft(nd.array(rows, dtype="float64"))
    wanted = np.fft.fft(rows)
    np.testing.assert_allclose(pairs.asnumpy()[:, 0::2], wanted.real, atol=1e-12)
    np.testing.assert_allclose(pairs.asnumpy()[:, 1::2], wanted.imag, atol=1e-12)
    np.testing.assert_allclose(nd.contrib.ifft(pairs).asnumpy(), 10 * rows, atol=1e-12)


def greedily(rows: np.ndarray, threshold: float) -> list[int]:
    """Rows (id, score, x1, y1, x2, y2) that survive, one pair of boxes after the other."""
    kept: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: -rows[i, 1]):
        if all(rows[i, 0] != rows[j, 0] or share(rows[i], rows[j]) <= threshold for j in kept):
            kept.append(i)
    return kept


def share(a: np.ndarray, b: np.ndarray) -> float:
    width, height = (min(a[k + 4], b[k + 4]) - max(a[k + 2], b[k + 2]) for k in (0, 1))
    shared = max(width, 0) * max(height, 0)
    areas = [(row[4] - row[2]) * (row[5] - row[3]) for row in (a, b)]
    return shared / (sum(areas) - shared)


@pytest.mark.parametrize("count", [1, 2, 60, 400])
def test_suppression_is_greedy_however_many_boxes_are_compared_at_a_time(count: int):
    random = np.random.default_rng(count)
    corner = random.uniform(0, 50, (count, 2))
    size = random.uniform(5, 30, (count, 2))
    labels = random.integers(0, 3, (count, 1))
    scores = random.permutation(count)[:, None] + 1
    rows = np.concatenate([labels, scores, corner, corner + size], axis=1).astype(np.float32)
    found = nd.contrib.box_nms(nd.array(rows), overlap_thresh=0.3, id_index=0).asnumpy()
    kept = greedily(rows, 0.3)
    assert len(kept) < count or count < 3
    np.testing.assert_array_equal(found[: len(kept)], rows[kept])
    assert (found[len(kept) :] == -1).all()


@pytest.mark.parametrize("is_ascend", [False, True])
def test_the_first_of_a_long_row_are_those_of_a_sort(is_ascend: bool):
    row = np.random.default_rng(0).integers(0, 300, 5000).astype(np.float32)
    found = nd.topk(nd.array(row), k=200, dtype="int32", is_ascend=is_ascend).asnumpy()
    sign = 1 if is_ascend else -1
    np.testing.assert_array_equal(
        found, sorted(range(5000), key=lambda i: (sign * row[i], i))[:200]
    )

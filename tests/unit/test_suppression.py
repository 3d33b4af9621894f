"""The kernels of box_nms, detections and proposals beside their meaning in NumPy: the same rows,
all bits.
"""

from __future__ import annotations

import numpy as np
import pytest

from compiling import AVAILABLE, call, compiled, node, run_reference, var
from hybridjit import autograd, gluon, nd, override
from hybridjit.ir.node import Output

NMS = "_contrib_box_nms"
# Numbers that ordering and comparing have to get right.
ODD = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e38, -1e38, 1e-45)


def detections(seed: int, dtype: str) -> np.ndarray:
    """Rows of id, score and box: scores repeat, and some numbers are odd."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 90))
    rows = random.random((int(random.integers(1, 4)), count, 7))
    rows[..., 0] = random.integers(-1, 3, rows.shape[:2]) + random.choice([0, 0.5]) * rows[..., 0]
    rows[..., 1] = random.integers(-3, 12, rows.shape[:2]) / 10
    rows[..., 4:6] += rows[..., 2:4] * random.random()
    odd = random.random(rows.shape) < random.choice([0, 0, 0.02])
    rows[odd] = random.choice(ODD, odd.sum())
    return rows.astype(dtype)


def options(seed: int) -> dict[str, object]:
    """Attributes that together reach every part of the kernel."""
    random = np.random.default_rng(seed)
    return {
        "overlap_thresh": float(random.choice([0.0, 0.1, 0.5, 1.0])),
        "valid_thresh": float(random.choice([-1.0, 0.0, 0.3])),
        "topk": int(random.choice([-1, 1, 5, 1000])),
        "id_index": int(random.choice([-1, 0])),
        "background_id": int(random.choice([-1, 0])),
        "force_suppress": bool(random.integers(2)),
        "in_format": str(random.choice(["corner", "center"])),
        "out_format": str(random.choice(["corner", "center"])),
    }


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_are_numpys(dtype: str, target: str):
    for seed in range(8):
        rows, attrs = detections(seed, dtype), options(seed + 100)
        with override(target=target):
            graph = [call(NMS, var("x"), **attrs)]
            executable = compiled(graph, {"x": rows})
        assert all(executable.code.calls), "the kernel is meant"
        (found,) = executable([rows])
        with np.errstate(all="ignore"):
            (wanted,) = run_reference(graph, {"x": rows})
        np.testing.assert_array_equal(found, wanted, err_msg=f"seed {seed}: {attrs}")


def shown(seed: int, dtype: str) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """Scores of classes, offsets of 0, anchors, and attributes; scores repeat, some are no
    numbers. Whatever the exponential's last bit is, the boxes are the anchors."""
    random = np.random.default_rng(seed)
    bounds = ((1, 4), (2, 5), (1, 90))
    batch, classes, count = (int(random.integers(*pair)) for pair in bounds)
    scores = random.integers(0, 12, (batch, classes, count)) / 10
    scores[random.random(scores.shape) < random.choice([0, 0.05])] = np.nan
    low = random.random((1, count, 2))
    boxes = np.concatenate([low, low + random.random((1, count, 2)) / 2], 2)
    offsets = np.zeros((batch, 4 * count))
    offsets[random.random(offsets.shape) < random.choice([0, 0.02])] = np.nan
    attrs = {
        "clip": bool(random.integers(2)),
        "threshold": float(random.choice([0.01, 0.3, 0.5, -1])),
        "nms_threshold": float(random.choice([0.5, 0.3, 0.05, 1, 0, -1])),
        "force_suppress": bool(random.integers(2)),
        "nms_topk": int(random.choice([-1, 1, 5, 1000])),
    }
    arrays = {"p": scores, "o": offsets, "a": boxes}
    return {name: x.astype(dtype) for name, x in arrays.items()}, attrs


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_detections_are_numpys(dtype: str, target: str):
    for seed in range(6):
        given, attrs = shown(seed, dtype)
        with override(target=target):
            graph = [call("_contrib_MultiBoxDetection", *map(var, given), **attrs)]
            executable = compiled(graph, given)
        assert all(executable.code.calls), "the kernel is meant"
        (found,) = executable([*given.values()])
        with np.errstate(all="ignore"):
            (wanted,) = run_reference(graph, given)
        np.testing.assert_array_equal(found, wanted, err_msg=f"seed {seed}: {attrs}")


def pictured(seed: int, dtype: str) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """Scores, offsets and sizes of pictures, and attributes; scores repeat, some numbers are odd.
    Offsets that go through the exponential, whose last bit is not specified, are 0 or NaN."""
    random = np.random.default_rng(seed)
    batch, height, width = (int(random.integers(1, n)) for n in (4, 9, 12))
    scales = tuple(random.choice([1.0, 2.0, 4.0, 8.0], random.integers(1, 4), replace=False))
    ratios = (0.5, 1.0, 2.0)[: random.integers(1, 4)]
    count, adds = len(scales) * len(ratios), bool(random.integers(2))
    scores = random.integers(0, 12, (batch, 2 * count, height, width)) / 10
    moves = random.normal(0, 6, (batch, 4 * count, height, width)).round(2) * adds
    share = random.choice([0, 0, 0.02])
    for x, numbers in ((scores, ODD), (moves, ODD if adds else [np.nan])):
        odd = random.random(x.shape) < share
        x[odd] = random.choice(numbers, odd.sum())
    sizes = (8 * random.integers(0, n + 2, batch) for n in (height, width))
    info = np.stack([*sizes, random.choice([0.5, 1, 1.7], batch)], 1)
    if seed % 4 == 3:
        info[0, random.integers(3)] = random.choice(ODD)
    attrs = {
        "scales": scales,
        "ratios": ratios,
        "feature_stride": 8,
        "iou_loss": adds,
        "rpn_min_size": int(random.choice([0, 4, 16])),
        "threshold": float(random.choice([0.7, 0.3, 0, 1])),
        "rpn_pre_nms_top_n": int(random.choice([-1, 7, 6000])),
        "rpn_post_nms_top_n": int(random.choice([1, 5, 40])),
    }
    arrays = {"p": scores, "o": moves, "i": info}
    return {name: x.astype(dtype) for name, x in arrays.items()}, attrs


@pytest.mark.parametrize("target", AVAILABLE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_proposals_are_numpys(dtype: str, target: str):
    for seed in range(8):
        given, attrs = pictured(seed, dtype)
        made = node("_contrib_Proposal", *map(var, given), output_score=True, **attrs)
        graph = [Output(made, 0), Output(made, 1)]
        with override(target=target), np.errstate(all="ignore"):
            executable = compiled(graph, given)
            assert all(executable.code.calls), "the kernel is meant"
            pairs = zip(executable([*given.values()]), run_reference(graph, given), strict=True)
        for found, wanted in pairs:
            np.testing.assert_array_equal(found, wanted, err_msg=f"seed {seed}: {attrs}")


# Ids of two boxes that cover each other, and whether MXNet takes them for one class: it compares
# them as 32-bit integers.
CLASSES = [
    ((0.0, 0.5), True),
    ((-0.5, 0.5), True),
    ((1.2, 1.9), True),
    ((1.9, 2.0), False),
    ((-1.5, -1.2), True),
    ((-1.2, -2.0), False),
    ((1e10, -1e10), True),
    ((np.nan, np.inf), True),
    ((np.nan, -(2.0**31)), True),
    ((np.nan, 0.0), False),
]


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("ids", "is_one"), CLASSES, ids=str)
def test_classes_are_the_ids_as_integers(
    ids: tuple[float, float], is_one: bool, dtype: str, hybridize: bool
):
    x = nd.array([[[ids[0], 0.9, 0, 0, 1, 1], [ids[1], 0.8, 0, 0, 1, 1]]], dtype=dtype)
    x.attach_grad()
    net = gluon.nn.HybridLambda(lambda F, x: F.contrib.box_nms(x, id_index=0))
    net.hybridize(hybridize)
    with autograd.record():
        y = net(x)
    y.backward()
    kept = [1.0, 0.0 if is_one else 1.0]
    assert (y.asnumpy()[0, :, 1] > 0).tolist() == [bool(k) for k in kept]
    assert x.grad.asnumpy()[0, :, 0].tolist() == kept


@pytest.mark.parametrize("hybridize", [False, True])
def test_the_background_is_one_id_exactly(hybridize: bool):
    """As in MXNet: 0.5 is of class 0, but is not the background 0."""
    x = nd.array([[[0.5, 0.9, 0, 0, 1, 1], [0.0, 0.8, 0, 0, 1, 1]]])
    net = gluon.nn.HybridLambda(lambda F, x: F.contrib.box_nms(x, id_index=0, background_id=0))
    net.hybridize(hybridize)
    assert net(x).asnumpy()[0, :, 0].tolist() == [0.5, -1.0]

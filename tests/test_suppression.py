"""The kernels of box_nms and detections beside their meaning in NumPy: the same rows, all bits."""

from __future__ import annotations

import numpy as np
import pytest

from compiling import AVAILABLE, call, compiled, run_reference, var
from hybridjit import override

NMS = "_contrib_box_nms"
# Numbers that ordering and comparing have to get right.
ODD = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e38, -1e38, 1e-45)


def detections(seed: int, dtype: str) -> np.ndarray:
    """Rows of id, score and box: scores repeat, and some numbers are odd."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 90))
    rows = random.random((int(random.integers(1, 4)), count, 7))
    rows[..., 0] = random.integers(-1, 3, rows.shape[:2])
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

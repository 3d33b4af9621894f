"""The kernel of box_nms beside its meaning in NumPy: the same rows, bit by bit."""

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

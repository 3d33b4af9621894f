"""Routines: machine code that references call; the same bits as NumPy, and nothing outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from guarded_routines import cases
from hybridjit.codegen.kinds.record import ROUTINES
from hybridjit.ops import native
from hybridjit.ops.vision.interpolation import resample
from patience import PATIENCE

PROGRAM = Path(__file__).parent.parent / "support" / "guarded_routines.py"
CASES = dict(cases())
# Whose sums or functions are not NumPy's in the last bits; all others have its bits.
ROUNDED = (
    *("CTC", "Hawkes", "sampler", "cells", "means", "moved", "spread", "trsm"),
    *("inverse", "determinant", "logarithm", "reflect", "regular"),
)


@pytest.fixture
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Routines run for arrays of any size."""
    monkeypatch.setattr(native, "WORTH_NATIVE", 0)


@pytest.mark.parametrize("name", CASES)
def test_a_routine_gives_the_numbers_of_numpy(name: str, every_size: None):
    with mx.override(eager="numpy"), np.errstate(all="ignore"):
        expected = np.asarray(CASES[name]())
    found = np.asarray(CASES[name]())
    if name.split()[0] in ROUNDED:
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    else:
        assert found.tobytes() == expected.tobytes()


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called as on Linux")
@pytest.mark.parametrize("place", ["end", "start"])
def test_a_routine_touches_nothing_outside_of_its_arrays(place: str):
    done = run_guarded(place)
    assert done.returncode == 0, f"{done.stdout[-200:]}\n{done.stderr[-2000:]}"
    assert done.stdout.splitlines()[-1].split() == sorted(ROUTINES)


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called as on Linux")
def test_a_routine_that_reads_too_far_ends_the_guarded_process():
    assert run_guarded("end", "--too-far").returncode < 0


def run_guarded(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize("n", [20, 40])
def test_a_singular_matrix_has_no_inverse_at_any_size(n: int):
    singular = np.ones((2, n, n), np.float32)
    with pytest.raises(mx.MXNetError, match="Singular matrix"):
        mx.nd.linalg.inverse(mx.nd.array(singular)).wait_to_read()


def test_the_switch_leaves_machine_code_out(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr(native, "_providers", [lambda name, facts: asked.append(name)])
    with mx.override(eager="numpy"):
        resample(np.zeros((128, 128, 3), np.uint8), 64, 60, 1)
    assert asked == []


def test_a_picture_of_the_same_size_is_a_copy():
    x = np.full((4, 5, 3), np.inf, np.float32)
    y = resample(x, 4, 5, 2)
    assert y is not x and not np.shares_memory(x, y) and np.array_equal(x, y)


def test_a_resized_picture_is_the_same_eager_and_hybridized():
    x = mx.nd.array(np.random.default_rng(1).integers(0, 256, (120, 160, 3)), dtype="uint8")
    net = mx.gluon.data.vision.transforms.Resize((50, 70), interpolation=2)
    eager = net(x).asnumpy()
    net.hybridize()
    assert np.array_equal(eager, net(x).asnumpy())


@pytest.mark.parametrize(("lower", "transpose"), [(True, False), (False, False), (True, True)])
def test_a_triangle_of_several_blocks_is_solved_by_products_and_routines(
    monkeypatch, lower, transpose
):
    rng = np.random.default_rng(0)
    a = (rng.uniform(0, 1, (2, 150, 150)) / 150 + np.eye(150)).astype(np.float32)
    b = rng.standard_normal((2, 150, 3)).astype(np.float32)
    triangle = np.tril(a) if lower else np.triu(a)
    wanted = np.linalg.solve(triangle.swapaxes(1, 2) if transpose else triangle, b.astype("f8"))
    monkeypatch.setattr(np.linalg, "solve", None)  # takes 40 times as long for a column
    x = mx.nd.linalg.trsm(mx.nd.array(a), mx.nd.array(b), lower=lower, transpose=transpose)
    np.testing.assert_allclose(x.asnumpy(), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_large_matrices_are_eliminated_by_lapack_and_inverted_by_panels(monkeypatch):
    """Elimination row by row takes up to nine times as long."""
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(native, "routine", lambda *facts, size=0: asked.append(facts))
    for n in (96, 97, 192, 193):
        a = mx.nd.array(np.eye(n) * 2)
        mx.nd.linalg.det(a).asnumpy()
        mx.nd.linalg.inverse(a).asnumpy()
    assert asked == [
        ("eliminate", "pivots"),
        *[("eliminate", "inverse")] * 3,
        ("panel", "float32"),
        ("trsm", "float32", 4),
    ]


def test_a_cholesky_factor_follows_from_one_triangle():
    a = np.array([[4, 2], [2, 5]], np.float32)
    wanted = np.linalg.cholesky(a)
    for lower, (row, column) in ((True, (0, 1)), (False, (1, 0))):
        given = a.copy()
        given[row, column] = np.nan
        factor = mx.nd.linalg.potrf(mx.nd.array(given), lower=lower).asnumpy()
        np.testing.assert_allclose(factor if lower else factor.T, wanted, rtol=1e-6)


def test_inverses_of_many_rows_are_as_accurate_as_single_precision_allows():
    matrices = np.random.default_rng(3).standard_normal((2, 200, 200)).astype(np.float32)
    found = mx.nd.linalg.inverse(mx.nd.array(matrices)).asnumpy()
    expected = np.linalg.inv(matrices.astype(np.float64))
    errors = np.abs(found - expected).max((1, 2)) / np.abs(expected).max((1, 2))
    condition = np.linalg.cond(matrices.astype(np.float64))
    assert (errors < 1e-7 * condition).all()

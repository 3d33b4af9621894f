"""Graphs written and run by real MXNet 1.9.1 (``fixtures/recorded``): loaded, run, compared.

Each runs eagerly and hybridized. Floating outputs agree within 1e-4 of the output's spread (1e-5
where there is none), everything else exactly.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hybridjit import gluon, nd
from hybridjit.errors import UnknownOpError

RECORDED = Path(__file__).parent.parent / "fixtures" / "recorded"
CASES = json.loads((RECORDED / "cases.json").read_text())
SPREAD = 1e-4
CONSTANT = 1e-5


def load(case: dict) -> tuple[gluon.SymbolBlock, dict[str, np.ndarray]]:
    stem = str(RECORDED / case["name"])
    block = gluon.SymbolBlock.imports(f"{stem}-symbol.json", case["inputs"], f"{stem}-0000.params")
    return block, dict(np.load(f"{stem}-io.npz"))


def run(block: gluon.SymbolBlock, case: dict, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs as arrays, for one output and for several."""
    inputs = [nd.array(arrays[name], dtype=arrays[name].dtype) for name in case["inputs"]]
    results = block(*inputs)
    return [r.asnumpy() for r in (results if isinstance(results, (list, tuple)) else [results])]


def assert_agrees(found: np.ndarray, wanted: np.ndarray) -> None:
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted)
        return
    exact = wanted.astype(np.float64)
    finite = exact[np.isfinite(exact)]
    tolerance = SPREAD * float(finite.std()) if finite.size else 0.0
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=0, atol=tolerance or CONSTANT)


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
class TestRecorded:
    def test_eager_results_equal_mxnets(self, case: dict):
        self.check(case, hybridize=False)

    def test_hybridized_results_equal_mxnets(self, case: dict):
        self.check(case, hybridize=True)

    def check(self, case: dict, hybridize: bool) -> None:
        block, arrays = load(case)
        block.hybridize(hybridize)
        for _ in range(2):
            outputs = run(block, case, arrays)
            assert len(outputs) == case["outputs"]
            for i, found in enumerate(outputs):
                assert_agrees(found, arrays[f"y{i}"])


def test_an_unknown_operator_is_named(tmp_path):
    """The error of a graph with an unregistered operator."""
    graph = (RECORDED / "conv1d-symbol.json").read_text().replace("Convolution", "NoSuchOp")
    path = tmp_path / "unknown-symbol.json"
    path.write_text(graph)
    with pytest.raises(UnknownOpError, match="Operator NoSuchOp is not registered"):
        gluon.SymbolBlock.imports(str(path), ["data"])


@pytest.mark.parametrize("scale", [1.001, np.nan])
def test_the_comparison_can_fail(scale):
    wanted = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    with pytest.raises(AssertionError):
        assert_agrees((wanted * scale).astype(np.float32), wanted)

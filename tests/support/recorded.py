"""The graphs that real MXNet wrote and ran (``fixtures/recorded``), as blocks and as outputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from hybridjit import gluon, nd

FOLDER = Path(__file__).parent.parent / "fixtures" / "recorded"
CASES = {case["name"]: case for case in json.loads((FOLDER / "cases.json").read_text())}
# Whole networks in the shape of the real ones, and recurrent ones.
NETWORKS = [name for name in CASES if name.startswith(("net_", "rnn_"))]


def block_of(name: str) -> gluon.SymbolBlock:
    """A recorded graph with its parameters."""
    stem = str(FOLDER / name)
    inputs = CASES[name]["inputs"]
    return gluon.SymbolBlock.imports(f"{stem}-symbol.json", inputs, f"{stem}-0000.params")


def arrays_of(name: str) -> tuple[list[nd.NDArray], list[np.ndarray]]:
    """The recorded inputs, and the outputs that MXNet gave."""
    case, arrays = CASES[name], np.load(FOLDER / f"{name}-io.npz")
    inputs = [nd.array(arrays[n], dtype=arrays[n].dtype) for n in case["inputs"]]
    return inputs, [arrays[f"y{i}"] for i in range(case["outputs"])]


def as_list(result: object) -> list[np.ndarray]:
    """Results of a block, as arrays."""
    several = result if isinstance(result, (list, tuple)) else [result]
    return [one.asnumpy() for one in several]

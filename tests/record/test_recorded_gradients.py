"""Gradients that real MXNet 1.9.1 computed (``fixtures/recorded/*-grad.npz``), compared.

A gradient agrees within a ten-thousandth of the array's largest value, or of a twentieth of the
case's largest gradient where that is more; ten times that for whole networks.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from hybridjit import autograd, gluon, nd
from recorded import CASES, FOLDER, block_of

# MXNet's gradients of these operators are wrong: see
# test_gradients_that_mxnet_computes_wrongly_differ.
WRONG_THERE = frozenset({"act_selu", "move_softmaxes"})
NAMES = [
    n for n in json.loads((FOLDER / "grads.json").read_text())["cases"] if n not in WRONG_THERE
]
SHARE = 1e-4
# Networks whose gradients single precision says little about: their last layers normalise batches
# of two numbers. MXNet's and ours are both several hundredths from double precision.
SHARES = {"net_mobilenet_v2": 0.1}


def run_back(name: str, block: gluon.SymbolBlock, wanted: dict[str, np.ndarray]) -> dict:
    """Everything that a case recorded, computed here."""
    arrays = np.load(FOLDER / f"{name}-io.npz")
    inputs = [nd.array(arrays[n], dtype=arrays[n].dtype) for n in CASES[name]["inputs"]]
    for x in inputs:
        if np.dtype(x.dtype).kind == "f":
            x.attach_grad()
    with autograd.record():
        made = block(*inputs)
    outputs = list(made) if isinstance(made, (list, tuple)) else [made]
    heads = heads_of(wanted).items()
    pairs = [(outputs[i], nd.array(h, dtype=h.dtype)) for i, h in heads]
    autograd.backward(*zip(*((y, h) for y, h in pairs if y._entry is not None)))
    found = {f"t{i}": y.asnumpy() for i, y in enumerate(outputs)}
    for n, x in zip(CASES[name]["inputs"], inputs):
        if x.grad is not None:
            found[f"d_{n}"] = x.grad.asnumpy()
    for n, param in block.collect_params().items():
        if param.grad_req != "null":
            found[f"p_{n}"] = param.grad().asnumpy()
        found[f"a_{n}"] = param.data().asnumpy()
    return found


def heads_of(wanted: dict[str, np.ndarray]) -> dict[int, np.ndarray]:
    """Head gradients by the output's number: they were recorded of the floating outputs alone."""
    count = sum(key[0] == "t" for key in wanted)
    floats = [i for i in range(count) if wanted[f"t{i}"].dtype.kind == "f"]
    return {i: wanted[f"h{k}"] for k, i in enumerate(floats)}


def assert_near(name: str, found: dict, wanted: dict[str, np.ndarray]) -> None:
    gradients = [np.abs(w).max() for key, w in wanted.items() if key[:2] in ("d_", "p_") and w.size]
    largest = max(filter(np.isfinite, gradients), default=0.0)
    share = SHARES.get(name, SHARE * (10 if name.startswith("net_") else 1))
    for key, w in wanted.items():
        if key.startswith("h"):
            continue
        exact = w.astype(np.float64)
        finite = np.abs(exact[np.isfinite(exact)])
        scale = max(finite.max(initial=0.0), largest / 20 if key[:2] in ("d_", "p_") else 0.0)
        tolerance = share * scale * (50 if w.dtype == np.float16 else 1)
        np.testing.assert_allclose(
            found[key].astype(np.float64), exact, rtol=0, atol=tolerance, err_msg=key
        )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("hybridize", [False, True], ids=["eager", "hybridized"])
def test_gradients_are_mxnets(name: str, hybridize: bool):
    wanted = dict(np.load(FOLDER / f"{name}-grad.npz"))
    block = block_of(name)
    block.hybridize(hybridize)
    assert_near(name, run_back(name, block, wanted), wanted)


def test_gradients_that_mxnet_computes_wrongly_differ():
    """selu, scale * alpha * exp(x) below 0: MXNet forgets that its result holds the scale already.

    SoftmaxActivation of more than two axes: MXNet comes back over axis 1, whatever axis it took.
    """
    for name in WRONG_THERE:
        wanted = dict(np.load(FOLDER / f"{name}-grad.npz"))
        with pytest.raises(AssertionError, match="d_data"):
            assert_near(name, run_back(name, block_of(name), wanted), wanted)

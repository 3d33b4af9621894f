"""Operators of ONNX Runtime's domain against its results; tools/onnx_microsoft.py recorded them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_onnx import model_of, node, numbers

from hybridjit import nd
from hybridjit._core.config import override
from hybridjit.errors import MXNetError, UnknownOpError
from hybridjit.formats.onnx.messages import read_model
from hybridjit.onnx.blocks import make_block
from hybridjit.onnx.graph import make_graph
from hybridjit.onnx.operators import KNOWN
from recorded import as_list

RECORDED = np.load(Path(__file__).parent.parent / "fixtures" / "microsoft.npz")
NAMES = [key.removesuffix(".model") for key in RECORDED.files if key.endswith(".model")]


def arrays(name: str, kind: str) -> list[np.ndarray]:
    keys = (f"{name}.{kind}{i}" for i in range(9))
    return [RECORDED[key] for key in keys if key in RECORDED.files]


@pytest.mark.parametrize("name", NAMES)
def test_operators_give_onnx_runtimes_numbers(name):
    model = read_model(RECORDED[f"{name}.model"].tobytes())
    block = make_block(make_graph(model, KNOWN, None, {}))
    given = [nd.array(x, dtype=x.dtype) for x in arrays(name, "x")]
    for active in (True, False):
        block.hybridize(active)
        for found, right in zip(as_list(block(*given)), arrays(name, "y"), strict=True):
            assert (found.shape, found.dtype) == (right.shape, right.dtype)
            near = 1 if right.dtype.kind in "iu" else 1e-5 * max(1, np.abs(right).max())
            if name == "DynamicQuantizeLSTM":  # a state between two bytes may become either
                near = 2e-3
            np.testing.assert_allclose(found.astype(float), right.astype(float), atol=near)
            if right.dtype.kind in "iu":  # halves are rounded to either side
                assert (found != right).mean() <= 0.05


@pytest.mark.parametrize("zeros", [False, True])
def test_weights_of_4_bits_stay_packed(zeros, capfd):
    """A projection for each token: 20 filters of 64 weights, two to a byte."""
    random = np.random.default_rng(4)
    constants = {
        "w": random.integers(0, 256, (20, 2, 16)).astype(np.uint8),
        "s": random.uniform(0.1, 0.2, 40).astype(np.float32),
    }
    if zeros:
        constants["z"] = random.integers(0, 256, 20).astype(np.uint8)
    use = node("MatMulNBits", " ".join(["x", *constants]), N=20, K=64, bits=4, block_size=32)
    use.domain = "com.microsoft"
    block = make_block(make_graph(model_of([use], {"x": (2, 3, 64)}, constants), KNOWN, None, {}))
    x = nd.array(random.normal(size=(2, 3, 64)))
    block.hybridize()
    with override(dump=("fuse",)):
        found = block(x).asnumpy()
    assert " nibble_dense " in capfd.readouterr().err
    low_first = (
        np.stack([constants["w"] & 15, constants["w"] >> 4], -1).reshape(20, 2, 32).astype(float)
    )
    middle = np.full((20, 2), 8.0)
    if zeros:
        middle = np.stack([constants["z"] & 15, constants["z"] >> 4], -1)
    weight = (low_first - middle[..., None]) * constants["s"].reshape(20, 2, 1)
    np.testing.assert_allclose(found, x.asnumpy() @ weight.reshape(20, 64).T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "use, message",
    [
        (node("Attention", "x w", num_heads=2, do_rotary=1), "rotary embeddings"),
        (node("FusedMatMul", "x w", transBatchA=1), "transBatchA"),
        (node("FusedGemm", "m w", activation="Tanhh"), "activation 'Tanhh'"),
        (node("MatMulNBits", "x w s", N=1, K=8, bits=3, block_size=16), "3 bits in blocks of 16"),
    ],
    ids=lambda case: case.op_type if hasattr(case, "op_type") else "",
)
def test_unsupported_nodes_raise(use, message):
    use.domain = "com.microsoft"
    constants = {"w": numbers(8, 24), "m": numbers(2, 8), "s": numbers(1)}
    with pytest.raises(MXNetError, match=message):
        make_graph(model_of([use], {"x": (2, 3, 8)}, constants), KNOWN, None, {})


def test_an_operator_of_another_domain_is_not_onnxs():
    use = node("Relu", "x")
    use.domain = "com.someone"
    with pytest.raises(UnknownOpError, match="com.someone.Relu"):
        make_graph(model_of([use], {"x": (2, 3)}), KNOWN, None, {})


def test_files_with_blocked_layouts_say_how_to_write_them_again():
    use = node("Conv", "x", "w")
    use.domain = "com.microsoft.nchwc"
    with pytest.raises(UnknownOpError, match="nchwc.Conv.*(?s:.*)ORT_ENABLE_EXTENDED"):
        make_graph(model_of([use], {"x": (2, 3, 8)}, {"w": numbers(8, 24)}), KNOWN, None, {})

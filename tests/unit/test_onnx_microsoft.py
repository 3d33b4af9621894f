"""Operators of ONNX Runtime's domain against its results; tools/onnx_microsoft.py recorded them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_onnx import info, model_of, node, numbers

from hybridjit import nd
from hybridjit._core.config import override
from hybridjit.errors import MXNetError, UnknownOpError
from hybridjit.formats.onnx.messages import read_model
from hybridjit.formats.onnx.tensors import CODES
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
            np.testing.assert_allclose(found.astype(float), right.astype(float), atol=near)
            if right.dtype.kind in "iu":  # halves are rounded to either side
                most = 0 if "AveragePool" in name else 0.05
                assert (found != right).mean() <= most


def test_quantized_means_count_cells_beyond_the_padding():
    """Windows of a rounded-up count; AveragePool leaves these cells out of the count."""
    use = node("QLinearAveragePool", "x one zero one zero", kernel_shape=(3, 2), strides=(2, 2),
               ceil_mode=1, count_include_pad=1, pads=(0, 1, 0, 0))  # fmt: skip
    use.domain = "com.microsoft"
    model = model_of([use], {}, {"one": np.ones((), np.float32), "zero": np.zeros((), np.uint8)})
    model.graph.input = [info("x", (1, 1, 6, 7), CODES[np.dtype("uint8")])]
    block = make_block(make_graph(model, KNOWN, None, {}))
    x = np.arange(42, dtype=np.uint8).reshape(1, 1, 6, 7) * 5
    whole = np.pad(x[0, 0].astype(float), ((0, 1), (1, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(whole, (3, 2))[::2, ::2]
    found = block(nd.array(x, dtype="uint8")).asnumpy()
    np.testing.assert_array_equal(found[0, 0], np.rint(windows.mean((2, 3))))


@pytest.mark.parametrize("name, other", [("QLinearAdd", 0), ("QLinearMul", 1)])
def test_halves_are_rounded_after_an_odd_zero_point_is_added(name, other):
    use = node(name, "x half zero other one zero one odd")
    use.domain = "com.microsoft"
    constants = {
        "half": np.array(0.5, np.float32), "one": np.array(1, np.float32),
        "zero": np.array(0, np.uint8), "odd": np.array(1, np.uint8),
    }  # fmt: skip
    model = model_of([use], {}, constants)
    kind = CODES[np.dtype("uint8")]
    model.graph.input = [info("x", (2, 128), kind), info("other", (2, 1), kind)]
    block = make_block(make_graph(model, KNOWN, None, {}))
    x = np.arange(256, dtype=np.uint8).reshape(2, 128)
    given = nd.array(x, dtype="uint8"), nd.full((2, 1), other, dtype="uint8")
    for active in (False, True):
        block.hybridize(active)
        np.testing.assert_array_equal(block(*given).asnumpy(), np.rint(x / 2 + 1))


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


def lstm_constants(zero_of_weights: int) -> dict[str, np.ndarray]:
    """Operands of a DynamicQuantizeLSTM of two directions, 5 data and 3 states, by their order."""
    random = np.random.default_rng(6)
    low = max(-90, zero_of_weights - 100)

    def matrix(rows: int) -> np.ndarray:
        whole = random.integers(low, low + 180, (2, rows, 12))
        return whole.astype(np.uint8 if zero_of_weights else np.int8)

    def scale() -> np.ndarray:
        return random.uniform(0.002, 0.004, (2, 12)).astype(np.float32)

    zero = np.full((2, 12), zero_of_weights, np.uint8 if zero_of_weights else np.int8)
    states = {name: random.normal(0, 0.3, (2, 2, 3)).astype(np.float32) for name in "hc"}
    bias = random.normal(0, 0.3, (2, 24)).astype(np.float32)
    return {
        "w": matrix(5), "r": matrix(3), "b": bias, "n": np.array([4, 4], np.int32), **states,
        "p": np.zeros((2, 9), np.float32), "ws": scale(), "wz": zero, "rs": scale(), "rz": zero,
    }  # fmt: skip


def dynamic_lstm(x: np.ndarray, given: dict[str, np.ndarray]) -> np.ndarray:
    """The states (time, direction, batch, state) by the operator's definition."""

    def rounded(values: np.ndarray) -> np.ndarray:
        low, high = min(0.0, values.min()), max(0.0, values.max())
        scale = np.float32((high - low) / 255)
        zero = np.rint(-low / scale)
        return (np.clip(np.rint(values / scale) + zero, 0, 255) - zero) * scale

    def weight(name: str, i: int) -> np.ndarray:
        return (given[name][i].astype(float) - given[f"{name}z"][i]) * given[f"{name}s"][i]

    def sigmoid(values: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-values))

    made = np.empty((len(x), 2, x.shape[1], 3))
    for i, order in enumerate((range(len(x)), reversed(range(len(x))))):
        h, c = given["h"][i], given["c"][i]
        bias = given["b"][i, :12] + given["b"][i, 12:]
        for t in order:
            gates = rounded(x)[t] @ weight("w", i) + rounded(h) @ weight("r", i) + bias
            enter, leave, forget, new = np.split(gates, 4, axis=1)
            c = sigmoid(forget) * c + sigmoid(enter) * np.tanh(new)
            h = (sigmoid(leave) * np.tanh(c)).astype(np.float32)
            made[t, i] = h
    return made


@pytest.mark.parametrize("zero", [0, 120])
def test_a_dynamic_lstm_multiplies_bytes(zero, capfd):
    """One product of the inputs of a direction, and one of each step but the constant first."""
    constants = lstm_constants(zero)
    use = node("DynamicQuantizeLSTM", " ".join(["x", *constants]), direction="bidirectional",
               hidden_size=3)  # fmt: skip
    use.domain = "com.microsoft"
    block = make_block(make_graph(model_of([use], {"x": (4, 2, 5)}, constants), KNOWN, None, {}))
    x = np.random.default_rng(7).normal(size=(4, 2, 5)).astype(np.float32)
    block.hybridize()
    with override(dump=("fuse",)):
        found = as_list(block(nd.array(x)))[0]
    said = capfd.readouterr().err
    assert said.count("_integer_dense(") == 2 * len(x) and "FullyConnected(" not in said
    np.testing.assert_allclose(found, dynamic_lstm(x, constants), atol=2e-3)


@pytest.mark.parametrize(
    "use, message",
    [
        (node("Attention", "x w", num_heads=2, do_rotary=1), "rotary embeddings"),
        (node("DecoderMaskedMultiHeadAttention", "x x x", num_heads=2), "without a cache"),
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

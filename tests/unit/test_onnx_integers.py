"""ONNX's products of integers against their definition: exact sums, with any zero points."""

from __future__ import annotations

import numpy as np
import pytest
from test_onnx import info, model_of, node

from compiling import AVAILABLE
from hybridjit import nd
from hybridjit._core.config import override
from hybridjit.formats.onnx.tensors import CODES
from hybridjit.onnx.blocks import make_block
from hybridjit.onnx.graph import make_graph
from hybridjit.onnx.operators import KNOWN

RANDOM = np.random.default_rng(8)


def some_bytes(*shape: int, dtype: str = "uint8") -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


def computed(use, inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray], capfd):
    """The result, equal by NumPy and by a compiled graph, and the groups of the latter."""
    model = model_of([use], {}, constants)
    model.graph.input = [info(name, x.shape, CODES[x.dtype]) for name, x in inputs.items()]
    block = make_block(make_graph(model, KNOWN, None, {}))
    given = [nd.array(x, dtype=x.dtype) for x in inputs.values()]
    eager = block(*given).asnumpy()
    block.hybridize()
    with override(dump=("fuse",)):
        found = block(*given).asnumpy()
    np.testing.assert_array_equal(found, eager)
    return found, capfd.readouterr().err


def convolved(x: np.ndarray, w: np.ndarray, stride: int, groups: int) -> np.ndarray:
    """Sums over windows inside of x, in int64."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    parts = zip(np.split(windows, groups, 1), np.split(w, groups))
    return np.concatenate([np.einsum("nchwij,fcij->nfhw", a, b) for a, b in parts], 1)


ZEROS = {
    "none": ("int8", None),
    "that fit": ("uint8", np.array(128, np.uint8)),
    "of 9 bits": ("uint8", np.array(3, np.uint8)),
    "of filters": ("int8", some_bytes(8, dtype="int8")),
}


@pytest.mark.parametrize("what", ZEROS)
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("channels, groups", [(640, 1), (16, 2), (8, 8)])
def test_convolutions_of_integers_are_exact(what, is_known, channels, groups, capfd):
    """640 channels have sums above 2**24, where float32 rounds; the padding is a zero point too."""
    dtype, zero = ZEROS[what]
    x, point = some_bytes(2, channels, 6, 5), np.array(7, np.uint8)
    w = some_bytes(8, channels // groups, 3, 3, dtype=dtype)
    names, constants, inputs = "x w p", {"w": w}, {"x": x}
    (constants if is_known else inputs)["p"] = point
    if zero is not None:
        names, constants["q"] = "x w p q", zero
    use = node("ConvInteger", names, pads=(1, 0, 2, 1), strides=(2, 2), group=groups)
    found, said = computed(use, inputs, constants, capfd)
    wide = np.pad(x.astype(np.int64) - 7, ((0, 0), (0, 0), (1, 2), (0, 1)))
    less = np.int64(0) if zero is None else zero.astype(np.int64).reshape(-1, 1, 1, 1)
    np.testing.assert_array_equal(found, convolved(wide, w.astype(np.int64) - less, 2, groups))
    assert "_integer_convolution(" in said and " Convolution(" not in said


@pytest.mark.parametrize("what", ZEROS)
@pytest.mark.parametrize("is_known", [True, False])
def test_products_of_integers_are_exact(what, is_known, capfd):
    dtype, zero = ZEROS[what]
    a, b, point = some_bytes(3, 5, 700), some_bytes(700, 8, dtype=dtype), np.array(9, np.uint8)
    names, constants, inputs = "a b p", {"b": b}, {"a": a}
    (constants if is_known else inputs)["p"] = point
    if zero is not None:
        names, constants["q"] = "a b p q", zero
    found, said = computed(node("MatMulInteger", names), inputs, constants, capfd)
    less = np.int64(0) if zero is None else zero.astype(np.int64)
    right = (a.astype(np.int64) - 9) @ (b.astype(np.int64) - less)
    np.testing.assert_array_equal(found, right)
    assert "_integer_dense(" in said and "FullyConnected(" not in said


@pytest.mark.parametrize("zero", [None, 3, 128])
def test_dynamic_products_multiply_bytes(zero, capfd):
    """Of data that the node quantizes, by weights with a scale for each column."""
    x = RANDOM.normal(size=(4, 64)).astype(np.float32)
    b = some_bytes(64, 6, dtype="int8" if zero is None else "uint8")
    scale = RANDOM.uniform(0.01, 0.02, 6).astype(np.float32)
    constants = {"b": b, "s": scale}
    if zero is not None:
        constants["z"] = np.full(6, zero, b.dtype)
    use = node("DynamicQuantizeMatMul", " ".join(["x", *constants]))
    use.domain = "com.microsoft"
    found, said = computed(use, {"x": x}, constants, capfd)
    assert "_integer_dense(" in said and "FullyConnected(" not in said
    low, high = min(0.0, x.min()), max(0.0, x.max())
    unit = np.float32((high - low) / 255)
    levels = np.clip(np.rint(x / unit) + np.rint(-low / unit), 0, 255) - np.rint(-low / unit)
    right = levels @ (b.astype(float) - (zero or 0)) * (unit * scale)
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 1, 1, 0)])
def test_maxima_of_bytes_are_taken_as_bytes(dtype, pads, capfd):
    """In files whose operators take bytes; a border on two sides alone is computed in float32."""
    x = some_bytes(2, 5, 7, 8, dtype=dtype)
    use = node("MaxPool", "x", kernel_shape=(3, 3), strides=(2, 2), pads=pads)
    found, said = computed(use, {"x": x}, {}, capfd)
    least = np.iinfo(dtype).min
    wide = np.pad(x, ((0, 0), (0, 0), pads[::2], pads[1::2]), constant_values=least)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))
    np.testing.assert_array_equal(found, windows[:, :, ::2, ::2].max((4, 5)))
    assert ("_byte_pooling(" in said) == (pads[0] == pads[2]) and "f64" not in said


def levels_of(name: str, shape: tuple[int, ...], dtype: str, size: int) -> dict[str, np.ndarray]:
    """Constant bytes, their scales and asymmetric zero points."""
    scale = RANDOM.uniform(0.01, 0.02, size).astype(np.float32)
    parts = {name: some_bytes(*shape, dtype=dtype), f"{name}_s": scale}
    parts[f"{name}_z"] = some_bytes(size, dtype=dtype)
    return {key: x.reshape(()) if x.shape == (1,) else x for key, x in parts.items()}


def static_model(use, axis: int, constants: dict[str, np.ndarray], shape: tuple[int, ...]):
    """A product between DequantizeLinear nodes, quantized, of data with zero point 7."""
    one = {"x_s": np.float32(0.05), "x_z": np.array(7, np.uint8)}
    one |= {"y_s": np.float32(1.5), "y_z": np.array(100, np.uint8)}
    nodes = [
        node("DequantizeLinear", "x x_s x_z", "data"),
        node("DequantizeLinear", "w w_s w_z", "weight", axis=axis),
        use,
        node("QuantizeLinear", "real y_s y_z", "y"),
    ]
    model = model_of(nodes, {}, {**constants, **{k: np.asarray(v) for k, v in one.items()}})
    model.graph.input = [info("x", shape, CODES[np.dtype("uint8")])]
    return make_block(make_graph(model, KNOWN, None, {}))


def bytes_on_all_targets(make, x: np.ndarray, capfd) -> np.ndarray:
    """The bytes of a model, the same on all targets and near those of NumPy, by products of
    bytes."""
    found = []
    for target in AVAILABLE:
        block = make()
        block.hybridize()
        with override(target=target, dump=("fuse",)):
            found.append(block(nd.array(x, dtype=x.dtype)).asnumpy())
        np.testing.assert_array_equal(found[0], found[-1])
        said = capfd.readouterr().err
        assert "_integer_" in said
        assert not any(name in said for name in (" Convolution(", " FullyConnected(", " dot("))
    eager = make()(nd.array(x, dtype=x.dtype)).asnumpy().astype(int)
    distance = np.abs(found[0] - eager)
    assert distance.max() <= 1 and distance.mean() < 1e-2
    return found[0].astype(int)


def quantized_levels(sums: np.ndarray, scale: np.ndarray) -> np.ndarray:
    real = sums * (np.float64(np.float32(0.05)) * scale.astype(float))
    return np.clip(np.rint(real / 1.5) + 100, 0, 255)


@pytest.mark.parametrize("dtype, size", [("uint8", 1), ("uint8", 40), ("int8", 40)])
@pytest.mark.parametrize(
    "channels, groups, stride, taps",
    [(24, 1, 1, 3), (24, 1, 1, 1), (40, 40, 1, 3), (16, 4, 2, 3), (3, 1, 2, 7)],
)
def test_static_convolutions_multiply_weights_of_any_zero_point(
    dtype, size, channels, groups, stride, taps, capfd
):
    """Zero points of 9 bits after subtraction; the padding of the data stands for 0."""
    x = some_bytes(2, channels, 18, 17)
    parts = levels_of("w", (40, channels // groups, taps, taps), dtype, size)
    pad = taps // 2
    use = node("Conv", "data weight", "real", pads=(pad,) * 4, strides=(stride,) * 2, group=groups)
    found = bytes_on_all_targets(lambda: static_model(use, 0, parts, x.shape), x, capfd)
    wide = np.pad(x.astype(np.int64) - 7, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    less, scale = (parts[name].reshape(-1, 1, 1, 1) for name in ("w_z", "w_s"))
    sums = convolved(wide, parts["w"].astype(np.int64) - less, stride, groups)
    wanted = quantized_levels(sums, scale.reshape(1, -1, 1, 1))
    assert (found != wanted).mean() < 1e-3 and np.abs(found - wanted).max() <= 1


@pytest.mark.parametrize("dtype, size", [("uint8", 1), ("uint8", 24), ("int8", 24)])
@pytest.mark.parametrize("lead", [(5,), (2, 3)])
def test_static_products_multiply_weights_of_any_zero_point(dtype, size, lead, capfd):
    x, parts = some_bytes(*lead, 100), levels_of("w", (100, 24), dtype, size)
    use = node("MatMul", "data weight", "real")
    found = bytes_on_all_targets(lambda: static_model(use, 1, parts, x.shape), x, capfd)
    sums = (x.astype(np.int64) - 7) @ (parts["w"].astype(np.int64) - parts["w_z"])
    wanted = quantized_levels(sums, parts["w_s"])
    assert (found != wanted).mean() < 1e-3 and np.abs(found - wanted).max() <= 1


ROOT = {
    "root": np.array(2**0.5, np.float32),
    "one": np.array(1, np.float32),
    "half": np.array(0.5, np.float32),
}
FUNCTIONS = {
    "swish": [node("Sigmoid", "a", "b"), node("Mul", "a b", "real")],
    "gelu": [
        node("Div", "a root", "b"), node("Erf", "b", "c"), node("Add", "c one", "d"),
        node("Mul", "a d", "real"),
    ],
    "gelu of quantized parts": [
        node("Mul", "a half", "b"), node("QuantizeLinear", "b s z", "c"),
        node("DequantizeLinear", "c s z", "d"), node("Div", "a root", "e"),
        node("QuantizeLinear", "e s z", "f"), node("DequantizeLinear", "f s z", "g"),
        node("Erf", "g", "h"), node("Add", "h one", "i"), node("Mul", "d i", "real"),
    ],
    "swish of a quantized sigmoid": [
        node("Sigmoid", "a", "b"), node("QuantizeLinear", "b s z", "c"),
        node("DequantizeLinear", "c s z", "d"), node("Mul", "a d", "real"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_costly_function_between_bytes_is_one_table(name, dtype, capfd):
    """Computed by NumPy at binding, so that each byte is that of the operators."""
    constants = {"s": np.array(0.03, np.float32), "z": np.array(20, dtype), **ROOT}
    first, last = node("DequantizeLinear", "x s z", "a"), node("QuantizeLinear", "real s z", "y")
    limits = np.iinfo(dtype)
    x = np.arange(limits.min, limits.max + 1).astype(dtype).reshape(4, 64)
    model = model_of([first, *FUNCTIONS[name], last], {}, constants)
    model.graph.input = [info("x", x.shape, CODES[x.dtype])]
    wanted = make_block(make_graph(model, KNOWN, None, {}))(nd.array(x, dtype=dtype)).asnumpy()
    for target in AVAILABLE:
        block = make_block(make_graph(model, KNOWN, None, {}))
        block.hybridize()
        with override(target=target, dump=("fuse",)):
            found = block(nd.array(x, dtype=dtype)).asnumpy()
        np.testing.assert_array_equal(found, wanted)
        said = capfd.readouterr().err
        assert said.count(" take(") == 1 and "_from_bytes(" not in said


def attention_of_bytes(width):
    """A file's attention of quantized rows to themselves, whose number is open."""
    constants = {
        "s": np.array(0.02, np.float32), "z": np.array(100, np.uint8),
        "t": np.array(0.1, np.float32), "p": np.array(1 / 255, np.float32),
        "none": np.array(0, np.uint8),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "a"), node("DequantizeLinear", "a s z", "b"),
        node("Transpose", "b", "c", perm=(0, 2, 1)), node("MatMul", "b c", "d"),
        node("QuantizeLinear", "d t z", "e"), node("DequantizeLinear", "e t z", "f"),
        node("Softmax", "f", "g", axis=2), node("QuantizeLinear", "g p none", "h"),
        node("DequantizeLinear", "h p none", "i"), node("MatMul", "i b"),
    ]  # fmt: skip
    return model_of(nodes, {"x": (1, None, width)}, constants)


@pytest.mark.parametrize("width", [8, 300])
def test_attention_of_bytes_has_the_same_bits_for_sizes_that_vary(width, capfd):
    """Sums of 300 products of bytes exceed float32: they are exact in both."""
    model, random = attention_of_bytes(width), np.random.default_rng(width)
    varying = make_block(make_graph(model, KNOWN, None, {}))
    varying.hybridize()
    for rows in (40, 3, 17, 64):
        x = nd.array((random.standard_normal((1, rows, width)) * 4).astype(np.float32))
        fixed = make_block(make_graph(model, KNOWN, None, {}))
        wanted = fixed(x).asnumpy()
        fixed.hybridize(dynamic=False)
        with override(dump=("fuse",)):
            found = fixed(x).asnumpy()
        assert capfd.readouterr().err.count("_integer_batch_dot(") == 2
        np.testing.assert_array_equal(varying(x).asnumpy(), found)
        np.testing.assert_allclose(found, wanted, atol=0.01)

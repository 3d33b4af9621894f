"""Record single operators of ONNX Runtime's domain for tests/fixtures/microsoft.npz.

    python tools/onnx_microsoft.py FILE.npz

Needs the packages onnx and onnxruntime. For each case the file has a model of one node
(``NAME.model``), arrays of its inputs (``NAME.x0`` and on) and ONNX Runtime's outputs
(``NAME.y0`` and on).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import onnxruntime
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

CODES = {
    np.dtype("float32"): TensorProto.FLOAT,
    np.dtype("uint8"): TensorProto.UINT8,
    np.dtype("int8"): TensorProto.INT8,
    np.dtype("int32"): TensorProto.INT32,
    np.dtype("int64"): TensorProto.INT64,
    np.dtype("bool"): TensorProto.BOOL,
}
RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def whole(dtype: str, low: int, high: int, *shape: int) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(dtype)


def byte(*shape: int) -> np.ndarray:
    return whole("uint8", 0, 256, *shape)


def signed(*shape: int) -> np.ndarray:
    return whole("int8", -100, 100, *shape)


def scale(*values: float) -> np.ndarray:
    return np.array(values[0] if len(values) == 1 else values, np.float32)


def zero(value: int, dtype: str = "uint8") -> np.ndarray:
    return np.array(value, dtype)


class Case:
    """One node: ``given`` are its inputs, those from ``fixed`` on initializers."""

    def __init__(
        self, name: str, given: list, fixed: int = 99, outputs: str = "1", **attributes: object
    ) -> None:
        self.name, self.given, self.fixed, self.attributes = name, given, fixed, attributes
        self.op_type = name.partition("-")[0]
        self.outputs = [f"y{i}" if used == "1" else "" for i, used in enumerate(outputs)]

    def feed(self) -> dict[str, np.ndarray]:
        return {f"x{i}": a for i, a in enumerate(self.given[: self.fixed]) if a is not None}

    def model(self) -> bytes:
        names = ["" if a is None else f"x{i}" for i, a in enumerate(self.given)]
        domain = "" if self.op_type == "SimplifiedLayerNormalization" else "com.microsoft"
        node = helper.make_node(
            self.op_type, names, self.outputs, "the_node", domain=domain, **self.attributes
        )
        inputs = [
            helper.make_tensor_value_info(n, CODES[a.dtype], a.shape)
            for n, a in self.feed().items()
        ]
        constants = [
            numpy_helper.from_array(a, n)
            for n, a in list(zip(names, self.given))[self.fixed :]
            if a is not None
        ]
        outputs = [ValueInfoProto(name=name) for name in self.outputs if name]
        graph = helper.make_graph([node], "case", inputs, outputs, constants)
        versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=9).SerializeToString()


def pointwise() -> Iterator[Case]:
    x = floats(2, 3, 8)
    yield Case("Gelu", [x])
    yield Case("FastGelu", [x])
    yield Case("FastGelu-bias", [x, floats(8)], 1)
    yield Case("BiasGelu", [x, floats(8)], 1)
    yield Case("QuickGelu", [x])
    yield Case("QuickGelu-alpha", [x], alpha=1.2)
    yield Case("ExpandDims", [x, zero(1, "int32")], 1)
    yield Case("Inverse", [floats(2, 3, 3)])
    yield Case("Trilu", [floats(4, 4)], upper=0)


def norms() -> Iterator[Case]:
    x, skip, rows = floats(2, 3, 8), floats(2, 3, 8), [floats(8) for _ in range(3)]
    yield Case("SkipLayerNormalization", [x, skip, *rows], 2)
    yield Case("SkipLayerNormalization-plain", [x, skip, rows[0]], 2, epsilon=1e-5)
    yield Case("SkipLayerNormalization-sum", [x, skip, *rows[:2]], 2, "1001")
    yield Case("SkipLayerNormalization-two_axes", [x, skip[0], *rows], 2)
    yield Case("SkipLayerNormalization-one_sample", [x, skip[:1], *rows], 2)
    yield Case("SimplifiedLayerNormalization", [x, rows[0]], 1, epsilon=1e-6, axis=-1)
    yield Case("SkipSimplifiedLayerNormalization", [x, skip, rows[0]], 2, "1001", epsilon=1e-6)
    yield Case("SkipSimplifiedLayerNormalization-bias", [x, skip, *rows[:2]], 2)
    ids, kinds = whole("int32", 0, 10, 2, 5), whole("int32", 0, 2, 2, 5)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    words, places, types = floats(10, 8), floats(12, 8), floats(2, 8)
    last = [words, places, types, *rows[:2]]
    yield Case("EmbedLayerNormalization", [ids, kinds, *last], 2, "11")
    yield Case("EmbedLayerNormalization-ids", [ids, None, words, places, None, *rows[:2]], 2, "11")
    masked = Case("EmbedLayerNormalization-mask", [ids, kinds, *last, mask], 8, "111")
    yield masked
    given = [ids, kinds, *last, None, whole("int32", 0, 12, 2, 5)]
    yield Case("EmbedLayerNormalization-places", given, 9, "11")


def attentions() -> Iterator[Case]:
    x, w, b, two = floats(2, 5, 8), floats(8, 24), floats(24), {"num_heads": 2}
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    past = floats(2, 2, 2, 3, 4)
    longer = np.concatenate([np.ones((2, 3), np.int32), mask], 1)
    for name, more in {
        "plain": [],
        "mask": [mask],
        "lengths": [np.array([3, 5], np.int32)],
        "starts": [np.array([3, 5, 1, 0], np.int32)],
        "each": [whole("int32", 0, 2, 2, 5, 5)],
        "added": [None, None, floats(2, 2, 5, 5)],
    }.items():
        yield Case(f"Attention-{name}", [x, w, b, *more], **two)
    yield Case("Attention-causal", [x, w, b], unidirectional=1, scale=0.3, **two)
    yield Case("Attention-past", [x, w, b, None, past], 99, "11", unidirectional=1, **two)
    yield Case("Attention-past_mask", [x, w, b, longer, past], 99, "11", **two)
    sizes = {"qkv_hidden_sizes": [8, 8, 4]}
    yield Case("Attention-sizes", [x, floats(8, 20), floats(20), mask], **sizes, **two)
    q, k, v = floats(2, 5, 8), floats(2, 6, 8), floats(2, 6, 8)
    seen = np.array([[1, 1, 1, 1, 0, 0], [1] * 6], np.int32)
    for name, more in {
        "plain": [],
        "bias": [floats(24)],
        "mask": [None, seen],
        "lengths": [None, np.array([4, 6], np.int32)],
        "added": [None, None, floats(1, 2, 5, 6)],
    }.items():
        yield Case(f"MultiHeadAttention-{name}", [q, k, v, *more], **two)
    given = [q, floats(2, 5, 8), floats(2, 5, 8), None, None, None, past[0], past[1]]
    yield Case("MultiHeadAttention-past", given, 99, "111", **two)
    yield Case("MultiHeadAttention-causal", given[:3], unidirectional=1, **two)
    cross = [q, floats(2, 2, 6, 4), floats(2, 2, 6, 4), floats(24)]
    yield Case("MultiHeadAttention-cross", cross, **two)
    tables = [floats(10, 2), floats(10, 2)]
    places = np.array([[0, 1, 2], [3, 1, 0]])
    yield Case("RotaryEmbedding", [floats(2, 3, 8), places, *tables], 2)
    yield Case("RotaryEmbedding-first", [floats(2, 3, 8), np.array([2]), *tables], 2)
    wide = [floats(2, 2, 3, 8), np.array([2]), floats(10, 4), floats(10, 4)]
    yield Case("RotaryEmbedding-interleaved", wide, 2, interleaved=1)
    part = {"num_heads": 2, "rotary_embedding_dim": 4}
    yield Case("RotaryEmbedding-part", [floats(2, 3, 16), np.array([2]), *tables], 2, **part)


def products() -> Iterator[Case]:
    yield Case("FusedMatMul", [floats(2, 3, 4), floats(2, 4, 5)])
    turned = {"transA": 1, "transB": 1, "alpha": 0.5}
    yield Case("FusedMatMul-turned", [floats(2, 4, 3), floats(2, 5, 4)], **turned)
    yield Case("FusedMatMul-weights", [floats(2, 3, 4), floats(5, 4)], 1, transB=1, alpha=2.0)
    x, w, b = floats(1, 3, 6, 6), floats(4, 3, 3, 3), floats(4)
    around = {"pads": [1, 1, 1, 1], "activation": "Relu"}
    yield Case("FusedConv", [x, w, b], 1, kernel_shape=[3, 3], **around)
    yield Case("FusedConv-sum", [x, w, b, floats(1, 4, 6, 6)], **around)
    for name, numbers in {
        "Clip": [0.0, 6.0],
        "LeakyRelu": [0.2],
        "HardSigmoid": [0.2, 0.4],
    }.items():
        how = {"activation": name, "activation_params": numbers}
        yield Case(f"FusedConv-{name}", [x, w], 1, **how)
    given = [floats(3, 4), floats(4, 5), floats(5)]
    yield Case("FusedGemm", given, 1, activation="Relu", alpha=0.5)
    how = {"activation": "LeakyRelu", "activation_alpha": 0.3, "transB": 1}
    yield Case("FusedGemm-slope", [given[0], floats(5, 4), given[2]], 1, **how)
    few = {"K": 32, "N": 6, "bits": 4, "block_size": 16}
    yield Case("MatMulNBits", [floats(2, 3, 32), byte(6, 2, 8), floats(12)], 1, **few)
    cut = {**few, "K": 40}
    given = [floats(2, 40), byte(6, 3, 8), floats(18)]
    yield Case("MatMulNBits-zeros", [*given, byte(12)], 1, **cut)
    yield Case("MatMulNBits-float_zeros", [*given, floats(18), None, floats(6)], 1, **cut)
    bytes_ = {"K": 32, "N": 6, "bits": 8, "block_size": 32}
    yield Case("MatMulNBits-bytes", [floats(2, 32), byte(6, 1, 32), floats(6)], 1, **bytes_)


def of_bytes() -> Iterator[Case]:
    first, second, out = [scale(0.05), zero(128)], [scale(0.1), zero(100)], [scale(0.2), zero(120)]
    yield Case("QLinearAdd", [byte(4, 25), *first, byte(4, 25), *second, *out])
    small = [zero(n, "int8") for n in (3, -4, 1)]
    given = [signed(4, 25), scale(0.05), small[0], signed(4, 25), scale(0.1), small[1]]
    yield Case("QLinearMul", [*given, scale(0.5), small[2]])
    unit = [scale(1 / 256), zero(0)]
    yield Case("QLinearSigmoid", [byte(4, 25), *first, *unit], 1)
    yield Case("QLinearLeakyRelu", [byte(4, 25), *first, *second], 1, alpha=0.1)
    yield Case("QLinearSoftmax", [byte(2, 5), *first, *unit], 1, axis=-1, opset=13)
    last = {"channels_last": 1}
    yield Case("QLinearGlobalAveragePool", [byte(1, 3, 4, 4), *first, *second], 1)
    yield Case("QLinearGlobalAveragePool-last", [byte(1, 4, 4, 3), *first, *second], 1, **last)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield Case("QLinearAveragePool", [byte(1, 3, 6, 6), *first, *second], 1, **window)
    yield Case("QLinearAveragePool-last", [byte(1, 6, 6, 3), *first, *second], 1, **window, **last)
    parts = [byte(2, 3), *first, byte(2, 2), *second]
    yield Case("QLinearConcat", [scale(0.1), zero(128), *parts], axis=1)
    given = [whole("bool", 0, 2, 4, 25), byte(4, 25), *first, byte(4, 25), *second, *out]
    yield Case("QLinearWhere", given)
    w, bias = [signed(5, 4), scale(0.02), zero(0, "int8")], whole("int32", -500, 500, 5)
    yield Case("QGemm", [byte(3, 4), *first, *w, bias, *out], 1, transB=1)
    scales = scale(0.02, 0.03, 0.01, 0.05, 0.04)
    each = [signed(4, 5), scales, np.zeros(5, np.int8)]
    yield Case("QGemm-floats", [byte(3, 4), *first, *each, bias], 1)
    given = [byte(2, 3, 4), each[0], first[0], scales, first[1], each[2], floats(5)]
    yield Case("MatMulIntegerToFloat", given, 1)
    yield Case("DynamicQuantizeMatMul", [floats(2, 3, 4), *each[:2], None, floats(5)], 1)
    given = [floats(2, 3, 4), byte(4, 5), scale(0.02), zero(120)]
    yield Case("DynamicQuantizeMatMul-zero", given, 1)
    numbers = [scale(0.01), zero(3, "int8"), scale(0.02), zero(0, "int8")]
    numbers = [array.reshape(1) for array in numbers]
    given = [floats(4, 2, 5), signed(1, 5, 12), signed(1, 3, 12), floats(1, 24)]
    last = {"hidden_size": 3}
    yield Case("DynamicQuantizeLSTM", [*given, *[None] * 4, *numbers], 1, "111", **last)
    w = [signed(4, 3, 3, 3), scale(0.02), zero(0, "int8")]
    given = [byte(1, 6, 6, 3), *first, *w, scale(0.3), zero(120)]
    yield Case("QLinearConv-last", given, 1, channels_last=1)
    yield Case("QuantizeLinear", [floats(2, 3), *first], 1)
    yield Case("DequantizeLinear", [byte(2, 3), *first], 1)


def decoders() -> Iterator[Case]:
    two = {"num_heads": 4, "kv_num_heads": 2}
    tables = [floats(16, 8), floats(16, 8)]
    first, later = np.array([4, 2], np.int32), np.array([6, 4], np.int32)
    q, k, v = floats(2, 5, 64), floats(2, 5, 32), floats(2, 5, 32)
    begin = [q, k, v, None, None, first, zero(5, "int32")]
    yield Case("GroupQueryAttention", begin, 6, "111", **two)
    packed = [floats(2, 5, 128), *[None] * 4, *begin[5:]]
    yield Case("GroupQueryAttention-packed", packed, 6, "111", softcap=2.0, **two)
    turn = {"do_rotary": 1, **two}
    yield Case("GroupQueryAttention-turned", [*begin, *tables], 6, "111", **turn)
    past = [floats(2, 2, 6, 16), floats(2, 2, 6, 16)]
    step = [floats(2, 1, 64), floats(2, 1, 32), floats(2, 1, 32), *past, later, zero(7, "int32")]
    yield Case("GroupQueryAttention-past", [*step, *tables], 6, "111", rotary_interleaved=1, **turn)
    several = [q[:1], k[:1], v[:1], past[0][:1], past[1][:1], later[:1] + 4, zero(11, "int32")]
    yield Case("GroupQueryAttention-window", several, 6, "111", local_window_size=3, **two)
    bias = [*[None] * 3, floats(1, 4, 5, 5)]
    yield Case("GroupQueryAttention-bias", [*begin, *bias], 6, "1", smooth_softmax=1, **two)
    sink = [*bias, floats(4)]
    yield Case("GroupQueryAttention-sink", [*begin, *sink], 6, "1", scale=0.2, **two)
    places = whole("int64", 0, 12, 2, 5)
    yield Case("GroupQueryAttention-places", [*begin, *tables, places], 6, "111", **turn)
    caches = [floats(2, 2, 6, 8), floats(2, 2, 6, 8), zero(3, "int32")]
    one = [floats(2, 1, 16), floats(2, 1, 16), floats(2, 1, 16)]
    room = {"num_heads": 2, "past_present_share_buffer": 1}
    decoder = "DecoderMaskedMultiHeadAttention"
    yield Case(decoder, [*one, None, None, *caches, None, None, floats(48)], 99, "111", **room)
    seen = np.array([[1, 1, 0, 1], [1, 1, 1, 1]], np.int32)
    yield Case(f"{decoder}-mask", [*one, seen, floats(1, 2, 1, 4), *caches], 99, "111", **room)
    yield Case(f"{decoder}-cross", [one[0], *caches[:2]], 99, num_heads=2)
    ends = np.array([3, 5, 0, 5, 10, 0, 5, 10], np.int32)
    three = [floats(2, 5, 16), floats(2, 5, 16), floats(2, 5, 16), None, ends]
    yield Case("MultiHeadAttention-packed_lengths", three, num_heads=2)
    given = [byte(2, 5, 8), signed(8, 24), floats(24), scale(0.05), scale(0.02)]
    seen = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    points = [zero(128), zero(0, "int8")]
    yield Case("QAttention", [*given, seen, *points], 1, num_heads=2)
    given[4:5] = [scale(*RNG.uniform(0.01, 0.03, 24))]
    points[1] = np.zeros(24, np.int8)
    causal = {"num_heads": 2, "unidirectional": 1}
    past = floats(2, 2, 2, 3, 4)
    yield Case("QAttention-past", [*given, None, *points, past], 1, "11", **causal)
    batches = {"transA": 1, "transBatchA": 1, "transBatchB": 1}
    yield Case("FusedMatMul-batches", [floats(4, 2, 3), floats(4, 2, 5)], **batches)


def main() -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1  # DynamicQuantizeLSTM gives samples of threads own ranges
    kept: dict[str, np.ndarray] = {}
    for family in (pointwise, norms, attentions, products, of_bytes, decoders):
        for case in family():
            model, feed = case.model(), case.feed()
            found = onnxruntime.InferenceSession(model, options).run(None, feed)
            kept[f"{case.name}.model"] = np.frombuffer(model, np.uint8)
            kept |= {f"{case.name}.x{i}": a for i, a in enumerate(feed.values())}
            kept |= {f"{case.name}.y{i}": a for i, a in enumerate(found)}
    np.savez_compressed(sys.argv[1], **kept)


if __name__ == "__main__":
    main()

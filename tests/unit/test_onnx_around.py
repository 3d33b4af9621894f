"""Operators between DequantizeLinear and QuantizeLinear against the definition: exact levels.

The operator alone runs in float32 on values that NumPy quantized.
"""

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

RANDOM = np.random.default_rng(21)
SHAPE = (2, 4, 8, 6)
TARGETS = ["" if name == "native" else name for name in AVAILABLE]
WINDOWS = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}


def whole(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


# Of each operator its node on "a", and its constants.
OPERATORS = {
    "Gather": (node("Gather", "a i", "b", axis=2), {"i": whole(0, 3, 3, 1)}),
    "Concat": (node("Concat", "a a", "b", axis=1), {}),
    "MaxPool": (node("MaxPool", "a", "b", **WINDOWS), {}),
    "AveragePool": (node("AveragePool", "a", "b", **WINDOWS), {}),
    "GlobalAveragePool": (node("GlobalAveragePool", "a", "b"), {}),
    "Resize": (
        node("Resize", "a none s", "b", mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric"),
        {"none": np.zeros(0, np.float32), "s": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "Pad": (node("Pad", "a p", "b"), {"p": whole(0, 0, 1, 2, 0, 0, 2, 1)}),
    "Slice": (
        node("Slice", "a f l axes steps", "b"),
        {"f": whole(1, 5), "l": whole(4, -9), "axes": whole(1, 3), "steps": whole(1, -2)},
    ),
    "Transpose": (node("Transpose", "a", "b", perm=(0, 2, 3, 1)), {}),
    "ReduceMax": (node("ReduceMax", "a", "b", axes=(1,)), {}),
    "Relu": (node("Relu", "a", "b"), {}),
    "LeakyRelu": (node("LeakyRelu", "a", "b", alpha=0.1), {}),
    "DepthToSpace": (node("DepthToSpace", "a", "b", blocksize=2), {}),
    "Tile": (node("Tile", "a t", "b"), {"t": whole(1, 2, 1, 2)}),
}  # fmt: skip


def levels(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(x / scale) + zero.astype(np.float32), limits.min, limits.max)


def numbers(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    return ((x - zero.astype(np.float32)) * scale).astype(np.float32)


def run(nodes: list, constants: dict[str, np.ndarray], x: np.ndarray, active: bool) -> np.ndarray:
    model = model_of(nodes, {}, constants)
    model.graph.input = [info("x", x.shape, CODES[x.dtype])]
    block = make_block(make_graph(model, KNOWN, None, {}))
    block.hybridize(active)
    return block(nd.array(x, dtype=x.dtype)).asnumpy()


@pytest.mark.parametrize("dtype, zero", [("uint8", 0), ("uint8", 201), ("int8", -7),
                                         ("uint16", 40000), ("int16", 0)])  # fmt: skip
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_between_quantized_values(name, dtype, zero):
    use, constants = OPERATORS[name]
    step = 0.03 if dtype.endswith("8") else 0.0001
    scale, zero = np.array(step, np.float32), np.array(zero, dtype)
    other = np.array(step * 1.3, np.float32)
    constants = {**constants, "s1": scale, "z": zero, "s2": other}
    nodes = [
        node("QuantizeLinear", "x s1 z", "q"),
        node("DequantizeLinear", "q s1 z", "a"),
        use,
        node("QuantizeLinear", "b s2 z", "y"),
    ]
    x = RANDOM.standard_normal(SHAPE).astype(np.float32)
    plain = [node("Identity", "x", "a"), use, node("Identity", "b", "y")]
    given = numbers(levels(x, scale, zero), scale, zero)
    wanted = levels(run(plain, constants, given, False), other, zero)
    found = [run(nodes, constants, x, False)]
    for target in TARGETS:
        with override(target=target):
            found.append(run(nodes, constants, x, True))
    for each in found:
        assert each.dtype == (dtype if dtype.endswith("8") else "int32")  # which holds 16 bits
        if "Average" in name:  # sums in another order are ties on either side
            assert (
                np.abs(each - wanted).max() <= 1 and (each != wanted).sum() <= 1 + 0.05 * each.size
            )
        else:
            np.testing.assert_array_equal(each, wanted)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("axis, block", [(1, 0), (3, 0), (-2, 0), (1, 2), (3, 3)])
def test_scales_along_an_axis_and_of_blocks(axis, block, dtype):
    """The zero points differ too."""
    sizes = [SHAPE[axis]] if not block else [*SHAPE]
    if block:
        sizes[axis] //= block
    limits = np.iinfo(dtype)
    scale = RANDOM.uniform(0.01, 0.05, sizes).astype(np.float32) / (limits.max - limits.min) * 255
    zero = RANDOM.integers(limits.min, limits.max + 1, sizes).astype(dtype)
    attributes = {"axis": axis, **({"block_size": block} if block else {})}
    nodes = [
        node("QuantizeLinear", "x s z", "q", **attributes),
        node("DequantizeLinear", "q s z", "y", **attributes),
    ]
    x = RANDOM.standard_normal(SHAPE).astype(np.float32)
    form = [-1 if i == axis % 4 else 1 for i in range(4)]
    each = [np.repeat(part, block, axis) if block else part.reshape(form) for part in (scale, zero)]
    wanted = numbers(levels(x, *each), *each)
    for active in (False, True):
        found = run(nodes, {"s": scale, "z": zero}, x, active)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)

"""ONNX files: those that MXNet's own exporter wrote give MXNet's numbers, and damaged ones end."""

from __future__ import annotations

import os
import random
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import hybridjit
from hybridjit import nd
from hybridjit.errors import DTypeError, ModelFormatError, MXNetError, ShapeError, UnknownOpError
from hybridjit.formats.onnx import messages, wire
from hybridjit.formats.onnx.messages import Attribute, Graph, Model, Node, OperatorSet, ValueInfo
from hybridjit.formats.onnx.tensors import BFLOAT16, CODES, make_tensor, read_array
from hybridjit.ir.node import topological
from hybridjit.onnx.blocks import make_block
from hybridjit.onnx.graph import make_graph
from hybridjit.onnx.operators import KNOWN
from hybridjit.onnx.operators.resize import Axis, _matrix
from hybridjit.onnx.use import Use
from reading import FORMATS, MEMORY, Bounds
from recorded import arrays_of, as_list

FOLDER = Path(__file__).parent.parent / "fixtures" / "onnx"
RECORDED = sorted(path.stem for path in FOLDER.glob("*.onnx"))


def info(name: str, shape: tuple[int | None, ...], code: int = 1) -> ValueInfo:
    """An input or output."""
    sizes = tuple(messages.Dimension(dim_value=n, dim_param="" if n else "N") for n in shape)
    tensor = messages.TensorType(elem_type=code, shape=messages.Shape(dim=sizes))
    return ValueInfo(name, messages.Type(tensor))


def attribute(name: str, value: object) -> Attribute:
    """An attribute of the kind of its value."""
    if isinstance(value, float):
        return Attribute(name=name, f=value, type=1)
    if isinstance(value, int):
        return Attribute(name=name, i=value, type=2)
    if isinstance(value, str):
        return Attribute(name=name, s=memoryview(value.encode()), type=3)
    if isinstance(value, np.ndarray):
        return Attribute(name=name, t=make_tensor("", value), type=4)
    assert isinstance(value, tuple)
    if value and isinstance(value[0], str):
        return Attribute(name=name, strings=[memoryview(v.encode()) for v in value], type=8)
    return Attribute(name=name, ints=value, type=7)


def node(op_type: str, inputs: str, outputs: str = "y", **attributes: object) -> Node:
    """A node; names are parted by blanks."""
    made = tuple(attribute(*pair) for pair in attributes.items())
    return Node(inputs.split(), outputs.split(), f"the_{op_type.lower()}", op_type, made)


def model_of(
    nodes: list[Node],
    inputs: dict[str, tuple[int | None, ...]],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 17,
) -> Model:
    """A model whose output is ``y``."""
    graph = Graph(
        node=nodes,
        initializer=[make_tensor(name, array) for name, array in (constants or {}).items()],
        input=[info(name, shape) for name, shape in inputs.items()],
        output=[info("y", ())],
    )
    return Model(ir_version=8, graph=graph, opset_import=[OperatorSet("", opset)])


def computed(model: Model, *arrays: np.ndarray) -> list[np.ndarray]:
    """The model's outputs, after a way through bytes; compiled and eager alike."""
    again = messages.read_model(b"".join(messages.write(model)))
    block = make_block(make_graph(again, KNOWN, None, {}))
    inputs = [nd.array(array, dtype=array.dtype) for array in arrays]
    compiled = as_list(block(*inputs))
    block.hybridize(active=False)
    for one, other in zip(compiled, as_list(block(*inputs))):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return compiled


# Files of MXNet 1.9.1


@pytest.mark.parametrize("name", RECORDED)
def test_files_of_mxnets_exporter_give_mxnets_numbers(name):
    inputs, outputs = arrays_of(name)
    block = hybridjit.onnx.load(FOLDER / f"{name}.onnx")
    for found, right in zip(as_list(block(*inputs)), outputs, strict=True):
        scale = float(np.abs(right).max(initial=0)) or 1.0
        assert found.shape == right.shape
        np.testing.assert_allclose(found / scale, right / scale, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 7])
def test_the_example_is_the_network_of_mxnets_files(batch):
    folder = Path(__file__).parent.parent.parent / "examples" / "digits"
    x = nd.array(np.random.default_rng(batch).random((batch, 1, 28, 28)))
    found = hybridjit.onnx.load(folder / "digits.onnx")(x)
    right = hybridjit.load(str(folder / "digits"))(x)
    np.testing.assert_allclose(found.asnumpy(), right.asnumpy(), rtol=1e-5, atol=1e-5)


def test_mxnets_functions():
    path = FOLDER / "net_se.onnx"
    symbol, arguments, states = hybridjit.contrib.onnx.import_model(path)
    assert set(symbol.list_arguments()) == {"data", *arguments}
    assert set(symbol.list_auxiliary_states()) == set(states)
    found = hybridjit.onnx.get_model_metadata(path)
    assert found["input_tensor_data"] == [("data", (2, 16, 10, 10))]
    inputs, outputs = arrays_of("net_se")
    (made,) = as_list(hybridjit.onnx.import_to_gluon(path)(*inputs))
    np.testing.assert_allclose(made, outputs[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(AttributeError, match="internal to MXNet's exporter"):
        _ = hybridjit.onnx.mx2onnx


def test_a_network_is_exported_as_mxnets_files(tmp_path):
    name = "net_se"
    inputs, outputs = arrays_of(name)
    block = hybridjit.onnx.load(FOLDER / f"{name}.onnx")
    block(*inputs)
    block.export(str(tmp_path / "again"))
    again = hybridjit.load(str(tmp_path / "again"))
    np.testing.assert_allclose(as_list(again(*inputs))[0], outputs[0], rtol=1e-4, atol=1e-5)


# Files of PyTorch

PYTORCH = Path(__file__).parent.parent / "fixtures" / "pytorch"


@pytest.mark.parametrize("path", sorted(PYTORCH.glob("*.onnx")), ids=lambda p: p.stem)
def test_files_of_pytorchs_exporter_give_pytorchs_numbers(path):
    """Compiled and run by NumPy; tools/onnx_torch.py wrote the files."""
    arrays = np.load(path.with_suffix(".npz"))
    block = hybridjit.onnx.load(path)
    for is_compiled in (True, False):
        block.hybridize(active=is_compiled)
        (found,) = as_list(block(nd.array(arrays["x"], dtype=arrays["x"].dtype)))
        np.testing.assert_allclose(found, arrays["y"], rtol=1e-4, atol=1e-4 * arrays["y"].std())


# Operators that MXNet's exporter does not write


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def test_padding_that_differs_from_side_to_side():
    x, w = numbers(1, 2, 5, 6), numbers(3, 2, 3, 3)
    conv = node("Conv", "x w", pads=(0, 1, 1, 2), strides=(2, 1))
    (found,) = computed(model_of([conv], {"x": x.shape}, {"w": w}), x)
    padded = np.pad(x, ((0, 0), (0, 0), (0, 1), (1, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2]
    np.testing.assert_allclose(found, np.einsum("nchwij,fcij->nfhw", windows, w), atol=1e-5)


def test_averages_count_no_padding():
    x = numbers(1, 1, 4, 5)
    pool = node("AveragePool", "x", kernel_shape=(3, 3), pads=(1, 0, 0, 1))
    (found,) = computed(model_of([pool], {"x": x.shape}), x)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    np.testing.assert_allclose(found, np.nanmean(windows, axis=(-2, -1)), atol=1e-6)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lstm_equals_its_definition(direction):
    """Against the definition, gates in ONNX's order: input, output, forget, cell."""
    x, count = numbers(4, 3, 5), 2 if direction == "bidirectional" else 1
    w, r, b = numbers(count, 24, 5), numbers(count, 24, 6), numbers(count, 48)
    lstm = node("LSTM", "x w r b", "y", hidden_size=6, direction=direction)
    (found,) = computed(model_of([lstm], {"x": x.shape}, {"w": w, "r": r, "b": b}), x)
    for d in range(count):
        is_back = direction == "reverse" or d == 1
        states = _lstm(x[::-1] if is_back else x, w[d], r[d], b[d])
        right = states[::-1] if is_back else states
        np.testing.assert_allclose(found[:, d], right, atol=1e-5)


def _lstm(x, w, r, b):
    h = c = np.zeros((x.shape[1], r.shape[1]))
    states = []
    for step in x:
        i, o, f, g = np.split(step @ w.T + h @ r.T + b[: len(b) // 2] + b[len(b) // 2 :], 4, axis=1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        states.append(h)
    return np.array(states)


EQUATIONS = [
    *("bij,bjk->bik", "ij,kj->ik", "bhd,bld->bhl", "ij->ji", "i,j"),
    *("...ij,...jk->...ik", "...ij,jk", "ij...->...ji", "b...,b->...", "...ii->...i"),
    *("bii->bi", "bii,bij->bj", "ii", "ij,jk,kl->il", "ij,ij,ij->", "bij,->bj"),
]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_equals_numpy(equation):
    sizes = {"b": 2, "i": 3, "j": 4, "k": 5, "h": 3, "d": 4, "l": 6, "1": 1, "2": 2}
    terms = equation.partition("->")[0].split(",")
    dots = ("21", "12")  # the axes that dots stand for: those of one element are broadcast
    spelled = [term.replace("...", axes) for term, axes in zip(terms, dots * len(terms))]
    arrays = [numbers(*(sizes[c] for c in term)) for term in spelled]
    names = [f"x{i}" for i in range(len(arrays))]
    use = node("Einsum", " ".join(names), equation=equation)
    (found,) = computed(model_of([use], {n: a.shape for n, a in zip(names, arrays)}), *arrays)
    np.testing.assert_allclose(found, np.einsum(equation, *arrays), atol=1e-5)


def test_shapes_are_computed_where_they_are_known():
    x = numbers(2, 3, 4)
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "batch"),
        node("Concat", "batch rest", "sizes", axis=0),
        node("Reshape", "x sizes"),
    ]
    constants = {"zero": np.array([0]), "rest": np.array([-1])}
    (found,) = computed(model_of(nodes, {"x": x.shape}, constants), x)
    np.testing.assert_array_equal(found, x.reshape(2, -1))


@pytest.mark.parametrize("op_type", ["Equal", "Less", "And", "Not"])
def test_comparisons_are_bool(op_type):
    x = np.array([[0, 1, 2]], np.float32)
    inputs = "x" if op_type == "Not" else "x x"
    use = node(op_type, inputs) if op_type in ("Equal", "Less") else None
    nodes = (
        [use] if use else [node("Cast", "x", "b", to=9), node(op_type, inputs.replace("x", "b"))]
    )
    (found,) = computed(model_of(nodes, {"x": x.shape}), x)
    right = {"Equal": x == x, "Less": x < x, "And": x != 0, "Not": x == 0}[op_type]
    assert found.dtype == bool
    np.testing.assert_array_equal(found, right)


class TestResize:
    """The matrix of one axis, against numbers of ONNX's own documentation."""

    @staticmethod
    def matrix(old: int, new: int, **attributes: object) -> np.ndarray:
        use = Use(node("Resize", "x", **attributes), 0, 18, None)
        return _matrix(use, Axis(old, new, new / old))

    def test_nearest_resize_repeats_elements(self):
        found = self.matrix(2, 4, mode="nearest") @ [1.0, 2.0]
        np.testing.assert_allclose(found, [1, 1, 2, 2])

    def test_linear_resize_interpolates(self):
        found = self.matrix(2, 4, mode="linear") @ [1.0, 2.0]
        np.testing.assert_allclose(found, [1, 1.25, 1.75, 2])

    def test_linear_with_corners(self):
        rule = "align_corners"
        found = self.matrix(2, 4, mode="linear", coordinate_transformation_mode=rule) @ [1.0, 2.0]
        np.testing.assert_allclose(found, [1, 4 / 3, 5 / 3, 2])

    def test_cubic_resize_has_keys_coefficients(self):
        matrix = self.matrix(4, 8, mode="cubic")
        at_a_quarter = [-0.10546875, 0.87890625, 0.26171875, -0.03515625]
        np.testing.assert_allclose(matrix[3], at_a_quarter)
        np.testing.assert_allclose(matrix[4], at_a_quarter[::-1])
        np.testing.assert_allclose(matrix.sum(axis=1), 1)

    @pytest.mark.parametrize("rounding", ["ceil", "floor", "round_prefer_ceil"])
    def test_rounding_of_half_pixels(self, rounding):
        x = numbers(1, 2, 4, 4)
        use = node("Resize", "x s s", mode="nearest", nearest_mode=rounding)
        constants = {"s": np.array([1, 1, 2, 2], np.float32)}
        (found,) = computed(model_of([use], {"x": x.shape}, constants), x)
        matrix = self.matrix(4, 8, mode="nearest", nearest_mode=rounding)
        np.testing.assert_array_equal(found, matrix @ x @ matrix.T)

    @pytest.mark.parametrize("sizes", [(8, 8), (3, 5), (2, 9)])
    def test_halves_of_pixels_are_a_kernel(self, sizes):
        x = numbers(1, 2, 4, 4)
        use = node("Resize", "x e e s", mode="linear")
        constants = {"e": np.zeros(0, np.float32), "s": np.array([1, 2, *sizes])}
        model = model_of([use], {"x": x.shape}, constants)
        (found,) = computed(model, x)
        rows, columns = (self.matrix(4, n, mode="linear") for n in sizes)
        np.testing.assert_allclose(found, rows @ x @ columns.T, atol=1e-5)
        (head,) = make_graph(model, KNOWN, None, {}).heads
        assert head.node.op is not None and head.node.op.name == "_contrib_BilinearResize2D"

    def test_a_number_outside_of_the_operand(self):
        x = numbers(2, 4)
        rule = "tf_crop_and_resize"
        use = node(
            "Resize",
            "x r s",
            mode="linear",
            coordinate_transformation_mode=rule,
            extrapolation_value=9.0,
        )
        constants = {
            "r": np.array([0, 0, 1, 2], np.float32),
            "s": np.array([1, 1.75], np.float32),
        }
        (found,) = computed(model_of([use], {"x": x.shape}, constants), x)
        np.testing.assert_allclose(found, [[*row, 9, 9, 9] for row in x], rtol=1e-6)

    @pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
    def test_a_result_without_elements(self, mode):
        x = numbers(1, 2, 2, 4)
        constants = {"s": np.array([1, 1, 0.4, 2], np.float32)}
        use = node("Resize", "x e s", mode=mode)
        constants["e"] = np.zeros(0, np.float32)
        (found,) = computed(model_of([use], {"x": x.shape}, constants), x)
        assert found.shape == (1, 2, 0, 8) and found.dtype == np.float32

    def test_the_whole_operator(self):
        x = numbers(1, 2, 4, 4)
        use = node("Resize", "x  scales".replace("  ", " roi "), mode="linear")
        constants = {
            "roi": np.zeros(0, np.float32),
            "scales": np.array([1, 1, 0.5, 0.75], np.float32),
        }
        (found,) = computed(model_of([use], {"x": x.shape}, constants), x)
        rows, columns = self.matrix(4, 2, mode="linear"), self.matrix(4, 3, mode="linear")
        np.testing.assert_allclose(found, rows @ x @ columns.T, atol=1e-5)


# Errors


def test_a_name_that_all_nodes_have():
    """The time that it takes to tell them apart grows as their number does."""
    use = node("Relu", "x", "x")
    model = model_of([use] * 10_000, {"x": (2,)})
    assert model.graph is not None
    model.graph.output = [info("x", ())]
    start = time.process_time()
    make_graph(model, KNOWN, None, {})
    assert time.process_time() - start < 5


def test_a_bias_behind_a_product():
    """One dense layer, on either side of the sum; not where something else reads the product."""
    x, w, b = numbers(2, 3, 4), numbers(4, 5), numbers(5)
    for first, second in (("m", "b"), ("b", "m")):
        nodes = [node("MatMul", "x w", "m"), node("Add", f"{first} {second}")]
        model = model_of(nodes, {"x": x.shape}, {"w": w, "b": b})
        (found,) = computed(model, x)
        np.testing.assert_allclose(found, x @ w + b, rtol=1e-4, atol=1e-5)
        (head,) = make_graph(model, KNOWN, None, {}).heads
        assert head.node.op is not None and head.node.op.name == "FullyConnected"
    nodes = [node("MatMul", "x w", "m"), node("Add", "m b", "n"), node("Mul", "m n")]
    model = model_of(nodes, {"x": x.shape}, {"w": w, "b": b})
    (found,) = computed(model, x)
    np.testing.assert_allclose(found, (x @ w) * (x @ w + b), rtol=1e-4, atol=1e-5)
    heads = make_graph(model, KNOWN, None, {}).heads
    assert sum(n.op is not None and n.op.name == "FullyConnected" for n in topological(heads)) == 1


def test_one_place_of_an_axis_is_a_slice():
    x = numbers(3, 2, 4)
    for place in (1, -1):
        model = model_of([node("Gather", "x i", axis=0)], {"x": x.shape}, {"i": np.array(place)})
        (found,) = computed(model, x)
        np.testing.assert_array_equal(found, x[place])
        heads = make_graph(model, KNOWN, None, {}).heads
        assert "slice_axis" in {n.op.name for n in topological(heads) if n.op is not None}


def test_deformable_convolutions_have_zeros_around_the_picture():
    x, w = np.ones((1, 1, 4, 4), "float32"), np.ones((1, 1, 1, 1), "float32")
    offset = np.zeros((1, 2, 4, 4), "float32")
    offset[0, 0, 0], offset[0, 0, 3] = -0.5, 0.25  # half of a cell above, a quarter below
    nodes = [node("DeformConv", "x w offset")]
    model = model_of(nodes, {"x": x.shape, "offset": offset.shape}, {"w": w}, opset=19)
    (found,) = computed(model, x, offset)
    np.testing.assert_allclose(found[0, 0, :, 1], [0.5, 1, 1, 0.75])


def refusal(model: Model, **shapes: tuple[int, ...]) -> str:
    with pytest.raises(MXNetError) as caught:
        make_graph(model, KNOWN, None, shapes)
    return str(caught.value)


@pytest.mark.parametrize("np_shape", [False, True])
def test_constants_without_elements(tmp_path, np_shape):
    nothing = np.zeros((2, 0), "float32")
    model = model_of([node("Concat", "x nothing", axis=1)], {"x": (2, 3)}, {"nothing": nothing})
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(computed(model, x)[0], x)
    block = make_block(make_graph(model, KNOWN, None, {}))
    with hybridjit.util.np_shape(np_shape):
        path = block.export_onnx(str(tmp_path / "net.onnx"), nd.array(x))
    np.testing.assert_array_equal(hybridjit.onnx.load(path)(nd.array(x)).asnumpy(), x)


@pytest.mark.parametrize("repeats", [True, False])
def test_a_token_that_is_repeated_for_the_batch_is_kept_once(repeats):
    token = np.repeat(np.array([[[-0.0, 1, 2]]], "float32"), 2, axis=0)
    token[1, 0, 0] = -0.0 if repeats else 0.0  # equal numbers, other bits
    model = model_of([node("Concat", "token x", axis=1)], {"x": (2, 4, 3)}, {"token": token})
    x = np.arange(24, dtype="float32").reshape(2, 4, 3)
    (found,) = computed(model, x)
    assert found.tobytes() == np.concatenate([token, x], 1).tobytes()
    params = make_block(make_graph(model, KNOWN, None, {})).collect_params().values()
    assert [p.shape for p in params] == [(1, 1, 3) if repeats else (2, 1, 3)]


def test_every_unknown_operator_is_listed_with_its_nodes():
    nodes = [node("Foo", "x", "a"), node("Relu", "a", "b"), node("Bar", "b")]
    model = model_of(nodes, {"x": (1,)})
    with pytest.raises(UnknownOpError, match="2 operators"):
        make_graph(model, KNOWN, None, {})
    text = refusal(model)
    assert "Foo 'the_foo'" in text and "Bar 'the_bar'" in text and "Relu" not in text
    many = [node("Foo", "x", f"a{i}") for i in range(6)]
    for i, use in enumerate(many):
        use.name = f"foo{i}"
    text = refusal(model_of(many, {"x": (1,)}))
    assert text.endswith("Foo 'foo2', Foo 'foo3', ... (6 nodes)")


def test_open_sizes_that_a_node_asks_for_are_asked_of_the_user():
    nodes = [node("Size", "x", "count"), node("Range", "zero count one")]
    numbers_ = {"zero": np.array(0), "one": np.array(1)}
    model = model_of(nodes, {"x": (None, 3)}, numbers_)
    assert "Size 'the_size'" in refusal(model) and "shapes=" in refusal(model)
    assert make_graph(model, KNOWN, None, {"x": (2, 3)}).inputs["x"].dims == (2, 3)


def test_a_range_beyond_the_limit_of_constants_is_made_by_the_call():
    count = (1 << 24) + 5
    nodes = [node("Range", "first last step", "all"), node("Slice", "all from to", "end"),
             node("Cast", "end", "near", to=1), node("Add", "near x")]  # fmt: skip
    bounds = {"first": 7, "last": 7 + 3 * count, "step": 3}
    constants = {name: np.array(n, np.int32) for name, n in bounds.items()}
    constants |= {"from": np.array([-2]), "to": np.array([1 << 40])}
    model = model_of(nodes, {"x": (2,)}, constants)
    right = np.array([7 + 3 * (count - 2), 7 + 3 * (count - 1)], np.float32)
    (found,) = computed(model, np.zeros(2, np.float32))
    np.testing.assert_array_equal(found, right)


def test_open_sizes_that_no_node_asks_for_stay_open():
    block = make_block(make_graph(model_of([node("Relu", "x")], {"x": (None, 3)}), KNOWN, None, {}))
    for batch in (1, 4):
        x = numbers(batch, 3)
        np.testing.assert_array_equal(block(nd.array(x)).asnumpy(), np.maximum(x, 0))


def test_wrong_shapes_and_names():
    model = model_of([node("Relu", "x")], {"x": (2, 3)})
    assert "'x' is declared as f32[2,3], which does not match (2,4)" in refusal(model, x=(2, 4))
    assert "does not have the input 'z'; its inputs are x" in refusal(model, z=(1,))


def test_errors_name_the_node_and_its_operands():
    text = refusal(model_of([node("Add", "x c")], {"x": (2, 3)}, {"c": np.zeros(4, np.float32)}))
    assert "Add 'the_add'" in text and "f32[2,3]" in text and "f32[4]" in text
    text = refusal(model_of([node("Relu", "x x x")], {"x": (2,)}))
    assert "Relu 'the_relu'" in text and "are inconsistent" in text


@pytest.mark.parametrize("count,side", [(1, 1 << 20), (40, 1 << 10)])
def test_constants_of_all_nodes_are_bounded(count, side):
    sizes = {"s": np.array([side, side])}
    one = np.ones(1, "int64")
    nodes = [node("ConstantOfShape", "s", f"c{i}", value=one) for i in range(count)]
    text = refusal(model_of([*nodes, node("Add", "x c0")], {"x": (1,)}, sizes))
    assert "ConstantOfShape 'the_constantofshape'" in text and "nodes may create only" in text


def test_large_constants_of_equal_elements_are_not_stored():
    """Beyond the bound of constants it is made when the network is called, as a graph may ask."""
    sizes = {"s": np.array([1 << 10, 1 << 10])}
    one = np.full(1, 2.5, "float32")
    nodes = [node("ConstantOfShape", "s", f"c{i}", value=one) for i in range(20)]
    model = model_of([*nodes, node("Add", "x c19")], {"x": (1,)}, sizes)
    assert not make_graph(model, KNOWN, None, {}).params
    (found,) = computed(model, np.ones(1, "float32"))
    np.testing.assert_array_equal(found, np.full((1 << 10, 1 << 10), 3.5, "float32"))


def test_old_operator_sets_are_refused():
    assert "operator set 5" in refusal(model_of([node("Relu", "x")], {"x": (1,)}, opset=5))


# The format


@pytest.mark.parametrize("dtype", CODES, ids=str)
def test_arrays_of_every_type(dtype):
    array = np.arange(-3, 9).reshape(3, 4).astype(dtype)
    data = b"".join(messages.write(make_tensor("a", array)))
    found = read_array(messages.read_tensor(data))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_numbers_as_varints():
    values = [0, 1, -1, 127, 128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
    packed = memoryview(b"".join(map(wire.varint, values)))
    tensor = messages.Tensor(dims=(9,), data_type=7, int64_data=(packed,))
    np.testing.assert_array_equal(read_array(tensor), values)


def test_bfloat16_becomes_float32():
    halves = np.array([0x3F80, 0xC000], "<u2")
    tensor = messages.Tensor(dims=(2,), data_type=BFLOAT16, raw_data=memoryview(halves.tobytes()))
    np.testing.assert_array_equal(read_array(tensor), np.array([1, -2], np.float32))


def test_elements_that_do_not_fit():
    short = messages.Tensor(dims=(3,), data_type=1, raw_data=memoryview(bytes(8)), name="w")
    with pytest.raises(ModelFormatError, match=r"'w' of shape \(3,\) needs 3 elements, but has 2"):
        read_array(short)
    with pytest.raises(ModelFormatError, match="larger than any memory"):
        read_array(messages.Tensor(dims=(1 << 40, 1 << 40, 0), data_type=1))
    with pytest.raises(DTypeError, match="complex64"):
        read_array(messages.Tensor(dims=(1,), data_type=14))


class TestFilesOfElements:
    @staticmethod
    def tensor(**entries: object) -> messages.Tensor:
        pairs = [messages.Entry(key, str(value)) for key, value in entries.items()]
        return messages.Tensor(
            dims=(2,), data_type=1, name="w", external_data=pairs, data_location=1
        )

    def test_they_are_read(self, tmp_path):
        (tmp_path / "w.bin").write_bytes(bytes(4) + np.array([1, 2], "<f4").tobytes())
        found = read_array(self.tensor(location="w.bin", offset=4, length=8), str(tmp_path))
        np.testing.assert_array_equal(found, [1, 2])

    @pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "", "a/../../w", "link", "\0"])
    def test_nothing_outside_of_the_folder_is(self, tmp_path, location):
        folder = tmp_path / "model"
        folder.mkdir()
        (tmp_path / "w.bin").write_bytes(bytes(8))
        os.symlink(tmp_path / "w.bin", folder / "link")
        with pytest.raises(ModelFormatError, match="outside the model's folder"):
            read_array(self.tensor(location=location), str(folder))

    @pytest.mark.parametrize("entries", [{"offset": 4}, {"length": 99}, {"offset": "-1"}])
    def test_parts_that_are_not_there(self, tmp_path, entries):
        (tmp_path / "w.bin").write_bytes(bytes(8))
        with pytest.raises(ModelFormatError):
            read_array(self.tensor(**{"location": "w.bin", "length": 8} | entries), str(tmp_path))

    def test_a_file_that_is_missing(self, tmp_path):
        with pytest.raises(MXNetError, match="none.bin: No such file"):
            read_array(self.tensor(location="none.bin"), str(tmp_path))

    def test_a_model_without_a_folder_has_none(self):
        with pytest.raises(ModelFormatError, match="not read from a folder"):
            read_array(self.tensor(location="w.bin"))


def test_damaged_files():
    """tools/fuzz_files.py runs millions of these cases."""
    with FORMATS["onnx"]() as (make, read):
        check = Bounds(read)
        for number in range(1500):
            check(make(number))
    assert check.refused > 300 and check.accepted > 100


def test_every_cut_of_a_file():
    data = (FOLDER / f"{RECORDED[0]}.onnx").read_bytes()
    check = Bounds(lambda part: make_block(make_graph(messages.read_model(part), KNOWN, None, {})))
    for end in random.Random(1).sample(range(len(data)), 150):
        check(data[:end])
    assert check.refused > 100


def test_a_file_of_nothing_but_empty_messages(monkeypatch):
    """Two bytes make a record of fifty times as many: their number is bounded, and so is memory."""
    share = 16
    monkeypatch.setattr(messages, "MAX_RECORDS", messages.MAX_RECORDS // share)
    count = messages.MAX_RECORDS + 1
    model = wire.number_field(1, 8) + wire.bytes_header(7, 2 * count) + bytes([10, 0]) * count
    tracemalloc.start()
    try:
        with pytest.raises(ModelFormatError, match="records"):
            messages.read_model(model)
        assert tracemalloc.get_traced_memory()[1] * share < MEMORY
    finally:
        tracemalloc.stop()


def test_graphs_within_graphs():
    data = b""
    for number in (6, 5, 1) * 200:
        data = wire.bytes_header(number, len(data)) + data
    model = wire.number_field(1, 8) + wire.bytes_header(7, len(data)) + data
    with pytest.raises(ModelFormatError, match="deep"):
        messages.read_model(model)


def test_a_missing_file_is_an_error_of_ours(tmp_path):
    with pytest.raises(MXNetError, match=r"none\.onnx"):
        hybridjit.onnx.load(tmp_path / "none.onnx")


def test_a_shape_error_is_one():
    with pytest.raises(ShapeError):
        make_graph(model_of([node("Relu", "x")], {"x": (2,)}), KNOWN, None, {"x": (3,)})


def test_nodes_in_any_order():
    """Also those that only a graph inside of another node reads."""
    inner = Graph(node=[node("Add", "x late", "z")], output=[info("z", ())])
    branch = Node(["condition"], ["chosen"], "if", "If", ())
    branch.attribute = [Attribute(name=n, g=inner, type=5) for n in ("then_branch", "else_branch")]
    nodes = [
        node("Mul", "chosen late"),
        branch,
        node("Neg", "early", "late"),
        node("Exp", "x", "early"),
    ]
    x = numbers(2, 3)
    (y,) = computed(model_of(nodes, {"x": (2, 3)}, {"condition": np.array(True)}), x)
    np.testing.assert_allclose(y, (x - np.exp(x)) * -np.exp(x), rtol=1e-5)


def test_nodes_that_read_each_other_are_refused():
    nodes = [node("Add", "x b", "a"), node("Neg", "a", "b"), node("Neg", "b")]
    with pytest.raises(MXNetError, match="no earlier node computes its operand '[ab]'"):
        computed(model_of(nodes, {"x": (2, 3)}), numbers(2, 3))


def test_large_results_leave_room_for_constants_that_are_needed():
    """As in DeBERTa: positions are expanded for each head and layer, then elements are gathered."""
    layers, rows, columns = 4, 1 << 10, 1 << 12
    nodes = [node("GatherElements", "x places0", "y0", axis=1)]
    for i in range(layers):
        nodes.append(node("Expand", f"row{i} shape", f"places{i}"))
        nodes.append(node("GatherElements", f"x places{i}", f"part{i}", axis=1))
    nodes[0] = node("Sum", " ".join(f"part{i}" for i in range(layers)))
    constants = {f"row{i}": np.full((1, columns), i) for i in range(layers)}
    constants["shape"] = np.array([rows, columns])
    x = numbers(rows, layers)
    block = make_block(make_graph(model_of(nodes, {"x": x.shape}, constants), KNOWN, None, {}))
    block.hybridize(active=False)
    (y,) = as_list(block(nd.array(x)))
    np.testing.assert_allclose(y[:, 0], x.sum(1), rtol=1e-4, atol=1e-4)


def test_numbers_without_axes_stay_so(tmp_path):
    nodes = [node("ReduceMean", "x", "mean", keepdims=0), node("Mul", "mean two")]
    x = numbers(2, 3)
    path = tmp_path / "net.onnx"
    model = model_of(nodes, {"x": (2, 3)}, {"two": np.array(2, "f4")})
    path.write_bytes(b"".join(messages.write(model)))
    net = hybridjit.onnx.load(path)
    found = [net(nd.array(x)), hybridjit.onnx.load(net.export_onnx(path, nd.array(x)))(nd.array(x))]
    net.hybridize(False)
    for y in (*found, net(nd.array(x))):
        assert y.shape == ()
        np.testing.assert_allclose(y.asnumpy(), x.mean() * 2, rtol=1e-5)


def test_a_tensor_in_one_field_of_floats_is_not_copied():
    """MXNet's exporter writes weights that way; in several fields they are joined."""
    numbers = np.arange(6, dtype=np.float32)
    chunks = [memoryview(numbers[:2].tobytes()), memoryview(numbers[2:].tobytes())]
    whole = memoryview(numbers.tobytes())
    for fields, is_view in (([whole], True), (chunks, False)):
        tensor = messages.Tensor(name="w", dims=(2, 3), data_type=1, float_data=fields)
        array = read_array(tensor)
        np.testing.assert_array_equal(array, numbers.reshape(2, 3))
        assert np.shares_memory(array, np.frombuffer(whole, np.uint8)) is is_view

"""Writing ONNX files: files give the graph's results, and unsupported graphs raise."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from compiling import call, run_reference, var
from hybridjit import gluon, nd, sym
from hybridjit.errors import MXNetError, ShapeError, UnknownOpError
from hybridjit.formats.onnx.messages import read_model
from hybridjit.gluon import nn
from hybridjit.onnx import check, export
from hybridjit.onnx.writers import WRITTEN
from hybridjit.ops.registry import lookup
from recorded import CASES, FOLDER, arrays_of, as_list

# Operators of MXNet 1.9.1's exporter
NAMES = """
    Activation BatchNorm BlockGrad Cast Concat Convolution Crop Deconvolution Dropout Embedding
    Flatten FullyConnected InstanceNorm L2Normalization LRN LayerNorm LeakyReLU
    LogisticRegressionOutput MakeLoss Pad Pooling RNN ROIPooling Reshape SequenceMask
    SequenceReverse SliceChannel SoftmaxOutput SwapAxis UpSampling _arange
    _contrib_AdaptiveAvgPooling2D _contrib_BilinearResize2D _contrib_ROIAlign _contrib_arange_like
    _contrib_box_decode _contrib_box_nms _contrib_div_sqrt_dim
    _contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_selfatt_valatt _copy
    _div_scalar _equal_scalar _greater_scalar _lesser_scalar _linalg_gemm2 _maximum _maximum_scalar
    _minimum _minimum_scalar _minus_scalar _mul_scalar _ones _plus_scalar _power _power_scalar
    _random_normal _random_uniform _random_uniform_like _rdiv_scalar _rminus_scalar
    _rnn_param_concat _sample_multinomial _split_v2 _zeros abs add_n arccos arcsin arctan argmax
    argmin argsort batch_dot broadcast_add broadcast_axis broadcast_div broadcast_equal
    broadcast_greater broadcast_greater_equal broadcast_lesser broadcast_lesser_equal
    broadcast_like broadcast_logical_and broadcast_logical_or broadcast_logical_xor
    broadcast_minimum broadcast_mod broadcast_mul broadcast_not_equal broadcast_power broadcast_sub
    broadcast_to ceil clip cos depth_to_space dot elemwise_add elemwise_div elemwise_mul
    elemwise_sub exp expand_dims floor gather_nd hard_sigmoid identity log log2 log_softmax
    logical_not max mean min negative norm one_hot ones_like prod reciprocal relu repeat
    reshape_like reverse shape_array sigmoid sin size_array slice slice_axis slice_like softmax
    space_to_depth sqrt square squeeze stack sum sum_axis take tan tanh tile topk transpose where
    zeros_like
"""
UNWRITABLE = {"unary_gamma"}  # ONNX has no gamma function


def read_back(path, *inputs):
    """The file's result here, without compilation: the graphs are many."""
    net = mx.onnx.load(path)
    net.hybridize(active=False)
    return as_list(net(*inputs))


def numbers(*shape):
    return nd.array(np.random.default_rng(len(shape)).normal(size=shape))


def written(tmp_path, net, *inputs, **options):
    """The results of a network, and of its file."""
    right = as_list(net(*inputs))
    path = net.export_onnx(str(tmp_path / "net.onnx"), *inputs, **options)
    return right, read_back(path, *inputs)


def require_close(found, right):
    for a, b in zip(found, right, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(set(CASES) - UNWRITABLE))
def test_recorded_graphs(name, tmp_path):
    inputs, outputs = arrays_of(name)
    stem, path = str(FOLDER / name), tmp_path / "graph.onnx"
    shapes, types = zip(*((x.shape, x.dtype) for x in inputs))
    params = f"{stem}-0000.params"
    mx.onnx.export_model(f"{stem}-symbol.json", params, list(shapes), list(types), path)
    if name == "box_nms":  # how many boxes survive depends on values: no graph here
        return
    model = read_model(path.read_bytes())
    given = dict(zip(CASES[name]["inputs"], inputs))
    for found, right in zip(
        read_back(path, *(given[i.name] for i in model.graph.input)), outputs, strict=True
    ):
        scale = float(np.abs(right).max(initial=0)) or 1.0
        assert (found.shape, found.dtype) == (right.shape, right.dtype)
        np.testing.assert_allclose(found / scale, right / scale, atol=1e-4)


def test_operators_of_mxnets_exporter_are_written():
    for name in NAMES.split():
        op = lookup(name)
        follows = op.scalar or op.expand or not callable(op.inputs) and not op.inputs
        assert op.name in WRITTEN or follows, name


def test_the_arguments_are_mxnets():
    assert list(inspect.signature(mx.onnx.export_model).parameters) == [
        *("sym", "params", "in_shapes", "in_types", "onnx_file_path", "verbose", "dynamic"),
        *("dynamic_input_shapes", "run_shape_inference", "input_type", "input_shape"),
    ]
    assert mx.contrib.onnx.export_model is mx.onnx.export_model


@pytest.mark.parametrize("cell", [gluon.rnn.LSTM, gluon.rnn.GRU, gluon.rnn.RNN])
def test_recurrent_layers(cell, tmp_path):
    net = nn.HybridSequential()
    net.add(cell(5, num_layers=2, bidirectional=True))
    net.initialize()
    require_close(*reversed(written(tmp_path, net, numbers(4, 2, 3))))


@pytest.mark.parametrize("cell", [gluon.rnn.LSTM, gluon.rnn.GRU, gluon.rnn.RNN])
@pytest.mark.parametrize("layout, both", [("TNC", False), ("NTC", True)])
def test_recurrent_layers_of_open_batches(cell, layout, both, tmp_path):
    """States of zeros have the batch of the input, whatever size another input has."""

    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer = cell(5, num_layers=2, layout=layout, bidirectional=both, input_size=3)

        def hybrid_forward(self, F, scale, x):
            return F.broadcast_mul(self.layer(x), scale)

    net = Net()
    net.initialize()
    x = numbers(4, 4, 3)
    path = net.export_onnx(str(tmp_path / "net.onnx"), numbers(4, 1, 1), x, dynamic=True)
    again = mx.onnx.load(path)
    assert again.input_shapes == {"data0": (None, 1, 1), "data1": (None, None, 3)}
    for first, second in ((2, 7), (3, 4)):
        given = numbers(first, 1, 1), numbers(first, second, 3)
        require_close(as_list(again(*given)), as_list(net(*given)))


def test_begin_states_of_cells_have_an_open_batch(tmp_path):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.cell = gluon.rnn.LSTMCell(5, input_size=3)

        def hybrid_forward(self, F, x):
            self.cell.reset()
            return self.cell.unroll(4, x, layout="NTC", merge_outputs=True)[0]

    net = Net()
    net.initialize()
    path = net.export_onnx(str(tmp_path / "net.onnx"), numbers(2, 4, 3), dynamic=True)
    x = numbers(5, 4, 3)
    require_close(read_back(path, x), as_list(net(x)))


def test_states_of_recurrent_layers(tmp_path):
    net = gluon.rnn.LSTM(5, num_layers=2, input_size=3)
    net.initialize()
    x, states = numbers(4, 2, 3), [numbers(2, 2, 5) * (i + 1) for i in range(2)]
    y, last = net(x, states)
    path = net.export_onnx(str(tmp_path / "net.onnx"), x, states)
    require_close(read_back(path, x, *states), as_list([y, *last]))


def test_prelu_and_fixed_gamma(tmp_path):
    """A BatchNorm without scale has a gamma that counts as 1, whatever the array holds."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3), nn.BatchNorm(scale=False), nn.PReLU())
    net.initialize()
    net(numbers(2, 3, 8, 8))
    for name, param in net.collect_params().items():
        if "gamma" in name or "alpha" in name:
            param.set_data(nd.array(np.linspace(0.5, 2, param.shape[0])))
    require_close(*reversed(written(tmp_path, net, numbers(2, 3, 8, 8))))


def test_two_writings_are_one_file(tmp_path):
    net = nn.Dense(3)
    net.initialize()
    x = numbers(2, 4)
    one, other = (Path(net.export_onnx(str(tmp_path / name), x)) for name in "ab")
    assert one.read_bytes() == other.read_bytes()


def test_open_sizes(tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(3))
    net.initialize()
    x = numbers(2, 3, 6, 6)
    net(x)
    path = net.export_onnx(str(tmp_path / "net.onnx"), x, dynamic=True)
    (data,) = mx.onnx.get_model_metadata(path)["input_tensor_data"]
    assert data[1] == (0, 3, 0, 0)
    larger = numbers(5, 3, 9, 7)
    require_close(read_back(path, larger), as_list(net(larger)))


def test_a_reshape_of_open_sizes_states_its_codes(tmp_path):
    """Boxes of a detector: 0 copies the batch, -1 stands for rows, columns and boxes together."""
    shape = {"shape": (0, -1, 2)}
    symbol, path = (
        sym.reshape(sym.transpose(sym.var("x"), axes=(0, 2, 3, 1)), **shape),
        tmp_path / "n",
    )
    mx.onnx.export_model(symbol, {}, [(1, 6, 3, 5)], onnx_file_path=path, dynamic=True)
    x = numbers(2, 6, 4, 7)
    require_close(read_back(path, x), [nd.reshape(nd.transpose(x, axes=(0, 2, 3, 1)), **shape)])


def test_sizes_that_the_graph_fixes_are_not_open(tmp_path):
    net = nn.Dense(3)
    net.initialize()
    x, path = numbers(2, 4), tmp_path / "net.onnx"
    with pytest.raises(ShapeError, match="axis 1 of input 'data': it cannot be symbolic"):
        net.export_onnx(path, x, dynamic=True, dynamic_input_shapes=[("batch", None)])
    net.export_onnx(path, x, dynamic=True, dynamic_input_shapes=[("batch", 4)])
    graph = read_model(path.read_bytes()).graph
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("Pooling", {"kernel": (2, 3), "stride": (2, 2), "pooling_convention": "full"}),
        ("Pooling", {"kernel": (2, 2), "stride": (2, 2), "pooling_convention": "full",
                     "pool_type": "avg"}),
        ("_contrib_AdaptiveAvgPooling2D", {"output_size": (2, 3)}),
        ("Crop", {"h_w": (3, 4), "center_crop": True, "num_args": 1}),
        ("topk", {"axis": 1, "k": 2, "ret_typ": "value"}),
        ("sort", {"axis": -1}),
    ],
)  # fmt: skip
def test_operators_on_known_axes_have_an_open_batch(op, attrs, tmp_path):
    place = "contrib" if op.startswith("_contrib_") else "op"
    name, path = op.removeprefix("_contrib_"), tmp_path / "net.onnx"
    symbol = getattr(getattr(sym, place), name)(sym.var("data"), **attrs)
    sizes = [("N", 3, 5, 6)]
    mx.onnx.export_model(
        symbol, {}, [(1, 3, 5, 6)], onnx_file_path=path, dynamic=True, dynamic_input_shapes=sizes
    )
    x = numbers(4, 3, 5, 6)
    require_close(read_back(path, x), as_list(getattr(getattr(nd, place), name)(x, **attrs)))


def test_labels_are_left_out(tmp_path):
    data = sym.var("data")
    net = sym.SoftmaxOutput(sym.FullyConnected(data, num_hidden=3, name="fc"), name="softmax")
    params = {"fc_weight": numbers(3, 4), "fc_bias": numbers(3)}
    for i, shapes in enumerate([[(2, 4)], [(2, 4), (2,)]]):
        path = mx.onnx.export_model(net, params, shapes, onnx_file_path=tmp_path / f"{i}.onnx")
        (found,) = read_back(path, numbers(2, 4))
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)


def test_types_of_all_nodes(tmp_path):
    net = sym.relu(sym.relu(sym.var("data"), name="one"), name="other")
    path = tmp_path / "net.onnx"
    mx.onnx.export_model(net, {}, [(2, 3)], onnx_file_path=path, run_shape_inference=True)
    (info,) = read_model(path.read_bytes()).graph.value_info
    assert info.name == "one" and [d.dim_value for d in info.type.tensor_type.shape.dim] == [2, 3]


# Errors


def test_all_nodes_that_cannot_be_written_are_listed(tmp_path):
    x = sym.var("data")
    net = sym.Group([sym.gamma(sym.relu(x), name="one"), sym.gamma(x, name="two"),
                     sym.contrib.fft(x, name="three")])  # fmt: skip
    path = tmp_path / "net.onnx"
    with pytest.raises(UnknownOpError) as caught:
        mx.onnx.export_model(net, {}, [(2, 4)], onnx_file_path=path)
    text = str(caught.value)
    assert "3 nodes" in text and "gamma 'one', 'two'" in text and "_contrib_fft 'three'" in text
    assert not path.exists()


def test_a_wrong_translation_is_found_and_named(tmp_path, monkeypatch):
    """The file that was there stays."""
    path = tmp_path / "net.onnx"
    path.write_bytes(b"old")
    monkeypatch.setitem(WRITTEN, "tanh", lambda g, use, x: g.emit("Sigmoid", x))
    x = sym.var("data")
    net = sym.relu(sym.tanh(sym.relu(x, name="first"), name="second"), name="third")
    with pytest.raises(MXNetError, match="tanh 'second' is written wrongly"):
        mx.onnx.export_model(net, {}, [(2, 4)], onnx_file_path=path)
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["net.onnx"]


def test_a_wrong_type_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(WRITTEN, "argmax", lambda g, use, x: g.emit("ArgMax", x, axis=1))
    with pytest.raises(MXNetError, match=r"argmax 'a' is written wrongly.*i64\[2,1\].*f32\[2\]"):
        mx.onnx.export_model(
            sym.argmax(sym.var("data"), axis=1, name="a"), {}, [(2, 4)],
            onnx_file_path=tmp_path / "net.onnx",
        )  # fmt: skip


def test_open_sizes_that_a_node_needs(tmp_path):
    """The zeros have twice as many rows as the input, which no input has."""
    twice = sym.Concat(sym.var("data"), sym.var("data"), dim=0)
    net = twice + sym.zeros(shape=(0, 3), name="start")
    with pytest.raises(UnknownOpError, match="_zeros 'start': creates .* which has symbolic sizes"):
        mx.onnx.export_model(net, {}, [(2, 3)], dynamic=True, onnx_file_path=tmp_path / "net.onnx")


def test_shapes_and_parameters_have_to_fit(tmp_path):
    net = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc")
    path = tmp_path / "net.onnx"
    with pytest.raises(MXNetError, match="fc_weight"):
        mx.onnx.export_model(net, {}, [(2, 4)], onnx_file_path=path)
    params = {"fc_weight": numbers(3, 4), "fc_bias": numbers(3)}
    with pytest.raises(ShapeError, match="1 inputs .data., but 0 shapes"):
        mx.onnx.export_model(net, params, onnx_file_path=path)
    with pytest.raises(ShapeError):
        mx.onnx.export_model(net, params, [(2, 5)], onnx_file_path=path)


def test_a_file_that_is_too_long_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_MAX_BYTES", 100)
    with pytest.raises(MXNetError, match="at most 100"):
        mx.onnx.export_model(sym.relu(sym.var("data")), {}, [(2, 4)], onnx_file_path=tmp_path / "n")
    assert list(tmp_path.iterdir()) == []


def test_drawn_numbers_are_compared_by_type_alone(tmp_path):
    draw = sym.random.uniform(0, 1, shape=(2, 3)) + sym.var("data")
    path = tmp_path / "net.onnx"
    mx.onnx.export_model(draw, {}, [(2, 3)], onnx_file_path=path)
    assert {n.op_type for n in read_model(path.read_bytes()).graph.node} == {"RandomUniform", "Add"}


def test_the_tolerance_equals_the_documented_one():
    assert check.TOLERANCE == 1e-4


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_input_that_no_node_reads(tmp_path, dynamic):
    """It stays an input of the file, with the type of its example."""
    x, y = sym.var("x"), sym.var("y")
    net = gluon.SymbolBlock(sym.relu(x), [x, y])
    path = str(tmp_path / "two.onnx")
    net.export_onnx(path, nd.ones((2,)), nd.ones((3, 4), dtype="int32"), dynamic=dynamic)
    graph = read_model(Path(path).read_bytes()).graph
    assert graph is not None and [info.name for info in graph.input] == ["x", "y"]
    again = mx.onnx.load(path)
    assert again(nd.ones((2,)), nd.ones((3, 4), dtype="int32")).shape == (2,)


def test_comparisons_in_double_precision(tmp_path):
    x = sym.var("x")
    net = gluon.SymbolBlock(sym.Group([x < 0.5, sym.broadcast_greater(x, x)]), [x])
    path = str(tmp_path / "less.onnx")
    net.export_onnx(path, nd.array([0.0, 1.0], dtype="float64"))
    found = mx.onnx.load(path)(nd.array([0.0, 1.0], dtype="float64"))
    np.testing.assert_array_equal(found[0].asnumpy(), [1, 0])


def test_the_numbers_of_a_row(tmp_path):
    """Numbers without an axis have one, as in MXNet."""
    x = sym.var("x")
    for count in (1, 3):
        parts = sym.SliceChannel(x, num_outputs=count, axis=0, squeeze_axis=True)
        net = gluon.SymbolBlock(sym.Group([part * 2 for part in parts]), [x])
        path = str(tmp_path / f"row{count}.onnx")
        net.export_onnx(path, nd.arange(count))
        found = mx.onnx.load(path)(nd.arange(count))
        found = [found] if count == 1 else found
        assert [y.asnumpy().tolist() for y in found] == [[2.0 * i] for i in range(count)]


@pytest.mark.parametrize("topk", [-1, 20])
def test_boxes_of_each_class_are_compared_as_they_are(topk, tmp_path):
    """A very large box does not change the overlaps of others."""
    rng = np.random.default_rng(0)
    corner = rng.random((2, 40, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(0.2, 0.6, (2, 40, 2))], axis=2)
    boxes[0, 0, 2:] = 1e8
    ids = rng.integers(0, 3, (2, 40, 1))
    rows = np.concatenate([ids, rng.permutation(80).reshape(2, 40, 1) / 80, boxes], axis=2)
    made = sym.contrib.box_nms(sym.var("x"), id_index=0, overlap_thresh=0.2, topk=topk)
    net = gluon.SymbolBlock(made, [sym.var("x")])
    path = net.export_onnx(str(tmp_path / "boxes.onnx"), nd.array(rows))  # which checks the numbers
    assert any(
        n.op_type == "NonMaxSuppression" for n in read_model(Path(path).read_bytes()).graph.node
    )


def test_regions_of_no_sample_are_asked_of_one_that_is_there(tmp_path):
    """A number below 0 gives zeros; ONNX's operator takes those of samples alone."""
    x, rois = numbers(2, 3, 9, 9), nd.array([[0, 1, 1, 6, 6], [-1, 1, 1, 6, 6], [1, 0, 2, 7, 5]])
    size = {"pooled_size": (2, 2), "spatial_scale": 0.5, "sample_ratio": 2}
    made = sym.contrib.ROIAlign(sym.var("x"), sym.var("rois"), **size)
    net = gluon.SymbolBlock(made, [sym.var("x"), sym.var("rois")])
    right, found = written(tmp_path, net, x, rois)
    assert not right[0][1].any()
    require_close(found, right)
    nodes = read_model((tmp_path / "net.onnx").read_bytes()).graph.node
    by_output = {n.output[0]: n for n in nodes}
    (align,) = (n for n in by_output.values() if n.op_type == "RoiAlign")
    assert by_output[align.input[2]].op_type == "Max"


@pytest.mark.parametrize("modulated", [False, True])
def test_deformable_convolutions(modulated, tmp_path):
    """Samples before the picture, behind it, and between its last cells and its border."""
    x, offset = numbers(2, 4, 7, 6), numbers(2, 24, 4, 5) * 3
    offset[:, :, 0] = offset[:, :, 0].round()
    inputs = [x, offset, nd.sigmoid(numbers(2, 12, 4, 5))] if modulated else [x, offset]
    attrs = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0), "num_filter": 6}
    attrs |= {"num_group": 2, "num_deformable_group": 2}
    op = sym.contrib.ModulatedDeformableConvolution if modulated else None
    variables = [sym.var(name) for name in ("x", "offset", "mask")[: len(inputs)]]
    made = (op or sym.contrib.DeformableConvolution)(*variables, **attrs)
    net = gluon.SymbolBlock(sym.max(made, axis=1), variables)
    net.initialize(mx.init.Normal(1))
    require_close(*reversed(written(tmp_path, net, *inputs)))
    model = read_model((tmp_path / "net.onnx").read_bytes())
    assert [s.version for s in model.opset_import] == [19]
    (largest,) = (n for n in model.graph.node if n.op_type == "ReduceMax")
    assert len(largest.input) == 2 and "axes" not in {a.name for a in largest.attribute}


def test_quantized_values_and_integer_products_are_written(tmp_path):
    """The file's bytes and sums are the graph's."""
    random = np.random.default_rng(5)
    data = random.normal(size=(2, 4, 6, 5)).astype(np.float32)
    arrays = {
        "w": random.integers(-127, 128, (8, 4, 3, 3)).astype(np.int8),
        "s": random.uniform(0.01, 0.02, 8).astype(np.float32),
        "b": random.integers(-999, 999, 8).astype(np.int32),
        "v": random.integers(-127, 128, (3, 120)).astype(np.int8),
        "z": random.integers(-127, 128, 8).astype(np.int8),
    }
    window = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 8}
    names = {name: var(name) for name in arrays}
    x = call("_to_bytes", var("data"), scale=0.03, zero=120, dtype_="uint8", name="x")
    values = call("_from_bytes", x, scale=0.03, zero=120, name="values")
    weight = call("_weight_from_bytes", names["w"], names["s"], name="weight")
    y = call("Convolution", values, weight, no_bias=True, name="y", **window)
    sums = call("_integer_convolution", x, names["w"], names["b"], zero=120, name="sums", **window)
    q = call("_to_bytes", y, scale=9.5, zero=-3, dtype_="int8", multiply=True, name="q")
    dense = call("_integer_dense", x, names["v"], num_hidden=3, no_bias=True, zero=9, name="dense")
    parts = [names[name] for name in "wsz"]
    moved = call("_weight_from_bytes", *parts, no_zero=False, name="moved")
    outputs = [x, y, sums, q, dense, moved]
    wanted = run_reference(outputs, {"data": data, **arrays})
    params = {name: nd.array(array, dtype=array.dtype) for name, array in arrays.items()}
    path = tmp_path / "quantized.onnx"
    export.export_model(sym.Symbol(outputs), params, [data.shape], onnx_file_path=str(path))
    for found, expected in zip(read_back(path, nd.array(data)), wanted):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=2e-5 * (expected.dtype.kind == "f")
        )

"""``net.inputs`` and ``net.outputs``: names, shapes, element types, layouts; inputs by name."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd, sym
from hybridjit.gluon import nn

Row = tuple[str, "tuple[int | None, ...] | None", str, "str | None"]


def rows(descriptions) -> list[Row]:
    return [(x.name, x.shape, np.dtype(x.dtype).name, x.layout) for x in descriptions]


def made(*layers: gluon.Block) -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(*layers)
    net.initialize()
    net.hybridize()
    return net


class Pair(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(3, flatten=False)
        self.table = nn.Embedding(5, 4)

    def hybrid_forward(self, F, x, index):
        return self.dense(x), self.table(index)


@pytest.fixture(scope="module")
def image_net():
    net = made(nn.BatchNorm(), nn.Conv2D(4, 3, groups=2), nn.Activation("relu"))
    net(nd.ones((2, 6, 8, 8)))
    return net


def test_layers_state_axes_channels_and_layout(image_net, tmp_path):
    image_net.export(str(tmp_path / "net"))
    net = mx.load(tmp_path / "net")
    assert rows(net.inputs) == [("data", (None, 6, None, None), "float32", "NCHW")]
    name = net.outputs[0].name
    assert rows(net.outputs) == [(name, (None, 4, None, None), "float32", "NCHW")]
    assert rows(copy.deepcopy(net).inputs) == rows(net.inputs)


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_onnx_file_states_them(image_net, tmp_path, dynamic):
    image_net.export_onnx(str(tmp_path / "net.onnx"), nd.ones((2, 6, 8, 8)), dynamic=dynamic)
    net = mx.load(tmp_path / "net.onnx")
    shape = (None, 6, None, None) if dynamic else (2, 6, 8, 8)
    assert rows(net.inputs) == [("data", shape, "float32", "NCHW")]
    assert net.outputs[0].shape[1] == 4 and np.dtype(net.outputs[0].dtype) == np.float32
    assert rows(net.inputs) == [("data", shape, "float32", "NCHW")]


def test_a_block_has_them_after_its_first_call():
    net = made(Pair())[0]
    with pytest.raises(RuntimeError, match="after the first call of a hybridized block"):
        _ = net.inputs
    net(nd.ones((2, 3)), nd.ones((7,), dtype="int32"))
    assert rows(net.inputs) == [
        ("data0", (2, 3), "float32", None),
        ("data1", (7,), "int32", None),
    ]
    assert [x.shape for x in net.outputs] == [(2, 3), (7, 4)]


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_element_types_follow_from_those_of_parameters(dtype, tmp_path):
    net = nn.Dense(3, in_units=5)
    net.cast(dtype)
    net.initialize()
    net.hybridize()
    net(nd.ones((2, 5), dtype=dtype))
    net.export(str(tmp_path / "m"))
    loaded = mx.load(str(tmp_path / "m"))
    assert [desc.dtype.__name__ for desc in (*loaded.inputs, *loaded.outputs)] == [dtype] * 2


def test_layouts_of_channels_last_and_declared_ones():
    net = made(nn.MaxPool2D(layout="NHWC"), nn.Conv2D(4, 1, layout="NHWC"))
    net(nd.ones((1, 4, 4, 6)))
    assert rows(net.inputs)[0][1:] == ((None, None, None, None), "float32", "NHWC")
    x = sym.var("x", __layout__="TNC")
    assert gluon.SymbolBlock(sym.tanh(x), x).inputs[0].layout == "TNC"


def test_inputs_are_taken_by_name_of_the_function_and_of_the_graph():
    net = made(Pair())[0]
    x, index = nd.ones((2, 3)), nd.array([1, 2])
    want = [y.asnumpy() for y in net(x, index)]
    for named in ({"index": index, "x": x}, {"data1": index, "data0": x}):
        for found in (net(**named), net.bind(**named)(), net.predict(**named)):
            for a, b in zip(want, found):
                np.testing.assert_array_equal(a, b if isinstance(b, np.ndarray) else b.asnumpy())
        assert net.verify(**named).agrees
    with pytest.raises(TypeError, match="the inputs are 'x', 'index'"):
        net(x, indices=index)


def test_programs_may_use_the_names_themselves():
    class Own(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.inputs = nn.Dense(3)
            self.outputs = 5

        def hybrid_forward(self, F, x):
            return self.inputs(x)

    net = made(Own())[0]
    assert net(nd.ones((1, 2))).shape == (1, 3) and net.outputs == 5
    assert isinstance(net.inputs, nn.Dense) and len(net.collect_params().keys()) == 2

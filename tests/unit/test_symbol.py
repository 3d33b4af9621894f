"""Symbols: names, listings, composition, inference, errors; graphs as MXNet makes them.

``fixtures/symbol_expressions.json`` has MXNet 1.9.1's graphs of a few hundred expressions
(written by ``tools/mxnet_side/record_symbols.py``).
"""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import init, nd, sym
from hybridjit.errors import AttributeValueError, DTypeError, NotImplementedForSymbol, ShapeError
from hybridjit.ir.node import topological
from hybridjit.name import NameManager, Prefix
from pickled_by_mxnet import unpickled

RECORDED = json.loads(
    (Path(__file__).parent.parent / "fixtures" / "symbol_expressions.json").read_text("utf-8")
)


@pytest.fixture(autouse=True)
def fresh_names():
    with NameManager():
        yield


@pytest.fixture
def dense():
    """relu(FullyConnected(x)), with names."""
    return sym.relu(sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc"), name="r")


# MXNet's graphs of expressions


@pytest.mark.parametrize("expression", RECORDED)
def test_same_graph_as_mxnet(expression):
    names = {"sym": sym, **{name: sym.var(name) for name in "xyz"}}
    made = eval(expression, names)
    nodes = topological(made.outputs)
    index = {node: i for i, node in enumerate(nodes)}
    found = {
        "nodes": [
            [
                "null" if node.op is None else node.op.name,
                node.name,
                dict(node.text),
                [[index[edge.node], edge.index] for edge in node.inputs],
            ]
            for node in nodes
        ],
        "outputs": made.list_outputs(),
        "arguments": made.list_arguments(),
        "aux": made.list_auxiliary_states(),
    }
    assert found == RECORDED[expression]


# Names


def test_operands_of_functions_by_their_names_in_mxnet():
    x, y = sym.var("x"), sym.var("y")
    arrays = {"x": nd.array([3.0, 2.0]), "y": nd.array([4.0, 1.0])}
    given = {"left": x, "right": y}
    assert sym.maximum(**given).eval(**arrays)[0].asnumpy().tolist() == [4, 2]
    assert sym.minimum(**given).eval(**arrays)[0].asnumpy().tolist() == [3, 1]
    assert sym.hypot(left=x, right=4).eval(x=arrays["x"])[0].asnumpy()[0] == 5
    assert sym.pow(base=2, exp=x).eval(x=arrays["x"])[0].asnumpy().tolist() == [8, 4]
    assert nd.power(base=arrays["x"], exp=2).asnumpy().tolist() == [9, 4]


def test_partial_shapes_behind_an_operator_of_unknown_sizes():
    """Keras reduces a loss to the rank of its weights, by the number of sizes."""
    x, y = sym.var("x", shape=(5, 0, 2)), sym.var("y", shape=(0, 0, 0))
    state = sym.sum(x, axis=0)

    def step(data, state):
        return sym.broadcast_add(data, state), state

    out, _ = sym.contrib.foreach(step, x, state)
    assert sym.broadcast_sub(out, y).infer_shape_partial()[1] == [(5, 0, 2)]


def test_automatic_names_count_per_hint():
    x = sym.var("x")
    assert [(x + 1).name, (x + x).name, (x + 2).name, sym.relu(x).name, (x + x).name] == [
        "_plusscalar0",
        "_plus0",
        "_plusscalar1",
        "relu0",
        "_plus1",
    ]


def test_a_call_that_fails_uses_up_its_name():
    x = sym.var("x")
    with pytest.raises(AttributeValueError):
        sym.FullyConnected(x)
    assert sym.FullyConnected(x, num_hidden=1).name == "fullyconnected1"


def test_managers_replace_each_other():
    x = sym.var("x")
    with Prefix("outer_"):
        assert sym.relu(x).name == "outer_relu0"
        with Prefix("inner_"):
            assert sym.relu(x).name == "inner_relu0"
            assert sym.relu(x, name="given").name == "inner_given"
        assert sym.relu(x).name == "outer_relu1"
        assert sym.var("v").name == "v"
    assert sym.relu(x).name == "relu0"


def test_manager_restored_after_an_error():
    before = NameManager.current
    with pytest.raises(KeyError), Prefix("a_"):
        raise KeyError
    assert NameManager.current is before


# Attributes


def test_variables_keep_their_storage_type():
    codes = {"default": "0", "row_sparse": "1", "csr": "2"}
    for stype, code in codes.items():
        assert sym.var("x", stype=stype).attr("__storage_type__") == code
    with pytest.raises(KeyError):
        sym.var("x", stype="sparse")


def test_var_stores_its_attributes():
    v = sym.var(
        "v",
        attr={"__a__": "1"},
        shape=(2, 0),
        lr_mult=2,
        wd_mult=0.5,
        dtype="float16",
        init="zeros",
        stype="default",
        __layout__="NC",
    )
    assert v.list_attr() == {
        "__a__": "1",
        "__shape__": "(2, 0)",
        "__lr_mult__": "2",
        "lr_mult": "2",
        "__wd_mult__": "0.5",
        "wd_mult": "0.5",
        "__dtype__": "2",
        "__init__": "zeros",
        "__storage_type__": "0",
        "__layout__": "NC",
    }
    assert v.attr("__shape__") == "(2, 0)"
    assert v.attr("nothing") is None
    assert sym.Group([v, v + 1]).attr("__shape__") is None


@pytest.mark.parametrize(
    "call, exception, words",
    [
        (lambda: sym.var(3), TypeError, "Expect a string"),
        (lambda: sym.var("x", foo=1), ValueError, "start and end with double underscores"),
        (lambda: sym.var("x", attr={"a": 1}), ValueError, "only accepts string"),
        (lambda: sym.var("x", dtype="uint16"), DTypeError, "float32.*uint16"),
        (lambda: mx.AttrScope(a=1), ValueError, "string"),
    ],
)
def test_var_refuses(call, exception, words):
    with pytest.raises(exception, match=words):
        call()


def test_attr_scopes_add_up():
    with mx.AttrScope(ctx_group="a", __q__="1"):
        with mx.AttrScope(__q__="2", __r__="3"):
            inner = sym.FullyConnected(sym.var("x"), num_hidden=1, name="fc", attr={"__s__": "4"})
        outer = sym.var("y")
    everything = {"__ctx_group__": "a", "__q__": "2", "__r__": "3", "__s__": "4"}
    weight = inner.get_internals()["fc_weight"]
    assert weight.attr_dict()["fc_weight"] == {
        **everything,
        "ctx_group": "a",
        "num_hidden": "1",
    }
    assert outer.list_attr() == {"__ctx_group__": "a", "ctx_group": "a", "__q__": "1"}
    assert sym.var("z").list_attr() == {}


def test_unknown_attributes():
    x = sym.var("x")
    with pytest.raises(AttributeValueError, match="unknown attribute foo"):
        sym.FullyConnected(x, num_hidden=1, foo=2)
    assert sym.relu(x, foo=2).attr("foo") == "2"  # relu declares none, so none is wrong


def test_attributes_of_an_operator_are_made_text():
    x = sym.var("x")
    attr = {"__init__": init.Constant(2), "__lr_mult__": 3}
    net = sym.FullyConnected(x, num_hidden=1, name="fc", attr=attr)
    for name in ("fc", "fc_weight"):
        texts = net.attr_dict()[name]
        assert texts["__lr_mult__"] == "3" and texts["__init__"] == init.Constant(2).dumps()
    with pytest.raises(ValueError, match="only accepts string values"):
        sym.var("y", attr=attr)


# Listings and indexing


def test_listings_are_in_mxnets_order(dense):
    net = sym.BatchNorm(dense, name="bn")
    assert net.list_inputs() == [
        "x",
        "fc_weight",
        "fc_bias",
        "bn_gamma",
        "bn_beta",
        "bn_moving_mean",
        "bn_moving_var",
    ]
    assert net.list_arguments() == net.list_inputs()[:-2]
    assert net.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert dense.get_internals().list_outputs() == [
        "x",
        "fc_weight",
        "fc_bias",
        "fc_output",
        "r_output",
    ]
    assert dense.get_children().list_outputs() == ["fc_output"]
    assert sym.var("x").get_children() is None
    assert dense.get_internals()["fc_output"].name == "fc"


def test_split_v2_into_parts_or_at_indices():
    x = sym.var("x")
    for given, sizes in ((2, [3, 3]), (4, [2, 2, 1, 1]), ((2,), [2, 4]), ((), [6])):
        pieces = sym.split_v2(x, given)
        assert pieces.infer_shape(x=(6, 4))[1] == [(size, 4) for size in sizes]
    for given in (0, -1):
        with pytest.raises(mx.MXNetError, match=f"sections.*, got {given}"):
            sym.split_v2(x, given)
        with pytest.raises(mx.MXNetError, match=f"sections.*, got {given}"):
            mx.nd.split_v2(mx.nd.ones((6, 4)), given)


def test_split_and_its_outputs():
    parts = sym.split(sym.var("x"), num_outputs=3, name="sp")
    assert (len(parts), parts.name, repr(parts)) == (3, "sp", "<Symbol sp>")
    assert len(sym.var("x")) == 1  # a Symbol has outputs, as in MXNet, not rows
    assert parts["sp_output1"].list_outputs() == ["sp_output1"]
    assert [p.list_outputs() for p in parts] == [[f"sp_output{i}"] for i in range(3)]
    assert parts[1:].list_outputs() == ["sp_output1", "sp_output2"]
    with pytest.raises(mx.MXNetError, match="needs one output"):
        sym.relu(parts)
    with pytest.raises(mx.MXNetError, match="needs one output"):
        parts + 1


@pytest.mark.parametrize(
    "key, exception",
    [
        (1, IndexError),
        (-1, mx.MXNetError),
        ("nope", ValueError),
        ((0,), TypeError),
        (None, TypeError),
        (0.0, TypeError),
    ],
)
def test_indexing_refuses(key, exception):
    with pytest.raises(exception):
        sym.var("x")[key]


@pytest.mark.parametrize("use", [len, list], ids=lambda use: use.__name__)
def test_counting_of_rows_is_reported_by_the_switch_check(use):
    data, parts = sym.var("x"), sym.split(sym.var("y"), num_outputs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        use(data)
        with mx.override(check=True):
            use(parts)
            assert data.list_arguments() == ["x"]
    with mx.override(check=True), pytest.warns(UserWarning, match="'x' count its outputs: 1"):
        use(data)


def test_groups_list_their_symbols():
    x, y = sym.var("x"), sym.var("y")
    group = sym.Group([x, y])
    assert (group.name, repr(group)) == (None, "<Symbol group [x, y]>")
    assert [s.name for s in group] == ["x", "y"]
    with pytest.raises(ValueError, match="multiple outputs"):
        sym.Group([x, x])["x"]
    for wrong in ([], [1], [x, [y]]):
        with pytest.raises(TypeError, match="Expected a list of symbols"):
            sym.Group(wrong)


# Composition


def test_call_replaces_variables(dense):
    p = sym.var("p")
    made = dense(x=sym.sigmoid(p, name="s"), fc_bias=p)
    assert made.list_arguments() == ["p", "fc_weight"]
    assert dense.list_arguments() == ["x", "fc_weight", "fc_bias"]
    assert made.name == "r"


@pytest.mark.parametrize(
    "call, exception",
    [
        (lambda net: net(sym.var("p")), mx.MXNetError),
        (lambda net: net(nope=sym.var("p")), mx.MXNetError),
        (lambda net: net(x=1), TypeError),
        (lambda net: net(x=sym.split(net, num_outputs=2)), mx.MXNetError),
    ],
)
def test_call_refuses(dense, call, exception):
    with pytest.raises(exception):
        call(dense)


def test_inputs_by_name_and_position():
    x, w = sym.var("x"), sym.var("w")
    made = sym.FullyConnected(weight=w, data=x, num_hidden=2, no_bias=True)
    assert made.list_arguments() == ["x", "w"]
    with pytest.raises(mx.MXNetError, match="not have the input bias"):
        sym.FullyConnected(x, w, x, num_hidden=2, no_bias=True)
    with pytest.raises(mx.MXNetError, match="not have the input foo"):
        sym.FullyConnected(foo=x, num_hidden=2)
    with pytest.raises(TypeError, match="multiple values"):
        sym.clip(x, 0, a_min=1)
    with pytest.raises(TypeError, match="positional arguments"):
        sym.relu(x, "name", {}, None, 1)


def test_variadic_inputs():
    x, y = sym.var("x"), sym.var("y")
    assert sym.Concat(arg0=x, arg1=y).list_arguments() == ["x", "y"]
    assert sym.Concat(x, num_args=2, name="c").list_arguments() == ["x", "c_arg1"]
    for wrong in (1, [y]):
        with pytest.raises(AssertionError, match="Positional arguments must be Symbol instances"):
            sym.Concat(x, wrong)


# Operators


def test_operators_refuse_other_types():
    x = sym.var("x")
    for other in (None, "a", nd.ones((2,)), np.ones(2), [1]):
        for operation in (lambda: x + other, lambda: x == other, lambda: x * other):  # noqa: B023
            with pytest.raises(TypeError, match=r"type <class '.*'> not supported"):
                operation()
    with pytest.raises(TypeError, match="Symbol'> not supported"):
        nd.ones((2,)) + x
    with pytest.raises(TypeError, match="ndarray'> not supported"):
        np.ones(2) + x


def test_numpy_scalars_are_numbers():
    x = sym.var("x")
    assert (x + np.float32(2)).attr("scalar") == "2.0"
    assert (np.int64(3) * x).attr("scalar") == "3"
    with pytest.raises(AttributeValueError):
        x + True


def test_array_functions_refuse_symbols_and_back():
    x, a = sym.var("x"), nd.ones((2,))
    with pytest.raises(AssertionError, match="Argument data must be Symbol instances, but got"):
        sym.relu(a)
    with pytest.raises(AssertionError, match="Argument data must have NDArray type, but got"):
        nd.relu(x)


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv"])
def test_in_place_operators(name):
    with pytest.raises(NotImplementedForSymbol, match=r'operator ".="\) with arguments') as info:
        getattr(sym.var("x"), f"__{name}__")(1)
    assert isinstance(info.value, mx.MXNetError)
    assert not isinstance(info.value, NotImplementedError)


def test_rebinding_in_place_operators():
    x = sym.var("x")
    x %= 2
    x **= 2
    assert x.name == "_powerscalar0"


@pytest.mark.parametrize(
    "name",
    ["asnumpy", "asscalar", "copy", "detach", "as_in_context", "wait_to_read", "backward"],
)
def test_array_methods(name):
    with pytest.raises(NotImplementedForSymbol, match=f"Function {name} is not implemented"):
        getattr(sym.var("x"), name)()


def test_symbols_have_no_truth_value_and_no_hash():
    x = sym.var("x")
    with pytest.raises(NotImplementedForSymbol, match="__bool__"):
        if x == 1:
            pass
    with pytest.raises(TypeError):
        hash(x)


@pytest.mark.parametrize("name", ["shape", "dtype", "size", "ndim", "context", "T"])
def test_no_values_yet(name):
    with pytest.raises(
        AttributeError,
        match=f"'Symbol' object has no attribute '{name}': a traced block has not computed values",
    ):
        getattr(sym.var("x"), name)
    with pytest.raises(AttributeError, match="no attribute 'dot'$"):
        sym.var("x").dot  # noqa: B018


def test_functions_of_two():
    x = sym.var("x")
    assert sym.maximum(2, 3) == 3
    assert sym.power(2, 3) == 8
    assert sym.hypot(3, 4) == 5
    assert sym.hypot(3, x).name == "_hypotscalar0"
    with pytest.raises(TypeError):
        sym.maximum("a", x)


# Errors say where


def test_errors_name_operator_node_and_line():
    with pytest.raises(AttributeValueError) as info:
        sym.FullyConnected(sym.var("x"), name="fc")
    text = str(info.value)
    assert "FullyConnected 'fc'" in text
    assert "num_hidden" in text
    assert "test_symbol.py:" in text
    assert "in test_errors_name_operator_node_and_line" in text


def test_inference_errors_name_the_line_of_the_node(dense):
    with pytest.raises(ShapeError) as info:
        dense.infer_shape(x=(2, 4), fc_weight=(3, 5))
    assert "FullyConnected 'fc'" in str(info.value)
    assert "test_symbol.py:" in str(info.value)


# Inference


def test_operators_without_inputs_ignore_symbols():
    """As MXNet's do: its programs pass ``data`` to random operators."""
    drawn = sym.random.randn(2, data=sym.ones((2,)))
    assert drawn.list_arguments() == []
    assert drawn.infer_shape()[1] == [(2,)]


def test_matrices_are_of_one_element_type():
    """The known type of one operand applies to the other, before defaults."""
    triangle = sym.Cast(sym.var("a"), dtype="float64")
    solved = sym.linalg.trsm(triangle, sym.var("b"))
    assert solved.infer_shape(a=(4, 4), b=(4, 4))[1] == [(4, 4)]


def test_infer_shape(dense):
    expected = ([(2, 4), (3, 4), (3,)], [(2, 3)], [])
    assert dense.infer_shape(x=(2, 4)) == expected
    assert dense.infer_shape((2, 4)) == expected
    net = sym.BatchNorm(dense, name="bn")
    assert net.infer_shape(x=(2, 4))[2] == [(3,), (3,)]


def test_an_empty_slice_has_a_known_shape():
    """0 is a size there, not an unknown one, as in MXNet."""
    empty = sym.slice(sym.var("a"), begin=(1,), end=(1,))
    assert empty.infer_shape(a=(4, 5)) == ([(4, 5)], [(0, 5)], [])
    assert sym.crop(sym.var("a"), begin=(0, 3), end=(4, 1)).infer_shape(a=(4, 5))[1] == [(4, 0)]
    backwards = sym.slice(sym.var("a"), begin=(1,), end=(3,), step=(-1,))
    assert backwards.infer_shape(a=(4, 5))[1] == [(0, 5)]
    layer = sym.FullyConnected(empty, num_hidden=3, name="fc")
    assert layer.infer_shape(a=(4, 5)) == ([(4, 5), (3, 5), (3,)], [(0, 3)], [])
    assert (empty + sym.var("b")).infer_shape(a=(4, 5)) == ([(4, 5), (0, 5)], [(0, 5)], [])
    with pytest.warns(UserWarning, match="Cannot decide shape"):
        assert empty.infer_shape(a=(0, 5)) == (None, None, None)
    run = sym.concat(empty, sym.var("a"), dim=0).simple_bind(mx.cpu(), a=(4, 5))
    assert run.forward()[0].shape == (4, 5)


def test_infer_shape_needs_more(dense):
    with pytest.warns(UserWarning, match="Cannot decide shape for the following arguments"):
        assert dense.infer_shape(x=(0, 4)) == (None, None, None)
    assert dense.infer_shape_partial(x=(0, 4)) == ([(0, 4), (3, 4), (3,)], [(0, 3)], [])
    assert dense.infer_shape_partial() == ([(), (), ()], [()], [])


@pytest.mark.parametrize(
    "args, kwargs, exception",
    [
        ((), {"foo": (1,)}, mx.MXNetError),
        (((2, 4),), {"x": (2, 4)}, ValueError),
        ((), {"x": "ab"}, TypeError),
        (((1,),) * 4, {}, mx.MXNetError),
    ],
)
def test_infer_shape_refuses(dense, args, kwargs, exception):
    with pytest.raises(exception):
        dense.infer_shape(*args, **kwargs)


def test_given_shapes_override_those_of_variables():
    both = sym.var("x", shape=(2, 3)) + sym.var("y")
    assert both.infer_shape() == ([(2, 3), (2, 3)], [(2, 3)], [])
    assert both.infer_shape(x=(5, 6)) == ([(5, 6), (5, 6)], [(5, 6)], [])


def test_a_convolutions_data_follows_from_its_output():
    data = sym.var("x", shape=(0, 10, 0, 0))
    conv = sym.Convolution(data, num_filter=21, kernel=(3, 3), dilate=(2, 1), pad=(1, 1), name="c")
    shapes, _, _ = (conv + sym.var("y", shape=(5, 21, 30, 32))).infer_shape()
    assert shapes == [(5, 10, 32, 32), (21, 10, 3, 3), (21,), (5, 21, 30, 32)]
    strided = sym.Convolution(data, num_filter=21, kernel=(3, 3), stride=(2, 1), name="c")
    shapes, _, _ = (strided + sym.var("y", shape=(5, 21, 30, 32))).infer_shape_partial()
    assert shapes[0] == (5, 10, 0, 34)


@pytest.mark.parametrize(
    ("make", "shapes", "expected"),
    [
        (lambda x, y: sym.dot(x, y), {"x": (0, 3, 4), "y": (4, 5)}, (0, 3, 5)),
        (lambda x, y: sym.batch_dot(x, y), {"x": (0, 3, 4), "y": (0, 4, 5)}, (0, 3, 5)),
        (lambda x, y: sym.batch_dot(x, y), {"x": (0, 3, 4), "y": (0, 0, 5)}, ()),
        (lambda x, y: sym.pick(x, y, axis=1), {"x": (0, 3, 3), "y": (0, 3)}, (0, 3)),
        (lambda x, y: sym.relu(sym.sum(x, axis=1)), {"x": (0, 3, 8)}, (0, 8)),
        (lambda x, y: sym.slice(x, begin=(0, 0), end=(1, 2)), {"x": (4, 0)}, (1, 0)),
        (lambda x, y: sym.expand_dims(x, axis=1), {"x": (0, 3)}, (0, 1, 3)),
        (lambda x, y: sym.slice_axis(x, axis=0, begin=0, end=5), {"x": (10, 0)}, (5, 0)),
        (lambda x, y: sym.slice_axis(x, axis=1, begin=0, end=5), {"x": (10, 0)}, (10, 0)),
    ],
)
def test_sizes_that_do_not_depend_on_the_unknown_ones(make, shapes, expected):
    made = make(sym.var("x"), sym.var("y"))
    assert made.infer_shape_partial(**shapes)[1] == [expected]


X, Y, Z = (sym.var(name) for name in "xyz")
PARTIAL = [
    (sym.take(X, Y), {"y": "int32"}, [None, "int32"], None),
    (sym.pick(X, Y), {"y": "float32"}, [None, "float32"], None),
    (sym.gather_nd(X, Y), {"x": "float32"}, ["float32", None], "float32"),
    (sym.gather_nd(X, Y), {"y": "float32"}, [None, "float32"], None),
    (sym.scatter_nd(X, Y, shape=(2, 3)), {"x": "float16"}, ["float16", None], "float16"),
    (sym.where(X, Y, Z), {"x": "float32"}, ["float32", None, None], None),
    (sym.where(X, Y, Z), {"y": "int32"}, [None, "int32", "int32"], "int32"),
    (sym.CTCLoss(X, Y), {"x": "float32"}, ["float32", None], "float32"),
    (sym.CTCLoss(X, Y, Z, use_data_lengths=True), {"x": "float16"},
     ["float16", None, None], "float16"),
    (sym.cast(X, dtype="int32"), {}, [None], "int32"),
    (sym.batch_take(X, Y), {}, [None, "int32"], None),
    (sym.contrib.boolean_mask(X, Y), {"x": "float32"}, ["float32", None], "float32"),
    (sym.topk(X, k=1, ret_typ="value"), {}, [None], None),
    (sym.FullyConnected(X, Y, Z, num_hidden=3), {"y": "float16"}, ["float16"] * 3, "float16"),
    (sym.dot(X, Y), {"y": "int32"}, ["int32"] * 2, "int32"),
]  # fmt: skip


@pytest.mark.parametrize("graph, known, inputs, output", PARTIAL)
def test_types_that_do_not_follow_stay_unknown(graph, known, inputs, output):
    """MXNet 1.9.1's message."""
    arguments, outputs, _ = graph.infer_type_partial(**known)
    names = [None if t is None else np.dtype(t).name for t in (*arguments, *outputs)]
    assert names == [*inputs, output]


def test_infer_type(dense):
    half = np.float16
    assert dense.infer_type(x="float16") == ([half] * 3, [half], [])
    assert dense.infer_type() == (None, None, None)
    x = sym.var("x")
    assert sym.cast(x, dtype="int32").infer_type(x=half) == ([half], [np.int32], [])
    assert sym.BatchNorm(x).infer_type(x=half)[0] == [half, np.float32, np.float32]
    with pytest.raises(DTypeError):
        (x + sym.var("y")).infer_type(x="float32", y="int32")
    lengths = sym.softmax(x, sym.var("y"), use_length=True)
    assert lengths.infer_type(y="int32") == lengths.infer_type(x="float64") == (None, None, None)


# Files, copies


def test_json_and_pickle(dense):
    for again in (sym.load_json(dense.tojson()), pickle.loads(pickle.dumps(dense))):
        assert again.list_arguments() == dense.list_arguments()
        assert again.tojson() == dense.tojson()


def test_save_and_load(dense, tmp_path):
    path = str(tmp_path / "net-symbol.json")
    dense.save(path)
    assert sym.load(path).tojson() == dense.tojson()


def test_pickle_of_a_deep_graph():
    x = sym.var("x")
    for _ in range(3000):
        x = x + 1
    assert len(pickle.loads(pickle.dumps(x)).get_internals()) == 3001


def test_copies_share_nodes(dense):
    for again in (copy.copy(dense), copy.deepcopy(dense)):
        assert again is not dense
        assert again.outputs == dense.outputs


def test_debug_str(dense):
    text = dense.debug_str()
    assert "Op:FullyConnected, Name=fc" in text
    assert "arg[1]=fc_weight(0)" in text
    assert "num_hidden=3" in text


@pytest.mark.parametrize("is_on, saved", [("1", (0, 1, 2, 0, 1, 0, 0)), ("0", (0,) * 7)])
def test_optimized_symbols_share_equal_nodes(is_on, saved, monkeypatch):
    """But neither random draws nor states; an output that equals another is a copy of it."""
    monkeypatch.setenv("MXNET_ELIMINATE_COMMON_EXPR", is_on)
    a, b, g = sym.var("a"), sym.var("b"), sym.var("g")
    d = a + 1
    made = [
        (a + 1) + (a + 2),
        (a + b) + (a + b),
        ((a + b) * b) - ((a + b) * b),
        sym.Group([a * d, a * d]),
        sym.Group([a * d + b, a * d + b]),
        sym.Dropout(a) + sym.Dropout(a),
        sym.BatchNorm(a, g, g, name="one") + sym.BatchNorm(a, g, g, name="two"),
    ]
    for symbol, count in zip(made, saved, strict=True):
        shapes = {name: (2,) if name == "g" else (2, 2) for name in symbol.list_arguments()}
        executor = symbol.simple_bind(mx.cpu(), **shapes)
        found = executor.get_optimized_symbol()
        assert len(found.get_internals()) == len(symbol.get_internals()) - count
        again = found.simple_bind(mx.cpu(), **shapes)
        wanted = executor.forward(a=nd.ones((2, 2)))
        for x, y in zip(again.forward(a=nd.ones((2, 2))), wanted, strict=True):
            assert x.asnumpy().tobytes() == y.asnumpy().tobytes()


def test_an_optimized_symbol_keeps_different_branches_apart():
    x, p = sym.var("x"), sym.var("p")
    first = sym.contrib.cond(p, lambda: x + 1, lambda: x + 2)
    second = sym.contrib.cond(p, lambda: x * 5, lambda: x * 7)
    executor = sym.Group([first, second]).simple_bind(mx.cpu(), x=(2,), p=(1,))
    found = executor.get_optimized_symbol().simple_bind(mx.cpu(), x=(2,), p=(1,))
    one, other = found.forward(x=nd.ones(2), p=nd.ones(1))
    assert one.asnumpy().tolist() == [2, 2] and other.asnumpy().tolist() == [5, 5]


# Evaluation


@pytest.fixture
def arrays():
    return {
        "x": nd.ones((2, 4)),
        "fc_weight": nd.ones((3, 4)),
        "fc_bias": nd.array([0, 1, -9]),
    }


def test_eval_computes_the_outputs(dense, arrays):
    (result,) = dense.eval(**arrays)
    assert result.asnumpy().tolist() == [[4, 5, 0]] * 2
    with pytest.raises(ValueError, match="key `fc_bias` is missing in `args`"):
        dense.eval(x=arrays["x"], fc_weight=arrays["fc_weight"])


def test_bind_makes_an_executor(dense, arrays):
    executor = dense.bind(mx.cpu(), list(arrays.values()))
    executor.forward(x=nd.zeros((2, 4)))
    assert executor.outputs[0].asnumpy().tolist() == [[0, 1, 0]] * 2
    assert list(executor.output_dict) == ["r_output"]
    assert arrays["x"].asnumpy().sum() == 0  # forward writes into the bound array
    with pytest.raises(ValueError, match="Length of args"):
        dense.bind(mx.cpu(), [nd.ones((1,))])
    with pytest.raises(TypeError, match="Unknown argument"):
        executor.forward(y=nd.zeros((1,)))
    with pytest.raises(ValueError, match="Shape not match"):
        executor.forward(x=nd.zeros((3, 4)))
    with pytest.raises(ShapeError, match="FullyConnected 'fc'"):
        dense.bind(mx.cpu(), {**arrays, "fc_weight": nd.ones((3, 5))})


def test_simple_bind(dense):
    net = sym.BatchNorm(dense, name="bn", fix_gamma=False)
    executor = net.simple_bind(mx.cpu(), x=(2, 4))
    assert {n: a.shape for n, a in executor.aux_dict.items()} == {
        "bn_moving_mean": (3,),
        "bn_moving_var": (3,),
    }
    executor.copy_params_from(
        {"fc_bias": nd.array([1, 2, 3]), "bn_gamma": nd.ones((3,))}, {"bn_moving_var": nd.ones(3)}
    )
    (result,) = executor.forward()
    np.testing.assert_allclose(result.asnumpy(), [[1, 2, 3]] * 2, rtol=1e-3)
    with pytest.raises(ValueError, match='Find name "nope"'):
        executor.copy_params_from({"nope": nd.ones((3,))})
    bigger = executor.reshape(x=(5, 4), allow_up_sizing=True)
    assert bigger.forward()[0].shape == (5, 3)
    assert bigger.arg_dict["fc_bias"] is executor.arg_dict["fc_bias"]
    with pytest.raises(RuntimeError, match="simple_bind error"):
        net.simple_bind(mx.cpu())


def test_simple_bind_ignores_arguments_that_are_not_shapes():
    picked = sym.take(sym.var("a"), sym.var("indices"), axis=1)
    executor = picked.simple_bind(mx.cpu(), a=(2, 3), indices=(4,), axis=1, mode="clip")
    assert executor.outputs[0].shape == (2, 4)


def test_a_sources_size_follows_from_its_users():
    """0 and -1 are sizes that others decide."""
    turned = sym.ones(shape=(2, -1)) + sym.transpose(sym.ones(shape=(3, -1)))
    assert turned.bind(mx.cpu(), {}).forward()[0].shape == (2, 3)
    steps = sym.arange(start=1, step=2, stop=None, infer_range=True, repeat=2)
    result = (steps + sym.zeros(shape=(0,)) + sym.ones((6,))).bind(mx.cpu(), {}).forward()
    np.testing.assert_array_equal(result[0].asnumpy(), [2, 2, 4, 4, 6, 6])


def test_monitors_hear_of_variables_operands_and_results(dense):
    executor = dense.simple_bind(mx.cpu(), x=(2, 4))
    names = []
    executor.set_monitor_callback(lambda name, array: names.append(mx.base.py_str(name)))
    executor.forward()
    assert names == ["fc_output", "r_output"]
    names.clear()
    executor.set_monitor_callback(lambda name, array: names.append(mx.base.py_str(name)), True)
    executor.forward()
    expected = "x fc_data fc_weight fc_weight fc_bias fc_bias fc_output r_input0 r_output"
    assert names == expected.split()


def test_executor_in_training_mode():
    net = sym.Dropout(sym.var("x"), p=0.5)
    executor = net.bind(mx.cpu(), {"x": nd.ones((1000,))})
    assert executor.forward()[0].asnumpy().tolist() == [1] * 1000
    dropped = executor.forward(is_train=True)[0].asnumpy()
    assert set(np.unique(dropped)) == {0.0, 2.0}


def test_tracing_warns_of_nothing(dense):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dense.infer_shape(x=(2, 4))
        sym.Group([dense, dense + 1]).list_attr()


def test_a_symbol_that_mxnet_pickled():
    found = unpickled()["s"]
    assert found.list_arguments() == ["d"]
    assert found.infer_shape()[1] == [(2,)]
    assert found.eval(d=nd.array([1, 2]))[0].asnumpy().tolist() == [2, 4]


def test_attributes_set_afterwards():
    x = sym.var("x")
    pair = sym.split(x, num_outputs=2, name="pair")
    double = pair[1] * 2
    pair[0]._set_attr(__note__="1", lr_mult="3")
    assert double.attr_dict()["pair"] == {
        "num_outputs": "2", "__note__": "1", "__lr_mult__": "3", "lr_mult": "3",
    }  # fmt: skip
    assert sym.load_json(double.tojson()).attr_dict() == double.attr_dict()
    with pytest.raises(ValueError, match="string"):
        x._set_attr(lr_mult=3)
    with pytest.raises(mx.MXNetError, match="non-grouped"):
        sym.Group([x, double])._set_attr(note="1")
    with pytest.raises(mx.MXNetError, match="num_outputs defines the operator's result"):
        pair._set_attr(num_outputs="3")
    assert pair.list_attr()["num_outputs"] == "2"

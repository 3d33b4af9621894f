"""ONNX models that define operators as functions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_onnx import attribute, computed, info, model_of, node, numbers

from hybridjit.errors import MXNetError, UnknownOpError
from hybridjit.formats.onnx import messages
from hybridjit.formats.onnx.messages import Attribute, Function, Graph, Model, Node, OperatorSet
from hybridjit.onnx.graph import make_graph
from hybridjit.onnx.operators import KNOWN

DOMAIN = "nets"


def call(name: str, inputs: str, outputs: str = "y", **attributes: object) -> Node:
    """A use of a function."""
    return replace(node(name, inputs, outputs, **attributes), domain=DOMAIN)


def function(name: str, inputs: str, outputs: str, *nodes: Node, **defaults: object) -> Function:
    return Function(
        name=name,
        input=inputs.split(),
        output=outputs.split(),
        node=nodes,
        opset_import=[OperatorSet("", 17)],
        domain=DOMAIN,
        attribute_proto=[attribute(*pair) for pair in defaults.items()],
    )


def with_functions(model: Model, *functions: Function) -> Model:
    return replace(model, functions=functions)


def refer(use: Node, name: str, to: str) -> Node:
    """The node with an attribute that refers to the function's attribute."""
    more = Attribute(name=name, ref_attr_name=to, type=1)
    return replace(use, attribute=[*use.attribute, more])


TWICE = function("Twice", "a", "b", node("Add", "a a", "t"), node("Relu", "t", "b"))


def test_names_inside_are_those_of_each_use():
    """``t`` and ``a`` of the functions are others than the model's."""
    nodes = [
        node("Neg", "x", "t"),
        call("Twice", "t", "a"),
        call("Twice", "x", "b"),
        node("Sub", "a b", "c"),
        node("Add", "c t"),
    ]
    x = numbers(3, 4)
    (y,) = computed(with_functions(model_of(nodes, {"x": x.shape}), TWICE), x)
    np.testing.assert_array_equal(y, np.maximum(-2 * x, 0) - np.maximum(2 * x, 0) - x)


def test_functions_in_functions():
    four = function("Four", "a", "b", call("Twice", "a", "t"), call("Twice", "t", "b"))
    x = numbers(3, 4)
    model = model_of([call("Four", "x")], {"x": x.shape})
    (y,) = computed(with_functions(model, four, TWICE), x)
    np.testing.assert_array_equal(y, np.maximum(4 * x, 0))


@pytest.mark.parametrize("given, slope", [({"alpha": 0.5}, 0.5), ({}, 0.25)])
def test_attributes_that_refer_to_those_of_the_use(given, slope):
    inner = refer(node("LeakyRelu", "a", "b"), "alpha", "alpha")
    leaky = function("Leaky", "a", "b", inner, alpha=0.25)
    x = numbers(3, 4)
    model = model_of([call("Leaky", "x", **given)], {"x": x.shape})
    (y,) = computed(with_functions(model, leaky), x)
    np.testing.assert_array_equal(y, np.where(x > 0, x, slope * x))


def test_a_missing_attribute_has_the_operators_default():
    leaky = function("Leaky", "a", "b", refer(node("LeakyRelu", "a", "b"), "alpha", "alpha"))
    x = numbers(3, 4)
    model = model_of([call("Leaky", "x")], {"x": x.shape})
    (y,) = computed(with_functions(model, leaky), x)
    np.testing.assert_allclose(y, np.where(x > 0, x, np.float32(0.01) * x))


def test_an_operand_that_is_left_out():
    clip = function("Bound", "a low high", "b", node("Clip", "a low high", "b"))
    use = replace(call("Bound", "x"), input=["x", "", "one"])
    x = numbers(3, 4) * 3
    model = model_of([use], {"x": x.shape}, {"one": np.float32(1)})
    (y,) = computed(with_functions(model, clip), x)
    np.testing.assert_array_equal(y, np.minimum(x, 1))


def test_graphs_in_nodes_of_functions():
    """A branch reads the function's values; it has some of the same names inside."""
    branches = [
        Graph(node=[node(op, "t", "r")], output=[info("r", ())]) for op in ("Neg", "Identity")
    ]
    choice = node("If", "c", "b")
    choice.attribute = [
        Attribute(name=name, g=graph, type=5)
        for name, graph in zip(("then_branch", "else_branch"), branches)
    ]
    chosen = function("Chosen", "a c", "b", node("Add", "a a", "t"), choice)
    x = numbers(3, 4)
    model = model_of([call("Chosen", "x yes")], {"x": x.shape}, {"yes": np.array(True)})
    (y,) = computed(with_functions(model, chosen), x)
    np.testing.assert_array_equal(y, -2 * x)


def refused(model: Model, *functions: Function) -> str:
    whole = b"".join(messages.write(with_functions(model, *functions)))
    with pytest.raises(MXNetError) as caught:
        make_graph(messages.read_model(whole), KNOWN, None, {})
    return str(caught.value)


def test_functions_without_an_end():
    model = model_of([call("F", "x")], {"x": (1,)})
    once = function("F", "a", "b", call("F", "a", "b"))
    assert "more than 32 deep" in refused(model, once)
    wide = [call("F", "a", f"t{i}") for i in range(3000)]
    assert "more than 65536 nodes" in refused(model, function("F", "a", "b", *wide))


def test_an_unknown_operator_in_a_function_is_named_with_its_use():
    model = model_of([call("F", "x")], {"x": (1,)})
    with pytest.raises(UnknownOpError, match="Foo 'the_f:1:the_foo'"):
        make_graph(with_functions(model, function("F", "a", "b", node("Foo", "a", "b"))), KNOWN,
                   None, {})  # fmt: skip


def test_functions_that_do_not_fit():
    model = model_of([call("F", "x x")], {"x": (1,)})
    relu = node("Relu", "a", "b")
    assert "more operands" in refused(model, function("F", "a", "b", relu))
    old = replace(function("F", "a c", "b", relu), opset_import=[OperatorSet("", 9)])
    assert "operator set 9, but the model has 17" in refused(model, old)
    assert "returns its operand 'a'" in refused(model, function("F", "a c", "a b", relu))

"""Graphs with sparse arguments: storage types, values and gradients of executors.

Storage types are those that MXNet 1.9.1 infers in ``simple_bind``.
"""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import nd, sym
from hybridjit.nd.sparse import CSRNDArray, RowSparseNDArray

D, R, C = "default", "row_sparse", "csr"
SHAPE = (4, 3)
internal = sym._internal


def bound(make, stypes: dict[str, str | None], **shapes) -> mx.executor.Executor:
    """An executor over variables of these storage types."""
    symbol = make(*[sym.var(name, stype=stype) for name, stype in stypes.items()])
    return symbol.simple_bind(mx.cpu(), **dict.fromkeys(stypes, SHAPE) | shapes)


def stypes_of(executor) -> tuple[list[str], list[str]]:
    """Those of the outputs and of the gradients."""
    gradients = [executor.grad_dict[name].stype for name in executor.arg_dict]
    return [out.stype for out in executor.outputs], gradients


@pytest.mark.parametrize("stype", [R, C])
@pytest.mark.parametrize(
    "names, result, gradient",
    [
        ("square relu abs sign", "kept", "kept"),
        ("negative floor round rint ceil trunc fix identity BlockGrad zeros_like", "kept", "kept"),
        ("sqrt sin tanh log1p radians degrees cbrt arcsinh arctanh make_loss", "kept", D),
        ("sigmoid cos exp log gamma gammaln softmax", D, D),
    ],
)
def test_storage_of_functions_of_one_array(stype, names, result, gradient):
    for name in names.split():
        found = stypes_of(bound(getattr(sym, name), {"x": stype}))
        kept = {"kept": stype}
        assert found == ([kept.get(result, result)], [kept.get(gradient, gradient)]), name


@pytest.mark.parametrize("stype", [R, C])
def test_storage_of_scalar_operators(stype):
    kept = ([stype], [stype])
    for make in (lambda x: x * 2, lambda x: x / 2, lambda x: x + 0, lambda x: x == 1):
        assert stypes_of(bound(make, {"x": stype})) == kept
    assert stypes_of(bound(lambda x: x == 0, {"x": stype})) == ([D], [stype])
    for make in (lambda x: x + 2, lambda x: x**2, lambda x: 2 / x):
        assert stypes_of(bound(make, {"x": stype})) == ([D], [D])
    for name in ("_scatter_plus_scalar", "_scatter_minus_scalar"):
        assert stypes_of(bound(lambda x, n=name: getattr(internal, n)(x, 5), {"x": stype})) == kept


@pytest.mark.parametrize(
    "name, left, right, result, gradients",
    [
        ("elemwise_add", R, R, R, [R, R]),
        ("elemwise_add", C, C, C, [C, C]),
        ("elemwise_sub", R, D, D, [D, D]),
        ("elemwise_add", R, C, D, [D, D]),
        ("elemwise_mul", R, D, R, [D, D]),
        ("elemwise_mul", D, C, C, [D, D]),
        ("elemwise_div", C, C, D, [D, D]),
        ("broadcast_mul", C, D, C, [D, D]),
        ("broadcast_add", C, D, D, [D, D]),
        ("add_n", R, R, R, [R, R]),
        ("add_n", R, D, D, [D, D]),
        ("maximum", R, R, R, [D, D]),
        ("_internal._scatter_elemwise_div", R, C, R, [D, D]),
        ("_internal._scatter_elemwise_div", C, D, D, [D, D]),
    ],
)
def test_storage_of_binary_operators(name, left, right, result, gradients):
    function = sym
    for part in name.split("."):
        function = getattr(function, part)
    assert stypes_of(bound(function, {"x": left, "y": right})) == ([result], gradients)


def test_storage_of_products():
    def found(left, right, **attrs):
        shapes = {"y": (4 if attrs.get("transpose_a") else 3, 5)}
        return stypes_of(
            bound(lambda x, y: sym.dot(x, y, **attrs), {"x": left, "y": right}, **shapes)
        )

    for right in (D, R):
        assert found(C, right) == ([D], [D, R])
        assert found(C, right, transpose_a=True) == ([R], [D, D])
    assert found(D, C) == ([C], [D, D])
    assert found(R, D) == ([D], [D, D])
    assert found(D, D, forward_stype="csr") == ([C], [D, D])


def test_storage_of_lookups_casts_and_sums():
    def embedding(**attrs):
        return lambda i, w: sym.Embedding(i, w, input_dim=5, output_dim=3, **attrs)

    for stype in (D, R):
        lookup = {"i": D, "w": stype}
        assert stypes_of(bound(embedding(), lookup, i=(2,), w=(5, 3))) == ([D], [D, D])
        rows = bound(embedding(sparse_grad=True), lookup, i=(2,), w=(5, 3))
        assert stypes_of(rows) == ([D], [D, R])
    assert stypes_of(bound(lambda x: sym.cast_storage(x, stype="csr"), {"x": D})) == ([C], [C])
    assert stypes_of(bound(lambda x: sym.cast_storage(x, stype=D), {"x": C})) == ([D], [D])
    squares = bound(lambda w: internal._square_sum(w, axis=1, keepdims=True), {"w": R})
    assert stypes_of(squares) == ([R], [R])
    twice = bound(lambda w: sym.elemwise_add(sym.square(w), sym.abs(w)), {"w": R})
    assert stypes_of(twice) == ([R], [R])
    mixed = bound(lambda w: sym.elemwise_add(sym.square(w), sym.sqrt(w)), {"w": R})
    assert stypes_of(mixed) == ([R], [D])
    chosen = bound(sym.where, {"c": C, "x": D, "y": D})
    assert stypes_of(chosen) == ([D], [C, D, D])
    polynomial = bound(lambda x: sym.contrib.quadratic(x, a=1, b=2), {"x": C})
    assert stypes_of(polynomial) == ([C], [D])
    linear = bound(
        lambda x, w, b: sym.broadcast_add(sym.dot(x, w), b),
        {"x": C, "w": R, "b": D},
        w=(3, 1),
        b=(1,),
    )
    assert stypes_of(linear) == ([D], [D, R, D])


def test_a_declared_storage_is_that_of_the_array():
    data = sym.var("data", stype="csr")
    graph = sym.load_json(sym.FullyConnected(data, num_hidden=3).tojson())
    assert isinstance(graph.simple_bind(mx.cpu(), data=(2, 4)).arg_dict["data"], CSRNDArray)
    given = {"data": "row_sparse"}
    executor = graph.simple_bind(mx.cpu(), stype_dict=given, data=(2, 4))
    assert isinstance(executor.arg_dict["data"], RowSparseNDArray)
    dense = graph.simple_bind(mx.cpu(), stype_dict={"data": "default"}, data=(2, 4))
    assert dense.arg_dict["data"].stype == "default"


def test_a_linear_model_is_trained_by_the_columns_that_occur():
    x, w, b = sym.var("x", stype="csr"), sym.var("w", stype="row_sparse"), sym.var("b")
    loss = sym.LinearRegressionOutput(sym.broadcast_add(sym.dot(x, w), b), sym.var("label"))
    executor = loss.simple_bind(mx.cpu(), x=(3, 6), w=(6, 2), b=(2,), label=(3, 2))
    draw = np.random.default_rng(1).standard_normal
    data = np.float32([[0, 2, 0, 0, 0, 0], [0, 0, 0, 0, 3, 0], [0, 1, 0, 0, 0, 0]])
    values = {"x": data, "w": draw((6, 2)), "b": draw(2), "label": draw((3, 2))}
    for name, array in values.items():
        executor.arg_dict[name][:] = nd.array(array).tostype(executor.arg_dict[name].stype)
    (found,) = executor.forward(is_train=True)
    expected = data @ values["w"] + values["b"]
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5)
    executor.backward()
    difference = (expected - values["label"]) / 2
    gradient = executor.grad_dict["w"]
    assert gradient.indices.asnumpy().tolist() == [1, 4]
    np.testing.assert_allclose(gradient.asnumpy(), data.T @ difference, rtol=1e-5, atol=1e-6)
    by_data = difference @ values["w"].T
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), by_data, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("across", [False, True])
def test_gradients_of_both_operands_of_a_product(across):
    draw = np.random.default_rng(2).standard_normal
    data = np.float32([[0, 2, 0], [1, 0, 0], [0, 0, 0], [0, 5, 4]])
    weight, head = (
        np.float32(draw((4 if across else 3, 2))),
        np.float32(draw((3 if across else 4, 2))),
    )
    x, w = nd.array(data).tostype("csr"), nd.array(weight)
    x.attach_grad(stype="default")
    w.attach_grad(stype="default")
    with mx.autograd.record():
        y = nd.dot(x, w, transpose_a=across)
    saved = x.copy()
    y.backward(nd.array(head))
    by_x = weight @ head.T if across else head @ weight.T
    by_w = (data if across else data.T) @ head
    np.testing.assert_allclose(x.grad.asnumpy(), by_x, rtol=1e-5)
    np.testing.assert_allclose(w.grad.asnumpy(), by_w, rtol=1e-5)
    assert saved.stype == "csr"


def test_scatter_operators_compute_where_something_is_stored():
    rows = nd.sparse.row_sparse_array((np.float32([[1, 2], [3, 4]]), [1, 3]), shape=(5, 2))
    other = nd.sparse.row_sparse_array((np.float32([[10, 20], [30, 40]]), [1, 2]), shape=(5, 2))
    quotient = nd._internal._scatter_elemwise_div(rows, other)
    assert quotient.indices.asnumpy().tolist() == [1, 3]
    np.testing.assert_array_equal(quotient.data.asnumpy(), np.float32([[0.1, 0.1], [np.inf] * 2]))
    moved = nd._internal._scatter_plus_scalar(rows, scalar=5)
    assert moved.asnumpy().tolist() == [[0, 0], [6, 7], [0, 0], [8, 9], [0, 0]]
    matrix = nd.array([[1, 0, 2], [0, 0, 3]]).tostype("csr")
    moved = nd._internal._scatter_minus_scalar(matrix, scalar=5)
    assert moved.asnumpy().tolist() == [[-4, 0, -3], [0, 0, -2]]
    dense = nd._internal._scatter_plus_scalar(nd.ones((2,)), scalar=5)
    assert dense.asnumpy().tolist() == [6, 6]


def test_a_fixed_gamma_refuses_sparse_operands():
    data = sym.var("data", stype="row_sparse")
    with pytest.raises(mx.MXNetError, match="fix_gamma=True is not supported for sparse"):
        sym.BatchNorm(data).simple_bind(mx.cpu(), data=SHAPE)
    executor = sym.BatchNorm(data, fix_gamma=False).simple_bind(mx.cpu(), data=SHAPE)
    assert stypes_of(executor)[0] == ["default"]


def test_a_reshaped_executor_has_arrays_of_the_same_storage():
    x, w = sym.var("x", stype="csr"), sym.var("w", stype="row_sparse")
    executor = sym.dot(x, w).simple_bind(mx.cpu(), x=(4, 3), w=(3, 2))
    smaller = executor.reshape(x=(2, 3), w=(3, 2))
    assert [smaller.arg_dict[n].stype for n in "xw"] == [C, R]
    smaller.arg_dict["x"][:] = nd.ones((2, 3)).tostype("csr")
    assert smaller.forward()[0].shape == (2, 2)


@pytest.mark.parametrize("hybrid", [False, True])
def test_hybridized_networks_equal_eager_ones_for_sparse_data(hybrid):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.square(x), F.dot(x, F.ones((3, 2)))

    net = Net()
    net.hybridize(hybrid)
    x = nd.array([[0, 2, 0], [1, 0, 3]]).tostype("csr")
    squares, product = net(x)
    assert (squares.stype, product.stype) == ("csr", "default")
    assert squares.data.asnumpy().tolist() == [4, 1, 9]
    assert product.asnumpy().tolist() == [[2, 2], [4, 4]]


def test_gradient_checks_use_the_given_storage_types():
    x = sym.var("x")
    location = [nd.array([[0, 0], [1, 2]]).tostype("row_sparse")]
    found = mx.test_utils.check_symbolic_backward(
        sym.square(x),
        location,
        [np.ones((2, 2))],
        [np.float32([[0, 0], [2, 4]])],
        grad_stypes={"x": "row_sparse"},
    )
    assert found["x"].stype == "row_sparse"

"""Operators written in Python: on arrays, in symbols, in hybridized networks and in files."""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd, sym
from hybridjit.errors import MXNetError, UnknownOpError
from hybridjit.name import NameManager


class _Scale(mx.operator.CustomOp):
    """data * factor, with state from forward to backward."""

    def __init__(self, factor, calls):
        self.factor = factor
        self.calls = calls

    def forward(self, is_train, req, in_data, out_data, aux):
        self.calls.append(("forward", bool(is_train), autograd.is_recording()))
        self.kept = in_data[0].shape
        self.assign(out_data[0], req[0], in_data[0] * self.factor)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        assert self.kept == in_data[0].shape
        self.calls.append(("backward", list(req), len(out_data)))
        self.assign(in_grad[0], req[0], out_grad[0] * self.factor)


CALLS: list = []


@mx.operator.register("test_scale")
class _ScaleProp(mx.operator.CustomOpProp):
    def __init__(self, factor="2"):
        assert isinstance(factor, str)
        super().__init__()
        self.factor = float(factor)

    def create_operator(self, ctx, shapes, dtypes):
        return _Scale(self.factor, CALLS)


class _Loss(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        e = np.exp(in_data[0].asnumpy())
        self.assign(out_data[0], req[0], nd.array(e / e.sum(axis=1, keepdims=True)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        d = out_data[0].asnumpy()
        d[np.arange(len(d)), in_data[1].asnumpy().astype(int)] -= 1
        self.assign(in_grad[0], req[0], nd.array(d))


@mx.operator.register("test_softmax_loss")
class _LossProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], [in_shape[0][0]]], [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return _Loss()


class _Count(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        aux[0][:] += 1
        self.assign(out_data[0], req[0], in_data[0])
        self.assign(out_data[1], req[1], in_data[0].sum(axis=1))


@mx.operator.register("test_count")
class _CountProp(mx.operator.CustomOpProp):
    def list_outputs(self):
        return ["same", "sums"]

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0], in_shape[0][:1]], [[1]]

    def create_operator(self, ctx, shapes, dtypes):
        return _Count()


class _Mean(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        aux[0][:] = in_data[0].mean()
        self.assign(out_data[0], req[0], in_data[0] * aux[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * aux[0])


@mx.operator.register("test_mean")
class _MeanProp(mx.operator.CustomOpProp):
    def list_auxiliary_states(self):
        return ["mean"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], [[1]]

    def create_operator(self, ctx, shapes, dtypes):
        return _Mean()


class _Net(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.Custom(F.relu(x), op_type="test_scale", factor=3) + 1


def test_arrays_and_their_gradient():
    CALLS.clear()
    x = nd.array([[1.0, 2.0], [3.0, 4.0]])
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="test_scale", factor=5)
    y.backward()
    assert y.asnumpy().tolist() == [[5, 10], [15, 20]]
    assert x.grad.asnumpy().tolist() == [[5, 5], [5, 5]]
    assert CALLS == [("forward", True, False), ("backward", ["write"], 1)]


def test_gradients_are_added_where_asked():
    x = nd.ones((2, 3))
    x.attach_grad("add")
    for _ in range(2):
        with autograd.record():
            y = nd.Custom(data=x, op_type="test_scale")
        y.backward()
    assert (x.grad.asnumpy() == 4).all()


@pytest.mark.parametrize("is_hybrid", [False, True])
def test_a_network_with_a_custom_operator_trains(is_hybrid):
    net = _Net()
    if is_hybrid:
        net.hybridize()
    x = nd.array([[-1.0, 2.0, 3.0]])
    assert net(x).asnumpy().tolist() == [[1, 7, 10]]
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    assert y.asnumpy().tolist() == [[1, 7, 10]]
    assert x.grad.asnumpy().tolist() == [[0, 3, 3]]


def test_executor_trains_through_a_loss():
    data = sym.var("data")
    head = sym.Custom(
        sym.FullyConnected(data, num_hidden=3, name="fc"), op_type="test_softmax_loss", name="loss"
    )
    assert head.list_arguments() == ["data", "fc_weight", "fc_bias", "loss_label"]
    assert head.list_outputs() == ["loss_output"]
    executor = head.simple_bind(mx.cpu(), data=(2, 4))
    executor.arg_dict["data"][:] = nd.array(np.eye(2, 4))
    executor.arg_dict["loss_label"][:] = nd.array([0, 2])
    out = executor.forward(is_train=True)[0].asnumpy()
    np.testing.assert_allclose(out, 1 / 3, rtol=1e-6)
    executor.backward()
    want = np.full((2, 3), 1 / 3) - np.eye(3)[[0, 2]]
    np.testing.assert_allclose(executor.grad_dict["fc_bias"].asnumpy(), want.sum(0), rtol=1e-5)


def test_graph_file_round_trip(tmp_path):
    graph = sym.Custom(sym.var("x"), op_type="test_scale", factor=4, name="four")
    graph.save(str(tmp_path / "g.json"))
    again = sym.load(str(tmp_path / "g.json"))
    assert again.tojson() == graph.tojson()
    assert '"op": "Custom"' in again.tojson() and '"factor": "4"' in again.tojson()
    assert again.eval(x=nd.ones((2,)))[0].asnumpy().tolist() == [4, 4]


def test_a_file_with_an_unregistered_class_raises_with_its_name():
    text = sym.Custom(sym.var("x"), op_type="test_scale", name="lost_node").tojson()
    with pytest.raises(UnknownOpError, match=r"(?s)never_registered.*register.*lost_node"):
        sym.load_json(text.replace("test_scale", "never_registered"))


def test_states_and_several_outputs():
    x, count = nd.ones((2, 3)), nd.zeros((1,))
    same, sums = nd.Custom(x, count, op_type="test_count")
    assert count.asscalar() == 1 and sums.asnumpy().tolist() == [3, 3]
    graph = sym.Custom(sym.var("x"), op_type="test_count", name="c")
    assert graph.list_auxiliary_states() == ["c_count"]
    assert graph.list_outputs() == ["c_same", "c_sums"]
    assert graph.infer_shape(x=(5, 4)) == ([(5, 4)], [(5, 4), (5,)], [(1,)])


@pytest.mark.parametrize("where", [nd, nd.op, sym, sym.op])
def test_it_is_where_mxnet_has_it(where):
    assert callable(where.Custom)


def test_custom_raises_for_wrong_arguments():
    x = nd.ones((2,))
    with pytest.raises(MXNetError, match="Required argument 'op_type' is missing"):
        nd.Custom(x)
    with pytest.raises(MXNetError, match="Cannot find custom operator zzz"):
        nd.Custom(x, op_type="zzz")
    with pytest.raises(MXNetError, match="expects 1 inputs"):
        nd.Custom(x, x, op_type="test_scale")
    with pytest.raises(AssertionError, match="NDArray"):
        nd.Custom(3, op_type="test_scale")
    with pytest.raises(MXNetError, match=r"__init__: TypeError"):
        nd.Custom(x, op_type="test_scale", unheard=1)


def test_exceptions_of_custom_operators_keep_their_type():
    class Bad(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            raise KeyError("lost")

    @mx.operator.register("test_bad")
    class BadProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Bad()

    with pytest.raises(MXNetError, match="Error in CustomOp.forward: KeyError: 'lost'"):
        nd.Custom(nd.ones((2,)), op_type="test_bad")


def test_without_a_backward_gradients_are_zeros():
    x = nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        same, sums = nd.Custom(x, nd.zeros((1,)), op_type="test_count")
    same.backward()
    assert (x.grad.asnumpy() == 0).all()


def test_wrong_counts_of_shapes_are_named():
    @mx.operator.register("test_counts")
    class Prop(mx.operator.CustomOpProp):
        def infer_shape(self, in_shape):
            return in_shape, [], []

    with pytest.raises(
        MXNetError,
        match="1, 0, 0 arguments, outputs and auxiliary states; the operator has 1, 1, 0",
    ):
        nd.Custom(nd.ones((2,)), op_type="test_counts")


def test_two_uses_of_one_operator_are_not_merged_or_run_ahead():
    CALLS.clear()
    x = sym.var("x")
    graph = sym.Custom(x, op_type="test_scale") + sym.Custom(x, op_type="test_scale")
    executor = graph.bind(mx.cpu(), {"x": nd.ones((2,))})
    for _ in range(2):
        assert executor.forward()[0].asnumpy().tolist() == [4, 4]
    assert len(CALLS) == 4


def test_a_state_counts_in_compiled_training():
    graph = sym.Custom(sym.var("x"), op_type="test_count", name="c")[1]
    executor = graph.simple_bind(mx.cpu(), x=(2, 3))
    for _ in range(3):
        executor.forward(is_train=True)
        executor.backward(nd.ones((2,)))
    assert executor.aux_dict["c_count"].asscalar() == 3


def test_backward_reads_the_state_that_forward_left():
    graph = sym.Custom(sym.var("x"), op_type="test_mean", name="c")
    executor = graph.simple_bind(mx.cpu(), x=(2, 2))
    for value in (3, 5):
        executor.forward(is_train=True, x=nd.full((2, 2), value))
        executor.backward(nd.ones((2, 2)))
        assert (executor.grad_dict["x"].asnumpy() == value).all()
    x, state = nd.full((2, 2), 7), nd.zeros((1,))
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, state, op_type="test_mean")
    y.backward()
    assert (x.grad.asnumpy() == 7).all() and state.asscalar() == 7


class _Softmax(mx.operator.NumpyOp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], in_shape[0][:1]], [in_shape[0]]

    def forward(self, in_data, out_data):
        out_data[0][:] = np.exp(in_data[0])
        out_data[0] /= out_data[0].sum(1, keepdims=True)

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = out_data[0] - np.eye(3)[in_data[1].astype(int)]


class _Square(mx.operator.NDArrayOp):
    def forward(self, in_data, out_data):
        out_data[0][:] = in_data[0] * in_data[0]

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = 2 * in_data[0] * out_grad[0]


@pytest.mark.filterwarnings("ignore:.*has been deprecated")
def test_operators_of_the_older_way():
    with NameManager():
        graph = _Softmax()(data=_Square()(sym.var("x")), name="softmax")
        assert graph.get_internals().list_outputs()[1] == "_ndarray0_output"
        assert _Softmax()(sym.var("x")).list_arguments() == ["x", "_native0_label"]
    assert graph.list_arguments() == ["x", "softmax_label"]
    executor = graph.simple_bind(mx.cpu(), x=(2, 3))
    x, label = np.array([[1, 2, 3], [1, 0.5, 0]], np.float32), np.array([0, 2], np.float32)
    (y,) = executor.forward(is_train=True, x=x, softmax_label=label)
    right = np.exp(x * x) / np.exp(x * x).sum(1, keepdims=True)
    np.testing.assert_allclose(y.asnumpy(), right, rtol=1e-5)
    executor.backward()
    expected = 2 * x * (right - np.eye(3)[[0, 2]])
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), expected, rtol=1e-5)


def test_an_operator_of_the_older_way_copies_by_default():
    with pytest.warns(UserWarning, match="NumpyOp has been deprecated. Please use CustomOp"):
        graph = mx.operator.NumpyOp().get_symbol(sym.var("x"))
    executor = graph.simple_bind(mx.cpu(), x=(3,))
    assert executor.forward(is_train=True, x=nd.array([1, 2, 3]))[0].asnumpy().tolist() == [1, 2, 3]
    executor.backward(nd.zeros((3,)))
    assert executor.grad_dict["x"].asnumpy().tolist() == [1, 1, 1]


# ---- operators that write to their operands


class Counting(mx.operator.CustomOp):
    """Counts its calls in an argument and in a state, and adds up the argument."""

    def forward(self, is_train, req, in_data, out_data, aux):
        in_data[1][:] = in_data[1] + 1
        aux[0][:] = aux[0] + 10
        self.assign(out_data[0], req[0], in_data[0] + in_data[1].sum())

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        in_data[1][:] = in_data[1] + 100
        aux[0][:] = aux[0] + 1000
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("counting")
class CountingProp(mx.operator.CustomOpProp):
    def list_arguments(self):
        return ["data", "centre"]

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return [in_shape[0], [2]], [in_shape[0]], [[1]]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Counting()


class Counted(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__(prefix="counted_")
        with self.name_scope():
            self.w = self.params.get("w", shape=(3,), init="ones")
            self.centre = self.params.get("centre", shape=(2,), init="zeros", grad_req="null")
            self.count = self.params.get(
                "count", shape=(1,), init="zeros", grad_req="null", differentiable=False
            )

    def hybrid_forward(self, F, x, w, centre, count):
        return F.Custom(F.broadcast_mul(x, w), centre, count, op_type="counting")

    def seen(self, y):
        return y.asnumpy()[0, 0], *(p.data().asnumpy()[0] for p in (self.centre, self.count))


def counted(mode: str) -> Counted:
    net = Counted()
    net.initialize()
    if mode != "eager":
        net.hybridize()
    return net


# The numbers of MXNet 1.9.1, eager and hybridized.
@pytest.mark.parametrize("mode", ["eager", "hybridized"])
def test_writes_of_operators_to_their_operands_take_effect(mode):
    net, x, found = counted(mode), nd.ones((2, 3)), []
    for number in range(6):
        if number in (3, 4):
            with autograd.record():
                y = net(x)
            y.backward()
        else:
            y = net(x)
        found.append(net.seen(y))
    wanted = [
        (3, 1, 10),
        (5, 2, 20),
        (7, 3, 30),
        (9, 104, 1040),
        (211, 205, 2050),
        (413, 206, 2060),
    ]
    assert found == wanted


def test_writes_of_operators_in_a_train_step_take_effect():
    net, x = counted("hybridized"), nd.ones((2, 3))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.0})
    step = mx.train_step(net, gluon.loss.L2Loss(), trainer)
    for _ in range(2):
        step(x, x)
    assert net.seen(net(x)) == (407, 203, 2030)


def test_writes_of_operators_to_executor_arguments_take_effect():
    symbol = mx.sym.Custom(*map(mx.sym.var, ("data", "centre", "count")), op_type="counting")
    executor = symbol.bind(
        mx.cpu(),
        args={"data": nd.ones((1, 3)), "centre": nd.zeros((2,))},
        args_grad={"data": nd.zeros((1, 3))},
        grad_req={"data": "write", "centre": "null"},
        aux_states={"count": nd.zeros((1,))},
    )
    found = []
    for is_train in (False, False, True):
        y = executor.forward(is_train=is_train)[0].asnumpy()[0, 0]
        if is_train:
            executor.backward(nd.ones((1, 3)))
        found.append(
            (y, executor.arg_dict["centre"].asnumpy()[0], executor.aux_dict["count"].asscalar())
        )
    assert found == [(3, 1, 10), (5, 2, 20), (7, 103, 1030)]


def test_two_networks_of_one_symbol_write_their_own_parameters():
    symbol = mx.sym.Custom(*map(mx.sym.var, ("data", "centre", "count")), op_type="counting")
    nets = [gluon.SymbolBlock(symbol, mx.sym.var("data")) for _ in "ab"]
    for net in nets:
        net.initialize(mx.init.Zero())
        net.hybridize()
    for net in (nets[0], nets[0], nets[1]):
        net(nd.ones((1, 3)))
    assert [net.params["centre"].data().asnumpy()[0] for net in nets] == [2, 1]


@pytest.mark.parametrize("is_hybrid", [False, True])
def test_a_written_weight_is_packed_again(is_hybrid):
    """By an eager call, or by another network that has the same parameter."""
    dense = gluon.nn.Dense(1, in_units=2, use_bias=False)
    dense.initialize(mx.init.One())
    dense.hybridize()
    x = nd.ones((1, 2))
    assert dense(x).asscalar() == 2
    if is_hybrid:
        other = gluon.SymbolBlock(
            mx.sym.Custom(
                mx.sym.var("data"),
                mx.sym.var(dense.weight.name),
                mx.sym.var("count"),
                op_type="counting_rows",
            ),
            mx.sym.var("data"),
            params=dense.collect_params(),
        )
        other.params["count"].initialize(mx.init.Zero())
        other.hybridize()
        other(nd.ones((1, 3)))
    else:
        weight = dense.weight.data().reshape((2,))
        nd.Custom(nd.ones((1, 3)), weight, nd.zeros((1,)), op_type="counting")
    assert dense(x).asscalar() == 4


@mx.operator.register("counting_rows")
class CountingRowsProp(CountingProp):
    def infer_shape(self, in_shape):
        return [in_shape[0], [1, 2]], [in_shape[0]], [[1]]


# ---- descriptions of operators


def test_arguments_of_operators_are_described_in_the_words_of_the_original():
    found = mx.operator.get_operator_arguments("Activation")
    choices = "{'relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'}"
    assert found == (2, ["data", "act_type"], ["NDArray-or-Symbol", f"{choices}, required"])
    assert isinstance(found, mx.operator.OperatorArguments)
    named = dict(zip(*mx.operator.get_operator_arguments("topk")[1:]))
    assert named["axis"] == "int or None, optional, default='-1'"
    assert named["is_ascend"] == "boolean, optional, default=0"
    assert mx.operator.get_operator_arguments("Concat").types[0] == "NDArray-or-Symbol[]"
    assert dict(zip(*mx.operator.get_operator_arguments("clip")[1:]))["a_min"] == "float, required"
    with pytest.raises(UnknownOpError, match="Activatoin"):
        mx.operator.get_operator_arguments("Activatoin")


@pytest.fixture
def squares():
    """Class for sparse operands: its calls, each with the storage types of all arrays."""
    calls = []

    class Squares(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            calls.append(["forward", *(x.stype for x in (*in_data, *out_data))])
            x = in_data[0]
            values = (x.data * x.data, x.indices, x.indptr)
            self.assign(out_data[0], req[0], nd.sparse.csr_matrix(values, shape=x.shape))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            kinds = (x.stype for x in (*out_grad, *in_data, *out_data, *in_grad))
            calls.append(["backward", *kinds])
            self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])

    @mx.operator.register("squares_of_stored_values")
    class Properties(mx.operator.CustomOpProp):
        def infer_storage_type(self, in_stype):
            return in_stype, in_stype, []

        def infer_storage_type_backward(self, ograd, inputs, outputs, igrad, aux):
            return ograd, inputs, outputs, igrad, aux

        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Squares()

    return calls


@pytest.mark.parametrize("way", ["array", "symbol"])
def test_a_class_with_a_storage_rule_receives_sparse_arrays(squares, way):
    x = nd.array([[0, 2, 0], [3, 0, 0]]).tostype("csr")
    if way == "array":
        x.attach_grad(stype="csr")
        with autograd.record():
            y = nd.Custom(x, op_type="squares_of_stored_values")
        y.backward()
        gradient = x.grad
    else:
        data = sym.var("data", stype="csr")
        bound = sym.Custom(data, op_type="squares_of_stored_values").bind(
            mx.cpu(), {"data": x}, args_grad={"data": nd.sparse.zeros("csr", (2, 3))}
        )
        (y,) = bound.forward(is_train=True)
        bound.backward(nd.ones((2, 3)))
        gradient = bound.grad_dict["data"]
    np.testing.assert_array_equal(y.asnumpy(), [[0, 4, 0], [9, 0, 0]])
    np.testing.assert_array_equal(gradient.asnumpy(), [[0, 4, 0], [6, 0, 0]])
    assert squares == [["forward", "csr", "csr"], ["backward", "default", "csr", "csr", "csr"]]

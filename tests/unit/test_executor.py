"""Executors: compiled, reading the current contents of their arrays, sharing memory when
reshaped."""

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import nd, sym
from hybridjit.graph_exec import cached_graph, training


@pytest.fixture
def net():
    hidden = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc")
    return sym.BatchNorm(hidden, fix_gamma=False, name="bn")


def arrays(net):
    shapes, _, states = net.infer_shape(data=(2, 4))
    draw = np.random.default_rng(1).uniform
    args = {n: nd.array(draw(-1, 1, s)) for n, s in zip(net.list_arguments(), shapes)}
    aux = {n: nd.array(draw(1, 2, s)) for n, s in zip(net.list_auxiliary_states(), states)}
    return args, aux


def expected(args, aux):
    a, s = ({n: x.asnumpy() for n, x in given.items()} for given in (args, aux))
    hidden = a["data"] @ a["fc_weight"].T + a["fc_bias"]
    hidden = (hidden - s["bn_moving_mean"]) / np.sqrt(s["bn_moving_var"] + 1e-3)
    return hidden * a["bn_gamma"] + a["bn_beta"]


def assert_right(found, args, aux):
    np.testing.assert_allclose(found.asnumpy(), expected(args, aux), rtol=1e-4, atol=1e-5)


def test_every_array_is_read_when_it_runs(net):
    args, aux = arrays(net)
    executor = net.bind(mx.cpu(), args, aux_states=aux)
    assert [out.shape for out in executor.outputs] == [(2, 3)]
    assert_right(executor.forward()[0], args, aux)
    for array in (*args.values(), *aux.values()):
        array[:] = array + 0.5
        assert_right(executor.forward()[0], args, aux)
    assert_right(net.eval(**args, **aux)[0], args, aux)


def test_values_given_to_forward_are_written_into_the_arguments(net):
    args, aux = arrays(net)
    executor = net.bind(mx.cpu(), args, aux_states=aux)
    found = executor.forward(data=np.ones((2, 4)), fc_weight=nd.ones((3, 4)))[0]
    assert args["data"].asnumpy().sum() == 8 and args["fc_weight"].asnumpy().sum() == 12
    assert_right(found, args, aux)
    with pytest.raises(ValueError, match="only accept keyword argument of NDArrays"):
        executor.forward(data=1)
    with pytest.raises(TypeError, match="Unknown argument bn_moving_mean"):
        executor.forward(bn_moving_mean=nd.ones((3,)))


def test_a_smaller_executor_lies_in_the_memory_of_the_larger(net):
    executor = net.simple_bind(mx.cpu(), data=(4, 4))
    smaller = executor.reshape(data=(2, 4))
    smaller.arg_dict["data"][:] = 7
    assert executor.arg_dict["data"].asnumpy().sum() == 7 * 8
    assert smaller.arg_dict["fc_weight"] is executor.arg_dict["fc_weight"]
    with pytest.raises(mx.MXNetError, match="allow_up_sizing"):
        smaller.reshape(data=(4, 4))
    with pytest.raises(mx.MXNetError, match="fc_weight of shape .* partial_shaping"):
        executor.reshape(data=(2, 3))
    smaller.forward()
    np.testing.assert_array_equal(executor.outputs[0].asnumpy()[:2], smaller.outputs[0].asnumpy())
    other = executor.reshape(partial_shaping=True, data=(2, 3))
    assert other.arg_dict["fc_weight"].shape == (3, 3)


def test_monitors_see_every_result(net):
    args, aux = arrays(net)
    executor = net.bind(mx.cpu(), args, aux_states=aux)
    seen = {}
    executor.set_monitor_callback(lambda name, array: seen.update({str(name): array.shape}))
    assert_right(executor.forward()[0], args, aux)
    assert seen["fc_output"] == seen["bn_output"] == (2, 3)
    assert "fc_weight" not in seen


def loss(net):
    return sym.LinearRegressionOutput(net, sym.var("label"), name="loss")


def gradients(args, aux):
    """Of the fully connected layer and the normalisation, by MXNet's rule for the loss."""
    a = {n: x.asnumpy().astype(np.float64) for n, x in args.items()}
    hidden = a["data"] @ a["fc_weight"].T + a["fc_bias"]
    inverse = 1 / np.sqrt(hidden.var(0) + 1e-3)
    x = (hidden - hidden.mean(0)) * inverse
    d = (x * a["bn_gamma"] + a["bn_beta"] - a["label"]) / a["label"].shape[1]
    dh = a["bn_gamma"] * inverse * (d - d.mean(0) - x * (d * x).mean(0))
    return {
        "bn_gamma": (d * x).sum(0),
        "bn_beta": d.sum(0),
        "fc_weight": dh.T @ a["data"],
        "data": dh @ a["fc_weight"],
    }


def test_gradients_follow_grad_req(net):
    args, aux = arrays(net)
    args["label"] = nd.array(np.random.default_rng(2).normal(size=(2, 3)))
    grads = {n: nd.ones(args[n].shape) for n in ("bn_gamma", "fc_weight", "data", "bn_beta")}
    req = {"bn_gamma": "add", "fc_weight": "write", "data": "write", "bn_beta": "null"}
    executor = loss(net).bind(mx.cpu(), args, grads, req, aux)
    moved = aux["bn_moving_mean"].asnumpy()
    executor.forward(is_train=True)
    np.testing.assert_array_equal(aux["bn_moving_mean"].asnumpy(), moved)
    executor.backward()
    assert abs(aux["bn_moving_mean"].asnumpy() - moved).max() > 0
    for name, wanted in gradients(args, aux).items():
        wanted = {"bn_beta": 1, "bn_gamma": wanted + 1}.get(name, wanted)
        np.testing.assert_allclose(grads[name].asnumpy(), wanted, rtol=1e-3, atol=1e-4)
    assert executor.grad_dict["fc_bias"] is None and args["data"].grad is None


def test_monitors_see_backward_operators(net):
    """By MXNet's names, in its order; its numbers reach the variables."""
    args, aux = arrays(net)
    args["label"] = nd.array(np.random.default_rng(2).normal(size=(2, 3)))
    grads = {name: nd.zeros(args[name].shape) for name in args if name not in ("label", "fc_bias")}
    executor = loss(net).bind(mx.cpu(), args, grads, aux_states=aux)
    seen = {}
    executor.set_monitor_callback(lambda name, array: seen.update({str(name): array.asnumpy()}))
    executor.forward(is_train=True)
    forward = list(seen)
    executor.backward()
    assert list(seen)[len(forward) :] == [
        *(f"loss_backward_output{i}" for i in range(2)),
        *(f"bn_backward_output{i}" for i in range(3)),
        *(f"fc_backward_output{i}" for i in range(3)),
    ]
    for i, name in enumerate(("data", "fc_weight")):
        np.testing.assert_array_equal(seen[f"fc_backward_output{i}"], grads[name].asnumpy())
    assert not seen["loss_backward_output1"].any() and grads["data"].asnumpy().any()


def test_backward_repeated_and_before_any_forward():
    x = sym.var("x")
    executor = (x * x).bind(mx.cpu(), {"x": nd.array([3.0])}, {"x": nd.zeros(1)}, "add")
    for count in (1, 2):
        executor.backward(nd.array([10.0]))
        assert executor.grad_arrays[0].asscalar() == 60 * count
    executor.forward()
    executor.backward({executor._symbol.list_outputs()[0]: nd.array([1.0])}, is_train=False)
    assert executor.grad_arrays[0].asscalar() == 126


def test_backward_raises_for_wrong_output_gradients(net):
    executor = net.simple_bind(mx.cpu(), data=(4, 4))
    assert executor.grad_dict["fc_weight"].shape == (3, 4)
    executor.forward(is_train=True)
    with pytest.raises(mx.MXNetError, match="the last operator is not Loss function"):
        executor.backward()
    with pytest.raises(mx.MXNetError, match="each of 1 outputs, got 0"):
        executor.backward([])
    with pytest.raises(
        RuntimeError, match="grad_req of data must be 'write', 'add' or 'null', got 'ad'"
    ):
        net.simple_bind(mx.cpu(), grad_req="ad", data=(4, 4))
    with pytest.raises(RuntimeError, match="grad_req has 1 words for 5 arguments"):
        net.simple_bind(mx.cpu(), grad_req=["add"], data=(4, 4))
    net.simple_bind(mx.cpu(), grad_req="null", data=(4, 4)).backward()


def test_outputs_without_gradient_need_no_output_gradient():
    x, y = sym.var("x"), sym.var("y")
    for dead in (x == y, sym.shape_array(x), sym.BlockGrad(x * y), sym.exp(sym.floor(x))):
        args = {name: nd.array([3.0, 4]) for name in dead.list_arguments()}
        executor = dead.bind(mx.cpu(), args, {name: nd.ones(2) for name in args})
        executor.forward(is_train=True)
        for heads in (None, [nd.ones((9, 9))]):  # it is not read
            executor.backward(heads)
        assert not executor.grad_dict["x"].asnumpy().any()
    both = sym.Group([x == y, x * y]).bind(mx.cpu(), args | {"y": nd.ones(2)}, {"x": nd.ones(2)})
    both.forward(is_train=True)
    with pytest.raises(mx.MXNetError, match="the last operator is not Loss function"):
        both.backward()


def test_heads_are_cast_and_more_of_them_left():
    x = sym.var("x")
    for dtype in ("float16", "float64"):
        executor = (x * x).simple_bind(mx.cpu(), x=(2,), type_dict={"x": dtype})
        executor.forward(is_train=True, x=nd.array([3, 4], dtype=dtype))
        executor.backward([nd.array([1.0, 10]), nd.ones((7,))])
        assert executor.grad_arrays[0].asnumpy().tolist() == [6, 80]
        assert np.dtype(executor.grad_arrays[0].dtype) == dtype


def test_variables_are_on_the_contexts_of_their_groups():
    with mx.AttrScope(ctx_group="first"):
        hidden = sym.FullyConnected(sym.var("data"), num_hidden=3, name="one")
    with mx.AttrScope(ctx_group="second"):
        out = sym.FullyConnected(hidden, num_hidden=2, name="two")
    groups = {"first": mx.cpu(1), "second": mx.cpu(2)}
    executor = out.simple_bind(mx.cpu(), group2ctx=groups, data=(4, 5))
    for name, array in executor.arg_dict.items():
        assert (
            array.context == executor.grad_dict[name].context == mx.cpu(2 if "two" in name else 1)
        )
    assert executor.forward(data=nd.ones((4, 5)))[0].shape == (4, 2)
    module = mx.mod.Module(
        out, ["data"], None, group2ctxs=[{"first": [mx.cpu(3)], "second": mx.cpu(4)}]
    )
    module.bind([("data", (4, 5))], inputs_need_grad=True)
    module.init_params()
    module.forward(mx.io.DataBatch([nd.ones((4, 5))]), is_train=True)
    module.backward([nd.ones((4, 2))])
    assert module.get_input_grads()[0].context == mx.cpu(3)


def test_a_graph_without_inputs_runs():
    assert sym.zeros((2, 3)).bind(mx.cpu(), {}).forward()[0].shape == (2, 3)
    weight_only = sym.FullyConnected(sym.ones((1, 2)), num_hidden=1, no_bias=True, name="fc")
    executor = weight_only.bind(mx.cpu(), {"fc_weight": nd.array([[1, 2]])})
    assert executor.forward()[0].asscalar() == 3


def test_outputs_are_the_same_arrays_from_call_to_call():
    x = sym.var("x")
    executor = sym.Group([x * 2, x + 1]).simple_bind(mx.cpu(), x=(2,), grad_req="null")
    state = executor.outputs[1]  # as a program that feeds it back looks at it: before any call
    executor.forward(x=nd.array([1, 2]))
    assert state.asnumpy().tolist() == [2, 3]
    for _ in range(2):
        state.copyto(executor.arg_dict["x"])
        executor.forward()
    assert state.asnumpy().tolist() == [4, 5]
    assert executor.outputs[0].asnumpy().tolist() == [6, 8]


class TestCachedOp:
    @pytest.fixture
    def op(self):
        data, weight = sym.var("data"), sym.var("w")
        dense = sym.FullyConnected(data, weight, no_bias=True, num_hidden=2, name="fc")
        return nd.CachedOp(dense, [("static_alloc", True), ("inline_limit", 2)])

    def test_takes_arrays_in_the_order_of_the_inputs(self, op):
        x, weight = nd.array([[1, 2, 3]]), nd.array([[1, 0, 0], [0, 1, 1]])
        assert op(x, weight).asnumpy().tolist() == [[1, 5]]
        weight[0] = 2  # in place
        assert op(x, weight).asnumpy().tolist() == [[12, 5]]
        assert op(x, weight * 10).asnumpy().tolist() == [[120, 50]]  # another array
        assert op(x * 2, weight).asnumpy().tolist() == [[24, 10]]
        out = nd.zeros((1, 2))
        assert op(x, weight, out=out) is out and out.asnumpy().tolist() == [[12, 5]]

    def test_several_outputs_are_a_list(self):
        x = sym.var("x")
        found = nd.CachedOp(sym.Group([x * 2, x + 1]))(nd.ones((2,)))
        assert [array.asnumpy().tolist() for array in found] == [[2, 2], [2, 2]]

    def test_cached_op_raises_for_wrong_arguments(self, op):
        x, weight = nd.ones((1, 3)), nd.ones((2, 4))
        with pytest.raises(mx.MXNetError, match="takes 2 arrays, got 1"):
            op(x)
        with pytest.raises(mx.MXNetError, match="inferred shape"):
            op(x, weight)
        with pytest.raises(TypeError, match="unexpected keyword"):
            op(x, weight, ctx=mx.cpu())
        with pytest.raises(mx.MXNetError, match="Cannot find argument 'fast'"):
            nd.CachedOp(sym.var("x"), [("fast", True)])
        with pytest.raises(mx.MXNetError, match="static_alloc must be True"):
            nd.CachedOp(sym.var("x"), [("static_shape", True)])
        with pytest.raises(mx.MXNetError, match="no variables"):
            nd.CachedOp(sym.zeros((1,)))


def test_lengths_of_a_softmax_are_whole_numbers():
    """Not required: without shape and type they remain unknown."""
    lengths = mx.sym.softmax(mx.sym.var("x"), length=mx.sym.var("n"), use_length=True)
    bound = lengths.simple_bind(mx.cpu(), x=(2, 3))
    assert bound.arg_dict["n"].dtype == np.int32
    bound.arg_dict["n"][:] = 2
    assert bound.forward()[0].asnumpy().tolist() == [[0.5, 0.5, 0.0]] * 2
    assert lengths.infer_type(x="float32") == (None, None, None)


@pytest.mark.parametrize("mode", ["training", "always"])
@pytest.mark.parametrize("is_train", [True, False])
def test_factors_of_dropout_are_those_of_the_latest_forward(mode, is_train):
    """In whichever mode it ran; a backward after it draws nothing."""
    executor = sym.Dropout(sym.var("x"), p=0.5, mode=mode).simple_bind(mx.cpu(), x=(64,))
    executor.arg_dict["x"][:] = 1
    executor.forward(is_train=not is_train)
    for way in (True, False):
        output = executor.forward(is_train=is_train)[0].asnumpy()
        assert output.all() == (not is_train and mode == "training")
        for _ in range(2):
            executor.backward(nd.ones((64,)), is_train=way)
            np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), output)


def test_other_draws_and_statistics_are_those_of_the_latest_forward():
    drawn = sym.random.uniform(shape=(64,)) * sym.var("x")
    executor = drawn.simple_bind(mx.cpu(), x=(64,))
    executor.arg_dict["x"][:] = 1
    output = executor.forward(is_train=False)[0].asnumpy()
    executor.backward(nd.ones((64,)))
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), output)
    executor = sym.BatchNorm(sym.var("x"), name="bn").simple_bind(mx.cpu(), x=(4, 2))
    executor.aux_dict["bn_moving_var"][:] = 4
    executor.forward(is_train=False)
    executor.backward(nd.ones((4, 2)))
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), 0.5, rtol=1e-3)
    assert (executor.aux_dict["bn_moving_var"].asnumpy() == 4).all()


@pytest.mark.parametrize("name", ["shape_array", "size_array", "index_array"])
def test_outputs_that_depend_on_shapes_only_have_no_gradient(name):
    module = sym.contrib if name == "index_array" else sym
    made = getattr(module, name)(sym.var("x"))
    executor = made.simple_bind(mx.cpu(), x=(2, 3))
    executor.forward(is_train=True)
    executor.backward()  # it leads nowhere, so none is asked for
    executor.backward(nd.ones((5,)))  # and one of any shape may be given
    assert executor.grad_dict["x"].asnumpy().tolist() == [[0] * 3] * 2


def test_bind_raises_for_operators_without_gradient():
    x, index = sym.var("x"), sym.var("i")
    taken = sym.batch_take(x, index)
    shapes = {"x": (2, 3), "i": (2,)}
    with pytest.raises(mx.MXNetError, match="batch_take is non-differentiable"):
        taken.simple_bind(mx.cpu(), **shapes)
    with pytest.raises(mx.MXNetError, match="batch_take is non-differentiable"):
        (taken + 1).bind(mx.cpu(), *({n: nd.zeros(s) for n, s in shapes.items()} for _ in "ab"))
    allowed = [
        taken.simple_bind(mx.cpu(), grad_req="null", **shapes),
        sym.BlockGrad(taken).simple_bind(mx.cpu(), **shapes),
        (sym.batch_take(sym.var("y"), index) + x).simple_bind(
            mx.cpu(), grad_req={"x": "write"}, y=(2, 3), i=(2,), x=(2,)
        ),
    ]
    for executor in allowed:
        assert executor.forward(is_train=True)[0].asnumpy().tolist() == [0, 0]


def test_resizing_may_be_bound_with_gradients_and_says_that_it_has_none():
    executor = sym.image.resize(sym.var("x"), size=(2, 2)).simple_bind(mx.cpu(), x=(4, 4, 3))
    assert executor.forward(is_train=True)[0].shape == (2, 2, 3)
    with pytest.raises(mx.MXNetError, match="image.resize has no gradient here"):
        executor.backward(nd.ones((2, 2, 3)))


@pytest.fixture
def compilations(monkeypatch) -> list[str]:
    """Compilations from here on."""
    seen: list[str] = []
    for module, name in (
        (cached_graph, "load_or_compile"),
        (cached_graph, "compile_variant"),
        (training, "compile_training"),
    ):
        original = getattr(module, name)

        def noted(*args, original=original, what=name, **kwargs):
            seen.append(what)
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, noted)
    return seen


def dense_arrays(count: int) -> dict[str, nd.NDArray]:
    return {"x": nd.ones((count, 4)), "w": nd.ones((3, 4)), "b": nd.zeros((3,))}


def dense_symbol() -> sym.Symbol:
    return sym.FullyConnected(sym.var("x"), sym.var("w"), sym.var("b"), num_hidden=3)


def test_reshaped_executors_share_compiled_code(compilations):
    executor = dense_symbol().bind(mx.cpu(), dense_arrays(8))
    for turn in range(3):
        for count in (8, 3):
            executor = executor.reshape(x=(count, 4), allow_up_sizing=True)
            executor.arg_dict["x"][:] = turn + count
            found = executor.forward()[0].asnumpy()
            assert found.shape == (count, 3) and (found == 4 * (turn + count)).all()
        if turn == 0:
            compilations.clear()
    assert not compilations
    executor.arg_dict["w"][:] = 2
    assert (executor.forward()[0].asnumpy() == 8 * (turn + 3)).all()


def test_executors_with_the_same_parameters_share_compiled_code(compilations):
    symbol, arrays = dense_symbol(), dense_arrays(1)
    for turn in range(3):
        for count in (8, 3):
            executor = symbol.bind(mx.cpu(), {**arrays, "x": nd.ones((count, 4))})
            assert executor.forward()[0].shape == (count, 3)
        if turn == 0:
            compilations.clear()
    assert not compilations
    other = symbol.bind(mx.cpu(), {**arrays, "w": nd.zeros((3, 4))})
    assert (other.forward()[0].asnumpy() == 0).all()
    assert (executor.forward()[0].asnumpy() == 4).all()


def test_a_monitor_watches_its_own_executor():
    executor = dense_symbol().bind(mx.cpu(), dense_arrays(8))
    other, seen = executor.reshape(x=(3, 4)), []
    other.set_monitor_callback(lambda name, array: seen.append(name))
    executor.forward()
    assert not seen
    other.forward()
    assert seen


@pytest.mark.parametrize("is_training", [False, True])
def test_a_module_with_alternating_batch_sizes_compiles_each_once(compilations, is_training):
    dense = sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc")
    net = sym.LinearRegressionOutput(dense, sym.var("label"), name="out")
    module = mx.mod.Module(net, ["x"], ["label"])
    module.bind([("x", (8, 4))], [("label", (8, 3))], for_training=is_training)
    module.init_params()
    if is_training:
        module.init_optimizer(optimizer="sgd")
    for turn in range(3):
        for count in (8, 3):
            batch = mx.io.DataBatch([nd.ones((count, 4))], [nd.ones((count, 3))])
            module.forward(batch)
            assert module.get_outputs()[0].shape == (count, 3)
            if is_training:
                module.backward()
                module.update()
        if turn == 0:
            compilations.clear()
    assert not compilations


@pytest.mark.parametrize(
    "head", ["LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput"]
)
def test_the_gradient_of_a_regressions_label_is_0(head):
    net = getattr(sym, head)(sym.var("data"), sym.var("label"))
    args = {name: nd.array([[1.0, 2.0]]) for name in ("data", "label")}
    gradients = {name: nd.ones((1, 2)) for name in args}
    executor = net.bind(mx.cpu(), args, args_grad=gradients)
    executor.forward(is_train=True)
    executor.backward()
    assert gradients["label"].asnumpy().tolist() == [[0, 0]]

"""HybridBlock: arguments and results, tracing, hybridize, deferred shapes, mistakes, threads."""

import threading
import warnings

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon
from hybridjit.errors import DTypeError, NotImplementedForSymbol
from hybridjit.gluon import nn


class Fn(gluon.HybridBlock):
    """A block around a function of F and the inputs."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def hybrid_forward(self, F, *args):
        return self.function(F, *args)


def hybrid(function, **flags):
    block = Fn(function)
    block.hybridize(**flags)
    return block


@pytest.fixture
def x():
    return mx.nd.array(np.linspace(-1, 1, 8).reshape(2, 4))


def kinds(value):
    """The shape of nested results: lists and tuples of 'a' for arrays."""
    if isinstance(value, (list, tuple)):
        return type(value)(kinds(v) for v in value)
    return "a" if isinstance(value, mx.NDArray) else value


# ---- results ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "eager", "hybridized"),
    [
        (lambda F, x: x + 1, "a", "a"),
        (lambda F, x: [x + 1], ["a"], ["a"]),
        (lambda F, x: (x + 1, x), ("a", "a"), ["a", "a"]),
        (lambda F, x: (x + 1, (x, [x * 2])), ("a", ("a", ["a"])), ["a", ["a", ["a"]]]),
        (lambda F, x: F.split(x, num_outputs=2), ["a", "a"], ["a", "a"]),
        (lambda F, x: [F.split(x, num_outputs=2), x], [["a", "a"], "a"], [["a", "a"], "a"]),
        (lambda F, x: F.split(x, num_outputs=1), "a", "a"),
    ],
)
def test_result_formats(x, function, eager, hybridized):
    block = Fn(function)
    assert kinds(block(x)) == eager
    block.hybridize()
    assert kinds(block(x)) == hybridized
    assert kinds(block(x)) == hybridized


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"a": 1}, ValueError),
        (3, ValueError),
        (None, TypeError),
        ([None], TypeError),
        ([], TypeError),
    ],
)
def test_results_that_are_no_tensors(x, result, error):
    assert Fn(lambda F, x: result)(x) is result
    block = hybrid(lambda F, x: result)
    with pytest.raises(error):
        block(x)


def test_outputs_own_their_memory(x):
    block = hybrid(lambda F, x: [x.reshape((4, 2)), F.identity(x), x + 1])
    before = x.asnumpy()
    first = block(x)
    kept = [array.asnumpy() for array in first]
    for array in block(x):
        array[:] = 9
    np.testing.assert_array_equal(x.asnumpy(), before)
    for array, values in zip(first, kept):
        np.testing.assert_array_equal(array.asnumpy(), values)


# ---- arguments ----------------------------------------------------------------------------------


def test_nested_arguments(x):
    function = lambda F, pair, z: pair[0] * pair[1][0] + z  # noqa: E731
    expected = Fn(function)((x, [x]), x).asnumpy()
    block = hybrid(function)
    np.testing.assert_allclose(block((x, [x]), x).asnumpy(), expected)
    np.testing.assert_allclose(block([x, (x,)], x).asnumpy(), expected)
    assert block._trace.input_names == ["data0", "data1", "data2"]


def test_nones_in_arguments(x):
    block = hybrid(lambda F, x, y=None, z=None: x if y is None else x + y)
    for args in ((x, None), (x,), (x, None, None)):
        assert block(*args).shape == x.shape
    with pytest.raises(ValueError, match=r"Stored format = \[0, -1\], input format = \[0, 0\]"):
        block(x, x)
    with pytest.raises(ValueError, match="does not match the cached version"):
        block([x])
    assert block(x).shape == x.shape
    first_is_none = hybrid(lambda F, x, y: y + 1)
    assert first_is_none(None, x).shape == x.shape
    assert first_is_none._trace.input_names == ["data"]


@pytest.mark.parametrize("active", [False, True])
def test_arguments_that_are_refused(x, active):
    block = Fn(lambda F, *args: args[0])
    block.hybridize(active)
    for args in ((3,), (np.ones(2),), ([],), (None,), ({"a": x},)):
        with pytest.raises(ValueError, match="there must be one NDArray or one Symbol"):
            block(*args)
    with pytest.raises(ValueError, match="do not support mixed NDArrays and Symbols"):
        block(x, mx.sym.var("y"))
    with pytest.raises(TypeError):
        block()
    if active:
        for extra in (3, "abc", {"a": x}):
            with pytest.raises(ValueError, match="the input of HybridBlock input must be"):
                block(x, extra)
        block = hybrid(lambda F, x, y: x + y)
        with pytest.raises(ValueError, match="Find multiple contexts in the input"):
            block(x, x.as_in_context(mx.cpu(1)))
    else:
        assert block(x, 3) is x


def test_unused_inputs_and_parameters_are_warned_of(x):
    with pytest.warns(UserWarning, match="The 1-th input to HybridBlock is not used"):
        hybrid(lambda F, x, y: x + 1)(x, x)

    class Spare(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.a = self.params.get("a", shape=(1,))

        def hybrid_forward(self, F, x, a):
            return x + 1

    block = Spare(prefix="s_")
    block.initialize()
    block.hybridize()
    with pytest.warns(UserWarning, match="Parameter s_a is not used by any computation"):
        block(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        block(x)


def test_parameters_arrive_under_their_attribute_names(x):
    class Named(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.scale = self.params.get("another_name", shape=(2, 4), init="ones")

        def hybrid_forward(self, F, x, scale):
            return x * scale

    block = Named()
    block.initialize()
    np.testing.assert_array_equal(block(x).asnumpy(), x.asnumpy())

    class Without(Named):
        def hybrid_forward(self, F, x):
            return x

    block = Without()
    block.initialize()
    with pytest.raises(TypeError, match="unexpected keyword argument 'scale'"):
        block(x)


def test_f_is_the_module(x):
    seen = []
    block = Fn(lambda F, x: seen.append(F) or x + 1)
    block(x)
    block.hybridize()
    block(x)
    assert seen == [mx.nd, mx.sym]


def test_composition_with_symbols():
    net = nn.Dense(2, prefix="d_")
    traced = net(mx.sym.var("data"))
    assert traced.list_arguments() == ["data", "d_weight", "d_bias"]
    assert (traced + 1).list_outputs() == ["_plusscalar0_output"] or len(traced) == 1
    both = Fn(lambda F, a, b: a + b)(mx.sym.var("a"), mx.sym.var("b"))
    assert both.list_arguments() == ["a", "b"]


# ---- hybridize ----------------------------------------------------------------------------------


def test_one_trace_for_all_shapes_and_dtypes(x):
    traces = []
    block = hybrid(lambda F, x: traces.append(1) or x * 2)
    assert [block(a).shape for a in (x, mx.nd.ones((5, 5)), mx.nd.ones((2,)))] == [
        (2, 4), (5, 5), (2,),
    ]  # fmt: skip
    assert block(x.astype("float16")).dtype is np.float16
    assert len(traces) == 1
    block.hybridize(clear=False)
    block(x)
    assert len(traces) == 1
    block.hybridize()
    block(x)
    assert len(traces) == 2
    block.cast("float32")
    block(x)
    assert len(traces) == 3


def test_inner_blocks_build_a_graph_only_when_called(x):
    net = nn.HybridSequential()
    net.add(nn.Dense(2), nn.Dense(2))
    net.initialize()
    net.hybridize()
    net(x)
    assert net._cached is not None
    assert [(c._active, c._cached) for c in net] == [(True, None), (True, None)]
    net[0](x)
    assert net[0]._cached is not None


def test_adding_a_child_traces_again(x):
    net = nn.HybridSequential()
    net.add(nn.Dense(4))
    net.initialize()
    net.hybridize()
    assert net(x).shape == (2, 4)
    net.add(nn.Dense(3))
    net[1].initialize()
    assert net(x).shape == (2, 3)


@pytest.mark.parametrize("flags", [{}, {"static_alloc": True, "static_shape": True}])
def test_parameter_writes_are_seen(x, flags):
    net = nn.Dense(3, in_units=4, use_bias=False)
    net.initialize()
    net.hybridize(**flags)
    earlier = net(x)
    values = earlier.asnumpy()
    ones = mx.nd.ones((2, 4))
    net.weight.set_data(mx.nd.zeros((3, 4)))
    assert net(ones).asnumpy().sum() == 0
    net.weight.data()[:] = 1
    assert net(ones).asnumpy().tolist() == [[4] * 3] * 2
    net.initialize(mx.init.Constant(2), force_reinit=True)
    assert net(ones).asnumpy().tolist() == [[8] * 3] * 2
    net.weight.reset_ctx(mx.cpu(0))
    net.weight.data()[0] = 0
    assert net(ones).asnumpy().tolist() == [[0, 8, 8]] * 2
    np.testing.assert_array_equal(earlier.asnumpy(), values)


def test_cast_of_a_child_is_seen(x):
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=4))
    net.initialize()
    net.hybridize()
    net(x)
    net[0].cast("float64")
    with pytest.raises(DTypeError):
        net(x)
    assert net(x.astype("float64")).dtype is np.float64


def test_hybridize_accepts_mxnets_flags(x):
    hybrid(lambda F, x: x + 1, winograd=False, inline_limit=3, backend_opts={}, anything=1)(x)
    block = hybrid(lambda F, x: x + 1, static_shape=True)
    with pytest.raises(mx.MXNetError, match="static_alloc must be True when static_shape is True"):
        block(x)
    block.hybridize()
    block(x)


def test_optimize_for_builds_without_running(x):
    block = Fn(lambda F, x: x + 1)
    with pytest.raises(ValueError, match='Must specify "backend" to optimize_for'):
        block.optimize_for(x)
    block.optimize_for(x, backend="any")
    assert block._active
    assert block._cached is not None


def test_strict_symbols_after_broadcasting_arrays(x):
    block = Fn(lambda F, x: x + F.ones((1, 1)), prefix="net_")
    assert block(x).shape == (2, 4)
    block.hybridize()
    with pytest.raises(mx.MXNetError) as caught:
        block(x)
    message = str(caught.value)
    assert "Error in operator elemwise_add 'net__plus0': expected shape (2,4), got (1,1)" in message
    assert "test_gluon_hybrid.py" in message


def test_a_block_that_overrides_forward(x):
    class Own(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.fc = nn.Dense(2)

        def forward(self, x):
            seen.append(type(x).__name__)
            return self.fc(x)

    seen = []
    block = Own()
    block.initialize()
    block.hybridize()
    block(x)
    block(x)
    assert seen == ["NDArray", "NDArray"]
    assert block.fc._cached is not None
    with pytest.raises(RuntimeError, match="Please first call block.hybridize"):
        block.export("nothing")
    parent = nn.HybridSequential()
    parent.add(block)
    parent.hybridize()
    parent(x)
    parent(x)
    assert seen == ["NDArray", "NDArray", "Symbol"]


def test_training_flags_at_call_time():
    mx.random.seed(1)
    block = nn.Dropout(0.5)
    block.hybridize()
    ones = mx.nd.ones((100,))
    assert set(block(ones).asnumpy()) == {1}
    with mx.autograd.record():
        assert set(block(ones).asnumpy()) == {0, 2}
    assert set(block(ones).asnumpy()) == {1}


def test_fixed_gamma_is_overwritten_eagerly():
    block = nn.BatchNorm(scale=False, in_channels=3)
    block.initialize()
    block.gamma.set_data(mx.nd.array([2, 3, 4]))
    live = block.gamma.data()
    image = mx.nd.ones((1, 3, 2, 2))
    block.hybridize()
    compiled = block(image).asnumpy()
    assert live.asnumpy().tolist() == [2, 3, 4]
    block.hybridize(False)
    np.testing.assert_allclose(block(image).asnumpy(), compiled, rtol=1e-6)
    assert live.asnumpy().tolist() == [1, 1, 1]
    version = live._storage.version
    block(image)
    assert live._storage.version == version


@pytest.mark.parametrize("way", ["eager", "hybridized", "step", "symbolic"])
@pytest.mark.parametrize("is_train", [False, True])
def test_fixed_gamma_is_overwritten_where_calls_are_recorded(way, is_train):
    net = nn.HybridSequential()
    net.add(nn.BatchNorm(scale=False, in_channels=3), nn.Dense(1))
    net.initialize()
    net[0].gamma.set_data(mx.nd.array([2, 3, 4]))
    live = net[0].gamma.data()
    image = mx.nd.ones((2, 3, 2, 2))
    net.hybridize(way != "eager")
    if way == "step":
        trainer = gluon.Trainer(net.collect_params(), "sgd")
        step = mx.train_step(net, gluon.loss.L2Loss(), trainer)
        for _ in range(2):
            live[:] = 5
            step(image, mx.nd.ones((2, 1)))
            assert live.asnumpy().tolist() == [1, 1, 1]
        return
    if way == "symbolic":
        net(image)
        output = net(mx.sym.var("data"))
        names = output.list_arguments() + output.list_auxiliary_states()
        params = {name: p.data() for name, p in net.collect_params().items()}
        held = {name: params.get(name, image) for name in names}
        live = held[net[0].gamma.name]
        bound = output.bind(
            mx.cpu(),
            {n: held[n] for n in output.list_arguments()},
            args_grad={net[0].gamma.name: mx.nd.zeros(3)},
            aux_states={n: held[n] for n in output.list_auxiliary_states()},
        )
        bound.forward(is_train=is_train)
    else:
        with mx.autograd.record(train_mode=is_train):
            net(image)
    assert live.asnumpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("active", [False, True])
def test_a_batch_of_no_samples_moves_no_statistics(active):
    block = nn.BatchNorm(in_channels=3)
    block.initialize()
    block.running_mean.set_data(mx.nd.array([1, 2, 3]))
    block.running_var.set_data(mx.nd.array([4, 5, 6]))
    block.hybridize(active)
    with mx.autograd.record():
        y = block(mx.nd.array(np.zeros((0, 3, 4, 4), np.float32)))
    y.backward()
    assert block.running_mean.data().asnumpy().tolist() == [1, 2, 3]
    assert block.running_var.data().asnumpy().tolist() == [4, 5, 6]
    assert block.gamma.grad().asnumpy().tolist() == [0, 0, 0]


# ---- deferred shapes ----------------------------------------------------------------------------


@pytest.mark.parametrize("active", [False, True])
def test_shapes_follow_from_the_first_input(x, active):
    net = nn.HybridSequential()
    net.add(nn.Dense(5), nn.BatchNorm(), nn.LayerNorm(), nn.Dense(2))
    net.initialize()
    net.hybridize(active)
    net(x)
    assert [p.shape for n, p in net.collect_params().items() if "weight" in n] == [(5, 4), (2, 5)]
    assert net[1].running_mean.shape == net[2].gamma.shape == (5,)


def test_eagerly_a_block_completes_its_own_parameters_only(x):
    traced = []

    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.fc = nn.Dense(3)
            self.w = self.params.get("w", shape=(0, 4), allow_deferred_init=True)

        def hybrid_forward(self, F, x, w):
            traced.append(F)
            return self.fc(x), x * w

    net = Net()
    net.initialize()
    net(x)
    assert traced == [mx.sym, mx.nd]
    assert net.w.shape == (2, 4)


@pytest.mark.parametrize("active", [False, True])
def test_a_first_input_that_does_not_fit(active):
    net = nn.Conv2D(3, 2)
    net.initialize()
    net.hybridize(active)
    for shape, reason in (((2, 5, 5), "should be 4D"), ((2, 3, 1, 1), "kernel size exceed input")):
        with pytest.raises(ValueError, match="Deferred initialization failed because") as caught:
            net(mx.nd.ones(shape))
        assert reason in str(caught.value)
        assert net.weight.shape == (3, 0, 2, 2)
    assert net(mx.nd.ones((2, 3, 5, 5))).shape == (2, 3, 4, 4)


def test_nothing_decides_a_shape(x):
    class Spare(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.u = self.params.get("u", shape=(2, 0), allow_deferred_init=True)

        def hybrid_forward(self, F, x, u):
            return x + 1

    block = Spare(prefix="s_")
    block.initialize()
    with pytest.raises(ValueError, match="Deferred initialization failed .* shape of s_u"):
        block(x)
    assert block.u.shape == (2, 0)


class Faulty(gluon.HybridBlock):
    """A layer with a deferred parameter, and code that raises."""

    def __init__(self, code, shapes=None):
        super().__init__()
        with self.name_scope():
            self.dense = nn.Dense(3)
            self.w = self.params.get("w", shape=(0, 3), allow_deferred_init=True)
        self.code, self.shapes = code, shapes

    def hybrid_forward(self, F, x, w):
        return F.broadcast_add(self.code(F, self.dense(x)), F.sum(w))

    def infer_shape(self, *args):
        if self.shapes is None:
            super().infer_shape(*args)
        else:
            self.w.shape, self.dense.weight.shape = self.shapes


def raises(error):
    def code(F, x):
        raise error

    return code


FAULTS = {
    "an error of the program": (raises(KeyError("own")), KeyError),
    "a type": (raises(TypeError("own")), TypeError),
    "an interrupt": (raises(StopIteration("own")), StopIteration),
    "no attribute": (lambda F, x: x.nothing, AttributeError),
    "no operator": (lambda F, x: F.nothing(x), AttributeError),
    "an attribute's value": (lambda F, x: F.Activation(x, act_type="no"), mx.MXNetError),
    "a division": (lambda F, x: 1 / 0, ZeroDivisionError),
}


@pytest.mark.parametrize("name", FAULTS)
def test_errors_of_a_deferred_first_call_are_value_errors(x, name):
    """As in MXNet: the block that has deferred parameters is traced to find their shapes."""
    code, kind = FAULTS[name]
    for _ in range(2):
        net = Faulty(code)
        net.initialize()
        with pytest.raises(ValueError, match="Deferred initialization failed because") as caught:
            net(x)
        assert isinstance(caught.value.__cause__, kind)
    net = Faulty(code)
    net.initialize()
    net.hybridize()
    with pytest.raises(kind) as caught:
        net(x)
    assert "Deferred" not in str(caught.value)


def test_an_exit_in_a_deferred_first_call_stays_one(x):
    net = Faulty(raises(SystemExit(3)))
    net.initialize()
    with pytest.raises(SystemExit):
        net(x)


@pytest.mark.parametrize("active", [False, True])
def test_a_block_may_infer_its_own_shapes(x, active):
    """Its ``infer_shape`` is called instead of tracing: code that cannot be traced runs eagerly."""
    net = Faulty(lambda F, x: x, shapes=((2, 3), (3, x.shape[1])))
    net.initialize()
    net.hybridize(active)
    assert net(x).shape == (x.shape[0], 3)
    assert net.w.data().shape == (2, 3)
    looks = Faulty(lambda F, x: x * x.shape[0], shapes=((2, 3), (3, x.shape[1])))
    looks.initialize()
    assert looks(x).shape == (x.shape[0], 3)


def test_infer_shape_and_type(x):
    net = nn.Dense(3)
    net.infer_shape(x)
    assert net.weight.shape == (3, 4)
    with pytest.raises(RuntimeError, match="has not been initialized"):
        net(x)
    net.initialize()
    net.infer_type(x)
    assert net.weight.dtype == "float32"


# ---- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("units", [0, 4])
def test_uninitialised_nets(x, active, units):
    net = nn.Dense(3, in_units=units)
    net.hybridize(active)
    with pytest.raises(RuntimeError, match="_weight' has not been initialized. Note that you"):
        net(x)
    net.initialize()
    assert net(x).shape == (2, 3)


@pytest.mark.parametrize("active", [False, True])
def test_later_inputs_that_do_not_fit(active):
    net = nn.Conv2D(3, 2, in_channels=3)
    net.initialize()
    net.hybridize(active)
    good = mx.nd.ones((2, 3, 5, 5))
    expected = net(good).asnumpy()
    for bad in (mx.nd.ones((2, 5, 5)), mx.nd.ones((2, 4, 5, 5)), good.astype("float64")):
        with pytest.raises(mx.MXNetError, match="Error in operator Convolution"):
            net(bad)
        np.testing.assert_array_equal(net(good).asnumpy(), expected)


def test_errors_in_a_graph_name_the_node(x):
    net = nn.Dense(3, in_units=5, prefix="fc_")
    net.initialize()
    net.hybridize()
    with pytest.raises(mx.MXNetError, match="'fc_fwd': .*inferred shape=.3,4.") as caught:
        net(x)
    assert "fc_weight" in str(caught.value)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda F, x: x.shape, AttributeError),
        (lambda F, x: x.asnumpy(), NotImplementedForSymbol),
        (lambda F, x: x if x.sum() > 0 else -x, NotImplementedForSymbol),
        (lambda F, x: x + np.ones((2, 4)), TypeError),
        (lambda F, x: mx.nd.relu(x), AssertionError),
        (lambda F, x: x * F.var("stranger"), AssertionError),
        (lambda F, x: F.FullyConnected(x, num_hidden=3), AssertionError),
        (lambda F, x: x[1], IndexError),
        (lambda F, x: 1 / 0, ZeroDivisionError),
    ],
)
def test_operations_that_symbols_lack_raise(x, function, error):
    block = hybrid(function)
    for _ in range(2):
        with pytest.raises(error):
            block(x)
    block.function = lambda F, x: x + 1
    assert block(x).shape == x.shape


def test_missing_parameters_of_a_graph_are_named(x):
    with pytest.raises(AssertionError, match="Unknown input to HybridBlock: stranger"):
        hybrid(lambda F, x: x * F.var("stranger"))(x)


# ---- threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("active", [False, True])
def test_first_calls_from_many_threads(x, active):
    traces = []
    net = nn.HybridSequential()
    net.add(nn.Dense(8, "relu"), nn.Dense(3), Fn(lambda F, x: traces.append(F) or x))
    net.initialize()
    net.hybridize(active)
    results, start = [], threading.Barrier(6)

    def call():
        start.wait()
        results.append(net(x).asnumpy())

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    assert traces == ([mx.sym] if active else [mx.nd] * 6)


def test_normalised_by_itself_alone_a_number_is_beta():
    """A mean that is far larger than the deviation takes nothing from the result."""
    net = gluon.nn.BatchNorm(in_channels=16)
    net.initialize()
    beta = np.linspace(-1, 1, 16, dtype=np.float32)
    net.beta.set_data(mx.nd.array(beta))
    net.hybridize()
    with mx.autograd.record():
        y = net(mx.nd.array(np.linspace(10, 99, 16).reshape(1, 16, 1, 1)))
    np.testing.assert_array_equal(y.asnumpy().ravel(), beta)

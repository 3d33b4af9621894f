"""NumPy's shape semantics: scopes and decorators, and the meaning of 0, -1 and () with and without
them."""

import json
import threading

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd, sym
from hybridjit.errors import MXNetError, ShapeError
from hybridjit.gluon import nn


@pytest.fixture(autouse=True)
def classic():
    yield
    mx.set_np_shape(False)


def elsewhere(function):
    """The result of ``function`` in a separate thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


# ---- switching ----------------------------------------------------------------------------------


def test_scopes_nest_and_end():
    assert mx.util.np_shape is mx.np_shape
    with mx.np_shape():
        assert mx.is_np_shape() and mx.util.is_np_shape()
        with pytest.raises(KeyError), mx.np_shape(False):
            assert not mx.is_np_shape()
            raise KeyError
        with mx.np_shape(None):
            assert mx.is_np_shape()
    assert not mx.is_np_shape()


def test_set_np_shape_returns_the_previous_value():
    assert [mx.set_np_shape(on) for on in (True, True, False, False)] == [False, True, True, False]
    with pytest.raises(TypeError):
        mx.set_np_shape("x")
    mx.util.set_np(shape=True, array=False)
    assert mx.is_np_shape()
    mx.util.reset_np()
    assert not mx.is_np_shape()
    with pytest.raises(ValueError, match="NumPy Shape semantics is required"):
        mx.util.set_np(shape=False)


def test_a_thread_switches_for_itself():
    with mx.np_shape():
        assert not elsewhere(mx.is_np_shape)
        assert elsewhere(lambda: mx.set_np_shape(True)) is False


def test_two_switches_everywhere():
    mx.set_np_shape(2)
    assert elsewhere(mx.is_np_shape)
    assert elsewhere(lambda: mx.set_np_shape(0)) is True
    assert mx.is_np_shape() and not elsewhere(mx.is_np_shape)


def test_decorated_functions_and_classes():
    @mx.use_np_shape
    def function(x):
        """The intended use."""
        return x, mx.is_np_shape()

    assert function(3) == (3, True)
    assert (function.__name__, function.__doc__) == ("function", "The intended use.")

    class Base:
        def inherited(self):
            return mx.is_np_shape()

    @mx.use_np_shape
    class Decorated(Base):
        def __init__(self):
            self.at_first = mx.is_np_shape()

        @property
        def prop(self):
            return mx.is_np_shape()

        @prop.setter
        def prop(self, value):
            self.at_write = mx.is_np_shape()

        @staticmethod
        def static():
            return mx.is_np_shape()

        @classmethod
        def of_class(cls):
            return mx.is_np_shape()

    it = Decorated()
    it.prop = 3
    assert it.at_first and it.prop and it.at_write and it.inherited()
    assert it.static() and Decorated.static() and it.of_class()
    assert not mx.is_np_shape() and not Base().inherited()
    with pytest.raises(TypeError, match="can only decorate"):
        mx.use_np_shape(3)


# ---- arrays -------------------------------------------------------------------------------------

MADE = {
    "zeros": lambda shape: nd.zeros(shape),
    "ones": lambda shape: nd.ones(shape),
    "uniform": lambda shape: nd.random.uniform(shape=shape),
    "randint": lambda shape: nd.random.randint(0, 3, shape=shape),
    "_full": lambda shape: nd._internal._full(shape=shape, value=2),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_arrays_without_elements_and_numbers(make):
    for shape in ((0, 2), (), (2, 0)):
        for _ in range(2):  # a call is remembered
            with pytest.raises(ShapeError, match="not known"):
                make(shape)
            with mx.np_shape():
                assert make(shape).shape == shape
    for active in (False, True):
        with mx.np_shape(active), pytest.raises(ShapeError):
            make((2, -1))


def test_arrays_that_are_made_either_way():
    for active in (False, True):
        with mx.np_shape(active):
            assert nd.empty((0, 2)).shape == (0, 2) and nd.empty(()).shape == ()
            assert nd.full((0, 2), 3).shape == (0, 2)
            assert nd.array(np.zeros((2, 0))).shape == (2, 0) and nd.array(3).shape == ()
            assert nd.array([5]).reshape(()).shape == ()
    with pytest.raises(ShapeError):
        nd.full((), 3)


def test_a_lone_element():
    x = nd.array([[1, 2], [3, 4]])
    assert x[0, 0].shape == (1,) and [row[0].shape for row in x] == [(1,), (1,)]
    with mx.np_shape():
        element = x[1, 0]
        assert element.shape == () and element.asscalar() == 3
        element[:] = 7  # of the same memory
        assert x.asnumpy().tolist() == [[1, 2], [7, 4]]
        assert nd.sum(x).shape == (1,)  # the operators' results do not change
        assert nd.tile(x, reps=(0, 1)).shape == (0, 2)
        assert nd.contrib.index_array(element).shape == (0,)
    assert not any(True for _ in nd.array(3))


def test_zero_is_an_unknown_size_again_after_the_scope():
    with mx.np_shape():
        nd.tile(nd.ones((2, 2)), reps=(0,))
    with pytest.raises(MXNetError, match="at least 1"):
        nd.tile(nd.ones((2, 2)), reps=(0,))


# ---- symbols ------------------------------------------------------------------------------------


def test_unknown_shapes_of_symbols():
    x, y = sym.var("x"), sym.var("y", shape=(0, 2))
    assert sym.sin(x).infer_shape_partial() == ([()], [()], [])
    assert sym.sin(x).infer_shape_partial(x=(0, 2)) == ([(0, 2)], [(0, 2)], [])
    assert sym.sin(x).infer_shape_partial(x=(-1, 2)) == ([(0, 2)], [(0, 2)], [])
    assert (x + y).infer_shape(x=(3, 2)) == ([(3, 2), (3, 2)], [(3, 2)], [])
    with mx.np_shape():
        assert sym.sin(x).infer_shape_partial() == ([None], [None], [])
        assert sym.sin(x).infer_shape_partial(x=(-1, 2)) == ([(-1, 2)], [(-1, 2)], [])
        assert sym.sin(y).infer_shape() == ([(0, 2)], [(0, 2)], [])
        assert sym.sin(x).infer_shape(x=()) == ([()], [()], [])
        assert sym.zeros(()).infer_shape() == ([], [()], [])
        with pytest.raises(ShapeError):
            (x + y).infer_shape(x=(3, 2))
    for active in (False, True):
        with mx.np_shape(active), pytest.warns(UserWarning, match="Cannot decide shape"):
            assert sym.sin(x).infer_shape(x=(-1, 2)) == (None, None, None)
    with pytest.raises(TypeError, match="need to be shapes"):
        sym.sin(x).infer_shape(x=None)


@pytest.mark.parametrize(
    ("make", "given", "result"),
    [
        (lambda x, y: sym.dot(x, y), {"x": (-1, 3, 4), "y": (4, 5)}, (-1, 3, 5)),
        (lambda x, y: sym.batch_dot(x, y), {"x": (-1, 3, 4), "y": (-1, -1, 5)}, None),
        (lambda x, y: sym.pick(x, y, axis=1), {"x": (-1, 3, 3), "y": (-1, 3)}, (-1, 3)),
        (lambda x, y: sym.concat(x, y, dim=0), {"x": (0, 3), "y": (2, 3)}, (2, 3)),
    ],
)
def test_sizes_of_operators(make, given, result):
    with mx.np_shape():
        found = make(sym.var("x"), sym.var("y")).infer_shape_partial(**given)
    assert found[1] == [result]


def test_executors_support_empty_and_scalar_shapes():
    sine = sym.sin(sym.var("x"))
    with pytest.raises(RuntimeError):
        sine.simple_bind(mx.cpu(), x=(0, 2))
    with mx.np_shape():
        for shape in ((0, 2), ()):
            assert sine.simple_bind(mx.cpu(), x=shape).forward()[0].shape == shape


# ---- files --------------------------------------------------------------------------------------


def test_graph_files_say_the_semantics():
    weight = sym.var("w", shape=(3, 0))
    text = sym.FullyConnected(sym.var("x"), weight, num_hidden=3).tojson()
    assert "is_np_shape" not in json.loads(text)["attrs"]
    with mx.np_shape():
        assert json.loads(sym.load_json(text).tojson())["attrs"]["is_np_shape"] == ["int", 1]
        read = sym.load_json(text)  # where 0 meant unknown
        assert read.attr_dict()["w"]["__shape__"] == "[3,-1]"
        assert read.infer_shape(x=(2, 5))[0][1] == (3, 5)
        kept = sym.load_json(sym.sin(sym.var("x", shape=(0, 2))).tojson())
        assert kept.infer_shape()[1] == [(0, 2)]


def test_array_files_load_in_either(tmp_path):
    file = str(tmp_path / "a.nd")
    for written in (False, True):
        for read in (False, True):
            with mx.np_shape(written):
                nd.save(file, [nd.array(np.ones(shape)) for shape in ((2,), (0, 2), ())])
                magic = (tmp_path / "a.nd").read_bytes()[24:28]
            with mx.np_shape(read):
                assert [a.shape for a in nd.load(file)] == [(2,), (0, 2), ()]
            assert magic == (b"\xca" if written else b"\xc9") + b"\xfa\x93\xf9"


# ---- blocks -------------------------------------------------------------------------------------


def test_parameters_support_empty_and_scalar_shapes():
    with mx.np_shape():
        assert gluon.Parameter("p", shape=(0, 2)).shape == (-1, 2)
        assert gluon.Parameter("p", shape=(0, 2)).var().attr("__shape__") == "(-1, 2)"
        number = gluon.Parameter("p", shape=())
        number.initialize(init="ones")
        assert number.data().asscalar() == 1
        known = [gluon.utils.shape_is_known(s) for s in (None, (), (0, 2), (-1, 2), (2,))]
        assert known == [False, True, True, False, True]
    assert gluon.Parameter("p", shape=(0, 2)).shape == (0, 2)
    with pytest.raises(ValueError, match="invalid shape"):
        gluon.Parameter("p", shape=()).initialize(init="ones")
    assert [gluon.utils.shape_is_known(s) for s in (None, (), (0, 2), (2,))] == [False] * 3 + [True]


LAYERS = {
    "dense": (lambda: nn.Dense(3), (2, 4)),
    "conv": (lambda: nn.Conv2D(3, 1), (1, 4, 2, 2)),
    "batchnorm": (lambda: nn.BatchNorm(), (1, 4, 2)),
    "lstm": (lambda: gluon.rnn.LSTM(3), (2, 1, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("hybridized", [False, True])
def test_layers_finish_their_shapes(name, hybridized):
    make, shape = LAYERS[name]
    with mx.np_shape():
        layer = make()
        layer.initialize()
        layer.hybridize(hybridized)
        x = nd.array(np.ones(shape))
        assert layer(x).shape[0] == shape[0]
        assert all(-1 not in param.shape for param in layer.collect_params().values())
        empty = nd.array(np.ones((*shape[:-1], 0) if name == "batchnorm" else (0, *shape[1:])))
        if name != "lstm":
            assert layer(empty).size == 0


def test_traced_blocks():
    class Joined(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.concat(x, F.zeros((0, 2)), dim=0) * F.ones((1, 2)), F.ones(()) * 3

    with mx.np_shape():
        net = Joined()
        x = nd.array([[1, 2]])
        eager = net(x)
        net.hybridize()
        for found, wanted in zip(net(x), eager):
            assert found.shape == wanted.shape
            np.testing.assert_array_equal(found.asnumpy(), wanted.asnumpy())


# ---- calls of NumPy mode that skip the operator -------------------------------------------------


def test_reshape_of_numpy_mode_copies_and_passes_gradients():
    x = mx.np.arange(6)
    y = x.reshape(2, -1)
    y[0] = 9
    assert y.shape == (2, 3) and x.asnumpy().tolist() == [0, 1, 2, 3, 4, 5]
    x.attach_grad()
    with mx.autograd.record():
        z = x.reshape((3, 2)) * 2
    z.backward()
    assert x.grad.asnumpy().tolist() == [2.0] * 6


@pytest.mark.parametrize("sizes", [(7,), (-1, -1), (-1, 4), (1,) * 33], ids=str)
def test_reshape_of_numpy_mode_names_the_operator_for_a_shape_that_does_not_fit(sizes):
    with pytest.raises(ShapeError, match="_np_reshape"):
        mx.np.arange(6).reshape(sizes)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float64", "bool"])
def test_filled_arrays_of_numpy_mode_have_the_operators_values(dtype):
    for value in (0.0, -0.0, 1.0, -1.5, 127, 128, 300.0, 65504, 65520, 1e10, float("nan")):
        made = mx.np.full((2,), value, dtype)
        by_operator = mx.np.full((2,), value, dtype, out=mx.np.zeros((2,), dtype))
        assert made.dtype == dtype and type(made) is mx.np.ndarray
        assert made.asnumpy().tobytes() == by_operator.asnumpy().tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float64", "bool"])
def test_arrays_of_numpy_mode_filled_like_others_have_the_operators_values(dtype):
    x = mx.np.ones((2,), dtype)
    for value in (0.0, 1.0, -1.5, 127, 128, 300.0, 65504, 65520, 1e10, float("nan")):
        for given in (None, "int32", "float16"):
            made = mx.np.full_like(x, value, given)
            by_operator = mx.np.full_like(x, value, given, out=mx.np.zeros((2,), given or dtype))
            assert made.dtype == (given or dtype)
            assert made.asnumpy().tobytes() == by_operator.asnumpy().tobytes()
    with mx.np_shape():
        assert mx.np.zeros_like(mx.np.ones(())).shape == ()
    with pytest.raises(TypeError, match="legacy"):
        mx.np.zeros_like(nd.ones(2))


def test_copies_of_numpy_mode_pass_gradients_and_are_new():
    x = mx.np.arange(3)
    x.attach_grad()
    with mx.autograd.record():
        y = mx.np.copy(x) + 2 * x.copy() + mx.np.ones_like(x)
    y.backward()
    assert x.grad.asnumpy().tolist() == [3, 3, 3]
    mx.np.copy(x)[:] = x.copy()[:] = 9
    assert x.asnumpy().tolist() == [0, 1, 2]
    assert x.astype("float32", copy=False) is x
    assert x.astype("float64", copy=False).dtype == "float64"
    with pytest.raises(TypeError, match="legacy"):
        mx.np.copy(nd.ones(2))


@pytest.mark.parametrize("name", ["vstack", "hstack", "dstack", "column_stack"])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (2, 3, 2)], ids=str)
def test_stacks_of_numpy_mode_are_official_ones_and_new_arrays(name, shape):
    with mx.np_shape():
        parts = [mx.np.full(shape, value) for value in (1, 2)]
        for some in (parts, parts[:1]):
            made = getattr(mx.np, name)(some)
            wanted = getattr(np, name)([part.asnumpy() for part in some])
            np.testing.assert_array_equal(made.asnumpy(), wanted)
            assert made.shape == wanted.shape
            made += 5
        assert (parts[0].asnumpy() == 1).all()
    with pytest.raises(MXNetError, match=name):
        getattr(mx.np, name)([mx.np.ones((2, 2)), mx.np.ones((2, 3), "float64")])


def test_functions_of_the_flat_array_read_it_in_place_and_pass_gradients():
    x, at = mx.np.arange(6).reshape(2, 3), mx.np.array([4, 0], dtype="int64")
    x.attach_grad()
    with mx.autograd.record():
        y = mx.np.take(x, at).sum() + mx.np.vdot(x, x) + mx.np.outer(x, x)[1].sum()
    y.backward()
    assert mx.np.take(x, at).asnumpy().tolist() == [4, 0]
    assert x.grad.asnumpy().tolist() == [[2, 18, 5], [7, 10, 11]]
    mx.np.take(x, at)[0] = 9
    assert x.asnumpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    with mx.np_shape():
        nothing = mx.np.zeros((0, 3))
        assert mx.np.vdot(nothing, nothing).asnumpy() == 0
        assert mx.np.take(nothing, mx.np.zeros((0,), dtype="int32")).shape == (0,)
    with pytest.raises(MXNetError, match="index -7 is not in the range 0 to 5"):
        mx.np.take(x, mx.np.array([-7], dtype="int32"))


def test_assignment_of_numpy_mode_to_the_whole_array_copies():
    x, y = mx.np.zeros((2, 2)), mx.np.ones((2, 2))
    x[:] = y
    y[0, 0] = 5
    assert x.asnumpy().tolist() == [[1, 1], [1, 1]]
    x.attach_grad()
    with mx.autograd.record(), pytest.raises(MXNetError, match="computational graph"):
        x[:] = y


def of_numpy_mode(key):
    """The key with arrays of NumPy mode in place of official ones."""
    if isinstance(key, tuple):
        return tuple(map(of_numpy_mode, key))
    return mx.np.array(key, dtype=key.dtype) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", [slice(1, 3), slice(None, None, -2), slice(np.int64(1), None), True,
                                 [0, 2], np.array([2, 0]), np.array([True, False, True, False]),
                                 (slice(None), 1), (2, slice(None, None, -1)),
                                 (np.array([3, 1]), slice(1))],
                         ids=str)  # fmt: skip
def test_keys_of_numpy_mode_select_as_in_official_numpy(key):
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    with mx.np_shape():
        assert (mx.np.array(values)[of_numpy_mode(key)].asnumpy() == values[key]).all()


@pytest.mark.parametrize("sizes", [(), (-1, 2), (1,) * 33], ids=str)
def test_zeros_of_numpy_mode_names_the_operator_for_a_shape_that_it_refuses(sizes):
    with pytest.raises(ShapeError, match="_npi_zeros"):
        mx.np.zeros(sizes)

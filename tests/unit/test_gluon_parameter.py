"""Parameter, Constant and ParameterDict: initialising, writing in place, casting, files, errors."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon
from hybridjit.gluon import Constant, Parameter, ParameterDict
from hybridjit.gluon.parameter import DeferredInitializationError


def made(name="w", shape=(2, 3), init="ones", **kwargs):
    param = Parameter(name, shape=shape, init=init, **kwargs)
    param.initialize()
    return param


# ---- one parameter ------------------------------------------------------------------------------


def test_an_uninitialised_parameter_raises():
    param = Parameter("w", shape=(2, 3))
    for ask in (param.data, param.list_data, param.list_ctx, param.grad):
        with pytest.raises(RuntimeError, match="Parameter 'w' has not been initialized"):
            ask()
    with pytest.raises(AssertionError, match="has not been initialized"):
        param.set_data(mx.nd.ones((2, 3)))
    with pytest.raises(ValueError, match="Cannot reset context"):
        param.reset_ctx(mx.cpu(1))


def test_initialise_twice_warns_and_keeps():
    param = made()
    with pytest.warns(UserWarning, match="Set force_reinit=True to re-initialize"):
        param.initialize(mx.init.Zero())
    assert param.data().asnumpy().sum() == 6


def test_own_initialiser_wins_over_the_default():
    param = Parameter("w", shape=(2,), init=mx.init.Constant(3))
    param.initialize(default_init=mx.init.Zero())
    assert param.data().asnumpy().tolist() == [3, 3]
    param.initialize(mx.init.Zero(), force_reinit=True)
    assert param.data().asnumpy().tolist() == [0, 0]


@pytest.mark.parametrize("write", ["set_data", "force_reinit", "load"])
def test_writes_are_in_place(write, tmp_path):
    param = made(init="zeros")
    live = param.data()
    if write == "set_data":
        param.set_data(np.ones((2, 3)))
    elif write == "force_reinit":
        param.initialize(mx.init.One(), force_reinit=True)
    else:
        params = ParameterDict()
        params.update({"w": param})
        params.load_dict({"w": mx.nd.ones((2, 3))})
    assert param.data() is live
    assert live.asnumpy().sum() == 6


def test_set_data_casts_to_the_parameters_dtype():
    param = made()
    param.set_data(np.full((2, 3), 2, np.float64))
    assert param.data().dtype is np.float32
    with pytest.raises(AssertionError, match=r"Expected shape \(2, 4\) is incompatible with given"):
        param.set_data(mx.nd.ones((2, 4)))


def test_an_initialiser_that_fails_leaves_the_values():
    param = made(shape=(4,))
    with pytest.raises(ValueError, match="cannot be applied to vector w"):
        param.initialize(mx.init.Xavier(), force_reinit=True)
    assert param.data().asnumpy().sum() == 4


def test_cast_makes_new_arrays():
    param = made()
    before = param.data()
    param.cast("float16")
    assert (param.dtype, param.data().dtype, before.dtype) == ("float16", np.float16, np.float32)
    param.dtype = np.float64
    assert str(param) == "Parameter w (shape=(2, 3), dtype=<class 'numpy.float64'>)"


def test_shape_can_only_become_more_precise():
    param = Parameter("w", shape=(0, 3), allow_deferred_init=True)
    param.shape = (4, 3)
    for other in ((5, 3), (4,), (4, 3, 1)):
        with pytest.raises(AssertionError, match="incompatible with given shape"):
            param.shape = other
    assert param.shape == (4, 3)
    assert Parameter("w", shape=4).shape == (4,)


def test_unknown_shape_without_deferral():
    for shape in ((0, 3), None):
        with pytest.raises(ValueError, match="because it has invalid shape"):
            Parameter("w", shape=shape).initialize()


def test_deferred_initialisation():
    param = Parameter("w", shape=(0, 3), init="ones", allow_deferred_init=True)
    param.initialize()
    assert param.list_ctx() == [mx.cpu(0)]
    with pytest.raises(DeferredInitializationError, match="initialization was deferred"):
        param.data()
    assert issubclass(DeferredInitializationError, mx.MXNetError)
    param.shape = (2, 3)
    param._finish_deferred_init()
    assert param.data().asnumpy().sum() == 6


def test_data_for_a_deferred_parameter_waits_with_it():
    param = Parameter("w", shape=(0, 3), allow_deferred_init=True)
    param.initialize()
    param.set_data(mx.nd.full((4, 3), 5))
    assert param.shape == (4, 3)
    with pytest.raises(DeferredInitializationError):
        param.data()
    param._finish_deferred_init()
    assert param.data().asnumpy().sum() == 60


def test_a_parameter_has_an_array_per_context():
    param = Parameter("w", shape=(2,), init="ones")
    param.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    assert [a.context for a in param.list_data()] == [mx.cpu(0), mx.cpu(1)]
    assert param.data(mx.cpu(1)).context == mx.cpu(1)
    with pytest.raises(RuntimeError, match=r"not initialized on context cpu\(2\). It was only"):
        param.data(mx.cpu(2))
    param.reset_ctx(mx.cpu(2))
    assert param.list_ctx() == [mx.cpu(2)]
    assert param.data().asnumpy().sum() == 2


def test_gradients_are_zeros_until_somebody_writes_them():
    param = made()
    grad = param.grad()
    assert grad.asnumpy().tolist() == [[0, 0, 0], [0, 0, 0]]
    assert param.grad() is grad and param.list_grad()[0] is grad and param._grad[0] is grad
    grad[:] = 5
    param.set_data(mx.nd.zeros((2, 3)))
    assert param.grad() is grad and param.data().grad.asnumpy().sum() == 30
    param.cast("float16")
    assert param.grad().dtype is np.float16 and param.grad().asnumpy().sum() == 30
    param.zero_grad()
    assert param.grad().asnumpy().sum() == 0


@pytest.mark.parametrize(
    "renew",
    [
        lambda param: param.initialize(force_reinit=True),
        lambda param: param.reset_ctx(mx.cpu(1)),
        lambda param: setattr(param, "grad_req", "add"),
    ],
)
def test_gradients_made_anew_are_zeros(renew):
    param = made()
    param.grad()[:] = 5
    renew(param)
    assert param.grad().asnumpy().sum() == 0
    assert param.grad().context == param.data().context


def test_gradients_on_every_context():
    param = Parameter("w", shape=(2,))
    param.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    assert [grad.context for grad in param.list_grad()] == [mx.cpu(0), mx.cpu(1)]
    assert param.grad(mx.cpu(1)) is param.list_grad()[1]
    with pytest.raises(RuntimeError, match=r"not initialized on context cpu\(2\)"):
        param.grad(mx.cpu(2))


def test_where_there_is_no_gradient():
    for ask in ("grad", "list_grad"):
        with pytest.raises(RuntimeError, match="Cannot get gradient array .* grad_req='null'"):
            getattr(made(grad_req="null"), ask)()
        with pytest.raises(RuntimeError, match="has not been initialized"):
            getattr(Parameter("w", shape=(2,), grad_req="null"), ask)()
        deferred = Parameter("w", shape=(2, 0), allow_deferred_init=True)
        deferred.initialize()
        with pytest.raises(DeferredInitializationError):
            getattr(deferred, ask)()
        deferred.zero_grad()
    assert made(grad_stype="row_sparse").grad().stype == "row_sparse"
    with pytest.raises(AssertionError, match="grad_req must be one of"):
        Parameter("w", grad_req="sometimes")
    assert Parameter("w", differentiable=False).grad_req == "null"
    switched = made(grad_req="null")
    assert switched._grad is None
    switched.grad_req = "write"
    assert switched.grad().shape == (2, 3)
    switched.grad_req = "null"
    assert switched._grad is None


def test_all_gradients_of_a_collection():
    params = ParameterDict()
    params.get("a", shape=(2,))
    params.get("b", shape=(2,), grad_req="null")
    params.initialize()
    params["a"].grad()[:] = 3
    params.zero_grad()
    assert params["a"].grad().asnumpy().sum() == 0


@pytest.mark.parametrize("which", ["stype", "grad_stype"])
def test_storage_types(which):
    for known in ("default", "row_sparse", "csr"):
        assert getattr(Parameter("w", shape=(2,), **{which: known}), f"_{which}") == known
    for unknown in ("invalid", None, 3):
        with pytest.raises(AssertionError, match=f"^{which} for Parameter 'w' must be one of"):
            Parameter("w", shape=(2,), **{which: unknown})
    for ask, text in (("row_sparse_data", "a copy of Parameter w"), ("list_row_sparse_data", "on")):
        with pytest.raises(RuntimeError, match=f"Cannot return .*{text}.*Please use data"):
            getattr(made(), ask)(mx.nd.array([0]))


def test_var_has_the_parameters_attributes():
    param = made(shape=(2,), lr_mult=2, wd_mult=0.5)
    assert param.var() is param.var()
    attrs = param.var().attr_dict()["w"]
    assert (attrs["__shape__"], attrs["__dtype__"], attrs["__init__"]) == ("(2,)", "0", "ones")
    assert (attrs["__lr_mult__"], attrs["__wd_mult__"]) == ("2", "0.5")


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        ([1, 2], np.float32, (2,)),
        (np.arange(3), np.float32, (3,)),
        (mx.nd.array([1, 2], dtype="int32"), np.int32, (2,)),
    ],
)
def test_constants_take_type_and_shape_from_their_value(value, dtype, shape):
    constant = Constant("c", value)
    assert (constant.dtype, constant.shape, constant.grad_req) == (dtype, shape, "null")
    assert str(constant) == f"Constant c (shape={shape}, dtype={dtype})"
    with pytest.raises(RuntimeError, match="has not been initialized"):
        constant.data()
    constant.initialize()
    expected = np.arange(3) if shape == (3,) else [1, 2]
    np.testing.assert_array_equal(constant.data().asnumpy(), expected)
    with pytest.warns(UserWarning, match='does not support grad_req other than "null"'):
        constant.grad_req = "write"
    assert constant.grad_req == "null"


# ---- collections --------------------------------------------------------------------------------


def test_get_makes_once_and_merges_shapes():
    params = ParameterDict("pre_")
    weight = params.get("w", shape=(2, 0), allow_deferred_init=True)
    assert params.get("w", shape=(0, 3)) is weight
    assert weight.shape == (2, 3)
    for wrong in ({"shape": (4, 3)}, {"shape": (2, 3, 4)}, {"dtype": "float16"}, {"lr_mult": 3}):
        with pytest.raises(
            AssertionError, match="Cannot retrieve Parameter 'pre_w' because desired"
        ):
            params.get("w", **wrong)
    assert params.get("w", init="ones").init == "ones"
    with pytest.raises(TypeError, match="foo"):
        params.get("new", foo=3)


def test_mapping_manners():
    params = ParameterDict("pre_")
    weight = params.get("w", shape=(2,))
    assert list(params) == list(params.keys()) == ["pre_w"]
    assert list(params.items()) == [("pre_w", weight)]
    assert params["pre_w"] is weight
    assert "pre_w" in params
    assert bool(ParameterDict())
    with pytest.raises(KeyError):
        params["w"]
    with pytest.raises(TypeError, match="len"):
        len(params)
    assert str(params) == (
        "pre_ (\n  Parameter pre_w (shape=(2,), dtype=<class 'numpy.float32'>)\n)"
    )
    assert str(ParameterDict()) == "(\n\n)"


def test_constants_in_a_collection():
    params = ParameterDict("pre_")
    with pytest.raises(KeyError, match="No constant named 'pre_c'"):
        params.get_constant("c")
    constant = params.get_constant("c", [[1.0]])
    assert params.get_constant("c") is params.get_constant("c", [[1.0]]) is constant
    with pytest.raises(AssertionError, match="already exists but its value"):
        params.get_constant("c", [[2.0]])
    rounded = params.get_constant("d", np.array([0.1], "float64"))  # no float32 has this value
    assert rounded is params.get_constant("d", np.array([0.1], "float64"))
    params.get("w")
    with pytest.raises(AssertionError, match="it is not a constant"):
        params.get_constant("w", 1)


def test_sharing_and_update():
    first = ParameterDict("a_")
    weight = first.get("w")
    assert ParameterDict("a_", shared=first).get("w") is weight
    assert ParameterDict("b_", shared=first).get("w") is not weight
    other = ParameterDict("a_")
    other.get("w")
    with pytest.raises(AssertionError, match="different Parameters with the same name 'a_w'"):
        first.update(other)


def test_setattr_and_reset():
    params = ParameterDict("pre_")
    params.get("w", shape=(2,))
    params.initialize()
    params.setattr("grad_req", "null")
    assert params["pre_w"].grad_req == "null"
    params.reset_ctx(mx.cpu(1))
    assert params.list_ctx() == [mx.cpu(1)]


@pytest.fixture
def saved(tmp_path):
    """A collection of one parameter, and its file."""
    params = ParameterDict("pre_")
    params.get("w", shape=(2,), init="ones")
    params.initialize()
    path = str(tmp_path / "f.params")
    params.save(path)
    return params, path


def test_save_strips_and_load_restores_the_prefix(saved, tmp_path):
    params, path = saved
    stripped = str(tmp_path / "stripped")
    params.save(stripped, strip_prefix="pre_")
    assert list(mx.nd.load(stripped)) == ["w"]
    params["pre_w"].set_data(mx.nd.zeros((2,)))
    params.load(stripped, restore_prefix="pre_")
    assert params["pre_w"].data().asnumpy().sum() == 2
    with pytest.raises(ValueError, match="Prefix 'zz_' is to be striped"):
        params.save(stripped, strip_prefix="zz_")
    with pytest.raises(AssertionError, match="restore_prefix is 'zz'"):
        params.load(path, restore_prefix="zz")


def test_load_takes_prefixes_of_exported_files(saved, tmp_path):
    params, path = saved
    mx.nd.save(path, {"arg:pre_w": mx.nd.full((2,), 5), "aux:pre_q": mx.nd.ones((1,))})
    with pytest.raises(AssertionError, match="'pre_q' loaded from file: .* choices are: 'pre_w'"):
        params.load(path)
    params.load(path, ignore_extra=True)
    assert params["pre_w"].data().asnumpy().tolist() == [5, 5]


def test_load_errors(saved, tmp_path):
    params, path = saved
    mx.nd.save(path, {"zz": mx.nd.ones((2,))})
    with pytest.raises(AssertionError, match="'pre_w' is missing in file: .* parameters: 'zz'"):
        params.load(path)
    params.load(path, allow_missing=True, ignore_extra=True)
    mx.nd.save(path, {"pre_w": mx.nd.ones((3,))})
    with pytest.raises(AssertionError, match=r"shape incompatible expected \(2,\) vs saved \(3,\)"):
        params.load(path)
    mx.nd.save(path, [mx.nd.ones((2,))])
    with pytest.raises(mx.MXNetError, match="arrays without names"):
        params.load(path)
    with pytest.raises(mx.MXNetError, match="No such file"):
        params.load(str(tmp_path / "absent"))
    with pytest.raises(AssertionError, match="previous initialized on"):
        params.load_dict({"pre_w": mx.nd.ones((2,))}, ctx=mx.cpu(1))
    assert params["pre_w"].data().asnumpy().tolist() == [1, 1]


def test_dtypes_of_files(saved):
    params, _ = saved
    halves = {"pre_w": mx.nd.ones((2,), dtype="float16")}
    with pytest.raises(AssertionError, match="dtype incompatible .* Set cast_dtype=True"):
        params.load_dict(halves)
    params.load_dict(halves, cast_dtype=True)
    assert params["pre_w"].data().dtype is np.float32
    params.load_dict(halves, cast_dtype=True, dtype_source="saved")
    assert params["pre_w"].data().dtype is np.float16
    with pytest.raises(AssertionError, match="dtype_source must be"):
        params.load_dict(halves, cast_dtype=True, dtype_source="other")


@pytest.mark.parametrize("initialised", [True, False])
def test_files_complete_parameters_of_unknown_shape(initialised):
    params = ParameterDict()
    params.get("w", shape=(0, 3), allow_deferred_init=True)
    if initialised:
        params.initialize()
    with pytest.raises(AssertionError, match="shape incompatible"):
        params.load_dict({"w": mx.nd.ones((2, 4))})
    params.load_dict({"w": mx.nd.ones((2, 3))})
    assert params["w"].shape == (2, 3)
    assert params["w"].data().asnumpy().sum() == 6


def test_gluon_exports():
    assert gluon.Parameter is Parameter
    assert gluon.parameter.ParameterDict is ParameterDict


def test_a_parameter_that_copies_another_and_changes_its_data():
    """As gluon-nlp's dropped weights: the subclass takes over every private field."""

    class Doubled(gluon.Parameter):
        def __init__(self, source):
            super().__init__(source.name, source.grad_req, source._shape, source.dtype)
            for field in ("_var", "_data", "_grad", "_ctx_list", "_ctx_map", "_trainer"):
                setattr(self, field, getattr(source, field))

        def data(self, ctx=None):
            return self._check_and_get(self._data, ctx) * 2

    net = gluon.nn.Dense(1, in_units=2, use_bias=False, prefix="dense0_")
    net.initialize(mx.init.One())
    net._reg_params["weight"] = net.params._params["dense0_weight"] = Doubled(net.weight)
    x = mx.nd.ones((1, 2))
    assert net(x).asscalar() == 4
    net.hybridize()
    assert net(x).asscalar() == 4
    net.weight._data[0][:] = 3
    assert net(x).asscalar() == 12


def test_programs_put_computed_weights_in_place_of_an_array():
    """As MXFusion and Xfer do, whose weights are samples: they read private tables."""
    net = gluon.nn.Dense(1, in_units=2, use_bias=False)
    assert net.weight._ctx_map is net.weight._ctx_list is None
    net.initialize(mx.init.One(), ctx=[mx.cpu(2), mx.cpu(0)])
    assert net.weight._ctx_map == [[], [1, None, 0]]
    assert net.weight._ctx_list == [mx.cpu(2), mx.cpu(0)]
    x = mx.nd.array([[1.0, 10.0]])
    for step in range(6):
        mean = mx.nd.array([[2.0, step]])
        mean.attach_grad()
        with mx.autograd.record():
            net.weight._data[net.weight._ctx_map[1][0]] = mean * 2
            loss = net(x)
        loss.backward()
        assert loss.asscalar() == net(x).asscalar() == 4 + 20 * step
        assert mean.grad.asnumpy().tolist() == [[2.0, 20.0]]
        if step == 2:
            net.hybridize()


def test_an_array_that_replaces_a_parameters_may_have_another_shape():
    class Shifted(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.shift = self.params.get("shift", shape=(1,), init="zeros")

        def hybrid_forward(self, F, x, shift):
            return F.broadcast_add(x, shift)

    net, x = Shifted(), mx.nd.ones((2, 3))
    net.initialize()
    net.hybridize()
    assert net(x).asnumpy().tolist() == [[1, 1, 1], [1, 1, 1]]
    net.shift._data[0] = mx.nd.array([[1], [2]])
    assert net(x).asnumpy().tolist() == [[2, 2, 2], [3, 3, 3]]
    rows = mx.nd.array([[1, 2, 3], [4, 5, 6]])
    for row in rows:  # parts of one array
        net.shift._data[0] = row
        assert net(x).asnumpy().tolist() == 2 * [(row + 1).asnumpy().tolist()]


def test_a_trainer_updates_an_array_that_replaces_a_parameters():
    net = gluon.nn.Dense(1, in_units=2, use_bias=False)
    net.initialize(mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    x, first = mx.nd.array([[1.0, 3.0]]), net.weight.data()
    for replace in (False, True):
        if replace:
            net.weight._data[0] = mx.nd.zeros((1, 2))
            net.weight._data[0].attach_grad()
            net.weight._grad[0] = net.weight._data[0].grad
        with mx.autograd.record():
            loss = net(x)
        loss.backward()
        trainer.step(1)
    assert first.asnumpy().tolist() == [[0.5, -0.5]]
    assert net.weight.data().asnumpy().tolist() == [[-0.5, -1.5]]


def test_a_copy_of_a_parameter_takes_other_arrays_too():
    net, x = gluon.nn.Dense(1, in_units=2, use_bias=False), mx.nd.ones((1, 2))
    net.initialize(mx.init.One())
    for copied in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        copied.hybridize()
        assert copied(x).asscalar() == 2
        copied.weight._data[0] = mx.nd.array([[3, 4]])
        assert copied(x).asscalar() == 7


def test_a_checkpoint_taken_apart_by_the_program():
    param = Parameter("w", shape=(2, 0), allow_deferred_init=True)
    param._load_init(mx.nd.ones((2, 3)), mx.cpu())
    assert param.shape == (2, 3) and param.data().asnumpy().sum() == 6
    with pytest.raises(AssertionError, match="shape incompatible"):
        param._load_init(mx.nd.ones((2, 4)), mx.cpu())
    with pytest.raises(AssertionError, match="previous initialized"):
        param._load_init(mx.nd.ones((2, 3)), mx.cpu(1))


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="asks Linux for its memory")
def test_unused_gradients_take_no_memory():
    """64 MB of parameters: the gradients' pages are not there until somebody writes them."""
    program = """
import hybridjit as mx

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

values = mx.nd.ones((4096, 4096))
param = mx.gluon.Parameter("w", shape=values.shape)
before = resident()
param.initialize(mx.init.Constant(1.0))
held = resident()
param.grad()[:] = 1
print((held - before) // 1024, (resident() - held) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    held, written = map(int, done.stdout.split())
    assert held < 100 and written > 50, (held, written)

"""NDArray: values, views, writes, operators, errors; answers as MXNet gives them.

``fixtures/array_code.json`` has MXNet 1.9.1's results for a few hundred pieces of code
(written by ``tools/mxnet_side/record_arrays.py``).
"""

from __future__ import annotations

import ast
import copy
import itertools
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, nd
from hybridjit.errors import AttributeValueError, DTypeError, ModelFormatError, ShapeError
from hybridjit.nd.storage import WRITES
from pickled_by_mxnet import unpickled

FIXTURES = Path(__file__).parent.parent / "fixtures"
RECORDED = json.loads((FIXTURES / "array_code.json").read_text("utf-8"))
EXCEPTIONS = {
    "MXNetError": mx.MXNetError,
    "AssertionError": AssertionError,
    "AttributeError": AttributeError,
    "IndexError": IndexError,
    "TypeError": TypeError,
    "ValueError": ValueError,
}


def variables():
    return {
        "mx": mx,
        "nd": nd,
        "np": np,
        "x": nd.array(np.arange(24).reshape(2, 3, 4)),
        "v": nd.array([1, 2, 3]),
        "i": nd.array([1, 2], dtype="int32"),
        "n": np.ones(3, "float32"),
    }


def described(value):
    if isinstance(value, (list, tuple)):
        return [described(member) for member in value]
    if hasattr(value, "asnumpy"):
        numbers = value.asnumpy().astype("float64").tolist()
        return [str(list(value.shape)), np.dtype(value.dtype).name, numbers, str(value.ctx)]
    if isinstance(value, type):
        return np.dtype(value).name
    return value.item() if isinstance(value, np.generic) else value


def answer(code):
    names = variables()
    try:
        program = compile(code, "code", "eval")
    except SyntaxError:
        exec(code, names)
        return described([names["v"], names["x"]])
    return described(eval(program, names))


def test_arrays_of_texts_and_objects_are_read_as_numbers():
    assert nd.array(["1.5", "nan"])[0].asscalar() == 1.5
    columns = np.array([[1, 2.5], [True, "3"]], dtype=object)  # as a table of several types has
    assert nd.array(columns).asnumpy().tolist() == [[1, 2.5], [1, 3]]
    found = nd.array([b"7"], dtype="int32")
    assert found.dtype == np.int32 and found.asscalar() == 7
    for wrong in (["x"], [1j], object(), [[1], [2, 3]], {}):
        with pytest.raises(TypeError, match="source_array"):
            nd.array(wrong)
    for wrong in (["1.5"], [None], [10**30]):
        with pytest.raises(TypeError, match="source_array"):
            nd.array(wrong, dtype="int32")


@pytest.mark.filterwarnings("ignore:You are attempting to copy")
@pytest.mark.parametrize("code", RECORDED)
def test_same_answer_as_mxnet(code):
    expected = RECORDED[code]
    if isinstance(expected, dict):
        with pytest.raises(EXCEPTIONS[expected["raises"]]):
            answer(code)
    else:
        assert answer(code) == expected


# Conversion


@pytest.mark.parametrize(
    "source",
    [
        np.array([[1, 2], [3, 4]], ">f4"),
        np.array([[1, 3], [2, 4]], np.float64).T,
        np.arange(1, 9, dtype=np.int64)[::2].reshape(2, 2) // 2 + np.array([[1, 1], [1, 1]]) * 0,
        np.array([[1, 2], [3, 4]]).astype(np.uint8),
        [[1, 2], [3, 4]],
        (nd.array([1, 2]), nd.array([3, 4])),
    ],
    ids=["big endian", "transposed", "strided", "uint8", "list", "arrays"],
)
def test_arrays_are_made_from_any_source(source):
    array = nd.array(source)
    assert array.dtype is np.float32
    assert array._data.flags.c_contiguous
    assert array._data.dtype.isnative
    if not isinstance(source, np.ndarray) or source.dtype.kind == "f":
        assert array.asnumpy().tolist() == [[1, 2], [3, 4]]


def test_sources_are_copied():
    source = np.ones(3, np.float32)
    array = nd.array(source)
    source[:] = 5
    assert array.asnumpy().tolist() == [1, 1, 1]
    again = nd.array(array)
    array[:] = 7
    assert again.asnumpy().tolist() == [1, 1, 1]


def test_read_only_source():
    source = np.ones(3, np.float32)
    source.flags.writeable = False
    array = nd.array(source)
    array += 1
    assert nd.from_numpy(source).asnumpy().tolist() == [1, 1, 1]


def test_a_writable_view_of_shared_memory_is_shared():
    source = np.ones(3, np.float32)
    view = source[1:]
    nd.from_numpy(source)
    assert view.flags.writeable and not source.flags.writeable
    array = nd.from_numpy(view)
    array[:] = 4
    assert source.tolist() == [1, 4, 4]


def test_conversion_of_values_out_of_range_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nd.array([1e300]).asscalar() == np.inf
        array = nd.array([0, 0], dtype="int32")
        array[:] = nd.array([np.nan, 1.9])
    assert array.asnumpy()[1] == 1


def test_from_numpy_shares_memory():
    source = np.arange(3, dtype=np.int64)
    array = nd.from_numpy(source)
    assert array.dtype is np.int64
    array[0] = 9
    assert source[0] == 9
    with pytest.raises(ValueError):
        source[0] = 1
    again = nd.from_numpy(source)  # read-only by now, and shared as before
    again[1] = 8
    assert source.tolist() == array.asnumpy().tolist() == [9, 8, 2]


def test_a_shape_may_be_an_array():
    assert nd.empty(np.array([3])).shape == nd.zeros(np.array([3])).shape == (3,)
    assert nd.ones(np.array([2, 3])).shape == (2, 3)


def test_unsupported_dtypes():
    with pytest.raises(DTypeError, match="float32.*uint16"):
        nd.array([1], dtype="uint16")
    with pytest.raises(DTypeError):
        nd.ones((2,)).astype(complex)


def test_asnumpy_is_a_copy():
    array = nd.ones((3,))
    for copied in (array.asnumpy(), np.array(array), array.__array__(copy=True)):
        copied[:] = 5
    assert array.asnumpy().tolist() == [1, 1, 1]
    assert (float(array[0]), int(array[1])) == (1.0, 1)


def test_numpy_reads_the_same_memory_and_cannot_write_it():
    array = nd.array([[1, 2], [3, 4]])[1]
    for view in (np.asarray(array), array.__array__(), array.__array__(copy=False)):
        array[0] = 7
        assert view.tolist() == [7, 4]
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 5
    assert array.__array__(np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        array.__array__(np.float64, copy=False)
    del array
    assert view.tolist() == [7, 4]  # the view keeps the memory


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "uint8"])
def test_dlpack_shares_memory_both_ways(dtype):
    array = nd.array([[1, 2, 3], [4, 5, 6]], dtype=dtype)
    again = nd.from_dlpack(array)
    again[0] = 9
    assert array.asnumpy().tolist() == [[9, 9, 9], [4, 5, 6]]
    theirs = np.arange(6, dtype=dtype).reshape(2, 3)
    ours = nd.from_dlpack(theirs.__dlpack__())
    theirs[1] = 0
    ours[0] = 2
    assert ours.asnumpy().tolist() == theirs.tolist() == [[2, 2, 2], [0, 0, 0]]
    assert np.from_dlpack(array[1:]).tolist() == [[4, 5, 6]]
    for export in (nd.to_dlpack_for_read, nd.to_dlpack_for_write):
        nd.from_dlpack(export(array))[:] = 3
        assert (array.asnumpy() == 3).all()


def test_dlpack_mistakes():
    capsule = nd.ones((2,)).to_dlpack_for_read()
    nd.from_dlpack(capsule)
    for wrong in (capsule, 3):
        with pytest.raises(AssertionError, match="consumed only once"):
            nd.from_dlpack(wrong)
    with pytest.raises(mx.MXNetError, match="contiguous memory"):
        nd.from_dlpack(np.ones((2, 3), np.float32).T)
    with pytest.raises(DTypeError, match="uint16"):
        nd.from_dlpack(np.ones((2,), np.uint16))
    fixed = np.ones((2,))
    fixed.flags.writeable = False
    with pytest.raises(mx.MXNetError, match="from_dlpack"):
        nd.from_dlpack(fixed)


def test_compiled_networks_see_external_writes_to_parameters():
    net = mx.gluon.nn.Dense(1, in_units=2, use_bias=False)
    net.initialize(mx.init.One())
    net.hybridize()
    x = nd.ones((1, 2))
    assert net(x).asscalar() == 2
    outside = nd.from_dlpack(net.weight.data())
    bound = net.bind(x)
    for value in (3.0, 4.0):
        np.asarray(outside)  # reading changes nothing
        outside._data[:] = value  # as another library does: past every counter
        assert net(x).asscalar() == 2 * value
        assert bound().asscalar() == 2 * value


def test_pickle_and_copies():
    array = nd.array([[1, 2], [3, 4]], dtype="int32", ctx=mx.cpu(1))
    for again in (pickle.loads(pickle.dumps(array[1])), copy.copy(array[1])):
        assert described(again) == described(array[1])
    deep = copy.deepcopy(array)
    deep[:] = 0
    assert array.asnumpy().sum() == 10


def test_arrays_that_mxnet_pickled():
    found = unpickled()
    assert found["a"].asnumpy().tolist() == [[1, 2.5]] and found["a"].dtype == np.float32
    assert found["b"][0].asnumpy().tolist() == [0, 1, 2] and found["b"][0].dtype == np.int64
    assert (found["a"] + 1).asnumpy().tolist() == [[2, 3.5]]
    with pytest.raises(ModelFormatError, match="3 are left"):
        nd.zeros((1,)).__setstate__({"handle": bytearray(b"abc")})


def test_hash_is_identity():
    a, b = nd.ones((1,)), nd.ones((1,))
    assert len({a, b, a}) == 2


# Storage: all writes are detected


WAYS_TO_WRITE = {
    "slice": lambda a: a.__setitem__(slice(None), 2),
    "element": lambda a: a.__setitem__((0, 0), 2),
    "advanced": lambda a: a.__setitem__([0], 2),
    "iadd": lambda a: a.__iadd__(1),
    "isub": lambda a: a.__isub__(a),
    "imul": lambda a: a.__imul__(2),
    "itruediv": lambda a: a.__itruediv__(2),
    "imod": lambda a: a.__imod__(2),
    "out of an operator": lambda a: nd.relu(nd.ones((2, 3)), out=a),
    "out of a sum": lambda a: nd.elemwise_add(a, a, out=a),
    "out of a creation": lambda a: nd.zeros((2, 3), out=a),
    "copyto": lambda a: nd.ones((2, 3)).copyto(a),
    "view by index": lambda a: a[0].__setitem__(slice(None), 1),
    "view by slice": lambda a: a[0:1].__iadd__(1),
    "view by reshape": lambda a: a.reshape((-1,)).__setitem__(0, 1),
    "view of a view": lambda a: a.reshape((3, 2))[1:].__imul__(2),
    "detached": lambda a: a.detach().__iadd__(1),
    "onehot_encode": lambda a: nd.onehot_encode(nd.array([0, 1]), a),
}


@pytest.mark.parametrize("write", WAYS_TO_WRITE.values(), ids=WAYS_TO_WRITE)
@pytest.mark.parametrize("watched", [False, True])
def test_every_write_is_counted(write, watched):
    array = nd.ones((2, 3))
    array._storage.watched = watched
    version, count = array._storage.version, WRITES.count
    write(array)
    assert array._storage.version > version
    assert (WRITES.count > count) is watched


@pytest.mark.parametrize(
    "read",
    [
        lambda a: a + 1,
        lambda a: a[0],
        lambda a: a.reshape((-1,)),
        lambda a: a.asnumpy(),
        lambda a: nd.relu(a),
        lambda a: a.copy().__iadd__(1),
        lambda a: a.T.__iadd__(1),
        lambda a: a[[0]].__iadd__(1),
        lambda a: repr(a),
    ],
)
def test_reading_counts_nothing(read):
    array = nd.ones((2, 3))
    array._storage.watched = True
    before = (array._storage.version, WRITES.count)
    read(array)
    assert (array._storage.version, WRITES.count) == before


def test_nothing_else_writes_to_an_arrays_memory():
    """In the whole package, only ``DenseArray._write`` assigns into ``_data``.

    Eviction takes it away and restores it: with the same values in it.
    """
    package = Path(mx.__file__).parent
    writers = []
    for text, path in ((path.read_text(), path) for path in package.rglob("*.py")):
        for function in ast.walk(ast.parse(text if "._data" in text else "")):
            if isinstance(function, ast.FunctionDef) and any(map(_writes_data, ast.walk(function))):
                writers.append((path.name, function.name))
    assert sorted(writers) == [("eviction.py", "_keep"), ("memory.py", "_write")]


def _writes_data(node):
    """``a._data = ...``, ``a._data[...] = ...``, ``a._data += ...`` or a NumPy ``out=a._data``."""
    if isinstance(node, ast.keyword):
        return node.arg == "out" and _is_data(node.value)
    if isinstance(node, ast.AugAssign):
        return _is_data(node.target)
    return isinstance(node, ast.Assign) and any(map(_is_data, node.targets))


def _is_data(node):
    """Whether this is ``x._data``, or a part of it; ``self._data`` alone makes an attribute."""
    whole = node
    while isinstance(node, ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Attribute) or node.attr != "_data":
        return False
    return whole is not node or not (isinstance(node.value, ast.Name) and node.value.id == "self")


def test_a_failed_write_changes_nothing():
    array = nd.ones((2, 3))
    before = array._storage.version
    for value in (nd.ones((4,)), "a"):
        with pytest.raises((ValueError, TypeError)):
            array[:] = value
    with pytest.raises(ShapeError):
        array += nd.ones((2, 2, 3))
    assert array._storage.version == before
    assert array.asnumpy().tolist() == [[1, 1, 1]] * 2


def test_which_parts_are_contiguous():
    """Programs ask by MXNet's private name."""
    slices = [slice(None), slice(2), slice(1, 3), slice(None, None, 2), slice(0, 1)]
    slices += [slice(None, None, -1), slice(3, None, -2), slice(20, None), slice(None, None, 20)]
    array = np.zeros((2, 3, 4))
    is_contiguous = nd.NDArray._basic_indexing_slice_is_contiguous
    for key in itertools.product(slices, repeat=3):
        assert is_contiguous(key, array.shape) == array[key].flags.c_contiguous, key
    with pytest.raises(AssertionError):
        is_contiguous(slices[:2], array.shape)


def test_views_share_storage():
    array = nd.ones((2, 3))
    for view in (array[0], array[0:1], array.reshape((6,)), array.detach(), array[1, 2]):
        assert view._storage is array._storage
        assert np.shares_memory(view._data, array._data)
    for other in (array[[0]], array.T, array.copy(), array[:, 0], nd.reshape(array, shape=(6,))):
        assert other._storage is not array._storage
        assert not np.shares_memory(other._data, array._data)


# Results own their memory


@pytest.mark.parametrize(
    "code",
    [
        "nd.identity(x)",
        "nd.reshape(x, shape=(-1,))",
        "x.flatten()",
        "x.expand_dims(0)",
        "x.squeeze()",
        "nd.slice_axis(x, axis=0, begin=0, end=1)",
        "x.slice((0, 0, 0), (1, 2, 3))",
        "nd.broadcast_to(nd.ones((1, 3)), shape=(2, 3))",
        "x.transpose()",
        "nd.BlockGrad(x)",
        "nd.Dropout(x)",
        "nd.Concat(x)",
        "x.split(num_outputs=2, axis=0)[0]",
        "x.astype('float32')",
        "nd.add_n(x)",
    ],
)
def test_results_own_their_memory(code):
    x = nd.ones((2, 3, 4))
    result = eval(code, {"nd": nd, "x": x})
    assert result._data.flags.c_contiguous and result._data.flags.writeable
    assert not np.shares_memory(result._data, x._data)


def test_results_stay_where_the_operands_are():
    x = nd.ones((2,), ctx=mx.cpu(1))
    assert [(x + 1).ctx, nd.relu(x).ctx, x[0].ctx, x.copy().ctx] == [mx.cpu(1)] * 4
    with mx.cpu(2):
        assert nd.zeros((1,)).ctx == mx.cpu(2)
        assert nd.random.uniform(shape=(2,)).ctx == mx.cpu(2)
    assert nd.random.uniform(shape=(2,), ctx=mx.cpu(3)).ctx == mx.cpu(3)
    with pytest.raises(mx.MXNetError, match="not implemented for GPU"):
        nd.random.uniform(shape=(2,), ctx=mx.gpu())


# Errors


def test_repr_shows_values_shape_and_context():
    assert repr(nd.array([[1, 2]])) == "\n[[1. 2.]]\n<NDArray 1x2 @cpu(0)>"


def test_errors_name_operator_operands_and_line():
    with pytest.raises(ShapeError) as info:
        nd.ones((2, 3)) + nd.ones((2,))
    text = str(info.value)
    assert "broadcast_add" in text
    assert "f32[2,3]" in text and "f32[2]" in text
    assert "test_ndarray.py:" in text
    assert "in test_errors_name_operator_operands_and_line" in text


def test_the_same_mistake_twice_fails_twice():
    for _ in range(2):
        with pytest.raises(DTypeError):
            nd.ones((2,)) + nd.ones((2,), dtype="int32")
        with pytest.raises(AttributeValueError):
            nd.clip(nd.ones((2,)), 0)


def test_cached_calls_distinguish_attributes():
    x = nd.array([-1.0, 1.0])
    assert np.signbit((x * 0.0).asnumpy()).tolist() == [True, False]
    assert np.signbit((x * -0.0).asnumpy()).tolist() == [False, True]
    assert (x + 1).asnumpy().tolist() == [0, 2]
    assert (x + 2).asnumpy().tolist() == [1, 3]
    with pytest.raises(AttributeValueError):
        nd.sum(nd.ones((1, 2)), axis=1.0)


def test_an_array_is_no_attribute():
    with pytest.raises(TypeError, match="'a_min'"):
        nd.clip(nd.ones((2,)), nd.zeros((1,)), 1)


# Training mode


def test_dropout_drops_in_training_mode_only():
    x = nd.ones((1000,))
    for scope in (autograd.record, autograd.train_mode):
        with scope():
            assert set(np.unique(nd.Dropout(x, p=0.5).asnumpy())) == {0.0, 2.0}
            with autograd.predict_mode():
                assert nd.Dropout(x, p=0.5).asnumpy().min() == 1
    with autograd.record(train_mode=False):
        assert nd.Dropout(x, p=0.5).asnumpy().min() == 1
    assert nd.Dropout(x, p=0.5).asnumpy().min() == 1


@pytest.mark.parametrize("axis", [1, -1])
def test_batchnorm_uses_the_batch_in_training_mode(axis):
    data = np.random.default_rng(0).normal(3, 2, (4, 5, 5)).astype(np.float32)
    gamma, beta, mean, var = nd.full((5,), 2), nd.ones((5,)), nd.zeros((5,)), nd.ones((5,))
    operands = (nd.array(data), gamma, beta, mean, var)
    attrs = {"fix_gamma": False, "axis": axis, "eps": 1e-3}
    others = (0, 2) if axis == 1 else (0, 1)
    center, spread = data.mean(others, keepdims=True), data.var(others, keepdims=True)
    expected = (data - center) / np.sqrt(spread + 1e-3) * 2 + 1
    with autograd.train_mode():
        result = nd.BatchNorm(*operands, **attrs).asnumpy()
        stored = nd.BatchNorm(*operands, use_global_stats=True, **attrs).asnumpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(stored, nd.BatchNorm(*operands, **attrs).asnumpy())
    assert mean.asnumpy().tolist() == [0] * 5  # as in MXNet, the forward pass moves nothing


def test_record_and_pause_set_the_flags():
    assert (autograd.is_recording(), autograd.is_training()) == (False, False)
    with autograd.record():
        assert (autograd.is_recording(), autograd.is_training()) == (True, True)
        with autograd.pause():
            assert (autograd.is_recording(), autograd.is_training()) == (False, False)
        with autograd.predict_mode():
            assert (autograd.is_recording(), autograd.is_training()) == (True, False)
    assert autograd.set_training(True) is False
    assert autograd.set_training(False) is True


# Random


def test_seed_repeats():
    draws = []
    for number in (7, np.int64(7)):
        mx.random.seed(number)
        draws.append([nd.random.normal(shape=(3,)).asnumpy(), mx.random.uniform(shape=2).asnumpy()])
    for a, b in zip(*draws):
        assert a.tolist() == b.tolist()
    with pytest.raises(ValueError, match="must be int"):
        mx.random.seed("a")


def test_random_into_an_array():
    array = nd.zeros((2, 3))
    assert nd.random.uniform(1, 2, out=array) is array
    assert array.asnumpy().min() >= 1


def test_random_arrays_follow_their_distributions():
    mx.random.seed(0)
    assert abs(nd.random.normal(5, 2, shape=(20000,)).asnumpy().std() - 2) < 0.05
    assert abs(nd.random.exponential(3, shape=(20000,)).asnumpy().mean() - 3) < 0.1
    assert set(np.unique(nd.random.randint(0, 3, shape=(100,)).asnumpy())) == {0, 1, 2}
    rows = nd.random.uniform(nd.array([0, 10]), nd.array([1, 20]), shape=100).asnumpy()
    assert rows.shape == (2, 100)
    assert rows[0].max() <= 1 and rows[1].min() >= 10
    with pytest.raises(AssertionError, match="must all have the same type"):
        nd.random.uniform(nd.array([0]), 1)


# Control flow


def test_while_loop_pads_its_outputs():
    outputs, final = nd.contrib.while_loop(
        lambda i, total: i < 3,
        lambda i, total: (total, (i + 1, total + i)),
        (nd.zeros((1,)), nd.zeros((1,))),
        max_iterations=5,
    )
    assert outputs.asnumpy().tolist() == [[0], [0], [1], [0], [0]]
    assert [v.asscalar() for v in final] == [3, 3]
    with pytest.raises(ValueError, match="max_iterations"):
        nd.contrib.while_loop(lambda i: False, lambda i: (i, i), nd.zeros((1,)))


def test_special_values():
    x = nd.array([1, np.nan, np.inf, -np.inf])
    assert nd.contrib.isnan(x).asnumpy().tolist() == [0, 1, 0, 0]
    assert nd.contrib.isinf(x).asnumpy().tolist() == [0, 0, 1, 1]
    assert nd.contrib.isfinite(x).asnumpy().tolist() == [1, 0, 0, 0]


def test_rand_zipfian():
    drawn, true, sampled = nd.contrib.rand_zipfian(nd.array([0, 5]), 50, 100)
    assert drawn.shape == (50,) and drawn.asnumpy().max() < 100
    assert true.asnumpy()[0] == pytest.approx(50 * np.log(2) / np.log(101), rel=1e-6)
    assert sampled.shape == (50,)
    symbols = mx.sym.contrib.rand_zipfian(mx.sym.var("classes"), 50, 100)
    mx.random.seed(3)
    found = mx.sym.Group(symbols).eval(classes=nd.array([0, 5]))
    mx.random.seed(3)
    for mine, theirs in zip(found, nd.contrib.rand_zipfian(nd.array([0, 5]), 50, 100)):
        np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy())


def test_unknown_storage_types_raise():
    with pytest.raises(ValueError, match="unknown storage type"):
        nd.zeros((2, 2), stype="sparse")


def test_slice_assign_writes_in_place():
    array = nd.zeros((3, 4))
    assert array.slice_assign(nd.ones((1, 2)), (1, 0), (2, 4), (1, 2)) is array
    array.slice_assign_scalar(5, (2, 3), (3, 4), None)
    assert array.asnumpy().tolist() == [[0] * 4, [1, 0, 1, 0], [0, 0, 0, 5]]


def test_reshape_to_fewer_elements_takes_the_first():
    """As MXNet 1.9.1 answered; the method of arrays refuses it there too."""
    x = nd.arange(6)
    for shape, expected in (
        ((2, 2), [[0, 1], [2, 3]]),
        ((-1, 4), [[0, 1, 2, 3]]),
        ((2, 2, -1), [[[0], [1]], [[2], [3]]]),
        ((1,), [0]),
    ):
        assert nd.reshape(x, shape=shape).asnumpy().tolist() == expected
        symbol = mx.sym.reshape(mx.sym.var("x"), shape=shape)
        assert symbol.bind(mx.cpu(), {"x": x}).forward()[0].asnumpy().tolist() == expected
        with pytest.raises(ValueError):
            x.reshape(shape)
    for shape in ((7,), (7, -1), (3, 3)):
        with pytest.raises(ShapeError):
            nd.reshape(x, shape=shape)


def test_multi_all_finite():
    """As MXNet 1.9.1 answered."""
    fine, infinite = nd.array([1, 2]), nd.array([3, np.inf])
    assert nd.multi_all_finite(fine, fine, num_arrays=2).asnumpy().tolist() == [1]
    assert nd.multi_all_finite(fine, infinite, num_arrays=2).asnumpy().tolist() == [0]
    assert nd.multi_all_finite(fine).asnumpy().tolist() == [1]
    named = mx.sym.multi_all_finite(num_arrays=2, name="q")
    assert named.list_arguments() == ["q_array_0", "q_array_1"]
    for arrays in ([fine, fine.astype("float16")], [fine.astype("int32")] * 2):
        with pytest.raises(DTypeError):
            nd.multi_all_finite(*arrays, num_arrays=2)

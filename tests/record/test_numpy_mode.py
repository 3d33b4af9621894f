"""NumPy mode: programs and graphs that MXNet recorded, and the switches, arrays and blocks."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import pickle
import threading
import zipfile
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as onp
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, np, npx
from hybridjit.errors import MXNetError

FIXTURE = Path(__file__).parent.parent / "fixtures" / "numpy_mode.zip"
REASONS = FIXTURE.with_suffix(".txt")
TOLERANCE = {"float16": (1e-2, 1e-2), "float32": (1e-4, 2e-5), "float64": (1e-6, 1e-7)}
CHUNK = 40  # programs in one test


@pytest.fixture(autouse=True)
def numpy_mode():
    npx.set_np()
    yield
    npx.reset_np()


@cache
def stored(name: str) -> Any:
    with zipfile.ZipFile(FIXTURE) as archive:
        return json.loads(archive.read(name))


def exceptions() -> set[str]:
    """Names of the programs and graphs whose results differ on purpose."""
    lines = REASONS.read_text(encoding="utf-8").splitlines()
    rows = [line.split(":")[0] for line in lines if line and not line.startswith("#")]
    return {name for row in rows for name in row.split()}


PROGRAMS = stored("programs.json")["programs"]
GRAPHS = stored("graphs.json")
EXCEPTIONS = exceptions()


# ---- programs -----------------------------------------------------------------------------------


def encoded(value: Any) -> Any:
    """A value in the form of the fixture: its kind, element type, shape and elements."""
    if value is None or (
        isinstance(value, (bool, int, float, str)) and not isinstance(value, onp.generic)
    ):
        return value
    if isinstance(value, mx.nd.NDArray):
        kind = "np" if isinstance(value, np.ndarray) else "nd"
        return described(kind, value.asnumpy())
    if isinstance(value, onp.ndarray):
        return described("onp", value)
    if isinstance(value, onp.generic):
        return described("scalar", onp.asarray(value))
    if isinstance(value, onp.dtype) or (isinstance(value, type) and issubclass(value, onp.generic)):
        return {"k": "dtype", "v": onp.dtype(value).name}
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {"k": kind, "v": [encoded(item) for item in value]}
    if isinstance(value, dict):
        return {"k": "dict", "v": [[encoded(k), encoded(v)] for k, v in value.items()]}
    if isinstance(value, type):
        return {"k": "class", "v": value.__name__}
    return {"k": "object", "v": type(value).__name__}


def described(kind: str, array: onp.ndarray) -> dict[str, Any]:
    flat = array.ravel().tolist()
    return {"k": kind, "dtype": str(array.dtype), "shape": list(array.shape), "v": flat}


def agrees(want: Any, got: Any) -> bool:
    if isinstance(want, dict) and isinstance(got, dict):
        if want.get("k") != got.get("k"):
            return False
        if "dtype" not in want:
            return agrees(want["v"], got["v"])
        if (want["dtype"], want["shape"]) != (got["dtype"], got["shape"]):
            return False
        wanted, found = onp.array(want["v"], "f8"), onp.array(got["v"], "f8")
        rtol, atol = TOLERANCE.get(want["dtype"], (0, 0))
        finite = wanted[onp.isfinite(wanted)]
        scale = max(1.0, float(onp.abs(finite).max(initial=0)))
        return onp.allclose(wanted, found, rtol, atol * scale, equal_nan=True)
    if isinstance(want, list) and isinstance(got, list):
        return len(want) == len(got) and all(map(agrees, want, got))
    if type(want) is float and type(got) is float:
        return bool(onp.isclose(want, got, 1e-4, 1e-5, equal_nan=True))
    return type(want) is type(got) and want == got


def result_of(program: str, prelude: str) -> Any:
    """The value of the last line, or the classes of the exception that ended the program."""
    names = {"mx": mx, "np": np, "npx": npx, "onp": onp, "autograd": autograd, "gluon": gluon}
    npx.set_np()
    mx.random.seed(7)
    onp.random.seed(7)
    tree = ast.parse(program)
    last = tree.body.pop()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(prelude, names)
            exec(compile(tree, "<program>", "exec"), names)
            return encoded(eval(compile(ast.Expression(last.value), "<program>", "eval"), names))
    except Exception as error:
        return {"raises": [kind.__name__ for kind in type(error).__mro__]}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(0, len(PROGRAMS), CHUNK))
def test_programs_give_mxnets_results(start):
    prelude = stored("programs.json")["prelude"]
    wrong = []
    for name, program, want in PROGRAMS[start : start + CHUNK]:
        got = result_of(program, prelude)
        if isinstance(want, dict) and "raises" in want:
            is_right = isinstance(got, dict) and want["raises"] in got.get("raises", ())
        else:
            is_right = not (isinstance(got, dict) and "raises" in got) and agrees(want, got)
        if is_right is (name in EXCEPTIONS):
            wrong.append((name, program, want, got))
    assert not wrong, "differs, or agrees although it is listed as an exception"


def test_every_exception_is_a_recorded_program_or_graph():
    names = {program[0] for program in PROGRAMS} | {case["name"] for case in GRAPHS}
    assert names >= EXCEPTIONS


# ---- graphs -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    with zipfile.ZipFile(FIXTURE) as archive:
        archive.extractall(folder)
    return folder


def assert_same(want: onp.ndarray, got: Any, what: str) -> None:
    found = got.asnumpy()
    assert (want.dtype, want.shape) == (found.dtype, found.shape), what
    scale = max(1.0, float(onp.abs(want[onp.isfinite(want)]).max(initial=0)))
    tight = want.dtype.kind != "f"
    onp.testing.assert_allclose(
        found, want, rtol=0 if tight else 1e-3, atol=0 if tight else 1e-4 * scale, err_msg=what
    )


def flat(results: Any) -> list[Any]:
    return [y for item in results for y in flat(item)] if isinstance(results, list) else [results]


@pytest.mark.parametrize("case", GRAPHS, ids=lambda case: case["name"])
def test_graphs_give_mxnets_results(case, graphs):
    base = str(graphs / case["name"])
    data = onp.load(base + "-io.npz")
    inputs = [np.array(data["x_" + n], dtype=data["x_" + n].dtype) for n in case["inputs"]]
    for hybrid in (False, True):
        net = gluon.SymbolBlock.imports(
            base + "-symbol.json", case["inputs"], base + "-0000.params"
        )
        net.hybridize(hybrid)
        results = flat(net(*inputs))
        assert len(results) == case["outputs"]
        for i, y in enumerate(results):
            assert type(y) is np.ndarray
            assert_same(data[f"y{i}"], y, f"y{i}")
    if case["gradients"] and case["name"] in EXCEPTIONS:
        with pytest.raises(AssertionError):
            check_gradients(case, net, inputs, data)
    elif case["gradients"]:
        check_gradients(case, net, inputs, data)


def check_gradients(case, net, inputs, data):
    for name, x in zip(case["inputs"], inputs):
        if "d_" + name in data:
            x.attach_grad()
    with autograd.record():
        heads = [y for y in flat(net(*inputs)) if onp.dtype(y.dtype).kind == "f"]
    given = [np.array(data[f"h{i}"], dtype=data[f"h{i}"].dtype) for i in range(len(heads))]
    autograd.backward(heads, given)
    for name, x in zip(case["inputs"], inputs):
        if "d_" + name in data:
            assert_same(data["d_" + name], x.grad, name)
    params = net.collect_params()
    for key in data.files:
        if key[:2] == "p_":
            assert_same(data[key], params[key[2:]].grad(), key)
        elif key[:2] == "a_":
            assert_same(data[key], params[key[2:]].data(), key)


# ---- switches -----------------------------------------------------------------------------------


def test_a_new_thread_has_both_switches_off():
    seen = []
    thread = threading.Thread(target=lambda: seen.append((npx.is_np_array(), npx.is_np_shape())))
    thread.start()
    thread.join()
    assert seen == [(False, False)] and npx.is_np_array() and npx.is_np_shape()


def test_a_decorated_class_runs_in_numpy_mode():
    npx.reset_np()

    @mx.util.use_np
    class Double(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.np.add(x, x)

    net = Double()
    for active in (False, True):
        net.hybridize(active)
        assert type(net(np.ones((2, 3)))) is np.ndarray
    assert not npx.is_np_array()


def test_workers_of_a_loader_make_arrays_of_the_loaders_mode():
    data = gluon.data.ArrayDataset(np.ones((6, 2)), np.arange(6))
    for threads in (False, True):
        loader = gluon.data.DataLoader(data, 3, num_workers=1, thread_pool=threads)
        assert all(type(part) is np.ndarray for batch in loader for part in batch)


# ---- arrays -------------------------------------------------------------------------------------


def test_both_kinds_share_memory_and_a_recorded_graph():
    x = np.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = mx.nd.exp((x * 2).as_nd_ndarray()).as_np_ndarray().sum()
    y.backward()
    assert type(x.grad) is np.ndarray
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 * onp.exp(2 * onp.ones((2, 3))), rtol=1e-6)
    classic = x.as_nd_ndarray()
    classic[0, 0] = 7
    assert x[0, 0].item() == 7


def test_kinds_do_not_mix():
    for mixed in (lambda: np.ones(3) + mx.nd.ones((3,)), lambda: np.add(mx.nd.ones((3,)), 1)):
        with pytest.raises(TypeError):
            mixed()


def test_assignment_out_of_range_raises():
    x = np.zeros((2, 3))
    with pytest.raises(IndexError):
        x[np.array([0, 5], dtype="int32")] = 1
    assert x.sum().item() == 0


def test_several_values_do_not_fit_one_element():
    """Of a scalar, as in official NumPy; arrays with axes raise MXNetError."""
    for key in ((), ..., slice(None)):
        with pytest.raises(ValueError, match=r"shape \(3\) are not broadcastable .* shape \(\)"):
            np.array(1.0)[key] = np.ones(3)
    with pytest.raises(MXNetError, match=r"shape \(3\) are not broadcastable .* shape \(\)"):
        np.ones(2)[0] = np.ones(3)


@pytest.mark.parametrize("number", [onp.float32(2), onp.float64(2), onp.int64(2)])
def test_official_numbers_on_either_side(number):
    """The greatest of a list of arrays is an official number, which programs compare on."""
    x = np.array([1.0, 2.0, 3.0])
    assert (number < x).tolist() == (x > number).tolist() == [False, False, True]
    assert (x // number).dtype == (number // x).dtype == onp.float32
    assert max(onp.max([x[0], x[1]]), x[2]) == 3
    assert (number + x).tolist() == [3, 4, 5] and (number - x).tolist() == [1, 0, -1]


def test_questions_are_written_to_arrays_of_bools():
    out = np.zeros(2, dtype="bool")
    assert np.isnan(np.array([1.0, onp.nan]), out=out) is out and out.tolist() == [False, True]
    for function in (np.isnan, np.logical_not):
        with pytest.raises(TypeError, match="result of .* is bool, but out is float32"):
            function(np.ones(2), out=np.ones(2))


def test_zero_dim_arrays_are_assigned_by_masks():
    x = np.array(1.0)
    x[np.array(True, dtype="bool")] = 4
    assert x.item() == 4 and np.nonzero(x)[0].tolist() == [0]


def test_sums_of_narrow_types_are_rounded_and_wrap_as_in_mxnet():
    x = onp.tile(onp.array([0.1, -3.3, 7.7, 1.234, 99.7], "float16"), 12)
    assert (np.cumsum(np.array(x)).asnumpy() == onp.cumsum(x)).all()
    whole = np.array([-34, -113], dtype="int8")
    assert (np.mean(whole, dtype="int8").item(), np.mean(whole, dtype="int32").item()) == (54, -73)
    two, minus = np.array([2], dtype="int32"), np.array([-1], dtype="int32")
    assert np.ldexp(two, minus).tolist() == [1]


def test_delete_leaves_out_positions_that_there_are_not():
    places = np.array([0, 0, 7, -1], dtype="int32")
    assert np.delete(np.arange(3), places).tolist() == [1, 2]


@pytest.mark.parametrize("shape", [(), (0,), (2,), (3, 4)])
def test_resize_repeats_in_both_ways(shape):
    net = gluon.nn.HybridLambda(lambda F, x: F.np.resize(x, shape))
    for x in (np.zeros((2, 0)), np.arange(5), np.array(3.0)):
        for active in (False, True):
            net.hybridize(active)
            assert (net(x).asnumpy() == onp.resize(x.asnumpy(), shape)).all()


def test_empty_operands_leave_the_gradients_of_others():
    x = np.arange(3)
    x.attach_grad()
    with autograd.record():
        y = np.ediff1d(x, to_begin=np.zeros((5, 0)))
    y.backward()
    assert x.grad.tolist() == [-1, 0, 1]


@pytest.mark.parametrize(
    "name", ["triu", "exp2", "median", "cumprod", "sinc", "nansum", "nanmean", "conj"]
)
def test_later_functions_of_one_array(name):
    x = onp.random.RandomState(3).normal(size=(4, 5)).astype("float32")
    found = getattr(np, name)(np.array(x))
    onp.testing.assert_allclose(onp.array(found), getattr(onp, name)(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["fmax", "fmin", "logical_and", "logical_or", "logical_xor", "floor_divide", "fmod"]
)
def test_later_functions_of_two_arrays(name):
    x, y = onp.float32([1.5, onp.nan, 0, -3]), onp.float32([0.5, 2, onp.nan, 0.75])
    found, wanted = getattr(np, name)(np.array(x), np.array(y)), getattr(onp, name)(x, y)
    onp.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-6)
    assert found.dtype == wanted.dtype


def test_masked_softmax_gives_the_same_in_both_ways():
    data, mask = np.array([[1.0, 2.0, 3.0]]), np.array([[1, 0, 1]], dtype="bool")
    net = gluon.nn.HybridLambda(
        lambda F, x, m: (F.npx.masked_softmax(x, m), F.npx.masked_log_softmax(x, m))
    )
    wanted = onp.exp([1.0, 3.0]) / onp.exp([1.0, 3.0]).sum()
    for active in (False, True):
        net.hybridize(active)
        soft, log = net(data, mask)
        onp.testing.assert_allclose(soft.asnumpy()[0, [0, 2]], wanted, rtol=1e-5)
        onp.testing.assert_allclose(log.asnumpy()[0, [0, 2]], onp.log(wanted), rtol=1e-5)
        assert soft.asnumpy()[0, 1] == 0 and log.asnumpy()[0, 1] == -onp.inf


@pytest.mark.parametrize("wanted, name", [([[0, 3, 0], [0, 0, 3]], "index_add"),
                                          ([[0, 2, 0], [0, 0, 3]], "index_update")])  # fmt: skip
def test_values_at_index_vectors_have_gradients_in_both_ways(wanted, name):
    places = np.array([[0, 0, 1], [1, 1, 2]], dtype="int32")
    net = gluon.nn.HybridLambda(lambda F, *args: getattr(F.npx, name)(*args))
    for active in (False, True):
        net.hybridize(active)
        data, values = np.zeros((2, 3)), np.array([1.0, 2.0, 3.0])
        data.attach_grad()
        values.attach_grad()
        with autograd.record():
            made = net(data, places, values)
        made.backward(np.arange(6).reshape(2, 3))
        kept = data.grad.tolist()
        assert made.tolist() == wanted and values.grad.tolist() == [1, 1, 5]
        assert kept == ([[0, 1, 2], [3, 4, 5]] if name == "index_add" else [[0, 0, 2], [3, 4, 0]])
        with pytest.raises(IndexError, match="index 2 is out of bounds for axis 0 with size 2"):
            net(data, np.array([[2], [0]], dtype="int32"), values[:1])


def test_savez_writes_numpys_archive_which_load_and_blocks_read(tmp_path):
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    path = str(tmp_path / "net.params")
    npx.savez(path, weight=net.weight.data(), bias=np.array([1.0, 2.0]))
    assert set(onp.load(path).files) == {"weight", "bias"}
    found = npx.load(path)
    assert type(found["bias"]) is np.ndarray and found["bias"].tolist() == [1, 2]
    net.load_parameters(path)
    assert net.bias.data().tolist() == [1, 2]
    npx.savez(path, np.array(3.0), np.zeros((0, 2)))
    first, second = npx.load(path).values()
    assert first.shape == () and second.shape == (0, 2)


def test_savez_refuses_other_data_and_a_name_twice(tmp_path):
    with pytest.raises(TypeError, match="only arrays of NumPy mode"):
        npx.savez(str(tmp_path / "a"), mx.nd.ones((2,)))
    with pytest.raises(ValueError, match="arr_0 is given by position and by name"):
        npx.savez(str(tmp_path / "a"), np.ones(2), arr_0=np.ones(2))


def npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize("save, says", [
    (lambda path: onp.savez_compressed(path, a=onp.zeros(9999)), "compressed"),
    (lambda path: onp.savez(path, a=onp.array([{}], object)), "element type object"),
    (lambda path: onp.savez(path, a=onp.zeros(2, complex)), "element type complex128"),
    (lambda path: path.write(b"PK\x03\x04 and no archive"), "not a zip file"),
    (lambda path: path.write(npy(b"[" * 5000)), "Invalid .npz or .npy file"),
    (lambda path: path.write(b"\x93NUMPY\x01\x00 cut"), "reading array header"),
])  # fmt: skip
def test_files_of_numpy_that_hold_other_contents_are_refused(tmp_path, save, says):
    with open(tmp_path / "a.npz", "wb") as file:
        save(file)
    with pytest.raises(MXNetError, match=says):
        npx.load(str(tmp_path / "a.npz"))


def test_a_npy_file_with_more_elements_than_bytes_is_refused(tmp_path):
    onp.save(tmp_path / "a.npy", onp.zeros(4, "float32"))
    content = (tmp_path / "a.npy").read_bytes()
    for text in (content[:-1], content.replace(b"(4,)", b"(5,)")):
        (tmp_path / "a.npy").write_bytes(text)
        with pytest.raises(MXNetError, match="Invalid .npz or .npy file"):
            npx.load(str(tmp_path / "a.npy"))


def test_categorical_draws_indices_and_gives_their_logarithms():
    np.random.seed(3)
    odds = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    drawn, logs = npx.random.categorical(odds, shape=8, get_prob=True)
    assert drawn.dtype == onp.int32 and drawn.shape == logs.shape == (2, 8)
    assert set(drawn[0].tolist()) == {1} and set(drawn[1].tolist()) == {0, 2}
    onp.testing.assert_allclose(logs.asnumpy(), onp.log([[1.0] * 8, [0.5] * 8]), atol=1e-6)
    np.random.seed(3)
    assert npx.random.categorical(odds, shape=8).tolist() == drawn.tolist()


def test_official_permutation_and_shares_memory_take_arrays():
    x = np.array([3.0, 1.0, 2.0])
    assert sorted(onp.random.permutation(x).tolist()) == [1, 2, 3]
    assert not onp.may_share_memory(x, onp.ones(3)) and np.shares_memory(x, x[:2])


@pytest.mark.parametrize("make", [np.empty, mx.nd.empty])
def test_empty_refuses_negative_sizes(make):
    with pytest.raises(OverflowError, match="negative sizes"):
        make((2, -1))


def test_asarray_keeps_an_array_and_random_permutation_its_elements():
    x = np.arange(6)
    assert np.asarray(x) is x and np.asarray([1, 2]).dtype == onp.float32
    assert np.asarray(x, dtype="int32").dtype == onp.int32
    assert sorted(np.random.permutation(6).tolist()) == [0, 1, 2, 3, 4, 5]


def test_pad_writes_its_constant():
    padded = np.pad(np.zeros((1, 1)), ((1, 0), (0, 1)), constant_values=9)
    assert padded.tolist() == [[9, 9], [0, 9]]


@pytest.mark.parametrize("name, slope", [("var", [-2 / 3, 0, 2 / 3]), ("std", None)])
def test_gradients_of_std_and_var(name, slope):
    x = np.array([1.0, 2.0, 3.0])
    x.attach_grad()
    with autograd.record():
        y = getattr(np, name)(x)
    y.backward()
    wanted = slope or (onp.array([-1, 0, 1]) / 3 / onp.std([1, 2, 3])).tolist()
    onp.testing.assert_allclose(x.grad.asnumpy(), wanted, rtol=1e-5, atol=1e-6)


def test_pickles_keep_the_kind():
    for x in (np.array(2.5), np.zeros((0, 3)), np.array([True], dtype="bool")):
        copy = pickle.loads(pickle.dumps(x))
        assert type(copy) is np.ndarray and copy.dtype == x.dtype and copy.shape == x.shape


# ---- blocks -------------------------------------------------------------------------------------


class Network(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.dense = gluon.nn.Dense(4)

    def hybrid_forward(self, F, x):
        h = npx_relu(F, self.dense(x))
        mean = h.mean(axis=1, keepdims=True)
        return F.np.concatenate([h - mean, h[:, -1:] * 2], axis=1).sum(axis=0), (h > mean)


def npx_relu(F, x):
    return F.npx.relu(x)


def test_a_block_gives_the_same_eagerly_compiled_and_from_its_files(tmp_path):
    net, x = Network(), np.random.normal(size=(3, 5))
    net.initialize()
    eager = net(x)
    net.hybridize()
    compiled = net(x)
    net.export(str(tmp_path / "net"))
    text = (tmp_path / "net-symbol.json").read_text()
    assert "is_np_shape" in text and "_npi_subtract" in text and "_npi_greater" in text
    again = gluon.SymbolBlock.imports(
        str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
    )(x)
    for a, b, c in zip(eager, compiled, again):
        assert a.dtype == b.dtype == c.dtype and a.shape == b.shape == c.shape
        onp.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5, atol=1e-6)
        onp.testing.assert_allclose(a.asnumpy(), c.asnumpy(), rtol=1e-5, atol=1e-6)


def test_integers_beside_numbers_have_one_type_in_both_ways():
    net = gluon.nn.HybridLambda(lambda F, x: x * 0.5 + 2.9)
    x = np.array([3, 4], dtype="int32")
    eager = net(x)
    net.hybridize()
    assert eager.dtype == net(x).dtype == onp.int32 and eager.tolist() == net(x).tolist()


@pytest.mark.parametrize("cell", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells_take_arrays_of_numpy_mode(cell):
    net = getattr(gluon.rnn, cell)(2)
    net.initialize()
    out, states = net(np.ones((3, 4)), net.begin_state(batch_size=3))
    assert type(out) is np.ndarray and all(type(s) is np.ndarray for s in states)


def test_a_step_of_training_moves_parameters():
    net, loss = gluon.nn.Dense(1), gluon.loss.L2Loss()
    net.initialize()
    x, y = np.random.normal(size=(8, 3)), np.ones((8, 1))
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    losses = []
    for _ in range(20):
        with autograd.record():
            error = loss(net(x), y).mean()
        error.backward()
        trainer.step(1)
        losses.append(error.item())
    assert losses[-1] < losses[0] and type(net.weight.data()) is np.ndarray


def test_results_are_of_one_kind():
    net = gluon.nn.HybridLambda(lambda F, x: (x, x.as_nd_ndarray()))
    for active in (False, True):
        net.hybridize(active)
        with pytest.raises(TypeError):
            net(np.ones(3))


class Loops(gluon.HybridBlock):
    """A loop over rows, a loop with a condition and a branch."""

    def hybrid_forward(self, F, x):
        rows, total = F.npx.foreach(
            lambda row, state: (F.np.tanh(row) * state, state + row), x, F.np.zeros_like(x[0])
        )
        steps, (_, last) = F.npx.while_loop(
            lambda i, y: (i < 3).sum(), lambda i, y: (y * 2, [i + 1, F.np.sin(y)]),
            [F.np.zeros((1,)), total], 5,
        )  # fmt: skip
        chosen = F.npx.cond((total > 0).sum(), lambda: F.np.cos(last), lambda: last * 3)
        return rows, steps, last, chosen


def test_loops_and_branches_give_the_same_compiled_and_from_files(tmp_path):
    x, found = np.random.normal(size=(4, 3)), []
    for active in (False, True):
        net = Loops()
        net.hybridize(active)
        x.attach_grad()
        with autograd.record():
            made = net(x)
            total = sum(y.sum() for y in made)
        total.backward()
        assert all(type(y) is np.ndarray for y in made)
        found.append([y.asnumpy() for y in (*made, x.grad)])
    net.export(str(tmp_path / "net"))
    again = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], None)(x)
    for a, b in zip(*found):
        onp.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for a, b in zip(found[1], again):
        onp.testing.assert_allclose(a, b.asnumpy(), rtol=1e-5, atol=1e-6)


@mx.operator.register("numpy_mode_square")
class SquareProp(mx.operator.CustomOpProp):
    def list_arguments(self):
        return ["data"]

    def infer_shape(self, in_shape):
        return in_shape, in_shape, []

    def create_operator(self, ctx, shapes, dtypes):
        return Square()


class Square(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], np.square(in_data[0]))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], np.multiply(in_data[0], out_grad[0]) * 2)


@pytest.mark.parametrize("call", ["F.np._internal.Custom", "F.Custom"])
def test_custom_operators_get_arrays_of_numpy_mode(call):
    function = eval(f"lambda F, x: {call}(x, op_type='numpy_mode_square')")
    for active in (False, True):
        net = gluon.nn.HybridLambda(function)
        net.hybridize(active)
        x = np.array([1.0, -2.0])
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward()
        assert type(y) is np.ndarray and (y.tolist(), x.grad.tolist()) == ([1, 4], [2, -4])


def test_masks_and_positions_are_assigned_by_operators():
    x, mask, values = np.zeros((2, 3)), np.array([[1, 0, 1], [0, 1, 0]], dtype="bool"), np.ones(3)
    for array in (x, values):
        array.attach_grad()
    with autograd.record():
        y = np._internal.boolean_mask_assign_tensor(x, mask, values * 4, start_axis=0)
        y = y + np._internal.scatter_set_nd(x, values[:1], np.zeros((2, 1)), shape=(2, 3))
    y.backward()
    assert y.tolist() == [[5, 0, 4], [0, 4, 0]]
    assert (x.grad.tolist(), values.grad.tolist()) == ([[0, 2, 1], [2, 1, 2]], [5, 4, 4])


def test_pictures_are_arrays_of_the_threads_mode():
    picture = npx.image.imresize(np.zeros((8, 6, 3), dtype="uint8"), 4, 4)
    jitter = npx.image.ColorJitterAug(0.1, 0.1, 0.1)
    assert type(picture) is np.ndarray and type(jitter(picture.astype("float32"))) is np.ndarray
    assert npx.image.random_brightness(np.ones((4, 4, 3)), 0.5, 1.5).shape == (4, 4, 3)
    npx.reset_np()
    assert type(npx.image.HueJitterAug(0.1)(mx.nd.zeros((8, 6, 3)))) is mx.nd.NDArray


# ---- draws --------------------------------------------------------------------------------------

MOMENTS = {
    "uniform": ((1.0, 3.0), 2.0, 1 / 3),
    "normal": ((1.0, 2.0), 1.0, 4.0),
    "gamma": ((2.0, 3.0), 6.0, 18.0),
    "beta": ((2.0, 3.0), 0.4, 0.04),
    "exponential": ((2.0,), 2.0, 4.0),
    "gumbel": ((0.0, 1.0), 0.5772, 1.6449),
    "logistic": ((0.0, 1.0), 0.0, 3.2899),
    "rayleigh": ((2.0,), 2.5066, 1.7168),
    "weibull": ((2.0,), 0.8862, 0.2146),
    "power": ((3.0,), 0.75, 0.0375),
    "chisquare": ((3.0,), 3.0, 6.0),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments_of_draws(name):
    params, mean, variance = MOMENTS[name]
    mx.random.seed(5)
    draws = getattr(np.random, name)(*params, size=(40000,)).asnumpy().astype("float64")
    error = 5 * onp.sqrt(variance / draws.size)
    assert abs(draws.mean() - mean) < error and abs(draws.var() / variance - 1) < 0.1
    mx.random.seed(5)
    assert (getattr(np.random, name)(*params, size=(40000,)).asnumpy() == draws).all()


def test_wrong_arguments_name_the_rule():
    with pytest.raises(MXNetError, match="do not fill"):
        np.ones((2, 3)).reshape(4, 2)
    with pytest.raises(MXNetError, match="they must be equal"):
        np.dot(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(TypeError, match="not supported"):
        np.exp([1, 2])


def gamma_cdf(x: onp.ndarray, shape: int) -> onp.ndarray:
    """Distribution function of a gamma variable of whole shape."""
    terms = [onp.ones_like(x)]
    for k in range(1, shape):
        terms.append(terms[-1] * x / k)
    return 1 - onp.exp(-x) * sum(terms)


# Name -> arguments, distribution function.
LAWS = {
    "uniform": ((1.0, 3.0), lambda x: (x - 1) / 2),
    "normal": ((1.0, 2.0), lambda x: onp.vectorize(NormalDist(1, 2).cdf)(x)),
    "exponential": ((2.0,), lambda x: 1 - onp.exp(-x / 2)),
    "gumbel": ((0.5, 2.0), lambda x: onp.exp(-onp.exp(-(x - 0.5) / 2))),
    "logistic": ((0.5, 2.0), lambda x: 1 / (1 + onp.exp(-(x - 0.5) / 2))),
    "rayleigh": ((2.0,), lambda x: 1 - onp.exp(-(x**2) / 8)),
    "weibull": ((2.0,), lambda x: 1 - onp.exp(-(x**2))),
    "pareto": ((3.0,), lambda x: 1 - (1 + x) ** -3.0),
    "power": ((3.0,), lambda x: x**3),
    "gamma": ((3.0, 2.0), lambda x: gamma_cdf(x / 2, 3)),
    "chisquare": ((4.0,), lambda x: gamma_cdf(x / 2, 2)),
    "beta": ((2.0, 3.0), lambda x: x**2 * (6 - 8 * x + 3 * x**2)),
    "laplace": (
        (0.5, 2.0),
        lambda x: 0.5 + 0.5 * onp.sign(x - 0.5) * -onp.expm1(-abs(x - 0.5) / 2),
    ),
    "lognormal": ((0.5, 1.0), lambda x: onp.vectorize(NormalDist(0.5, 1).cdf)(onp.log(x))),
}


@pytest.mark.parametrize("name", LAWS)
def test_draws_follow_their_law(name):
    """Kolmogorov and Smirnov: 1.95 / sqrt(n) is exceeded by one seed in 1,000."""
    params, cdf = LAWS[name]
    mx.random.seed(11)
    draws = onp.sort(getattr(np.random, name)(*params, size=(4000,)).asnumpy().astype("float64"))
    steps = onp.arange(len(draws) + 1) / len(draws)
    right = cdf(draws)
    distance = max((steps[1:] - right).max(), (right - steps[:-1]).max())
    assert distance < 1.95 / len(draws) ** 0.5


class Attention(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.table = gluon.nn.Embedding(20, 8)
            self.query = gluon.nn.Dense(8, flatten=False)
            self.norm = gluon.nn.LayerNorm()
            self.out = gluon.nn.Dense(3)

    def hybrid_forward(self, F, x):
        e = self.table(x)
        weights = F.npx.softmax(F.np.matmul(self.query(e), F.np.swapaxes(e, 1, 2)) / 8**0.5)
        h = self.norm(F.np.einsum("bij,bjd->bid", weights, e) + e)
        h = F.np.where(h > 0, h, h * 0.1)
        return self.out(F.np.concatenate([h, F.np.tanh(h)], axis=-1)), F.np.std(h, axis=-1)


@pytest.fixture
def attention():
    net, x = Attention(), np.array(onp.arange(12).reshape(2, 6) % 20)
    net.initialize()
    eager = [y.asnumpy() for y in net(x.astype("float32"))]
    net.hybridize()
    return net, x.astype("float32"), eager


def test_onnx_files_hold_networks_of_numpy_mode(attention, tmp_path):
    net, x, eager = attention
    net(x)
    net.export_onnx(str(tmp_path / "net.onnx"), x)
    for a, b in zip(mx.onnx.load(str(tmp_path / "net.onnx"))(x), eager):
        assert type(a) is np.ndarray
        onp.testing.assert_allclose(a.asnumpy(), b, rtol=1e-5, atol=1e-5)


def test_tools_take_networks_of_numpy_mode(attention, tmp_path):
    net, x, eager = attention
    assert "agrees" in str(net.verify(x))
    assert mx.view(net, x, path=str(tmp_path / "net.html")) is not None
    net.hybridize(precision="bfloat16")
    for a, b in zip(net(x), eager):
        onp.testing.assert_allclose(a.asnumpy(), b, atol=0.05 * abs(b).max())


def test_a_step_of_training_in_one_call_takes_arrays_of_numpy_mode(attention):
    x = attention[1]
    first = gluon.nn.HybridSequential()
    first.add(gluon.nn.Dense(4), gluon.nn.HybridLambda(lambda F, y: y * 2))
    first.initialize()
    trainer = gluon.Trainer(first.collect_params(), "adam", {"learning_rate": 0.05})
    step = mx.train_step(first, gluon.loss.L2Loss(), trainer)
    losses = [step(x, np.ones((2, 4))) for _ in range(8)]
    assert type(losses[0]) is np.ndarray
    assert losses[-1].mean().item() < losses[0].mean().item()


@pytest.mark.parametrize(
    ("call", "dtype", "values"),
    [
        (lambda: abs(np.array([-1.5, 2])), "float32", [1.5, 2]),
        (lambda: abs(np.array([-1, 2], dtype="int8")), "int8", [1, 2]),
        (lambda: np.sum(np.array([0.6, 0.6]), dtype="int32"), "int32", 1),
        (lambda: np.prod(np.array([1.6, 1.6]), dtype="int64"), "int64", 2),
        (lambda: np.bincount(np.array([1, 2, 2], dtype="uint8")), "uint8", [0, 1, 2]),
        (lambda: np.einsum("ij->j", np.ones((2, 2), dtype="float16")), "float16", [2, 2]),
        (lambda: np.linalg.eigvalsh(np.array([[2, 0], [0, 3]], dtype="int32")), "float64", [2, 3]),
        (lambda: np.hsplit(np.array([[1, 2, 3]]), 2)[0], "float32", [[1, 2]]),
    ],
)
def test_results_of_integers_and_of_unequal_parts_are_mxnets(call, dtype, values):
    found = call()
    assert found.dtype == onp.dtype(dtype)
    assert found.tolist() == values


@pytest.mark.parametrize("make", [np.array, mx.nd.array])
@pytest.mark.parametrize("dtype", [None, "float64"])
def test_a_recorded_copy_by_array_passes_the_gradient(make, dtype):
    x = make([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = make(x, dtype=dtype) * 3
    y.backward()
    assert y.dtype == onp.dtype(dtype or "float32")
    assert x.grad.asnumpy().tolist() == [3, 3]


def test_element_types_are_official_numpys_objects():
    x = np.ones(2, dtype="int8")
    assert isinstance(x.dtype, onp.dtype)
    assert (x.dtype, x.dtype.name, x.dtype.itemsize) == ("int8", "int8", 1)
    assert x.as_nd_ndarray().dtype is onp.int8


@pytest.mark.parametrize(
    ("number", "equal", "more"),
    [
        (0, [False, True], [True, False]),
        (0.5, [True, False], [False, False]),
        (2, [True, False], [False, False]),
    ],
)
def test_a_number_beside_bools_is_compared_by_its_truth(number, equal, more):
    x = np.array([True, False], dtype="bool")

    class Both(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x == number, x > number

    net = Both()
    for hybridized in (False, True):
        net.hybridize(hybridized)
        assert [y.tolist() for y in net(x)] == [equal, more]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_a_zero_dim_array_has_the_gradient_0(name):
    x = np.array(2.0)
    x.attach_grad()
    with autograd.record():
        y = getattr(npx, name)(x, axis=-1)
    y.backward()
    assert (y.item(), x.grad.item()) == (1 if name == "softmax" else 0, 0)
    with pytest.raises(MXNetError, match="at least one axis"):
        npx.softmax(x, np.array(1, dtype="int32"), use_length=True)

"""Compiled code of eager calls: NumPy's numbers, bits that do not depend on earlier calls."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import NoReturn

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, nd
from hybridjit._core.types import FLOAT32, TensorType
from hybridjit.errors import InternalError, MXNetError, ShapeError
from hybridjit.nd import eager_code
from hybridjit.ops import native
from hybridjit.ops.registry import lookup
from hybridjit.runtime.executable import EXECUTABLES
from patience import PATIENCE

Call = Callable[..., nd.NDArray]


def draw(*shape: int, seed: int = 0) -> nd.NDArray:
    return nd.array(np.random.default_rng(seed).standard_normal(shape), dtype="float32")


def conv(**attrs: object) -> Call:
    return lambda *arrays: nd.Convolution(*arrays, no_bias=len(arrays) == 2, **attrs)


def batch_norm(x: nd.NDArray, gamma: nd.NDArray, beta: nd.NDArray) -> nd.NDArray:
    return nd.BatchNorm(x, gamma, beta, nd.zeros(8), nd.ones(8), fix_gamma=False)


def lstm(*arrays: nd.NDArray) -> nd.NDArray:
    return nd.RNN(*arrays, mode="lstm", state_size=32, num_layers=1)


# One call of each kind of kernel, with the shapes of its operands.
CASES: dict[str, tuple[Call, list[tuple[int, ...]]]] = {
    "conv": (conv(kernel=(3, 3), pad=(1, 1), num_filter=8), [(2, 4, 32, 32), (8, 4, 3, 3), (8,)]),
    "conv1d": (conv(kernel=(3,), num_filter=8), [(2, 4, 2100), (8, 4, 3)]),
    "conv3d": (conv(kernel=(2, 2, 2), num_filter=4), [(1, 3, 18, 18, 18), (4, 3, 2, 2, 2)]),
    "depthwise": (
        conv(kernel=(3, 3), num_filter=8, num_group=8),
        [(1, 8, 50, 50), (8, 1, 3, 3)],
    ),
    "dilated": (conv(kernel=(3, 3), dilate=(2, 2), num_filter=4), [(1, 4, 70, 70), (4, 4, 3, 3)]),
    "deconv": (
        lambda x, w: nd.Deconvolution(x, w, kernel=(4, 4), stride=(2, 2), num_filter=4),
        [(1, 4, 40, 40), (4, 4, 4, 4)],
    ),
    "max pool": (lambda x: nd.Pooling(x, kernel=(3, 3), stride=(2, 2)), [(1, 8, 50, 50)]),
    "mean pool": (
        lambda x: nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg"),
        [(1, 8, 50, 50)],
    ),
    "softmax": (nd.softmax, [(64, 300)]),
    "log_softmax": (nd.log_softmax, [(64, 300)]),
    "LayerNorm": (nd.LayerNorm, [(64, 300), (300,), (300,)]),
    "BatchNorm": (batch_norm, [(2, 8, 40, 40), (8,), (8,)]),
    "gelu": (lambda x: nd.LeakyReLU(x, act_type="gelu"), [(64, 300)]),
    "elu": (lambda x: nd.LeakyReLU(x, act_type="elu"), [(64, 300)]),
    "relu": (nd.relu, [(64, 300)]),
    "dense": (lambda *a: nd.FullyConnected(*a, num_hidden=32), [(64, 300), (32, 300), (32,)]),
    "dot": (nd.dot, [(64, 300), (300, 70)]),
    "lstm": (lstm, [(30, 8, 32), (4 * 32 * 66,), (1, 8, 32), (1, 8, 32)]),
    "resize": (
        lambda x: nd.contrib.BilinearResize2D(x, height=30, width=30),
        [(1, 8, 50, 50)],
    ),
    "sum": (lambda x: nd.sum(x, axis=1), [(64, 300)]),
    "maximum": (nd.broadcast_maximum, [(64, 300), (1, 300)]),
    "pick": (lambda x: nd.pick(x, nd.arange(64)), [(64, 300)]),
    "take": (lambda x: nd.take(x, nd.array([3, 0, 3, 200])), [(300, 64)]),
}


def results(call: Call, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """The result and the gradients of a call on drawn arrays."""
    arrays = [draw(*shape, seed=i) * 0.5 for i, shape in enumerate(shapes)]
    for array in arrays:
        array.attach_grad()
    with autograd.record():
        y = call(*arrays)
    y.backward(draw(*y.shape, seed=9))
    return [y.asnumpy(), *(array.grad.asnumpy() for array in arrays)]


@pytest.fixture
def forgetting() -> Iterator[None]:
    """No code is kept from earlier calls."""
    eager_code.forget()
    yield
    eager_code.forget()


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_numpys(name: str):
    with mx.override(eager="numpy"):
        expected = results(*CASES[name])
    count = mx.compile_stats()["eager"]
    eager_code.forget()
    found = results(*CASES[name])
    assert mx.compile_stats()["eager"] > count
    for mine, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, right, rtol=0, atol=1e-5 * np.abs(right).max())


def test_the_switch_keeps_numpy(forgetting: None):
    count = mx.compile_stats()["eager"]
    with mx.override(eager="numpy"):
        results(*CASES["softmax"])
    assert mx.compile_stats()["eager"] == count


@pytest.mark.parametrize("name", ["conv", "softmax", "max pool", "lstm", "BatchNorm", "sum"])
def test_bits_do_not_depend_on_the_order_of_calls(name: str, forgetting: None):
    """The first size is compiled for itself, the others with symbols."""
    call, shapes = CASES[name]
    sizes = [[(n, *shapes[0][1:]), *shapes[1:]] for n in (shapes[0][0], 5, 3)]
    if name == "lstm":
        sizes = [[(steps, 8, 32), *shapes[1:]] for steps in (30, 41, 17)]
    one_way = [results(call, each) for each in sizes]
    eager_code.forget()
    other_way = [results(call, each) for each in reversed(sizes)]
    for these, those in zip(one_way, reversed(other_way)):
        for mine, other in zip(these, those, strict=True):
            assert mine.tobytes() == other.tobytes()


def test_one_compilation_serves_the_sizes_that_vary(forgetting: None):
    count = mx.compile_stats()["eager"]
    for rows in (64, 100, 333, 1000, 70):
        nd.log_softmax(draw(rows, 300))
    assert mx.compile_stats()["eager"] == count + 2


def test_code_beyond_the_limit_is_released(forgetting: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eager_code, "KEPT", 3)
    expected = nd.softmax(draw(64, 300)).asnumpy()
    for axis in (0, 1, -1, -2):
        nd.softmax(draw(64, 300), axis=axis)
    assert len(eager_code._families) <= 3
    assert nd.softmax(draw(64, 300)).asnumpy().tobytes() == expected.tobytes()


def test_released_code_is_freed(forgetting: None):
    """Also where a remembered call ran it, which is not repeated."""
    others = set(EXECUTABLES)
    for rows in (64, 100, 333):
        nd.softmax(draw(rows, 300))
    made = [weakref.ref(each) for each in EXECUTABLES if each not in others]
    assert len(made) == 3 and all(each() is not None for each in made)
    eager_code.forget()
    gc.collect()
    assert [each() for each in made] == [None] * 3


@pytest.mark.parametrize("error", [MXNetError("no room"), InternalError("no room")])
def test_a_call_that_does_not_compile_says_why(
    error: MXNetError,
    forgetting: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    """Once for all sizes, and NumPy computes it."""

    def fail(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(eager_code, "compile_call", fail)
    monkeypatch.setattr(eager_code, "compile_call_templates", fail)
    for rows in (64, 65, 66):
        x = draw(rows, 300)
        with mx.override(eager="numpy"):
            expected = nd.softmax(x)
        assert nd.softmax(x).asnumpy().tobytes() == expected.asnumpy().tobytes()
    said = [r.getMessage() for r in caplog.records if "runs in NumPy" in r.getMessage()]
    assert len(said) == 1 and "eager softmax of" in said[0] and "no room" in said[0]
    assert ("bug" in said[0]) == isinstance(error, InternalError)


def test_operands_are_read_where_they_are_and_never_written(forgetting: None):
    whole = draw(65, 300)
    before = whole.asnumpy()
    part, copied = whole[1:], whole[1:].copy()
    assert nd.softmax(part).asnumpy().tobytes() == nd.softmax(copied).asnumpy().tobytes()
    assert whole.asnumpy().tobytes() == before.tobytes()


def test_a_result_of_a_call_belongs_to_the_caller(forgetting: None):
    x = draw(64, 300)
    first = nd.softmax(x)
    kept = first.asnumpy()
    second = nd.softmax(x + 1)
    second[:] = 0
    assert first.asnumpy().tobytes() == kept.tobytes()
    same = nd.Dropout(x, p=0.5)  # outside of training: the operand's elements
    same[:] = 0
    assert np.abs(x.asnumpy()).max() > 0


def test_results_are_written_to_out(forgetting: None):
    x, y = draw(64, 300), nd.zeros((64, 300))
    assert nd.softmax(x, out=y) is y
    assert y.asnumpy().tobytes() == nd.softmax(x).asnumpy().tobytes()


def test_moving_statistics_are_updated(forgetting: None):
    def moved() -> list[np.ndarray]:
        states = [nd.zeros(8), nd.ones(8)]
        x, gamma, beta = draw(2, 8, 40, 40), nd.ones(8), nd.zeros(8)
        x.attach_grad()
        with autograd.record():
            y = nd.BatchNorm(x, gamma, beta, *states, momentum=0.5)
        y.backward()
        return [state.asnumpy() for state in states]

    with mx.override(eager="numpy"):
        expected = moved()
    for mine, right in zip(moved(), expected):
        np.testing.assert_allclose(mine, right, rtol=1e-5, atol=1e-7)


def test_gradients_are_differentiated_again(forgetting: None):
    def second() -> np.ndarray:
        x = draw(64, 300)
        x.attach_grad()
        with autograd.record():
            y = nd.softmax(x)
            (d,) = autograd.grad(y, [x], head_grads=draw(64, 300, seed=1), create_graph=True)
            total = (d * d).sum()
        total.backward()
        return x.grad.asnumpy()

    with mx.override(eager="numpy"):
        expected = second()
    np.testing.assert_allclose(second(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_attributes_are_distinguished(forgetting: None):
    ones = nd.ones((64, 300))
    for slope in (0.25, 0.5, 1.0):
        y = nd.LeakyReLU(-ones, act_type="leaky", slope=slope).asnumpy()
        assert (y == -slope).all()


def test_mistakes_have_their_messages(forgetting: None):
    data, weight = draw(2, 4, 64, 64), draw(8, 5, 3, 3)
    with pytest.raises(ShapeError, match="Convolution"):
        nd.Convolution(data, weight, kernel=(3, 3), num_filter=8, no_bias=True)
    with pytest.raises(MXNetError, match="axis"):
        nd.softmax(draw(64, 300), axis=2)


@pytest.mark.parametrize(
    ("name", "shape", "attrs", "is_costly"),
    [
        ("softmax", (64, 256), {"axis": -1}, True),
        ("softmax", (64, 255), {"axis": -1}, False),
        ("exp", (64, 256), {}, True),
        ("_mul_scalar", (64, 256), {"scalar": 2.0}, False),
        ("topk", (64, 256), {}, False),
        ("Dropout", (64, 256), {}, True),
        ("_contrib_boolean_mask", (64, 256), {}, False),
        ("_contrib_box_nms", (2, 100, 6), {}, True),
        ("_contrib_box_nms", (10, 6), {}, False),
    ],
)
def test_calls_of_much_work_are_compiled(name, shape, attrs, is_costly):
    op, types = lookup(name), (TensorType(shape, FLOAT32),)
    assert native.is_costly(op, op.with_defaults(attrs), types, types) == is_costly


def test_few_elements_with_many_products_are_costly():
    op = lookup("Convolution")
    attrs = op.with_defaults({"kernel": (3, 3), "num_filter": 64, "no_bias": True})
    ins = (TensorType((1, 16, 16, 16), FLOAT32), TensorType((64, 16, 3, 3), FLOAT32))
    assert native.is_costly(op, attrs, ins, (TensorType((1, 64, 14, 14), FLOAT32),))


@pytest.mark.parametrize(
    ("name", "first", "second", "by_numpy"),
    [
        ("FullyConnected", (1, 512), (128, 512), True),
        ("FullyConnected", (2, 512), (128, 512), False),
        ("batch_dot", (4, 1, 64), (4, 64, 128), True),
        ("batch_dot", (4, 64, 128), (4, 128, 1), True),
        ("batch_dot", (4, 64, 64), (4, 64, 128), False),
    ],
)
def test_a_matrix_by_a_vector_is_numpys_product(forgetting: None, name, first, second, by_numpy):
    """Packing the matrix takes longer; the gradients of both are compiled."""
    attrs = {"num_hidden": 128, "no_bias": True} if name == "FullyConnected" else {}
    operands = [draw(*first), draw(*second)]
    before = mx.compile_stats()["eager"]
    with autograd.record():
        for x in operands:
            x.attach_grad()
        y = getattr(nd, name)(*operands, **attrs)
    assert mx.compile_stats()["eager"] - before == (0 if by_numpy else 1)
    a, b = (x.asnumpy() for x in operands)
    right = a @ (b.T if name == "FullyConnected" else b)
    np.testing.assert_allclose(y.asnumpy(), right, atol=1e-6 * abs(right).max())
    y.backward()
    assert mx.compile_stats()["eager"] - before == (1 if by_numpy else 2)


def test_small_calls_load_no_compiler():
    program = """
import sys
import hybridjit as mx
x = mx.nd.ones((8, 8))
x.attach_grad()
with mx.autograd.record():
    y = mx.nd.softmax(mx.nd.Convolution(x.reshape((1, 1, 8, 8)), mx.nd.ones((1, 1, 3, 3)),
                                        kernel=(3, 3), num_filter=1, no_bias=True))
y.backward()
assert "hybridjit.compiler" not in sys.modules and "llvmlite" not in sys.modules
mx.nd.softmax(mx.nd.ones((128, 128)))
assert "llvmlite" in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert not done.stderr

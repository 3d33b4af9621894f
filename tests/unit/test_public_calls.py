"""Public functions with wrong types and shapes: only documented exceptions, raised on purpose.

``tools/fuzz_calls.py`` makes millions of these calls; its findings are listed here by name.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from calls import PACKAGE, call_case, complaint, is_on_purpose
from hybridjit import gluon, nd, sym
from hybridjit.errors import (
    AttributeValueError,
    DTypeError,
    InternalError,
    MXNetError,
    ShapeError,
)
from hybridjit.gluon import nn
from reading import address_space

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))
from fuzz_calls import MEMORY, attempt, quietly  # noqa: E402

ONES, IMAGE = nd.ones((2, 3)), nd.ones((2, 4, 5, 5))


@pytest.mark.parametrize("first", range(0, 10_000, 2500))
def test_calls_at_random(first: int):
    refused = 0
    with quietly(), address_space(MEMORY):
        for number in range(first, first + 2500):
            wrong, error = attempt(number)
            assert not wrong, f"{wrong}\npython tools/fuzz_calls.py --replay {number}"
            refused += error is not None
    assert 1000 < refused < 2400


def test_calls_are_of_many_kinds():
    names = {call_case(number).name for number in range(6000)}
    assert len(names) > 700
    for start in ("nd.", "sym.", "NDArray.", "Symbol.", "gluon.", "init.", "hybridjit"):
        assert any(name.startswith(start) for name in names), start


FOUND: dict[str, tuple[Callable[[], object], type[BaseException], str]] = {
    "more than memory": (lambda: nd.tile(ONES, reps=(2**30, 2**30)), ShapeError, "memory"),
    "linalg in float16": (
        lambda: nd.linalg.inverse(nd.ones((2, 2), dtype="float16")), DTypeError, "float16"),
    "no operand": (lambda: nd.khatri_rao(), MXNetError, "16384, got 0"),
    "no image": (
        lambda: nd.UpSampling(scale=1, sample_type="nearest"), MXNetError, "16384, got 0"),
    "a window of four": (
        lambda: nd.Pooling(IMAGE, kernel=(1, 1, 1, 1)), MXNetError, "1 to 3 sizes"),
    "an endless range": (
        lambda: nd.arange(float("inf")), AttributeValueError, "arange"),
    "bins without width": (
        lambda: nd.histogram(ONES, bins=3, range=(3, 2)), MXNetError, "ascending"),
    "indices of a scalar": (
        lambda: nd.contrib.index_array(nd.array(np.ones(()))), ShapeError, "scalar"),
    "channels of a row": (
        lambda: nd.SoftmaxOutput(nd.ones((3,)), nd.ones((3,)), multi_output=True),
        ShapeError, "axis 1"),
    "a negative scale": (
        lambda: nd.random.normal(0, -1, shape=(2,)), MXNetError, "scale"),
    "an axis far out": (lambda: nd.moveaxis(ONES, float("inf"), 1), ValueError, "axes"),
    "edges that descend": (
        lambda: nd.histogram(ONES, bins=nd.array([3, 1])), MXNetError, "ascend"),
    "counted flags": (
        lambda: nd.histogram(nd.ones((3,), dtype="bool"), bins=2, range=(-1, 3)),
        DTypeError, "numbers, got bool"),
    "an endless scale": (
        lambda: nd.contrib.BilinearResize2D(IMAGE, scale_height=1.0, scale_width=float("inf"),
                                            mode="size"),
        AttributeValueError, "scale_width takes finite float"),
    "endless ranges": (
        lambda: nd._internal._histogram(ONES, bin_cnt=3, range=(0, float("inf"))),
        AttributeValueError, "range takes finite floats"),
    "an endless shape": (lambda: ONES.broadcast_to(float("inf")), ValueError, "of integers"),
    "a stride beyond counting": (
        lambda: nd.Pooling(
            nd.ones((1, 1, 5)), kernel=(3,), stride=(10**17,), pooling_convention="full"),
        AttributeValueError, "stride"),
    "the first size of a scalar": (
        lambda: nd.Reshape(nd.array(np.ones(())), target_shape=(1, 1), keep_highest=True),
        ShapeError, "scalar"),
    "nowhere to scatter": (
        lambda: nd.scatter_nd(nd.ones((3,)), nd.empty((0, 3)), shape=()), ShapeError, "of shape"),
    "less than nothing": (
        lambda: nd.scatter_nd(nd.ones((1,)), nd.ones((1, 1)), shape=(-1,)),
        ShapeError, "sizes of 0 and more"),
    "no groups": (lambda: nn.Conv2D(4, 3, groups=0), ValueError, "groups"),
    "no bend": (lambda: gluon.loss.HuberLoss(rho=0), ValueError, "divides by rho"),
    "no slices": (lambda: gluon.utils.split_data(ONES, 0), ValueError, "num_slice"),
    "a file by number": (lambda: gluon.utils.check_sha1(True, "0"), TypeError, "file name must be"),
    "a shape of text": (
        lambda: gluon.Parameter("p", shape=("a",)), TypeError, "integers"),
    "a name of numbers": (lambda: sym.relu(sym.var("x"), name=np.ones(2)), TypeError, "name"),
    "attributes of bytes": (
        lambda: sym.relu(sym.var("x"), attr=b"ab"), TypeError, "dictionary"),
    "a device of lists": (lambda: nd.relu(ONES, ctx=["cpu"]), MXNetError, "device"),
    "a device of four": (lambda: nd.relu(ONES, ctx=(2, 4, 5, 5)), MXNetError, "device"),
}  # fmt: skip


@pytest.mark.parametrize("what", FOUND)
def test_recorded_calls_raise_on_purpose(what: str):
    call, kind, words = FOUND[what]
    with pytest.raises(kind, match=words) as caught:
        call()
    assert is_on_purpose(caught.value)


def test_recorded_calls_with_unusual_arguments_work():
    assert nd.contrib.index_array(ONES, axes=()).shape == (2, 3, 0)
    empty = nd.sample_multinomial(nd.empty((0, 3)), get_prob=True)
    assert [array.shape for array in empty] == [(0,), (0,)] or empty[0].size == 0
    wide = nd.contrib.AdaptiveAvgPooling2D(IMAGE, output_size=(7, 2))
    assert wide.shape == (2, 4, 7, 2) and (wide.asnumpy() == 1).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "float64"])
def test_swish_of_every_type_compiled(dtype: str):
    """LLVM once ended the process over a vector of integers."""
    net, x = nn.Swish(), nd.array(np.arange(200).reshape(2, 4, 5, 5) % 5, dtype=dtype)
    eager = net(x).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-3)


def test_integers_take_the_low_bits_of_a_value():
    assert nd.full(2, -1, dtype="uint8").asnumpy().tolist() == [255, 255]
    assert nd.full(2, 300.7, dtype="uint8").asnumpy().tolist() == [44, 44]
    x = nd.zeros((3,), dtype="uint8")
    x[1:] = -2
    assert x.asnumpy().tolist() == [0, 254, 254]


def test_nothing_matches_nothing():
    rows, columns = nd.contrib.bipartite_matching(nd.empty((0, 3)), threshold=1.0)
    assert rows.shape == (0,) and columns.asnumpy().tolist() == [-1, -1, -1]


def test_a_histogram_of_one_value():
    counts, edges = nd.histogram(nd.ones((4,)), bins=3)
    assert counts.asnumpy().tolist() == [0, 4, 0]
    np.testing.assert_allclose(edges.asnumpy(), [0.5, 0.8333333, 1.1666666, 1.5], rtol=1e-6)


def test_an_endless_factor_is_pythons_own_type_error():
    for layer, *args in (
        (gluon.contrib.nn.PixelShuffle1D, float("inf")),
        (nn.Conv2D, 3, (float("inf"), 1)),
        (gluon.contrib.rnn.Conv1DRNNCell, (3, 8), 2, [float("inf")], 3),
    ):
        with pytest.raises(TypeError, match="integer"):
            layer(*args)


def test_histogram_edges_wrap_in_unsigned_types():
    x = nd.array([0, 1, 2, 3, 4, 0], dtype="uint8")
    counts, edges = nd.histogram(x, bins=3, range=(-1, 3))
    assert counts.asnumpy().tolist() == [0, 0, 3]  # MXNet 1.9.1 counts the same
    assert edges.asnumpy().tolist() == [255, 0, 1, 3]


def test_file_descriptors_as_names_stay_open():
    os.fstat(1), os.fstat(2)
    for function in (nd.load, sym.load, mx.model.load_params):
        with pytest.raises((TypeError, MXNetError, ValueError)):
            function(*([1] if function is not mx.model.load_params else [1, 0]))
    os.fstat(1), os.fstat(2)


# --- the judge itself ---


def raised_by(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_accidental_exceptions_are_distinguished_from_raised_ones():
    """The same type, once raised by this package and once by a callee."""
    raised = raised_by(lambda: nd.save(3, ONES))
    broke = raised_by(lambda: nn.Dense("a", in_units=[]))
    assert "raise" in Path(PACKAGE, "nd", "files.py").read_text()
    assert isinstance(raised, TypeError) and is_on_purpose(raised)
    inside = raised_by(lambda: mx._core.types.product(("a", None)))
    assert isinstance(inside, TypeError) and not is_on_purpose(inside)
    assert complaint(inside, strict=True) and not complaint(inside, strict=False)
    assert broke is not None


FOREIGN = [ZeroDivisionError(), OverflowError(), RecursionError(), InternalError("x")]


@pytest.mark.parametrize("error", FOREIGN, ids=lambda error: type(error).__name__)
def test_foreign_exceptions_are_complaints(error: Exception):
    def fail() -> None:
        raise error

    assert complaint(raised_by(fail), strict=False)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer")
def test_the_timer_is_off_afterwards():
    with quietly():
        attempt(1)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)

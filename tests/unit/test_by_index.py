"""Selection by index, compiled: every way to give an index, and indices that are not there."""

from __future__ import annotations

import numpy as np
import pytest

from compiling import assert_near, call, compiled, run_compiled, run_reference, var
from hybridjit import autograd, nd
from hybridjit.errors import MXNetError

SIZE = 7  # of the axis that is selected from
INDEX_TYPES = ("float32", "int32", "int64", "uint8", "float64")
DATA_TYPES = ("float32", "int32", "float64", "uint8", "float16")
OUTSIDE = (-8, -7, -1, 0, 3, 6, 7, 13, 14, 100)


def table(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(len(shape)).normal(0, 50, shape)).astype(dtype)


def indices(dtype: str, *shape: int) -> np.ndarray:
    """Places on and off an axis of SIZE, some of them between two."""
    random = np.random.default_rng(3)
    chosen = random.choice(OUTSIDE, shape).astype(np.float64) + random.choice([0, 0.75], shape)
    return (chosen % 256 if dtype == "uint8" else chosen).astype(dtype)


def check(op: str, *arrays: np.ndarray, **attrs: object) -> None:
    """Compiled equals the reference to the bit, on the device and not by a host step."""
    named = {f"x{i}": a for i, a in enumerate(arrays)}
    outputs = [call(op, *map(var, named), **attrs)]
    executable = compiled(outputs, named)
    assert "host" not in [step.kind for step in executable.plan.steps]
    (found,) = executable(list(arrays))
    (wanted,) = run_reference(outputs, named)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype


@pytest.mark.parametrize("index", INDEX_TYPES)
@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_take_and_pick(mode: str, index: str):
    for axis in (0, 1, 2):
        shape = [3, 2, 17]
        shape[axis] = SIZE
        check("take", table(*shape), indices(index, 4, 5), axis=axis, mode=mode)
        rest = [n for i, n in enumerate(shape) if i != axis]
        check("pick", table(*shape), indices(index, *rest), axis=axis, mode=mode)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("given", [1e10, 3e9, -1e10, np.inf, np.nan, 2**31 - 128])
def test_pick_takes_indices_as_c_integers(given: float, mode: str) -> None:
    """MXNet: 0 for 1e10, which is the smallest int32, and the gradient goes to that element."""
    index = np.full(3, given, "float32")
    check("pick", table(3, SIZE), index, mode=mode)
    whole = -(2**31) if not abs(given) < 2**31 else int(given)
    place = whole % SIZE if mode == "wrap" else min(max(whole, 0), SIZE - 1)
    x = nd.array(table(3, SIZE))
    x.attach_grad()
    with autograd.record():
        y = nd.pick(x, nd.array(index), mode=mode)
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), x.asnumpy()[:, place])
    np.testing.assert_array_equal(x.grad.asnumpy(), [np.arange(SIZE) == place] * 3)


@pytest.mark.parametrize("data", DATA_TYPES)
def test_any_data_is_moved(data: str):
    check("take", table(SIZE, 5, dtype=data), indices("float32", 9))
    check("Embedding", indices("int32", 2, 3), table(SIZE, 33, dtype=data), input_dim=SIZE,
          output_dim=33, dtype=data)  # fmt: skip
    check("gather_nd", table(SIZE, 3, 4, dtype=data), np.array([[0, -7, 6], [2, -1, 0]], "int64"))
    check("SequenceMask", table(4, 3, 2, dtype=data), np.array([2, 0, 9.0]), value=-1.5,
          use_sequence_length=True)  # fmt: skip


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1e30, -1e30])
def test_numbers_that_are_no_index(special: float):
    at = np.array([special, 2.0], np.float32)
    for mode in ("clip", "wrap"):
        check("take", table(SIZE, 3), at, mode=mode)
    check("one_hot", at, depth=4)
    check("SequenceLast", table(4, 2, 3), at, use_sequence_length=True)
    check("SequenceReverse", table(4, 2, 3), at, use_sequence_length=True)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8", "float64", "int8"])
def test_one_hot(dtype: str):
    values = {"on_value": 3, "off_value": 1}
    check("one_hot", indices("float32", 4, 3), depth=SIZE, dtype_=dtype, **values)
    check("one_hot", indices("int64", 5), depth=19, dtype_=dtype, **values)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", ["float32", "int32"])
def test_sequence_operators_equal_their_references(length: str, axis: int):
    lengths = np.array([0, 1, 3, 5, 9], length)
    data = table(5, 5, 18)
    check("SequenceMask", data, lengths, use_sequence_length=True, axis=axis, value=0.5)
    check("SequenceLast", data, lengths, use_sequence_length=True, axis=axis)
    if axis == 0:
        check("SequenceReverse", data, lengths, use_sequence_length=True)


def test_of_equal_places_the_last_one_counts():
    random = np.random.default_rng(0)
    at = random.integers(-5, 5, (2, 40)).astype(np.float32)
    check("scatter_nd", table(40, 17), at, shape=(5, 5, 17))
    rows = np.array([0, 3, 0, -1], np.int32)
    check("_contrib_index_copy", table(5, 18), rows, table(4, 18))


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("gather_nd", ((SIZE, 4), (1, 3)), {}),
        ("scatter_nd", ((3, 4), (1, 3)), {"shape": (SIZE, 4)}),
        ("take", ((SIZE, 4), (1, 3)), {"mode": "raise"}),
        ("_contrib_index_copy", ((SIZE, 4), (3,), (3, 4)), {}),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_outside_raises_as_eager_does_and_the_next_call_is_well(op, shapes, attrs):
    arrays = {f"x{i}": table(*shape) for i, shape in enumerate(shapes)}
    arrays["x1"] = np.array([2, 0, 6], np.float32).reshape(shapes[1])
    outputs = [call("relu", call(op, *map(var, arrays), name="select", **attrs))]
    executable = compiled(outputs, arrays)
    wanted = run_reference(outputs, arrays)
    assert_near(executable(list(arrays.values())), wanted)
    bad = dict(arrays, x1=np.array([2, SIZE, 6], np.float32).reshape(shapes[1]))
    with pytest.raises((MXNetError, IndexError)) as eager:
        run_reference(outputs, bad)
    with pytest.raises(type(eager.value)) as mine:
        executable(list(bad.values()))
    assert str(mine.value) == str(eager.value)
    assert_near(executable(list(arrays.values())), wanted)


def test_a_strided_operand_is_packed_first():
    data, at = table(3, SIZE), np.array([6, 0, 2, 2], np.float32)
    outputs = [call("take", call("transpose", var("x")), var("y"))]
    found = run_compiled(outputs, {"x": data, "y": at})
    np.testing.assert_array_equal(found[0], data.T[[6, 0, 2, 2]])

"""Kernels in every element type: conversions, arithmetic, movement and reductions of them all.

In: arrays with the special values of their type. Compiled results are those of the references,
bit for bit where nothing is summed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from compiling import AVAILABLE, Arrays, assert_near, call, compiled, node, run_reference, var
from hybridjit._core.config import override
from hybridjit._core.types import DTYPE_NAMES
from hybridjit.ir.node import Output
from hybridjit.runtime.executable import Executable

TYPES = tuple(DTYPE_NAMES)

# All cases on the widest CPU; on the narrowest one, without float16, those that differ.
PLACES = [(AVAILABLE[0], t) for t in TYPES]
PLACES += [(AVAILABLE[-1], t) for t in ("float16", "float64", "int64") if len(AVAILABLE) > 1]


@pytest.fixture(params=PLACES, ids=lambda place: "-".join(place))
def dtype(request) -> Iterator[str]:
    """An element type, on a CPU that is set."""
    target, name = request.param
    with override(target=target):
        yield name


def values_of(dtype: str, count: int = 203) -> np.ndarray:
    """All special values of a type, then numbers of every size that it has."""
    random = np.random.default_rng(len(dtype))
    kind = np.dtype(dtype)
    if kind.kind == "f":
        bits = random.integers(0, 2 ** (8 * kind.itemsize), count, np.uint64, endpoint=False)
        drawn = (
            bits.astype(f"u{kind.itemsize}").view(kind) if kind.itemsize < 8 else bits.view(kind)
        )
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -1.5, 2.5, 255.7, 256.0, -129.0, 6e4,
                   65520.0, 2147483647.0, 2147483648.0, -2147483649.0, 9.3e18, -9.3e18, 6e-8, 5e-8,
                   6.1e-5, 1.00048828125, 1.0014648437500002]  # fmt: skip
        with np.errstate(over="ignore"):
            return np.concatenate([np.array(special).astype(kind), drawn])
    if kind.kind == "b":
        return np.arange(count) % 3 == 0
    info = np.iinfo(kind)
    special = [0, 1, 2, 3, info.max, info.min, info.max - 1, info.min + 1, 7]
    special += [-1, -2, -7] if info.min else []
    near = random.integers(max(info.min, -20), 20, count)
    far = random.integers(info.min, info.max, count, np.int64)
    return np.concatenate([np.array(special), near, far]).astype(kind)


def run(outputs: Sequence[Output], arrays: Arrays) -> tuple[Executable, list[np.ndarray]]:
    """The compiled graph, which must have no step on the host, and its results."""
    executable = compiled(outputs, arrays)
    assert all(executable.code.calls), "a step has no kernel"
    return executable, executable([np.ascontiguousarray(a) for a in arrays.values()])


def assert_same(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for mine, right in zip(found, wanted):
        assert mine.dtype == right.dtype
        np.testing.assert_array_equal(mine, right)


def check(outputs: Sequence[Output], arrays: Arrays, exactly: bool = True) -> None:
    _, found = run(outputs, arrays)
    wanted = run_reference(outputs, arrays)
    if exactly:
        assert_same(found, wanted)
    else:
        assert_near(found, wanted)


def test_casts_between_all_types_follow_the_reference(dtype: str):
    """To every type, from every number: truncated, wrapped, rounded once, or its truth."""
    outputs = [call("Cast", var("x"), name=t, dtype=t) for t in TYPES if t != dtype]
    check(outputs, {"x": values_of(dtype)})


EXACT = ("add", "sub", "mul", "maximum", "minimum", "equal", "lesser_equal", "greater", "mod")


def test_arithmetic_of_special_values_follows_the_reference(dtype: str):
    """Every pair of special values: integers wrap, comparisons give numbers of the type."""
    if dtype == "bool":
        dtype = "int32"  # MXNet adds no bools
    x = values_of(dtype, 30)
    a, b = (m.ravel().copy() for m in np.meshgrid(x, x))
    names = [*EXACT, "div"] if dtype != "float16" else [*EXACT[:3], *EXACT[5:]]
    outputs = [call(f"broadcast_{n}", var("a"), var("b"), name=n) for n in names]
    outputs += [call(n, var("a"), name=n) for n in ("abs", "negative", "sign", "relu", "square")]
    outputs += [call(n, var("b"), name=n) for n in ("round", "rint", "floor", "ceil", "fix")]
    outputs.append(call("clip", var("a"), a_min=-1.5, a_max=300.0))
    outputs.append(call("_greater_scalar", var("a"), scalar=0.1))
    outputs.append(call("_plus_scalar", var("a"), scalar=0.1, name="plus"))
    check(outputs, {"a": a, "b": b})


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "uint8"])
def test_functions_of_integers_follow_the_reference(dtype: str):
    """Formulas of numbers with fractions, on integers as well: truncated in the end."""
    x = np.linspace(0.1, 3.9, 97).astype(dtype)
    names = ("sigmoid", "tanh", "exp", "log", "sqrt", "sin", "arctan", "cbrt", "softsign", "erf")
    outputs = [call(n, var("x"), name=n) for n in names]
    outputs.append(call("_power_scalar", var("x"), scalar=2.5))
    if dtype.startswith("float"):
        outputs += [call("LeakyReLU", var("x"), act_type="gelu"), call("smooth_l1", var("x"))]
    check(outputs, {"x": x}, exactly=False)


def test_types_meet_in_one_kernel():
    """A condition, casts, arithmetic in two types: one pointwise kernel for all of them."""
    x = call("Cast", var("x"), dtype="float32")
    chosen = call("where", var("c"), call("elemwise_mul", x, var("y")), x)
    back = call("Cast", call("_mul_scalar", chosen, scalar=3.0), dtype="float16", name="back")
    whole = call("Cast", chosen, dtype="int64", name="whole")
    arrays = {
        "x": np.linspace(-3, 3, 35).astype(np.float16).reshape(5, 7),
        "y": np.linspace(-9, 9, 35).astype(np.float32).reshape(5, 7),
        "c": np.arange(5) % 2 == 0,
    }
    executable, found = run([back, whole], arrays)
    assert_same(found, run_reference([back, whole], arrays))
    assert [step.kind for step in executable.plan.steps] == ["pointwise"]


MOVES = {
    "transpose": {"axes": (2, 0, 1)},
    "slice": {"begin": (None, 4, 1), "end": (None, 0, None), "step": (1, -2, 3)},
    "reverse": {"axis": (0, 2)},
    "tile": {"reps": (2, 1, 3)},
    "repeat": {"repeats": 3, "axis": 1},
    "broadcast_axis": {"axis": (0,), "size": (4,)},
    "SwapAxis": {"dim1": 0, "dim2": 2},
    "diag": {"k": 1, "axis1": 1, "axis2": 2},
    "_pad_axes": {"mode": "constant", "before": (0, 1, 17), "after": (0, 2, 1), "value": 1.0},
}


def test_movement_preserves_bytes(dtype: str):
    """The same bytes in another place, in kernels alone."""
    x = np.resize(values_of(dtype), (1, 5, 19))
    outputs = [call(n, var("x"), name=n, **attrs) for n, attrs in MOVES.items()]
    outputs.append(call("Concat", var("x"), call("slice_axis", var("x"), axis=1, begin=1, end=3),
                        dim=1, num_args=2, name="joined"))  # fmt: skip
    outputs.append(call("stack", var("x"), var("x"), axis=1, num_args=2, name="stacked"))
    pieces = node("_split_v2", var("x"), indices=(0, 2, 7), axis=2, name="pieces")
    outputs += [Output(pieces, i) for i in range(3)]
    _, found = run(outputs, {"x": x})
    for mine, right in zip(found, run_reference(outputs, {"x": x})):
        assert mine.tobytes() == np.ascontiguousarray(right).tobytes()


def test_pieces_that_are_read_backwards():
    """A flipped operand of a sum, of a concatenation and of a convolution."""
    x = np.random.default_rng(1).normal(0, 1, (2, 3, 6, 37)).astype(np.float32)
    flipped = call("reverse", var("x"), axis=(1, 3))
    conv = call("Convolution", flipped, var("w"), kernel=(3, 3), num_filter=2, no_bias=True)
    joined = call("Concat", var("x"), flipped, dim=3, num_args=2)
    outputs = [call("elemwise_add", var("x"), flipped), joined, conv]
    w = np.random.default_rng(2).normal(0, 1, (2, 3, 3, 3)).astype(np.float32)
    executable = compiled(outputs, {"x": x, "w": w}, ["w"])
    assert_near(executable([x]), run_reference(outputs, {"x": x, "w": w}))


REDUCTIONS = ("sum", "mean", "prod", "max", "min", "nansum", "nanprod")


def summable(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    random = np.random.default_rng(len(dtype))
    kind = np.dtype(dtype)
    if kind.kind == "f":
        x = random.uniform(0.8, 1.25, shape).astype(kind)
        x.flat[::29] = np.nan
        return x
    low = 0 if kind.kind in "bu" else -5
    return random.integers(low, 6, shape).astype(kind)


def test_reductions_over_all_axes_follow_the_reference(dtype: str):
    """Over every choice of axes, of possibly transposed data."""
    x = summable(dtype, (4, 5, 37))
    orders = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]
    turned = call("transpose", var("x"), axes=orders[TYPES.index(dtype) % 3])
    outputs = []
    for i, axis in enumerate([(0,), (1,), (2,), (0, 2), (1, 2), (0, 1), (0, 1, 2)]):
        name = REDUCTIONS[(i + TYPES.index(dtype)) % len(REDUCTIONS)]
        outputs.append(call(name, turned, axis=axis, keepdims=i % 2, name=f"{name}{i}"))
    outputs += [call(n, turned, axis=1, exclude=i % 2, name=n) for i, n in enumerate(REDUCTIONS)]
    if dtype != "bool":
        outputs += [call(n, turned, axis=a, name=f"{n}{a}") for n in ("argmax", "argmin")
                    for a in (0, 1, 2, None)]  # fmt: skip
        outputs += [call("norm", turned, ord=o, axis=(0, 2), name=f"norm{o}") for o in (1, 2)]
    check(outputs, {"x": x}, exactly=False)


def test_long_sums_keep_their_digits():
    """A million numbers added to one, and each of a few to its own."""
    x = np.random.default_rng(3).uniform(0, 1, (120_000, 8)).astype(np.float32)
    outputs = [call("sum", var("x"), name="all"), call("sum", var("x"), axis=0, name="columns")]
    _, found = run(outputs, {"x": x})
    np.testing.assert_allclose(found[0], x.sum(dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(found[1], x.sum(axis=0, dtype=np.float64), rtol=1e-6)


def test_places_of_equals_and_of_nan():
    """The first of equals, wherever the lanes and the chains meet; NaN is largest and smallest."""
    x = np.zeros((70, 70), np.float32)
    x[np.arange(70), np.arange(70)] = 1
    x[3, [60, 20, 41]] = 2
    x[4, [61, 33]] = np.nan
    x[:, 5] = 7
    outputs = [call(n, var("x"), axis=a, name=f"{n}{a}") for n in ("argmax", "argmin")
               for a in (0, 1)]  # fmt: skip
    check(outputs, {"x": x})


def test_squares_beyond_the_range():
    """A norm is in range where the squares are not."""
    x = np.full((3, 50), 1e25, np.float32)
    check([call("norm", var("x"), axis=1)], {"x": x}, exactly=False)
    assert np.isfinite(run([call("norm", var("x"), axis=1)], {"x": x})[1][0]).all()

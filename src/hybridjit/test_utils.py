"""``mx.test_utils``: what tests of programs compare arrays and make examples with.

In: NumPy arrays or NDArrays. Out: AssertionErrors that show where two differ and by how much, and
random arrays from NumPy's global generator. Checks of gradients are there by name only.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, NoReturn

import numpy as np

from . import nd
from .context import Context, current_context, set_default_context
from .errors import MXNetError
from .gluon.utils import download
from .ir.node import topological
from .nd import NDArray
from .sym import Symbol

__all__ = [
    "almost_equal",
    "assert_allclose",
    "assert_almost_equal",
    "assert_almost_equal_ignore_nan",
    "assert_almost_equal_with_err",
    "assert_exception",
    "assign_each",
    "assign_each2",
    "check_consistency",
    "check_gluon_hybridize_consistency",
    "check_numeric_gradient",
    "check_symbolic_backward",
    "check_symbolic_forward",
    "collapse_sum_like",
    "create_2d_tensor",
    "create_vector",
    "default_atols",
    "default_context",
    "default_dtype",
    "default_rtols",
    "download",
    "environment",
    "get_atol",
    "get_rtol",
    "get_tols",
    "list_gpus",
    "np_reduce",
    "rand_coord_2d",
    "rand_ndarray",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "random_arrays",
    "random_sample",
    "random_uniform_arrays",
    "retry",
    "same",
    "same_array",
    "same_symbol_structure",
    "set_default_context",
    "simple_forward",
]

Tolerance = float | Mapping[np.dtype, float] | None

_EXACT: dict[np.dtype, float] = {
    np.dtype(name): 0.0 for name in ("bool", "int8", "uint8", "int32", "int64")
}
_RTOLS: dict[np.dtype, float] = {
    np.dtype("f2"): 1e-2,
    np.dtype("f4"): 1e-4,
    np.dtype("f8"): 1e-5,
    **_EXACT,
}
_ATOLS: dict[np.dtype, float] = {
    np.dtype("f2"): 1e-1,
    np.dtype("f4"): 1e-3,
    np.dtype("f8"): 1e-20,
    **_EXACT,
}


def default_context() -> Context:
    """The context that is current."""
    return current_context()


def default_dtype() -> type[np.float32]:
    return np.float32


def default_rtols() -> dict[np.dtype, float]:
    """Relative tolerances by element type."""
    return dict(_RTOLS)


def default_atols() -> dict[np.dtype, float]:
    """Absolute tolerances by element type."""
    return dict(_ATOLS)


def get_rtol(rtol: float | None = None, dtype: Any = np.float64) -> float:
    return _RTOLS[np.dtype(dtype)] if rtol is None else rtol


def get_atol(atol: float | None = None, dtype: Any = np.float64) -> float:
    return _ATOLS[np.dtype(dtype)] if atol is None else atol


def get_tols(x: Any, y: Any, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """The larger of what both element types have by default, unless they are given."""
    dtypes = [np.dtype(getattr(each, "dtype", np.float64)) for each in (x, y)]
    return _largest(dtypes, rtol, _RTOLS), _largest(dtypes, atol, _ATOLS)


def _largest(dtypes: list[np.dtype], given: Tolerance, known: Mapping[np.dtype, float]) -> float:
    if isinstance(given, numbers.Number):
        return float(given)  # type: ignore[arg-type]
    together = {**known, **(given or {})}  # type: ignore[dict-item]
    return max(together[dtype] for dtype in dtypes)


# ---- comparing ----------------------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Equal in shape and in every element."""
    return np.array_equal(_values(a), _values(b))


def almost_equal(
    a: Any,
    b: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    use_broadcast: bool = True,
) -> bool:
    """Whether |a - b| <= atol + rtol |b| everywhere."""
    if not use_broadcast:
        _require_one_shape(a, b)
    return np.allclose(_values(a), _values(b), get_rtol(rtol), get_atol(atol), equal_nan)


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """AssertionError with the worst places unless |a - b| <= atol + rtol |b| everywhere.

    ``mismatches[0]`` is how many places are shown. Tolerances follow from the element types.
    """
    if not use_broadcast:
        _require_one_shape(a, b)
    relative, absolute = get_tols(a, b, rtol, atol)
    x, y = _values(a), _values(b)
    if np.allclose(x, y, relative, absolute, equal_nan):
        return
    raise AssertionError(_complaint(x, y, relative, absolute, names, equal_nan, mismatches[0]))


def _complaint(
    x: np.ndarray,
    y: np.ndarray,
    rtol: float,
    atol: float,
    names: tuple[str, str],
    equal_nan: bool,
    shown: int,
) -> str:
    """How many elements differ, and the worst of them with their places."""
    x, y = np.broadcast_arrays(x, y)
    wrong = ~np.isclose(x, y, rtol, atol, equal_nan)
    distance = np.abs(x.astype(np.float64) - y.astype(np.float64))
    violation = distance / (atol + rtol * np.abs(y.astype(np.float64)) + 1e-20)
    violation = np.where(wrong, np.nan_to_num(violation, nan=np.inf), -1)
    order = np.argsort(violation, axis=None)[::-1][: min(shown, int(wrong.sum()))]
    lines = [
        f"{wrong.sum()} of {wrong.size} elements differ by more than rtol={rtol:g}, atol={atol:g}"
    ]
    for flat in order:
        place = tuple(int(i) for i in np.unravel_index(flat, x.shape))
        lines.append(
            f"    at {place}: {names[0]}={x[place]!r}, {names[1]}={y[place]!r}, "
            f"error {violation[place]:g} times the tolerance"
        )
    return "\n".join(lines)


def assert_allclose(
    a: Any, b: Any, rtol: float = 1e-7, atol: float = 0, equal_nan: bool = True
) -> None:
    assert_almost_equal(a, b, rtol, atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    etol: float | None = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """As ``assert_almost_equal``, but a share of ``etol`` of the elements may differ."""
    relative, absolute = get_tols(a, b, rtol, atol)
    x, y = _values(a), _values(b)
    close = np.isclose(x, y, relative, absolute, equal_nan)
    if 1 - close.mean() > (etol or 0):
        raise AssertionError(_complaint(x, y, relative, absolute, names, equal_nan, mismatches[0]))


def assert_almost_equal_ignore_nan(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: tuple[str, str] = ("a", "b"),
) -> None:
    """As ``assert_almost_equal``, but for elements where either is NaN."""
    x, y = np.array(_values(a)), np.array(_values(b))
    x[np.isnan(x) | np.isnan(y)] = 0
    y[np.isnan(_values(a)) | np.isnan(y)] = 0
    assert_almost_equal(x, y, rtol, atol, names)


def assert_exception(
    f: Callable[..., Any], exception_type: type[BaseException], *args: Any, **kwargs: Any
) -> None:
    """AssertionError unless ``f(*args, **kwargs)`` raises ``exception_type``."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{f} did not raise {exception_type.__name__}")


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """Whether a write to the one is seen in the other."""
    return bool(np.shares_memory(array1._data, array2._data)) and same(array1, array2)


def same_symbol_structure(sym1: Symbol, sym2: Symbol) -> bool:
    """Whether both graphs have the same operators, connected in the same way."""
    return _structure(sym1) == _structure(sym2)


def _structure(symbol: Symbol) -> list[Any]:
    """Each node's operator and the numbers of the nodes that it reads."""
    numbers = {node: i for i, node in enumerate(topological(symbol.outputs))}
    return [
        (node.op and node.op.name, [(numbers[edge.node], edge.index) for edge in node.inputs])
        for node in numbers
    ]


def _values(array: Any) -> np.ndarray:
    return array.asnumpy() if isinstance(array, NDArray) else np.asarray(array)


def _require_one_shape(a: Any, b: Any) -> None:
    assert np.shape(a) == np.shape(b), (
        f"a.shape = {np.shape(a)} and b.shape = {np.shape(b)} are not equal"
    )


def assign_each(the_input: np.ndarray, function: Callable[[Any], Any] | None) -> np.ndarray:
    """``function`` of every element; the array itself without a function."""
    return np.array(the_input) if function is None else np.vectorize(function)(the_input)


def assign_each2(
    input1: np.ndarray, input2: np.ndarray, function: Callable[[Any, Any], Any] | None
) -> np.ndarray:
    """``function`` of every pair of elements; the first array without a function."""
    return np.array(input1) if function is None else np.vectorize(function)(input1, input2)


def collapse_sum_like(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Summed over the axes that broadcasting ``shape`` to the array's shape would repeat."""
    summed = a.sum(axis=tuple(range(a.ndim - len(shape))))
    repeated = [i for i, size in enumerate(shape) if size == 1 and summed.shape[i] != 1]
    return summed.sum(axis=tuple(repeated), keepdims=True)


# ---- running ------------------------------------------------------------------------------------


def simple_forward(
    sym: Symbol, ctx: Context | None = None, is_train: bool = False, **inputs: np.ndarray
) -> Any:
    """The outputs of a Symbol for NumPy arrays by name; a lone one without its list."""
    arrays = {name: nd.array(values) for name, values in inputs.items()}
    found = [out.asnumpy() for out in sym.bind(ctx, arrays).forward(is_train)]
    return found[0] if len(found) == 1 else found


def check_symbolic_forward(
    sym: Symbol,
    location: Any,
    expected: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    aux_states: Any = None,
    ctx: Context | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[NDArray]:
    """Run a Symbol on ``location`` (arrays by name or in order) and compare with ``expected``."""
    args = _located(sym.list_arguments(), location, ctx, dtype, "arguments")
    aux = _located(sym.list_auxiliary_states(), aux_states or {}, ctx, dtype, "aux_states")
    outputs = sym.bind(ctx, args, aux_states=aux).forward()
    names = sym.list_outputs()
    wanted = [expected[name] for name in names] if isinstance(expected, dict) else expected
    for name, value, found in zip(names, wanted, outputs):
        pair = (f"EXPECTED_{name}", f"FORWARD_{name}")
        assert_almost_equal(value, found, rtol, atol, pair, equal_nan)
    return outputs


def _located(
    names: list[str], given: Any, ctx: Context | None, dtype: Any, what: str
) -> dict[str, NDArray]:
    """Arrays by name. ValueError when a dictionary has other names."""
    if isinstance(given, dict) and set(given) != set(names):
        raise ValueError(f"{what} of the symbol are {names}, given are {list(given)}")
    by_name = given if isinstance(given, dict) else dict(zip(names, given))
    keeps = isinstance(dtype, str) and dtype == "asnumpy"
    return {
        name: value
        if isinstance(value, NDArray)
        else nd.array(value, ctx, np.asarray(value).dtype if keeps else dtype)
        for name, value in by_name.items()
    }


def check_gluon_hybridize_consistency(
    net_builder: Callable[[], Any],
    data_l: list[NDArray],
    numpy_func: Callable[..., np.ndarray] | None = None,
    test_grad: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-4,
) -> None:
    """The net hybridized gives what it gives eagerly, and what ``numpy_func`` gives.

    Gradients are not compared: there are none.
    """
    eager, hybrid = net_builder(), net_builder()
    eager.initialize()
    expected = eager(*data_l)
    hybrid.initialize()
    hybrid(*data_l)
    values = [param.data() for param in eager.collect_params().values()]
    for param, value in zip(hybrid.collect_params().values(), values):
        param.set_data(value)
    hybrid.hybridize()
    assert_almost_equal(hybrid(*data_l), expected, rtol, atol)
    if numpy_func is not None:
        wanted = numpy_func(*[array.asnumpy() for array in data_l])
        assert_almost_equal(expected, wanted, rtol, atol)


def _no_gradients(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises MXNetError: gradients are not computed here."""
    raise MXNetError(
        "this check compares gradients, and hybridjit runs inference only: compare outputs with "
        "check_symbolic_forward"
    )


check_consistency = _no_gradients
check_numeric_gradient = _no_gradients
check_symbolic_backward = _no_gradients


def list_gpus() -> range:
    """No GPUs."""
    return range(0)


def retry(n: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: a test of random values may fail all but once in ``n`` times."""
    assert n > 0, f"retry takes a positive number, got {n}"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def attempt(*args: Any, **kwargs: Any) -> None:
            for left in range(n - 1, -1, -1):
                try:
                    return test(*args, **kwargs)
                except AssertionError:
                    if not left:
                        raise
            return None

        return attempt

    return decorate


@contextmanager
def environment(*args: Any) -> Iterator[None]:
    """``with environment(name, value):`` or ``environment({name: value})``; None unsets."""
    wanted = args[0] if len(args) == 1 else {args[0]: args[1]}
    before = {name: os.environ.get(name) for name in wanted}
    try:
        _set_environment(wanted)
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(value)


# ---- examples -----------------------------------------------------------------------------------


def random_arrays(*shapes: tuple[int, ...]) -> Any:
    """Normally distributed float32 arrays; a lone one without its list."""
    arrays = [np.array(np.random.randn(*shape), np.float32) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(
    *shapes: tuple[int, ...], low: float = 0.0, high: float = 1.0, dtype: Any = np.float32
) -> list[np.ndarray]:
    return [np.random.uniform(low, high, size=shape).astype(dtype) for shape in shapes]


def random_sample(population: list[Any], k: int) -> list[Any]:
    """``k`` of the population, without repetition."""
    assert 0 <= k <= len(population), f"{k} samples of {len(population)}"
    shuffled = population[:]
    np.random.shuffle(shuffled)
    return shuffled[:k]


def rand_ndarray(
    shape: tuple[int, ...],
    stype: str = "default",
    density: float | None = None,
    dtype: Any = None,
    modifier_func: Any = None,
    shuffle_csr_indices: bool = False,
    distribution: str | None = None,
    ctx: Context | None = None,
) -> NDArray:
    """A uniformly distributed array in [-1, 1). MXNetError for sparse storage."""
    if stype != "default":
        raise MXNetError(f"storage type {stype!r}: hybridjit has dense arrays only")
    return nd.array(np.random.uniform(-1, 1, shape), ctx, dtype or np.float32)


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A shape with sizes of 1 (or 0) to ``dim``."""
    least = 0 if allow_zero_size else 1
    return tuple(int(size) for size in np.random.randint(least, dim + 1, size=num_dim))


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    return _rand_shape((dim0, dim1), allow_zero_size)


def rand_shape_3d(
    dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False
) -> tuple[int, ...]:
    return _rand_shape((dim0, dim1, dim2), allow_zero_size)


def _rand_shape(largest: tuple[int, ...], allow_zero_size: bool) -> tuple[int, ...]:
    return tuple(rand_shape_nd(1, size, allow_zero_size)[0] for size in largest)


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[int, int]:
    return (
        np.random.randint(x_low, x_high, dtype=np.int64),  # type: ignore[return-value]
        np.random.randint(y_low, y_high, dtype=np.int64),
    )


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """0, 1, ... below ``size``."""
    return nd.arange(0, size, dtype=dtype)


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """Every row filled with its number."""
    return nd.broadcast_to(nd.arange(0, rows, dtype=dtype).reshape((rows, 1)), (rows, columns))


def np_reduce(
    dat: np.ndarray, axis: Any, keepdims: bool, numpy_reduce_func: Callable[..., Any]
) -> np.ndarray:
    """``numpy_reduce_func`` along one axis or several."""
    axes = range(dat.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    found = dat
    for each in sorted((a % dat.ndim for a in axes), reverse=True):
        found = numpy_reduce_func(found, axis=each)
        if keepdims:
            found = np.expand_dims(found, each)
    return np.asarray(found)

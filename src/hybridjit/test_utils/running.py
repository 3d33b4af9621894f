"""Running Symbols and nets against what was expected, and tests again, or in an environment.

In: a Symbol or a way to make a net, and arrays. Out: outputs, or an AssertionError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import nd
from ..context import Context
from ..gluon.hybrid_block import HybridBlock
from ..nd import NDArray
from ..sym import Symbol
from ..types import DType
from .comparing import Tolerance, assert_almost_equal

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


Located: TypeAlias = "Mapping[str, ArrayLike] | Sequence[ArrayLike]"


def simple_forward(
    sym: Symbol, ctx: Context | None = None, is_train: bool = False, **inputs: np.ndarray
) -> np.ndarray | list[np.ndarray]:
    """The outputs of a Symbol for NumPy arrays by name; a lone one without its list."""
    arrays = {name: nd.array(values) for name, values in inputs.items()}
    found = [out.asnumpy() for out in sym.bind(ctx, arrays).forward(is_train)]
    return found[0] if len(found) == 1 else found


def check_symbolic_forward(
    sym: Symbol,
    location: Located,
    expected: Located,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    aux_states: Located | None = None,
    ctx: Context | None = None,
    equal_nan: bool = False,
    dtype: DType = np.float32,
) -> list[NDArray]:
    """Run a Symbol on ``location`` (arrays by name or in order) and compare with ``expected``."""
    args = located(sym.list_arguments(), location, ctx, dtype, "arguments")
    aux = located(sym.list_auxiliary_states(), aux_states or {}, ctx, dtype, "aux_states")
    outputs = sym.bind(ctx, args, aux_states=aux).forward()
    names = sym.list_outputs()
    wanted = [expected[name] for name in names] if isinstance(expected, dict) else expected
    for name, value, found in zip(names, wanted, outputs):
        pair = (f"EXPECTED_{name}", f"FORWARD_{name}")
        assert_almost_equal(value, found, rtol, atol, pair, equal_nan)
    return outputs


def located(
    names: list[str], given: Located, ctx: Context | None, dtype: DType, what: str
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
    net_builder: Callable[[], HybridBlock],
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


def list_gpus() -> range:
    """No GPUs."""
    return range(0)


def retry(n: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: a test of random values may fail all but once in ``n`` times."""
    assert n > 0, f"retry takes a positive number, got {n}"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def attempt(*args: object, **kwargs: object) -> None:
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


@contextmanager
def discard_stderr() -> Iterator[None]:
    """Nothing that this process writes to stderr appears, native code's lines included."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(value)

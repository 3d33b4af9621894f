"""Running Symbols and networks with comparison, and decorators and contexts for tests.

Input: a Symbol or a function that makes a network, and arrays. Output: outputs, or an
AssertionError.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import autograd, nd
from .._core.types import DType
from ..context import Context
from ..gluon.hybrid_block import HybridBlock
from ..nd import NDArray
from ..sym import Symbol
from ..sym.executor import Executor
from .comparing import Tolerance, assert_almost_equal

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


Located: TypeAlias = "Mapping[str, ArrayLike] | Sequence[ArrayLike]"


def simple_forward(
    sym: Symbol, ctx: Context | None = None, is_train: bool = False, **inputs: np.ndarray
) -> np.ndarray | list[np.ndarray]:
    """The outputs of a Symbol for NumPy arrays by name; a single one without a list."""
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
    """Arrays by name. Raises ValueError if a dictionary has other names."""
    if isinstance(given, dict) and set(given) != set(names):
        raise ValueError(f"{what} of the symbol are {names}, got {list(given)}")
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
    """Check that the hybridized network equals the eager network, and ``numpy_func``.

    With ``test_grad`` also compare the gradients of the data, with the outputs as output gradients.
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
    if test_grad:
        for found, wanted in zip(_gradients(hybrid, data_l), _gradients(eager, data_l)):
            assert_almost_equal(found, wanted, rtol, atol)  # type: ignore[arg-type]
    if numpy_func is not None:
        numbers = numpy_func(*[array.asnumpy() for array in data_l])
        assert_almost_equal(expected, numbers, rtol, atol)


def _gradients(net: HybridBlock, data: list[NDArray]) -> list[NDArray | None]:
    """Gradients with respect to the data, with the outputs as output gradients."""
    data = [array.copy() for array in data]
    for array in data:
        array.attach_grad()
    with autograd.record():
        out = net(*data)
    out.backward(out)
    return [array.grad for array in data]


def check_speed(
    sym: Symbol,
    location: Mapping[str, np.ndarray] | None = None,
    ctx: Context | None = None,
    N: int = 20,
    grad_req: str | None = None,
    typ: str = "whole",
    **kwargs: object,
) -> float:
    """Seconds of one forward, including backward unless ``typ`` is "forward".

    Runs on ``location``, or on random arrays with the shapes in ``kwargs``. Raises ValueError
    for another ``typ``.
    """
    if typ not in ("whole", "forward"):
        raise ValueError(f'typ can only be "whole" or "forward", got {typ!r}')
    shapes = kwargs if location is None else {k: v.shape for k, v in location.items()}
    executor = sym.simple_bind(ctx, grad_req or "write", **shapes)
    for name, array in executor.arg_dict.items():
        if location is None:
            array[:] = np.random.normal(size=array.shape)
        elif name in location:
            array[:] = location[name]
    _run_once(executor, typ)
    start = time.perf_counter()
    for _ in range(N):
        _run_once(executor, typ)
    return (time.perf_counter() - start) / N


def _run_once(executor: Executor, typ: str) -> None:
    outputs = executor.forward(is_train=typ == "whole")
    if typ == "whole":
        executor.backward(outputs)


def list_gpus() -> range:
    """No GPUs."""
    return range(0)


def is_aarch64_run() -> bool:
    """Whether this is an AArch64 machine."""
    return platform.machine() == "aarch64"


def retry(n: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: a test of random values may fail up to ``n`` - 1 times of ``n``."""
    assert n > 0, f"retry needs a positive number, got {n}"

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
    """Suppress output of this process to stderr, including that of native code."""
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

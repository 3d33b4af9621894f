"""Checks of a Symbol's gradients: against given values, and against finite differences.

Input: a Symbol and arrays. Output: gradients by argument, or an AssertionError that shows the
differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import nd, sym
from .._core.types import DType
from ..context import Context
from ..nd import NDArray
from ..sym import Symbol
from ..sym.binding import requests_by_name
from ..sym.executor import Executor
from .comparing import Tolerance, assert_almost_equal
from .running import Located, located

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Step of finite differences by element type: powers of two near the cube root of the type's
# precision.
_STEPS: dict[np.dtype, float] = {
    np.dtype(np.float16): 2.0**-6,
    np.dtype(np.float32): 2.0**-9,
    np.dtype(np.float64): 2.0**-14,
}
_PROJECTION = "__random_proj"


def default_numeric_eps() -> dict[np.dtype, float]:
    """Steps of finite differences, by element type."""
    return dict(_STEPS)


def check_symbolic_backward(
    sym: Symbol,
    location: Located,
    out_grads: object,
    expected: Located,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    aux_states: Located | None = None,
    grad_req: str | Sequence[str] | Mapping[str, str] = "write",
    ctx: Context | None = None,
    grad_stypes: Mapping[str, str] | None = None,
    equal_nan: bool = False,
    dtype: DType = np.float32,
) -> dict[str, NDArray | None]:
    """Compare the gradients of arguments with ``expected``, by name or in order.

    Gradients initially contain random values, to which "add" adds and which "null" keeps. Those
    named by ``grad_stypes`` have that storage type, and are initially empty.
    """
    names = sym.list_arguments()
    args = located(names, location, ctx, dtype, "arguments")
    aux = located(sym.list_auxiliary_states(), aux_states or {}, ctx, dtype, "aux_states")
    wanted = expected if isinstance(expected, Mapping) else dict(zip(names, expected))
    before = {n: _start(args[n], (grad_stypes or {}).get(n)) for n in wanted}
    grads = {name: array.copy() for name, array in before.items()}
    requests = requests_by_name(names, grad_req)
    executor = sym.bind(ctx, args, grads, requests, aux)
    executor.forward(is_train=True)
    executor.backward(_heads(out_grads, executor, ctx, dtype))
    for name, value in wanted.items():
        start = before[name].asnumpy()
        right = {"write": value, "add": start + _values(value), "null": start}[requests[name]]
        pair = (f"EXPECTED_{name}", f"BACKWARD_{name}")
        assert_almost_equal(_values(right), grads[name], rtol, atol, pair, equal_nan)
    return dict(executor.grad_dict)


def check_numeric_gradient(
    sym: Symbol,
    location: Located,
    aux_states: Located | None = None,
    numeric_eps: float | None = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    grad_nodes: Any = None,
    use_forward_train: bool = True,
    ctx: Context | None = None,
    grad_stype_dict: Mapping[str, str] | None = None,
    dtype: DType = np.float32,
) -> None:
    """Compare gradients with finite differences of the sum of outputs times random numbers.

    ``grad_nodes`` are the arguments to compare, by default all; a dictionary maps them to
    ``grad_req``. Raises ValueError for a Symbol with several outputs.
    """
    names = sym.list_arguments()
    args = located(names, location, ctx, dtype, "arguments")
    aux = located(sym.list_auxiliary_states(), aux_states or {}, ctx, dtype, "aux_states")
    requests = dict(grad_nodes) if isinstance(grad_nodes, Mapping) else None
    if requests is None:
        requests = dict.fromkeys(names if grad_nodes is None else grad_nodes, "write")
    executor, start = _projected(sym, args, aux, requests, ctx, grad_stype_dict or {})
    states = {name: array.copy() for name, array in executor.aux_dict.items()}
    executor.forward(is_train=True)
    executor.backward()
    for name, array in states.items():
        executor.aux_dict[name][:] = array
    for name, request in requests.items():
        slope = numeric_grad(executor, {name: args[name]}, None, numeric_eps, use_forward_train)
        before = start[name].asnumpy()
        right = {"write": slope[name], "add": slope[name] + before, "null": before}[request]
        pair = (f"NUMERICAL_{name}", f"BACKWARD_{name}")
        found = executor.grad_dict[name]
        assert found is not None
        assert_almost_equal(right, found.asnumpy(), rtol, atol, pair)


def numeric_grad(
    executor: Executor,
    location: Mapping[str, NDArray],
    aux_states: Mapping[str, NDArray] | None = None,
    eps: float | None = None,
    use_forward_train: bool = True,
    dtype: DType = np.float32,
) -> dict[str, np.ndarray]:
    """Central differences of the sum of an executor's only output, by each element of ``location``.

    Auxiliary states are reset before each evaluation.
    """
    given = executor.aux_dict if aux_states is None else aux_states
    states = {name: array.copy() for name, array in given.items()}

    def value() -> np.ndarray:
        for name, array in states.items():
            executor.aux_dict[name][:] = array
        return executor.forward(is_train=use_forward_train)[0].asnumpy().astype(np.float64)

    return {name: _differences(executor.arg_dict[name], value, eps) for name in location}


def _differences(array: NDArray, value: Any, eps: float | None) -> np.ndarray:
    base = array.asnumpy()
    step = _STEPS.get(base.dtype, 1e-4) if eps is None else eps
    found = np.zeros(base.shape, base.dtype)
    for place in np.ndindex(*base.shape):
        ends = []
        for sign in (0.5, -0.5):
            moved = base.copy()
            moved[place] += sign * step
            array[:] = moved
            ends.append(value())
        found[place] = (
            ends[0] - ends[1]
        ).sum() / step  # subtract before summing: the sums would round
    array[:] = base
    return found


def _projected(
    symbol: Symbol,
    args: dict[str, NDArray],
    aux: dict[str, NDArray],
    requests: Mapping[str, str],
    ctx: Context | None,
    stypes: Mapping[str, str],
) -> tuple[Executor, dict[str, NDArray]]:
    """An executor of the loss output * random numbers, and the initial values of its gradients."""
    if len(symbol.list_outputs()) != 1:
        raise ValueError(f"the Symbol must have one output, got {symbol.list_outputs()}")
    shapes = {name: array.shape for name, array in args.items()}
    (shape,) = symbol.infer_shape(**shapes)[1]
    kind = next(iter(args.values())).dtype
    loss = sym.make_loss(symbol * sym.var(_PROJECTION))
    plane = np.random.uniform(0.1, 1.0, shape)
    bound = {**args, _PROJECTION: nd.array(plane, ctx, kind)}
    grads = {n: _start(args[n], stypes.get(n)) for n in requests}
    start = {name: array.copy() for name, array in grads.items()}
    return loss.bind(ctx, bound, grads, dict(requests), aux), start


def _start(array: NDArray, stype: str | None) -> NDArray:
    """Initial value of a gradient: random, but empty if sparse."""
    if stype in (None, "default"):
        return nd.random.normal(shape=array.shape).astype(array.dtype)
    return nd.zeros(array.shape, array.context, array.dtype, stype)


def _heads(
    given: Any, executor: Executor, ctx: Context | None, dtype: DType
) -> NDArray | list[NDArray] | dict[str, NDArray] | None:
    if given is None or isinstance(given, NDArray):
        return given
    if isinstance(given, Mapping):
        return {name: _array(value, ctx, dtype) for name, value in given.items()}
    return [_array(value, ctx, dtype) for value in given]


def _array(value: ArrayLike, ctx: Context | None, dtype: DType) -> NDArray:
    if isinstance(value, NDArray):
        return value
    keeps = isinstance(dtype, str)
    return nd.array(value, ctx, np.asarray(value).dtype if keeps else dtype)


def _values(value: object) -> np.ndarray:
    return value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)

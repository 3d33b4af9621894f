"""Whether a Symbol computes equal results in several ways: element types, contexts, variants.

Input: a Symbol and arguments for binding. Output: the arrays of reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import nd
from .._core.types import DType
from ..nd import NDArray
from ..sym import Symbol
from ..sym.executor import Executor, Requests
from .comparing import Tolerance, assert_almost_equal, get_tols

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def check_consistency(
    sym: Symbol | Sequence[Symbol],
    ctx_list: Sequence[Mapping[str, Any]],
    scale: float = 1.0,
    grad_req: Requests = "write",
    arg_params: dict[str, ArrayLike] | None = None,
    aux_params: dict[str, ArrayLike] | None = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    raise_on_err: bool = True,
    ground_truth: Mapping[str, NDArray] | None = None,
    equal_nan: bool = False,
    use_uniform: bool = False,
    rand_type: DType = np.float64,
) -> Mapping[str, NDArray | None]:
    """Check that one Symbol bound in several ways, or several Symbols, compute equal results.

    Each element of ``ctx_list`` has arguments of ``simple_bind``: a context, shapes, ``type_dict``.
    Arguments missing in ``arg_params`` are drawn at random and added to it. Outputs, then outputs
    in training and gradients, are compared with ``ground_truth``, by default those of the executor
    with the widest element type, which are returned. Raises AssertionError if they differ, or
    prints the difference unless ``raise_on_err``.
    """
    assert len(ctx_list) > 1, f"check_consistency needs at least two contexts, got {len(ctx_list)}"
    symbols = [sym] * len(ctx_list) if isinstance(sym, Symbol) else list(sym)
    assert len(symbols) == len(ctx_list), f"{len(symbols)} symbols for {len(ctx_list)} contexts"
    for other in symbols[1:]:
        assert other.list_arguments() == symbols[0].list_arguments(), "other arguments"
        assert other.list_outputs() == symbols[0].list_outputs(), "outputs of other names"
    executors = [s.simple_bind(grad_req=grad_req, **ctx) for s, ctx in zip(symbols, ctx_list)]
    args, aux = arg_params if arg_params is not None else {}, aux_params or {}
    _draw_missing(args, executors[0], scale, use_uniform, np.dtype(rand_type))
    for executor in executors:
        _fill(executor, args, aux)
    types = [executor.outputs[0].dtype for executor in executors]
    best = int(np.argmax([_bytes(t) for t in types]))
    own: dict[str, NDArray | None] = dict(executors[best].output_dict)
    own.update(executors[best].grad_dict)
    truth: Mapping[str, NDArray | None] = ground_truth or own
    tolerances = (rtol, atol, equal_nan, raise_on_err)
    rest = [(e, t) for e, t in zip(executors, types) if e is not executors[best]]
    for executor in executors:
        executor.forward(is_train=False)
    for executor, _ in rest:
        _compare_all(executor.output_dict, truth, (), tolerances)
    if grad_req != "null":
        _step_all(executors)
        for executor, kind in rest:
            found = {**executor.output_dict, **executor.grad_dict}
            _compare_all(found, truth, (kind, types[best]), tolerances)
    return truth


def _draw_missing(
    args: dict[str, ArrayLike], executor: Executor, scale: float, is_uniform: bool, dtype: np.dtype
) -> None:
    """Random values for the missing arguments, in the order of their names."""
    for name, array in sorted(executor.arg_dict.items()):
        if name not in args:
            bound = 0.92 * scale
            drawn = (
                np.random.uniform(-bound, bound, array.shape)
                if is_uniform
                else np.random.normal(size=array.shape, scale=scale)
            )
            args[name] = drawn.astype(dtype)


def _fill(executor: Executor, args: Mapping[str, ArrayLike], aux: Mapping[str, ArrayLike]) -> None:
    for name, array in executor.arg_dict.items():
        array[:] = args[name]
    for name, array in executor.aux_dict.items():
        array[:] = aux.get(name, 0)


def _step_all(executors: Sequence[Executor]) -> None:
    """Forward and backward of all; the output gradients are the first one's outputs, rounded to
    the coarsest of all element types."""
    for executor in executors:
        executor.forward(is_train=True)
    heads = []
    for outputs in zip(*(executor.outputs for executor in executors)):
        kind = min((out.dtype for out in outputs), key=_bytes)
        heads.append(outputs[0].astype(kind).asnumpy())
    for executor in executors:
        given = [nd.array(h, out.context, out.dtype) for h, out in zip(heads, executor.outputs)]
        executor.backward(given)


def _compare_all(
    found: Mapping[str, NDArray | None],
    truth: Mapping[str, NDArray | None],
    kinds: Sequence[DType],
    tolerances: tuple[Tolerance, Tolerance, bool, bool],
) -> None:
    """Compare every array with the reference, in the precision of the coarsest type involved."""
    rtol, atol, equal_nan, raises = tolerances
    for name, array in found.items():
        wanted = truth[name]
        if wanted is None or array is None:
            assert wanted is array, f"{name} has a gradient in one executor only"
            continue
        exact = (rtol, atol)
        coarse = min([array.dtype, wanted.dtype, *kinds], key=_bytes)
        if kinds and _bytes(coarse) < min(map(_bytes, (array.dtype, wanted.dtype))):
            exact = get_tols(array.astype(coarse), wanted.astype(coarse), rtol, atol)
        try:
            assert_almost_equal(array, wanted, *exact, (name, name), equal_nan)
        except AssertionError as error:
            if raises:
                raise
            print(error)


def _bytes(dtype: DType) -> int:
    return np.dtype(dtype).itemsize

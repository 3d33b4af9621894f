"""Executors of symbols: for given arrays, or for new ones whose shapes are inferred.

Input: a Symbol, arrays or shapes by name, requests for gradients. Output: an :class:`Executor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .._core.async_safety import restoring
from .._core.recording import FLAGS, predict_mode
from .._core.shapes import partial_shape
from .._core.types import DType, TensorType
from ..context import Context, current_context
from ..ir.node import topological
from ..nd import NDArray, empty
from ..nd.sparse_dispatch import sparse_arrays
from ..nd.tape import REQUESTS
from ..nd.taped import untouched_zeros
from ..passes.infer import NodeTypes, infer_node_types
from .executor import Arrays, Executor, Requests, makes_any_sparse
from .outputs import Outputs, declared_stypes


def bind(
    symbol: Outputs,
    ctx: Context | None,
    args: Arrays,
    aux_states: Arrays | None,
    args_grad: Arrays | None = None,
    grad_req: Requests = "write",
) -> Executor:
    """Make an Executor for these arrays, with gradients written to those of ``args_grad``.

    Raises ValueError if an array is missing or ``grad_req`` has an unknown value.
    """
    names = symbol.list_arguments()
    given = args_grad or {}
    if not isinstance(given, Mapping):
        given = {n: a for n, a in _by_name("args_grad", names, given).items() if a is not None}
    return Executor(
        symbol,
        ctx or current_context(),
        _by_name("args", names, args),
        _by_name("aux_states", symbol.list_auxiliary_states(), aux_states or {}),
        given,
        requests_by_name(names, grad_req),
    )


def requests_by_name(names: Sequence[str], given: Requests) -> dict[str, str]:
    """``grad_req`` of each argument: "write", "add" or "null", the default of absent names.

    Raises ValueError for another word, or for a list of another length.
    """
    if isinstance(given, str):
        found = dict.fromkeys(names, given)
    elif isinstance(given, Mapping):
        found = {name: given.get(name, "null") for name in names}
    elif len(given) != len(names):
        raise ValueError(f"grad_req has {len(given)} words for {len(names)} arguments")
    else:
        found = dict(zip(names, given))
    for name, word in found.items():
        if word not in REQUESTS:
            raise ValueError(f"grad_req of {name} must be 'write', 'add' or 'null', got {word!r}")
    return found


@restoring(FLAGS)
def evaluate(symbol: Outputs, ctx: Context | None, args: Mapping[str, NDArray]) -> list[NDArray]:
    """The outputs for these arrays, without compiling. Raises ValueError when one is missing."""
    aux = {name: args[name] for name in symbol.list_auxiliary_states() if name in args}
    with predict_mode():
        found = bind(symbol, ctx, args, aux).interpreted()
    return [y._of_kind(NDArray) for y in found]


def simple_bind(
    symbol: Outputs,
    ctx: Context | None,
    type_dict: Mapping[str, DType] | None,
    stype_dict: Mapping[str, object] | None,
    shapes: Mapping[str, object],
    grad_req: Requests = "write",
    groups: Mapping[str, Context] | None = None,
) -> Executor:
    """Make an Executor with new arrays and gradients of zeros.

    A variable whose ``ctx_group`` is in ``groups`` is on that context. Raises RuntimeError if the
    shape of a variable cannot be inferred.

    Entries of ``shapes`` that are not tuples or lists are ignored, because programs for MXNet pass
    options there. ``stype_dict`` or the variables decide how arrays are stored; storage types of
    gradients are inferred as in MXNet.
    """
    stypes = declared_stypes(symbol, stype_dict)
    dtypes = {name: np.dtype(dtype) for name, dtype in (type_dict or {}).items()}
    given = {name: shape for name, shape in shapes.items() if isinstance(shape, (tuple, list))}
    sizes = {name: partial_shape(shape) for name, shape in given.items()}
    known = {n: TensorType(sizes.get(n), dtypes.get(n)) for n in {**sizes, **dtypes}}
    types = infer_node_types(symbol.outputs, known)
    place = ctx or current_context()
    arrays = {}
    for node in topological(symbol.outputs):
        if node.op is None:
            (t,) = types[node]
            if not t.is_known:
                raise RuntimeError(
                    f"simple_bind error. Arguments: {dict(shapes)} do not decide the shape of "
                    f"{node.name}"
                )
            there = (groups or {}).get(node.text.get("__ctx_group__", ""), place)
            arrays[node.name] = empty(t.dims, there, t.dtype, stypes.get(node.name))
    args = {name: arrays[name] for name in symbol.list_arguments()}
    aux = {name: arrays[name] for name in symbol.list_auxiliary_states()}
    try:
        requests = requests_by_name(list(args), grad_req)
    except ValueError as error:
        raise RuntimeError(f"simple_bind error. {error}") from None
    stored = gradient_stypes(symbol, types, stypes)
    grads = {
        name: untouched_zeros(array, stored.get(name, "default"))
        for name, array in args.items()
        if requests[name] != "null"
    }
    return Executor(symbol, place, args, aux, grads, requests)


def gradient_stypes(
    symbol: Outputs, types: NodeTypes, stypes: Mapping[str, str]
) -> Mapping[str, str]:
    """Storage types of the gradients, inferred as in MXNet; empty if all are dense."""
    if not stypes and not makes_any_sparse(symbol.outputs):
        return {}
    return sparse_arrays().StorageTypes(symbol.outputs, types, stypes).gradients()


def _by_name(what: str, names: list[str], arrays: Arrays) -> dict[str, NDArray]:
    if isinstance(arrays, Mapping):
        for name in names:
            if name not in arrays:
                raise ValueError(f"key `{name}` is missing in `{what}`")
        return {name: arrays[name] for name in names}
    if len(arrays) != len(names):
        raise ValueError(
            f"Length of {what} does not match the number of arguments: {len(arrays)} arrays for "
            f"{', '.join(names)}"
        )
    return dict(zip(names, arrays))

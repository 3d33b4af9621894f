"""Deferred shapes of parameters, inferred from the first inputs.

Input: a graph, the types of its inputs, its parameters. Output: parameters with known shapes. A
failed inference changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from .._core.shapes import is_np_array, is_np_shape
from .._core.types import Shape, TensorType, is_known_shape
from ..errors import DTypeError, ShapeError
from ..ir.node import Output
from ..passes.infer import infer_node_types
from .parameter import Parameter
from .parameter.single import is_known

_FAILED = "Deferred initialization failed because shape cannot be inferred."


@contextmanager
def deferred_failures() -> Iterator[None]:
    """Convert any exception of shape inference to ValueError, as MXNet does.

    This includes exceptions of the block's ``hybrid_forward``, which is traced.
    """
    try:
        yield
    except Exception as error:
        is_type_error = (
            isinstance(error, DTypeError) and is_np_array()
        )  # raised in execution instead
        if str(error).startswith(_FAILED) or is_type_error:
            raise
        raise ValueError(f"{_FAILED} {type(error).__name__}: {error}") from error


def finish_deferred(
    outputs: Sequence[Output], inputs: Mapping[str, TensorType], params: Mapping[str, Parameter]
) -> None:
    """Initialise the deferred parameters among ``params`` from the types of the inputs.

    Raises ValueError if shapes cannot be inferred, DTypeError if dtypes are inconsistent.
    """
    set_shapes(outputs, inputs, params)
    for param in params.values():
        param._finish_deferred_init()


def set_shapes(
    outputs: Sequence[Output],
    inputs: Mapping[str, TensorType],
    params: Mapping[str, Parameter],
    needed: Iterable[Parameter] = (),
) -> None:
    """Set the shape of every parameter in the graph by inference from the inputs.

    Raises ValueError if the shape of a parameter there or in ``needed`` cannot be inferred.
    """
    try:
        found = variable_types(outputs, inputs, params)
    except ShapeError as error:
        raise ValueError(_failure(str(error), inputs)) from None  # the message is complete
    shapes = {
        name: param.shape if _is_decided(param) else _known_dims(found.get(name))
        for name, param in params.items()
    }
    unknown = [name for name, shape in shapes.items() if shape is None]
    unknown += [p.name for p in needed if p.name not in shapes and not is_known(p.shape)]
    if unknown:
        raise ValueError(_failure(f"Nothing determines the shape of {', '.join(unknown)}", inputs))
    for name, shape in shapes.items():
        if shape is not None:
            params[name].shape = shape


def variable_types(
    outputs: Sequence[Output], inputs: Mapping[str, TensorType], params: Mapping[str, Parameter]
) -> dict[str, TensorType]:
    """The types of all variables in the graph that can be inferred."""
    known = {name: partial_type(param) for name, param in params.items()} | dict(inputs)
    types = infer_node_types(outputs, known)
    return {node.name: types[node][0] for node in types if node.is_variable}


def _is_decided(param: Parameter) -> bool:
    """Whether the shape is final: an array of it may have no elements."""
    return param.is_initialized or is_known(param.shape)


def partial_type(param: Parameter) -> TensorType:
    """Known type of a parameter; without an array, sizes below 1 are unknown."""
    if param.is_initialized:
        return TensorType(param.list_data()[0].shape, param.array_dtype)
    shape = param.shape
    if shape is None or not shape and not is_np_shape():
        return TensorType(None, param.array_dtype)
    return TensorType(tuple(s if s > 0 else None for s in shape), param.array_dtype)


def _known_dims(found: TensorType | None) -> Shape | None:
    return found.dims if found is not None and is_known_shape(found.shape) else None


def _failure(reason: str, inputs: Mapping[str, TensorType]) -> str:
    given = ", ".join(f"{name} {type_}" for name, type_ in inputs.items())
    return f"{_FAILED} {reason}\n  Arguments: {given}"

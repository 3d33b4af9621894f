"""Checks of a hybrid block's calls, and the relation of its graph to arrays and parameters.

In: arguments, the trace of a block, its parameters. Out: types and parameters by name; warnings and
errors for calls that the graph cannot serve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .._core.frames import warn
from .._core.types import TensorType, type_of
from ..errors import DTypeError, ShapeError
from ..nd import NDArray
from ..nd.memory import DENSE_KINDS
from .parameter import Parameter, ParameterDict
from .structure import Format, flatten, same_arguments
from .trace import Trace


def on_one_context(arrays: tuple[object, ...]) -> bool:
    """Whether all are dense NDArrays on the context of the first."""
    ctx = None
    for array in arrays:
        if type(array) not in DENSE_KINDS:
            return False
        assert isinstance(array, NDArray)
        if ctx is None:
            ctx = array._ctx
        elif array._ctx is not ctx and array._ctx != ctx:
            return False
    return True


def require_one_context(tensors: list[NDArray]) -> None:
    """Raise ValueError unless all are on one context."""
    first = tensors[0].context
    if any(tensor.context != first for tensor in tensors):
        found = sorted({str(tensor.context) for tensor in tensors})
        raise ValueError(
            "Find multiple contexts in the input, After hybridized, the HybridBlock only supports "
            f"one input context. Find all contexts = {found}"
        )


def check_structure(traced: Trace, form: Format) -> None:
    """Raise ValueError for arguments of another structure than the traced ones."""
    if not same_arguments(traced.in_format, form):
        raise ValueError(
            "The argument structure of HybridBlock does not match the cached version. "
            f"Stored format = {traced.in_format}, input format = {form}; the inputs are "
            f"{', '.join(traced.input_names)}"
        )


def check_outputs(wanted: list[NDArray], given: list[NDArray]) -> None:
    """Raise ShapeError, DTypeError or ValueError unless ``given`` can hold the outputs."""
    if len(wanted) != len(given):
        raise ValueError(f"the block has {len(wanted)} outputs, out has {len(given)}")
    for right, array in zip(wanted, given):
        if right.shape != array.shape:
            raise ShapeError(f"out has shape {array.shape}, the output has {right.shape}")
        if right.dtype != array.dtype:
            names = (np.dtype(array.dtype).name, np.dtype(right.dtype).name)
            raise DTypeError(f"out has dtype {names[0]}, the output has {names[1]}")


def explain_missing_argument(error: TypeError, params: Mapping[str, object]) -> None:
    """Add the remedy to the error of a ``hybrid_forward`` that does not take its parameters."""
    for name in params:
        if f"hybrid_forward() got an unexpected keyword argument '{name}'" in str(error):
            error.args = (
                f"{error}: {name} is a parameter of the block, and hybrid_forward takes each "
                f"by its name: def hybrid_forward(self, F, x, {', '.join(params)})",
            )


def params_in(traced: Trace, params: ParameterDict) -> dict[str, Parameter]:
    """The parameters that the graph reads. Raises AssertionError for an unknown variable."""
    inputs = set(traced.input_names)
    found = {}
    for name in traced.symbol.list_inputs():
        if name not in inputs:
            assert name in params, (
                f"Unknown input to HybridBlock: {name}: a parameter that does not belong to the "
                "block or its children, or an input that the call of an operator left out. Layers "
                "are made in __init__; blocks in a list, tuple or dict are not children: register "
                "them with register_child, or use HybridSequential"
            )
            found[name] = params[name]
    return found


def input_types(traced: Trace, args: Sequence[object]) -> Mapping[str, TensorType]:
    """Types of the arguments by the names of the inputs."""
    flat, _ = flatten(args, "input")
    return dict(zip(traced.input_names, (type_of(a._data) for a in flat if a is not None)))


def data_of(named: Mapping[str, NDArray]) -> dict[str, np.ndarray]:
    """NumPy arrays by the same names."""
    return {name: array._data for name, array in named.items()}


def warn_unused(traced: Trace, params: ParameterDict) -> None:
    """Warn of inputs and parameters that the graph does not read."""
    used = set(traced.symbol.list_inputs())
    inputs = [str(i) for i, name in enumerate(traced.input_names) if name not in used]
    if inputs:
        warn(
            f"The {','.join(inputs)}-th input to HybridBlock is not used by any computation. "
            "Is this intended?"
        )
    unused = [name for name in params if name not in used]
    if unused:
        warn(f"Parameter {', '.join(unused)} is not used by any computation. Is this intended?")

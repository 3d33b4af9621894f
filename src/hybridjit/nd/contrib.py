"""``nd.contrib``: control flow on arrays, tests for special values, and contributed operators.

The operators are filled in from the registry. The control flow functions are Python loops; those of
``sym.contrib`` create nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ..context import Context
from ..errors import output_and_states
from ..ops.registry import lookup
from .creation import empty
from .ndarray import NDArray, invoke
from .random import uniform
from .updates import adamw_update as adamw_update
from .updates import mp_adamw_update as mp_adamw_update
from .updates import multi_adamw_update as multi_adamw_update
from .updates import multi_lamb_update as multi_lamb_update
from .updates import multi_mp_adamw_update as multi_mp_adamw_update
from .updates import multi_mp_lamb_update as multi_mp_lamb_update

if TYPE_CHECKING:
    from typing import SupportsInt

    def __getattr__(name: str) -> Any: ...


Nested: TypeAlias = Any  # an NDArray, or nested lists of them
Nesting: TypeAlias = "list[tuple[int, Nesting]] | None"  # None for an array


def foreach(
    body: Callable[[Nested, Nested], tuple[Nested, Nested]], data: Nested, init_states: Nested
) -> tuple[Nested, Nested]:
    """Loop ``output, states = body(row, states)`` over ``data``: stacked outputs, states.

    Rows are along axis 0; ``data``, outputs and states are arrays or nested lists of them.
    """
    arrays, shape = _flattened(data)
    states, steps = init_states, []
    for i in range(len(arrays[0])):
        made = body(_rebuilt(shape, [array[i] for array in arrays]), states)
        output, states = output_and_states(made)
        steps.append(output)
    return _stacked(steps, len(steps)), states


def while_loop(
    cond: Callable[..., object],
    func: Callable[..., tuple[Nested, Nested]],
    loop_vars: Nested,
    max_iterations: int | None = None,
) -> tuple[Nested, Nested]:
    """Loop ``output, vars = func(*vars)`` while ``cond(*vars)``: stacked outputs, variables.

    Outputs have ``max_iterations`` rows, padded with 0; without any step the list of outputs is
    empty. Raises ValueError without ``max_iterations`` or variables, and if ``func`` changes the
    count of variables.
    """
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    most, is_list = _whole(max_iterations), isinstance(loop_vars, (list, tuple))
    variables = loop_vars if is_list else [loop_vars]
    if not variables:
        raise ValueError("loop_vars should contain at least one element")
    steps: list[Nested] = []
    while len(steps) < most and cond(*variables):
        output, after = func(*variables)
        after = after if isinstance(after, (list, tuple)) else [after]
        if len(after) != len(variables):
            raise ValueError("The length of loop_vars should be consistent during the loop")
        steps.append([] if output is None else output)
        variables = after
    return _stacked(steps, most) if steps else [], list(variables) if is_list else variables[0]


def _whole(max_iterations: SupportsInt) -> int:
    try:
        return int(max_iterations)
    except (TypeError, ValueError):
        raise ValueError("Cannot convert max_iteration to python int") from None


def cond(
    pred: NDArray | float, then_func: Callable[[], Nested], else_func: Callable[[], Nested]
) -> Nested:
    """``then_func()`` if ``pred`` (one element) is nonzero, else ``else_func()``."""
    return then_func() if bool(pred) else else_func()


def isnan(data: NDArray) -> NDArray:
    """1 where the element is NaN, else 0."""
    return data != data


def isinf(data: NDArray) -> NDArray:
    """1 where the element is infinite, else 0."""
    return invoke(lookup("abs"), (data,), {}) == math.inf


def isfinite(data: NDArray) -> NDArray:
    """1 where the element is finite, else 0."""
    return (data == data) * (invoke(lookup("abs"), (data,), {}) != math.inf)


def rand_zipfian(
    true_classes: NDArray, num_sampled: int, range_max: int, ctx: Context | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """Classes drawn from a log-uniform distribution below ``range_max``, and expected counts.

    P(class) = (log(class + 2) - log(class + 1)) / log(range_max + 1).
    """
    log_range = math.log(range_max + 1)
    drawn = uniform(0, log_range, shape=(num_sampled,), dtype="float64", ctx=ctx)
    sampled = (invoke(lookup("exp"), (drawn,), {}) - 1).astype("int64") % range_max
    counts = []
    for classes in (true_classes.astype("float64"), sampled.astype("float64")):
        share = invoke(lookup("log"), ((classes + 2.0) / (classes + 1.0),), {}) / log_range
        counts.append(share * num_sampled)
    return sampled, counts[0], counts[1]


def _flattened(nested: Nested) -> tuple[list[NDArray], Nesting]:
    """All arrays in order, and the nesting (None for an array)."""
    if not isinstance(nested, (list, tuple)):
        return [nested], None
    arrays: list[NDArray] = []
    shapes = []
    for member in nested:
        found, shape = _flattened(member)
        arrays += found
        shapes.append((len(found), shape))
    return arrays, shapes


def _rebuilt(shape: Nesting, arrays: list[NDArray]) -> Nested:
    """Restore the nesting that :func:`_flattened` returned."""
    if shape is None:
        return arrays[0]
    members, start = [], 0
    for count, inner in shape:
        members.append(_rebuilt(inner, arrays[start : start + count]))
        start += count
    return members


def _stacked(steps: list[Nested], rows: int) -> Nested:
    """Outputs of all steps stacked along a new first axis, padded with 0 to ``rows``."""
    flat = [_flattened(step)[0] for step in steps]
    columns = []
    for arrays in zip(*flat):
        missing = rows - len(arrays)
        padding = [empty(arrays[0].shape, arrays[0].ctx, arrays[0].dtype)] * missing
        column = [*arrays, *padding]
        columns.append(invoke(lookup("stack"), column, {"num_args": len(column)}))
    return _rebuilt(_flattened(steps[0])[1], columns)

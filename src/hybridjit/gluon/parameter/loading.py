"""Assignment of an array from a file to a parameter, after checks.

Input: a parameter in any state, an array. Output: the parameter initialised with it; an existing
array of the parameter is overwritten in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...context import Context, cpu
from .single import Parameter, as_list, fits


def load_value(
    param: Parameter,
    value: Any,
    ctx: Context | Sequence[Context] | None = None,
    cast_dtype: bool = False,
    dtype_source: str = "current",
) -> None:
    """Initialise or overwrite ``param`` with ``value``, a NumPy array or an NDArray.

    ``cast_dtype`` with ``dtype_source`` 'current' casts the array, with 'saved' the parameter.
    Raises AssertionError if the shape differs, if the dtype differs without ``cast_dtype``, and if
    the parameter is initialised on other contexts than ``ctx``.
    """
    assert not cast_dtype or dtype_source in ("current", "saved"), (
        f"dtype_source must be 'current' or 'saved', got {dtype_source!r}"
    )
    _check_shape(param, value.shape)
    adopted = _check_dtype(param, np.dtype(value.dtype), cast_dtype and dtype_source)
    contexts = _contexts(param, ctx)
    param.shape = value.shape
    if adopted is not None:
        param.dtype = adopted
    param.allocate(value, contexts)
    param.tell_trainer()


def _check_shape(param: Parameter, shape: tuple[int, ...]) -> None:
    assert param.shape is None or fits(param.shape, shape), (
        f"Failed loading Parameter '{param.name}' from saved params: shape incompatible "
        f"expected {param.shape} vs saved {shape}"
    )


def _check_dtype(param: Parameter, saved: np.dtype, cast_to: str | bool) -> type | None:
    """The dtype to which the parameter must be cast first, or None."""
    if param.dtype is None or np.dtype(param.dtype) == saved:
        return None if param.dtype is not None else saved.type
    assert cast_to, (
        f"Failed loading Parameter '{param.name}' from saved params: dtype incompatible "
        f"expected {param.dtype} vs saved {saved.type}. "
        "Set cast_dtype=True to cast the dtype of saved params."
    )
    return saved.type if cast_to == "saved" else None


def _contexts(param: Parameter, ctx: Context | Sequence[Context] | None) -> list[Context]:
    given = None if ctx is None else as_list(ctx)
    if param.is_initialized or param.is_deferred:
        present = param.list_ctx()
        assert given is None or set(given) == set(present), (
            f"Failed to load Parameter '{param.name}' on {given} because it was previous "
            f"initialized on {present}."
        )
        return present
    return given or [cpu()]


# Programs that parse checkpoints themselves call it as a method.
Parameter._load_init = load_value  # type: ignore[attr-defined]

"""Frontend that applies operators to arrays of NumPy mode for the functions of ``mx.np``."""

from __future__ import annotations

from typing import Any

from .._core.timeline import TIMELINE
from .._core.types import MAX_DIMS, product
from ..nd.creation import filled
from ..nd.ndarray import NDArray, invoke
from ..ops.namespace import Functions as OperatorFunctions
from ..ops.numpy_api.frontend import Frontend
from ..ops.record import OpDef
from ..ops.registry import lookup
from .arrays import ndarray

_SMALL = 1 << 20  # elements: writing more takes longer than an operator's call


class ArrayFrontend(Frontend):
    """Frontend of arrays: operators are computed immediately."""

    tensor = ndarray
    other = NDArray

    def op(self, name: str, *inputs: Any, out: Any = None, ctx: Any = None, **attrs: Any) -> Any:
        """Result of an operator on arrays of NumPy mode."""
        for x in inputs:
            if not isinstance(x, ndarray):
                self.check(name, x)
        if out is not None:
            _check_out(out)
        return as_np(invoke(lookup(name), inputs, attrs, out, ctx))

    def constant(self, name: str, sizes: Any, value: float, dtype: Any, ctx: Any) -> Any:
        """Array filled with a number. The operator makes it where shapes need its checks."""
        is_checked = TIMELINE.eager or min(sizes, default=0) < 1 or product(sizes) > _SMALL
        if is_checked or len(sizes) > MAX_DIMS:
            return super().constant(name, sizes, value, dtype, ctx)
        return filled(sizes, value, ctx, dtype)._of_kind(ndarray)

    def shape(self, x: Any) -> tuple[int, ...]:
        """Shape of an array. Raises AssertionError for other objects."""
        self.check("shape", x)
        return x.shape


def as_np(made: Any) -> Any:
    """Convert results to NumPy mode: operators without operands return classic arrays."""
    if isinstance(made, (list, tuple)):
        return [y._of_kind(ndarray) for y in made]
    return made._of_kind(ndarray)


def _check_out(out: Any) -> None:
    """Raise TypeError unless results can be written to ``out``."""
    for target in out if isinstance(out, (list, tuple)) else (out,):
        if not isinstance(target, ndarray):
            raise TypeError(f"out is an ndarray of NumPy mode, got {type(target)}")


FRONT = ArrayFrontend()


def call(op: OpDef, called: str, tensors: dict[str, Any], given: dict[str, Any]) -> Any:
    """Call a function of ``npx``, an operator of the registry."""
    for name, value in given.items():
        if isinstance(value, NDArray) and name != "out":
            raise TypeError(f"{called}() takes a value for '{name}', got an array")
    given.pop("name", None)
    out, ctx = given.pop("out", None), given.pop("ctx", None)
    inputs = list(tensors.values())
    for x in inputs:
        if not isinstance(x, ndarray):
            FRONT.check(op.name, x)
    if out is not None:
        _check_out(out)
    return as_np(invoke(op, inputs, given, out, ctx))


EXTENSIONS = OperatorFunctions("npx", call, ("out", "name"))
INTERNAL = OperatorFunctions("npi", call, ("out", "name"))

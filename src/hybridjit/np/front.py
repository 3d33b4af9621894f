"""Frontend that applies operators to arrays of NumPy mode for the functions of ``mx.np``."""

from __future__ import annotations

from typing import Any

from .._core.recording import FLAGS
from .._core.timeline import TIMELINE
from .._core.types import MAX_DIMS
from ..nd.creation import filled
from ..nd.ndarray import NDArray, invoke
from ..ops.namespace import Functions as OperatorFunctions
from ..ops.numpy_api.frontend import Frontend, dtype_name
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
        made = invoke(lookup(name), inputs, attrs, out, ctx)
        return made if inputs else as_np(made)

    def on_own(self, name: str, inputs: Any, attrs: dict[str, Any], out: Any = None) -> Any:
        """Result of an operator on arrays that the caller has checked to be of NumPy mode."""
        return invoke(lookup(name), inputs, attrs, out)

    def alike(self, x: Any, value: float, dtype: Any, out: Any) -> Any:
        """Array of another's shape. The operator makes it where the call is recorded or checked."""
        is_noted = out is not None or TIMELINE.eager
        if is_noted or not isinstance(x, ndarray) or not _is_usual(x._data.shape):
            return super().alike(x, value, dtype, out)
        if x._entry is not None and FLAGS.recording:
            return super().alike(x, value, dtype, out)
        kind = x._data.dtype if dtype is None else dtype_name(dtype)
        return filled(x._data.shape, value, x._ctx, kind, ndarray)

    def constant(self, name: str, shape: Any, value: float, dtype: Any, ctx: Any) -> Any:
        """Array filled with a number. The operator makes it where shapes need its checks."""
        sizes = (shape,) if type(shape) is int else shape
        if type(sizes) is tuple and _is_usual(sizes) and not TIMELINE.eager:
            kind = None if dtype is None else dtype_name(dtype)
            return filled(sizes, value, ctx, kind, ndarray)
        return super().constant(name, shape, value, dtype, ctx)

    def flat(self, x: Any) -> Any:
        """Elements as a vector, without a copy."""
        self.check("_np_reshape", x)
        if x.ndim == 1:
            return x
        if not x.size:
            return self.op("_np_reshape", x, newshape=(0,), order="C")
        return x.reshape_view(-1)

    def shape(self, x: Any) -> tuple[int, ...]:
        """Shape of an array. Raises AssertionError for other objects."""
        self.check("shape", x)
        return x.shape


def _is_usual(sizes: tuple[Any, ...]) -> bool:
    """Test whether an array of this shape has axes and elements, and not many of them."""
    count = 1
    for size in sizes:
        if type(size) is not int or size < 1:
            return False
        count *= size
    return count <= _SMALL and 0 < len(sizes) <= MAX_DIMS


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
    made = invoke(op, inputs, given, out, ctx)
    return made if inputs else as_np(made)


EXTENSIONS = OperatorFunctions("npx", call, ("out", "name"))
INTERNAL = OperatorFunctions("npi", call, ("out", "name"))

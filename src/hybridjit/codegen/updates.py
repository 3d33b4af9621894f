"""Update rules as kernels: one pointwise program for all weights of an optimizer.

Input: the rule on an update operator's record, written for NumPy arrays. Output: the spec of a
kernel for any number of elements. The rule is traced once on arrays that record operations, so the
formula is stated only there. Types follow NumPy's rule: scalars beside arrays are float32, and a
float64 operand makes the result float64.

The kernel's arguments: weight, gradient, states, numbers; then new weight, new states and, if it
has another type, the stored weight; then the number of elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..ir.update import UpdateRule
from ..ops.elementwise.binary import (
    ADD,
    DIVIDE,
    DIVIDED_BY,
    GREATER,
    LESSER,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    SUBTRACT,
)
from ..ops.elementwise.element_type import CAST
from ..ops.elementwise.unary import ABS, NEGATIVE, SQRT
from ..ops.record import OpDef
from ..ops.registry import lookup
from .call import off_default
from .kinds.pointwise import PointwiseSpec
from .llvm.elements import MOVED_AS
from .spec import Instr, Program

# Elements of one unit of work, as in other pointwise kernels of one axis.
_BLOCK = 2048

# The operators for a ufunc of two arrays, of an array and a scalar, of a scalar and an array.
_BINARY = {
    np.add: (ADD.broadcasting, ADD.scalar, ADD.reversed_scalar),
    np.subtract: (SUBTRACT.broadcasting, SUBTRACT.scalar, SUBTRACT.reversed_scalar),
    np.multiply: (MULTIPLY.broadcasting, MULTIPLY.scalar, MULTIPLY.reversed_scalar),
    np.divide: (DIVIDE.broadcasting, DIVIDE.scalar, DIVIDED_BY),
    np.maximum: (MAXIMUM.broadcasting, MAXIMUM.scalar, MAXIMUM.reversed_scalar),
    np.minimum: (MINIMUM.broadcasting, MINIMUM.scalar, MINIMUM.reversed_scalar),
    np.greater: (GREATER.broadcasting, GREATER.scalar, LESSER.scalar),
    np.less: (LESSER.broadcasting, LESSER.scalar, GREATER.scalar),
}
_UNARY = {np.sqrt: SQRT, np.absolute: ABS, np.negative: NEGATIVE}


def update_spec(rule: UpdateRule) -> PointwiseSpec:
    """The spec of the rule's kernel."""
    types = (rule.dtype, rule.stored, *(rule.dtype,) * rule.states)
    given = (*types, *("float32",) * len(rule.numbers))
    program = _Noted(given)
    values = [_Array(program, i, dtype) for i, dtype in enumerate(given)]
    arrays, numbers = values[: len(types)], values[len(types) :]
    if rule.is_mixed:
        arrays[1] = program.note(CAST, (arrays[1],), rule.dtype)
    step = lookup(rule.op).traits.rule
    assert step is not None, f"{rule.op} has no rule"
    made = list(step(*arrays, **dict(rule.fixed), **dict(zip(rule.numbers, numbers))))
    if rule.is_mixed:
        made.append(program.note(CAST, (made[0],), rule.stored))
    outputs = tuple(value.number for value in made)
    return PointwiseSpec(
        dims=(),
        reads=((1,),) * len(types) + ((0,),) * len(numbers),
        writes=((1,),) * len(made),
        program=Program(len(given), tuple(program.instrs), outputs, off_default(given)),
        block=_BLOCK,
    )


def copy_spec(itemsize: int) -> PointwiseSpec:
    """The spec of a copy of any number of elements; its arguments: source, destination, count."""
    program = Program(1, types=off_default((MOVED_AS[itemsize],)))
    return PointwiseSpec((), ((1,),), ((1,),), program, _BLOCK)


Operand: TypeAlias = Any  # an _Array, or a number of Python or NumPy
Function = Callable[..., Any]  # one of NumPy


class _Noted:
    """A program under construction."""

    def __init__(self, types: tuple[str, ...]) -> None:
        self._inputs = len(types)
        self.instrs: list[Instr] = []

    def note(self, op: OpDef, operands: tuple[_Array, ...], dtype: str, **attrs: float) -> _Array:
        """Append an operation that is computed in ``dtype``, and return its result."""
        numbers = tuple(x.number for x in operands)
        self.instrs.append(Instr(op.name, numbers, tuple(attrs.items()), dtype))
        return _Array(self, self._inputs + len(self.instrs) - 1, dtype)


class _Array(np.lib.mixins.NDArrayOperatorsMixin):
    """A traced array or scalar of a program, which records NumPy functions applied to it."""

    def __init__(self, program: _Noted, number: int, dtype: str) -> None:
        self._program = program
        self.number = number
        self.dtype = np.dtype(dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Operand) -> Any:
        if method != "__call__":
            return NotImplemented
        if ufunc in _UNARY:
            return self._program.note(_UNARY[ufunc], inputs, self.dtype.name)
        if ufunc in _BINARY:
            return self._binary(*_BINARY[ufunc], *inputs)
        if ufunc in _COMPOSED:
            return _COMPOSED[ufunc](*inputs)
        return NotImplemented

    def __array_function__(
        self, function: Function, types: object, args: tuple[Operand, ...], kwargs: object
    ) -> Any:
        return _FUNCTIONS[function](*args) if function in _FUNCTIONS else NotImplemented

    def _binary(self, both: OpDef, right: OpDef, left: OpDef, x: Operand, y: Operand) -> _Array:
        dtype = np.result_type(*(z.dtype if isinstance(z, _Array) else z for z in (x, y))).name
        if isinstance(x, _Array) and isinstance(y, _Array):
            return self._program.note(both, (x, y), dtype)
        if isinstance(x, _Array):
            return self._program.note(right, (x,), dtype, scalar=float(y))
        return self._program.note(left, (y,), dtype, scalar=float(x))


_COMPOSED: dict[np.ufunc, Callable[..., _Array]] = {np.square: lambda x: x * x}
_FUNCTIONS: dict[Function, Callable[..., _Array]] = {
    np.clip: lambda x, low, high: np.minimum(np.maximum(x, low), high),
}

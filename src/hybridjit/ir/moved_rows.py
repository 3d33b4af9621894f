"""Find parameters whose elements are only moved: their packed form preserves all bits."""

from __future__ import annotations

import numpy as np

from .._core.frozen import dataclass
from .._core.types import FLOAT32
from ..ops.bfloat16 import ROUNDED, rounded
from ..ops.elementwise.binary import MULTIPLY
from ..ops.tensor.primitives import TRANSPOSE
from .graph import Use, Value
from .interpret import AS_VIEWS

# Bytes from which on a parameter is evicted if its packed form preserves all bits.
WORTH_EVICTING = 1 << 20


@dataclass(frozen=True)
class MovedRows:
    """A value that is a variable with its elements moved within the rows of axis 0.

    If ``factor`` is given, each row was multiplied by one of its elements before; if it
    ``is_rounded``, all elements are rounded to bfloat16 at the end.
    """

    variable: Value
    steps: tuple[Value, ...]  # from the variable to the value
    factor: Use | None = None
    is_rounded: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether the variable can be restored from it."""
        return self.factor is None and not self.is_rounded

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the value from rows of the variable; a view if possible."""
        for step in self.steps:
            if step.op is TRANSPOSE:
                rows = rows.transpose(step.attrs["axes"])
            else:
                rows = rows.reshape(len(rows), *step.shape[1:])
        return rounded(rows) if self.is_rounded else rows

    def invert(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the variable from those of the value."""
        for step in reversed(self.steps):
            if step.op is TRANSPOSE:
                rows = rows.transpose(np.argsort(step.attrs["axes"]))
            else:
                rows = rows.reshape(len(rows), *step.inputs[0].value.shape[1:])
        return rows


def moved_rows(use: Use) -> MovedRows | None:
    """The way in which the value comes from a variable; None if its rows are not rows of one."""
    chain: list[Value] = []
    value, is_rounded = use.value, use.value.op is ROUNDED
    if is_rounded:
        value = value.inputs[0].value
    while value.op in AS_VIEWS:
        chain.append(value)
        value = value.inputs[0].value
    factor = None
    if value.op is MULTIPLY.broadcasting and _scales_rows(value):
        value, factor = value.inputs[0].value, value.inputs[1]
    if value.op is not None or not all(map(_keeps_rows, chain)):
        return None
    return MovedRows(value, tuple(reversed(chain)), factor, is_rounded)


def _scales_rows(value: Value) -> bool:
    """Whether the second operand of a product has one element for each row of the first."""
    rows, numbers = value.inputs[0].type, value.inputs[1].type
    if not rows.dims or rows != value.type or rows.dtype != FLOAT32 or numbers.dtype != FLOAT32:
        return False
    return numbers.dims == (rows.dims[0], *(1,) * (rows.ndim - 1))


def _keeps_rows(value: Value) -> bool:
    before = value.inputs[0].value.shape
    moves = value.op is TRANSPOSE and value.attrs["axes"][0] != 0
    return bool(before) and bool(value.shape) and before[0] == value.shape[0] and not moves

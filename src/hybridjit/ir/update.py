"""UpdateRule: an optimizer's update as plain data for code generation."""

from __future__ import annotations

from .._core.frozen import dataclass


@dataclass(frozen=True)
class UpdateRule:
    """The update of a weight by one kernel, element by element, from its gradient and states.

    op       the update operator, whose record has the formula
    states   number of arrays kept for a weight, beside a copy of the weight itself
    dtype    the type in which the weight is computed, and of its states
    stored   the type of the gradient, and of the rounded weight if it is another type
    fixed    the attributes that are constants of the code
    numbers  the attributes that are operands: float32 values that change from call to call
    """

    op: str
    states: int
    dtype: str
    stored: str
    fixed: tuple[tuple[str, object], ...]
    numbers: tuple[str, ...]

    @property
    def is_mixed(self) -> bool:
        """Whether the computed weight is a copy in another type than the stored one."""
        return self.dtype != self.stored

"""UpdateRule: an optimizer's rule as code generation needs it, in plain data."""

from __future__ import annotations

from ..records import dataclass


@dataclass(frozen=True)
class UpdateRule:
    """What one kernel does to a weight, its gradient and its states, element by element.

    op       the update operator, whose record has the rule
    states   how many arrays it keeps for a weight, beside a copy of the weight itself
    dtype    the type of the weight that is computed on and of its states
    stored   the type of the gradient, and of the weight that is rounded where it is another type
    fixed    the attributes that code is made for
    numbers  the attributes that are operands: float32 numbers that change from call to call
    """

    op: str
    states: int
    dtype: str
    stored: str
    fixed: tuple[tuple[str, object], ...]
    numbers: tuple[str, ...]

    @property
    def is_mixed(self) -> bool:
        """Whether the weight is a copy in another type than what is stored."""
        return self.dtype != self.stored

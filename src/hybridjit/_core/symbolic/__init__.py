"""Symbolic integers: sizes that may vary from call to call, and the guards of a compilation.

A :class:`Size` is a polynomial over atoms: symbols (the size of an input's axis) and quotients,
remainders and maxima of other sizes. Each has a *hint*: its value in the call that is being
compiled. Arithmetic makes expressions. A comparison is answered with the hints and recorded as a
*guard*, unless the bounds of the atoms decide it. Code that needs a Python integer (``range``, an
index of an array) gets the hint, and a guard that the size equals it.

The compiler is deterministic. Its result with symbols is therefore, for all sizes that satisfy the
guards, the result for these sizes alone: the same kernels, in the same order, with the values of
the expressions as numbers. PyTorch calls this backed symbolic shapes with guards.
"""

from .bounds import (
    are_same,
    exact_quotient,
    is_one,
    is_surely_equal,
    is_surely_less,
    largest,
    range_of,
)
from .evaluation import matching_function, value_of, values_function
from .expressions import INFINITE, Atom, Size
from .records import as_number, count_of, decided, hint_of, indices, rebuilder, sizes_in, symbols_of
from .scope import Branch, Decision, Guard, Scope, guard_function, scope_of

__all__ = [
    "INFINITE",
    "Atom",
    "Branch",
    "Decision",
    "Guard",
    "Scope",
    "Size",
    "are_same",
    "as_number",
    "count_of",
    "decided",
    "exact_quotient",
    "guard_function",
    "hint_of",
    "indices",
    "is_one",
    "is_surely_equal",
    "is_surely_less",
    "largest",
    "matching_function",
    "range_of",
    "rebuilder",
    "scope_of",
    "sizes_in",
    "symbols_of",
    "value_of",
    "values_function",
]

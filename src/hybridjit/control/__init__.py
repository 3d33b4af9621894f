"""Loops and branches in graphs: operators whose records hold graphs of their own.

In: graphs and the numbers that say which operand is which. Out: operators as all others are, that
run in NumPy; and, of a graph whose loops have few steps, the graph without these loops.
"""

from ..ops.subgraphs import provide
from .body import Body, require_nesting, steps_left
from .operators import branch, each, made_from_text, repeat
from .unroll import unrolled

provide(made_from_text)

__all__ = ["Body", "branch", "each", "repeat", "require_nesting", "steps_left", "unrolled"]

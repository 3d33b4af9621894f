"""Loops and branches in graphs: operators whose attributes are graphs.

Input: graphs, and the indices that assign operands to variables. Output: ordinary operators, which
run on NumPy; and, for loops with few steps, a graph in which they are unrolled.
"""

from .body import Body, require_nesting, steps_left
from .operators import branch, each, repeat
from .unroll import unrolled

__all__ = ["Body", "branch", "each", "repeat", "require_nesting", "steps_left", "unrolled"]

"""What an operator's rules look like: their signatures, and what a formula of one element calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

V = TypeVar("V")

Arrays = np.ndarray | tuple[np.ndarray, ...]
# ref(*arrays, **attrs)
Reference = Callable[..., Arrays]
# formula(*arrays, **attrs), whose result a reference converts
Computation = Callable[..., "np.ndarray | np.generic | float"]
# scalar(b, *values, **attrs), on any ScalarBuilder
Formula = Callable[..., Any]
# expand(g, *inputs, **attrs), on any Builder: the results, or None where the operator stays
Expansion = Callable[..., Any]
# grad(g, ins, outs, douts, **attrs), on any Builder: one value or None for each input
Gradient = Callable[..., Any]


class ScalarBuilder(Protocol[V]):
    """What formulas of one element are written with; V stands for a value, or for a mask.

    :class:`.scalars.Scalars` computes on arrays, generated code has the same methods on vectors.
    """

    def const(self, value: float) -> V:
        """A number of the type that is computed in."""

    def scalar(self, value: float) -> V:
        """A number beside the operands: as their element type holds it."""

    def above(self, x: V, bound: float) -> V:
        """The mask of ``x > bound``."""

    def below(self, x: V, bound: float) -> V:
        """The mask of ``x < bound``."""

    def select(self, mask: V, x: V, y: V, /) -> V:
        """x where the mask holds, else y."""

    def __getattr__(self, name: str) -> Callable[..., V]:
        """A function of numbers or masks, by name: ``add``, ``exp``, ``lt``, ``mask_and``, ..."""

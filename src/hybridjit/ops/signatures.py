"""Signatures of an operator's functions, and the protocol of scalar builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

V = TypeVar("V")

Arrays = np.ndarray | tuple[np.ndarray, ...]
# ref(*arrays, **attrs)
Reference = Callable[..., Arrays]
# formula(*arrays, **attrs); a reference converts its result
Computation = Callable[..., "np.ndarray | np.generic | float"]
# scalar(b, *values, **attrs), on any ScalarBuilder
Formula = Callable[..., Any]
# expand(g, *inputs, **attrs), on any Builder: the results, or None if not expanded
Expansion = Callable[..., Any]
# grad(g, ins, outs, douts, **attrs), on any Builder: one value or None for each input
Gradient = Callable[..., Any]


class ScalarBuilder(Protocol[V]):
    """Methods for formulas of one element; V is the type of values and masks.

    :class:`.scalars.Scalars` computes on arrays, generated code has the same methods on vectors.
    """

    def const(self, value: float) -> V:
        """Constant of the computation's type."""

    def scalar(self, value: float) -> V:
        """Scalar attribute, converted to the operands' dtype."""

    def above(self, x: V, bound: float) -> V:
        """Mask of ``x > bound``."""

    def below(self, x: V, bound: float) -> V:
        """Mask of ``x < bound``."""

    def select(self, mask: V, x: V, y: V, /) -> V:
        """x where the mask is true, else y."""

    def __getattr__(self, name: str) -> Callable[..., V]:
        """Function of values or masks, by name: ``add``, ``exp``, ``lt``, ``mask_and``, ..."""

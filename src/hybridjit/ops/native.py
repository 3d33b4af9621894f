"""Routines: machine code for loops of some references, with sizes as arguments.

Input: a routine's name and the properties that its code depends on. Output: a function of arrays
and integers, or None; then the reference computes with NumPy. Both compute equal values, and equal
bits unless the reference selects by the sizes of one sample. Higher layers provide the routines;
HYBRIDJIT_EAGER=numpy disables them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._core.config import config
from .._core.types import FLOAT32
from .attrs import Attrs
from .record import Eager, OpDef
from .rules import Types

__all__ = ["WORTH_NATIVE", "provide", "routine"]

# ``routine(arrays, numbers)`` reads and writes contiguous arrays in place.
Routine = Callable[[Sequence[np.ndarray], Sequence[int]], None]
Provider = Callable[[str, tuple[object, ...]], Routine]

# Minimal elements of an operand for machine code: NumPy takes 0.1 ms for fewer.
WORTH_NATIVE = 1 << 14
# The same for operators that take NumPy many calls: box_nms of 100 boxes 0.27 ms, 0.01 compiled.
_WORTH_EARLY = 1 << 9
# Multiply-adds that take as long as an element of other operators.
PRODUCTS = 64
# Element types of the arrays of compiled calls.
_CODED = frozenset({FLOAT32, np.dtype("int32"), np.dtype("int64"), np.dtype("uint8")})
_providers: list[Provider] = []
_loaded: dict[tuple[str, tuple[object, ...]], Routine] = {}


def provide(provider: Provider) -> None:
    """Set the function ``provider(name, facts)`` that loads routines."""
    _providers[:] = [provider]


def is_costly(op: OpDef, attrs: Attrs, ins: Types, outs: Types) -> bool:
    """Whether an eager call, or its gradient, is worth compiled code.

    Depends on the operator, its attributes and the types only: an operator with a kernel on float32
    arrays, of which one has at least ``WORTH_NATIVE`` elements, fewer for ``Eager.EARLY``, or which
    takes ``PRODUCTS`` times as many multiply-adds.
    """
    types = (*ins, *outs)
    if not all(t.is_known and t.dtype in _CODED for t in types) or not _has_code(op):
        return False
    if FLOAT32 not in {t.dtype for t in ins}:
        return False
    worth = _WORTH_EARLY if op.traits.eager is Eager.EARLY else WORTH_NATIVE
    if max(t.size for t in types) >= worth:
        return all(t.size for t in types)
    cost = op.traits.multiply_adds
    return cost is not None and cost(ins, outs, **attrs) >= PRODUCTS * WORTH_NATIVE


def is_matrix_vector(op: OpDef, attrs: Attrs, ins: Types, outs: Types) -> bool:
    """Whether a product multiplies each element of a matrix once.

    Compiled products pack a matrix, which takes three times as long as NumPy's product: a dense
    layer of 4,096 x 1,000 on one row 3.1 ms instead of 0.6 (AMD Zen 4). From two rows on they are
    faster.
    """
    cost = op.traits.multiply_adds
    if op.kernel != "gemm" or cost is None:
        return False
    return cost(ins, outs, **attrs) <= max(t.size for t in ins)


def _has_code(op: OpDef) -> bool:
    traits = op.traits
    if traits.eager is Eager.NUMPY or op.is_random or traits.sized_by_values or op.subgraphs:
        return False
    if any(attr.name == "is_int" for attr in op.attrs):
        return False  # a number as an attribute: each value would be compiled
    return traits.eager is Eager.TWIN or op.kernel != "host" or op.expand is not None


def routine(name: str, *facts: object, size: int = WORTH_NATIVE) -> Routine | None:
    """Routine for these properties; None if disabled or for fewer than ``WORTH_NATIVE``
    elements."""
    if size < WORTH_NATIVE or not _providers or config.eager == "numpy":
        return None
    found = _loaded.get((name, facts))
    if found is None:
        found = _loaded[name, facts] = _providers[0](name, facts)
    return found

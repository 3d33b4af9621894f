"""The scalar builder's protocol on NumPy arrays: reference semantics of formulas.

Input: the calls of an operator's ``scalar``. Output: arrays of one floating type, masks as bool
arrays. Functions are computed in double precision and rounded once, which is the best possible
accuracy. Compiled code has the same methods (``codegen/math/arithmetic.py``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import special
from .attrs import AttrValue
from .casting import in_floating
from .rules import Types, broadcast, refuse_bool, same_type
from .signatures import Computation, Formula


def _rounded(function: Computation) -> Callable[..., np.ndarray]:
    """Method that evaluates ``function`` in double precision."""

    def method(self: Scalars, *values: np.ndarray) -> np.ndarray:
        wide = (np.asarray(x, np.float64) for x in values)
        return np.asarray(function(*wide), self.dtype)

    return method


def _modulo(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Remainder with the divisor's sign; 0 for a zero divisor."""
    rest = np.fmod(x, y)
    rest = np.where((rest != 0) & ((x < 0) != (y < 0)), rest + y, rest)
    return np.where(y == 0, 0, rest)


class Scalars:
    """All methods of scalar formulas, on arrays of ``dtype``: float32 or float64."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype

    def const(self, value: float) -> np.ndarray:
        return np.asarray(value, np.float64).astype(self.dtype)

    scalar = const

    def above(self, x: np.ndarray, bound: float) -> np.ndarray:
        return x > self.const(bound)

    def below(self, x: np.ndarray, bound: float) -> np.ndarray:
        return x < self.const(bound)

    add = staticmethod(np.add)
    sub = staticmethod(np.subtract)
    mul = staticmethod(np.multiply)
    div = staticmethod(np.divide)
    ratio = staticmethod(np.divide)
    max = staticmethod(np.maximum)
    min = staticmethod(np.minimum)
    neg = staticmethod(np.negative)
    abs = staticmethod(np.abs)
    floor = staticmethod(np.floor)
    ceil = staticmethod(np.ceil)
    trunc = staticmethod(np.trunc)
    round_even = staticmethod(np.rint)
    sqrt = staticmethod(np.sqrt)
    eq = staticmethod(np.equal)
    ne = staticmethod(np.not_equal)
    lt = staticmethod(np.less)
    le = staticmethod(np.less_equal)
    gt = staticmethod(np.greater)
    ge = staticmethod(np.greater_equal)
    mask_and = staticmethod(np.logical_and)
    mask_or = staticmethod(np.logical_or)
    mask_not = staticmethod(np.logical_not)
    select = staticmethod(np.where)

    exp = _rounded(np.exp)
    expm1 = _rounded(np.expm1)
    log = _rounded(np.log)
    log1p = _rounded(np.log1p)
    tanh = _rounded(np.tanh)
    log2 = _rounded(np.log2)
    log10 = _rounded(np.log10)
    sin = _rounded(np.sin)
    cos = _rounded(np.cos)
    tan = _rounded(np.tan)
    arcsin = _rounded(np.arcsin)
    arccos = _rounded(np.arccos)
    arctan = _rounded(np.arctan)
    sinh = _rounded(np.sinh)
    cosh = _rounded(np.cosh)
    arcsinh = _rounded(np.arcsinh)
    arccosh = _rounded(np.arccosh)
    arctanh = _rounded(np.arctanh)
    cbrt = _rounded(np.cbrt)
    power = _rounded(np.power)
    hypot = _rounded(np.hypot)
    mod = _rounded(_modulo)
    erf = _rounded(special.erf)
    erfinv = _rounded(special.erfinv)
    gamma = _rounded(special.gamma)
    gammaln = _rounded(special.gammaln)


def elementwise(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    """Default type rule of formulas: numeric operands of equal dtypes, which broadcast."""
    refuse_bool(*ins, *outs)
    return (same_type if len(ins) == 1 else broadcast)(ins, outs)


def computed(scalar: Formula) -> Callable[..., np.ndarray]:
    """Reference derived from a formula: float16 in single precision, integers in double."""

    @in_floating
    def ref(*values: np.ndarray, **attrs: AttrValue) -> np.ndarray:
        shape = np.broadcast_shapes(*(x.shape for x in values))
        return np.broadcast_to(scalar(Scalars(values[0].dtype), *values, **attrs), shape)

    return ref

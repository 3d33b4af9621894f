"""The scalar builder's protocol on NumPy float32: what a formula means, without LLVM.

In: what an operator's ``scalar`` calls. Out: float32 arrays, masks as bool arrays. Functions are
computed in double precision and rounded once, so they are as good as any implementation can be.
"""

from __future__ import annotations

import math

import numpy as np

from hybridjit.ops import special


def _rounded(function):
    """A method that evaluates ``function`` in double precision."""

    def method(self, *values):
        return np.asarray(function(*(np.asarray(x, np.float64) for x in values)), np.float32)

    return method


def _modulo(x, y):
    """Python's remainder, but 0 for a zero divisor."""
    rest = np.fmod(x, y)
    rest = np.where((rest != 0) & ((x < 0) != (y < 0)), rest + y, rest)
    return np.where(y == 0, 0, rest)


class ScalarBuilder:
    """Every method that codegen's builder offers to scalar formulas."""

    def const(self, value: float) -> np.ndarray:
        return np.asarray(value, np.float64).astype(np.float32)

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
    erfinv = _rounded(special.erfinv)
    gamma = _rounded(special.gamma)
    gammaln = _rounded(special.gammaln)
    erf = _rounded(np.vectorize(math.erf, otypes=[np.float64]))

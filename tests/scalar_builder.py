"""The scalar builder's protocol on NumPy float32: what a formula means, without LLVM.

In: what an operator's ``scalar`` calls. Out: float32 arrays, masks as bool arrays. Functions are
computed in double precision and rounded once, so they are as good as any implementation can be.
"""

from __future__ import annotations

import math

import numpy as np


def _rounded(function):
    """A method that evaluates ``function`` in double precision."""

    def method(self, x):
        return np.asarray(function(np.asarray(x, np.float64)), np.float32)

    return method


class ScalarBuilder:
    """Every method that codegen's builder offers to scalar formulas."""

    def const(self, value: float) -> np.ndarray:
        return np.asarray(value, np.float64).astype(np.float32)

    add = staticmethod(np.add)
    sub = staticmethod(np.subtract)
    mul = staticmethod(np.multiply)
    div = staticmethod(np.divide)
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
    erf = _rounded(np.vectorize(math.erf, otypes=[np.float64]))

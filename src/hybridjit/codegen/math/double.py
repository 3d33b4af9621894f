"""The scalar protocol on f64.

``DoubleMath`` has the methods that an operator's ``scalar`` formula may call. f32 uses those for
which it has no shorter formula: then the final rounding is nearly all of the error.
"""

from __future__ import annotations

from ..llvm.types import Value
from . import lanczos
from .elementary import ElementaryMath


class DoubleMath(ElementaryMath):
    """Scalar formulas on f64 scalars or vectors of a LoopBuilder."""

    def gamma(self, x: Value) -> Value:
        """The gamma function, within 12 ulp unless it is denormal; NaN at negative poles."""
        return lanczos.gamma(self, x)

    def gammaln(self, x: Value) -> Value:
        """log |gamma(x)|, within 24 ulp of the larger of it and 1; infinite at the poles."""
        return lanczos.gammaln(self, x)

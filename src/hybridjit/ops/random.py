"""Random operators; every draw comes from one generator, which :func:`seed` restarts.

In: distribution parameters as attributes or arrays. Out: samples. The numbers are NumPy's, not
those that MXNet would draw from the same seed.
"""

from __future__ import annotations

import numpy as np

from ..errors import AttributeValueError

_generator = np.random.default_rng()


def seed(value: int | None = None) -> None:
    """Restart the generator; None takes fresh entropy from the system."""
    global _generator
    _generator = np.random.default_rng(value)


def generator() -> np.random.Generator:
    """The generator that all random operators draw from."""
    return _generator


def dropout_mask(
    shape: tuple[int, ...], p: float, axes: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    """Zeros with probability ``p``, else 1 / (1 - p); one draw for all of each axis in ``axes``.

    The result broadcasts against ``shape``. Raises AttributeValueError unless 0 <= p <= 1.
    """
    if not 0.0 <= p <= 1.0:
        raise AttributeValueError(f"Dropout's p lies between 0 and 1, got {p}")
    drawn = tuple(1 if i in axes else size for i, size in enumerate(shape))
    keep = 1.0 - p
    kept = _generator.random(drawn) < keep
    return kept.astype(dtype) * dtype.type(1.0 / keep if keep else 0.0)

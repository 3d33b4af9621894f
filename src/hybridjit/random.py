"""``mx.random``: the seed of all random draws, and random arrays.

There is one generator. It is NumPy's: draws differ from MXNet's for the same seed.
"""

from __future__ import annotations

from .base import integer_types
from .context import Context
from .nd.random import (
    exponential,
    gamma,
    generalized_negative_binomial,
    multinomial,
    negative_binomial,
    normal,
    poisson,
    randint,
    randn,
    shuffle,
    uniform,
)
from .ops.random import draws as _draws
from .ops.random.draws import generator


def seed(seed_state: int, ctx: Context | str = "all") -> None:
    """Restart the generator. Raises ValueError unless ``seed_state`` is an integer."""
    if not isinstance(seed_state, integer_types):
        raise ValueError(f"seed_state must be int, got {seed_state!r}")
    _draws.seed(int(seed_state) % 2**64)


__all__ = [
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "generator",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "seed",
    "shuffle",
    "uniform",
]

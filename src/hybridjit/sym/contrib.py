"""``sym.contrib``: control flow, and contributed operators, filled in from the registry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .control import cond as cond
from .control import foreach as foreach
from .control import while_loop as while_loop
from .random import uniform
from .symbol import Symbol

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def rand_zipfian(
    true_classes: Symbol, num_sampled: int, range_max: int
) -> tuple[Symbol, Symbol, Symbol]:
    """Classes drawn from a log-uniform distribution below ``range_max``, and expected counts.

    The values are equal to those of ``nd.contrib.rand_zipfian``.
    """
    log_range = math.log(range_max + 1)
    drawn: Symbol = uniform(0, log_range, shape=(num_sampled,), dtype="float64")
    powers: Any = drawn.exp()
    sampled: Symbol = (powers - 1.0).astype("int64") % range_max
    true, other = (
        ((c + 2.0) / (c + 1.0)).log() / log_range * num_sampled
        for c in (true_classes.astype("float64"), sampled.astype("float64"))
    )
    return sampled, true, other

"""``sym.contrib``: contributed operators, filled in from the registry.

Loops and branches inside a graph are not supported: the functions for them say so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import MXNetError
from .random import uniform
from .symbol import Symbol

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def _refuse(name: str) -> NoReturn:
    raise MXNetError(
        f"sym.contrib.{name}: a graph here holds no control flow; unroll it, or leave this block "
        "unhybridized"
    )


def foreach(body: object, data: object, init_states: object, name: str = "foreach") -> NoReturn:
    """Raises MXNetError: a graph holds no control flow."""
    _refuse("foreach")


def while_loop(
    cond: object,
    func: object,
    loop_vars: object,
    max_iterations: object = None,
    name: str = "while_loop",
) -> NoReturn:
    """Raises MXNetError: a graph holds no control flow."""
    _refuse("while_loop")


def cond(pred: object, then_func: object, else_func: object, name: str = "cond") -> NoReturn:
    """Raises MXNetError: a graph holds no control flow."""
    _refuse("cond")


def rand_zipfian(
    true_classes: Symbol, num_sampled: int, range_max: int
) -> tuple[Symbol, Symbol, Symbol]:
    """Classes drawn from a log-uniform distribution below ``range_max``, and expected counts.

    The numbers are those of ``nd.contrib.rand_zipfian``.
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

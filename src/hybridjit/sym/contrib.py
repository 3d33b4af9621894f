"""``sym.contrib``: contributed operators, filled in from the registry.

Loops and branches inside a graph are not supported: the functions for them say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import MXNetError

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

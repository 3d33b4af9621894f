"""What symbols ask of the layers above them: the file format and evaluation.

Imports point down, so ``sym`` cannot reach them. The package (``hybridjit/__init__.py``) puts
their functions into :data:`UPPER` when it is imported; the methods of Symbol call them there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import InternalError


def _absent(*args: Any, **kwargs: Any) -> Any:
    raise InternalError("this function is attached by `import hybridjit`, which did not finish")


@dataclass
class Upper:
    """Functions of the file format and of evaluation.

    to_json      ``(symbol, remove_amp_cast) -> text``
    load_json    ``(text) -> Symbol``
    save         ``(symbol, file name, remove_amp_cast)``
    load         ``(file name) -> Symbol``
    bind         ``(symbol, ctx, args, aux_states) -> Executor``
    simple_bind  ``(symbol, ctx, types, storage types, shapes by name) -> Executor``
    evaluate     ``(symbol, ctx, arrays by name) -> NDArrays``
    """

    to_json: Callable[..., str] = _absent
    load_json: Callable[..., Any] = _absent
    save: Callable[..., None] = _absent
    load: Callable[..., Any] = _absent
    bind: Callable[..., Any] = _absent
    simple_bind: Callable[..., Any] = _absent
    evaluate: Callable[..., Any] = _absent


UPPER = Upper()

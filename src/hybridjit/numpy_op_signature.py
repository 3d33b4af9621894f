"""``mx.numpy_op_signature``: the functions of ``mx.np`` and ``mx.npx`` by operator name."""

from __future__ import annotations

from typing import Any

from . import np, npx


def _get_builtin_op(op_name: str) -> Any:
    """The function of an operator ``_np_X`` or ``_npx_X``; None for other names.

    Raises ValueError if the function does not exist.
    """
    for prefix, module in (("_npx_", npx), ("_np_", np)):
        if op_name.startswith(prefix):
            name = op_name[len(prefix) :]
            if not hasattr(module, name):
                raise ValueError(f"Cannot find operator {name} in module {module.__name__}")
            return getattr(module, name)
    return None

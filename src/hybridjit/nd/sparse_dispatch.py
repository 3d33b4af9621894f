"""Dispatch from dense to sparse arrays, whose package is imported on first use.

Input: a storage type. Output: :mod:`.sparse_arrays`. Once it is loaded, eager calls try ``HOOK``
first; calls with a storage type among their attributes load it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from ..ops.attrs import Attrs
from ..ops.record import OnStored, OpDef

STYPES = ("default", "row_sparse", "csr")


class Hook:
    """Function that eager calls try before they compute on dense values; None until loaded."""

    __slots__ = ("run",)

    def __init__(self) -> None:
        self.run: Callable[..., Any] | None = None


HOOK = Hook()


def makes_sparse(op: OpDef, attrs: Attrs) -> bool:
    """Test whether an operator has a sparse result or gradient, also for dense operands."""
    how = op.traits.on_stored
    if how is OnStored.LOOKUP:
        return bool(attrs.get("sparse_grad", True))
    asked = {OnStored.CAST: "stype", OnStored.DOT: "forward_stype"}.get(how, "")
    return attrs.get(asked) not in (None, "None", "default")


def sparse_arrays() -> ModuleType:
    """Package of sparse arrays, imported on first use because that takes time."""
    return import_module(".sparse_arrays", __package__)


def is_dense(stype: str | None) -> bool:
    """Test for the dense storage type. Raises ValueError for an unknown storage type."""
    if stype is not None and stype not in STYPES:
        raise ValueError(f"unknown storage type{stype}")
    return stype in (None, "default")

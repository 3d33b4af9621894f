"""The way from dense arrays to the sparse ones, which are loaded when a program asks for one.

In: a storage type. Out: :mod:`.sparse_arrays`. Once it is loaded, eager calls ask ``HOOK`` first;
calls whose attributes name a storage type load it.
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
    """What eager calls ask before they compute on dense values; None until sparse arrays exist."""

    __slots__ = ("run",)

    def __init__(self) -> None:
        self.run: Callable[..., Any] | None = None


HOOK = Hook()


def makes_sparse(op: OpDef, attrs: Attrs) -> bool:
    """Whether an operator gives a sparse result, or gradient, also of dense operands."""
    how = op.traits.on_stored
    if how is OnStored.LOOKUP:
        return bool(attrs.get("sparse_grad", True))
    asked = {OnStored.CAST: "stype", OnStored.DOT: "forward_stype"}.get(how, "")
    return attrs.get(asked) not in (None, "None", "default")


def sparse_arrays() -> ModuleType:
    """The package of sparse arrays, which takes time to load."""
    return import_module(".sparse_arrays", __package__)


def is_dense(stype: str | None) -> bool:
    """Whether this is the type of dense arrays. Raises ValueError for what is no storage type."""
    if stype is not None and stype not in STYPES:
        raise ValueError(f"unknown storage type{stype}")
    return stype in (None, "default")

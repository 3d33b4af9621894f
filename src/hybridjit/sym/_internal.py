"""Operators with a leading underscore, for symbols; filled in from the registry."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

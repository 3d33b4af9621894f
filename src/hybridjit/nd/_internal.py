"""Operators with a leading underscore, for eager arrays; filled in from the registry."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

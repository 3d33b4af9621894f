"""Operators whose names begin with an underscore, for eager arrays; filled from the registry."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

"""``sym.op``: every public operator under its plain name; filled in from the registry."""

from typing import TYPE_CHECKING, Any

from .custom import Custom as Custom

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

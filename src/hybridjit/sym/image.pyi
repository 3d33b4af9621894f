"""Functions of ``sym.image``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any

from .symbol import Symbol

_Sizes = int | Sequence[Any]

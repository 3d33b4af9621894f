"""Functions of ``nd.image``. Made from the registry by tools/gen_stubs.py."""

from collections.abc import Sequence
from typing import Any

from .ndarray import NDArray

_Sizes = int | Sequence[Any]

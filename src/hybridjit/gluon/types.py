"""Types of layers' arguments: tensors, element types, initial values, options of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypedDict

import numpy as np

from .._core.types import Unpack as Unpack
from ..initializer import Initializer
from ..nd import NDArray
from ..sym import Symbol

if TYPE_CHECKING:
    from .parameter import ParameterDict

Tensor: TypeAlias = NDArray | Symbol
DType: TypeAlias = str | type | np.dtype
Init: TypeAlias = Initializer | str | None


class BlockArgs(TypedDict, total=False):
    """Arguments of every block."""

    prefix: str | None
    params: ParameterDict | None

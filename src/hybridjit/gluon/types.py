"""What layers take: tensors of either namespace, element types, initial values, blocks' options."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, TypeAlias, TypedDict

import numpy as np

from ..initializer import Initializer
from ..nd import NDArray
from ..sym import Symbol

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack

    from .parameter import ParameterDict
else:
    Unpack = getattr(typing, "Unpack", None)  # Python 3.10 has none; annotations are not evaluated

Tensor: TypeAlias = NDArray | Symbol
DType: TypeAlias = str | type | np.dtype
Init: TypeAlias = Initializer | str | None


class BlockArgs(TypedDict, total=False):
    """What every block takes."""

    prefix: str | None
    params: ParameterDict | None

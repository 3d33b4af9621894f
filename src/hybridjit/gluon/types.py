"""Types of layers' arguments: tensors, element types, initial values."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from .._core.types import Unpack as Unpack
from ..initializer import Initializer
from ..nd import NDArray
from ..sym import Symbol

Tensor: TypeAlias = NDArray | Symbol
DType: TypeAlias = str | type | np.dtype
Init: TypeAlias = Initializer | str | None

"""Writing operators on NDArrays: what expansions compute, one operator after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.record import OpDef
from ..types import TensorType
from .ndarray import NDArray, invoke


class EagerBuilder:
    """An :class:`.ops.building.Builder` on NDArrays: each operator is run as users run it.

    Names, and so ``at``, have no meaning here.
    """

    def op(self, op: OpDef, /, *inputs: NDArray, at: str = "", **attrs: Any) -> NDArray:
        return self.outputs(op, *inputs, **attrs)[0]

    def outputs(
        self, op: OpDef, /, *inputs: NDArray, at: str = "", **attrs: Any
    ) -> tuple[NDArray, ...]:
        made = invoke(op, inputs, attrs)
        return tuple(made) if isinstance(made, list) else (made,)

    def type(self, x: NDArray) -> TensorType:
        return TensorType(x.shape, np.dtype(x.dtype))

"""A convolution as input of the choosers for its weight gradient."""

from __future__ import annotations

from typing import Any

from ...._core.frozen import dataclass
from ...spec import Ints


@dataclass(frozen=True)
class Layer:
    """``ic`` and ``oc`` are channels of a group; ``geometry`` has spatial triples by name.

    xs, ds, ws  strides of the data, of the output gradient and of the weight
    """

    geometry: dict[str, Any]
    groups: int
    ic: int
    oc: int
    xs: Ints
    ds: Ints
    ws: Ints
    batch: int

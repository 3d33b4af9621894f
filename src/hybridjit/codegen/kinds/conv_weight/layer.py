"""A convolution as input of the choosers for its weight gradient."""

from __future__ import annotations

from ...._core.frozen import dataclass
from ...spec import Extents, Ints
from ..parts.convolution import Convolution


@dataclass(frozen=True)
class Layer(Convolution):
    """The gradient of its weight is a sum over ``batch`` images and all positions.

    xs, ds, ws  strides of the data, of the output gradient and of the weight
    """

    ds: Extents
    ws: Ints
    batch: int

"""KernelSpecs of recurrent layers, normalisations, selection by index and resampling.

As in ``spec.py``: strides count elements, and nothing here names a batch size.
"""

from __future__ import annotations

from ..records import dataclass
from .spec import Ints, KernelSpec


@dataclass(frozen=True)
class RecurrentSpec(KernelSpec):
    """One step of a recurrent layer; arguments: x, w, bias, h, [c,] y, [c_out,] batch.

    Strides are per (sample, element). The weights are packed by ``RecurrentPacking``.
    mr  the register tile: samples x one vector of every gate
    """

    mode: str
    hidden: int
    x: Ints
    h: Ints
    y: Ints
    c: Ints = ()
    c_out: Ints = ()
    mr: int = 1
    unroll: int = 4
    element: str = "float32"
    kind = "recurrent"

    @property
    def gates(self) -> int:
        return {"lstm": 4, "gru": 3}.get(self.mode, 1)


@dataclass(frozen=True)
class NormSpec(KernelSpec):
    """Normalise runs of [rows, size, inner] along ``size``; arguments: x, [gamma, beta,] y, rows.

    how     ``moments``: by mean and variance; ``length``: by the root of the sum of squares
    scale   what gamma and beta have a number for: each place ``along`` the run, each ``inner`` one,
            each ``row`` (modulo ``period``), or nothing
    """

    how: str
    size: int
    inner: int
    eps: float
    scale: str = ""
    period: int = 1
    element: str = "float32"
    kind = "norm"


@dataclass(frozen=True)
class LrnSpec(KernelSpec):
    """LRN over the channels of [rows, channels, inner]; arguments: x, y, scratch, rows.

    half   channels on either side that count
    alpha  what a square is multiplied by
    """

    channels: int
    inner: int
    half: int
    alpha: float
    beta: float
    knorm: float
    element: str = "float32"
    kind = "lrn"

    def scratch_floats(self, lanes: int) -> int:
        """One row of squares with zeros on both sides, whole vectors of them."""
        padded = -(-self.half // lanes) * lanes
        return self.channels + self.half + padded + lanes

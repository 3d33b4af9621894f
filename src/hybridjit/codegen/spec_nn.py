"""KernelSpecs of recurrent layers, normalisations, selection by index and resampling.

As in ``spec.py``: strides count f32 elements, and nothing here names a batch size.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    kind = "recurrent"

    @property
    def gates(self) -> int:
        return {"lstm": 4, "gru": 3}.get(self.mode, 1)

"""KernelSpecs of resampling and of regions of images, all on channels last.

Strides count f32 elements, per (image, row, column); those of operands and results are as in
``ConvSpec``. Nothing here names a batch size.
"""

from __future__ import annotations

from dataclasses import dataclass

from .spec import Ints, KernelSpec, Program


@dataclass(frozen=True)
class ResizeSpec(KernelSpec):
    """Another resolution; arguments: x, operands, results, batch.

    how    ``nearest``: whole repetitions; ``bilinear``, the corners aligned or not; ``average``:
           of the bins [floor(i h / H), ceil((i + 1) h / H))
    """

    how: str
    inp: Ints
    out: Ints
    channels: int
    xs: Ints
    reads: tuple[Ints, ...]
    writes: tuple[Ints, ...]
    align: bool = False
    program: Program = Program(1)
    kind = "resize"

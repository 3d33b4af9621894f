"""KernelSpecs of resampling and of regions of images, all on channels last.

Strides count elements, per (image, row, column); those of operands and results are as in
``ConvSpec``. Nothing here names a batch size.
"""

from __future__ import annotations

from ..records import dataclass
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
    element: str = "float32"
    kind = "resize"


@dataclass(frozen=True)
class SampleSpec(KernelSpec):
    """Bilinear samples at places of an image; arguments: x, grid, mask if any, y, batch.

    inp, out  sizes of the image and of the grid
    grid      strides per (image, coordinate, row, column)
    places    ``grid``: x and y, from -1 at the first cell to 1 at the last one; ``cells``: y and x,
              counted in cells
    edge      ``zeros``: the image goes on as zeros; ``held``: up to one cell beyond the last one it
              goes on as that, and is 0 elsewhere
    mask      strides per (image, row, column) of factors; empty for none
    """

    inp: Ints
    out: Ints
    channels: int
    xs: Ints
    grid: Ints
    ys: Ints
    places: str = "grid"
    edge: str = "zeros"
    mask: Ints = ()
    element: str = "float32"
    kind = "sample"


@dataclass(frozen=True)
class RegionSpec(KernelSpec):
    """Pooling of regions of interest; arguments: x, rois, y, images, regions.

    how     ``align``: the average of bilinear samples; ``max``: the largest of whole cells
    columns, row  numbers of a region, 5 with the image's number first, 4 without; from row to row
    ratio   samples of a bin along each axis; 0 or less: as many as it has cells
    """

    how: str
    inp: Ints
    bins: Ints
    channels: int
    xs: Ints
    ys: Ints
    columns: int
    row: int
    scale: float
    ratio: int = 0
    aligned: bool = False
    element: str = "float32"
    kind = "region"

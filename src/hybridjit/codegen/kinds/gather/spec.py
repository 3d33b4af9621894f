"""KernelSpecs of selection by index. Sizes count elements; nothing here names a batch size.

A *run* is what is moved at once: ``run`` elements that lie next to each other. Elements are moved
as what ``moved`` names, whatever they are; indices are of type ``index``, truncated towards zero.
"""

from __future__ import annotations

from enum import auto

from ...._core.frozen import dataclass
from ...spec import Extent, Extents, KernelSpec, Way


class Outside(Way):
    """What becomes of an index outside.

    ``RAISE`` raises the flag; ``NEGATIVE`` too, but -size to -1 count from the end.
    """

    CLIP = auto()
    WRAP = auto()
    RAISE = auto()
    NEGATIVE = auto()


class Selection(Way):
    """Which runs are taken.

    TAKE     along an axis, ``count`` indices for all (0: any number, one outer row)
    PICK     one element of each line of ``size`` elements, ``inner`` apart
    ND       by index vectors over axes of these ``sizes``
    LAST, REVERSE, MASK  steps of sequences, with lengths for indices
    """

    TAKE = auto()
    PICK = auto()
    ND = auto()
    LAST = auto()
    REVERSE = auto()
    MASK = auto()


@dataclass(frozen=True)
class GatherSpec(KernelSpec):
    """Runs of the data in another order; arguments: data, index, y, flag, runs, samples.

    size    how many there are along the axis
    batch_first  sequences: whether samples come before steps
    fill    mask: the bits of what is written behind a sequence's end
    """

    how: Selection
    run: Extent
    index: str
    moved: str
    mode: Outside = Outside.CLIP
    size: Extent = 1
    count: Extent = 0
    inner: Extent = 1
    sizes: Extents = ()
    batch_first: bool = False
    fill: int = 0
    kind = "gather"
    extents = ("run", "size", "count", "inner", "sizes")


@dataclass(frozen=True)
class ScatterSpec(KernelSpec):
    """Runs put at index vectors over ``sizes``; arguments: data, index, [base,] y, flag, count.

    Elsewhere are those of ``base``, or zeros. Of equal index vectors the last one counts.
    adds  all of them count instead, one after the other in numbers of type ``moved``
    """

    run: Extent
    index: str
    moved: str
    sizes: Extents
    has_base: bool = False
    adds: bool = False
    kind = "scatter"
    extents = ("run", "sizes")


@dataclass(frozen=True)
class OneHotSpec(KernelSpec):
    """A row of ``depth`` elements for each index; arguments: index, y, rows."""

    depth: int
    index: str
    dtype: str
    on: float
    off: float
    kind = "one_hot"

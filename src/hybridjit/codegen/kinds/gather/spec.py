"""KernelSpecs of selection by index. Sizes count elements; no spec contains a batch size.

A *run* consists of ``run`` contiguous elements that are moved together. Elements are moved as the
type ``moved``, whatever their type is; indices are of type ``index``, truncated towards zero.
"""

from __future__ import annotations

from enum import auto

from ...._core.frozen import dataclass
from ...spec import Extent, Extents, KernelSpec, Way

# Elements of a run from which on LLVM's passes gain nothing.
_LONG = 64


class Outside(Way):
    """Treatment of an index out of range.

    ``RAISE`` raises the flag; ``NEGATIVE`` too, but -size to -1 count from the end.
    """

    CLIP = auto()
    WRAP = auto()
    RAISE = auto()
    NEGATIVE = auto()


class Selection(Way):
    """Runs that are selected.

    TAKE     along an axis, ``count`` indices for each outer row (0: any number, one outer row)
    PICK     one element of each line of ``size`` elements, ``inner`` apart
    ND       by index vectors over axes of these ``sizes``
    LAST, REVERSE, MASK  steps of sequences, with lengths as indices
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

    size    number of runs along the axis
    batch_first  sequences: whether samples come before steps
    fill    mask: the bits written after a sequence's end
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

    @property
    def needs_passes(self) -> bool:  # type: ignore[override]
        """Runs of many elements gain nothing, for twice the compile time."""
        is_long = isinstance(self.run, int) and self.run >= _LONG
        return not (is_long and self.how is Selection.TAKE)


@dataclass(frozen=True)
class ScatterSpec(KernelSpec):
    """Runs written at index vectors over ``sizes``; arguments: data, index, [base,] y, flag, count.

    Other positions have the runs of ``base``, or zeros. The last of equal index vectors prevails.

    adds  the runs of equal index vectors are added instead, in order, in type ``moved``
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

    depth: Extent
    index: str
    dtype: str
    on: float
    off: float
    kind = "one_hot"
    extents = ("depth",)

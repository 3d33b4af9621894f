"""KernelSpecs of selection by index. Sizes count elements; nothing here names a batch size.

A *run* is what is moved at once: ``run`` elements that lie next to each other. Elements are moved
as what ``moved`` names, whatever they are; indices are of type ``index``, truncated towards zero.
"""

from __future__ import annotations

from ....records import dataclass
from ...spec import Ints, KernelSpec


@dataclass(frozen=True)
class GatherSpec(KernelSpec):
    """Runs of the data in another order; arguments: data, index, y, flag, runs, samples.

    how     ``take``: along an axis, ``count`` indices for all (0: any number, one outer row);
            ``pick``: one element of each line of ``size`` elements, ``inner`` apart;
            ``nd``: by index vectors over axes of these ``sizes``;
            ``last``, ``reverse``, ``mask``: steps of sequences, with lengths for indices
    mode    what becomes of an index outside: clip, wrap, or raise, which raises the flag
    size    how many there are along the axis
    batch_first  sequences: whether samples come before steps
    fill    mask: the bits of what is written behind a sequence's end
    """

    how: str
    run: int
    index: str
    moved: str
    mode: str = "clip"
    size: int = 1
    count: int = 0
    inner: int = 1
    sizes: Ints = ()
    batch_first: bool = False
    fill: int = 0
    kind = "gather"


@dataclass(frozen=True)
class ScatterSpec(KernelSpec):
    """Runs put at index vectors over ``sizes``; arguments: data, index, [base,] y, flag, count.

    Elsewhere are those of ``base``, or zeros. Of equal index vectors the last one counts.
    adds  all of them count instead, one after the other in numbers of type ``moved``
    """

    run: int
    index: str
    moved: str
    sizes: Ints
    has_base: bool = False
    adds: bool = False
    kind = "scatter"


@dataclass(frozen=True)
class OneHotSpec(KernelSpec):
    """A row of ``depth`` elements for each index; arguments: index, y, rows."""

    depth: int
    index: str
    dtype: str
    on: float
    off: float
    kind = "one_hot"

"""The register tile of products: numbers of rows and vectors of sums in registers."""

from __future__ import annotations

from math import gcd

from ...._core.symbolic import Size, hint_of
from ...._core.target import Target
from ...families import family_of


def most_rows(target: Target) -> dict[int, int]:
    """For each number of vectors of channels, the most output columns of a tile in registers.

    Without FMA a product needs a register as well: 6x2 spills 14 times in 48 products, 4x2 is 5 to
    10 % faster (measured on 28x28, 128 to 128, 3x3 and 1x1).
    """
    if target.vector_registers >= 32:
        return {1: 14, 2: 12, 3: 8, 4: 6, 6: 4, 8: 1}
    if target.has_fma:
        return {1: 12, 2: 6, 3: 4, 4: 3, 6: 2, 8: 1}
    return {1: 9, 2: 4, 3: 3, 4: 2, 6: 1, 8: 1}


# Minimum columns for tiles of two or three vectors of channels.
_FEW_COLUMNS = 6


def register_tile(columns: int, vectors: int, target: Target) -> tuple[int, int]:
    """The register tile: output columns x vectors of channels.

    The accumulators, a row of B and a broadcast of A share the registers. Two vectors of B let a
    pair of FMAs use each broadcast; with few columns more vectors provide eight independent sums,
    which hide the latency of an FMA (4 cycles x 2 units). Measured, 32 registers of 16 lanes: 12x2,
    8x2, 7x2 and 6x4 all reach 96 to 100 % of the FMA peak, 14x2 85 % in a convolution (its
    addresses exceed the integer registers), 7x4 spills. On CPUs that multiply vectors in halves,
    four sums hide the latency for one column: weights from memory, 25088 to 4096, take 12.9 ms on
    Zen 4, 13.9 with eight sums; 4096 to 1000 0.52 and 0.65.

    Sums do not depend on the tile: for symbolic sizes the hint decides, as for at least
    ``_FEW_COLUMNS``.
    """
    if isinstance(columns, Size):
        columns = max(_FEW_COLUMNS, hint_of(columns))
    vectors, most = hint_of(vectors), most_rows(target)
    if vectors == 1:
        nv = 1
    elif columns >= _FEW_COLUMNS:
        nv = 3 if vectors % 3 == 0 and vectors % 2 else 2
    else:
        wished = {1: 4 if multiplies_in_halves(target) else 8, 2: 6, 3: 4, 4: 4, 5: 4}[columns]
        nv = max(n for n in most if n <= min(wished, vectors))
    return min(columns, most[nv]), nv


def multiplies_in_halves(target: Target) -> bool:
    """Whether a load from the first-level cache per multiply-add of a vector costs nothing.

    Tiles of one vector of channels then lose no time, and have more rows, with half as many
    filters. Zen 4: 16 to 64 channels, 1x1 at 55x55, take 0.91 of the time in tiles of 14x1 (12x2
    elsewhere), 144 to 24 at 56x56 0.93, 64 to 256 0.98; by Winograd 128 to 32 at 28x28 0.96, 64 to
    64 and 256 to 256 0.99. Not for pairs of bfloat16, which take 1.33 of the time.
    """
    is_single = target.element.computed == "float32"
    return is_single and target.has_fma and family_of(target).works_on_halves(target)


def ends_in_half(channels: int, target: Target) -> bool:
    """Whether the last of these channels' vectors is half a vector, which takes half the time.

    Zen 4, 56x56: 96 to 24 channels at 87 % of the FMA peak, 74 with two full vectors; 144 to 40 at
    28x28 98 and 82; 64 to 4 41 and 23.
    """
    fits = 0 < channels % target.lanes <= target.lanes // 2
    return multiplies_in_halves(target) and fits


# Lines whose addresses differ by a multiple of this share a set of the first-level cache, which has
# at least 8 and usually 12 lines.
_SET_BYTES = 4096


def rows_share_sets(step: int, target: Target) -> bool:
    """Whether rows that begin ``step`` elements apart are in the same cache sets."""
    return step % (_SET_BYTES // target.stored_bytes) == 0


def places_before_a_set(step: int, target: Target) -> int:
    """The number of lines ``step`` elements apart before two of them share a cache set."""
    nbytes = step * target.stored_bytes
    return _SET_BYTES // max(64, gcd(nbytes, _SET_BYTES))

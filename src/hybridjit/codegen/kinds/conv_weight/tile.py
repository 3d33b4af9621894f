"""The register tile of products that are summed over positions."""

from __future__ import annotations

from ...._core.target import Target


def most_rows(target: Target) -> dict[int, int]:
    """For each number of vectors of filters, the most rows of a tile in registers.

    With one vector, each element of the data is loaded for a single multiplication: 16 rows take
    1.85 ms, 24 take 2.0 (64 images of 32x32, 16 to 16 channels).
    """
    if target.vector_registers >= 32:
        return {1: 16, 2: 12, 3: 8}
    return {1: 12, 2: 6, 3: 4} if target.has_fma else {1: 9, 2: 4, 3: 3}

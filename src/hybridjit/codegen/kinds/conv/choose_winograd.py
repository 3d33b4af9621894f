"""Which layers Winograd suits, and the blocking of its kernel."""

from __future__ import annotations

from collections.abc import Iterator

from ....target import TYPES_OF, Target
from ....types import product
from .layer import Layer
from .spec import WinogradSpec
from .tile import most_rows


def suits_winograd(layer: Layer, target: Target | None) -> bool:
    """3x3 at stride 1 on pictures, not volumes; for a target, channels that fill its vectors.

    Dilated by d, it is d x d plain ones, each on the pixels that lie d apart.
    """
    plain = layer.kernel == (1, 3, 3) and layer.stride == (1, 1, 1)
    flat = layer.out[0] == 1  # the kernel's tiles lie in images: it knows no depth
    padded = layer.pad[0] == 0 and all(p <= 2 * d for p, d in zip(layer.pad, layer.dilate))
    wide = target is None or min(layer.ic, layer.oc) >= target.lanes
    return plain and flat and padded and wide and layer.groups == 1 and layer.xs[4] == 1


def winograd_blocks(layer: Layer, target: Target, m: int) -> Iterator[WinogradSpec]:
    """The same in blocks of half and of twice as many tiles."""
    for factor in (0.5, 2):
        yield winograd_spec(layer, target, m, factor)


def winograd_spec(layer: Layer, target: Target, m: int, factor: float = 1) -> WinogradSpec:
    """F(m x m, 3x3): blocks of tiles whose transforms stay in the second-level cache.

    Filters that do not stay there are brought in once for every block, so blocks grow with them:
    28 tiles are 14 operations a byte from the third level, 49 are 25 from memory. ``factor`` makes
    them larger or smaller.
    """
    vectors = -(-layer.oc // target.lanes)
    nv = 2 if vectors > 1 else 1
    sizes = [-(-size // d) for size, d in zip(layer.out[1:], layer.dilate[1:])]
    points, total = (m + 2) ** 2, product(tuple(-(-size // m) for size in sizes))
    total *= product(layer.dilate[1:])
    filters = 4 * points * layer.ic * layer.oc
    if filters <= 4 * target.l2_bytes:
        wished = max(12, target.l2_bytes // 2 // (4 * points * (layer.ic + layer.oc)))
    else:
        wished = 28 if filters <= 16 * target.l2_bytes else 49
    wished = max(2, int(factor * wished))
    tiles, mr = _tile_block(total, wished, most_rows(target)[2])
    columns = -(-vectors // nv)
    fitting = target.l2_bytes // 2 // (4 * points * tiles * nv * target.lanes)
    blocks = max(1, min(columns, fitting))
    while blocks > 1 and -(-total // tiles) * -(-columns // blocks) < 4:
        blocks = -(-blocks // 2)
    return WinogradSpec(
        m=m, inp=layer.inp, out=layer.out, pad=layer.pad, ic=layer.ic, oc=layer.oc,
        tiles=tiles, blocks=blocks, mr=mr, nv=nv, unroll=4,
        dilate=layer.dilate[1:], element=TYPES_OF[target.element.stored], **layer.tensors,
    )  # fmt: skip


def _tile_block(total: int, wished: int, most: int) -> tuple[int, int]:
    """Tiles per block near ``wished`` and rows per register tile, so that few rows are padding."""
    best = (10**9, 0, 0, 0)
    for tiles in range(max(1, min(total, wished * 2 // 3)), min(total, wished * 5 // 4) + 1):
        for mr in range(min(tiles, max(2, most // 2)), min(tiles, most) + 1):
            full, rest = divmod(total, tiles)
            padded = full * -(-tiles // mr) * mr + -(-rest // mr) * mr
            # A wider register tile brings each row of filters for more rows of data.
            best = min(best, (padded * (64 + most - mr), abs(tiles - wished), tiles, mr))
    return best[2], best[3]

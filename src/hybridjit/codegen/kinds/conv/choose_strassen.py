"""Choose the 1x1 layers that use Strassen's algorithm, and the blocks of its kernel."""

from __future__ import annotations

from functools import lru_cache

from ...._core.symbolic import hint_of
from ...._core.target import SINGLE, Target
from ...._core.types import product
from ...packing import first_half
from .choose_direct import flattened
from .layer import Layer
from .size_choices import chunks_of_half, fewest_register_rows, wished_pairs
from .spec import PRODUCTS, StrassenSpec
from .tile import most_rows


def suits_strassen(layer: Layer, target: Target) -> bool:
    """Whether a 1x1 layer can use Strassen's algorithm.

    Its filters are transformed once; the halves of the channels are full vectors, and so is the
    first half of the filters. Channels may have any stride.
    """
    one = (1, 1, 1)
    is_plain = layer.kernel == layer.stride == one and layer.pad == (0, 0, 0)
    has_pairs = product(layer.out) > 1 and not layer.images
    return is_plain and layer.groups == 1 and has_halves(layer.ic, layer.oc, target) and has_pairs


def has_halves(inputs: int, outputs: int, target: Target) -> bool:
    """Whether both halves of the channels and the first half of the filters are full vectors."""
    are_whole = not inputs % (2 * target.lanes) and outputs > 2 * target.lanes
    return are_whole and target.element == SINGLE


def strassen_spec(layer: Layer, target: Target) -> StrassenSpec:
    """Blocks of pairs whose sums fill three eighths of the second-level cache: see
    :func:`.size_choices.wished_pairs`.

    14x14 with 512 to 512 channels is two blocks of 49 pairs: 0.377 ms, in register tiles of 7 rows,
    which leave none empty; 0.387 with 10 rows, 0.41 with the direct kernel. 128 rows, 3072 to 768
    channels, are two blocks as well, with four chunks of the channels.
    """
    flat = flattened(layer)
    vectors = first_half(layer.oc, target.lanes) // target.lanes
    pairs = -(-product(layer.out) // 2)
    room, channels = room_of_products(target), layer.ic // 2
    chunks = chunks_of_half(pairs, room, layer.oc, channels, target.lanes)
    # Chunks change the order of a sum, blocks do not; blocks are therefore chosen by the hint.
    wished = wished_pairs(hint_of(pairs), room * chunks // channels)
    tiles, mr = pairs_of_block(hint_of(pairs), wished, most_rows(target)[2])
    return StrassenSpec(
        out=flat.out, ic=layer.ic, oc=layer.oc, tiles=tiles, mr=mr, nv=2 if vectors > 1 else 1,
        unroll=4, chunks=chunks, **flat.tensors,
    )  # fmt: skip


# Rows of a register tile for any number of pairs: enough sums to hide the latency of a
# multiply-add, and few unused rows at the end of a block.
_ROWS_OF_ANY = 8


def block_of_any(spec: StrassenSpec, target: Target) -> dict[str, int]:
    """The block and the register tile of a kernel for any number of pairs, if blocks are large.

    One tile serves most layers and sizes, which share a kernel: an encoder of 4 layers at lengths 8
    to 512 compiles 4 kernels for its 1x1 layers instead of 9, and takes as long. Blocks are whole
    tiles: with 99 pairs in tiles of 8 rows it takes 3 % longer.
    """
    rows = min(_ROWS_OF_ANY, most_rows(target)[2])
    return {"mr": rows, "tiles": spec.tiles // rows * rows} if spec.tiles > 2 * rows else {}


def room_of_products(target: Target) -> int:
    """Elements per product such that all seven fill three eighths of the second-level cache."""
    return 3 * target.l2_bytes // 8 // (4 * PRODUCTS)


@lru_cache(maxsize=4096)
def pairs_of_block(pairs: int, wished: int, most: int) -> tuple[int, int]:
    """Pairs of a block near ``wished``, and rows of a register tile, with little padding.

    The search starts at ``wished`` and ends at the first block without avoidable padding: 14 to 19
    us for 400 to 1600 pairs, instead of 280 to 420 us for all blocks.
    """
    fewest, most = fewest_register_rows(most), min(pairs, most)
    low, high = max(1, wished // 2), min(pairs, wished * 5 // 4)
    least = min(-(-pairs // mr) * mr for mr in range(min(low, fewest), min(high, most) + 1))
    best = (10**9, 0, 0, 0)
    for tiles in sorted(range(low, high + 1), key=lambda tiles: abs(tiles - wished)):
        full, rest = divmod(pairs, tiles)
        for mr in range(min(tiles, fewest), min(tiles, most) + 1):
            padded = (full * -(-tiles // mr) + -(-rest // mr)) * mr
            best = min(best, (padded, abs(tiles - wished), tiles, mr))
        if best[0] == least:
            break
    return best[2], best[3]

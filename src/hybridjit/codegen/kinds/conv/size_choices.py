"""Choice of a layer's algorithm from the sizes of a call, in Python and as machine code.

The functions receive sizes and the record of a layer: a sequence of integers and floats that
:mod:`.choose_by_size` builds. ``codegen/llvm/scalar.py`` compiles the functions.
"""

from __future__ import annotations

from ...llvm.scalar import Floats, Ints

# Largest number of chunks, a power of two, into which the channels of a half may be divided.
MOST_CHUNKS = 16
# Pairs per block whose computation hides the time to load its filters from memory.
ENOUGH_PAIRS = 24
# Tiles of 5 are used where they need at most this fraction of the products of tiles of 4.
FIVE_GAINS = 5 / 6
# Costs with a smaller ratio may differ by rounding errors only.
CLEARLY = 1 + 1e-9
NONE = 10**15
UNCLEAR = -1
OF_A_BLOCK = 1024  # base of a packed pair; above the rows of any register tile
# Fields of a record for Strassen's algorithm.
STRASSEN = (
    *("is_always", "room", "filters", "channels", "lanes", "most"),
    *("operations", "at_once", "padded", "price", "of_row", "of_pair", "weights"),
)
# First fields of a record for Winograd's algorithm, then the fields of each tile size. ``is_five``:
# whether the tile requires :func:`gains_by_fives`. The last two lines: cost per row of products,
# cost per tile, most rows and columns of register tiles, for few and for many tiles.
WINDOWS = ("sizes", "many", "operations", "at_once", "padded", "price")
TILE = (
    *("size", "down", "across", "wished", "weights", "is_five"),
    *("of_row", "of_tile", "most", "columns"),
    *("of_row_of_many", "of_tile_of_many", "most_of_many", "columns_of_many"),
)
FIRST_TILE, TILE_FIELDS = len(WINDOWS), len(TILE)


def chunks_of_half(pairs: int, room: int, filters: int, channels: int, lanes: int) -> int:
    """The number of chunks of the channels of a half.

    The fewest with which the sums of :data:`ENOUGH_PAIRS`, or of all pairs, fit in ``room``; one,
    if the products of all filters, which stay there until the last chunk, do not fit as well.
    """
    enough = min(pairs, ENOUGH_PAIRS)
    if enough * filters // 2 <= room:
        chunks = 1
        while chunks <= MOST_CHUNKS:
            if room * chunks // channels >= enough and channels % (chunks * lanes) == 0:
                return chunks
            chunks = 2 * chunks
    return 1


def wished_pairs(pairs: int, fitting: int) -> int:
    """Pairs per block, of which ``fitting`` fit in the cache: two blocks, so that two threads
    transform different ones, or more.

    One block, which may exceed that by a third, if two would not hide the time to load their
    filters: 64 rows with filters from memory, 384 to 1536 channels and back, take 0.89 of the time
    of direct products in a block of 32 pairs, 1.02 in two of 16; 768 to 3072 0.87 and 1.18; 1024 to
    4096 0.87 and 1.15 (Zen 4).
    """
    if pairs < 2 * ENOUGH_PAIRS and 3 * pairs <= 4 * fitting:
        return pairs
    return max(1, min(-(-pairs // 2), fitting))


def fewest_register_rows(most: int) -> int:
    """Rows of the smallest register tile that is considered."""
    return most // 2 + 1 if most > 6 else most - 1


def filled_pairs(pairs: int, tiles: int, mr: int) -> int:
    """Rows of all register tiles, padding included, for blocks of ``tiles`` pairs."""
    return (pairs // tiles * -(-tiles // mr) + -(-(pairs % tiles) // mr)) * mr


def fewest_filled(pairs: int, wished: int, most: int) -> int:
    """The fewest rows of register tiles, padding included, for blocks of about ``wished`` pairs.

    The search starts at ``wished`` and stops when the remaining padding cannot be avoided.
    """
    fewest = fewest_register_rows(most)
    largest = min(pairs, most)
    low = max(1, wished // 2)
    high = min(pairs, wished * 5 // 4)
    least = NONE
    for mr in range(min(low, fewest), min(high, largest) + 1):
        least = min(least, -(-pairs // mr) * mr)
    found = NONE
    distance = 0
    while found > least and distance <= max(wished - low, high - wished):
        for side in range(2):
            tiles = wished + distance if side == 1 else wished - distance
            if tiles >= low and tiles <= high:
                for mr in range(min(tiles, fewest), min(tiles, largest) + 1):
                    found = min(found, filled_pairs(pairs, tiles, mr))
        distance = distance + 1
    return found


def direct_cost(positions: int, ints: Ints, floats: Floats, first: int) -> float:
    """Cost of the direct kernel, whose fields in the record begin at ``first``."""
    operations = floats[first + 2] * (ints[first] * positions) / ints[first + 1]
    return max(operations, floats[first + 3])


def strassen_of(pairs: int, rows: int, floats: Floats) -> float:
    """Cost of Strassen's algorithm, where ``rows`` are the rows of all register tiles."""
    return floats[10] * rows + floats[11] * pairs + floats[12]


def strassen_chunks(positions: int, ints: Ints, floats: Floats) -> int:
    """The number of chunks for Strassen's algorithm; 0 for the direct kernel."""
    if positions < 2:
        return 0
    pairs = -(-positions // 2)
    chunks = chunks_of_half(pairs, ints[1], ints[2], ints[3], ints[4])
    if ints[0] == 1:
        return chunks
    direct = direct_cost(positions, ints, floats, 6)
    if strassen_of(pairs, pairs, floats) > direct:
        return 0
    tiles = wished_pairs(pairs, ints[1] * chunks // ints[3])
    mr = min(tiles, fewest_register_rows(ints[5]))
    if strassen_of(pairs, filled_pairs(pairs, tiles, mr), floats) <= direct:
        return chunks
    exact = strassen_of(pairs, fewest_filled(pairs, tiles, ints[5]), floats)
    return 0 if exact > direct else chunks


def strassen_pays(positions: int, whole: int, ints: Ints, floats: Floats) -> int:
    """Whether Strassen's algorithm is used for ``positions`` of a sample and costs less than
    direct products; ``whole`` is the number of positions of all samples.

    Direct products load the weights once for several samples of few rows: 28 samples of 7 rows, 384
    to 1536 channels, take 1.0 ms by direct products and 2.4 ms by Strassen's algorithm.
    """
    if whole < 2:
        return 0
    chunks = strassen_chunks(positions, ints, floats)
    if chunks == 0:
        return 0
    if ints[0] == 1:
        return 1
    pairs = -(-positions // 2)
    tiles = wished_pairs(pairs, ints[1] * chunks // ints[3])
    cost = strassen_of(pairs, fewest_filled(pairs, tiles, ints[5]), floats)
    return 1 if cost < ints[6] * positions else 0


def larger_half(rows: int, each: int, columns: int, groups: int) -> int:
    """The work of the slower of two threads, in register tiles: see ``tile_blocks``."""
    if columns == 1 and groups == 1:
        return -(-rows // 2)
    blocks = -(-rows // each)
    half = blocks * columns * groups // 2
    units = half % (blocks * columns)
    block = units // columns
    start = (2 * block * rows + blocks) // (2 * blocks)
    end = (2 * (block + 1) * rows + blocks) // (2 * blocks)
    first = half // (blocks * columns) * rows * columns + start * columns
    first = first + units % columns * (end - start)
    return max(first, groups * rows * columns - first)


def even_tiles(total: int, wished: int, most: int, columns: int, groups: int) -> int:
    """Tiles per block, times :data:`OF_A_BLOCK`, plus rows per register tile.

    The tiles per block are near ``wished``, fill register tiles and give two threads equal work: 51
    tiles make blocks of 26 and 25, because with 33 and 18 one of two threads has 1.2 times the
    mean. A layer of 192 to 192 channels takes 6 % less time on one thread as well, since it
    computes 52 rows instead of 55.
    """
    fewest = max(1, min(total, wished * 2 // 3))
    many = min(total, wished * 4 // 3)
    best = 1e12
    apart = 0
    taken = 0
    height = 0
    for mr in range(min(total, max(2, most // 2)), min(total, most) + 1):
        rows = -(-total // mr)
        for blocks in range(-(-fewest // mr), -(-many // mr) + 1):
            each = -(-rows // -(-rows // blocks))
            tiles = min(total, each * mr)
            if tiles <= many:
                half = larger_half(rows, each, columns, groups) / groups
                # A register tile with more rows uses each loaded row of filters more often.
                cost = mr * (rows * columns + 2 * half) * (64 + abs(min(most, 12) - mr))
                far = abs(tiles - wished)
                is_better = cost < best
                if cost == best:
                    is_better = far < apart or (far == apart and tiles < taken)
                if is_better:
                    best = cost
                    apart = far
                    taken = tiles
                    height = mr
    return taken * OF_A_BLOCK + height


def tile_cost(
    depth: int, height: int, width: int, ints: Ints, floats: Floats, at: int, how: int
) -> float:
    """Cost of the tile size whose fields in the record begin at ``at``.

    ``how`` selects the result: 0 a lower bound, 1 an upper bound, 2 the cost.
    """
    total = depth * -(-height // ints[at + 1]) * -(-width // ints[at + 2])
    of = at + 10 if total >= ints[1] else at + 6
    most = ints[of + 2]
    rows = NONE
    highest = 0
    if how == 2:
        mr = even_tiles(total, ints[at + 3], most, ints[of + 3], 1) % OF_A_BLOCK
        rows = -(-total // mr) * mr
    else:
        for mr in range(min(total, max(2, most // 2)), min(total, most) + 1):
            rows = min(rows, -(-total // mr) * mr)
            highest = max(highest, -(-total // mr) * mr)
    if how == 1:
        rows = highest
    return max(floats[of] * rows, floats[at + 4]) + floats[of + 1] * total


def gains_by_fives(height: int, width: int) -> int:
    """Whether tiles of 5 need few enough products for a 3x3 kernel and a result of this size."""
    fives = 49 * -(-height // 5) * -(-width // 5)
    fours = 36 * -(-height // 4) * -(-width // 4)
    return 1 if fives <= FIVE_GAINS * fours else 0


def cheapest_tile(depth: int, height: int, width: int, ints: Ints, floats: Floats) -> int:
    """Results per axis of the cheapest tile; 0 for the direct kernel, UNCLEAR if two costs are
    equal.

    The cost is computed only where its bounds do not decide.
    """
    direct = direct_cost(depth * height * width, ints, floats, 2)
    fives = gains_by_fives(height, width)
    highest = direct
    for number in range(ints[0]):
        at = FIRST_TILE + TILE_FIELDS * number
        if ints[at + 5] == 0 or fives == 1:
            highest = min(highest, tile_cost(depth, height, width, ints, floats, at, 1))
    highest = highest * CLEARLY
    rivals = 1 if direct <= highest else 0
    found = 0
    for number in range(ints[0]):
        at = FIRST_TILE + TILE_FIELDS * number
        is_taken = ints[at + 5] == 0 or fives == 1
        if is_taken and tile_cost(depth, height, width, ints, floats, at, 0) <= highest:
            rivals = rivals + 1
            found = ints[at]
    if rivals == 1:
        return found
    best = direct if direct <= highest else 1e300
    second = 1e300
    found = 0
    for number in range(ints[0]):
        at = FIRST_TILE + TILE_FIELDS * number
        is_taken = ints[at + 5] == 0 or fives == 1
        if is_taken and tile_cost(depth, height, width, ints, floats, at, 0) <= highest:
            cost = tile_cost(depth, height, width, ints, floats, at, 2)
            if cost < best:
                second = best
                best = cost
                found = ints[at]
            else:
                second = min(second, cost)
    return found if best * CLEARLY < second else UNCLEAR


# Functions that are compiled to machine code, callees first.
SIZE_FUNCTIONS = (
    chunks_of_half, wished_pairs, fewest_register_rows, filled_pairs, fewest_filled, direct_cost,
    strassen_of, strassen_chunks, strassen_pays, larger_half, even_tiles, tile_cost, gains_by_fives,
    cheapest_tile,
)  # fmt: skip

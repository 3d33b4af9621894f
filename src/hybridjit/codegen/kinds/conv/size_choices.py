"""The algorithm of a layer as a function of a call's sizes, for Python and for machine code.

The functions take sizes and the record of a layer, which :mod:`.choose_by_size` makes: a list of
integers and floats. ``codegen/llvm/scalar.py`` compiles them.
"""

from __future__ import annotations

from ...llvm.scalar import Floats, Ints

# Numbers of chunks into which the channels of a half may be divided: powers of two up to this one.
MOST_CHUNKS = 16
# Pairs of a block that hide the time of reading its filters.
ENOUGH_PAIRS = 24
# Tiles of 5 instead of 4 reduce products by a sixth.
FIVE_GAINS = 5 / 6
# Costs that differ by less may be rounded in another order.
CLEARLY = 1 + 1e-9
NONE = 10**15
UNCLEAR = -1
OF_A_BLOCK = 1024  # above the rows of any register tile
# Fields of a record for Strassen's algorithm.
STRASSEN = (
    *("is_always", "room", "filters", "channels", "lanes", "most"),
    *("operations", "at_once", "padded", "price", "of_row", "of_pair", "weights"),
)
# First fields of a record for Winograd's algorithm, and those of each size of a tile: whether it
# needs :func:`gains_by_fives`; costs of a row of the products and of a tile, rows and columns of
# register tiles, for few and many tiles.
WINDOWS = ("sizes", "many", "operations", "at_once", "padded", "price")
TILE = (
    *("size", "down", "across", "wished", "weights", "is_five"),
    *("of_row", "of_tile", "most", "columns"),
    *("of_row_of_many", "of_tile_of_many", "most_of_many", "columns_of_many"),
)
FIRST_TILE, TILE_FIELDS = len(WINDOWS), len(TILE)


def chunks_of_half(wished: int, room: int, filters: int, channels: int, lanes: int) -> int:
    """The number of chunks of the channels of a half, see ``chunks_for``."""
    enough = min(wished, ENOUGH_PAIRS)
    if enough * filters // 2 <= room:
        chunks = 1
        while chunks <= MOST_CHUNKS:
            if room * chunks // channels >= enough and channels % (chunks * lanes) == 0:
                return chunks
            chunks = 2 * chunks
    return 1


def fewest_register_rows(most: int) -> int:
    """Rows of the smallest register tile among which the best is found."""
    return most // 2 + 1 if most > 6 else most - 1


def filled_pairs(pairs: int, tiles: int, mr: int) -> int:
    """The rows that register tiles of ``mr`` rows fill, in blocks of ``tiles`` pairs."""
    return (pairs // tiles * -(-tiles // mr) + -(-(pairs % tiles) // mr)) * mr


def fewest_filled(pairs: int, wished: int, most: int) -> int:
    """The fewest rows that register tiles fill, with blocks near ``wished`` pairs.

    The search goes away from ``wished`` and ends without avoidable padding.
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
    """The cost of the direct kernel; its numbers are in the record from ``first`` on."""
    operations = floats[first + 2] * (ints[first] * positions) / ints[first + 1]
    return max(operations, floats[first + 3])


def strassen_of(pairs: int, rows: int, floats: Floats) -> float:
    """The cost of Strassen's algorithm, if register tiles fill these rows."""
    return floats[10] * rows + floats[11] * pairs + floats[12]


def strassen_chunks(positions: int, ints: Ints, floats: Floats) -> int:
    """The number of chunks for Strassen's algorithm; 0 for the direct kernel."""
    if positions < 2:
        return 0
    pairs = -(-positions // 2)
    wished = max(1, -(-pairs // 2))
    chunks = chunks_of_half(wished, ints[1], ints[2], ints[3], ints[4])
    if ints[0] == 1:
        return chunks
    direct = direct_cost(positions, ints, floats, 6)
    if strassen_of(pairs, pairs, floats) > direct:
        return 0
    tiles = max(1, min(wished, ints[1] * chunks // ints[3]))
    mr = min(tiles, fewest_register_rows(ints[5]))
    if strassen_of(pairs, filled_pairs(pairs, tiles, mr), floats) <= direct:
        return chunks
    exact = strassen_of(pairs, fewest_filled(pairs, tiles, ints[5]), floats)
    return 0 if exact > direct else chunks


def strassen_pays(positions: int, whole: int, ints: Ints, floats: Floats) -> int:
    """Whether Strassen's algorithm is used for the positions of a sample, and costs less than the
    products of the definition; ``whole`` are the positions of all samples.

    Samples with few rows share weights when rows are multiplied directly: 28 samples of 7 rows, 384
    to 1536 channels, take 2.4 instead of 1.0 ms by Strassen's algorithm.
    """
    if whole < 2:
        return 0
    chunks = strassen_chunks(positions, ints, floats)
    if chunks == 0:
        return 0
    if ints[0] == 1:
        return 1
    pairs = -(-positions // 2)
    wished = max(1, -(-pairs // 2))
    tiles = max(1, min(wished, ints[1] * chunks // ints[3]))
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
    """Tiles per block near ``wished``, with equal rows for two threads, in blocks of full register
    tiles; times :data:`OF_A_BLOCK`, and rows per register tile.

    51 tiles in blocks of 26 and 25: with 33 and 18, one of two threads has 1.2 times the mean. 192
    to 192 channels take 6 % less on one thread as well: 52 rows are less than 55.
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
                # A wider register tile loads each row of filters for more rows of data.
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
    """The cost of the tiles whose numbers are in the record from ``at`` on: 0 its lower bound, 1
    its upper bound, 2 the cost.
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
    """Whether tiles of 5 reduce the products of 3x3 enough for these results."""
    fives = 49 * -(-height // 5) * -(-width // 5)
    fours = 36 * -(-height // 4) * -(-width // 4)
    return 1 if fives <= FIVE_GAINS * fours else 0


def cheapest_tile(depth: int, height: int, width: int, ints: Ints, floats: Floats) -> int:
    """Results of the cheapest tile along an axis; 0 for the direct kernel, UNCLEAR if two cost the
    same.

    The cost is computed where the bounds do not decide.
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


# Functions that machine code needs, callees first.
SIZE_FUNCTIONS = (
    chunks_of_half, fewest_register_rows, filled_pairs, fewest_filled, direct_cost, strassen_of,
    strassen_chunks, strassen_pays, larger_half, even_tiles, tile_cost, gains_by_fives,
    cheapest_tile,
)  # fmt: skip

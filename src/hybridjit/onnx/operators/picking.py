"""Readers of ONNX's operators that select or write elements by index."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...errors import MXNetError
from ...ir.sized import is_symbolic
from ..importer import Importer, Value
from ..size_values import has_sizes, of_sizes
from ..use import Use
from .pointwise import as_number, to_shape
from .table import MICROSOFT, translates


@translates("Gather")
def gather(g: Importer, use: Use, x: Value, indices: Value) -> Value:
    """Slices along an axis by index; negative indices count from the end."""
    axis = use.number("axis") % g.rank(x)
    if indices.array is not None:
        size = g.shape(x)[axis]
        places = _non_negative(indices.array, size)
        if any(not 0 <= place < size for place in places.reshape(-1).tolist()):
            raise MXNetError(f"an index is out of range for size {size} of axis {axis}")
        if x.array is not None and not has_sizes(places):
            return g.constant(np.take(x.array, places, axis))
        indices = g.constant(places)
    else:
        below = g.op("_lesser_scalar", indices, scalar=0.0, at="below")
        more = _times_size(g, below, g.shape(x)[axis])
        indices = g.op("broadcast_add", indices, more, at="place")
    if g.rank(indices) == 0 and indices.array is not None:
        (place,) = g.ints(indices, "indices")
        part = g.op("slice_axis", x, axis=axis, begin=place, end=place + 1, at="part")
        return g.op("squeeze", part, axis=(axis,)) if g.rank(x) > 1 else g.scalar(part)
    if g.rank(indices) == 0:
        first = g.op("take", x, g.op("Reshape", indices, shape=(1,)), axis=axis, at="one")
        return g.op("squeeze", first, axis=(axis,)) if g.rank(x) > 1 else g.scalar(first)
    return g.op("take", x, indices, axis=axis)


def _non_negative(places: np.ndarray, size: int) -> np.ndarray:
    """Indices with negative ones counted from the end."""
    if not (has_sizes(places) or is_symbolic(size)):
        return np.where(places < 0, places + size, places)
    flat = [place + size if place < 0 else place for place in places.reshape(-1).tolist()]
    return of_sizes(flat).reshape(places.shape)


def _times_size(g: Importer, x: Value, size: int) -> Value:
    """Integers times a size, which may be symbolic."""
    if not is_symbolic(size):
        return g.op("_mul_scalar", x, scalar=float(size), at="more")
    number = g.op("Cast", g.sizes([size]), dtype=g.dtype(x), at="size")
    return g.op("broadcast_mul", x, number, at="more")


@translates("GatherElements")
def gather_elements(g: Importer, use: Use, x: Value, indices: Value) -> Value:
    """Elements at given indices of each line along an axis."""
    axis, shape, whole = use.number("axis") % g.rank(x), g.shape(indices), g.shape(x)
    steps = [math.prod(whole[d + 1 :]) for d in range(len(whole))]
    flat = _times_size(g, _from_the_end(g, indices, whole[axis]), steps[axis])
    for start in _line_starts(g, [1 if i == axis else n for i, n in enumerate(shape)], steps):
        flat = g.op("broadcast_add", flat, start)
    return g.op("take", g.op("Reshape", x, shape=(-1,), at="flat"), flat, axis=0)


def _line_starts(g: Importer, lines: Sequence[int], steps: Sequence[int]) -> Iterator[Value]:
    """Integers whose sum is the place of each line in the flat array: one constant, or one integer
    array for each axis if sizes are symbolic.
    """
    if not is_symbolic(tuple(lines)):
        g.require_small(math.prod(lines))
    axes = [d for d, n in enumerate(lines) if is_symbolic(n) or n != 1]
    if not is_symbolic(tuple((lines[d], steps[d]) for d in axes)):
        start = sum(np.indices(lines)[d] * steps[d] for d in axes)
        yield g.constant(np.broadcast_to(start, lines).astype(np.int64))
        return
    for d in axes:
        line = g.op("_arange", start=0, stop=lines[d], dtype=np.dtype(np.int64), at="line")
        shape = tuple(-1 if i == d else 1 for i in range(len(lines)))
        yield g.op("Reshape", _times_size(g, line, steps[d]), shape=shape, at="start")


def _from_the_end(g: Importer, indices: Value, size: int) -> Value:
    """int64 indices, negative ones counted from the end."""
    wide = g.op("Cast", indices, dtype=np.dtype("int64"), at="index")
    below = g.op("_lesser_scalar", wide, scalar=0.0, at="below")
    return g.op("broadcast_add", wide, _times_size(g, below, size), at="place")


@translates("GatherND", MICROSOFT + "GatherND")
def gather_nd(g: Importer, use: Use, x: Value, indices: Value) -> Value:
    """Slices by index tuples along the last axis of the indices."""
    places = _index_tuples(g, indices, g.shape(x)[use.number("batch_dims") :])
    if use.number("batch_dims"):
        places = _with_batch_indices(g, places, use.number("batch_dims"))
    rank = g.rank(places)
    order = (rank - 1, *range(rank - 1))
    return g.op("gather_nd", x, g.op("transpose", places, axes=order, at="order"))


def _index_tuples(g: Importer, indices: Value, sizes: Sequence[int]) -> Value:
    """int64 index tuples along the last axis, negative ones counted from the end."""
    wide = g.op("Cast", indices, dtype=np.dtype("int64"), at="index")
    count = g.shape(indices)[-1]
    limits = sizes[:count]
    if wide.array is not None:
        columns = [_non_negative(wide.array[..., i], size) for i, size in enumerate(limits)]
        return g.constant(np.stack(columns, axis=-1))
    below = g.op("_lesser_scalar", wide, scalar=0.0, at="below")
    row = g.constant(of_sizes(limits).reshape((1,) * (g.rank(indices) - 1) + (count,)))
    return g.op("broadcast_add", wide, g.op("broadcast_mul", below, row, at="size"), at="place")


def _with_batch_indices(g: Importer, places: Value, count: int) -> Value:
    """Index tuples preceded by the indices of their batch axes."""
    shape = g.shape(places)
    g.require_small(math.prod(shape) * (count + 1))
    grid = np.indices(shape[:-1])[:count]
    samples = np.moveaxis(grid, 0, -1).astype(np.int64)
    return g.op("Concat", g.constant(samples), places, num_args=2, dim=len(shape) - 1, at="whole")


def put_rows(g: Importer, x: Value, places: Value, updates: Value, inner: tuple[int, ...]) -> Value:
    """``x`` with rows of shape ``inner`` written at distinct indices."""
    shape = g.shape(x)
    rows = g.op("Reshape", x, shape=(-1, *inner), at="data")
    new = g.op("Reshape", updates, shape=(-1, *inner), at="updates")
    made = g.op("_contrib_index_copy", rows, places, new, at="copied")
    return g.op("Reshape", made, shape=shape)


@translates("Compress")
def compress(g: Importer, use: Use, x: Value, condition: Value) -> Value:
    """Slices or elements selected by a constant, which determines the result's size."""
    chosen = np.flatnonzero(g.known(condition, "condition"))
    axis = 0
    if "axis" in use:
        axis = use.number("axis") % g.rank(x)
    else:
        x = g.op("Reshape", x, shape=(-1,), at="flat")
    if len(chosen) and chosen[-1] >= g.shape(x)[axis]:
        raise MXNetError(
            f"its condition selects index {chosen[-1]}, but axis {axis} has size {g.shape(x)[axis]}"
        )
    if not len(chosen):
        sizes = (*g.shape(x)[:axis], 0, *g.shape(x)[axis + 1 :])
        return g.filled(sizes, np.zeros(1, g.dtype(x)))
    return g.op("take", x, g.constant(chosen.astype(np.int64)), axis=axis)


@translates("NonZero")
def nonzero(g: Importer, use: Use, x: Value) -> Value:
    """Indices of nonzero elements, for constants only: their count depends on values."""
    found = np.atleast_1d(g.known(x, "X"))
    g.require_small(found.size * found.ndim)
    return g.constant(np.stack(np.nonzero(found)).astype(np.int64))


@translates("Unique")
def unique(g: Importer, use: Use, x: Value) -> tuple[Value, ...]:
    """Unique slices or elements, first indices, inverse indices and counts, for constants only."""
    found = g.known(x, "X")
    g.require_small(4 * found.size)
    axis = use.number("axis") if "axis" in use else None
    parts, first, which, counts = np.unique(
        found, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not use.number("sorted", 1):
        order = np.argsort(first)
        parts = np.take(parts, order, axis=axis or 0)
        which, first, counts = np.argsort(order)[which], first[order], counts[order]
    places = (v.reshape(-1).astype(np.int64) for v in (first, which, counts))
    return g.constant(parts), *map(g.constant, places)


_MAX_ROUNDS = 256  # updates of one index, each of which creates nodes
_MERGED = {
    "add": "broadcast_add",
    "max": "broadcast_maximum",
    "min": "broadcast_minimum",
    "mul": "broadcast_mul",
}


_REDUCED = {"add": "sum", "max": "max", "min": "min", "mul": "prod"}
_MAX_PAIRS = 1 << 27  # pairs of element and update for computed indices


@translates("ScatterND")
def scatter_nd(g: Importer, use: Use, x: Value, indices: Value, updates: Value) -> Value:
    """Operand with slices replaced at some indices, or merged."""
    shape, count = g.shape(x), g.shape(indices)[-1]
    places = _index_tuples(g, indices, shape)
    rows = g.op("Reshape", places, shape=(-1, count), at="rows")
    return _scattered(g, use, x, _flat(g, rows, shape[:count]), updates, shape[count:])


@translates("ScatterElements", "Scatter")
def scatter_elements(g: Importer, use: Use, x: Value, indices: Value, updates: Value) -> Value:
    """Operand with elements replaced at indices along an axis, or merged."""
    shape, sizes = g.shape(x), g.shape(indices)
    axis = use.number("axis") % len(shape)
    g.require_small(math.prod(sizes) * (len(sizes) + 1))
    parts = [g.constant(np.indices(sizes)[d].astype(np.int64)) for d in range(len(sizes))]
    parts[axis] = _from_the_end(g, indices, shape[axis])
    stacked = g.op("stack", *parts, axis=len(sizes), num_args=len(parts), at="places")
    rows = g.op("Reshape", stacked, shape=(-1, len(shape)), at="rows")
    return _scattered(g, use, x, _flat(g, rows, shape), updates, ())


def _flat(g: Importer, rows: Value, sizes: Sequence[int]) -> Value:
    """Index tuples as flat indices in row-major order."""
    steps = np.cumprod([1, *sizes[:0:-1]])[::-1].astype(np.int64)
    if rows.array is not None:
        return g.constant(rows.array @ steps)
    weighted = g.op("broadcast_mul", rows, g.constant(steps.reshape(1, -1)), at="steps")
    return g.op("sum", weighted, axis=(1,), at="flat")


def _scattered(
    g: Importer, use: Use, x: Value, places: Value, updates: Value, inner: tuple[int, ...]
) -> Value:
    """Rows of shape ``inner`` written at their indices, in rounds of distinct indices."""
    shape, dtype = g.shape(x), g.dtype(x)
    x, updates = as_number(g, x), as_number(g, updates)
    made = g.op("Reshape", x, shape=(-1, *inner), at="data")
    new = g.op("Reshape", updates, shape=(-1, *inner), at="updates")
    merge = use.text("reduction", "none")
    if places.array is None and merge != "none":
        made = _merged(g, made, places, new, merge)
    elif places.array is None:
        made = g.op("_contrib_index_copy", made, places, new, at="copied")
    else:
        rounds = _rounds(places.array, merge == "none")
        if len(rounds) > _MAX_ROUNDS:
            raise MXNetError(
                f"an index occurs {len(rounds)} times, at most {_MAX_ROUNDS} are supported"
            )
        for chosen in rounds:
            made = _one_round(g, made, places.array[chosen], _rows(g, new, chosen), merge)
    made = g.op("Reshape", made, shape=shape or (1,), at="" if dtype.kind != "b" else "number")
    made = g.scalar(made) if not shape else made
    return g.op("Cast", made, dtype=dtype) if dtype.kind == "b" else made


def _merged(g: Importer, x: Value, places: Value, new: Value, merge: str) -> Value:
    """Rows merged with all their updates: each row is compared with every update."""
    if merge not in _MERGED:
        raise MXNetError(f"reduction '{merge}' is not supported")
    (count, *inner), size = g.shape(new), g.shape(x)[0]
    if size * math.prod(g.shape(new)) > _MAX_PAIRS:
        raise MXNetError(
            f"{count} updates at computed indices below {size} are not supported: at most "
            f"{_MAX_PAIRS} "
            "pairs of elements are"
        )
    dtype = g.dtype(x)
    info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    ends = (-np.inf, np.inf) if dtype.kind == "f" else (info.min, info.max)
    neutral = {"add": 0, "mul": 1, "max": ends[0], "min": ends[1]}[merge]
    rows = g.constant(np.arange(size, dtype=np.int64).reshape(size, 1))
    one = g.op("Reshape", places, shape=(1, count), at="places")
    meets = as_number(g, g.op("broadcast_equal", rows, one, at="meets"))
    whole = (size, count, math.prod(inner))
    chosen = g.op("Reshape", meets, shape=(size, count, 1), at="meets")
    flat = g.op("Reshape", new, shape=(1, count, whole[2]), at="updates")
    other = g.constant(np.full((1, 1, 1), neutral, dtype))
    sides = (to_shape(g, x, whole) for x in (chosen, flat, other))
    parts = g.op("where", *sides, at="parts")
    total = g.op(_REDUCED[merge], parts, axis=(1,), at="total")
    total = g.op("Reshape", total, shape=(size, *inner), at="total")
    return g.op(_MERGED[merge], x, total, at="merged")


def _rounds(places: np.ndarray, only_last: bool) -> list[np.ndarray]:
    """Groups of updates with distinct indices; a single group if only the last of each counts."""
    turn = np.zeros(len(places), np.int64)
    seen: dict[int, int] = {}
    for i, place in enumerate(places.tolist()):
        turn[i] = seen[place] = seen.get(place, -1) + 1
    if only_last:
        last = {place: i for i, place in enumerate(places.tolist())}
        return [np.array(sorted(last.values()), np.int64)] if last else []
    return [np.flatnonzero(turn == t) for t in range(int(turn.max(initial=-1)) + 1)]


def _rows(g: Importer, x: Value, chosen: np.ndarray) -> Value:
    if len(chosen) == g.shape(x)[0]:
        return x
    return g.op("take", x, g.constant(chosen), axis=0, at="round")


def _one_round(g: Importer, x: Value, places: np.ndarray, new: Value, merge: str) -> Value:
    where = g.constant(places)
    if merge != "none":
        if merge not in _MERGED:
            raise MXNetError(f"reduction '{merge}' is not supported")
        old = g.op("take", x, where, axis=0, at="old")
        new = g.op(_MERGED[merge], old, new, at="merged")
    return g.op("_contrib_index_copy", x, where, new, at="copied")

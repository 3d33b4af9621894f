"""Readers of ONNX's operators that move, slice and join elements, and of shape queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from ...errors import MXNetError
from ...formats.onnx.tensors import dtype_of
from ...ir.sized import is_symbolic
from ..importer import Importer, Value, as_supported
from ..use import Use
from .pointwise import as_number, broadcast_shape, to_shape
from .reduce import axes_of, counted
from .table import MICROSOFT, translates


@translates("Constant")
def constant(g: Importer, use: Use) -> Value:
    """Elements of an attribute."""
    for name, dtype in (("value_float", "float32"), ("value_int", "int64")):
        if name in use:
            number = use.real(name) if dtype == "float32" else use.number(name)
            return g.constant(np.asarray(number, dtype))
    if "value_floats" in use:
        return g.constant(np.asarray(use.reals("value_floats"), "float32"))
    if "value_ints" in use:
        return g.constant(np.asarray(use.ints("value_ints"), "int64"))
    array = use.array("value")
    if array is None:
        raise MXNetError("it has neither value, value_float(s) nor value_int(s)")
    return g.stored(g.constant(as_supported(array, str(use))), use.element_code("value"))


@translates("ConstantOfShape")
def constant_of_shape(g: Importer, use: Use, shape: Value) -> Value:
    """Constant of a given shape, as a node if it would need too much memory."""
    value = use.array("value")
    number = np.zeros(1, np.float32) if value is None else as_supported(value, str(use))
    sizes = g.ints(shape, "shape")
    if number.dtype.kind == "f" and (is_symbolic(sizes) or not g.affords(math.prod(sizes))):
        return g.op("_full", shape=sizes, value=float(number.reshape(-1)[0]), dtype=number.dtype)
    return g.filled(sizes, number)


@translates("Shape")
def shape_of(g: Importer, use: Use, x: Value) -> Value:
    """Shape, or a slice of it."""
    sizes = g.shape(x)
    start, end = use.number("start"), use.number("end", len(sizes))
    return g.sizes(sizes[start:end])


@translates("Size")
def size_of(g: Importer, use: Use, x: Value) -> Value:
    """Number of elements."""
    return g.sizes(math.prod(g.shape(x)))


@translates("Reshape")
def reshape(g: Importer, use: Use, x: Value, shape: Value) -> Value:
    """Reshape: -1 is inferred; 0 copies the operand's size, or with ``allowzero`` is a size."""
    sizes = g.ints(shape, "shape")
    if use.number("allowzero") and 0 in sizes:
        if math.prod(g.shape(x)) or min(sizes) < 0:
            raise MXNetError(f"the shape {sizes} with allowzero=1 does not match the operand")
        return g.filled(sizes, np.zeros(1, g.dtype(x)))
    return reshaped(g, x, sizes)


def reshaped(g: Importer, x: Value, sizes: Sequence[int]) -> Value:
    """``x`` reshaped; an empty shape is a scalar."""
    return g.op("Reshape", x, shape=tuple(sizes)) if len(sizes) else g.scalar(x)


@translates("Flatten")
def flatten(g: Importer, use: Use, x: Value) -> Value:
    """Two axes: those before ``axis`` merged, and the others."""
    axis = use.number("axis", 1)
    axis = axis + g.rank(x) if axis < 0 else axis
    if axis == 1:
        return g.op("Flatten", x)
    shape = g.shape(x)
    return g.op("Reshape", x, shape=(math.prod(shape[:axis]), math.prod(shape[axis:])))


@translates("Transpose")
def transpose(g: Importer, use: Use, x: Value) -> Value:
    """Permutation of axes."""
    order = use.ints("perm") or tuple(reversed(range(g.rank(x))))
    return g.op("transpose", x, axes=order) if order else g.op("identity", x)


@translates("Unsqueeze")
def unsqueeze(g: Importer, use: Use, x: Value, axes: Value | None = None) -> Value:
    """New axes of size 1 at given positions of the result."""
    given = use.ints("axes") if use.opset < 13 else g.ints(axes, "axes")
    rank = g.rank(x) + len(given)
    if g.rank(x) == 0:
        return g.op("Reshape", x, shape=(1,) * rank)
    for axis in sorted(a % rank for a in given):
        x = g.op("expand_dims", x, axis=axis)
    return x


@translates("Squeeze")
def squeeze(g: Importer, use: Use, x: Value, axes: Value | None = None) -> Value:
    """Removal of given axes of size 1, by default all."""
    chosen = axes_of(g, use, x, axes, 13)
    if not chosen:
        chosen = tuple(i for i, size in enumerate(g.shape(x)) if size == 1)
    if not chosen:
        return g.op("identity", x)
    if len(chosen) == g.rank(x):
        return g.scalar(x)
    return g.op("squeeze", x, axis=chosen)


@translates("Concat")
def concat(g: Importer, use: Use, *xs: Value) -> Value:
    """Concatenation along an axis."""
    axis = use.number("axis") % g.rank(xs[0])
    if axis:
        xs = tuple(_once(g, x, xs) for x in xs)
    return g.op("Concat", *xs, num_args=len(xs), dim=axis)


def _once(g: Importer, x: Value, others: Sequence[Value]) -> Value:
    """A constant that repeats one sample's values for a batch, as one sample's.

    Exporters repeat the class token of a ViT so. Without the repetition, each sample of the batch
    can be computed for itself.
    """
    like = next((y for y in others if not y.is_constant), None)
    if like is None or x.array is None or not x.array.size or g.shape(like)[0] != len(x.array):
        return x
    one = g.constant(x.array[:1])
    if len(x.array) == 1 or x.array.tobytes() != x.array[:1].tobytes() * len(x.array):
        return x
    return g.op("broadcast_like", one, like, lhs_axes=(0,), rhs_axes=(0,), at="once")


@translates("Split")
def split(g: Importer, use: Use, x: Value, sizes: Value | None = None) -> Sequence[Value]:
    """Slices along an axis, of given or equal sizes."""
    axis = use.number("axis") % g.rank(x)
    given = use.ints("split") if use.opset < 13 else () if sizes is None else g.ints(sizes, "split")
    total = g.shape(x)[axis]
    if not given:
        count = use.number("num_outputs", len(use.outputs))
        each = -(-total // count)
        given = tuple(max(0, min(each, total - i * each)) for i in range(count))
    ends = [*accumulate(given)]
    return [_part(g, x, axis, end - size, end) for size, end in zip(given, ends)]


def _part(g: Importer, x: Value, axis: int, begin: int, end: int) -> Value:
    if begin < end:
        return g.op("slice_axis", x, axis=axis, begin=begin, end=end)
    shape = g.shape(x)
    return g.filled((*shape[:axis], 0, *shape[axis + 1 :]), np.zeros(1, g.dtype(x)))


@translates("Pad")
def pad(
    g: Importer,
    use: Use,
    x: Value,
    pads: Value | None = None,
    value: Value | None = None,
    axes: Value | None = None,
) -> Value:
    """Padding by a constant, the edge, or a reflection."""
    mode = use.text("mode", "constant")
    widths = use.ints("pads") if use.opset < 11 else g.ints(pads, "pads")
    rank = g.rank(x)
    chosen = range(rank) if axes is None else [a % rank for a in g.ints(axes, "axes")]
    number = use.real("value") if use.opset < 11 else 0.0
    if value is not None and g.known(value, "constant_value").size:
        number = float(g.known(value, "constant_value").reshape(()))
    sides = {a: (widths[i], widths[i + len(chosen)]) for i, a in enumerate(chosen)}
    if _is_image_padding(g, x, sides, mode):
        pairs = [sides.get(axis, (0, 0)) for axis in range(rank)]
        flat = tuple(width for pair in pairs for width in pair)
        return g.op("Pad", x, mode=mode, pad_width=flat, constant_value=number)
    for axis, (before, behind) in sides.items():
        x = _padded(g, x, axis, before, behind, mode, number)
    return x


def _is_image_padding(
    g: Importer, x: Value, sides: Mapping[int, tuple[int, int]], mode: str
) -> bool:
    """Whether MXNet's Pad applies: spatial axes of images, within the limits of the mode."""
    shape = g.shape(x)
    if len(shape) not in (4, 5) or mode not in ("constant", "edge", "reflect"):
        return False
    if np.dtype(g.dtype(x)).kind != "f" or not math.prod(shape):
        return False
    if min((width for pair in sides.values() for width in pair), default=0) < 0:
        return False
    fits = mode != "reflect" or all(max(pair) < shape[axis] for axis, pair in sides.items())
    return fits and not any(any(sides.get(axis, ())) for axis in (0, 1))


def _padded(
    g: Importer, x: Value, axis: int, before: int, behind: int, mode: str, number: float
) -> Value:
    """``x`` padded or cropped along one axis."""
    shape = list(g.shape(x))
    size = shape[axis]
    if mode == "constant":
        x = g.op(
            "slice_axis", x, axis=axis, begin=max(-before, 0), end=size - max(-behind, 0), at="cut"
        )
        parts = [_block(g, x, axis, before, number), x, _block(g, x, axis, behind, number)]
        joined = [p for p in parts if p is not None]
        return g.op("Concat", *joined, num_args=len(joined), dim=axis) if len(joined) > 1 else x
    g.require_small(size + max(before, 0) + max(behind, 0))
    kinds = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}
    if mode not in kinds:
        raise MXNetError(f"mode '{mode}' is not supported")
    places = np.pad(np.arange(size), (max(before, 0), max(behind, 0)), mode=kinds[mode])  # type: ignore[call-overload]
    if before < 0 or behind < 0:
        places = places[max(-before, 0) : len(places) - max(-behind, 0)]
    return g.op("take", x, g.constant(places.astype(np.int64)), axis=axis)


def _block(g: Importer, x: Value, axis: int, count: int, number: float) -> Value | None:
    if count <= 0:
        return None
    shape = list(g.shape(x))
    shape[axis] = count
    return g.filled(tuple(shape), np.full(1, number, g.dtype(x)))


@translates("CenterCropPad")
def centre(g: Importer, use: Use, x: Value, shape: Value) -> Value:
    """Central slice of some axes, or zero padding; an odd element is added or removed at the
    end."""
    rank = g.rank(x)
    axes = [a % rank for a in use.ints("axes", range(rank))]
    for axis, size in zip(axes, g.ints(shape, "shape"), strict=True):
        missing = size - g.shape(x)[axis]
        before = missing // 2 if missing >= 0 else -(-missing // 2)
        x = _padded(g, x, axis, before, missing - before, "constant", 0.0)
    return g.op("identity", x)


@translates("Expand")
def expand(g: Importer, use: Use, x: Value, shape: Value) -> Value:
    """Broadcast to a shape."""
    whole = broadcast_shape(g.shape(x), g.ints(shape, "shape"))
    return g.op("identity", to_shape(g, x, whole)) if whole == g.shape(x) else to_shape(g, x, whole)


@translates("Tile")
def tile(g: Importer, use: Use, x: Value, repeats: Value) -> Value:
    """Copies concatenated along every axis."""
    counts = g.ints(repeats, "repeats")
    if 0 in counts:
        sizes = tuple(n * times for n, times in zip(g.shape(x), counts, strict=True))
        return g.filled(sizes, np.zeros(1, g.dtype(x)))
    return g.op("tile", x, reps=counts)


@translates("DepthToSpace")
def depth_to_space(g: Importer, use: Use, x: Value) -> Value:
    """Blocks of pixels from channels."""
    block = use.number("blocksize")
    if use.text("mode", "DCR") == "DCR":
        return g.op("depth_to_space", x, block_size=block)
    n, c, h, w = g.shape(x)
    parts = g.op("Reshape", x, shape=(n, c // block**2, block, block, h, w), at="parts")
    moved = g.op("transpose", parts, axes=(0, 1, 4, 2, 5, 3), at="order")
    return g.op("Reshape", moved, shape=(n, c // block**2, h * block, w * block))


@translates("SpaceToDepth")
def space_to_depth(g: Importer, use: Use, x: Value) -> Value:
    """Channels from blocks of pixels."""
    block = use.number("blocksize")
    if use.text("mode", "DCR") == "DCR":
        return g.op("space_to_depth", x, block_size=block)
    n, c, h, w = g.shape(x)
    parts = g.op("Reshape", x, shape=(n, c, h // block, block, w // block, block), at="parts")
    moved = g.op("transpose", parts, axes=(0, 1, 3, 5, 2, 4), at="order")
    return g.op("Reshape", moved, shape=(n, c * block**2, h // block, w // block))


@translates("Trilu", MICROSOFT + "Trilu")
def trilu(g: Importer, use: Use, x: Value, k: Value | None = None) -> Value:
    """Upper or lower triangle of the last two axes, 0 elsewhere."""
    rows, columns = g.shape(x)[-2:]
    if not math.prod(g.shape(x)):
        return g.op("identity", x)
    offset = g.constant(np.zeros((1, 1), np.int64))
    if k is not None:
        offset = g.op("Reshape", k, shape=(1, 1), at="k")
    keep = "broadcast_greater_equal" if use.number("upper", 1) else "broadcast_lesser_equal"
    mask = as_number(g, g.op(keep, _diagonals(g, rows, columns), offset, at="kept"))
    whole = to_shape(g, mask, g.shape(x))
    return g.op("where", whole, x, g.op("zeros_like", x, at="zeros"))


def _diagonals(g: Importer, rows: int, columns: int) -> Value:
    """How far right of the main diagonal each element is."""
    if not is_symbolic((rows, columns)):
        g.require_small(rows * columns)
        return g.constant(np.arange(columns) - np.arange(rows)[:, None])
    down, across = (counted(g, 0, n) for n in (rows, columns))
    return g.op("broadcast_sub", across, g.op("expand_dims", down, axis=1, at="rows"), at="places")


@translates("EyeLike")
def eye_like(g: Importer, use: Use, x: Value) -> Value:
    """Ones on a diagonal, in the shape of the operand."""
    rows, columns = g.shape(x)
    g.require_small(rows * columns)
    dtype = g.dtype(x)
    if "dtype" in use:
        dtype = dtype_of(use.number("dtype"), "it")
    return g.constant(np.eye(rows, columns, use.number("k"), dtype=dtype))


@translates("ReverseSequence")
def reverse_sequence(g: Importer, use: Use, x: Value, lengths: Value) -> Value:
    """First elements of each sequence in reverse order."""
    time, batch = use.number("time_axis"), use.number("batch_axis", 1)
    swapped = (time, batch) == (1, 0)
    if not swapped and (time, batch) != (0, 1):
        raise MXNetError(
            f"time_axis {time} and batch_axis {batch} are not supported: they must be 0 and 1, or "
            f"1 and 0"
        )
    if swapped:
        x = g.op("SwapAxis", x, dim1=0, dim2=1, at="order")
    counts = g.op("Cast", as_number(g, lengths), dtype=g.dtype(x), at="lengths")
    made = g.op("SequenceReverse", x, counts, use_sequence_length=True)
    return g.op("SwapAxis", made, dim1=0, dim2=1, at="back") if swapped else made

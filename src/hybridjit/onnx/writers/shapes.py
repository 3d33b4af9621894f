"""Writers of operators that reshape, slice, copy and permute elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._core.types import PartialShape, TensorType
from ..exporter import Exporter, Use, Value
from .table import writes


@writes("Reshape", "reshape_like", "_reshape_to", "Flatten", "expand_dims", "squeeze")
def reshape(g: Exporter, use: Use, x: Value, *like: Value) -> Value:
    """Reshape to the result's shape; symbolic sizes are copied or inferred."""
    if use.op.name == "Flatten" and x.type.shape:
        return g.emit("Flatten", x, axis=1)
    result = use.types[0]
    if result.is_known and x.type.is_known and result.size < x.type.size:
        x = _first_elements(g, x, result.size)
    assert result.shape is not None
    return g.emit("Reshape", x, g.ints(*_stated_codes(use, result) or _codes(g, x, result.shape)))


def _stated_codes(use: Use, result: TensorType) -> Sequence[int]:
    """The codes of a Reshape with several symbolic sizes that have the same meaning in ONNX."""
    several = result.shape is not None and result.shape.count(None) > 1
    if not several or use.op.name != "Reshape" or use.attrs["reverse"]:
        return ()
    codes: Sequence[int] = use.attrs["shape"]
    return codes if all(code >= -1 for code in codes) else ()


def _first_elements(g: Exporter, x: Value, count: int) -> Value:
    row = g.emit("Reshape", x, g.ints(-1), at="row")
    return g.emit("Slice", row, g.ints(0), g.ints(count), at="first")


def _codes(g: Exporter, x: Value, wanted: PartialShape) -> list[int]:
    """Sizes for ONNX's Reshape: 0 copies the operand's, -1 is inferred."""
    if wanted.count(None) <= 1:
        return [-1 if n is None else n for n in wanted]
    own = x.type.shape or ()
    codes = [
        0 if n is None and i < len(own) and own[i] is None else n for i, n in enumerate(wanted)
    ]
    if codes.count(None) > 1:
        g.shape(x)
    return [-1 if n is None else n for n in codes]


@writes("transpose")
def transpose(g: Exporter, use: Use, x: Value) -> Value:
    """Permutation of axes, by default reversed."""
    axes = use.attrs["axes"] or range(g.rank(x))[::-1]
    return g.emit("Transpose", x, perm=[a % g.rank(x) for a in axes])


@writes("SwapAxis")
def swap_axes(g: Exporter, use: Use, x: Value) -> Value:
    """Exchange of two axes."""
    order = list(range(g.rank(x)))
    one, other = (use.attrs[name] for name in ("dim1", "dim2"))
    order[one], order[other] = order[other], order[one]
    return g.emit("Transpose", x, perm=order)


@writes("Concat", "_rnn_param_concat")
def concat(g: Exporter, use: Use, *xs: Value) -> Value:
    """Concatenation along an axis."""
    return g.emit("Concat", *xs, axis=use.attrs["dim"])


@writes("stack")
def stack(g: Exporter, use: Use, *xs: Value) -> Value:
    """Concatenation along a new axis."""
    axis = use.attrs["axis"] % (g.rank(xs[0]) + 1)
    parts = [g.emit("Unsqueeze", x, g.ints(axis), at=f"part{i}") for i, x in enumerate(xs)]
    return g.emit("Concat", *parts, axis=axis)


@writes("SliceChannel", "_split_v2")
def split(g: Exporter, use: Use, x: Value) -> Sequence[Value]:
    """Slices along an axis, without that axis if requested."""
    axis = use.attrs["axis"] % g.rank(x)
    is_whole = not use.attrs["squeeze_axis"]
    squeezed = not is_whole and g.rank(x) > 1  # a vector keeps its single axis
    if not is_whole:
        types, sizes = list(use.types), [1] * len(use.types)
        if len(types) == 1 and squeezed:
            return [g.emit("Squeeze", x, g.ints(axis))]
    else:
        types = list(use.types)
        sizes = [_known_size(g, x, (t.shape or ())[axis]) for t in types]
    if len(types) == 1:
        return [g.emit("Identity", x)]
    made = g.emits(
        "Split", x, g.ints(*sizes), at="piece" if squeezed else "", types=types, axis=axis
    )
    if not squeezed:
        return made
    return [g.emit("Squeeze", y, g.ints(axis), at=f"part{i}") for i, y in enumerate(made)]


def _known_size(g: Exporter, x: Value, size: int | None) -> int:
    if size is None:
        g.shape(x)
    assert size is not None
    return size


_LAST = (1 << 63) - 1


@writes("slice")
def slice_(g: Exporter, use: Use, x: Value) -> Value:
    """Slices of some axes; a missing bound means the start or the end."""
    attrs = use.attrs
    begin, end, step = attrs["begin"], attrs["end"], attrs["step"]
    bounds = []
    for axis, (b, e) in enumerate(zip(begin, end)):
        s = (step[axis] if axis < len(step) else None) or 1
        first = (0 if s > 0 else _LAST) if b is None else b
        last = (_LAST if s > 0 else -_LAST) if e is None else e
        if (first, last, s) != (0, _LAST, 1):
            bounds.append((axis, first, last, s))
    return sliced(g, x, bounds)


def sliced(
    g: Exporter, x: Value, bounds: Sequence[tuple[int, int, int, int]], at: str = ""
) -> Value:
    """Slices of axes, each given by axis, begin, end and step."""
    if not bounds:
        return g.emit("Identity", x, at=at)
    axes, begin, end, step = (g.ints(*column) for column in zip(*bounds))
    return g.emit("Slice", x, begin, end, axes, step, at=at)


@writes("slice_axis")
def slice_axis(g: Exporter, use: Use, x: Value) -> Value:
    """Slice of one axis."""
    attrs = use.attrs
    last = _LAST if attrs["end"] is None else attrs["end"]
    return sliced(g, x, [(attrs["axis"] % g.rank(x), attrs["begin"], last, 1)])


@writes("slice_like")
def slice_like(g: Exporter, use: Use, x: Value, like: Value) -> Value:
    """Leading slice with the size of another operand along all axes or some; sizes may be
    symbolic."""
    axes = use.attrs["axes"]
    if axes is None:
        return g.emit("Identity", x)
    chosen = [a % g.rank(x) for a in axes or range(g.rank(x))]
    shape = g.emit("Shape", like, at="shape")
    ends = g.emit("Gather", shape, g.ints(*chosen), at="ends", axis=0)
    return g.emit("Slice", x, g.ints(*(0 for _ in chosen)), ends, g.ints(*chosen))


@writes("Pad")
def pad(g: Exporter, use: Use, x: Value) -> Value:
    """Padding by a constant, the edge, or a reflection."""
    attrs = use.attrs
    widths = attrs["pad_width"]
    sides = g.ints(*widths[::2], *widths[1::2])
    mode = attrs["mode"]
    value = g.like(x, attrs["constant_value"]) if mode == "constant" else None
    return g.emit("Pad", x, sides, value, mode=mode)


@writes("_pad_axes")
def pad_axes(g: Exporter, use: Use, x: Value) -> Value:
    """The compiler's padding of every axis."""
    attrs = use.attrs
    sides = g.ints(*attrs["before"], *attrs["after"])
    mode = attrs["mode"]
    return g.emit("Pad", x, sides, g.like(x, attrs["value"]), mode=mode)


@writes("broadcast_to", "broadcast_axis")
def broadcast(g: Exporter, use: Use, x: Value) -> Value:
    """Broadcast of axes of size 1; symbolic sizes must not change."""
    return g.emit("Expand", x, g.ints(*_target(g, x, use.types[0].shape)))


def _target(g: Exporter, x: Value, wanted: PartialShape | None) -> Sequence[int]:
    """Target shape, where 1 keeps a size."""
    assert wanted is not None
    own = x.type.shape or ()
    if len(own) == len(wanted):
        return [_known_size(g, x, n) if n != m else 1 for n, m in zip(wanted, own)]
    return [_known_size(g, x, n) for n in wanted]


@writes("broadcast_like")
def broadcast_like(g: Exporter, use: Use, x: Value, like: Value) -> Value:
    """Broadcast of axes of size 1 to another operand's shape."""
    if use.attrs["lhs_axes"] is None:
        return g.emit("Expand", x, g.emit("Shape", like, at="shape"))
    return g.emit("Expand", x, g.ints(*_target(g, x, use.types[0].shape)))


@writes("tile")
def tile(g: Exporter, use: Use, x: Value) -> Value:
    """Copies concatenated along every axis."""
    reps = use.attrs["reps"]
    rank = g.rank(x)
    if len(reps) > rank:
        axes = g.ints(*range(len(reps) - rank))
        x = g.emit("Unsqueeze", x, axes, at="rank")
    return g.emit("Tile", x, g.ints(*(1,) * (rank - len(reps)), *reps))


@writes("repeat")
def repeat(g: Exporter, use: Use, x: Value) -> Value:
    """Each element repeated: copies along a new axis, merged with the repeated one."""
    count, axis, rank = use.attrs["repeats"], use.attrs["axis"], g.rank(x)
    if axis is None:
        x, axis, rank = g.emit("Reshape", x, g.ints(-1), at="row"), 0, 1
    axis %= rank
    unsqueezed = g.emit("Unsqueeze", x, g.ints(axis + 1), at="apart")
    times = g.ints(*(count if i == axis + 1 else 1 for i in range(rank + 1)))
    copies = g.emit("Tile", unsqueezed, times, at="copies")
    following = [_known_size(g, x, n) for n in (use.types[0].shape or ())[axis + 1 :]]
    return g.emit("Reshape", copies, g.ints(*(0,) * axis, -1, *following))


@writes("reverse")
def reverse(g: Exporter, use: Use, x: Value) -> Value:
    """Axes in reverse order."""
    bounds = [(a % g.rank(x), _LAST, -_LAST, -1) for a in use.attrs["axis"]]
    return sliced(g, x, bounds)


@writes("depth_to_space", "space_to_depth")
def blocks(g: Exporter, use: Use, x: Value) -> Value:
    """Blocks of pixels from channels, or channels from blocks."""
    name = "DepthToSpace" if use.op.name == "depth_to_space" else "SpaceToDepth"
    return g.emit(name, x, blocksize=use.attrs["block_size"])


@writes("Crop")
def crop(g: Exporter, use: Use, x: Value, *like: Value) -> Value:
    """Crop of each image, at an offset or the centre."""
    attrs = use.attrs
    rows, columns = (g.size(use.types[0], axis) for axis in (2, 3))
    if attrs["center_crop"]:
        height, width = (g.size(x.type, axis) for axis in (2, 3))
        top, left = (height - rows) // 2, (width - columns) // 2
    else:
        top, left = attrs["offset"]
    return sliced(g, x, [(2, top, top + rows, 1), (3, left, left + columns, 1)])


@writes("shape_array")
def shape_array(g: Exporter, use: Use, x: Value) -> Value:
    """Sizes of all axes, if some are symbolic."""
    return g.emit("Shape", x)


@writes("size_array")
def size_array(g: Exporter, use: Use, x: Value) -> Value:
    """Number of elements, if sizes are symbolic."""
    return g.emit("Reshape", g.emit("Size", x, at="size"), g.ints(1))


@writes("zeros_like", "ones_like")
def filled_like(g: Exporter, use: Use, x: Value) -> Value:
    """Constant in the shape of the operand, if sizes are symbolic."""
    number = np.full(1, use.op.name == "ones_like", g.dtype(x))
    return g.emit("ConstantOfShape", g.emit("Shape", x, at="shape"), value=number)


@writes("_contrib_arange_like")
def arange_like(g: Exporter, use: Use, x: Value) -> Value:
    """Evenly spaced values for the indices of an axis, if its size is symbolic."""
    attrs, axis = use.attrs, use.attrs["axis"]
    if axis is None or attrs["repeat"] != 1:
        g.shape(x)
    shape = g.emit("Shape", x, at="shape")
    size = g.emit("Gather", shape, g.constant(np.array(axis % g.rank(x))), at="size", axis=0)
    bounds = (g.constant(np.array(0)), size, g.constant(np.array(1)))
    places = g.cast(g.emit("Range", *bounds, at="places"), g.dtype(x), "numbers")
    steps = g.emit("Mul", places, g.like(x, attrs["step"]), at="steps")
    return g.emit("Add", steps, g.like(x, attrs["start"]))

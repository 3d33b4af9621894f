"""Recipes of operators that move elements: shapes, slices, joins, indices, creation, sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxnet_side.draw import Draw
from mxnet_side.singles import (
    FLOATS,
    NUMBERS,
    TYPES,
    Single,
    axis_of,
    fixed,
    index,
    recipe,
    values,
)

Shape = tuple[int, ...]
WIDER = tuple(name for name in NUMBERS if name != "float16")


@recipe("Reshape", TYPES)
def reshape(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    if draw.chance(0.15):
        given: dict[str, Any] = {"target_shape": (shape[0], 0)}
        if draw.chance(0.5):
            given = {"target_shape": (0, 0)[: draw.int(1, 2)], "keep_highest": True}
        return Single(name, [values(draw, shape)], given)
    given = {"shape": _codes(draw, shape)}
    if draw.chance(0.3):
        backward = _codes(draw, shape[::-1])
        if -4 not in backward:
            given = {"shape": backward[::-1], "reverse": True}
    return Single(name, [values(draw, shape)], given)


def _codes(draw: Draw, shape: Shape) -> Shape:
    """Codes that keep the number of elements of ``shape``."""
    codes: list[int] = []
    at, inferred = 0, False
    while at < len(shape):
        kind = draw.pick("same", "same", "number", "join", "rest", "split", "infer", "one")
        if kind == "join" and at + 1 < len(shape):
            codes.append(-3)
            at += 2
        elif kind == "rest":
            codes.append(-2)
            at = len(shape)
        elif kind == "split":
            divisors = [d for d in range(1, shape[at] + 1) if shape[at] % d == 0]
            first = draw.pick(*divisors)
            pair = (first, shape[at] // first)
            codes += [-4, *draw.pick(pair, (-1, pair[1]), (pair[0], -1))]
            at += 1
        elif kind == "infer" and not inferred:
            inferred = True
            codes.append(-1)
            at += 1
        elif kind == "one":
            codes.append(1)
        else:
            codes.append(shape[at] if kind == "number" else 0)
            at += 1
    return tuple(codes)


@recipe("Flatten", TYPES)
def flatten(draw: Draw, name: str) -> Single:
    return Single(name, [values(draw, draw.shape(1, 5))])


@recipe("transpose", TYPES)
def transpose(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 5)
    axes = tuple(draw.rng.permutation(len(shape)).tolist())
    return Single(name, [values(draw, shape)], draw.some(axes=draw.pick(axes, axes, ())))


@recipe("SwapAxis", TYPES)
def swap(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 5)
    given = draw.some(dim1=axis_of(draw, len(shape)), dim2=axis_of(draw, len(shape)))
    return Single(name, [values(draw, shape)], given)


@recipe("expand_dims", TYPES)
def expand(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    return Single(name, [values(draw, shape)], {"axis": draw.int(-len(shape) - 1, len(shape))})


@recipe("squeeze", TYPES)
def squeeze(draw: Draw, name: str) -> Single:
    shape = tuple(1 if draw.chance(0.5) else size for size in draw.shape(1, 5))
    ones = [draw.pick(a, a - len(shape)) for a, size in enumerate(shape) if size == 1]
    axis = draw.pick(None, tuple(ones), tuple(ones[:1]), ones[0] if ones else None)
    return Single(name, [values(draw, shape)], draw.some(axis=axis or None))


@recipe("Concat", TYPES)
def concat(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    axis = axis_of(draw, len(shape))
    arrays = []
    for _ in range(draw.pick(1, 2, 3, 6)):
        sizes = list(shape)
        sizes[axis] = draw.int(1, 6)
        arrays.append(values(draw, tuple(sizes)))
    given = {"dim": axis} if axis != 1 or draw.chance(0.5) else {}
    return Single(name, arrays, {"num_args": len(arrays), **given})


@recipe("_rnn_param_concat", FLOATS)
def parameter_concat(draw: Draw, name: str) -> Single:
    arrays = [values(draw, (draw.int(1, 20),)) for _ in range(draw.int(1, 5))]
    return Single(name, arrays, {"num_args": len(arrays), "dim": 0})


@recipe("stack", TYPES)
def stack(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    arrays = [values(draw, shape) for _ in range(draw.pick(1, 2, 3, 6))]
    given = draw.some(axis=draw.int(-len(shape) - 1, len(shape)))
    return Single(name, arrays, {"num_args": len(arrays), **given})


@recipe("SliceChannel", TYPES)
def split(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    axis = axis_of(draw, len(shape))
    parts = draw.int(1, 4)
    squeezed = draw.chance(0.3)
    sizes = list(shape)
    sizes[axis] = parts * (1 if squeezed else draw.int(1, 4))
    given = {"axis": axis} if axis != 1 or draw.chance(0.5) else {}
    if squeezed or draw.chance(0.2):
        given["squeeze_axis"] = squeezed
    return Single(name, [values(draw, tuple(sizes))], {"num_outputs": parts, **given})


@recipe("_split_v2", TYPES)
def split_v2(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    axis = axis_of(draw, len(shape))
    sizes = list(shape)
    given: dict[str, Any] = {"axis": axis, "indices": ()}
    if draw.chance(0.5):
        parts = draw.int(1, 4)
        given["squeeze_axis"] = draw.chance(0.3)
        sizes[axis] = parts * (1 if given["squeeze_axis"] else draw.int(1, 4))
        given["sections"] = parts
    else:
        cuts = sorted({draw.int(1, sizes[axis]) for _ in range(draw.int(1, 3))} - {sizes[axis]})
        given["indices"] = (0, *cuts)
    return Single(name, [values(draw, tuple(sizes))], given)


def _bounds(draw: Draw, shape: Shape) -> dict[str, Any]:
    """begin, end and step of a slice that is not empty."""
    begin: list[int | None] = []
    end: list[int | None] = []
    step: list[int | None] = []
    for size in shape[: draw.int(1, len(shape))]:
        low = draw.int(0, size - 1)
        high = draw.int(low + 1, size)
        if draw.chance(0.3):
            begin.append(draw.pick(None, high - 1, high - 1 - size))
            end.append(draw.pick(None, *([low - 1, low - 1 - size] if low > 0 else [None])))
            step.append(draw.pick(-1, -1, -2, -3))
        else:
            begin.append(draw.pick(None, low, low - size))
            over = [size + 3] if draw.chance(0.2) else []
            end.append(draw.pick(None, high, *([high - size] if high < size else []), *over))
            step.append(draw.pick(None, 1, 2, 3))
    given: dict[str, Any] = {"begin": tuple(begin), "end": tuple(end)}
    if any(s not in (None, 1) for s in step) or draw.chance(0.3):
        given["step"] = tuple(step)
    return given


@recipe("slice", TYPES)
def slices(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 5)
    return Single(name, [values(draw, shape)], _bounds(draw, shape))


@recipe("_slice_assign _slice_assign_scalar", TYPES)
def slice_assign(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    given = _bounds(draw, shape)
    array = values(draw, shape)
    if name.endswith("scalar"):
        return Single(name, [array], {**given, "scalar": draw.pick(0, 1.5, -3)})
    steps = given.get("step", (None,) * len(given["begin"]))
    part = array[tuple(slice(*each) for each in zip(given["begin"], given["end"], steps))]
    return Single(name, [array, values(draw, part.shape)], given)


@recipe("slice_axis", TYPES)
def slice_axis(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 5)
    axis = axis_of(draw, len(shape))
    size = shape[axis]
    low = draw.int(0, size - 1)
    high = draw.int(low + 1, size)
    end = draw.pick(None, high, high - size) if high < size else draw.pick(None, high)
    given = {"axis": axis, "begin": draw.pick(low, low - size), "end": end}
    return Single(name, [values(draw, shape)], given)


@recipe("slice_like", TYPES)
def slice_like(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    like = tuple(draw.int(1, size) for size in shape)
    given: dict[str, Any] = draw.some(axes=draw.pick(None, ()))
    if draw.chance(0.5):
        axes = tuple(draw.rng.permutation(len(shape)).tolist())[: draw.int(1, len(shape))]
        like = tuple(s if a in axes else s + draw.int(0, 2) for a, s in enumerate(like))
        given["axes"] = tuple(draw.pick(a, a - len(shape)) for a in axes)
    return Single(name, [values(draw, shape), values(draw, like)], given)


@recipe("reshape_like", TYPES)
def reshape_like(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 3)
    size = int(np.prod(shape))
    if draw.chance(0.4):
        like = draw.pick((size,), (1, size), shape[::-1], (size, 1, 1))
        return Single(name, [values(draw, shape), values(draw, like)])
    begin = draw.int(0, len(shape) - 1)
    end = draw.int(begin + 1, len(shape))
    part = int(np.prod(shape[begin:end]))
    middle = draw.pick((part,), (1, part), (part, 1), shape[begin:end][::-1])
    front, back = draw.pick((), (3,)), draw.pick((), (2, 2))
    given: dict[str, Any] = {
        "lhs_begin": draw.pick(begin, begin - len(shape)) if begin else draw.pick(0, None),
        "lhs_end": end if end < len(shape) else draw.pick(end, None),
        "rhs_begin": len(front),
        "rhs_end": len(front) + len(middle),
    }
    return Single(name, [values(draw, shape), values(draw, (*front, *middle, *back))], given)


@recipe("tile", TYPES)
def tile(draw: Draw, name: str) -> Single:
    # from four real repetitions on MXNet's is wrong for one axis, and impossible for more
    reps = tuple(draw.int(1, 3) for _ in range(draw.int(1, 3)))
    return Single(name, [values(draw, draw.shape(1, 4))], {"reps": reps})


@recipe("repeat", TYPES)
def repeat(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    given = draw.some(axis=draw.pick(None, axis_of(draw, len(shape)), axis_of(draw, len(shape))))
    return Single(name, [values(draw, shape)], {"repeats": draw.int(1, 4), **given})


@recipe("reverse", TYPES)
def reverse(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 5)
    axes = tuple(draw.rng.permutation(len(shape)).tolist())[: draw.int(1, len(shape))]
    return Single(name, [values(draw, shape)], {"axis": draw.pick(axes[0], axes)})


@recipe("broadcast_to", TYPES)
def broadcast_to(draw: Draw, name: str) -> Single:
    target = draw.shape(1, 5)
    shape = tuple(1 if draw.chance(0.5) else size for size in target)
    codes = tuple(0 if a == b and draw.chance(0.5) else b for a, b in zip(shape, target))
    return Single(name, [values(draw, shape)], {"shape": codes})


@recipe("broadcast_axis", TYPES)
def broadcast_axis(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    axes = draw.rng.permutation(len(shape)).tolist()[: draw.int(1, min(2, len(shape)))]
    shape = tuple(1 if a in axes else size for a, size in enumerate(shape))
    given: dict[str, Any] = {"axis": tuple(axes), "size": tuple(draw.int(1, 6) for _ in axes)}
    if len(axes) == 1 and draw.chance(0.5):
        given = {key: value[0] for key, value in given.items()}
    return Single(name, [values(draw, shape)], given)


@recipe("broadcast_like", TYPES)
def broadcast_like(draw: Draw, name: str) -> Single:
    like = draw.shape(1, 4)
    rank = len(like)
    shape = tuple(1 if draw.chance(0.5) else size for size in like)
    if draw.chance(0.6):
        return Single(name, [values(draw, shape), values(draw, like)])
    a, b = draw.int(0, rank - 1), draw.int(0, rank - 1)
    shape = (*like[:a], 1, *like[a + 1 :])
    given = {"lhs_axes": (draw.pick(a, a - rank),), "rhs_axes": (draw.pick(b, b - rank),)}
    return Single(name, [values(draw, shape), values(draw, like)], given)


@recipe("depth_to_space space_to_depth", NUMBERS)
def blocks(draw: Draw, name: str) -> Single:
    block = draw.int(1, 3)
    count, deep, height, width = (draw.int(1, 4) for _ in range(4))
    if name == "depth_to_space":
        shape = (count, deep * block * block, height, width)
    else:
        shape = (count, deep, height * block, width * block)
    return Single(name, [values(draw, shape)], {"block_size": block})


@recipe("diag", NUMBERS)
def diag(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    given = draw.some(k=draw.int(-2, 2))
    if len(shape) > 1 and draw.chance(0.6):
        first, second = draw.rng.permutation(len(shape)).tolist()[:2]
        given["axis1"] = draw.pick(first, first - len(shape))
        given["axis2"] = draw.pick(second, second - len(shape))
    return Single(name, [values(draw, shape)], given)


@recipe("Pad", FLOATS)
def pad(draw: Draw, name: str) -> Single:
    rank = draw.pick(4, 4, 5)
    mode = draw.pick("constant", "edge", "reflect")
    shape = (draw.int(1, 3), draw.int(1, 4), *(draw.int(3, 6) for _ in range(rank - 2)))
    width = (0, 0, 0, 0, *(draw.int(0, 2) for _ in range(2 * rank - 4)))
    given = {"mode": mode, "pad_width": width, **draw.some(constant_value=draw.pick(1.5, -2))}
    return Single(name, [values(draw, shape)], given)


@recipe("take", NUMBERS)
def take(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    axis = axis_of(draw, len(shape))
    given = draw.some(axis=axis, mode=draw.pick("clip", "wrap", "raise"))
    size = shape[given.get("axis", 0)]
    inside = given.get("mode") == "raise"
    indices = index(draw, draw.shape(1, 2), *((0, size - 1) if inside else (-size - 2, size + 2)))
    return Single(name, [values(draw, shape), indices], given)


@recipe("Embedding _contrib_SparseEmbedding", FLOATS)
def embedding(draw: Draw, name: str) -> Single:
    rows, width = draw.int(1, 12), draw.int(1, 9)
    given = {"input_dim": rows, "output_dim": width}
    extra = "sparse_grad" if name == "Embedding" else "deterministic"
    given.update(draw.some(**{extra: draw.chance(0.5)}))
    case = Single(name, [index(draw, draw.shape(1, 3), -2, rows + 2), values(draw, (rows, width))])
    case.attrs = {**given, **draw.some(dtype=draw.pick("float32", "float64", "float16"))}
    if case.attrs.get("dtype"):
        case.arrays[1] = fixed(case.arrays[1], case.attrs["dtype"])
    return case


@recipe("pick", NUMBERS)
def pick(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    axis = draw.pick(None, *[axis_of(draw, len(shape))] * 4)
    given = draw.some(axis=axis, keepdims=draw.chance(0.6), mode=draw.pick("clip", "wrap"))
    taken = given.get("axis", -1)
    if taken is None:
        size, rest = int(np.prod(shape)), (1,)
    else:
        size = shape[taken]
        rest = tuple(s for a, s in enumerate(shape) if a != taken % len(shape)) or (1,)
        if draw.chance(0.3):
            rest = tuple(1 if a == taken % len(shape) else s for a, s in enumerate(shape))
    return Single(name, [values(draw, shape), index(draw, rest, -size - 1, size + 1)], given)


@recipe("batch_take", NUMBERS)
def batch_take(draw: Draw, name: str) -> Single:
    rows, width = draw.int(1, 9), draw.int(1, 9)
    indices = fixed(draw.integers((rows,), -1, width + 1, "int32"))
    return Single(name, [values(draw, (rows, width)), indices])


@recipe("gather_nd", NUMBERS)
def gather_nd(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    depth = draw.int(1, len(shape))
    tail = draw.shape(1, 2)
    rows = [draw.rng.integers(-size, size, tail) for size in shape[:depth]]
    dtype = draw.pick("float32", "int32", "int64", "float64")
    return Single(name, [values(draw, shape), fixed(np.stack(rows), dtype)])


@recipe("scatter_nd", NUMBERS)
def scatter_nd(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 3)
    depth = draw.int(1, len(shape))
    count = int(np.prod(shape[:depth]))
    places = draw.rng.permutation(count)[: draw.int(1, count)]
    rows = np.stack(np.unravel_index(places, shape[:depth]))
    data = values(draw, (len(places), *shape[depth:]))
    return Single(name, [data, fixed(rows, draw.pick("float32", "int32"))], {"shape": shape})


@recipe("one_hot")
def one_hot(draw: Draw, name: str) -> Single:
    given = draw.some(on_value=draw.pick(2.5, 3), off_value=-1, dtype=draw.pick(*NUMBERS))
    depth = draw.int(1, 8)
    return Single(name, [index(draw, draw.shape(1, 3), -2, depth + 2)], {"depth": depth, **given})


@recipe("_ravel_multi_index _unravel_index")
def ravel(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 3)
    count = int(np.prod(shape))
    places = draw.rng.integers(0, count, draw.int(1, 7))
    if name == "_ravel_multi_index":
        places = np.stack(np.unravel_index(places, shape))
    return Single(name, [fixed(places, draw.pick("float32", "int32", "int64"))], {"shape": shape})


@recipe("_contrib_boolean_mask", ("float32", "int32"))
def boolean_mask(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 3)
    mask = draw.integers(shape[:1], 0, 2, draw.pick("float32", "int32"))
    mask[draw.int(0, shape[0] - 1)] = 1
    return Single(name, [values(draw, shape), fixed(mask)], draw.some(axis=0))


@recipe("_contrib_index_copy", ("float32", "float64"))
def index_copy(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 3)
    rows = draw.rng.permutation(shape[0])[: draw.int(1, shape[0])]
    new = values(draw, (len(rows), *shape[1:]))
    return Single(name, [values(draw, shape), fixed(rows, draw.pick("int32", "int64")), new])


@recipe("_contrib_index_array", TYPES)
def index_array(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    axes = tuple(axis_of(draw, len(shape)) for _ in range(draw.int(1, 3)))
    return Single(name, [values(draw, shape)], draw.some(axes=axes))


@recipe("_zeros _ones _full")
def constants(draw: Draw, name: str) -> Single:
    given = {"shape": draw.shape(1, 4), **draw.some(dtype=draw.pick(*TYPES))}
    if name == "_full":
        given["value"] = draw.pick(0.5, -3, 7, 2.75, 1e9)
    return Single(name, [], given)


@recipe("_arange")
def arange(draw: Draw, name: str) -> Single:
    start, step = draw.pick(0, 1, -2, 0.5, 7), draw.pick(1, 0.5, 2, -1, -0.75, 0.1)
    stop = start + step * draw.pick(1, 4, 9.5, 3.3)
    given = {"start": start, "stop": draw.pick(stop, stop, stop, None)}
    given.update(draw.some(step=step, repeat=draw.int(1, 3)))
    is_whole = start % 1 == 0 and step % 1 == 0  # MXNet truncates both in half precision
    given.update(draw.some(dtype=draw.pick(*NUMBERS if is_whole else WIDER)))
    return Single(name, [], given)


@recipe("_linspace")
def linspace(draw: Draw, name: str) -> Single:
    given = {"start": draw.pick(0, -1.5), "stop": draw.pick(1, 7.5, -4), "num": draw.int(1, 9)}
    given.update(draw.some(endpoint=draw.chance(0.5), dtype=draw.pick(*FLOATS, "int32")))
    return Single(name, [], given)


@recipe("_eye")
def eye(draw: Draw, name: str) -> Single:
    given = draw.some(M=draw.int(0, 6), k=draw.int(-3, 3), dtype=draw.pick(*NUMBERS))
    return Single(name, [], {"N": draw.int(1, 6), **given})


@recipe("_contrib_arange_like", ("float32", "float64"))
def arange_like(draw: Draw, name: str) -> Single:
    shape = draw.shape(1, 4)
    axis = draw.pick(None, axis_of(draw, len(shape)))
    given = draw.some(start=draw.pick(2, -0.5), step=draw.pick(0.5, -1, 2), axis=axis)
    return Single(name, [values(draw, shape)], {**given, **draw.some(repeat=draw.int(1, 3))})


@recipe("SequenceMask SequenceLast SequenceReverse", NUMBERS)
def sequence(draw: Draw, name: str) -> Single:
    shape = draw.shape(2, 4)
    given: dict[str, Any] = draw.some(axis=draw.int(0, 1) if name != "SequenceReverse" else 0)
    if name == "SequenceMask":
        given.update(draw.some(value=draw.pick(-2.5, 3)))
    arrays = [values(draw, shape)]
    if draw.chance(0.7):
        axis = given.get("axis", 0)
        lengths = draw.integers((shape[1 - axis],), 1, shape[axis] + 1, "float32")
        arrays.append(fixed(lengths, draw.pick("float32", "int32", "float64")))
        given["use_sequence_length"] = True
    return Single(name, arrays, given)

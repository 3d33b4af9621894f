"""Random cases of the tensor operators: pointwise, reductions, shapes, indices, products, others.

The caller skips cases that MXNet rejects, so attribute ranges may be generous.
"""

from __future__ import annotations

import numpy as np

from hybridjit import sym
from mxnet_side.draw import Case, Draw, data

# Unary operators by where they are defined.
ANYWHERE = (
    *("relu", "sigmoid", "tanh", "exp", "square", "abs", "negative", "round", "rint", "fix"),
    *("trunc", "floor", "ceil", "sign", "softsign", "expm1", "cbrt", "sin", "cos", "arctan"),
    *("arcsinh", "sinh", "cosh", "degrees", "radians", "erf", "logical_not", "tan", "hard_sigmoid"),
    *("zeros_like", "ones_like", "identity", "BlockGrad"),
)
POSITIVE = ("sqrt", "rsqrt", "log", "log2", "log10", "log1p", "rcbrt", "reciprocal", "gammaln")
INSIDE_ONE = ("arcsin", "arccos", "arctanh", "erfinv")
BINARY = (
    *("add", "sub", "mul", "div", "mod", "power", "maximum", "minimum", "hypot", "equal"),
    *("not_equal", "greater", "greater_equal", "lesser", "lesser_equal", "logical_and"),
    *("logical_or", "logical_xor"),
)
STRICT = (
    *("elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "_internal._maximum"),
    *("_internal._minimum", "_internal._mod", "_internal._power", "_internal._hypot"),
    *("_internal._equal", "_internal._greater", "_internal._lesser_equal"),
)
SCALAR = (
    *("plus", "minus", "rminus", "mul", "div", "rdiv", "mod", "rmod", "power", "rpower", "maximum"),
    *("minimum", "hypot", "equal", "not_equal", "greater", "greater_equal", "lesser"),
    *("lesser_equal", "logical_and", "logical_or", "logical_xor"),
)


def unary(draw: Draw) -> Case:
    group = draw.pick(ANYWHERE, ANYWHERE, POSITIVE, INSIDE_ONE)
    name = draw.pick(*group)
    shape = draw.shape(1, 5)
    if group is POSITIVE:
        values = draw.uniform(shape, 0.01, 9)
    elif group is INSIDE_ONE:
        values = draw.uniform(shape, -0.97, 0.97)
    else:
        values = draw.normal(shape) * np.float32(draw.pick(0.3, 1, 4))
    if draw.chance(0.2):
        values.flat[: draw.int(1, 4)] = draw.pick(0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -2.5)
    # MXNet's own tan, gammaln and erfinv are single-precision approximations
    tolerance = 1e-4 if name in ("tan", "gammaln", "erfinv") else 1e-5
    return Case(getattr(sym, name)(data()), {"data": values}, tolerance=tolerance)


def binary(draw: Draw) -> Case:
    shape = draw.shape(1, 4)
    if draw.chance(0.3):
        name, other = draw.pick(*STRICT), shape
        function = sym
        for part in name.split("."):
            function = getattr(function, part)
    else:
        function = getattr(sym, f"broadcast_{draw.pick(*BINARY)}")
        other = tuple(1 if draw.chance(0.4) else size for size in shape)[draw.int(0, 1) :] or (1,)
        shape = tuple(1 if draw.chance(0.2) else size for size in shape)
    a, b = draw.normal(shape), draw.normal(other)
    if draw.chance(0.5):  # equal values, zeros and integers
        a, b = np.round(a), np.round(b)
    return Case(function(data(), data("other")), {"data": a, "other": b})


def scalar(draw: Draw) -> Case:
    values = draw.normal(draw.shape())
    number = draw.pick(2, 0.5, -1, 3, -0.75, 1, 0)
    if draw.chance(0.4):
        values = np.round(values)
    x = getattr(sym._internal, f"_{draw.pick(*SCALAR)}_scalar")(data(), scalar=number)
    return Case(x, {"data": values})


def integers(draw: Draw) -> Case:
    """Arithmetic on other element types: wrapping, truncation, division, casts."""
    dtype = draw.pick("int32", "int64", "uint8", "int8", "float64", "float16")
    shape = draw.shape(1, 3)
    low = 0 if dtype == "uint8" else -20
    a, b = (draw.integers(shape, low, 20, dtype) for _ in "ab")
    kind = draw.pick("binary", "scalar", "unary", "cast", "reduce")
    inputs = {"data": a}
    if kind == "binary":
        inputs["other"] = b
        name = draw.pick("add", "sub", "mul", "div", "mod", "maximum", "equal", "greater")
        x = getattr(sym, f"broadcast_{name}")(data(), data("other"))
    elif kind == "scalar":
        name = draw.pick("plus", "rminus", "mul", "div", "mod", "maximum", "greater", "equal")
        x = getattr(sym._internal, f"_{name}_scalar")(data(), scalar=draw.pick(3, -2, 1.5, 7))
    elif kind == "unary":
        x = getattr(sym, draw.pick("abs", "square", "negative", "sign", "relu", "floor"))(data())
    elif kind == "cast":
        x = sym.cast(data(), dtype=draw.pick("float32", "int32", "uint8", "float16", "int64"))
    else:
        x = getattr(sym, draw.pick("sum", "max", "min"))(data(), axis=draw.int(0, len(shape) - 1))
    return Case(x, inputs, tolerance=2e-3 if dtype == "float16" else 1e-6)


def reduction(draw: Draw) -> Case:
    shape = draw.shape(1, 5)
    name = draw.pick("sum", "mean", "max", "min", "prod", "nansum", "nanprod", "norm", "argmax",
                     "argmin", "moments", "argmax_channel")  # fmt: skip
    rank = len(shape)
    axes = tuple(a for a in range(rank) if draw.chance(0.5))
    axis = draw.pick(None, draw.int(-rank, rank - 1), axes, axes)
    given = draw.some(keepdims=draw.chance(0.7))
    values = draw.normal(shape)
    if name == "prod" or name == "nanprod":
        values = draw.uniform(shape, 0.8, 1.2)
    if name in ("argmax", "argmin"):
        axis = axis if isinstance(axis, int) else None
        values = np.round(values * 2)  # ties
    elif name == "norm":
        given["ord"] = draw.pick(1, 2)
        axis = axis[:2] if isinstance(axis, tuple) else axis
    elif name == "argmax_channel":
        return Case(sym.argmax_channel(data()), {"data": draw.normal(draw.shape(2, 4))})
    elif name == "moments":
        x = sym.moments(data(), axes=axes or (0,), **given)
        return Case(x, {"data": values})
    else:
        given.update(draw.some(exclude=draw.chance(0.5)))
    if axis is not None:
        given["axis"] = axis
    if name.startswith("nan") and draw.chance(0.5):
        values.flat[0] = np.nan
    return Case(getattr(sym, name)(data(), **given), {"data": values}, tolerance=2e-5)


def movement(draw: Draw) -> Case:
    """An operator that moves elements without changing them, and perhaps one on its result."""
    x, shape = draw.pick(*MOVES)(draw, draw.shape(2, 4))
    if draw.chance(0.4):
        x = sym.relu(x[0]) * 2
    return Case(x, {"data": draw.normal(shape)})


Moved = tuple[sym.Symbol, tuple[int, ...]]  # and the shape of the data that it is for


def _transpose(draw: Draw, shape: tuple[int, ...]) -> Moved:
    axes = tuple(int(a) for a in draw.rng.permutation(len(shape)))
    return sym.transpose(data(), axes=axes), shape


def _swap(draw: Draw, shape: tuple[int, ...]) -> Moved:
    last = len(shape) - 1
    return sym.SwapAxis(data(), dim1=draw.int(0, last), dim2=draw.int(0, last)), shape


def _expand(draw: Draw, shape: tuple[int, ...]) -> Moved:
    return sym.expand_dims(data(), axis=draw.int(-len(shape) - 1, len(shape))), shape


def _squeeze(draw: Draw, shape: tuple[int, ...]) -> Moved:
    shape = tuple(1 if draw.chance(0.5) else size for size in shape)
    ones = tuple(a for a, size in enumerate(shape) if size == 1)
    return sym.squeeze(data(), **draw.some(axis=ones[:1] or 0)), shape


def _slice_axis(draw: Draw, shape: tuple[int, ...]) -> Moved:
    axis = draw.int(0, len(shape) - 1)
    begin = draw.int(0, shape[axis] - 1)
    end = draw.pick(None, draw.int(begin + 1, shape[axis]))
    axis = draw.pick(axis, axis - len(shape))
    return sym.slice_axis(data(), axis=axis, begin=begin, end=end), shape


def _repeat(draw: Draw, shape: tuple[int, ...]) -> Moved:
    if draw.chance(0.5):
        return sym.tile(data(), reps=tuple(draw.int(1, 3) for _ in range(draw.int(1, 4)))), shape
    given = draw.some(axis=draw.int(-len(shape), len(shape) - 1))
    return sym.repeat(data(), repeats=draw.int(1, 4), **given), shape


def _reverse(draw: Draw, shape: tuple[int, ...]) -> Moved:
    last = len(shape) - 1
    return sym.reverse(data(), axis=draw.pick(draw.int(0, last), (0, last))), shape


def _pad(draw: Draw, shape: tuple[int, ...]) -> Moved:
    mode = draw.pick("constant", "edge", "reflect")
    width = (0, 0, 0, 0, *(draw.int(0, 2) for _ in range(4)))
    x = sym.Pad(data(), mode=mode, pad_width=width, **draw.some(constant_value=1.5))
    return x, (draw.int(1, 3), draw.int(1, 9), draw.int(3, 9), draw.int(3, 9))


def _reshape(draw: Draw, shape: tuple[int, ...]) -> Moved:
    if draw.chance(0.2):
        return sym.Flatten(data()), shape
    shape, codes = draw.pick(*RESHAPES)
    return sym.Reshape(data(), shape=codes, **draw.some(reverse=False)), shape


def _split(draw: Draw, shape: tuple[int, ...]) -> Moved:
    axis, parts = draw.int(0, len(shape) - 1), draw.int(1, 4)
    if draw.chance(0.3):
        return sym.split_v2(data(), tuple(range(1, shape[axis], 2)), axis=axis), shape
    shape = (*shape[:axis], parts * draw.int(1, 4), *shape[axis + 1 :])
    squeeze = shape[axis] == parts
    return sym.SliceChannel(data(), num_outputs=parts, axis=axis, squeeze_axis=squeeze), shape


def _blocks(draw: Draw, shape: tuple[int, ...]) -> Moved:
    block, height, width = draw.int(1, 3), draw.int(1, 4), draw.int(1, 4)
    if draw.chance(0.5):
        shape = (2, block * block * draw.int(1, 4), height, width)
        return sym.depth_to_space(data(), block_size=block), shape
    return sym.space_to_depth(data(), block_size=block), (
        2, draw.int(1, 5), block * height, block * width,
    )  # fmt: skip


def _diagonal(draw: Draw, shape: tuple[int, ...]) -> Moved:
    return sym.diag(data(), **draw.some(k=draw.int(-1, 1))), shape


def _broadcast(draw: Draw, shape: tuple[int, ...]) -> Moved:
    axis, size = draw.int(0, len(shape) - 1), draw.int(1, 7)
    shape = (*shape[:axis], 1, *shape[axis + 1 :])
    if draw.chance(0.5):
        return sym.broadcast_axis(data(), axis=axis, size=size), shape
    return sym.broadcast_to(data(), shape=(*shape[:axis], size, *shape[axis + 1 :])), shape


RESHAPES = (
    ((2, 3, 4, 5), (0, -1)),
    ((2, 3, 4, 5), (-1, 0)),
    ((2, 3, 4, 5), (-3, -3)),
    ((2, 3, 4, 5), (0, -3, 0)),
    ((2, 3, 4, 5), (-3, -2)),
    ((2, 3, 4, 5), (-4, -1, 2, -2)),
    ((2, 3, 4, 5), (0, -4, 3, -1, -2)),
    ((2, 3, 4, 5), (6, 1, -2)),
    ((2, 3, 4, 5), (-2, 1, 1)),
    ((6, 7), (2, 3, -1)),
    ((6, 7), (-1,)),
)


def _slice(draw: Draw, shape: tuple[int, ...]) -> Moved:
    begin, end, step = [], [], []
    for size in shape[: draw.int(1, len(shape))]:
        first = draw.int(0, size - 1)
        last = draw.int(first + 1, size)
        backwards = draw.chance(0.2)
        begin.append(draw.pick(None, first, first - size) if not backwards else None)
        end.append(draw.pick(None, last) if not backwards else None)
        step.append(-1 if backwards else draw.pick(None, 1, 2, 3))
    given = {"step": tuple(step)} if any(s is not None for s in step) else {}
    return sym.slice(data(), begin=tuple(begin), end=tuple(end), **given), shape


MOVES = (
    *(_transpose, _swap, _expand, _squeeze, _slice, _slice, _slice_axis, _repeat, _reverse, _pad),
    *(_reshape, _split, _blocks, _diagonal, _broadcast),
)


def joining(draw: Draw) -> Case:
    shape = draw.shape(1, 4)
    axis = draw.int(0, len(shape) - 1)
    count = draw.pick(1, 2, 3, 5, 12)
    kind = draw.pick("concat", "concat", "stack", "add_n", "where", "like")
    names = [f"data{i}" for i in range(count)]
    if kind == "concat":
        shapes = [(*shape[:axis], draw.int(1, 9), *shape[axis + 1 :]) for _ in names]
        x = sym.concat(*map(data, names), dim=draw.pick(axis, axis - len(shape)))
    elif kind == "stack":
        shapes = [shape] * count
        x = sym.stack(*map(data, names), axis=draw.int(0, len(shape)))
    elif kind == "add_n":
        shapes = [shape] * count
        x = sym.add_n(*map(data, names))
    elif kind == "where":
        names = ["condition", "x", "y"]
        shapes = [draw.pick(shape, shape[:1]), shape, shape]
        inputs = {name: np.round(draw.normal(s)) for name, s in zip(names, shapes)}
        return Case(sym.where(*map(data, names)), inputs)
    else:
        names = ["data", "like"]
        shapes = [shape, tuple(draw.int(1, size) for size in shape)]
        x = sym.slice_like(data(), data("like"))
    if draw.chance(0.4):
        x = sym.tanh(x)
    return Case(x, {name: draw.normal(s) for name, s in zip(names, shapes)})


def indexing(draw: Draw) -> Case:
    shape = draw.shape(2, 3)
    rank = len(shape)
    kind = draw.pick("take", "take", "Embedding", "pick", "one_hot", "gather_nd", "order", "order")
    values = draw.normal(shape)
    if kind == "take":
        axis = draw.int(-rank, rank - 1)
        indices = draw.integers(
            draw.shape(1, 2), -3, shape[axis] + 3, draw.pick("int32", "float32")
        )
        given = draw.some(mode=draw.pick("clip", "wrap"))
        return Case(
            sym.take(data(), data("index"), axis=axis, **given), {"data": values, "index": indices}
        )
    if kind == "Embedding":
        rows, width = draw.int(1, 20), draw.channels()
        indices = draw.integers(draw.shape(1, 3), -1, rows + 1, "float32")
        x = sym.Embedding(data(), input_dim=rows, output_dim=width, name="embed")
        return Case(x, {"data": indices})
    if kind == "pick":
        axis = draw.int(0, rank - 1)
        indices = draw.integers(shape[:axis] + shape[axis + 1 :], 0, shape[axis], "float32")
        given = draw.some(keepdims=True, mode=draw.pick("clip", "wrap"))
        return Case(
            sym.pick(data(), data("index"), axis=axis, **given), {"data": values, "index": indices}
        )
    if kind == "one_hot":
        given = draw.some(on_value=2.5, off_value=-1, dtype=draw.pick("int32", "float32"))
        indices = draw.integers(shape, -1, 9, "float32")
        return Case(sym.one_hot(data(), depth=draw.int(1, 8), **given), {"data": indices})
    if kind == "gather_nd":
        depth = draw.int(1, rank)
        columns = draw.int(1, 7)
        rows = [draw.integers((columns,), 0, size, "float32") for size in shape[:depth]]
        inputs = {"data": values, "index": np.stack(rows)}
        return Case(sym.gather_nd(data(), data("index")), inputs)
    return _ordering(draw, shape)


def _ordering(draw: Draw, shape: tuple[int, ...]) -> Case:
    values = draw.rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)
    axis = draw.int(-len(shape), len(shape) - 1)
    given = draw.some(axis=axis, is_ascend=draw.chance(0.5))
    kind = draw.pick("topk", "topk", "argsort", "sort")
    if kind == "topk":
        given["k"] = draw.int(1, shape[given.get("axis", -1)])
        given["ret_typ"] = draw.pick("indices", "value", "both", "mask")
    return Case(getattr(sym, kind)(data(), **given), {"data": values})


def products(draw: Draw) -> Case:
    m, n, k = draw.channels(), draw.channels(), draw.channels()
    a, b = draw.chance(0.5), draw.chance(0.5)
    given = {"transpose_a": a, "transpose_b": b}
    kind = draw.pick("dot", "dot", "batch_dot", "gemm2", "dot_nd")
    lead = () if kind == "dot" else draw.shape(1, 2)
    left = (*lead, *((k, m) if a else (m, k)))
    right = (*lead, *((n, k) if b else (k, n)))
    if kind == "dot":
        x = sym.dot(data(), data("other"), **given)
    elif kind == "batch_dot":
        x = sym.batch_dot(data(), data("other"), **given)
    elif kind == "gemm2":
        x = sym.linalg.gemm2(data(), data("other"), **given, **draw.some(alpha=0.5))
    else:
        left, right = (*lead, k), (k, n)
        x = sym.dot(data(), data("other"))
    if draw.chance(0.4):
        x = sym.relu(x) + 1
    return Case(x, {"data": draw.normal(left), "other": draw.normal(right)}, tolerance=2e-5)


def recurrent(draw: Draw) -> Case:
    mode = draw.pick("lstm", "gru", "rnn_tanh", "rnn_relu")
    layers, directions, hidden = draw.int(1, 2), draw.int(1, 2), draw.int(1, 17)
    steps, batch, width = draw.int(1, 6), draw.int(1, 4), draw.int(1, 20)
    states = [data("state")] + ([data("state_cell")] if mode == "lstm" else [])
    outputs = sym.RNN(
        data(), sym.var("rnn_parameters"), *states, state_size=hidden, num_layers=layers, mode=mode,
        bidirectional=directions == 2, state_outputs=True, name="rnn",
    )  # fmt: skip
    inputs = {"data": draw.normal((steps, batch, width))}
    for state in states:
        inputs[state.name] = draw.normal((layers * directions, batch, hidden))
    return Case(outputs, inputs, tolerance=5e-5)


def sequences(draw: Draw) -> Case:
    steps, batch = draw.int(1, 7), draw.int(1, 5)
    inputs = {
        "data": draw.normal((steps, batch, *draw.shape(1, 2))),
        "length": draw.integers((batch,), 1, steps + 1, "float32"),
    }
    name = draw.pick("SequenceMask", "SequenceLast", "SequenceReverse")
    given = {"value": draw.pick(0, -2.5)} if name == "SequenceMask" else {}
    x = getattr(sym, name)(data(), data("length"), use_sequence_length=True, **given)
    return Case(x, inputs)


def resizing(draw: Draw) -> Case:
    shape = (draw.int(1, 2), draw.channels(), draw.int(1, 9), draw.int(1, 9))
    kind = draw.pick("nearest", "bilinear", "adaptive", "roi_align", "roi_pool")
    inputs = {"data": draw.normal(shape)}
    if kind == "nearest":
        x = sym.UpSampling(data(), scale=draw.int(1, 4), sample_type="nearest", num_args=1)
    elif kind == "bilinear":
        x = sym.contrib.BilinearResize2D(
            data(), height=draw.int(1, 14), width=draw.int(1, 14), align_corners=draw.chance(0.5)
        )
    elif kind == "adaptive":
        size = draw.pick(1, (draw.int(1, 5), draw.int(1, 5)))
        x = sym.contrib.AdaptiveAvgPooling2D(data(), output_size=size)
    else:
        count = draw.int(1, 6)
        corners = draw.uniform((count, 4), -1, 10)
        batch = draw.integers((count, 1), 0, shape[0], "float32")
        low, high = np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(*np.split(corners, 2, 1))
        inputs["rois"] = np.concatenate([batch, low, high], axis=1)
        given = {"pooled_size": (draw.int(1, 4), draw.int(1, 4)), "spatial_scale": 0.75}
        if kind == "roi_align":
            x = sym.contrib.ROIAlign(data(), data("rois"), sample_ratio=draw.pick(-1, 2), **given)
        else:
            x = sym.ROIPooling(data(), data("rois"), **given)
    return Case(x, inputs, tolerance=2e-5)


def boxes(draw: Draw) -> Case:
    shape = (draw.int(1, 2), draw.int(1, 12), 6)
    rows = draw.uniform(shape, 0, 1)
    rows[..., 0] = np.floor(rows[..., 0] * 3)
    rows[..., 4:] += rows[..., 2:4]
    given = draw.some(
        overlap_thresh=draw.pick(0.1, 0.5, 0.9),
        valid_thresh=draw.pick(0.0, 0.3),
        topk=draw.pick(-1, 3),
        id_index=draw.pick(-1, 0),
        force_suppress=draw.chance(0.5),
        in_format=draw.pick("corner", "center"),
        out_format=draw.pick("corner", "center"),
    )
    x = sym.contrib.box_nms(data(), coord_start=2, score_index=1, **given)
    return Case(x, {"data": rows})


KINDS = {
    "unary": (4, unary),
    "binary": (4, binary),
    "scalar": (3, scalar),
    "integers": (2, integers),
    "reduction": (4, reduction),
    "movement": (5, movement),
    "joining": (3, joining),
    "indexing": (3, indexing),
    "products": (3, products),
    "recurrent": (2, recurrent),
    "sequences": (1, sequences),
    "resizing": (2, resizing),
    "boxes": (1, boxes),
}

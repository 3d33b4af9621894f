"""Random graphs for fuzzing: nodes whose shapes fit, and an array for every variable.

The same seed gives the same graph. Only operators that are continuous in their inputs are drawn,
with numbers of moderate size, so that a difference means a mistake and not rounding.
"""

from __future__ import annotations

import numpy as np

import random_numpy  # noqa: F401 - adds its growers
from growing import Generator, RandomGraph, Shape, grower
from hybridjit.ir.node import Output

__all__ = ["RandomGraph", "random_graph"]


def random_graph(
    seed: int, variant: int = 0, with_steps: bool = False, kind: type[Generator] = Generator
) -> RandomGraph:
    """The graph of this seed, or a variant of it: see :meth:`Generator.vary`.

    With steps it has operators of zero gradient between others.
    """
    generator = kind(seed, with_steps)
    graph = generator.run()
    return generator.vary(variant) if variant else graph


@grower(5)
def convolution(g: Generator, x: Output, shape: Shape) -> None:
    if len(shape) not in (3, 4, 5):
        return
    channels, sizes = shape[1], shape[2:]
    kernel = tuple(g.between(1, min(4, s + 2)) for s in sizes)
    dilate = tuple(g.one_of(1, 1, 1, 2) for _ in sizes)
    pad = tuple(g.between(0, k // 2 + 1) for k in kernel)
    if any(s + 2 * p < (k - 1) * d + 1 for s, k, d, p in zip(sizes, kernel, dilate, pad)):
        return
    groups = g.one_of(*(n for n in (1, 1, 1, 2, 3, channels) if channels % n == 0))
    filters = groups * g.one_of(1, 2, 5, 8) if groups > 1 else g.one_of(1, 6, 16, 19, 32)
    fan_in = channels // groups * int(np.prod(kernel))
    weights = [g.param((filters, channels // groups, *kernel), fan_in**-0.5)]
    if g.maybe():
        weights.append(g.param((filters,)))
    stride = tuple(g.one_of(1, 1, 2, 3) for _ in sizes)
    g.add("Convolution", x, *weights, kernel=kernel, dilate=dilate, pad=pad, stride=stride,
          num_group=groups, num_filter=filters, no_bias=len(weights) == 1)  # fmt: skip


@grower(1)
def channels_last(g: Generator, x: Output, shape: Shape) -> None:
    """A convolution or pooling in the layout that the user chose."""
    if len(shape) != 4 or min(shape[1:3]) < 2:
        return
    if g.maybe(0.4):
        g.add("Pooling", x, kernel=(2, 2), layout="NHWC", pool_type=g.one_of("max", "avg"))
        return
    weight = g.param((6, 2, 1, shape[3]), (2 * shape[3]) ** -0.5)
    made = g.add("Convolution", x, weight, g.param((6,)), kernel=(2, 1), pad=(1, 0), num_filter=6,
                 layout="NHWC")  # fmt: skip
    if g.maybe():
        g.add("BatchNorm", made, *_of_batch_norm(g, 6), axis=3, fix_gamma=False, eps=1e-3)


@grower(1)
def winograd(g: Generator, x: Output, shape: Shape) -> None:
    """3x3, padded, with as many channels as make Winograd worth choosing."""
    if len(shape) != 4 or shape[1] < 8:
        return
    weight = g.param((32, shape[1], 3, 3), (9 * shape[1]) ** -0.5)
    g.add("Convolution", x, weight, kernel=(3, 3), pad=(1, 1), num_filter=32, no_bias=True)


@grower(2)
def pooling(g: Generator, x: Output, shape: Shape) -> None:
    if len(shape) not in (3, 4, 5):
        return
    how = g.one_of("max", "avg", "sum")
    if g.maybe(0.25):
        g.add("Pooling", x, global_pool=True, pool_type=how)
        return
    kernel = tuple(g.between(1, min(3, s)) for s in shape[2:])
    pad = tuple(g.between(0, k - 1) if g.maybe(0.4) else 0 for k in kernel)
    stride = tuple(g.between(1, 3) for _ in kernel)
    # A maximum over padding alone would be the lowest number there is.
    never_empty = all(p + s <= k for p, s, k in zip(pad, stride, kernel))
    convention = "full" if never_empty and g.maybe() else "valid"
    g.add("Pooling", x, kernel=kernel, pad=pad, stride=stride, pool_type=how,
          pooling_convention=convention, count_include_pad=g.maybe())  # fmt: skip


@grower(2)
def batchnorm(g: Generator, x: Output, shape: Shape) -> None:
    if len(shape) < 2:
        return
    axis = g.one_of(1, 1, 1, -1)
    g.add("BatchNorm", x, *_of_batch_norm(g, shape[axis]), axis=axis, fix_gamma=g.maybe(0.3),
          eps=1e-3)  # fmt: skip


def _of_batch_norm(g: Generator, channels: int) -> tuple[Output, ...]:
    """gamma, beta, and the two states."""
    arguments = (g.param((channels,)), g.param((channels,)))
    mean = g.param((channels,), is_state=True)
    return (*arguments, mean, g.param((channels,), positive=True, is_state=True))


@grower(2)
def dense(g: Generator, x: Output, shape: Shape) -> None:
    if not shape:
        return
    units, flatten = g.one_of(1, 5, 16, 40), g.maybe(0.7) or len(shape) < 2
    size = int(np.prod(shape[1:])) if flatten else shape[-1]
    if size == 0 or len(shape) < 2:
        return
    weights = [g.param((units, size), size**-0.5)]
    if g.maybe():
        weights.append(g.param((units,)))
    g.add("FullyConnected", x, *weights, num_hidden=units, flatten=flatten,
          no_bias=len(weights) == 1)  # fmt: skip


@grower(6)
def unary(g: Generator, x: Output, shape: Shape) -> None:
    op = g.one_of("relu", "relu", "sigmoid", "tanh", "abs", "erf", "softsign", "negative", "sin",
                  "_copy", "BlockGrad", "hard_sigmoid", "square")  # fmt: skip
    if op == "square":
        g.add("tanh", x)
        x, shape = g.pool[-1]
    g.add(op, x)


@grower(2)
def activation(g: Generator, x: Output, shape: Shape) -> None:
    kind = g.one_of("leaky", "elu", "selu", "gelu", "prelu", "softrelu", "clip")
    if kind == "clip":
        g.add("clip", x, a_min=-0.5, a_max=1.5)
    elif kind == "softrelu":
        g.add("Activation", x, act_type="softrelu")
    elif kind == "prelu":
        size = shape[1] if len(shape) > 1 and g.maybe() else 1
        g.add("LeakyReLU", x, g.param((size,), 0.3), act_type="prelu")
    else:
        g.add("LeakyReLU", x, act_type=kind, slope=0.2)


@grower(3)
def scalar(g: Generator, x: Output, shape: Shape) -> None:
    op = g.one_of("_plus_scalar", "_mul_scalar", "_rminus_scalar", "_maximum_scalar",
                  "_minimum_scalar", "_div_scalar")  # fmt: skip
    g.add(op, x, scalar=float(np.round(g.random.uniform(0.3, 1.6), 2)))


@grower(5)
def elementwise(g: Generator, x: Output, shape: Shape) -> None:
    other = g.like(shape)
    assert other is not None
    op = g.one_of("elemwise_add", "elemwise_add", "elemwise_sub", "elemwise_mul", "broadcast_add",
                  "broadcast_maximum", "broadcast_minimum")  # fmt: skip
    g.add(op, *((x, other) if g.maybe() else (other, x)))


@grower(3)
def broadcast(g: Generator, x: Output, shape: Shape) -> None:
    """With a parameter, or another value, that repeats along some axes."""
    if not shape:
        return
    mine = tuple(d if g.maybe() else 1 for d in shape)
    op = g.one_of("broadcast_add", "broadcast_mul", "broadcast_sub", "broadcast_maximum")
    fitting = [v for v, s in g.pool if len(s) == len(shape)
               and all(a == b or 1 in (a, b) for a, b in zip(s, shape))]  # fmt: skip
    if g.maybe(0.6):
        g.add(op, x, fitting[g.between(0, len(fitting) - 1)])
    else:
        pair = (x, g.param(mine[g.between(0, len(mine) - 1) :]))
        g.add(op, *(pair if g.maybe() else pair[::-1]))


@grower(3)
def concat(g: Generator, x: Output, shape: Shape) -> None:
    if not shape:
        return
    axis = 1 if len(shape) > 1 and g.maybe(0.7) else g.between(0, len(shape) - 1)

    def fits(other: Shape) -> bool:
        rest = [d for i, d in enumerate(other) if i != axis]
        return len(other) == len(shape) and rest == [d for i, d in enumerate(shape) if i != axis]

    fitting = [v for v, s in g.pool if fits(s)]
    others = [fitting[g.between(0, len(fitting) - 1)] for _ in range(g.between(1, 3))]
    inputs = [x, *others] if g.maybe() else [*others, x]
    g.add("Concat", *inputs, dim=axis, num_args=len(inputs))


@grower(2)
def stacked(g: Generator, x: Output, shape: Shape) -> None:
    other = g.like(shape)
    assert other is not None
    if len(shape) < 4:
        g.add("stack", x, other, axis=g.between(0, len(shape)), num_args=2)
    else:
        g.add("add_n", x, other, x, num_args=3)


@grower(3)
def cut(g: Generator, x: Output, shape: Shape) -> None:
    """slice, slice_axis or a split."""
    if not shape:
        return
    kind, axis = g.one_of("slice", "slice_axis", "split"), g.between(0, len(shape) - 1)
    size = shape[axis]
    if kind == "slice":
        begin = tuple(g.between(0, d - 1) for d in shape)
        end = tuple(g.between(b + 1, d) for b, d in zip(begin, shape))
        g.add("slice", x, begin=begin, end=end, step=tuple(g.one_of(1, 1, 2) for _ in shape))
    elif kind == "slice_axis":
        begin = g.between(0, size - 1)
        g.add("slice_axis", x, axis=axis - g.one_of(0, len(shape)), begin=begin - size, end=None)
    else:
        parts = g.one_of(*(n for n in (1, 2, 3, 4) if size % n == 0))
        squeeze = parts == size and g.maybe()
        g.add("SliceChannel", x, axis=axis, num_outputs=parts, squeeze_axis=squeeze)


@grower(3)
def reordered(g: Generator, x: Output, shape: Shape) -> None:
    if len(shape) < 2:
        return
    if g.maybe(0.3):
        g.add("SwapAxis", x, dim1=g.between(0, len(shape) - 1), dim2=g.between(0, len(shape) - 1))
    else:
        g.add("transpose", x, axes=tuple(int(i) for i in g.random.permutation(len(shape))))


@grower(3)
def reshaped(g: Generator, x: Output, shape: Shape) -> None:
    kind = g.one_of("Flatten", "merge", "split", "expand", "squeeze")
    if kind == "Flatten" and len(shape) > 1:
        g.add("Flatten", x)
    elif kind == "merge" and len(shape) > 2:
        at = g.between(0, len(shape) - 2)
        g.add("Reshape", x, shape=(*(0,) * at, -3, *(0,) * (len(shape) - at - 2)))
    elif kind == "split" and 1 < len(shape) < 5:
        half = next(n for n in (2, 3, 5, shape[1]) if shape[1] % n == 0)
        g.add("Reshape", x, shape=(0, half, -1, *shape[2:]))
    elif kind == "expand" and len(shape) < 5:
        g.add("expand_dims", x, axis=g.between(0, len(shape)))
    elif kind == "squeeze" and 1 in shape and len(shape) > 2:
        g.add("squeeze", x, axis=(shape.index(1),))


@grower(2)
def softmax(g: Generator, x: Output, shape: Shape) -> None:
    if shape:
        op = g.one_of("softmax", "softmax", "log_softmax", "softmin")
        g.add(op, x, axis=g.between(0, len(shape) - 1) - g.one_of(0, len(shape)))


@grower(3)
def reduction(g: Generator, x: Output, shape: Shape) -> None:
    if len(shape) < 2:
        return
    axes = tuple(i for i in range(len(shape)) if g.maybe(0.4)) or (g.between(0, len(shape) - 1),)
    if len(axes) == len(shape):
        axes = axes[1:]
    op = g.one_of("sum", "mean", "max", "min")
    g.add(op, x, axis=axes, keepdims=g.maybe(), exclude=g.maybe(0.15) and len(axes) < len(shape))


@grower(1)
def repeated(g: Generator, x: Output, shape: Shape) -> None:
    if 1 in shape:
        wide = tuple(3 if d == 1 and g.maybe(0.7) else d for d in shape)
        g.add("broadcast_to", x, shape=wide)
    elif shape:
        g.add("expand_dims", x, axis=0)


@grower(2)
def normed(g: Generator, x: Output, shape: Shape) -> None:
    if len(shape) < 2:
        return
    if g.maybe(0.7):
        axis = g.one_of(-1, -1, 1)
        n = (shape[axis],)
        g.add("LayerNorm", x, g.param(n), g.param(n), axis=axis, eps=0.1)
    elif len(shape) > 2:
        n = (shape[1],)
        g.add("InstanceNorm", x, g.param(n), g.param(n), eps=0.1)


@grower(2)
def product(g: Generator, x: Output, shape: Shape) -> None:
    """batch_dot of two values, or dot with a parameter."""
    flips = {"transpose_a": False, "transpose_b": g.maybe()}
    if len(shape) == 3 and g.maybe(0.7):
        fitting = [
            v for v, s in g.pool
            if len(s) == 3 and s[0] == shape[0] and s[2 if flips["transpose_b"] else 1] == shape[2]
        ]  # fmt: skip
        if fitting:
            other = fitting[g.between(0, len(fitting) - 1)]
        else:
            sides = (7, shape[2]) if flips["transpose_b"] else (shape[2], 7)
            other = g.param((shape[0], *sides))
        g.add("batch_dot", x, other, **flips)
        g.add("_mul_scalar", g.pool[-1][0], scalar=round(shape[2] ** -0.5, 3))
    elif len(shape) >= 2:
        sides = (5, shape[-1]) if flips["transpose_b"] else (shape[-1], 5)
        g.add("dot", x, g.param(sides, shape[-1] ** -0.5), **flips)


@grower(1)
def elsewhere(g: Generator, x: Output, shape: Shape) -> None:
    """Operators that have no kernel: their steps stand between native ones."""
    op = g.one_of("sort", "reverse", "tile", "L2Normalization", "cumsum")
    if not shape:
        return
    if op == "tile":
        g.add(op, x, reps=(2, *(1,) * (len(shape) - 1)))
    elif op == "L2Normalization":
        g.add(op, x, mode="instance", eps=0.1)
    elif op == "reverse":
        g.add(op, x, axis=(g.between(0, len(shape) - 1),))
    else:
        g.add(op, x, axis=g.between(0, len(shape) - 1))


@grower(2)
def other_types(g: Generator, x: Output, shape: Shape) -> None:
    """A stretch in float64 or float16, and back."""
    inner = g.add("Cast", x, dtype=g.one_of("float64", "float64", "float16"))
    for _ in range(g.between(1, 2)):
        op = g.one_of("tanh", "relu", "sigmoid", "elemwise_add", "_mul_scalar", "sum", "negative")
        if op == "elemwise_add":
            inner = g.add(op, inner, inner)
        elif op == "_mul_scalar":
            inner = g.add(op, inner, scalar=0.75)
        elif op == "sum":
            inner = g.add(op, inner, axis=(0,), keepdims=True) if shape else inner
        else:
            inner = g.add(op, inner)
    g.add("Cast", inner, dtype=g.dtype.name)


@grower(1)
def whole_numbers(g: Generator, x: Output, shape: Shape) -> None:
    """A stretch in integers; they start as integers, because a cast of 0.9999 truncates."""
    dtype = g.one_of("int32", "int64", "int8", "uint8")
    inner = g.add("Cast", g.indices(shape, 4), dtype=dtype)
    for _ in range(g.between(1, 3)):
        op = g.one_of("relu", "sigmoid", "square", "elemwise_add", "elemwise_mul", "max", "sign")
        if op.startswith("elemwise"):
            inner = g.add(op, inner, inner)
        elif op == "max":
            inner = g.add(op, inner, axis=(0,), keepdims=True) if shape else inner
        else:
            inner = g.add(op, inner)
    g.add("Cast", inner, dtype=g.dtype.name)


@grower(2)
def mixed_types(g: Generator, x: Output, shape: Shape) -> None:
    """Integers and booleans of one type are cast to another type and back."""
    whole = g.add("Cast", g.indices(shape, 4), dtype=g.one_of("int32", "bool", "uint8", "int64"))
    if g.maybe():
        whole = g.add("Cast", whole, dtype=g.one_of("int8", "float16", "int32", "float64"))
    if g.maybe(0.6):
        other = g.add("Cast", g.indices(shape, 4), dtype=g.one_of("int32", "uint8", "int64"))
        compared = g.one_of("broadcast_greater", "broadcast_equal", "broadcast_lesser_equal",
                            "broadcast_logical_and", "elemwise_sub")  # fmt: skip
        whole = g.add(compared, g.add("Cast", whole, dtype="int32"),
                      g.add("Cast", other, dtype="int32"))  # fmt: skip
    else:
        compared = g.one_of("_greater_scalar", "_not_equal_scalar", "_lesser_scalar",
                            "_plus_scalar", "_minimum_scalar", "logical_not")  # fmt: skip
        scalar = {} if compared == "logical_not" else {"scalar": 1.0}
        whole = g.add(compared, whole, **scalar)
    wide = g.one_of("float64", "float16", "float32")
    number, flag = g.add("Cast", x, dtype=wide), g.add("Cast", whole, dtype=wide)
    made = g.add(g.one_of("elemwise_mul", "elemwise_add", "broadcast_maximum"), number, flag)
    g.add("Cast", made, dtype=g.dtype.name)


@grower(2)
def enlarged(g: Generator, x: Output, shape: Shape) -> None:
    """Transposed convolution, upsampling or padding of an image."""
    if len(shape) != 4:
        return
    kind = g.one_of("Deconvolution", "UpSampling", "Pad", "BilinearResize2D")
    if kind == "Deconvolution":
        groups = g.one_of(1, 1, *(n for n in (2, 3) if shape[1] % n == 0))
        kernel, stride = (g.between(1, 3), g.between(1, 3)), (g.between(1, 2), g.between(1, 2))
        weight = g.param((shape[1], 4, *kernel), shape[1] ** -0.5)
        g.add(kind, x, weight, kernel=kernel, stride=stride, num_filter=4 * groups,
              num_group=groups, pad=tuple(g.between(0, k // 2) for k in kernel))  # fmt: skip
    elif kind == "UpSampling":
        g.add(kind, x, scale=2, sample_type="nearest", num_args=1)
    elif kind == "BilinearResize2D":
        sizes = {"height": g.between(2, 9), "width": g.between(2, 9)}
        g.add("_contrib_BilinearResize2D", x, **sizes)
    else:
        mode = g.one_of("constant", "edge", "reflect")
        most = 3 if mode != "reflect" else min(shape[2:]) - 1
        width = tuple(g.between(0, min(3, most)) for _ in range(4))
        g.add("Pad", x, mode=mode, pad_width=(0, 0, 0, 0, *width), constant_value=0.5)


@grower(2)
def picked(g: Generator, x: Output, shape: Shape) -> None:
    """Rows by their numbers, or one of two values by a condition."""
    other = g.like(shape)
    assert other is not None
    if not shape:
        return
    if g.maybe():
        g.add("where", g.indices(shape, 2), x, other)
    else:
        axis = g.between(0, len(shape) - 1)
        many = (g.between(1, 4),) if g.maybe(0.7) else (2, 2)
        g.add("take", x, g.indices(many, shape[axis]), axis=axis)


@grower(1)
def recurrent(g: Generator, x: Output, shape: Shape) -> None:
    """A fused RNN over the first axis."""
    if len(shape) != 3:
        return
    mode, units = g.one_of("lstm", "gru", "rnn_tanh"), g.one_of(3, 8)
    gates, sides = {"lstm": 4, "gru": 3}.get(mode, 1), g.between(1, 2)
    weights = sides * gates * units * (shape[2] + units + 2)
    states = [g.param((sides, shape[1], units)) for _ in range(2 if mode == "lstm" else 1)]
    g.add("RNN", x, g.param((weights,), 0.3), *states, mode=mode, state_size=units, num_layers=1,
          bidirectional=sides == 2, state_outputs=g.maybe())  # fmt: skip


@grower(8, ends_paths=True)
def stepped(g: Generator, x: Output, shape: Shape) -> None:
    """Zeros or ones by an operator whose gradient is 0, far from where it steps."""
    _step(g, x, shape)


@grower(4, ends_paths=True)
def looked_up(g: Generator, x: Output, shape: Shape) -> None:
    """Rows of a table, by an index computed from parameters."""
    index = _step(g, x, shape)
    units = g.one_of(3, 8)
    g.add("Embedding", index, g.param((4, units)), input_dim=4, output_dim=units, dtype=g.dtype)


@grower(3, ends_paths=True)
def stopped_norm(g: Generator, x: Output, shape: Shape) -> None:
    """A normalisation between operators that stop gradients, or in front of one."""
    if len(shape) < 2:
        return
    before = g.add("BlockGrad", x) if g.maybe(0.3) else x
    normed = g.add("BatchNorm", before, *_of_batch_norm(g, shape[1]), fix_gamma=False, eps=1e-3)
    if g.maybe(0.7):
        g.add("BlockGrad", normed)


def _step(g: Generator, x: Output, shape: Shape) -> Output | None:
    """0 or 1 everywhere."""
    low = g.add("_mul_scalar", g.add("tanh", x), scalar=0.2)  # from -0.2 to 0.2
    op = g.one_of("floor", "round", "_greater_scalar", "zeros_like", "ceil", "ones_like", "rint",
                  "fix", "trunc", "logical_not", "_lesser_scalar", "arange_like")  # fmt: skip
    if op == "arange_like":
        return g.add("_contrib_arange_like", low, step=0.0, start=1.0)
    if op in ("floor", "ceil", "logical_not"):
        return g.add(op, g.add("_plus_scalar", low, scalar=0.5))
    if op in ("_greater_scalar", "_lesser_scalar"):
        return g.add(op, low, scalar=0.5)
    return g.add(op, low)

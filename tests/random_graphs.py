"""Random graphs for fuzzing: 5 to 30 nodes whose shapes fit, and an array for every variable.

The same seed gives the same graph. Only operators that are continuous in their inputs are drawn,
with numbers of moderate size, so that a difference means a mistake and not rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from compiling import node, var
from hybridjit.ir.node import Output
from hybridjit.types import FLOAT32, UNKNOWN, TensorType

Shape = tuple[int, ...]
LARGEST = 6000  # elements of one tensor


@dataclass
class RandomGraph:
    """A graph; ``arrays`` has one array for each variable, ``inputs`` names those that vary."""

    seed: int
    outputs: list[Output] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)

    @property
    def params(self) -> list[str]:
        return [name for name in self.arrays if name not in self.inputs]


def random_graph(seed: int) -> RandomGraph:
    """The graph of this seed."""
    return _Generator(seed).run()


class _Generator:
    """Grows a graph: each new node takes values that are there, newer ones more often."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.graph = RandomGraph(seed)
        self.pool: list[tuple[Output, Shape]] = []
        self.read: set[Output] = set()
        self.count = 0

    def run(self) -> RandomGraph:
        self._start()
        wanted = int(self.random.integers(5, 31))
        while self.count < wanted:
            x, shape = self._pick()
            grow = GROWERS[int(self.random.integers(len(GROWERS)))]
            grow(self, x, shape)
        self._choose_outputs()
        return self.graph

    def _start(self) -> None:
        kinds = [self._image, self._image, self._image, self._row, self._series, self._volume]
        for index in range(int(self.random.integers(1, 3))):
            shape = kinds[int(self.random.integers(len(kinds)))]()
            x = self._variable(f"data{index}", shape)
            self.graph.inputs.append(f"data{index}")
            self.pool.append((x, shape))

    def _image(self) -> Shape:
        batch, channels = self.between(1, 4), self.one_of(1, 3, 4, 8, 15, 16, 17, 24, 33)
        return (batch, channels, self.between(3, 13), self.between(3, 13))

    def _row(self) -> Shape:
        return (self.between(1, 5), self.one_of(1, 7, 16, 33, 50))

    def _series(self) -> Shape:
        return (self.between(1, 3), self.one_of(2, 8, 17), self.between(4, 15))

    def _volume(self) -> Shape:
        return (self.between(1, 2), self.one_of(2, 8), *(self.between(2, 6) for _ in range(3)))

    def _pick(self) -> tuple[Output, Shape]:
        newest = self.pool[-4:] if self.random.random() < 0.7 else self.pool
        return newest[int(self.random.integers(len(newest)))]

    def _choose_outputs(self) -> None:
        leaves = [x for x, _ in self.pool if x not in self.read and x.node.op is not None]
        inner = [x for x, _ in self.pool if x in self.read and x.node.op is not None]
        if inner and self.random.random() < 0.3:
            leaves.append(inner[int(self.random.integers(len(inner)))])
        self.graph.outputs = leaves

    # --- for the growers ---

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return int(self.random.integers(low, high + 1))

    def one_of(self, *values: object) -> object:
        return values[int(self.random.integers(len(values)))]

    def maybe(self, chance: float = 0.5) -> bool:
        return bool(self.random.random() < chance)

    def _variable(self, name: str, shape: Shape, scale: float = 1.0) -> Output:
        values = self.random.normal(0, scale, shape).astype(np.float32)
        self.graph.arrays[name] = values
        return var(name, shape)

    def param(self, shape: Shape, scale: float = 1.0, positive: bool = False) -> Output:
        name = f"p{len(self.graph.arrays)}"
        made = self._variable(name, shape, scale)
        if positive:
            self.graph.arrays[name] = np.abs(self.graph.arrays[name]) + np.float32(0.5)
        return made

    def like(self, shape: Shape) -> Output | None:
        """Another value of this shape, or None."""
        found = [x for x, other in self.pool if other == shape]
        return found[int(self.random.integers(len(found)))] if found else None

    def add(self, op: str, *inputs: Output, **attrs: object) -> None:
        """Append a node if its operator accepts its inputs and nothing grows too large."""
        made = node(op, *inputs, name=f"n{self.count}_{op.strip('_').lower()}", **attrs)
        types = tuple(self._type(x) for x in inputs)
        assert made.op is not None
        outs = (UNKNOWN,) * len(made.output_names)
        found = made.op.infer(types, outs, **made.attrs)[1]
        if any(not 0 < t.size <= LARGEST for t in found):
            return
        self.count += 1
        self.read.update(inputs)
        self.pool += [(Output(made, i), t.dims) for i, t in enumerate(found)]

    def _type(self, x: Output) -> TensorType:
        if x.node.is_variable:
            return TensorType(self.graph.arrays[x.node.name].shape, FLOAT32)
        return TensorType(next(shape for other, shape in self.pool if other == x), FLOAT32)


Grower = Callable[[_Generator, Output, Shape], None]
GROWERS: list[Grower] = []


def grower(weight: int) -> Callable[[Grower], Grower]:
    """Register a way to grow, drawn ``weight`` times as often as one of weight 1."""

    def register(function: Grower) -> Grower:
        GROWERS.extend([function] * weight)
        return function

    return register


@grower(5)
def convolution(g: _Generator, x: Output, shape: Shape) -> None:
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
def channels_last(g: _Generator, x: Output, shape: Shape) -> None:
    """A convolution or pooling in the layout that the user chose."""
    if len(shape) != 4 or min(shape[1:3]) < 2:
        return
    if g.maybe(0.4):
        g.add("Pooling", x, kernel=(2, 2), layout="NHWC", pool_type=g.one_of("max", "avg"))
        return
    weight = g.param((6, 2, 1, shape[3]), (2 * shape[3]) ** -0.5)
    g.add("Convolution", x, weight, g.param((6,)), kernel=(2, 1), pad=(1, 0), num_filter=6,
          layout="NHWC")  # fmt: skip
    if g.maybe() and g.pool[-1][0].node.op.name == "Convolution":
        x, shape = g.pool[-1]
        states = [g.param((6,)), g.param((6,)), g.param((6,)), g.param((6,), positive=True)]
        g.add("BatchNorm", x, *states, axis=3, fix_gamma=False, eps=1e-3)


@grower(1)
def winograd(g: _Generator, x: Output, shape: Shape) -> None:
    """3x3, padded, with as many channels as make Winograd worth choosing."""
    if len(shape) != 4 or shape[1] < 8:
        return
    weight = g.param((32, shape[1], 3, 3), (9 * shape[1]) ** -0.5)
    g.add("Convolution", x, weight, kernel=(3, 3), pad=(1, 1), num_filter=32, no_bias=True)


@grower(2)
def pooling(g: _Generator, x: Output, shape: Shape) -> None:
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
def batchnorm(g: _Generator, x: Output, shape: Shape) -> None:
    if len(shape) < 2:
        return
    axis = g.one_of(1, 1, 1, -1)
    n = (shape[axis],)
    states = [g.param(n), g.param(n), g.param(n), g.param(n, positive=True)]
    g.add("BatchNorm", x, *states, axis=axis, fix_gamma=g.maybe(0.3), eps=1e-3)


@grower(2)
def dense(g: _Generator, x: Output, shape: Shape) -> None:
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
def unary(g: _Generator, x: Output, shape: Shape) -> None:
    op = g.one_of("relu", "relu", "sigmoid", "tanh", "abs", "erf", "softsign", "negative", "sin",
                  "_copy", "BlockGrad", "hard_sigmoid", "square")  # fmt: skip
    if op == "square":
        g.add("tanh", x)
        x, shape = g.pool[-1]
    g.add(op, x)


@grower(2)
def activation(g: _Generator, x: Output, shape: Shape) -> None:
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
def scalar(g: _Generator, x: Output, shape: Shape) -> None:
    op = g.one_of("_plus_scalar", "_mul_scalar", "_rminus_scalar", "_maximum_scalar",
                  "_minimum_scalar", "_div_scalar")  # fmt: skip
    g.add(op, x, scalar=float(np.round(g.random.uniform(0.3, 1.6), 2)))


@grower(5)
def elementwise(g: _Generator, x: Output, shape: Shape) -> None:
    other = g.like(shape)
    assert other is not None
    op = g.one_of("elemwise_add", "elemwise_add", "elemwise_sub", "elemwise_mul", "broadcast_add",
                  "broadcast_maximum", "broadcast_minimum")  # fmt: skip
    g.add(op, *((x, other) if g.maybe() else (other, x)))


@grower(3)
def broadcast(g: _Generator, x: Output, shape: Shape) -> None:
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
def concat(g: _Generator, x: Output, shape: Shape) -> None:
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
def stacked(g: _Generator, x: Output, shape: Shape) -> None:
    other = g.like(shape)
    assert other is not None
    if len(shape) < 4:
        g.add("stack", x, other, axis=g.between(0, len(shape)), num_args=2)
    else:
        g.add("add_n", x, other, x, num_args=3)


@grower(3)
def cut(g: _Generator, x: Output, shape: Shape) -> None:
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
def reordered(g: _Generator, x: Output, shape: Shape) -> None:
    if len(shape) < 2:
        return
    if g.maybe(0.3):
        g.add("SwapAxis", x, dim1=g.between(0, len(shape) - 1), dim2=g.between(0, len(shape) - 1))
    else:
        g.add("transpose", x, axes=tuple(int(i) for i in g.random.permutation(len(shape))))


@grower(3)
def reshaped(g: _Generator, x: Output, shape: Shape) -> None:
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
def softmax(g: _Generator, x: Output, shape: Shape) -> None:
    if shape:
        op = g.one_of("softmax", "softmax", "log_softmax", "softmin")
        g.add(op, x, axis=g.between(0, len(shape) - 1) - g.one_of(0, len(shape)))


@grower(3)
def reduction(g: _Generator, x: Output, shape: Shape) -> None:
    if len(shape) < 2:
        return
    axes = tuple(i for i in range(len(shape)) if g.maybe(0.4)) or (g.between(0, len(shape) - 1),)
    if len(axes) == len(shape):
        axes = axes[1:]
    op = g.one_of("sum", "mean", "max", "min")
    g.add(op, x, axis=axes, keepdims=g.maybe(), exclude=g.maybe(0.15) and len(axes) < len(shape))


@grower(1)
def repeated(g: _Generator, x: Output, shape: Shape) -> None:
    if 1 in shape:
        wide = tuple(3 if d == 1 and g.maybe(0.7) else d for d in shape)
        g.add("broadcast_to", x, shape=wide)
    elif shape:
        g.add("expand_dims", x, axis=0)


@grower(2)
def normed(g: _Generator, x: Output, shape: Shape) -> None:
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
def product(g: _Generator, x: Output, shape: Shape) -> None:
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
def elsewhere(g: _Generator, x: Output, shape: Shape) -> None:
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

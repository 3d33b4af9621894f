"""Random graphs of many channels on small maps, as at the end of image networks.

In: a seed. Out: a graph as ``random_graphs`` grows them, with 512 to 2,048 channels on maps of 1x1
to 3x3: squeeze and excitation, weights that the graph computes, groups, strides beyond the window.
"""

from __future__ import annotations

import numpy as np

from growing import STEPS, Generator, Grower, Shape
from hybridjit.ir.node import Output
from random_graphs import (
    activation,
    batchnorm,
    broadcast,
    concat,
    cut,
    dense,
    elementwise,
    normed,
    pooling,
    reduction,
    reshaped,
    scalar,
    softmax,
    unary,
)

CHANNELS = (512, 2048, 1024, 768, 960, 1280, 672, 1000, 2047)
MAPS = ((1, 1), (2, 2), (1, 2), (3, 3), (2, 3), (1, 1, 1), (2,), (1,))
WIDE: list[Grower] = []


class WideGenerator(Generator):
    """Draws few nodes, of which most are convolutions."""

    most = 20_000
    longest = 12  # nodes

    def __init__(self, seed: int, with_steps: bool = False) -> None:
        super().__init__(seed, with_steps)
        self.growers = [*WIDE, *COMMON, *(STEPS[::4] if with_steps else [])]
        self.is_free = True

    def _start(self) -> None:
        channels = CHANNELS[min(int(self.random.geometric(0.3)) - 1, len(CHANNELS) - 1)]
        shape = (self.between(1, 3), channels, *self.one_of(*MAPS))
        self.graph.inputs.append("data0")
        self.pool.append((self._variable("data0", shape), shape))

    def weight(self, shape: Shape) -> Output:
        """A parameter, or in a third of the cases a value that the graph computes of one."""
        made = self.param(shape, int(np.prod(shape[1:])) ** -0.5)
        if self.maybe(0.67):
            return made
        if self.maybe():
            return self._alone("tanh", made)
        scale = self.param((shape[0], *(1,) * (len(shape) - 1)))
        return self._alone("broadcast_mul", made, scale)

    def _alone(self, op: str, *inputs: Output) -> Output:
        """A node that no later one but a layer reads."""
        before, most = len(self.pool), self.most
        self.most = 1 << 30
        made = self.add(op, *inputs)
        self.most = most
        del self.pool[before:]
        assert made is not None
        return made


COMMON: list[Grower] = [
    *(batchnorm, unary, elementwise, elementwise, scalar, pooling, activation, dense),
    *(broadcast, concat, cut, reduction, reshaped, softmax, normed),
]


def wide(weight: int):  # noqa: ANN201 - a decorator
    """Register a grower of these graphs alone."""

    def register(function):  # noqa: ANN001, ANN202
        WIDE.extend([function] * weight)
        return function

    return register


@wide(4)
def across_channels(g: WideGenerator, x: Output, shape: Shape) -> None:
    """A 1x1 convolution, in few groups."""
    if len(shape) not in (3, 4, 5):
        return
    groups = g.one_of(*(n for n in (1, 1, 2, 4, 32) if shape[1] % n == 0))
    filters = groups * g.one_of(1, 16, 40, 512 // groups, 2048 // groups, 1000 // groups)
    window = (1,) * len(shape[2:])
    weight = g.weight((filters, shape[1] // groups, *window))
    bias = [g.param((filters,))] if g.maybe() else []
    g.add("Convolution", x, weight, *bias, kernel=window, num_filter=filters, num_group=groups,
          stride=tuple(g.one_of(1, 1, 2, 3) for _ in window), no_bias=not bias)  # fmt: skip


@wide(3)
def in_windows(g: WideGenerator, x: Output, shape: Shape) -> None:
    """Windows with dilation, strides beyond them, and borders that may differ by side."""
    if len(shape) != 4:
        return
    if g.maybe(0.3):
        borders = tuple(g.between(0, 2) for _ in range(4))
        x = g.add("Pad", x, mode="constant", pad_width=(0, 0, 0, 0, *borders)) or x
        shape = g.types[x].dims
    kernel, dilate = _pair(g, 1, 3), _pair(g, 1, 2)
    fitting = [n for n in (shape[1], 1, 4, 32, shape[1] // 2) if n and shape[1] % n == 0]
    groups = g.one_of(*fitting)
    filters = groups * g.one_of(1, 2, 3)
    if filters < 16:
        filters = groups * 16
    weight = g.weight((filters, shape[1] // groups, *kernel))
    g.add("Convolution", x, weight, g.param((filters,)), kernel=kernel, dilate=dilate,
          stride=_pair(g, 1, 4), pad=_pair(g, 0, 2), num_filter=filters,
          num_group=groups)  # fmt: skip


@wide(2)
def excited(g: WideGenerator, x: Output, shape: Shape) -> None:
    """Squeeze and excitation: channels scaled by a function of their means."""
    if len(shape) != 4:
        return
    few = max(1, shape[1] // g.one_of(16, 4, 24))
    mean = g.add("Pooling", x, global_pool=True, pool_type="avg", kernel=(1, 1))
    down = g.add("Convolution", mean, g.weight((few, shape[1], 1, 1)), g.param((few,)),
                 kernel=(1, 1), num_filter=few)  # fmt: skip
    up = g.add("Convolution", g.add("relu", down), g.weight((shape[1], few, 1, 1)),
               g.param((shape[1],)), kernel=(1, 1), num_filter=shape[1])  # fmt: skip
    g.add("broadcast_mul", x, g.add("sigmoid", up))


@wide(1)
def transposed(g: WideGenerator, x: Output, shape: Shape) -> None:
    """A transposed convolution, in many groups or in one of few filters."""
    if len(shape) != 4:
        return
    groups = g.one_of(*(n for n in (shape[1], 1, 4) if shape[1] % n == 0))
    each, kernel = (g.one_of(1, 2) if groups > 1 else 8), _pair(g, 1, 3)
    weight = g.weight((shape[1], each, *kernel))
    g.add("Deconvolution", x, weight, kernel=kernel, stride=_pair(g, 1, 3), num_group=groups,
          num_filter=each * groups, pad=tuple(g.between(0, k // 2) for k in kernel))  # fmt: skip


def _pair(g: WideGenerator, low: int, high: int) -> tuple[int, int]:
    return g.between(low, high), g.between(low, high)

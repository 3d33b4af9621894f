"""Random networks of layers that multiply bytes, for fuzzing: the graph, its arrays, its ranges.

The same seed gives the same network: convolutions (depthwise and grouped ones too), dense layers,
pooling, concatenation, residual sums and activations in float32.
"""

from __future__ import annotations

import numpy as np

from fuzz_cases import run_reference
from growing import Generator, Grower, RandomGraph, Shape
from hybridjit.ir.calibrated import Ranges, layers_of
from hybridjit.ir.node import Output
from random_graphs import (
    activation,
    batchnorm,
    channels_last,
    concat,
    convolution,
    cut,
    dense,
    elementwise,
    pooling,
    reordered,
    reshaped,
    scalar,
    softmax,
    unary,
)

# The share of networks with operators whose float32 results depend on the order of sums.
INEXACT = 0.25


def random_int8(seed: int, variant: int = 0) -> RandomGraph:
    """The network of this seed, or a variant with other outputs; it has a layer with a range."""
    for attempt in range(100):
        grower = Int8Generator((seed, attempt))
        graph = grower.run()
        graph.seed = seed
        if variant:
            grower.vary(variant)
        if layers_of(graph.outputs, graph.params):
            return graph
    raise AssertionError(f"seed {seed} has no network with a layer")


def ranges_of(case: RandomGraph) -> Ranges:
    """The range of each layer's data on the network's inputs, with ends whose scale is a float32.

    Formulas with scales are then exact in double precision.
    """
    layers = layers_of(case.outputs, case.params)
    arrays = run_reference([use for (use,) in layers.values()], case.arrays)
    return {name: _rounded_up(*map(float, (x.min(), x.max()))) for name, x in zip(layers, arrays)}


def _rounded_up(low: float, high: float) -> tuple[float, float]:
    levels = 255 if low >= 0 else 127
    scale = float(np.nextafter(np.float32(max(-low, high) / levels), np.float32(np.inf)))
    return (0.0 if low >= 0 else -levels * scale), levels * scale


class Int8Generator(Generator):
    """A generator of small networks in float32, of at most 14 nodes."""

    def __init__(self, seed: tuple[int, int]) -> None:
        super().__init__(seed)  # type: ignore[arg-type]
        self.dtype = np.dtype(np.float32)
        self.is_free = self.maybe(0.5)
        self.growers = [*EXACT, *OTHERS] if self.maybe(INEXACT) else EXACT

    def run(self) -> RandomGraph:
        self._start()
        wanted = int(self.random.integers(2, 15))
        for _ in range(20 * wanted):
            if self.count >= wanted:
                break
            x, shape = self._pick()
            self.growers[int(self.random.integers(len(self.growers)))](self, x, shape)
        self._choose_outputs()
        return self.graph

    def _start(self) -> None:
        kinds = [self._image] * 6 + [self._row, self._series, self._volume]
        shape = kinds[int(self.random.integers(len(kinds)))]()
        self.pool.append((self._variable("data0", shape), shape))
        self.graph.inputs.append("data0")

    def _choose_outputs(self) -> None:
        if any(x.node.op is not None for x, _ in self.pool):
            super()._choose_outputs()


def depthwise(g: Generator, x: Output, shape: Shape) -> None:
    """A filter for each channel, mostly 3x3 and padded."""
    if len(shape) not in (3, 4):
        return
    kernel = tuple(g.one_of(3, 3, 5, 2, 1) for _ in shape[2:])
    pad = tuple(g.one_of(k // 2, 0, k - 1) for k in kernel)
    if any(size + 2 * p < k for size, p, k in zip(shape[2:], pad, kernel)):
        return
    weights = [g.param((shape[1], 1, *kernel), 0.4)]
    if g.maybe():
        weights.append(g.param((shape[1],)))
    stride = tuple(g.one_of(1, 2, 3) for _ in kernel)
    g.add("Convolution", x, *weights, kernel=kernel, pad=pad, stride=stride, num_group=shape[1],
          num_filter=shape[1], no_bias=len(weights) == 1)  # fmt: skip


def pointwise_layer(g: Generator, x: Output, shape: Shape) -> None:
    """A 1x1 convolution with many filters."""
    if len(shape) == 4:
        filters = g.one_of(16, 33, 64, 5)
        weight = g.param((filters, shape[1], 1, 1), shape[1] ** -0.5)
        g.add("Convolution", x, weight, g.param((filters,)), kernel=(1, 1), num_filter=filters)


def relu(g: Generator, x: Output, shape: Shape) -> None:
    if g.maybe(0.7):
        g.add("relu", x)
    else:
        g.add("Activation", x, act_type="relu")


def limited(g: Generator, x: Output, shape: Shape) -> None:
    """Values limited as by relu6, or otherwise."""
    low, high = g.one_of((0.0, 1.5), (-0.5, 1.5), (-1.0, 0.0))
    g.add("clip", x, a_min=low, a_max=high)


def max_pooling(g: Generator, x: Output, shape: Shape) -> None:
    if len(shape) != 4 or min(shape[2:]) < 2:
        return
    kernel = tuple(g.one_of(2, min(3, size)) for size in shape[2:])
    pad = tuple(g.between(0, k // 2) for k in kernel)
    stride = g.between(1, 2)
    # A maximum over padding alone would be the lowest number there is.
    never_empty = all(p + stride <= k for p, k in zip(pad, kernel))
    convention = "full" if never_empty and g.maybe() else "valid"
    g.add("Pooling", x, kernel=kernel, stride=(stride, stride), pad=pad, pool_type="max",
          pooling_convention=convention)  # fmt: skip


def residual(g: Generator, x: Output, shape: Shape) -> None:
    """A sum with another value of the same shape."""
    other = g.like(shape)
    assert other is not None
    made = g.add(g.one_of("elemwise_add", "broadcast_add"), x, other)
    if made is not None and g.maybe():
        g.add("relu", made)


def _repeated(*weighted: tuple[Grower, int]) -> list[Grower]:
    return [grow for grow, weight in weighted for _ in range(weight)]


# Ways to grow whose compiled float32 operators have the bits of NumPy's.
EXACT = _repeated((convolution, 6), (depthwise, 3), (pointwise_layer, 3), (dense, 2), (relu, 4),
                  (limited, 2), (max_pooling, 3), (residual, 4), (concat, 3), (batchnorm, 1),
                  (cut, 1), (reordered, 1), (reshaped, 1), (scalar, 1),
                  (channels_last, 1))  # fmt: skip
OTHERS = _repeated((pooling, 4), (unary, 3), (activation, 3), (softmax, 1), (elementwise, 2))

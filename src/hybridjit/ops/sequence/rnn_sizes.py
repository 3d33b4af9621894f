"""Sizes of a recurrent operator from its attributes, and the layout of its parameters.

All parameters are one flat vector: the weights of all layers and directions, then all biases.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...errors import AttributeValueError
from ..attrs import AttrValue

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


class Sizes(NamedTuple):
    """Sizes of an RNN from its attributes; ``width`` is that of the h state."""

    gates: int
    layers: int
    directions: int
    hidden: int
    projection: int | None

    @property
    def width(self) -> int:
        return self.hidden if self.projection is None else self.projection

    def weight_shapes(self, channels: int, layer: int) -> list[tuple[int, int]]:
        """Shapes of i2h, h2h and, with a projection, h2r of one direction of a layer."""
        features = channels if layer == 0 else self.directions * self.width
        rows = self.gates * self.hidden
        shapes = [(rows, features), (rows, self.width)]
        return shapes if self.projection is None else [*shapes, (self.projection, self.hidden)]

    def parameter_count(self, channels: int) -> int:
        first, rest = (
            sum(rows * columns for rows, columns in self.weight_shapes(channels, layer))
            for layer in (0, 1)
        )
        biases = self.layers * 2 * self.gates * self.hidden
        return self.directions * (first + (self.layers - 1) * rest + biases)


def sizes_of(
    *,
    mode: str,
    state_size: int,
    num_layers: int,
    bidirectional: bool,
    projection_size: int | None,
    **attrs: AttrValue,
) -> Sizes:
    """Sizes from the attributes.

    Raises AttributeValueError for sizes below 1 and for a projection outside of lstm."""
    if min(state_size, num_layers) < 1 or (projection_size is not None and projection_size < 1):
        raise AttributeValueError(
            "state_size, num_layers and projection_size must be at least 1, got "
            f"{state_size}, {num_layers} and {projection_size}"
        )
    if projection_size is not None and mode != "lstm":
        raise AttributeValueError(f"projection_size needs mode lstm, got {mode}")
    return Sizes(GATES[mode], num_layers, 1 + bidirectional, state_size, projection_size)


class Layer(NamedTuple):
    """One direction of one layer: weights i2h, h2h, h2r and biases i2h, h2h."""

    weights: list[np.ndarray]
    biases: list[np.ndarray]


def unpacked(parameters: np.ndarray, sizes: Sizes, channels: int) -> list[Layer]:
    """Views of the flat vector: all weights first, then all biases, directions within layers."""
    pieces = iter(_pieces(parameters, sizes, channels))
    directions = [layer for layer in range(sizes.layers) for _ in range(sizes.directions)]
    weights = [[next(pieces) for _ in sizes.weight_shapes(channels, at)] for at in directions]
    biases = [[next(pieces), next(pieces)] for _ in directions]
    return [Layer(w, b) for w, b in zip(weights, biases)]


def _pieces(parameters: np.ndarray, sizes: Sizes, channels: int) -> list[np.ndarray]:
    shapes: list[tuple[int, ...]] = [
        shape
        for layer in range(sizes.layers)
        for _ in range(sizes.directions)
        for shape in sizes.weight_shapes(channels, layer)
    ]
    shapes += [(sizes.gates * sizes.hidden,)] * (2 * sizes.layers * sizes.directions)
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return [p.reshape(s) for p, s in zip(np.split(parameters, ends[:-1]), shapes)]

"""MXNet's RNN as ONNX's recurrent layers: permuted gates, one node for each layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._core.types import TensorType
from ...errors import MXNetError
from ...ops.sequence.rnn_sizes import Layer, sizes_of, unpacked
from ..exporter import Exporter, Use, Value
from .table import writes

# Index among MXNet's gates of each of ONNX's gates.
_ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
_TYPES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}


@writes("RNN")
def recurrent(
    g: Exporter, use: Use, x: Value, parameters: Value, *others: Value
) -> Sequence[Value]:
    """Stacked layers, each in one direction or both; states are split for each and concatenated."""
    attrs, mode = use.attrs, use.attrs["mode"]
    if parameters.array is None:
        raise MXNetError("has parameters that the graph computes; they must be constants")
    if attrs["projection_size"] is not None:
        raise MXNetError(
            "projects its states (projection_size), which ONNX's LSTM does not support"
        )
    states = others[: 2 if mode == "lstm" else 1]
    directions = 1 + attrs["bidirectional"]
    channels = (x.type.shape or ())[2]
    assert channels is not None
    sides = unpacked(parameters.array, sizes_of(**attrs), channels)
    ends: list[list[Value]] = [[] for _ in states]
    layers = attrs["num_layers"]
    for layer in range(layers):
        first = layer * directions
        weights = _weights(g, sides[first : first + directions], mode)
        begin = [_rows(g, s, layer, directions, layers, f"begin{i}") for i, s in enumerate(states)]
        outputs = _layer(g, use, x, weights, begin, layer)
        x = _joined(g, use, outputs[0], layer, directions)
        for found, end in zip(outputs[1:], ends):
            end.append(found)
    if not attrs["state_outputs"]:
        return [x]
    return [x, *(_together(g, end, f"state{i}") for i, end in enumerate(ends))]


def _weights(g: Exporter, directions: Sequence[Layer], mode: str) -> list[Value]:
    """ONNX's W, R and B of a layer, with an axis for the directions."""
    order = _ORDERS[mode]
    w, r = (np.stack([_reordered(side.weights[i], order) for side in directions]) for i in (0, 1))
    biases = [np.concatenate([_reordered(b, order) for b in side.biases]) for side in directions]
    return [g.constant(array) for array in (w, r, np.stack(biases))]


def _reordered(matrix: np.ndarray, order: Sequence[int]) -> np.ndarray:
    blocks = np.split(matrix, len(order))
    return np.concatenate([blocks[gate] for gate in order])


def _rows(g: Exporter, state: Value, layer: int, directions: int, layers: int, at: str) -> Value:
    if layers == 1:
        return state
    first = layer * directions
    return g.emit(
        "Slice", state, g.ints(first), g.ints(first + directions), g.ints(0), at=f"{at}_{layer}"
    )


def _layer(
    g: Exporter,
    use: Use,
    x: Value,
    weights: Sequence[Value],
    begin: Sequence[Value],
    layer: int,
) -> Sequence[Value]:
    mode, both = use.attrs["mode"], use.attrs["bidirectional"]
    extra: dict[str, object] = {}
    if mode == "gru":
        extra["linear_before_reset"] = 1
    if mode == "rnn_relu":
        extra["activations"] = ("Relu",) * (1 + both)
    w, r, b = weights
    blank = TensorType(None, g.dtype(x))
    return g.emits(
        _TYPES[mode],
        *(x, w, r, b, None, *begin),
        at=f"layer{layer}_",
        types=(blank,) * (1 + len(begin)),
        hidden_size=use.attrs["state_size"],
        direction="bidirectional" if both else "forward",
        **extra,  # type: ignore[arg-type]
    )


def _joined(g: Exporter, use: Use, y: Value, layer: int, directions: int) -> Value:
    """(time, directions, batch, state) as (time, batch, directions * state)."""
    size = use.attrs["state_size"]
    is_last = layer == use.attrs["num_layers"] - 1
    at = "output" if is_last else f"between{layer}"
    dtype = y.type.dtype
    if directions == 1:
        return g.emit("Squeeze", y, g.ints(1), at=at, type=TensorType(None, dtype))
    apart = g.emit("Transpose", y, at=f"apart{layer}", perm=(0, 2, 1, 3))
    made = g.emit("Reshape", apart, g.ints(0, 0, 2 * size), at=at, type=TensorType(None, dtype))
    return made


def _together(g: Exporter, states: Sequence[Value], at: str) -> Value:
    if len(states) == 1:
        return states[0]
    return g.emit("Concat", *states, at=at, axis=0)

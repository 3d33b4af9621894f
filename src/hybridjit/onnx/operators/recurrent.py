"""ONNX's recurrent layers as MXNet's RNN: permuted gates, weights in one vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..importer import Importer, Value
from ..use import Use
from .recurrent_steps import run_steps
from .table import translates

# Index among ONNX's gates of each of MXNet's gates.
_GATES = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}
_MODES = {"GRU": "gru", "LSTM": "lstm"}
_DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


@translates("RNN", "GRU", "LSTM")
def recurrent(
    g: Importer,
    use: Use,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    *others: Value | None,
) -> Sequence[Value | None]:
    """One layer in one direction or both: all states, last state, and for LSTM the last cell."""
    lengths, h0, c0, peepholes = (*others, None, None, None, None)[:4]
    if lengths is not None and lengths.array is not None:
        lengths = None if set(lengths.array.reshape(-1)) == {_steps(g, use, x)} else lengths
    if peepholes is not None and peepholes.array is not None:
        peepholes = peepholes if peepholes.array.any() else None
    if use.number("layout"):
        x = g.op("SwapAxis", x, dim1=0, dim2=1, at="time")
        h0, c0 = (_turned(g, s) for s in (h0, c0))
    is_known = all(v is None or v.is_constant for v in (w, r, b))
    if lengths is not None or peepholes is not None or not is_known or _mode(use) is None:
        states = [h0, c0] if use.op_type == "LSTM" else [h0]
        y, last = run_steps(g, use, x, (w, r, b, peepholes), lengths, states)
        return _laid_out(g, use, y, last)
    return _fused(g, use, x, (w, r, b), h0, c0)


def _fused(
    g: Importer,
    use: Use,
    x: Value,
    weights: tuple[Value, Value, Value | None],
    h0: Value | None,
    c0: Value | None,
) -> Sequence[Value]:
    """Layer by MXNet's RNN."""
    w, r, b = weights
    direction, mode = use.text("direction", "forward"), _mode(use)
    if direction == "reverse":
        x = g.op("reverse", x, axis=(0,), at="reverse")
    packed = _packed(g, use, w, r, b)
    states = [h0 or _zeros(g, x, r), *([c0 or _zeros(g, x, r)] if mode == "lstm" else [])]
    y, *last = g.outputs(
        "RNN",
        *(x, packed, *states),
        state_size=g.shape(r)[2],
        num_layers=1,
        mode=mode,
        bidirectional=direction == "bidirectional",
        state_outputs=True,
    )
    return _arranged(g, use, y, last, direction)


def _steps(g: Importer, use: Use, x: Value) -> int:
    return g.shape(x)[1 if use.number("layout") else 0]


def _turned(g: Importer, state: Value | None) -> Value | None:
    return None if state is None else g.op("SwapAxis", state, dim1=0, dim2=1, at="state")


def _zeros(g: Importer, x: Value, r: Value) -> Value:
    directions, _, size = g.shape(r)
    return g.filled((directions, g.shape(x)[1], size), np.zeros(1, g.dtype(x)))


def _mode(use: Use) -> str | None:
    """MXNet's mode of the layer, None if unsupported."""
    defaults = _DEFAULTS[use.op_type]
    functions = use.texts("activations") or defaults
    count = len(defaults)
    each = {functions[i : i + count] for i in range(0, len(functions), count)}
    if "clip" in use or use.number("input_forget"):
        return None
    if use.op_type == "GRU" and not use.number("linear_before_reset"):
        return None
    if use.op_type == "RNN" and each in ({("Tanh",)}, {("Relu",)}):
        return "rnn_tanh" if each == {("Tanh",)} else "rnn_relu"
    return _MODES.get(use.op_type) if each == {defaults} else None


def _packed(g: Importer, use: Use, w: Value, r: Value, b: Value | None) -> Value:
    """All weights of all directions, then all biases, gates in MXNet's order."""
    gates = _GATES[use.op_type]
    weights, recurrent_weights = g.known(w, "W"), g.known(r, "R")
    directions, _, size = recurrent_weights.shape
    bias = np.zeros((directions, 2 * len(gates) * size)) if b is None else g.known(b, "B")
    pieces = [
        _reordered(part[d], gates)
        for d in range(directions)
        for part in (weights, recurrent_weights)
    ]
    halves = [_reordered(half, gates) for d in range(directions) for half in np.split(bias[d], 2)]
    return g.constant(np.concatenate([*pieces, *halves]).astype(weights.dtype))


def _reordered(matrix: np.ndarray, gates: Sequence[int]) -> np.ndarray:
    blocks = np.split(matrix, len(gates))
    return np.concatenate([blocks[gate].reshape(-1) for gate in gates])


def _arranged(
    g: Importer, use: Use, y: Value, last: Sequence[Value], direction: str
) -> Sequence[Value]:
    """Results with ONNX's axes: time, direction, batch, state."""
    if direction == "reverse":
        y = g.op("reverse", y, axis=(0,), at="forward")
    steps, batch, width = g.shape(y)
    directions = 2 if direction == "bidirectional" else 1
    parts = g.op("Reshape", y, shape=(steps, batch, directions, width // directions), at="parts")
    return _laid_out(g, use, g.op("transpose", parts, axes=(0, 2, 1, 3), at="states"), last)


def _laid_out(g: Importer, use: Use, y: Value, last: Sequence[Value]) -> Sequence[Value]:
    """Results, batch first if the node requests it."""
    if not use.number("layout"):
        return [y, *last]
    whole = g.op("transpose", y, axes=(2, 0, 1, 3), at="batch")
    return [whole, *(g.op("SwapAxis", s, dim1=0, dim2=1, at="last") for s in last)]

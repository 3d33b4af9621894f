"""The steps of one direction of one recurrent layer, on data that are projected already.

In: projected data (T, N, gates * H), the recurrent weight and bias, begin states (N, H). Out: the
outputs (T, N, H) and, for lstm, the last cell state. Passes make these operators, not users.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...types import TensorType
from ..attrs import AttrValue
from ..building import Builder, Many, Reached, X
from ..registry import register
from ..rules import Types, forward
from ..signatures import Arrays
from .rnn_sizes import GATES
from .rnn_steps_back import grad_steps, sigmoid


def _lstm_step(x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gates i, f, g, o: c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c')."""
    i, f, g, o = np.split(x + h, 4, axis=1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def _gru_step(x: np.ndarray, h: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Gates r, z, n: h' = (1 - z) tanh(x_n + r h_n) + z h."""
    (xr, xz, xn), (hr, hz, hn) = np.split(x, 3, axis=1), np.split(h, 3, axis=1)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    return (1 - z) * np.tanh(xn + r * hn) + z * before


def run_steps(
    mode: str,
    projected: np.ndarray,
    recurrent: tuple[np.ndarray, ...],
    h: np.ndarray,
    c: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """All steps of one direction on projected data (T, N, gates * H); ``recurrent`` is the h2h
    weight, its bias and, with a projection, h2r. Outputs (T, N, width), last h, last c."""
    h2h, bias, *h2r = recurrent
    out = np.empty((*projected.shape[:2], h.shape[1]), projected.dtype)
    for t, x in enumerate(projected):
        turned = h @ h2h.T + bias
        if c is not None:
            h, c = _lstm_step(x, turned, c)
            h = h @ h2r[0].T if h2r else h
        elif mode == "gru":
            h = _gru_step(x, turned, h)
        else:
            total = x + turned
            h = np.tanh(total) if mode == "rnn_tanh" else np.maximum(total, 0)
        out[t] = h
    return out, h, c


def _steps_inputs(*, mode: str, **attrs: AttrValue) -> tuple[str, ...]:
    cell = ("cell",) if mode == "lstm" else ()
    return ("projected", "h2h", "bias", "state", *cell)


def _infer_steps(
    projected: TensorType, h2h: TensorType, *rest: TensorType, mode: str, backward: bool
) -> Types:
    """Outputs (T, N, width) and, for lstm, the last cell state (N, H)."""
    length, batch, rows = projected.dims
    cell = (projected.with_shape((batch, rows // GATES[mode])),) if mode == "lstm" else ()
    return (projected.with_shape((length, batch, h2h.dims[1])), *cell)


def _steps(
    projected: np.ndarray,
    h2h: np.ndarray,
    bias: np.ndarray,
    state: np.ndarray,
    cell: np.ndarray | None = None,
    *h2r: np.ndarray,
    mode: str,
    backward: bool,
) -> Arrays:
    order = -1 if backward else 1
    y, _, c = run_steps(mode, projected[::order], (h2h, bias, *h2r), state, cell)
    y = np.ascontiguousarray(y[::order])
    return y if c is None else (y, c)


RNN_STEPS = register(
    "_rnn_steps",
    _steps_inputs,
    "mode:gru|lstm|rnn_relu|rnn_tanh! backward:bool!",
    internal=True,
    kernel="recurrent",
    infer=forward(_infer_steps),
    ref=_steps,
    grad=grad_steps,
    outputs=lambda mode, **attrs: ("output", "cell") if mode == "lstm" else ("output",),
    doc="One direction of one recurrent layer on projected data; made by the compiler only.",
)


def _grad_projected_steps(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Any
) -> tuple[Reached[X], ...]:
    return grad_steps(g, ins, outs, douts, is_projected=True, **attrs)


RNN_PROJECTED_STEPS = register(
    "_rnn_projected_steps",
    "projected h2h bias state cell h2r",
    "mode:gru|lstm|rnn_relu|rnn_tanh! backward:bool!",
    internal=True,
    infer=forward(_infer_steps),
    ref=_steps,
    grad=_grad_projected_steps,
    outputs=("output", "cell"),
    doc="One direction of one lstm layer whose output is projected, on projected data.",
)

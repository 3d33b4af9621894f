"""Steps of one direction of one recurrent layer, on projected data.

Input: projected data (T, N, gates * H), the recurrent weight and bias, initial states (N, H).
Output: the outputs (T, N, H) and, for lstm, the last cell state. Only passes create these
operators.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..._core.types import FLOAT32, TensorType
from ...errors import DTypeError
from ..attrs import AttrValue, Declared
from ..bfloat16 import rounded
from ..building import Builder, Many, X
from ..registry import register
from ..rules import Types, forward
from ..signatures import Arrays
from .rnn_sizes import GATES
from .rnn_steps_back import KEPT, grad_kept_steps, grad_projected_steps, sigmoid


def _as_it_is(state: np.ndarray) -> np.ndarray:
    return state


def _lstm_step(
    x: np.ndarray, h: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Gates i, f, g, o: c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c'); and the saved values."""
    i, f, g, o = np.split(x + h, 4, axis=1)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    c = f * c + i * g
    return o * np.tanh(c), c, [i, f, g, o, c]


def _gru_step(
    x: np.ndarray, h: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Gates r, z, n: h' = (1 - z) tanh(x_n + r h_n) + z h; and the saved values."""
    (xr, xz, xn), (hr, hz, hn) = np.split(x, 3, axis=1), np.split(h, 3, axis=1)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    n = np.tanh(xn + r * hn)
    return (1 - z) * n + z * before, [r, z, n, hn]


def run_steps(
    mode: str,
    projected: np.ndarray,
    recurrent: tuple[np.ndarray, ...],
    h: np.ndarray,
    c: np.ndarray | None,
    kept: np.ndarray | None = None,
    as_read: Callable[[np.ndarray], np.ndarray] = _as_it_is,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """All steps of one direction on projected data (T, N, gates * H).

    ``recurrent`` is the h2h weight, its bias and, with a projection, h2r. Returns outputs (T, N,
    width), last h, last c. ``kept`` (T, N, parts * H) receives the values that the backward pass
    reads; ``as_read`` rounds states before products.
    """
    h2h, bias, *h2r = recurrent
    out = np.empty((*projected.shape[:2], h.shape[1]), projected.dtype)
    for t, x in enumerate(projected):
        projected_state = as_read(h) @ h2h.T + bias
        parts: list[np.ndarray] = []
        if c is not None:
            h, c, parts = _lstm_step(x, projected_state, c)
            h = h @ h2r[0].T if h2r else h
        elif mode == "gru":
            h, parts = _gru_step(x, projected_state, h)
        else:
            total = x + projected_state
            h = np.tanh(total) if mode == "rnn_tanh" else np.maximum(total, 0)
        if kept is not None:
            np.concatenate(parts, axis=1, out=kept[t])
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
    as_read: Callable[[np.ndarray], np.ndarray] = _as_it_is,
) -> Arrays:
    order = -1 if backward else 1
    recurrent = (h2h, bias, *h2r)
    y, _, c = run_steps(mode, projected[::order], recurrent, state, cell, as_read=as_read)
    y = np.ascontiguousarray(y[::order])
    return y if c is None else (y, c)


def _grad_steps(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared
) -> tuple[X, ...]:
    """Gradient rule of the steps, which runs them again if they did not save values."""
    kept = outs
    if attrs["mode"] in KEPT:
        kept = g.outputs(RNN_KEPT_STEPS, *ins, at="again", **attrs)
    return grad_kept_steps(g, ins, kept, douts, **attrs)


_STEPS_ATTRS = "mode:gru|lstm|rnn_relu|rnn_tanh! backward:bool!"
RNN_STEPS = register(
    "_rnn_steps",
    _steps_inputs,
    _STEPS_ATTRS,
    internal=True,
    kernel="recurrent",
    infer=forward(_infer_steps),
    ref=_steps,
    grad=_grad_steps,
    outputs=lambda mode, **attrs: ("output", "cell") if mode == "lstm" else ("output",),
    doc="One direction of one recurrent layer on projected data; created by the compiler only.",
)


def _infer_rounded_steps(projected: TensorType, *rest: TensorType, **attrs: Declared) -> Types:
    if projected.dtype != FLOAT32:
        raise DTypeError(f"steps with rounded states need float32, got {projected.dtype}")
    return _infer_steps(projected, *rest, **attrs)


RNN_ROUNDED_STEPS = register(
    "_rnn_rounded_steps",
    _steps_inputs,
    _STEPS_ATTRS,
    internal=True,
    kernel="recurrent",
    infer=forward(_infer_rounded_steps),
    ref=partial(_steps, as_read=rounded),
    outputs=lambda mode, **attrs: ("output", "cell") if mode == "lstm" else ("output",),
    doc="Steps with products of states and weights rounded to bfloat16.",
)


def _infer_kept_steps(
    projected: TensorType, h2h: TensorType, *rest: TensorType, mode: str, backward: bool
) -> Types:
    """Types of the steps, and of the saved values (T, N, parts * H)."""
    found = _infer_steps(projected, h2h, mode=mode, backward=backward)
    hidden = projected.dims[2] // GATES[mode]
    return (*found, projected.with_shape((*projected.dims[:2], KEPT[mode] * hidden)))


def _kept_steps(
    projected: np.ndarray,
    h2h: np.ndarray,
    bias: np.ndarray,
    state: np.ndarray,
    cell: np.ndarray | None = None,
    *,
    mode: str,
    backward: bool,
) -> Arrays:
    order = -1 if backward else 1
    shape = (*projected.shape[:2], KEPT[mode] * (projected.shape[2] // GATES[mode]))
    kept = np.empty(shape, projected.dtype)
    recurrent = (h2h, bias)
    y, _, c = run_steps(mode, projected[::order], recurrent, state, cell, kept[::order])
    return tuple(a for a in (np.ascontiguousarray(y[::order]), c, kept) if a is not None)


RNN_KEPT_STEPS = register(
    "_rnn_kept_steps",
    _steps_inputs,
    "mode:gru|lstm! backward:bool!",
    internal=True,
    kernel="recurrent",
    infer=forward(_infer_kept_steps),
    ref=_kept_steps,
    grad=grad_kept_steps,
    outputs=lambda mode, **attrs: ("output", *("cell",) * (mode == "lstm"), "kept"),
    doc="Steps, and the values of every hidden unit that the backward pass reads.",
)
RNN_PROJECTED_STEPS = register(
    "_rnn_projected_steps",
    "projected h2h bias state cell h2r",
    _STEPS_ATTRS,
    internal=True,
    infer=forward(_infer_steps),
    ref=_steps,
    grad=grad_projected_steps,
    outputs=("output", "cell"),
    doc="One direction of one lstm layer with projected output, on projected data.",
)

"""What comes back through the steps of a recurrent layer.

In: what the steps read and gave, and the gradients of their results. Out: the gradients of what
they read. All gates are computed again at once, since all states are known; what is left step by
step is the recurrence, and the weights' gradients are one product over all steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...types import TensorType
from ..attrs import Attrs, AttrValue
from ..building import Builder, Many, X
from ..gradient import given
from ..registry import register
from ..rules import Types, forward

_MODE = "mode:gru|lstm|rnn_relu|rnn_tanh! backward:bool! is_projected:bool=False"


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


class _Found(NamedTuple):
    """Gradients of all steps: of the gates that the data adds to and of those that the state
    adds to (T, N, rows), of the begin states, and with a projection of its weight."""

    data: np.ndarray
    turned: np.ndarray
    states: list[np.ndarray]
    h2r: list[np.ndarray]


def _lstm_back(
    gates: np.ndarray, h2h: np.ndarray, cell: np.ndarray, h2r: Sequence[np.ndarray], heads: Any
) -> _Found:
    """c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c'), which a projection may follow."""
    i, f, g, o = np.split(gates, 4, axis=2)
    i, f, o, g = sigmoid(i), sigmoid(f), sigmoid(o), np.tanh(g)
    cells = [cell]
    for t in range(len(gates)):
        cells.append(f[t] * cells[-1] + i[t] * g[t])
    bent = np.tanh(np.stack(cells[1:])) if len(gates) else np.zeros_like(i)
    of_steps, dc = heads
    found = np.empty_like(gates)
    dh = np.zeros((len(cell), h2h.shape[1]), gates.dtype)
    d_h2r = [np.zeros_like(w) for w in h2r]
    for t in reversed(range(len(gates))):
        dh = dh + of_steps[t]
        if h2r:
            d_h2r[0] += dh.T @ (o[t] * bent[t])
            dh = dh @ h2r[0]
        dc = dc + dh * o[t] * (1 - bent[t] ** 2)
        found[t] = np.concatenate(
            [
                dc * g[t] * i[t] * (1 - i[t]),
                dc * cells[t] * f[t] * (1 - f[t]),
                dc * i[t] * (1 - g[t] ** 2),
                dh * bent[t] * o[t] * (1 - o[t]),
            ],
            axis=1,
        )
        dc, dh = dc * f[t], found[t] @ h2h
    return _Found(found, found, [dh, dc], d_h2r)


def _gru_back(
    projected: np.ndarray, turned: np.ndarray, h2h: np.ndarray, before: np.ndarray, heads: Any
) -> _Found:
    """h' = (1 - z) tanh(x_n + r h_n) + z h, with r and z of the sums."""
    (xr, xz, xn), (hr, hz, hn) = np.split(projected, 3, axis=2), np.split(turned, 3, axis=2)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    n = np.tanh(xn + r * hn)
    of_data, of_state = np.empty_like(projected), np.empty_like(projected)
    dh = np.zeros(before.shape[1:], projected.dtype)
    for t in reversed(range(len(projected))):
        dh = dh + heads[0][t]
        dn = dh * (1 - z[t]) * (1 - n[t] ** 2)
        dz = dh * (before[t] - n[t]) * z[t] * (1 - z[t])
        dr = dn * hn[t] * r[t] * (1 - r[t])
        of_data[t] = np.concatenate([dr, dz, dn], axis=1)
        of_state[t] = np.concatenate([dr, dz, dn * r[t]], axis=1)
        dh = dh * z[t] + of_state[t] @ h2h
    return _Found(of_data, of_state, [dh], [])


def _plain_back(mode: str, output: np.ndarray, h2h: np.ndarray, heads: Any) -> _Found:
    """h' = tanh or relu of the sum."""
    slope = 1 - output**2 if mode == "rnn_tanh" else (output > 0).astype(output.dtype)
    found = np.empty_like(output)
    dh = np.zeros(output.shape[1:], output.dtype)
    for t in reversed(range(len(output))):
        found[t] = (dh + heads[0][t]) * slope[t]
        dh = found[t] @ h2h
    return _Found(found, found, [dh], [])


def _back_from_steps(
    *arrays: np.ndarray, mode: str, backward: bool, is_projected: bool
) -> tuple[np.ndarray, ...]:
    count = len(_read(mode, is_projected))
    (projected, h2h, bias, state, *rest), heads = arrays[:count], list(arrays[count:])
    order = -1 if backward else 1
    projected, output = projected[::order], heads.pop(0)[::order]
    heads[0] = heads[0][::order]
    before = np.concatenate([state[None], output[:-1]])
    turned = before @ h2h.T + bias
    if mode == "lstm":
        found = _lstm_back(projected + turned, h2h, rest[0], rest[1:], heads)
    elif mode == "gru":
        found = _gru_back(projected, turned, h2h, before, heads)
    else:
        found = _plain_back(mode, output, h2h, heads)
    rows = found.turned.reshape(-1, len(h2h))
    d_h2h = rows.T @ before.reshape(len(rows), h2h.shape[1])
    data = np.ascontiguousarray(found.data[::order])
    return (data, d_h2h, rows.sum(0), *found.states, *found.h2r)


def _read(mode: str, is_projected: bool) -> tuple[str, ...]:
    """What the steps read."""
    cell = ("cell",) if mode == "lstm" else ()
    return ("projected", "h2h", "bias", "state", *cell, *("h2r",) * is_projected)


def _inputs(*, mode: str, is_projected: bool, **attrs: AttrValue) -> tuple[str, ...]:
    cell = ("head_cell",) if mode == "lstm" else ()
    return (*_read(mode, is_projected), "output", "head", *cell)


def _outputs(*, mode: str, is_projected: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return tuple(f"d_{name}" for name in _read(mode, is_projected))


@forward
def _infer(*ins: TensorType, mode: str, is_projected: bool, **attrs: AttrValue) -> Types:
    return ins[: len(_read(mode, is_projected))]


BACK_FROM_STEPS = register(
    "_back_from_rnn_steps",
    _inputs,
    _MODE,
    internal=True,
    infer=_infer,
    ref=_back_from_steps,
    outputs=_outputs,
    doc="What reaches the operands of a recurrent layer's steps.",
)


def grad_steps(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    mode: str,
    backward: bool,
    is_projected: bool = False,
) -> tuple[X, ...]:
    """The rule of the steps; where nothing came back to a result, zeros did."""
    heads = [given(g, d, y) for d, y in zip(douts, outs)]
    attrs: Attrs = {"mode": mode, "backward": backward, "is_projected": is_projected}
    return g.outputs(BACK_FROM_STEPS, *ins, outs[0], *heads, at="dsteps", **attrs)

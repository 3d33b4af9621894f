"""Backward pass of the steps of a recurrent layer.

Input: the operands, results and saved values of the steps, and their output gradients. Output: the
gradients of the operands. Only the recurrence runs step by step; the weights' gradients are one
product over all steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

import numpy as np

from ..._core.frozen import dataclass
from ..._core.types import TensorType
from ..algebra import total
from ..attrs import AttrValue
from ..building import Builder, Many, X
from ..gradient import given
from ..nn.matrix_products import FULLY_CONNECTED
from ..registry import register
from ..rules import Types, forward
from ..tensor.joining import CONCAT
from ..tensor.primitives import narrow, reshape, transpose

_MODE = "mode:gru|lstm|rnn_relu|rnn_tanh!"
# Number of saved values per hidden unit: i, f, g, o and the cell; r, z, n and n's state product.
KEPT = {"lstm": 5, "gru": 4}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _lstm_back(
    kept: np.ndarray,
    cell: np.ndarray,
    weight: np.ndarray,
    head: np.ndarray,
    head_cell: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    """c' = f c + i g, h' = o tanh(c')."""
    i, f, g, o, c = np.split(kept, 5, axis=2)
    bent, before = np.tanh(c), np.concatenate([cell[None], c[:-1]])
    found = np.empty((*kept.shape[:2], weight.shape[1]), kept.dtype)
    dh = np.zeros_like(cell)
    dc = dh if head_cell is None else head_cell
    for t in reversed(range(len(kept))):
        dh = dh + head[t]
        dc = dc + dh * o[t] * (1 - bent[t] ** 2)
        found[t] = np.concatenate(
            [
                dc * g[t] * i[t] * (1 - i[t]),
                dc * before[t] * f[t] * (1 - f[t]),
                dc * i[t] * (1 - g[t] ** 2),
                dh * bent[t] * o[t] * (1 - o[t]),
            ],
            axis=1,
        )
        dc, dh = dc * f[t], found[t] @ weight.T
    return found, dh, dc


def _gru_back(
    kept: np.ndarray, output: np.ndarray, state: np.ndarray, weight: np.ndarray, head: np.ndarray
) -> tuple[np.ndarray, ...]:
    """h' = (1 - z) n + z h, with n = tanh(x_n + r h_n)."""
    r, z, n, turned = np.split(kept, 4, axis=2)
    before = np.concatenate([state[None], output[:-1]])
    of_data = np.empty((*output.shape[:2], weight.shape[1]), kept.dtype)
    of_state = np.empty_like(of_data)
    dh = np.zeros_like(state)
    for t in reversed(range(len(kept))):
        dh = dh + head[t]
        dn = dh * (1 - z[t]) * (1 - n[t] ** 2)
        dz = dh * (before[t] - n[t]) * z[t] * (1 - z[t])
        dr = dn * turned[t] * r[t] * (1 - r[t])
        of_data[t] = np.concatenate([dr, dz, dn], axis=1)
        of_state[t] = np.concatenate([dr, dz, dn * r[t]], axis=1)
        dh = dh * z[t] + of_state[t] @ weight.T
    return of_data, dh, of_state


def _plain_back(
    mode: str, output: np.ndarray, weight: np.ndarray, head: np.ndarray
) -> tuple[np.ndarray, ...]:
    """h' = tanh or relu of the sum."""
    slope = 1 - output**2 if mode == "rnn_tanh" else (output > 0).astype(output.dtype)
    found = np.empty_like(output)
    dh = np.zeros_like(output[0])
    for t in reversed(range(len(output))):
        found[t] = (dh + head[t]) * slope[t]
        dh = found[t] @ weight.T
    return found, dh


def _steps_back(
    *arrays: np.ndarray, mode: str, backward: bool, **attrs: AttrValue
) -> tuple[np.ndarray, ...]:
    """Gradients with steps in forward order; a backward direction is reversed before and after."""
    order = -1 if backward else 1
    turned = [a[::order] if a.ndim == 3 else a for a in arrays]
    if mode == "lstm":
        found = _lstm_back(*turned)
    else:
        found = _gru_back(*turned) if mode == "gru" else _plain_back(mode, *turned)
    return tuple(np.ascontiguousarray(a[::order] if a.ndim == 3 else a) for a in found)


def _inputs(*, mode: str, of_cell: bool, **attrs: AttrValue) -> tuple[str, ...]:
    if mode == "lstm":
        return ("kept", "cell", "weight", "head", *("head_cell",) * of_cell)
    return (*(("kept", "output", "state") if mode == "gru" else ("output",)), "weight", "head")


def _outputs(*, mode: str, **attrs: AttrValue) -> tuple[str, ...]:
    more = {"lstm": ("d_cell",), "gru": ("d_turned",)}.get(mode, ())
    return ("d_projected", "d_state", *more)


@forward
def _infer(*ins: TensorType, mode: str, of_cell: bool, **attrs: AttrValue) -> Types:
    """Types of the gradients with respect to projected data (T, N, rows) and states (N, H)."""
    weight, head = ins[-2 - of_cell], ins[-1 - of_cell]
    (steps, batch, width), rows = head.dims, weight.dims[1]
    found, state = head.with_shape((steps, batch, rows)), head.with_shape((batch, width))
    return (found, state, *{"lstm": (state,), "gru": (found,)}.get(mode, ()))


STEPS_BACK = register(
    "_rnn_steps_back",
    _inputs,
    f"{_MODE} backward:bool! of_cell:bool=False",
    internal=True,
    kernel="recurrent_back",
    infer=_infer,
    ref=_steps_back,
    outputs=_outputs,
    doc="Gradients of a recurrent layer's steps with respect to gates and initial states; the "
    "weight is transposed.",
)


def grad_kept_steps(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    mode: str,
    backward: bool,
) -> tuple[X, ...]:
    """Gradient rule of steps with saved values; absent output gradients are zeros."""
    return _Back(g, ins, outs, mode, backward).found(douts)


@dataclass(frozen=True)
class _Back(Generic[X]):
    """Backward pass of the steps from ``ins`` to ``outs``."""

    g: Builder[X]
    ins: Sequence[X]
    outs: Sequence[X]
    mode: str
    backward: bool

    def found(self, douts: Sequence[X | None]) -> tuple[X, ...]:
        g, (_, h2h, _, state, *cell), output = self.g, self.ins, self.outs[0]
        read = {
            "lstm": (self.outs[-1], *cell),
            "gru": (self.outs[-1], output, state),
        }.get(self.mode, (output,))
        heads = [given(g, douts[0], output)]
        heads += [d for d in douts[1:2] if d is not None and self.mode == "lstm"]
        turned = transpose(g, h2h, (1, 0), at="turned")
        attrs: dict[str, Any] = {"mode": self.mode, "backward": self.backward}
        data, d_state, *more = g.outputs(
            STEPS_BACK, *read, turned, *heads, at="dsteps", of_cell=len(heads) > 1, **attrs
        )
        gates = more[0] if self.mode == "gru" else data
        rows = g.type(gates).dims[2]
        flat = reshape(g, gates, (g.type(gates).size // rows, rows), at="drows")
        d_bias = total(g, flat, (0,), keepdims=False)
        return (data, self._by_weight(flat), d_bias, d_state, *more[: len(cell)])

    def _by_weight(self, gates: X) -> X:
        """dh2h = transposed gradients of the gates times the previous states."""
        g, width = self.g, self.g.type(self.ins[3]).dims[1]
        before = reshape(g, self._states_before(), (g.type(gates).dims[0], width), at="before_rows")
        sides = transpose(g, gates, (1, 0), at="columns"), transpose(g, before, (1, 0), at="states")
        return g.op(FULLY_CONNECTED, *sides, at="dh2h", num_hidden=width, no_bias=True)

    def _states_before(self) -> X:
        """State that each step read."""
        g, output, state = self.g, self.outs[0], self.ins[3]
        begin = reshape(g, state, (1, *g.type(state).dims), at="begin")
        length = g.type(output).dims[0]
        if length == 1:
            return begin
        first = 1 if self.backward else 0
        others = narrow(g, output, 0, first, length - 1, at="others")
        pair = (others, begin) if self.backward else (begin, others)
        return g.op(CONCAT, *pair, at="before", dim=0, num_args=2)


def _projected_back(
    projected: np.ndarray,
    h2h: np.ndarray,
    bias: np.ndarray,
    state: np.ndarray,
    cell: np.ndarray,
    h2r: np.ndarray,
    output: np.ndarray,
    head: np.ndarray,
    dc: np.ndarray,
    *,
    backward: bool,
) -> tuple[np.ndarray, ...]:
    """Gradients of an LSTM with state h2r (o tanh(c')); the gates are recomputed, all at once."""
    order = -1 if backward else 1
    projected, output, head = projected[::order], output[::order], head[::order]
    before = np.concatenate([state[None], output[:-1]])
    gates = np.split(projected + before @ h2h.T + bias, 4, axis=2)
    i, f, o = (sigmoid(gates[n]) for n in (0, 1, 3))
    g, cells = np.tanh(gates[2]), [cell]
    for t in range(len(output)):
        cells.append(f[t] * cells[-1] + i[t] * g[t])
    kept = np.concatenate([i, f, g, o, np.stack(cells[1:])], axis=2) if len(output) else None
    d_h2r, dh = np.zeros_like(h2r), np.zeros_like(state)
    found = np.empty_like(projected)
    for t in reversed(range(len(output))):
        assert kept is not None
        dh = dh + head[t]
        d_h2r += dh.T @ (o[t] * np.tanh(cells[t + 1]))
        of_step = (kept[t : t + 1], cells[t], h2h.T, (dh @ h2r)[None], dc)
        (found[t],), dh, dc = _lstm_back(*of_step)
    rows = found.reshape(-1, len(h2h))
    d_h2h = rows.T @ before.reshape(len(rows), h2h.shape[1])
    data = np.ascontiguousarray(found[::order])
    return data, d_h2h, rows.sum(0), dh, dc, d_h2r


_READ = "projected h2h bias state cell h2r"


@forward
def _infer_projected(*ins: TensorType, **attrs: AttrValue) -> Types:
    return ins[: len(_READ.split())]


PROJECTED_BACK = register(
    "_rnn_projected_steps_back",
    f"{_READ} output head head_cell",
    "backward:bool!",
    internal=True,
    infer=_infer_projected,
    ref=_projected_back,
    outputs=tuple(f"d_{name}" for name in _READ.split()),
    doc="Gradients of the steps of an lstm layer with projected output.",
)


def grad_projected_steps(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, mode: str, backward: bool
) -> tuple[X, ...]:
    """Gradient rule of projected steps; absent output gradients are zeros."""
    heads = [given(g, d, y) for d, y in zip(douts, outs)]
    return g.outputs(PROJECTED_BACK, *ins, outs[0], *heads, at="dsteps", backward=backward)

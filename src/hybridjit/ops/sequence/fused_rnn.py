"""The fused recurrent operator.

Input: data (T, N, C), one flat vector of all parameters, initial states (layers * directions, N,
H). Output: outputs (T, N, directions * H) and, on request, the last states.

NOTE: as in MXNet 1.9.1 on a CPU, sequence_length and the lstm_state_clip attributes are accepted
and have no effect. Dropout between layers applies in training only, as in MXNet with
MXNET_USE_MKLDNN_RNN=0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic

import numpy as np

from ..._core.types import PartialShape, TensorType, product, shape_text
from ...errors import ShapeError
from ..algebra import mul
from ..attrs import Attrs, AttrValue, Declared
from ..building import Builder, Many, X, as_results
from ..casting import widened
from ..gradient import Traced, Tracer, backpropagate
from ..nn.matrix_products import FULLY_CONNECTED
from ..record import OpDef, Traits
from ..registry import register
from ..rules import Types, fill, merged, require_float, same_dtype
from ..signatures import Arrays
from ..tensor.identity import DROPPED
from ..tensor.joining import CONCAT, concat_types
from ..tensor.primitives import narrow, reshape
from .rnn_sizes import Layer, Sizes, sizes_of, unpacked
from .rnn_steps import RNN_KEPT_STEPS, RNN_PROJECTED_STEPS, RNN_STEPS, run_steps
from .rnn_steps_back import KEPT


def _rnn_inputs(*, mode: str, use_sequence_length: bool, **attrs: AttrValue) -> tuple[str, ...]:
    cell = ("state_cell",) if mode == "lstm" else ()
    length = ("sequence_length",) if use_sequence_length else ()
    return ("data", "parameters", "state", *cell, *length)


def _rnn_outputs(*, mode: str, state_outputs: bool, **attrs: AttrValue) -> tuple[str, ...]:
    if not state_outputs:
        return ("output",)
    cell = ("statecell_output",) if mode == "lstm" else ()
    return ("output", "state_output", *cell)


def _known_batch(data: PartialShape, states: Types, outs: Types) -> PartialShape:
    """Shape of the data with its batch size inferred from a state or an output."""
    if data[1] is not None:
        return data
    others = [t.shape for t in (*states, *outs) if t.shape is not None and len(t.shape) == 3]
    return (data[0], next((s[1] for s in others if s[1] is not None), None), data[2])


def _check_parameters(found: PartialShape | None, sizes: Sizes, channels: int | None) -> None:
    """Raise ShapeError unless the number of parameters belongs to the sizes and the data."""
    if found is None or channels is None or None in found:
        return
    count = sizes.parameter_count(channels)
    if found != (count,):
        raise ShapeError(
            f"parameters have shape {shape_text(found)}, but the attributes and the data need "
            f"({count}){_made_for(found, sizes, channels)}"
        )


def _made_for(found: PartialShape, sizes: Sizes, channels: int) -> str:
    """The size of the samples that this number of parameters is for, "" if it is for none."""
    one, two = sizes.parameter_count(1), sizes.parameter_count(2)
    if len(found) != 1 or found[0] is None or (found[0] - one) % (two - one) or found[0] < one:
        return ""
    wanted = 1 + (found[0] - one) // (two - one)
    return f": they are for an input size of {wanted}, the last axis of the data has {channels}"


def _infer_rnn(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
    """Number of parameters from C; states and outputs from N and the attributes."""
    sizes = sizes_of(**attrs)
    cells = 1 + (attrs["mode"] == "lstm")
    data, parameters, states, lengths = ins[0], ins[1], ins[2 : 2 + cells], ins[2 + cells :]
    dtype = same_dtype(data, parameters, *states, *outs)
    data = data.with_dtype(dtype)
    require_float("RNN", data)
    if data.shape is None:
        return ins, outs
    if len(data.shape) != 3:
        raise ShapeError(
            "Input data should be rank-3 tensor of dim [sequence length, batch size, input size], "
            f"got {shape_text(data.shape)}"
        )
    shape = _known_batch(data.shape, states, outs)
    length, batch, channels = shape
    count = None if channels is None else sizes.parameter_count(channels)
    _check_parameters(parameters.shape, sizes, channels)
    rows = sizes.layers * sizes.directions
    state_shapes = [(rows, batch, width) for width in (sizes.width, sizes.hidden)][:cells]
    new_states = tuple(fill(t, s, dtype) for t, s in zip(states, state_shapes))
    out = TensorType((length, batch, sizes.directions * sizes.width), dtype)
    found = (out, *new_states) if attrs["state_outputs"] else (out,)
    new_lengths = tuple(fill(t, (batch,), None) for t in lengths)
    ins = (data.with_shape(shape), fill(parameters, (count,), dtype), *new_states, *new_lengths)
    return ins, merged(outs, found)


def _run_layer(
    mode: str, x: np.ndarray, layer: Layer, h: np.ndarray, c: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """One direction of a layer: outputs (T, N, width), last h, last c."""
    i2h, h2h, *h2r = layer.weights
    length, batch, channels = x.shape
    projected = x.reshape(length * batch, channels) @ i2h.T + layer.biases[0]
    recurrent = (h2h, layer.biases[1], *h2r)
    return run_steps(mode, projected.reshape(length, batch, i2h.shape[0]), recurrent, h, c)


def _rnn(
    data: np.ndarray,
    parameters: np.ndarray,
    state: np.ndarray,
    *rest: np.ndarray,
    **attrs: Declared,
) -> Arrays:
    """Stacked layers; the backward direction reads and writes its steps in reverse."""
    sizes, mode = sizes_of(**attrs), attrs["mode"]
    layers = unpacked(widened(parameters), sizes, data.shape[2])
    x, begin = widened(data), widened(state)
    cells = widened(rest[0]) if mode == "lstm" else [None] * len(begin)
    last_h: list[np.ndarray] = []
    last_c: list[np.ndarray] = []
    for first in range(0, len(layers), sizes.directions):
        sides = []
        for k in range(first, first + sizes.directions):
            step = -1 if k > first else 1
            y, h, c = _run_layer(mode, x[::step], layers[k], begin[k], cells[k])
            sides.append(y[::step])
            last_h.append(h)
            if c is not None:
                last_c.append(c)
        x = np.concatenate(sides, axis=2)
    results = [x]
    if attrs["state_outputs"]:
        results += [np.stack(last_h)] + ([np.stack(last_c)] if mode == "lstm" else [])
    typed = tuple(a.astype(data.dtype, copy=False) for a in results)
    return typed if attrs["state_outputs"] else typed[0]


def _recurrent_layers(g: Builder[X], *inputs: X, **attrs: Declared) -> X | tuple[X, ...]:
    """RNN(x, parameters, state)  =>  per layer and direction: dense on all steps, _rnn_steps"""
    return _Layers(g, inputs, sizes_of(**attrs), attrs["mode"]).run(attrs["state_outputs"])


class _Layers(Generic[X]):
    """Expansion of one RNN.

    The projections of all steps of a layer and direction are one product; ``_rnn_steps`` computes
    the recurrence. The flat parameter vector is sliced.
    """

    def __init__(
        self,
        g: Builder[X],
        inputs: Sequence[X],
        sizes: Sizes,
        mode: str,
        between: Callable[[X, int], X] | None = None,
        keeps: bool = False,
    ) -> None:
        """``between(x, layer)`` replaces the input of a layer after the first; with ``keeps`` steps
        save the values that their gradients need."""
        self.between, self.keeps = between, keeps
        self.g, self.sizes, self.mode = g, sizes, mode
        self.data, self.flat, *states = inputs
        self.states = states[: 1 + (mode == "lstm")]
        self.last: list[list[X]] = [[] for _ in self.states]
        self.position = 0

    def run(self, state_outputs: bool) -> X | tuple[X, ...]:
        x = self.data
        for layer, pieces in enumerate(self._parameters()):
            if layer and self.between is not None:
                x = self.between(x, layer)
            sides = [self._direction(x, layer, side, *p) for side, p in enumerate(pieces)]
            x = self._joined(sides, 2, f"layer{layer}")
        if not state_outputs:
            return x
        return (x, *(self._joined(parts, 0, f"last{i}") for i, parts in enumerate(self.last)))

    def _parameters(self) -> list[list[tuple[X, ...]]]:
        """Per layer and direction: i2h, h2h and optionally h2r weights, i2h and h2h biases."""
        sizes, channels = self.sizes, self.g.type(self.data).dims[2]
        weights = [
            [
                tuple(self._take(shape) for shape in sizes.weight_shapes(channels, layer))
                for _ in range(sizes.directions)
            ]
            for layer in range(sizes.layers)
        ]
        rows = (sizes.gates * sizes.hidden,)
        return [[(*pair, self._take(rows), self._take(rows)) for pair in each] for each in weights]

    def _take(self, shape: tuple[int, ...]) -> X:
        """Next slice of the flat vector: all weights come first, then all biases."""
        at, size = f"p{self.position}", product(shape)
        piece = narrow(self.g, self.flat, 0, self.position, size, at=f"{at}_cut")
        self.position += size
        return reshape(self.g, piece, shape, at=at)

    def _direction(self, x: X, layer: int, side: int, i2h: X, h2h: X, *rest: X) -> X:
        g, at = self.g, f"{'lr'[side]}{layer}"
        *h2r, i2h_bias, h2h_bias = rest
        widths = (self.sizes.width, self.sizes.hidden)
        length, batch, channels = g.type(x).dims
        rows = reshape(g, x, (length * batch, channels), at=f"{at}_rows")
        count = g.type(i2h).dims[0]
        dense = g.op(FULLY_CONNECTED, rows, i2h, i2h_bias, at=f"{at}_dense", num_hidden=count)
        projected = reshape(g, dense, (length, batch, count), at=f"{at}_projected")
        number = layer * self.sizes.directions + side
        states = (narrow(g, s, 0, number, 1, at=f"{at}_s{i}") for i, s in enumerate(self.states))
        begin = [
            reshape(g, s, (batch, width), at=f"{at}_state{i}")
            for i, (s, width) in enumerate(zip(states, widths))
        ]
        attrs: dict[str, AttrValue] = {"mode": self.mode, "backward": side == 1}
        inputs = (projected, h2h, h2h_bias, *begin, *h2r)
        steps, *cell = g.outputs(self._kind(bool(h2r)), *inputs, at=f"{at}_steps", **attrs)
        cell = cell[: len(begin) - 1]
        self.last[0].append(narrow(g, steps, 0, 0 if side else length - 1, 1, at=f"{at}_final"))
        if cell:
            self.last[1].append(reshape(g, cell[0], (1, batch, widths[1]), at=f"{at}_cell"))
        return steps

    def _kind(self, is_projected: bool) -> OpDef:
        if is_projected:
            return RNN_PROJECTED_STEPS
        return RNN_KEPT_STEPS if self.keeps and self.mode in KEPT else RNN_STEPS

    def _joined(self, parts: list[X], axis: int, at: str) -> X:
        if len(parts) == 1:
            return parts[0]
        return self.g.op(CONCAT, *parts, at=at, dim=axis, num_args=len(parts))


def _cost(ins: Types, outs: Types, *, mode: str, **attrs: Declared) -> int:
    """Multiply-adds: every weight is used once per step and sample."""
    sizes = sizes_of(mode=mode, **attrs)
    biases = 2 * sizes.gates * sizes.hidden * sizes.directions * sizes.layers
    return product(ins[0].dims[:2]) * (ins[1].size - biases)


_ATTRS = (
    "state_size:int! num_layers:int! bidirectional:bool=False "
    "mode:gru|lstm|rnn_relu|rnn_tanh! p:float[0,1]=0 state_outputs:bool=False "
    "projection_size:int?=None lstm_state_clip_min:double?=None "
    "lstm_state_clip_max:double?=None lstm_state_clip_nan:bool=False "
    "use_sequence_length:bool=False"
)


def _training_outputs(**attrs: Declared) -> tuple[str, ...]:
    return (*_rnn_outputs(**attrs), "masks")


def _infer_training(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
    """Types of RNN, and a mask (T, N, features) for each layer but the first."""
    ins, found = _infer_rnn(ins, outs[:-1], **attrs)
    if not found or found[0].shape is None:
        return ins, (*found, *outs[-1:])
    masks = found[0].with_shape((attrs["num_layers"] - 1, *found[0].shape))
    return ins, merged(outs, (*found, masks))


def _dropping_layers(g: Builder[X], *inputs: X, p: float, **attrs: Declared) -> tuple[X, ...]:
    """RNN in training  =>  its layers with dropout between them, and the masks"""
    masks: list[X] = []

    def dropped(x: X, layer: int) -> X:
        y, mask = g.outputs(DROPPED, x, at=f"drop{layer}", p=p)
        masks.append(reshape(g, mask, (1, *g.type(mask).dims), at=f"mask{layer}"))
        return y

    layers = _Layers(g, inputs, sizes_of(**attrs), attrs["mode"], dropped, keeps=True)
    made = layers.run(attrs["state_outputs"])
    joined = masks[0]
    if len(masks) > 1:
        joined = g.op(CONCAT, *masks, at="masks", dim=0, num_args=len(masks))
    return (*as_results(made), joined)


def _grad_training(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared
) -> tuple[X | None, ...]:
    """Gradient of the layers, with the masks of the forward pass between them."""
    tracer, traced = Tracer(g), [Traced(x) for x in ins]
    masks = Traced(outs[-1])

    def dropped(x: Traced[X], layer: int) -> Traced[X]:
        mask = narrow(tracer, masks, 0, layer - 1, 1, at=f"mask{layer}_cut")
        mask = reshape(tracer, mask, tracer.type(x).dims, at=f"mask{layer}")
        return mul(tracer, x, mask)

    layers = _Layers(tracer, traced, sizes_of(**attrs), attrs["mode"], dropped, keeps=True)
    made = as_results(layers.run(attrs["state_outputs"]))
    found = backpropagate(g, tracer.uses, zip(made, douts), traced)
    return tuple(found)


RNN_TRAINING = register(
    "_RNN_training",
    _rnn_inputs,
    _ATTRS,
    internal=True,
    infer=_infer_training,
    expand=_dropping_layers,
    grad=_grad_training,
    outputs=_training_outputs,
    traits=Traits(random=True),
    doc="RNN with dropout between its layers, and the factors.",
)


def _keeping_layers(g: Builder[X], *inputs: X, **attrs: Declared) -> X | tuple[X, ...]:
    """RNN in training  =>  its layers, whose steps save the values for their gradients"""
    layers = _Layers(g, inputs, sizes_of(**attrs), attrs["mode"], keeps=True)
    return layers.run(attrs["state_outputs"])


RNN_KEEPING = register(
    "_RNN_keeping",
    _rnn_inputs,
    _ATTRS,
    internal=True,
    infer=_infer_rnn,
    expand=_keeping_layers,
    outputs=_rnn_outputs,
    traits=Traits(parts_in_floats=True, multiply_adds=_cost),
    doc="RNN in training without dropout.",
)


def _in_training(attrs: Attrs) -> OpDef:
    """Operator in training: with dropout between layers, or with saved values.

    oneDNN's RNN in MXNet applies no dropout."""
    return RNN_TRAINING if attrs["p"] > 0 and attrs["num_layers"] > 1 else RNN_KEEPING


register(
    "RNN",
    _rnn_inputs,
    _ATTRS,
    infer=_infer_rnn,
    ref=_rnn,
    expand=_recurrent_layers,
    traits=Traits(parts_in_floats=True, multiply_adds=_cost, training=_in_training),
    outputs=_rnn_outputs,
    doc="Layers of LSTM, GRU or plain recurrent cells over a whole sequence.",
)


def _infer_parameters(ins: Types, outs: Types, *, num_args: int, dim: int) -> tuple[Types, Types]:
    """Types of Concat; several unknown sizes, of weights of one layer, are inferred to be equal."""
    ins, outs = concat_types(ins, outs, num_args=num_args, dim=dim)
    total = None if outs[0].shape is None else outs[0].shape[dim]
    sizes = [None if t.shape is None else t.shape[dim] for t in ins]
    unknown = [i for i, size in enumerate(sizes) if size is None]
    if total is None or not unknown:
        return ins, outs
    missing = total - sum(size for size in sizes if size is not None)
    if missing % len(unknown):
        return ins, outs
    shape = list(outs[0].shape or ())
    shape[dim] = missing // len(unknown)
    filled = [fill(t, tuple(shape), None) if i in unknown else t for i, t in enumerate(ins)]
    return tuple(filled), outs


def _plain_concat(g: Builder[X], *inputs: X, num_args: int, dim: int) -> X:
    """_rnn_param_concat(x, ...)  =>  Concat(x, ...)"""
    return g.op(CONCAT, *inputs, num_args=num_args, dim=dim)


register(
    "_rnn_param_concat",
    "data...",
    "num_args:int[1,16384]! dim:int=1",
    infer=_infer_parameters,
    expand=_plain_concat,
    doc="Flat parameter vector of an RNN from its slices.",
)

"""The fused recurrent operator taken apart: a dense layer for all steps, then the steps.

For each layer and direction the projections of all steps are one product; what is left step by
step is ``_rnn_steps``. The flat parameter vector becomes slices of itself, which depend on
parameters alone, so ``hoist`` moves them into the bind graph.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.graph import Use, Value, make
from ..ir.rewrite import Match, Replacement, rule
from ..ops.rnn import GATES
from ..types import FLOAT32, FLOAT64, product
from .moves import cut, reshaped


@dataclass
class _Parameters:
    """Cuts the flat vector piece by piece: all weights first, then all biases."""

    flat: Use
    name: str
    position: int = 0

    def take(self, *shape: int) -> Use:
        size = product(shape)
        name = f"{self.name}:p{self.position}"
        piece = cut(self.flat, 0, self.position, size, f"{name}_cut")
        self.position += size
        return reshaped(piece, shape, name)


@rule("RNN(x, parameters, state)  =>  per layer and direction: dense on all steps, _rnn_steps")
def recurrent_layers(value: Value, match: Match) -> Replacement:
    if not value.is_op("RNN") or value.attrs["projection_size"] is not None:
        return None
    if value.type.size == 0 or value.type.dtype not in (FLOAT32, FLOAT64):
        return None
    return _Recurrent(value).run()


class _Recurrent:
    """One RNN operator."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self.mode = value.attrs["mode"]
        self.hidden = value.attrs["state_size"]
        self.directions = 1 + value.attrs["bidirectional"]
        self.layers = value.attrs["num_layers"]
        self.states = value.inputs[2 : 3 + (self.mode == "lstm")]
        self.last: list[list[Use]] = [[] for _ in self.states]

    def run(self) -> Replacement:
        x = self.value.inputs[0]
        for layer, pieces in enumerate(self._parameters()):
            sides = [self._direction(x, layer, k, *p) for k, p in enumerate(pieces)]
            x = self._joined(sides, 2, f"layer{layer}")
        if not self.value.attrs["state_outputs"]:
            return x
        joined = [self._joined(parts, 0, f"last{i}") for i, parts in enumerate(self.last)]
        return (x, *joined)

    def _parameters(self) -> list[list[tuple[Use, ...]]]:
        """Per layer and direction: i2h and h2h weights, i2h and h2h biases."""
        rows, width = GATES[self.mode] * self.hidden, self.directions * self.hidden
        source = _Parameters(self.value.inputs[1], self.value.name)
        channels = self.value.inputs[0].type.dims[2]
        weights = [
            [
                (source.take(rows, width if layer else channels), source.take(rows, self.hidden))
                for _ in range(self.directions)
            ]
            for layer in range(self.layers)
        ]
        return [
            [(*pair, source.take(rows), source.take(rows)) for pair in layer] for layer in weights
        ]

    def _direction(
        self, x: Use, layer: int, side: int, i2h: Use, h2h: Use, i2h_bias: Use, h2h_bias: Use
    ) -> Use:
        name = f"{self.value.name}:{'lr'[side]}{layer}"
        length, batch, channels = x.type.dims
        rows = reshaped(x, (length * batch, channels), f"{name}_rows")
        inputs = [rows, i2h, i2h_bias]
        count = i2h.type.dims[0]
        dense = make("FullyConnected", f"{name}_dense", inputs, self.value.source, num_hidden=count)
        projected = reshaped(Use(dense), (length, batch, count), f"{name}_projected")
        number = layer * self.directions + side
        begin = [
            reshaped(cut(s, 0, number, 1, f"{name}_s{i}"), (batch, self.hidden), f"{name}_state{i}")
            for i, s in enumerate(self.states)
        ]
        inputs = [projected, h2h, h2h_bias, *begin]
        attrs = {"mode": self.mode, "backward": side == 1}
        steps = make("_rnn_steps", f"{name}_steps", inputs, self.value.source, **attrs)
        final = cut(Use(steps), 0, 0 if side else length - 1, 1, f"{name}_final")
        self.last[0].append(final)
        if self.mode == "lstm":
            self.last[1].append(reshaped(Use(steps, 1), (1, batch, self.hidden), f"{name}_cell"))
        return Use(steps)

    def _joined(self, parts: list[Use], axis: int, what: str) -> Use:
        if len(parts) == 1:
            return parts[0]
        name = f"{self.value.name}:{what}"
        attrs = {"dim": axis, "num_args": len(parts)}
        return Use(make("Concat", name, parts, self.value.source, **attrs))


RECURRENT = (recurrent_layers,)

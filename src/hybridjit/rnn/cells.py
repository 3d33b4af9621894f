"""The symbolic RNNCell, LSTMCell and GRUCell."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import sym
from ..gluon.rnn.gates import Step, gru, lstm, plain
from ..initializer import LSTMBias
from ..sym import Symbol
from .base import BaseRNNCell, RNNParams, States

_TANH = partial(sym.Activation, act_type="tanh")


class _DenseCell(BaseRNNCell):
    """A cell with ``gates`` blocks of ``num_hidden`` rows in each of its four parameters."""

    gates: tuple[str, ...] = ("",)
    kind = staticmethod(plain)

    def __init__(
        self, num_hidden: int, prefix: str, params: RNNParams | None, i2h_bias_init: Any = None
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        self._iW = self.params.get("i2h_weight")
        self._iB = self.params.get("i2h_bias", init=i2h_bias_init)
        self._hW = self.params.get("h2h_weight")
        self._hB = self.params.get("h2h_bias")

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return self.gates

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        self._counter += 1
        step = self._step(f"{self._prefix}t{self._counter}_")
        rows = len(self.gates) * self._num_hidden
        i2h, h2h = (
            sym.FullyConnected(x, weight, bias, num_hidden=rows, name=step.called(name))
            for x, weight, bias, name in (
                (inputs, self._iW, self._iB, "i2h"),
                (states[0], self._hW, self._hB, "h2h"),
            )
        )
        return self.kind(step, i2h, h2h, states)

    def _step(self, prefix: str) -> Step:
        return Step(sym, prefix, _TANH)


class RNNCell(_DenseCell):
    """activation(W x + b + V h + c); the activation is a name or a function of a symbol."""

    def __init__(
        self,
        num_hidden: int,
        activation: Any = "tanh",
        prefix: str = "rnn_",
        params: RNNParams | None = None,
    ) -> None:
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    def _step(self, prefix: str) -> Step:
        named = isinstance(self._activation, str)
        activation = partial(sym.Activation, act_type=self._activation) if named else None
        return Step(sym, prefix, activation or self._activation)


class LSTMCell(_DenseCell):
    """Long short-term memory; states are the hidden one and the cell's."""

    gates = ("_i", "_f", "_c", "_o")
    kind = staticmethod(lstm)

    def __init__(
        self,
        num_hidden: int,
        prefix: str = "lstm_",
        params: RNNParams | None = None,
        forget_bias: float = 1.0,
    ) -> None:
        super().__init__(num_hidden, prefix, params, LSTMBias(forget_bias=forget_bias))

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return super().state_info * 2


class GRUCell(_DenseCell):
    """Gated recurrent unit; the reset gate is applied after the recurrent product."""

    gates = ("_r", "_z", "_o")
    kind = staticmethod(gru)

    def __init__(
        self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None
    ) -> None:
        super().__init__(num_hidden, prefix, params)

    def _step(self, prefix: str) -> Step:
        return _GRUStep(sym, prefix, _TANH)


class _GRUStep(Step):
    """Names with a further underscore before all but the output's."""

    def called(self, name: str) -> str:
        return self.prefix + (name if name == "out" else f"_{name}")

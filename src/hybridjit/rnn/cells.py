"""The symbolic RNNCell, LSTMCell and GRUCell."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from .. import sym
from ..gluon.rnn.gates import StateInfo, Step, gru, lstm, plain
from ..gluon.types import Init
from ..initializer import LSTMBias
from ..sym import Symbol
from .base import BaseRNNCell, RNNParams, States

_TANH = partial(sym.Activation, act_type="tanh")


class GatedCell(BaseRNNCell):
    """A cell with a step of one of Gluon's kinds, and two products with ``gates`` blocks each."""

    gates: tuple[str, ...] = ("",)
    kind = staticmethod(plain)

    def _take_params(self, inits: Mapping[str, object]) -> None:
        """Make the four variables, or look them up; ``inits`` by name."""
        self._iW, self._hW, self._iB, self._hB = (
            self.params.get(name, init=inits.get(name))
            for name in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")
        )

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return self.gates

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        self._counter += 1
        step = self._step(f"{self._prefix}t{self._counter}_")
        i2h = self._product(step, "i2h", inputs, self._iW, self._iB)
        h2h = self._product(step, "h2h", states[0], self._hW, self._hB)
        return self.kind(step, i2h, h2h, states)

    def _step(self, prefix: str) -> Step:
        """To override: the operators of one step."""
        raise NotImplementedError(f"{type(self).__name__} does not define _step")

    def _product(self, step: Step, name: str, x: Symbol, weight: Symbol, bias: Symbol) -> Symbol:
        """To override: the product ``i2h`` or ``h2h``."""
        raise NotImplementedError(f"{type(self).__name__} does not define _product")


class _DenseCell(GatedCell):
    """A cell whose products are dense layers, with ``num_hidden`` rows for each gate."""

    def __init__(
        self, num_hidden: int, prefix: str, params: RNNParams | None, i2h_bias_init: Init = None
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        self._take_params({"i2h_bias": i2h_bias_init})

    @property
    def state_info(self) -> list[StateInfo]:
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _product(self, step: Step, name: str, x: Symbol, weight: Symbol, bias: Symbol) -> Symbol:
        rows = len(self.gates) * self._num_hidden
        return sym.FullyConnected(x, weight, bias, num_hidden=rows, name=step.called(name))

    def _step(self, prefix: str) -> Step:
        return Step(sym, prefix, _TANH)


class RNNCell(_DenseCell):
    """activation(W x + b + V h + c); the activation is a name or a function of a symbol."""

    def __init__(
        self,
        num_hidden: int,
        activation: object = "tanh",
        prefix: str = "rnn_",
        params: RNNParams | None = None,
    ) -> None:
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    def _step(self, prefix: str) -> Step:
        return Step(sym, prefix, activation_of(self._activation))


class LSTMCell(_DenseCell):
    """Long short-term memory; the states are hidden state and cell state."""

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
    def state_info(self) -> list[StateInfo]:
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
        return GRUStep(sym, prefix, _TANH)


def activation_of(activation: object) -> Any:
    """The function of a symbol that an activation name denotes; a function itself."""
    if isinstance(activation, str):
        return partial(sym.Activation, act_type=activation)
    return activation


class GRUStep(Step):
    """Names with an additional underscore, except for the output's."""

    def called(self, name: str) -> str:
        """The name of a node of this step."""
        return self.prefix + (name if name == "out" else f"_{name}")

"""RNNCell, LSTMCell and GRUCell."""

from __future__ import annotations

from functools import partial
from types import ModuleType

from ..parameter import Parameter, ParameterDict
from ..types import Init, Tensor
from .base import GatedCell
from .gates import NamedStep, StateInfo, Step, activation_of, gru, lstm


class _DenseCell(GatedCell):
    """A cell with ``gates`` blocks of ``hidden_size`` rows in each of its parameters."""

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Init = None,
        h2h_weight_initializer: Init = None,
        i2h_bias_initializer: Init = "zeros",
        h2h_bias_initializer: Init = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size = hidden_size
        self._input_size = input_size
        rows = self.gates * hidden_size
        self.i2h_weight = self._param("i2h_weight", (rows, input_size), i2h_weight_initializer)
        self.h2h_weight = self._param("h2h_weight", (rows, hidden_size), h2h_weight_initializer)
        self.i2h_bias = self._param("i2h_bias", (rows,), i2h_bias_initializer)
        self.h2h_bias = self._param("h2h_bias", (rows,), h2h_bias_initializer)

    def _param(self, name: str, shape: tuple[int, ...], init: Init) -> Parameter:
        return self.params.get(name, shape=shape, init=init, allow_deferred_init=True)

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}]

    def __repr__(self) -> str:
        rows, inputs = self.i2h_weight.shape
        return f"{type(self).__name__}({inputs or None} -> {rows}{self._activation_text()})"

    def _activation_text(self) -> str:
        return ""

    def _product(self, step: Step, name: str, x: Tensor, weight: Tensor, bias: Tensor) -> object:
        rows = self.gates * self._hidden_size
        return step.F.FullyConnected(x, weight, bias, num_hidden=rows, name=step.called(name))


class RNNCell(_DenseCell):
    """Plain recurrent cell: ``h = activation(W x + b + V h + c)``.

    ``cell(input, states)`` computes one step and returns the output and the new states;
    ``cell.unroll(length, inputs)`` computes a sequence.

    Parameters
    ----------
    hidden_size : int
        Size of the hidden state.
    activation : str or callable
        Activation function.
    i2h_weight_initializer, h2h_weight_initializer : Initializer or str, optional
        Initializers of the weights of inputs and of states.
    i2h_bias_initializer, h2h_bias_initializer : Initializer or str
        Initializers of the biases.
    input_size : int
        Number of input features. 0: taken from the first input.
    prefix : str, optional
        Prefix of the names of parameters.
    params : ParameterDict, optional
        Parameters to share.

    Examples
    --------
    >>> cell = gluon.rnn.RNNCell(4, input_size=3)
    >>> cell.initialize()
    >>> output, states = cell(nd.ones((2, 3)), cell.begin_state(batch_size=2))
    >>> output.shape
    (2, 4)
    """

    hint = "rnn"

    def __init__(
        self,
        hidden_size: int,
        activation: object = "tanh",
        i2h_weight_initializer: Init = None,
        h2h_weight_initializer: Init = None,
        i2h_bias_initializer: Init = "zeros",
        h2h_bias_initializer: Init = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(
            hidden_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            input_size,
            prefix,
            params,
        )
        self._activation = activation

    def _activation_text(self) -> str:
        return f", {self._activation}"

    def _step(self, F: ModuleType, prefix: str) -> Step:
        return NamedStep(F, prefix, activation_of(F, self._activation))


class LSTMCell(_DenseCell):
    """Long short-term memory cell; the states are the hidden state and the cell state.

    ``cell(input, states)`` computes one step and returns the output and the new states;
    ``cell.unroll(length, inputs)`` computes a sequence.

    Parameters
    ----------
    hidden_size : int
        Size of the hidden state.
    i2h_weight_initializer, h2h_weight_initializer : Initializer or str, optional
        Initializers of the weights of inputs and of states.
    i2h_bias_initializer, h2h_bias_initializer : Initializer or str
        Initializers of the biases.
    input_size : int
        Number of input features. 0: taken from the first input.
    prefix : str, optional
        Prefix of the names of parameters.
    params : ParameterDict, optional
        Parameters to share.
    activation : str or callable
        Activation of the cell state.
    recurrent_activation : str or callable
        Activation of the gates.

    Examples
    --------
    >>> cell = gluon.rnn.LSTMCell(4, input_size=3)
    >>> cell.initialize()
    >>> outputs, states = cell.unroll(5, nd.ones((2, 5, 3)), merge_outputs=True)
    >>> outputs.shape, len(states)
    ((2, 5, 4), 2)
    """

    gates = 4
    hint = "lstm"
    kind = staticmethod(lstm)

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Init = None,
        h2h_weight_initializer: Init = None,
        i2h_bias_initializer: Init = "zeros",
        h2h_bias_initializer: Init = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
        activation: str = "tanh",
        recurrent_activation: object = "sigmoid",
    ) -> None:
        super().__init__(
            hidden_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            input_size,
            prefix,
            params,
        )
        self._activation = activation
        self._recurrent_activation = recurrent_activation

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return super().state_info(batch_size) * 2

    def _step(self, F: ModuleType, prefix: str) -> Step:
        return NamedStep(
            F,
            prefix,
            activation_of(F, self._activation),
            gate=activation_of(F, self._recurrent_activation),
            shown=partial(F.Activation, act_type=self._activation),
        )


class GRUCell(_DenseCell):
    """Gated recurrent unit; the reset gate is applied after the recurrent product.

    ``cell(input, states)`` computes one step and returns the output and the new states;
    ``cell.unroll(length, inputs)`` computes a sequence.

    Parameters
    ----------
    hidden_size : int
        Size of the hidden state.
    i2h_weight_initializer, h2h_weight_initializer : Initializer or str, optional
        Initializers of the weights of inputs and of states.
    i2h_bias_initializer, h2h_bias_initializer : Initializer or str
        Initializers of the biases.
    input_size : int
        Number of input features. 0: taken from the first input.
    prefix : str, optional
        Prefix of the names of parameters.
    params : ParameterDict, optional
        Parameters to share.

    Examples
    --------
    >>> cell = gluon.rnn.GRUCell(4, input_size=3)
    >>> cell.initialize()
    >>> output, states = cell(nd.ones((2, 3)), cell.begin_state(batch_size=2))
    >>> output.shape
    (2, 4)
    """

    gates = 3
    hint = "gru"
    kind = staticmethod(gru)

    def _step(self, F: ModuleType, prefix: str) -> Step:
        return NamedStep(F, prefix, partial(F.Activation, act_type="tanh"))

"""RNNCell, LSTMCell and GRUCell."""

from __future__ import annotations

from typing import Any

from ..parameter import ParameterDict
from .base import HybridRecurrentCell, States, activated


class _GatedCell(HybridRecurrentCell):
    """A cell of ``gates`` blocks of ``hidden_size`` rows in each of its parameters."""

    gates = 1
    hint = ""

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
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

    def _param(self, name: str, shape: tuple[int, ...], init: Any) -> Any:
        return self.params.get(name, shape=shape, init=init, allow_deferred_init=True)

    def _alias(self) -> str:
        return self.hint

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}]

    def __repr__(self) -> str:
        rows, inputs = self.i2h_weight.shape
        return f"{type(self).__name__}({inputs or None} -> {rows}{self._activation_text()})"

    def _activation_text(self) -> str:
        return ""

    def _projected(self, F: Any, x: Any, weight: Any, bias: Any, name: str) -> Any:
        return F.FullyConnected(
            x, weight, bias, num_hidden=self.gates * self._hidden_size, name=name
        )


class RNNCell(_GatedCell):
    """activation(W x + b + V h + c)."""

    hint = "rnn"

    def __init__(
        self,
        hidden_size: int,
        activation: Any = "tanh",
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
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

    def hybrid_forward(  # type: ignore[override]
        self,
        F: Any,
        inputs: Any,
        states: States,
        i2h_weight: Any,
        h2h_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
    ) -> tuple[Any, States]:
        t = f"t{self._counter}_"
        i2h = self._projected(F, inputs, i2h_weight, i2h_bias, t + "i2h")
        h2h = self._projected(F, states[0], h2h_weight, h2h_bias, t + "h2h")
        total = F.elemwise_add(i2h, h2h, name=t + "plus0")
        output = activated(F, total, self._activation, name=t + "out")
        return output, [output]


class LSTMCell(_GatedCell):
    """Long short-term memory; states are the hidden one and the cell's."""

    gates = 4
    hint = "lstm"

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
        activation: str = "tanh",
        recurrent_activation: Any = "sigmoid",
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

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return super().state_info(batch_size) * 2

    def hybrid_forward(  # type: ignore[override]
        self,
        F: Any,
        inputs: Any,
        states: States,
        i2h_weight: Any,
        h2h_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
    ) -> tuple[Any, States]:
        t = f"t{self._counter}_"
        i2h = self._projected(F, inputs, i2h_weight, i2h_bias, t + "i2h")
        h2h = self._projected(F, states[0], h2h_weight, h2h_bias, t + "h2h")
        gates = F.elemwise_add(i2h, h2h, name=t + "plus0")
        gate = F.SliceChannel(gates, num_outputs=4, name=t + "slice")
        take = activated(F, gate[0], self._recurrent_activation, name=t + "i")
        keep = activated(F, gate[1], self._recurrent_activation, name=t + "f")
        new = activated(F, gate[2], self._activation, name=t + "c")
        show = activated(F, gate[3], self._recurrent_activation, name=t + "o")
        cell = F.elemwise_add(
            F.elemwise_mul(keep, states[1], name=t + "mul0"),
            F.elemwise_mul(take, new, name=t + "mul1"),
            name=t + "state",
        )
        shown = F.Activation(cell, act_type=self._activation, name=t + "activation0")
        output = F.elemwise_mul(show, shown, name=t + "out")
        return output, [output, cell]


class GRUCell(_GatedCell):
    """Gated recurrent unit; the reset gate is applied after the recurrent product."""

    gates = 3
    hint = "gru"

    def hybrid_forward(  # type: ignore[override]
        self,
        F: Any,
        inputs: Any,
        states: States,
        i2h_weight: Any,
        h2h_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
    ) -> tuple[Any, States]:
        t = f"t{self._counter}_"
        before = states[0]
        i2h = self._projected(F, inputs, i2h_weight, i2h_bias, t + "i2h")
        h2h = self._projected(F, before, h2h_weight, h2h_bias, t + "h2h")
        i2h = F.SliceChannel(i2h, num_outputs=3, name=t + "i2h_slice")
        h2h = F.SliceChannel(h2h, num_outputs=3, name=t + "h2h_slice")
        total = F.elemwise_add(i2h[0], h2h[0], name=t + "plus0")
        reset = F.Activation(total, act_type="sigmoid", name=t + "r_act")
        total = F.elemwise_add(i2h[1], h2h[1], name=t + "plus1")
        update = F.Activation(total, act_type="sigmoid", name=t + "z_act")
        recurrent = F.elemwise_mul(reset, h2h[2], name=t + "mul0")
        total = F.elemwise_add(i2h[2], recurrent, name=t + "plus2")
        new = F.Activation(total, act_type="tanh", name=t + "h_act")
        rest = F.elemwise_sub(F.ones_like(update, name=t + "ones_like0"), update, name=t + "minus0")
        output = F.elemwise_add(
            F.elemwise_mul(rest, new, name=t + "mul1"),
            F.elemwise_mul(update, before, name=t + "mul20"),
            name=t + "out",
        )
        return output, [output]

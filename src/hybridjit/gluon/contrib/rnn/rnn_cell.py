"""An LSTM cell with a projection, and dropout with one mask for a whole sequence."""

from __future__ import annotations

from functools import partial
from typing import Any

from .... import nd
from ....nd import NDArray
from ...parameter import Parameter, ParameterDict
from ...rnn.base import GatedCell, RecurrentCell
from ...rnn.composed_cells import BidirectionalCell, ModifierCell, SequentialRNNCell
from ...rnn.gates import Dense, States, Step, lstm
from ...rnn.sequences import Steps, is_tensor, masked
from ...rnn.unrolling import Unrolling

__all__ = ["LSTMPCell", "VariationalDropoutCell"]


class VariationalDropoutCell(ModifierCell):
    """Dropout on inputs, the first state and outputs, the same at every step (1512.05287)."""

    def __init__(
        self,
        base_cell: RecurrentCell,
        drop_inputs: float = 0.0,
        drop_states: float = 0.0,
        drop_outputs: float = 0.0,
    ) -> None:
        assert not drop_states or not _is_bidirectional(base_cell), (
            "BidirectionalCell doesn't support variational state dropout. Please add "
            "VariationalDropoutCell to the cells underneath instead."
        )
        super().__init__(base_cell)
        self.drop_inputs = drop_inputs
        self.drop_states = drop_states
        self.drop_outputs = drop_outputs

    def _alias(self) -> str:
        return "vardrop"

    def reset(self) -> None:
        super().reset()
        self._masks: dict[str, Any] = {}

    def __repr__(self) -> str:
        rates = f"p_out = {self.drop_outputs}, p_state = {self.drop_states}"
        return f"{type(self).__name__}({rates})"

    def _dropped(self, F: Any, what: str, rate: float, x: Any) -> Any:
        """``x`` under the mask of this sequence, which is drawn at its first step."""
        if not rate:
            return x
        if what not in self._masks:
            self._masks[what] = F.Dropout(F.ones_like(x), p=rate)
        return x * self._masks[what]

    def hybrid_forward(  # type: ignore[override]
        self, F: Any, inputs: Any, states: States
    ) -> tuple[Any, States]:
        if self.drop_states:
            states = [self._dropped(F, "states", self.drop_states, states[0]), *states[1:]]
        inputs = self._dropped(F, "inputs", self.drop_inputs, inputs)
        output, states = self.base_cell(inputs, states)
        return self._dropped(F, "outputs", self.drop_outputs, output), states

    def _unrolled(self, asked: Unrolling) -> tuple[Any, States]:
        """As every cell's; without dropped states the base cell runs the sequence as a whole."""
        if self.drop_states:
            return super()._unrolled(asked)
        self.reset()
        form = self._formed(asked.length, asked.inputs, asked.layout, True)
        _, axis, F, _ = form
        states = self._first(form, asked.begin_state)
        steps = self._over_time(form, form.steps, self.drop_inputs)
        outputs, states = asked.over(self.base_cell, steps, states, True)
        outputs = self._over_time(form, outputs, self.drop_outputs)
        merge = is_tensor(outputs) if asked.merge_outputs is None else asked.merge_outputs
        outputs = self._formed(asked.length, outputs, asked.layout, merge).steps
        if asked.valid_length is not None:
            outputs = masked(F, outputs, asked.length, asked.valid_length, axis, merge)
        return outputs, states

    def _over_time(self, form: Steps, x: Any, rate: float) -> Any:
        """``x`` with one mask for all steps."""
        return form.F.Dropout(x, p=rate, axes=(form.axis,)) if rate else x


class LSTMPCell(Dense, GatedCell):
    """An LSTM cell whose hidden state is projected to ``projection_size`` (1402.1128)."""

    gates = 4
    hint = "lstmp"
    kind = staticmethod(partial(lstm, output_name="hidden"))
    i2h_weight: Parameter

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        h2r_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size = hidden_size
        self._input_size = input_size
        self._projection_size = projection_size
        self._rows = rows = self.gates * hidden_size
        weights = {
            "i2h_weight": (rows, input_size),
            "h2h_weight": (rows, projection_size),
            "h2r_weight": (projection_size, hidden_size),
        }
        inits = (i2h_weight_initializer, h2h_weight_initializer, h2r_weight_initializer)
        self._add_params(weights, inits)
        biases = {"i2h_bias": (rows,), "h2h_bias": (rows,)}
        self._add_params(biases, (i2h_bias_initializer, h2h_bias_initializer))

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        sizes = (self._projection_size, self._hidden_size)
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in sizes]

    def __repr__(self) -> str:
        rows, inputs = self.i2h_weight.shape
        return f"{type(self).__name__}({inputs or None} -> {rows} -> {self._projection_size})"

    def _step(self, F: Any, prefix: str) -> Step:
        return Step(F, prefix, partial(F.Activation, act_type="tanh"))

    def hybrid_forward(  # type: ignore[override]
        self,
        F: Any,
        inputs: Any,
        states: States,
        i2h_weight: Any,
        h2h_weight: Any,
        h2r_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
    ) -> tuple[Any, States]:
        _, (hidden, cell) = super().hybrid_forward(
            F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias
        )
        size, name = self._projection_size, f"t{self._counter}_out"
        output = F.FullyConnected(hidden, h2r_weight, num_hidden=size, no_bias=True, name=name)
        return output, [output, cell]


def dynamic_unroll(
    cell: RecurrentCell,
    inputs: NDArray,
    begin_state: States,
    drop_inputs: float = 0,
    drop_outputs: float = 0,
    layout: str = "TNC",
    valid_length: NDArray | None = None,
) -> tuple[NDArray, States]:
    """``cell`` over a sequence of any length; eagerly it is what ``unroll`` computes, merged.

    Raises TypeError for symbols: MXNet makes a loop node of them, which does not exist here.
    """
    if not isinstance(inputs, NDArray):
        raise TypeError(f"dynamic_unroll runs on NDArrays only, got {type(inputs)}")
    axis = layout.find("T")
    if drop_inputs:
        inputs = nd.Dropout(inputs, p=drop_inputs, axes=(axis,))
    outputs, states = cell.unroll(
        inputs.shape[axis], inputs, begin_state, layout, True, valid_length
    )
    if drop_outputs:
        outputs = nd.Dropout(outputs, p=drop_outputs, axes=(axis,))
    return outputs, states


def _is_bidirectional(cell: RecurrentCell) -> bool:
    if isinstance(cell, SequentialRNNCell):
        return any(_is_bidirectional(child) for child in cell)
    return isinstance(cell, BidirectionalCell)

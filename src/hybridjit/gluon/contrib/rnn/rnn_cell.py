"""LSTM cell with a projection, and dropout with one mask for a complete sequence."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

from .... import nd, sym
from ....nd import NDArray
from ....sym import Symbol
from ...parameter import Parameter, ParameterDict
from ...rnn.base import HybridRecurrentCell, RecurrentCell, first_states
from ...rnn.composed_cells import BidirectionalCell, ModifierCell, SequentialRNNCell
from ...rnn.gates import StateInfo, States, Step, Steps, lstm
from ...rnn.sequences import formed, masked
from ...types import Init, Tensor

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
        self._masks: dict[str, Tensor] = {}

    def __repr__(self) -> str:
        rates = f"p_out = {self.drop_outputs}, p_state = {self.drop_states}"
        return f"{type(self).__name__}({rates})"

    def _dropped(self, F: ModuleType, what: str, rate: float, x: Tensor) -> NDArray | Symbol:
        """``x`` with the mask of this sequence, which is drawn at its first step."""
        if not rate:
            return x
        if what not in self._masks:
            self._masks[what] = F.Dropout(F.ones_like(x), p=rate)
        return x * self._masks[what]

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, inputs: Tensor, states: States
    ) -> tuple[Tensor, States]:
        if self.drop_states:
            states = [self._dropped(F, "states", self.drop_states, states[0]), *states[1:]]
        inputs = self._dropped(F, "inputs", self.drop_inputs, inputs)
        output, states = self.base_cell(inputs, states)
        return self._dropped(F, "outputs", self.drop_outputs, output), states

    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Tensor | None = None,
    ) -> tuple[Steps, States]:
        """See :meth:`RecurrentCell.unroll`; without dropped states the base cell unrolls itself."""
        if self.drop_states:
            return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        self.reset()
        steps, axis, F, batch = formed(length, inputs, layout, True)
        states = first_states(self, F, begin_state, steps, batch)
        if self.drop_inputs:
            steps = F.Dropout(steps, p=self.drop_inputs, axes=(axis,))
        outputs, states = self.base_cell.unroll(length, steps, states, layout, True, valid_length)
        if self.drop_outputs:
            outputs = F.Dropout(outputs, p=self.drop_outputs, axes=(axis,))
        merge = isinstance(outputs, (NDArray, Symbol)) if merge_outputs is None else merge_outputs
        outputs = formed(length, outputs, layout, merge).steps
        if valid_length is not None:
            outputs = masked(F, outputs, length, valid_length, axis, merge)
        return outputs, states


class LSTMPCell(HybridRecurrentCell):
    """An LSTM cell whose hidden state is projected to ``projection_size`` (1402.1128)."""

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: Init = None,
        h2h_weight_initializer: Init = None,
        h2r_weight_initializer: Init = None,
        i2h_bias_initializer: Init = "zeros",
        h2h_bias_initializer: Init = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size = hidden_size
        self._input_size = input_size
        self._projection_size = projection_size
        rows = 4 * hidden_size
        self.i2h_weight = self._param("i2h_weight", (rows, input_size), i2h_weight_initializer)
        self.h2h_weight = self._param("h2h_weight", (rows, projection_size), h2h_weight_initializer)
        self.h2r_weight = self._param(
            "h2r_weight", (projection_size, hidden_size), h2r_weight_initializer
        )
        self.i2h_bias = self._param("i2h_bias", (rows,), i2h_bias_initializer)
        self.h2h_bias = self._param("h2h_bias", (rows,), h2h_bias_initializer)

    def _param(self, name: str, shape: tuple[int, ...], init: Init) -> Parameter:
        return self.params.get(name, shape=shape, init=init, allow_deferred_init=True)

    def _alias(self) -> str:
        return "lstmp"

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        sizes = (self._projection_size, self._hidden_size)
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in sizes]

    def __repr__(self) -> str:
        rows, inputs = self.i2h_weight.shape
        return f"{type(self).__name__}({inputs or None} -> {rows} -> {self._projection_size})"

    def hybrid_forward(  # type: ignore[override]
        self,
        F: ModuleType,
        inputs: Tensor,
        states: States,
        i2h_weight: Tensor,
        h2h_weight: Tensor,
        h2r_weight: Tensor,
        i2h_bias: Tensor,
        h2h_bias: Tensor,
    ) -> tuple[Tensor, States]:
        t, rows = f"t{self._counter}_", 4 * self._hidden_size
        step = Step(F, t, partial(F.Activation, act_type="tanh"))
        i2h = F.FullyConnected(inputs, i2h_weight, i2h_bias, num_hidden=rows, name=t + "i2h")
        h2h = F.FullyConnected(states[0], h2h_weight, h2h_bias, num_hidden=rows, name=t + "h2h")
        _, (hidden, cell) = lstm(step, i2h, h2h, states, "hidden")
        output = F.FullyConnected(
            hidden, h2r_weight, num_hidden=self._projection_size, no_bias=True, name=t + "out"
        )
        return output, [output, cell]


def dynamic_unroll(
    cell: RecurrentCell,
    inputs: Tensor,
    begin_state: States,
    drop_inputs: float = 0,
    drop_outputs: float = 0,
    layout: str = "TNC",
    valid_length: Tensor | None = None,
) -> tuple[Tensor, States]:
    """Run ``cell`` over a sequence of any length; the same results as ``unroll`` with merging.

    Symbols become a loop whose number of steps depends on the arrays.
    """
    F: ModuleType = nd if isinstance(inputs, NDArray) else sym
    axis = layout.find("T")
    if drop_inputs:
        inputs = F.Dropout(inputs, p=drop_inputs, axes=(axis,))
    outputs: Any
    if isinstance(inputs, NDArray):
        outputs, states = cell.unroll(
            inputs.shape[axis], inputs, begin_state, layout, True, valid_length
        )
    else:
        outputs, states = _looped(cell, inputs, begin_state, axis, valid_length)
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(axis,))
    return outputs, states


def _looped(
    cell: RecurrentCell, inputs: Symbol, begin_state: States, axis: int, valid_length: Tensor | None
) -> tuple[Symbol, States]:
    """A loop over symbols; a sample's states do not change after its last valid step."""
    F: ModuleType = sym

    def step(x: Symbol, held: list[Symbol]) -> tuple[Tensor, States]:
        count, *states = held
        output, after = cell(x, states)
        is_on = F.broadcast_greater(valid_length, count)
        kept = [F.where(is_on, new, old) for new, old in zip(after, states)]
        return output, [count + 1, *kept]

    rows = F.swapaxes(inputs, dim1=0, dim2=axis) if axis else inputs
    if valid_length is None:
        outputs, states = F.contrib.foreach(cell, rows, begin_state)
    else:
        start = [F.zeros((1,)), *begin_state]
        outputs, (_, *states) = F.contrib.foreach(step, rows, start)
        outputs = F.SequenceMask(outputs, valid_length, use_sequence_length=True, axis=0)
    return F.swapaxes(outputs, dim1=0, dim2=axis) if axis else outputs, states


def _is_bidirectional(cell: RecurrentCell) -> bool:
    if isinstance(cell, SequentialRNNCell):
        return any(_is_bidirectional(child) for child in cell)
    return isinstance(cell, BidirectionalCell)

"""Symbolic cells composed of others: sequential, bidirectional, and dropout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import sym
from ..gluon.rnn.gates import StateInfo
from ..gluon.rnn.sequences import split_states
from ..nd import NDArray
from ..sym import Symbol
from .base import BaseRNNCell, RNNParams, States, Steps, Weights, formed


class _Cells(BaseRNNCell):
    """Cells composed of several: their states and weights are concatenated."""

    _cells: list[BaseRNNCell]

    @property
    def state_info(self) -> list[StateInfo]:
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, func: Callable[..., object] = sym.zeros, **kwargs: object) -> States:
        self._require_unmodified()
        return [state for cell in self._cells for state in cell.begin_state(func, **kwargs)]

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return dict(args)

    def pack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        for cell in self._cells:
            args = cell.pack_weights(args)
        return dict(args)

    def _share(self, cell: BaseRNNCell, is_given: bool) -> None:
        """Use the variables of ``cell``, and pass it those that were ``is_given``."""
        if is_given:
            assert cell._own_params, (
                f"Either specify params for {type(self).__name__} or child cells, not both."
            )
            cell.params._params.update(self.params._params)
        self.params._params.update(cell.params._params)


class SequentialRNNCell(_Cells):
    """A sequence of cells: the output of one is the input of the next."""

    def __init__(self, params: RNNParams | None = None) -> None:
        self._cells = []
        super().__init__(prefix="", params=params)
        self._override_cell_params = params is not None

    def add(self, cell: BaseRNNCell) -> None:
        """Append a cell."""
        self._cells.append(cell)
        self._share(cell, self._override_cell_params)

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        self._counter += 1
        after = []
        for cell, own in zip(self._cells, split_states(states, self._counts())):
            assert not isinstance(cell, BidirectionalCell), (
                "a BidirectionalCell cannot be stepped: use unroll"
            )
            inputs, states_of_cell = cell(inputs, own)
            after += states_of_cell
        return inputs, after

    def _counts(self) -> list[int]:
        """The number of states of each cell."""
        return [len(cell.state_info) for cell in self._cells]

    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Steps, States]:
        """Unroll each cell over the complete sequence before the next cell."""
        self.reset()
        states = self.begin_state() if begin_state is None else begin_state
        after = []
        for i, (cell, own) in enumerate(zip(self._cells, split_states(states, self._counts()))):
            merge = merge_outputs if i == len(self._cells) - 1 else None
            inputs, states_of_cell = cell.unroll(length, inputs, own, layout, merge)
            after += states_of_cell
        return inputs, after


class BidirectionalCell(_Cells):
    """One cell forwards, one backwards, with concatenated outputs; it can only be unrolled."""

    def __init__(
        self,
        l_cell: BaseRNNCell,
        r_cell: BaseRNNCell,
        params: RNNParams | None = None,
        output_prefix: str = "bi_",
    ) -> None:
        self._cells = [l_cell, r_cell]
        super().__init__(prefix="", params=params)
        self._output_prefix = output_prefix
        for cell in self._cells:
            self._share(cell, params is not None)

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """Raise NotImplementedError: the backward cell needs the complete sequence."""
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Steps, States]:
        """See :meth:`BaseRNNCell.unroll`; the states are a list for each of the two cells."""
        self.reset()
        steps = formed(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        left, right = self._cells
        count = len(left.state_info)
        forward, left_states = left.unroll(length, steps, states[:count], layout, merge_outputs)
        backward, right_states = right.unroll(
            length, list(reversed(steps)), states[count:], layout, merge_outputs
        )
        merge = merge_outputs
        if merge is None:
            merge = isinstance(forward, Symbol) and isinstance(backward, Symbol)
        forward = formed(length, forward, layout, merge)
        backward = formed(length, backward, layout, merge)
        return self._joined(forward, backward, layout, merge), [left_states, right_states]

    def _joined(self, forward: Any, backward: Any, layout: str, merge: bool) -> Steps:
        if merge:
            turned = sym.reverse(backward, axis=layout.find("T"))
            return sym.Concat(forward, turned, dim=2, name=f"{self._output_prefix}out")
        return [
            sym.Concat(left, right, dim=1, name=f"{self._output_prefix}t{i}")
            for i, (left, right) in enumerate(zip(forward, reversed(backward)))
        ]


class DropoutCell(BaseRNNCell):
    """Dropout on the inputs, without states."""

    def __init__(
        self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None
    ) -> None:
        super().__init__(prefix, params)
        assert isinstance(dropout, (int, float)), "dropout probability must be a number"
        self.dropout = dropout

    @property
    def state_info(self) -> list[StateInfo]:
        return []

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        return (sym.Dropout(inputs, p=self.dropout) if self.dropout > 0 else inputs), states

    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Steps, States]:
        self.reset()
        inputs = formed(length, inputs, layout, merge_outputs)
        if isinstance(inputs, Symbol):
            return self(inputs, [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)

"""Symbolic cells that others are made of: in a row, in both directions, and dropout between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import sym
from ..gluon.rnn.gates import States
from ..gluon.rnn.sequences import is_tensor
from ..gluon.rnn.unrolling import BothWays, Dropping, Row, Several, Unrolling
from ..nd import NDArray
from ..sym import Symbol
from .base import BaseRNNCell, RNNParams, Weights, formed


class _Cells(Several, BaseRNNCell):
    """What cells made of several do with states and weights: one after the other."""

    _cells: list[BaseRNNCell]

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return self._joined_infos()

    def begin_state(self, func: Callable[..., Any] = sym.zeros, **kwargs: Any) -> States:
        return self._joined_states(func, **kwargs)

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return dict(args)

    def pack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        for cell in self._cells:
            args = cell.pack_weights(args)
        return dict(args)

    def _share(self, cell: BaseRNNCell, is_given: bool) -> None:
        """Hold the variables of ``cell``, and let it hold those that were ``is_given``."""
        if is_given:
            assert cell._own_params, (
                f"Either specify params for {type(self).__name__} or child cells, not both."
            )
            cell.params._params.update(self.params._params)
        self.params._params.update(cell.params._params)


class SequentialRNNCell(Row, _Cells):
    """Cells in a row: each takes the output of the one before."""

    def __init__(self, params: RNNParams | None = None) -> None:
        self._cells = []
        super().__init__(prefix="", params=params)
        self._override_cell_params = params is not None

    def add(self, cell: BaseRNNCell) -> None:
        """Append a cell."""
        self._cells.append(cell)
        self._share(cell, self._override_cell_params)

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        return self._stepped(inputs, states)


class BidirectionalCell(BothWays, _Cells):
    """One cell forwards, one backwards, their outputs joined; it can only be unrolled."""

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

    def _unrolled(self, asked: Unrolling) -> tuple[Any, States]:
        """As every cell's; the states are those of the two cells, each in a list of its own."""
        length, layout, merge = asked.length, asked.layout, asked.merge_outputs
        _, (forward, left_states), (backward, right_states) = self._both(asked, merge)
        if merge is None:
            merge = is_tensor(forward) and is_tensor(backward)
        forward = formed(length, forward, layout, merge).steps
        backward = formed(length, backward, layout, merge).steps
        return self._joined(forward, backward, layout, merge), [left_states, right_states]

    def _joined(self, forward: Any, backward: Any, layout: str, merge: bool) -> Any:
        if merge:
            turned = sym.reverse(backward, axis=layout.find("T"))
            return sym.Concat(forward, turned, dim=2, name=f"{self._output_prefix}out")
        return [
            sym.Concat(left, right, dim=1, name=f"{self._output_prefix}t{i}")
            for i, (left, right) in enumerate(zip(forward, reversed(backward)))
        ]


class DropoutCell(Dropping, BaseRNNCell):
    """Dropout on the inputs; no states."""

    def __init__(
        self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None
    ) -> None:
        super().__init__(prefix, params)
        assert isinstance(dropout, (int, float)), "dropout probability must be a number"
        self.dropout = dropout

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return []

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        return (sym.Dropout(inputs, p=self.dropout) if self.dropout > 0 else inputs), states

    def _dropped(self, F: Any, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        return self(inputs, [])

"""Symbolic cells that wrap another cell: zoneout, and a residual connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import sym
from ..gluon.rnn.gates import StateInfo
from ..gluon.rnn.sequences import unmodified
from ..nd import NDArray
from ..sym import Symbol
from .base import BaseRNNCell, RNNParams, States, Steps, Weights, formed
from .composed_cells import BidirectionalCell, SequentialRNNCell
from .fused_cell import FusedRNNCell


class ModifierCell(BaseRNNCell):
    """A wrapper of ``base_cell``, which must not be called directly afterwards."""

    def __init__(self, base_cell: BaseRNNCell) -> None:
        super().__init__()
        base_cell._modified = True
        self.base_cell = base_cell

    @property
    def params(self) -> RNNParams:
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> list[StateInfo]:
        return self.base_cell.state_info

    def begin_state(self, func: Callable[..., object] = sym.zeros, **kwargs: object) -> States:
        self._require_unmodified()
        with unmodified(self.base_cell):
            return self.base_cell.begin_state(func, **kwargs)

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """While training, outputs and states keep their previous values at random (1606.01305)."""

    def __init__(
        self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0
    ) -> None:
        assert not isinstance(base_cell, FusedRNNCell), (
            "FusedRNNCell doesn't support zoneout. Please unfuse first."
        )
        assert not _is_bidirectional(base_cell), (
            "BidirectionalCell doesn't support zoneout since it doesn't support step. Please add "
            "ZoneoutCell to the cells underneath instead."
        )
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states

    def reset(self) -> None:
        super().reset()
        self.prev_output: Symbol | None = None

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        output, after = self.base_cell(inputs, states)
        if self.zoneout_outputs:
            previous = sym.zeros((0, 0)) if self.prev_output is None else self.prev_output
            output = _mixed(self.zoneout_outputs, output, previous)
        if self.zoneout_states:
            after = [_mixed(self.zoneout_states, n, o) for n, o in zip(after, states)]
        self.prev_output = output
        return output, after


def _mixed(rate: float, new: Symbol, old: Symbol) -> Symbol:
    return sym.where(sym.Dropout(sym.ones_like(new), p=rate), new, old)


class ResidualCell(ModifierCell):
    """The base cell's output plus its input."""

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        output, states = self.base_cell(inputs, states)
        return _plus_residual(output, inputs), states

    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Steps, States]:
        self.reset()
        outputs: Any
        with unmodified(self.base_cell):
            outputs, states = self.base_cell.unroll(
                length, inputs, begin_state, layout, merge_outputs
            )
        merge = isinstance(outputs, Symbol) if merge_outputs is None else merge_outputs
        steps = formed(length, inputs, layout, merge)
        if merge:
            return _plus_residual(outputs, steps), states
        return [_plus_residual(output, step) for output, step in zip(outputs, steps)], states


def _plus_residual(output: Symbol, inputs: Symbol) -> Symbol:
    return sym.elemwise_add(output, inputs, name=f"{output.name}_plus_residual")


def _is_bidirectional(cell: BaseRNNCell) -> bool:
    if isinstance(cell, SequentialRNNCell):
        return any(_is_bidirectional(child) for child in cell._cells)
    return isinstance(cell, BidirectionalCell)

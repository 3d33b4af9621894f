"""Cells made of cells: in a row, in both directions, or with something added to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ... import nd
from ..parameter import ParameterDict
from .base import HybridRecurrentCell, RecurrentCell
from .gates import States
from .sequences import formed, is_tensor, masked, reverse
from .unrolling import Around, BothWays, Dropping, Residual, Row, Several, Unrolling, zoned_out


class _Several(Several, RecurrentCell):
    """The states of a block of cells."""

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return self._joined_infos(batch_size)

    def begin_state(self, batch_size: int = 0, *args: Any, **kwargs: Any) -> States:
        return self._joined_states(batch_size, *args, **kwargs)


class _Row(Row, _Several):
    """What both sequential cells are as containers."""

    def add(self, cell: RecurrentCell) -> None:
        """Append a cell."""
        self.register_child(cell)

    def __len__(self) -> int:
        return len(self._children)

    def __getitem__(self, index: int) -> Any:
        return list(self._children.values())[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._children.values())

    def __repr__(self) -> str:
        rows = "\n".join(f"({i}): {cell!r}" for i, cell in enumerate(self))
        return f"{type(self).__name__}(\n{rows}\n)"


class SequentialRNNCell(_Row):
    """Cells of any kind in a row."""

    def forward(self, inputs: Any, states: States) -> Any:
        return self._stepped(inputs, states)


class HybridSequentialRNNCell(_Row, HybridRecurrentCell):
    """Hybrid cells in a row."""

    def __call__(self, inputs: Any, states: States) -> Any:
        return self._stepped(inputs, states)

    def hybrid_forward(self, F: Any, inputs: Any, states: States) -> Any:  # type: ignore[override]
        return self._stepped(inputs, states)


class DropoutCell(Dropping, HybridRecurrentCell):
    """Dropout on the inputs; no states."""

    def __init__(
        self,
        rate: float,
        axes: tuple[int, ...] = (),
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        assert isinstance(rate, (int, float)), f"rate must be a number, got {rate!r}"
        self._rate = rate
        self._axes = axes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"

    def _alias(self) -> str:
        return "dropout"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return []

    def hybrid_forward(self, F: Any, inputs: Any, states: States) -> Any:  # type: ignore[override]
        if self._rate > 0:
            name = f"t{self._counter}_fwd"
            inputs = F.Dropout(inputs, p=self._rate, axes=self._axes, name=name)
        return inputs, states

    _dropped = hybrid_forward


class ModifierCell(Around, HybridRecurrentCell):
    """A cell around ``base_cell``, which must not be called by itself any more."""

    def __init__(self, base_cell: RecurrentCell) -> None:
        assert not base_cell._modified, (
            f"Cell {base_cell.name} is already modified. One cell cannot be modified twice"
        )
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    @property
    def params(self) -> ParameterDict:
        return self.base_cell.params

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return self.base_cell.state_info(batch_size)

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = nd.zeros, **kwargs: Any
    ) -> States:
        return self._states_inside(batch_size, func=func, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell!r})"


class ZoneoutCell(ModifierCell):
    """While training, outputs and states keep their previous values at random (1606.01305)."""

    def __init__(
        self, base_cell: RecurrentCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0
    ) -> None:
        assert not isinstance(base_cell, BidirectionalCell), (
            "BidirectionalCell doesn't support zoneout since it doesn't support step. Please add "
            "ZoneoutCell to the cells underneath instead."
        )
        super().__init__(base_cell)
        self._zoneout_outputs = zoneout_outputs
        self._zoneout_states = zoneout_states

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(p_out={self._zoneout_outputs}, "
            f"p_state={self._zoneout_states}, {self.base_cell!r})"
        )

    def _alias(self) -> str:
        return "zoneout"

    def reset(self) -> None:
        super().reset()
        self._prev_output: Any = None

    def hybrid_forward(self, F: Any, inputs: Any, states: States) -> Any:  # type: ignore[override]
        p_output, p_state = self._zoneout_outputs, self._zoneout_states
        output, after = self.base_cell(inputs, states)
        previous = self._prev_output
        if type(previous) is not type(output):  # none yet, or one of a trace
            previous = F.zeros_like(output)
        output = zoned_out(F, p_output, output, previous) if p_output else output
        if p_state:
            after = [zoned_out(F, p_state, new, old) for new, old in zip(after, states)]
        self._prev_output = output
        return output, after


class ResidualCell(Residual, ModifierCell):
    """The base cell's output plus its input."""

    def hybrid_forward(self, F: Any, inputs: Any, states: States) -> Any:  # type: ignore[override]
        output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=f"t{self._counter}_fwd"), states

    def _sum(self, F: Any, output: Any, inputs: Any) -> Any:
        return F.elemwise_add(output, inputs)


class BidirectionalCell(BothWays, _Several, HybridRecurrentCell):
    """One cell forwards, one backwards, their outputs joined; it can only be unrolled."""

    def __init__(
        self, l_cell: RecurrentCell, r_cell: RecurrentCell, output_prefix: str = "bi_"
    ) -> None:
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __repr__(self) -> str:
        left, right = self._children.values()
        return f"{type(self).__name__}(forward={left!r}, backward={right!r})"

    def _unrolled(self, asked: Unrolling) -> tuple[Any, States]:
        form, (forward, left_states), (turned, right_states) = self._both(asked, False)
        backward = reverse(turned, asked.length, asked.valid_length)
        merge = is_tensor(forward) if asked.merge_outputs is None else asked.merge_outputs
        outputs = self._joined(form.F, forward, backward, asked.layout, merge)
        if asked.valid_length is not None:
            outputs = masked(form.F, outputs, asked.length, asked.valid_length, form.axis, merge)
        return outputs, left_states + right_states

    def _joined(self, F: Any, forward: Any, backward: Any, layout: str, merge: bool) -> Any:
        forward = formed(None, forward, layout, merge).steps
        backward = formed(None, backward, layout, merge).steps
        if merge:
            return F.concat(forward, backward, dim=2, name=f"{self._output_prefix}out")
        return [
            F.concat(left, right, dim=1, name=f"{self._output_prefix}t{i}")
            for i, (left, right) in enumerate(zip(forward, backward))
        ]

"""Cells composed of other cells: sequential, bidirectional, or modified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from ... import nd
from ...nd import NDArray
from ...sym import Symbol
from ..parameter import ParameterDict
from ..types import Tensor
from .base import HybridRecurrentCell, RecurrentCell, first_states
from .gates import StateInfo, States, Steps
from .sequences import formed, masked, reverse, split_states, unmodified


def cells_state_info(cells: Iterable[RecurrentCell], batch_size: int) -> list[StateInfo]:
    """Descriptions of the states of all cells."""
    return [info for cell in cells for info in cell.state_info(batch_size)]


def cells_begin_state(
    cells: Iterable[RecurrentCell], batch_size: int = 0, *args: Any, **kwargs: Any
) -> States:
    """Initial states of all cells."""
    return [state for cell in cells for state in cell.begin_state(batch_size, *args, **kwargs)]


class _Row(RecurrentCell):
    """Base of both sequential cells: each cell receives the output of the previous one."""

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

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return cells_state_info(self, batch_size)

    def begin_state(self, batch_size: int = 0, *args: object, **kwargs: object) -> States:
        self._require_unmodified()
        return cells_begin_state(self, batch_size, *args, **kwargs)

    def _step(self, inputs: Tensor, states: States) -> tuple[Tensor, States]:
        self._counter += 1
        after = []
        for cell, own in zip(self, split_states(states, self._counts())):
            assert not isinstance(cell, BidirectionalCell), (
                "a BidirectionalCell cannot be stepped: use unroll"
            )
            inputs, states_of_cell = cell(inputs, own)
            after += states_of_cell
        return inputs, after

    def _counts(self) -> list[int]:
        """The number of states of each cell."""
        return [len(cell.state_info()) for cell in self]

    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Tensor | None = None,
    ) -> tuple[Steps, States]:
        """Unroll each cell over the complete sequence before the next cell."""
        self.reset()
        form = formed(length, inputs, layout, None)
        states = first_states(self, form.F, begin_state, inputs, form.batch)
        after = []
        for i, (cell, own) in enumerate(zip(self, split_states(states, self._counts()))):
            merge = merge_outputs if i == len(self) - 1 else None
            inputs, states_of_cell = cell.unroll(length, inputs, own, layout, merge, valid_length)
            after += states_of_cell
        return inputs, after


class SequentialRNNCell(_Row):
    """A chain of cells: each receives the output of the previous one. ``add`` appends a cell.

    Parameters
    ----------
    prefix : str, optional
        Prefix of the names of parameters.
    params : ParameterDict, optional
        Parameters to share.

    Examples
    --------
    >>> cell = gluon.rnn.SequentialRNNCell()
    >>> cell.add(gluon.rnn.LSTMCell(4, input_size=3))
    >>> cell.add(gluon.rnn.GRUCell(5, input_size=4))
    >>> cell.initialize()
    >>> output, states = cell(nd.ones((2, 3)), cell.begin_state(batch_size=2))
    >>> output.shape, len(states)
    ((2, 5), 3)
    """

    def forward(self, inputs: Tensor, states: States) -> tuple[Tensor, States]:
        return self._step(inputs, states)


class HybridSequentialRNNCell(_Row, HybridRecurrentCell):
    """A sequence of hybrid cells."""

    def __call__(self, inputs: Tensor, states: States) -> tuple[Tensor, States]:
        return self._step(inputs, states)

    def hybrid_forward(
        self, F: ModuleType, inputs: Tensor, states: States
    ) -> tuple[Tensor, States]:  # type: ignore[override]
        return self._step(inputs, states)


class DropoutCell(HybridRecurrentCell):
    """Dropout on the inputs; the cell has no states.

    Parameters
    ----------
    rate : float
        Probability of 0 in training.
    axes : tuple of int
        Axes along which all elements share one draw.
    prefix : str, optional
        Prefix of the names of parameters.
    params : ParameterDict, optional
        Parameters to share.

    Raises
    ------
    AssertionError
        If ``rate`` is not a number.

    Examples
    --------
    >>> gluon.rnn.DropoutCell(0.5)(nd.ones((1, 2)), [])[0].asnumpy()
    array([[1., 1.]], dtype=float32)
    """

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

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return []

    def hybrid_forward(
        self, F: ModuleType, inputs: Tensor, states: States
    ) -> tuple[Tensor, States]:  # type: ignore[override]
        if self._rate > 0:
            name = f"t{self._counter}_fwd"
            inputs = F.Dropout(inputs, p=self._rate, axes=self._axes, name=name)
        return inputs, states

    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Tensor | None = None,
    ) -> tuple[Steps, States]:
        self.reset()
        form = formed(length, inputs, layout, merge_outputs)
        if isinstance(form.steps, (NDArray, Symbol)):
            return self.hybrid_forward(form.F, form.steps, begin_state or [])
        return super().unroll(
            length, form.steps, begin_state, layout, merge_outputs, valid_length=None
        )


class ModifierCell(HybridRecurrentCell):
    """A wrapper of ``base_cell``, which must not be called directly afterwards."""

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

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return self.base_cell.state_info(batch_size)

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Tensor] = nd.zeros, **kwargs: object
    ) -> States:
        self._require_unmodified()
        with unmodified(self.base_cell):
            return self.base_cell.begin_state(batch_size, func=func, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell!r})"


class ZoneoutCell(ModifierCell):
    """In training, outputs and states keep their previous values at random (arXiv 1606.01305).

    Parameters
    ----------
    base_cell : RecurrentCell
        The cell; it must not be called directly afterwards.
    zoneout_outputs : float
        Probability for each element of the output.
    zoneout_states : float
        Probability for each element of the states.

    Raises
    ------
    AssertionError
        For a BidirectionalCell, which has no single steps.

    Examples
    --------
    >>> cell = gluon.rnn.ZoneoutCell(gluon.rnn.RNNCell(4, input_size=3), zoneout_states=0.1)
    >>> cell.initialize()
    >>> cell(nd.ones((2, 3)), cell.begin_state(batch_size=2))[0].shape
    (2, 4)
    """

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
        self._prev_output: Tensor | None = None

    def hybrid_forward(
        self, F: ModuleType, inputs: Tensor, states: States
    ) -> tuple[Tensor, States]:  # type: ignore[override]
        p_output, p_state = self._zoneout_outputs, self._zoneout_states
        output, after = self.base_cell(inputs, states)

        def mixed(p: float, new: Tensor, old: Tensor | None) -> Tensor:
            return F.where(F.Dropout(F.ones_like(new), p=p), new, old)

        previous = self._prev_output
        if type(previous) is not type(output):  # None, or a symbol of a trace
            previous = F.zeros_like(output)
        output = mixed(p_output, output, previous) if p_output else output
        if p_state:
            after = [mixed(p_state, new, old) for new, old in zip(after, states)]
        self._prev_output = output
        return output, after


class ResidualCell(ModifierCell):
    """The output of a cell plus its input.

    Parameters
    ----------
    base_cell : RecurrentCell
        The cell; it must not be called directly afterwards.

    Examples
    --------
    >>> cell = gluon.rnn.ResidualCell(gluon.rnn.RNNCell(3, input_size=3))
    >>> cell.initialize()
    >>> cell(nd.ones((2, 3)), cell.begin_state(batch_size=2))[0].shape
    (2, 3)
    """

    def hybrid_forward(
        self, F: ModuleType, inputs: Tensor, states: States
    ) -> tuple[Tensor, States]:  # type: ignore[override]
        output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=f"t{self._counter}_fwd"), states

    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Tensor | None = None,
    ) -> tuple[Steps, States]:
        self.reset()
        with unmodified(self.base_cell):
            outputs, states = self.base_cell.unroll(
                length, inputs, begin_state, layout, merge_outputs, valid_length
            )
        merge = isinstance(outputs, (NDArray, Symbol)) if merge_outputs is None else merge_outputs
        steps, axis, F, _ = formed(length, inputs, layout, merge)
        if valid_length is not None:
            steps = masked(F, steps, length, valid_length, axis, merge)
        if merge:
            return F.elemwise_add(outputs, steps), states
        return [F.elemwise_add(output, step) for output, step in zip(outputs, steps)], states


class BidirectionalCell(HybridRecurrentCell):
    """Two cells that read a sequence in both directions; outputs are concatenated. ``unroll`` only.

    Parameters
    ----------
    l_cell : RecurrentCell
        The cell that reads forward.
    r_cell : RecurrentCell
        The cell that reads backward.
    output_prefix : str
        Prefix of the names of outputs.

    Examples
    --------
    >>> cell = gluon.rnn.BidirectionalCell(
    ...     gluon.rnn.RNNCell(4, input_size=3), gluon.rnn.RNNCell(4, input_size=3)
    ... )
    >>> cell.initialize()
    >>> outputs, states = cell.unroll(5, nd.ones((2, 5, 3)), merge_outputs=True)
    >>> outputs.shape
    (2, 5, 8)
    """

    def __init__(
        self, l_cell: RecurrentCell, r_cell: RecurrentCell, output_prefix: str = "bi_"
    ) -> None:
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, inputs: Tensor, states: States) -> tuple[Tensor, States]:
        """Raise NotImplementedError: the backward cell needs the complete sequence."""
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def __repr__(self) -> str:
        left, right = self._children.values()
        return f"{type(self).__name__}(forward={left!r}, backward={right!r})"

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return cells_state_info(self._cells(), batch_size)

    def begin_state(self, batch_size: int = 0, *args: object, **kwargs: object) -> States:
        self._require_unmodified()
        return cells_begin_state(self._cells(), batch_size, *args, **kwargs)

    def _cells(self) -> list[Any]:
        return list(self._children.values())

    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Tensor | None = None,
    ) -> tuple[Steps, States]:
        self.reset()
        steps, axis, F, batch = formed(length, inputs, layout, False)
        turned = reverse(steps, length, valid_length)
        states = first_states(self, F, begin_state, steps, batch)
        left, right = self._cells()
        count = len(left.state_info(batch))
        forward, left_states = left.unroll(
            length, steps, states[:count], layout, merge_outputs, valid_length
        )
        backward, right_states = right.unroll(
            length, turned, states[count:], layout, False, valid_length
        )
        backward = reverse(backward, length, valid_length)
        merge = isinstance(forward, (NDArray, Symbol)) if merge_outputs is None else merge_outputs
        outputs = self._joined(F, forward, backward, layout, merge)
        if valid_length is not None:
            outputs = masked(F, outputs, length, valid_length, axis, merge)
        return outputs, left_states + right_states

    def _joined(
        self, F: ModuleType, forward: Steps, backward: Steps, layout: str, merge: bool
    ) -> Steps:
        forward = formed(None, forward, layout, merge).steps
        backward = formed(None, backward, layout, merge).steps
        if merge:
            return F.concat(forward, backward, dim=2, name=f"{self._output_prefix}out")
        return [
            F.concat(left, right, dim=1, name=f"{self._output_prefix}t{i}")
            for i, (left, right) in enumerate(zip(forward, backward))
        ]

"""Base of all recurrent cells: states, step counting, and unrolling over a sequence."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ... import nd
from ..._core.async_safety import restoring
from ..._core.frames import public
from ...context import STACK as CONTEXTS
from ..block import Block
from ..hybrid_block import HybridBlock
from ..parameter import ParameterDict
from ..structure import Nested
from ..types import Tensor
from .gates import StateInfo, States, Step, Steps, activated, initial_state, plain
from .sequences import formed, last_states, masked


class RecurrentCell(Block):
    """One step: ``output, states = cell(inputs, states)``."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Restart the count of steps; required before use with another sequence."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._children.values():
            if isinstance(cell, RecurrentCell):
                cell.reset()

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        """To override: shape and layout of each state."""
        raise NotImplementedError(f"{type(self).__name__} does not define state_info")

    @public
    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Tensor] = nd.zeros, **kwargs: object
    ) -> States:
        """The initial states, made by ``func(name=..., shape=..., **kwargs)``."""
        self._require_unmodified()
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            name = f"{self._prefix}begin_state_{self._init_counter}"
            states.append(initial_state(func, name, {**info, **kwargs}, batch_size))
        return states

    def _require_unmodified(self) -> None:
        assert not self._modified, (
            "After applying modifier cells (e.g. ZoneoutCell) the base cell cannot be called "
            "directly. Call the modifier cell instead."
        )

    @public
    def unroll(
        self,
        length: int,
        inputs: Steps,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Tensor | None = None,
    ) -> tuple[Steps, States]:
        """Run ``length`` steps over ``inputs`` (a tensor in ``layout``, or a list of steps).

        Returns the outputs (a tensor if ``merge_outputs``) and the last states. With
        ``valid_length``, one number per sample, later outputs are zeros and the states are those
        after the last valid step.
        """
        self.reset()
        steps, axis, F, batch = formed(length, inputs, layout, False)
        states = first_states(self, F, begin_state, steps, batch)
        outputs: Any = []
        history = []
        for step in steps[:length]:
            output, states = self(step, states)
            outputs.append(output)
            history.append(states)
        if valid_length is not None:
            states = last_states(F, history, valid_length)
            outputs = masked(F, outputs, length, valid_length, axis, True)
        return formed(length, outputs, layout, merge_outputs).steps, states

    def forward(self, inputs: Tensor, states: States) -> Nested:  # type: ignore[override]
        self._counter += 1
        return super().forward(inputs, states)

    def _get_activation(
        self, F: ModuleType, inputs: Tensor, activation: object, **kwargs: object
    ) -> Any:
        """For subclasses: apply the activation, a name or a function."""
        return activated(F, inputs, activation, **kwargs)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """A recurrent cell that can be hybridized."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)


class GatedCell(HybridRecurrentCell):
    """A cell with a step of one of the kinds of :mod:`.gates`, and two products."""

    gates = 1
    hint = ""
    kind = staticmethod(plain)

    def hybrid_forward(  # type: ignore[override]
        self,
        F: ModuleType,
        inputs: Tensor,
        states: States,
        i2h_weight: Tensor,
        h2h_weight: Tensor,
        i2h_bias: Tensor,
        h2h_bias: Tensor,
    ) -> tuple[Tensor, States]:
        step = self._step(F, f"t{self._counter}_")
        i2h = self._product(step, "i2h", inputs, i2h_weight, i2h_bias)
        h2h = self._product(step, "h2h", states[0], h2h_weight, h2h_bias)
        return self.kind(step, i2h, h2h, states)

    def _step(self, F: ModuleType, prefix: str) -> Step:
        """To override: the operators of one step."""
        raise NotImplementedError(f"{type(self).__name__} does not define _step")

    def _product(self, step: Step, name: str, x: Tensor, weight: Tensor, bias: Tensor) -> Any:
        """To override: the product ``i2h`` or ``h2h``."""
        raise NotImplementedError(f"{type(self).__name__} does not define _product")

    def _alias(self) -> str:
        return self.hint


@restoring(CONTEXTS)
def first_states(
    cell: RecurrentCell, F: ModuleType, begin_state: States | None, steps: Steps, batch: int
) -> States:
    """The given states, or the cell's initial states on the inputs' context."""
    if begin_state is not None:
        return begin_state
    if F is nd:
        first = steps[0] if isinstance(steps, (list, tuple)) else steps
        with first.context:
            return cell.begin_state(func=F.zeros, batch_size=batch)
    return cell.begin_state(func=F.zeros, batch_size=batch)

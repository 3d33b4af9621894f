"""What Gluon's recurrent cells share: states, step counting, and unrolling over a sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import nd
from ...context import STACK as CONTEXTS
from ...unwinding import restoring
from ..block import Block
from ..hybrid_block import HybridBlock
from ..parameter import ParameterDict
from .gates import Gated, States, activated
from .sequences import Steps, formed
from .unrolling import Cell, Unrolling


class RecurrentCell(Cell, Block):
    """One step: ``output, states = cell(inputs, states)``."""

    modifier = "ZoneoutCell"
    _formed = staticmethod(formed)

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    @property
    def _cells(self) -> Sequence[Any]:  # type: ignore[override]
        return [cell for cell in self._children.values() if isinstance(cell, RecurrentCell)]

    def _infos(self, batch: int = 0) -> list[dict[str, Any]]:
        return self.state_info(batch)

    @restoring(CONTEXTS)
    def _initial(self, form: Steps) -> States:
        """On the context of the steps."""
        if form.F is nd:
            first = form.steps[0] if isinstance(form.steps, (list, tuple)) else form.steps
            with first.context:
                return self.begin_state(func=nd.zeros, batch_size=form.batch)
        return self.begin_state(func=form.F.zeros, batch_size=form.batch)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """To override: shape and layout of each state."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its states are")

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = nd.zeros, **kwargs: Any
    ) -> States:
        """The initial states, made by ``func(name=..., shape=..., **kwargs)``."""
        return self._begun(func, [{**info, **kwargs} for info in self.state_info(batch_size)])

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, States]:
        """Run ``length`` steps over ``inputs`` (a tensor in ``layout``, or a list of steps).

        Returns the outputs (a tensor when ``merge_outputs``) and the last states. With
        ``valid_length``, one number per sample, later outputs are zeros and the states are those
        after the last valid step.
        """
        return self._unrolled(
            Unrolling(length, inputs, begin_state, layout, merge_outputs, (valid_length,))
        )

    def forward(self, inputs: Any, states: States) -> Any:  # type: ignore[override]
        self._counter += 1
        return super().forward(inputs, states)

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        """For cells that derive from this one: the activation, a name or a function."""
        return activated(F, inputs, activation, **kwargs)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """A recurrent cell that can be hybridized."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)


class GatedCell(Gated, HybridRecurrentCell):
    """A cell whose step is one of :mod:`.gates`' kinds, in ``gates`` blocks."""

    gates = 1
    hint = ""

    def _add_params(self, shapes: Mapping[str, tuple[int, ...]], inits: Sequence[Any]) -> None:
        """A parameter of this cell for each name, with its own initialiser."""
        for (name, shape), init in zip(shapes.items(), inits):
            param = self.params.get(name, shape=shape, init=init, allow_deferred_init=True)
            setattr(self, name, param)

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
        step = self._step(F, f"t{self._counter}_")
        weights, biases = (i2h_weight, h2h_weight), (i2h_bias, h2h_bias)
        return self._computed(step, inputs, states, weights, biases)

    def _alias(self) -> str:
        return self.hint

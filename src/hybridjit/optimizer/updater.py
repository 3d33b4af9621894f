"""``Updater``: an optimizer with the states of all weights updated so far.

Input: ``updater(index, gradient, weight)``. Output: the weight, updated. States are pickled as in
MXNet, with or without the optimizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from .._core.config import config
from .._core.frames import public
from ..context import Context
from ..nd import NDArray
from ..nd.storage import together_written
from ..nd.undo import whole
from ..runtime.holders import STATES
from .base import Index, Indices, Optimizer, State, Weights
from .one_call import OneCall, gather
from .pickles import dump_states, load_states


class Updater:
    """States by index, created at the first update of an index."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: dict[Index, State] = {}
        self.states_synced: dict[Index, bool] = {}
        self.aggregate_updates = optimizer.aggregate_num > 0
        self._one_call: OneCall | None = None
        STATES.add(self)

    def __getstate__(self) -> dict[str, object]:
        """State for copies and pickles, without objects that hold addresses."""
        return {**vars(self), "_one_call": None}

    def _held(self) -> Iterator[np.ndarray]:
        """The arrays of all states."""
        for state in [*self.states.values()]:
            yield from _arrays_in(state)

    @public
    def __call__(self, index: Indices, grad: Weights, weight: Weights) -> None:
        """Update one weight, or those of a list of indices: all of them, or none."""
        self.update(index, grad, weight, [])

    @together_written
    def update(self, index: Indices, grad: Weights, weight: Weights, done: list[Any]) -> None:
        """The same; ``done`` becomes non-empty once the weights are new, whatever is raised then.

        If it stays empty, states and counts are the old ones too.
        """
        is_list = isinstance(index, (list, tuple))
        if is_list and self._updated_again(index, grad, weight, done):
            return
        indices = [_text(i) for i in (index if is_list else [index])]
        grads, weights = (list(grad), list(weight)) if is_list else ([grad], [weight])
        if weights:
            self.optimizer._set_current_context(weights[0].context.device_id)
        for i, w in zip(indices, weights):
            self._prepare(i, w)
        if is_list and weights and self._updated_at_once(indices, weights, grads, done):
            return
        groups = partial(self._update_by_groups, indices, weights, grads)
        whole(groups, done, self.optimizer, self.optimizer.lr_scheduler)

    def _update_by_groups(
        self, indices: list[Index], weights: list[NDArray], grads: list[NDArray]
    ) -> None:
        """Update with the optimizer's Python code, several weights at a time, or one."""
        together = self.optimizer.aggregate_num if self.aggregate_updates else 0
        if together > 0:
            for group in _groups(weights, together):
                self.optimizer.update_multi_precision(
                    [indices[i] for i in group],
                    [weights[i] for i in group],
                    [grads[i] for i in group],
                    [self.states[indices[i]] for i in group],
                )
        else:
            for i, w, g in zip(indices, weights, grads):
                self.optimizer.update_multi_precision(i, w, g, self.states[i])

    def _updated_again(
        self,
        indices: Sequence[Index],
        grads: Sequence[NDArray],
        weights: Sequence[NDArray],
        done: list[Any],
    ) -> bool:
        """Repeat the latest compiled call if it fits these arrays; otherwise return False."""
        again, states = self._one_call, map(self.states.get, indices)
        if again is None or not _may_compile():
            return False
        if not again.fits(self.optimizer, indices, weights, grads, states):
            return False
        self.optimizer._set_current_context(weights[0].context.device_id)
        return again.run(done)

    def _updated_at_once(
        self,
        indices: list[Index],
        weights: list[NDArray],
        grads: list[NDArray],
        done: list[Any],
    ) -> bool:
        """Update all in one compiled call if it is equivalent; otherwise return False."""
        if not _may_compile():
            return False
        states = [self.states[i] for i in indices]
        self._one_call = gather(self.optimizer, indices, weights, grads, states)
        return self._one_call is not None and self._one_call.run(done)

    def _prepare(self, index: Index, weight: NDArray) -> None:
        """Ensure a state for ``index``, on the context of the weight."""
        if index not in self.states:
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
        elif not self.states_synced.get(index, True):
            self.states[index] = self.sync_state_context(self.states[index], weight.context)
        self.states_synced[index] = True

    def sync_state_context(self, state: State, context: Context) -> State:
        """The state with its arrays on this context."""
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, (tuple, list)):
            return type(state)([self.sync_state_context(part, context) for part in state])
        return state

    @public
    def set_states(self, states: bytes | bytearray) -> None:
        """Set the states from :meth:`get_states` of this class or of MXNet, with their optimizer.

        Raises ModelFormatError for other bytes.
        """
        self.states, optimizer = load_states(states)
        if optimizer is not None:
            self.optimizer = optimizer
        self.states_synced = dict.fromkeys(self.states, False)

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """The states as MXNet pickles them, optionally with the optimizer."""
        return dump_states(self.states, self.optimizer if dump_optimizer else None)


def get_updater(optimizer: Optimizer) -> Updater:
    """A callable ``(index, gradient, weight)`` that updates weights by this optimizer."""
    return Updater(optimizer)


def _arrays_in(state: State) -> Iterator[np.ndarray]:
    """The arrays of a state: one, nested tuples of them, or none."""
    if isinstance(state, NDArray):
        yield state._data
    elif isinstance(state, (tuple, list)):
        for part in state:
            yield from _arrays_in(part)


def _text(index: Index | bytes) -> Index:
    """An index; string keys of stores arrive as bytes."""
    return index.decode("utf-8") if isinstance(index, bytes) else index


def _groups(weights: Sequence[NDArray], size: int) -> list[list[int]]:
    """Indices of weights to update together: of equal element type, at most ``size``."""
    by_type: dict[object, list[int]] = {}
    for i, weight in enumerate(weights):
        by_type.setdefault(weight.dtype, []).append(i)
    return [
        places[start : start + size]
        for places in by_type.values()
        for start in range(0, len(places), size)
    ]


def _may_compile() -> bool:
    """Whether updates may run machine code; the checks apply to operators."""
    return not config.checks_steps and config.eager != "numpy"

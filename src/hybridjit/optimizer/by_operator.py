"""Optimizers whose step is one update operator, so that one kernel call can update all weights.

Input: a weight with its state. Output: the operator's name, its states, and its attributes.
:mod:`.one_call` makes one call for all weights.
"""

from __future__ import annotations

import math
from typing import TypeVar

from ..nd import NDArray
from ..nd.ndarray import invoke
from ..ops.attrs import Attrs
from ..ops.registry import lookup
from .base import Index, PerWeight, State

_Class = TypeVar("_Class", bound="type[ByOperator]")

_IN_ONE_CALL: set[type] = set()
# Methods that a program may override.
_REPLACED = (
    *("update", "update_multi_precision", "step", "operator", "told", "rate"),
    *("_get_lr", "_get_lrs", "_get_wd", "_get_wds"),
)


def in_one_call(klass: _Class) -> _Class:
    """Class decorator: all weights may be updated in one call. Does not apply to subclasses."""
    _IN_ONE_CALL.add(klass)
    return klass


class ByOperator(PerWeight):
    """An optimizer that is one update operator; subclasses override ``operator`` and ``told``."""

    def operator(self, weight: NDArray, state: State) -> tuple[str, tuple[NDArray, ...]]:
        """To override: the operator's name for this weight, and its states in order."""
        raise NotImplementedError

    def told(self) -> Attrs:
        """To override: attributes other than rate and decay, if the operator has them."""
        return self._scales()

    def _exact_scales(self) -> dict[str, float]:
        """Scale and bound of gradients, where a bound of 0 is a bound."""
        scales = {"rescale_grad": self.rescale_grad}
        if self.clip_gradient is not None:
            scales["clip_gradient"] = self.clip_gradient
        return scales

    @property
    def is_bound_negative(self) -> bool:
        """Whether the bound of gradients is negative, which swaps lower and upper bound."""
        return self.clip_gradient is not None and self.clip_gradient < 0

    def rate(self, lr: float, count: int) -> float:
        """The learning rate for the operator at the ``count``-th update of a weight."""
        if self.unbiased is None:
            return lr
        first, second = self.unbiased
        return lr * (math.sqrt(1.0 - second**count) / (1.0 - first**count))

    @property
    def unbiased(self) -> tuple[float, float] | None:
        """To override: decay factors of both running means, if the rate corrects their bias."""
        return None

    def takes(self, weight: NDArray) -> bool:
        """Whether the operator performs the complete update of a weight of this type."""
        return True

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """Update once."""
        name, states = self.operator(weight, state)
        if grad.stype != "default":  # operators of several weights do not support sparse rows
            name = name.removeprefix("multi_")
        op = lookup(name)
        known = {attr.name for attr in op.attrs}
        told = {key: value for key, value in self.told().items() if key in known}
        self._require_numbers(**told)
        lr = self.rate(lr, self._index_update_count[index])
        rates: Attrs = {"lr": lr, "wd": wd}
        if "lr" not in known:  # operator of several weights
            rates = {"lrs": [lr], "wds": [wd], "num_weights": 1}
        invoke(op, (weight, grad, *states), {**rates, **told}, weight)

    @property
    def is_in_one_call(self) -> bool:
        """Whether one call may update all weights: no method is overridden by the user."""
        return type(self) in _IN_ONE_CALL and not any(name in vars(self) for name in _REPLACED)

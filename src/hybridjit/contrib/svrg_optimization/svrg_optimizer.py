"""Optimizer of an ``SVRGModule``: updates weights by another optimizer, stores full gradients.

Input: weights under their names, and full gradients under ``<name>_full``. Output: weights updated,
full gradients replaced by pushed ones. For stores, in which both have keys.
"""

from __future__ import annotations

from typing import Any

from ... import optimizer
from ...nd import NDArray
from ...optimizer import Optimizer
from ...optimizer.base import Indices, State

_SHARED = (
    *("rescale_grad", "param_idx2name", "wd", "clip_gradient", "learning_rate", "lr_scheduler"),
    *("sym", "begin_num_update", "multi_precision", "param_dict"),
)  # arguments of every optimizer


@Optimizer.register
class _AssignmentOptimizer(Optimizer):
    """Assigns the gradient to the weight."""

    def update(self, index: Indices, weight: NDArray, grad: NDArray, state: State) -> None:
        weight[:] = grad


@Optimizer.register
class _SVRGOptimizer(Optimizer):
    """Updates by ``default_optimizer``, a name or an optimizer, except keys that end in "_full".

    A named optimizer is made with all arguments. Raises ValueError for an unknown name.
    """

    def __init__(self, default_optimizer: str | Optimizer, **kwargs: Any) -> None:
        super().__init__(**{name: kwargs[name] for name in _SHARED if name in kwargs})
        if isinstance(default_optimizer, str):
            default_optimizer = optimizer.create(default_optimizer, **kwargs)
        self.default_opt = default_optimizer
        self.aux_opt = _AssignmentOptimizer()

    def create_state(self, index: Indices, weight: NDArray) -> State:
        return self._responsible(index).create_state(index, weight)

    def update(self, index: Indices, weight: NDArray, grad: NDArray, state: State) -> None:
        self._responsible(index).update(index, weight, grad, state)

    def _responsible(self, index: Indices) -> Optimizer:
        """The optimizer for an index: a name, or a number with a name in ``param_idx2name``."""
        name = index if index in self.idx2name.values() else self.idx2name[index]
        return self.aux_opt if name.endswith("_full") else self.default_opt

"""The optimizer of an ``SVRGModule``: weights follow another optimizer, full gradients are kept.

In: weights under their names, and full gradients under ``<name>_full``. Out: the first updated, the
second replaced by what is pushed. For stores, where both have keys.
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
)  # what every optimizer takes


@Optimizer.register
class _AssignmentOptimizer(Optimizer):
    """Makes a weight of its gradient."""

    def update(self, index: Indices, weight: NDArray, grad: NDArray, state: State) -> None:
        weight[:] = grad


@Optimizer.register
class _SVRGOptimizer(Optimizer):
    """Updates by ``default_optimizer``, a name or an optimizer, but keys that end in "_full".

    Of a name, it is made with all arguments. Raises ValueError for a name that is unknown.
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
        """Indices are names, or numbers that ``param_idx2name`` has names for."""
        name = index if index in self.idx2name.values() else self.idx2name[index]
        return self.aux_opt if name.endswith("_full") else self.default_opt

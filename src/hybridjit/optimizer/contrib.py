"""``mx.optimizer.contrib``: contributed optimizers."""

from __future__ import annotations

from .. import nd
from .._core.types import Unpack
from ..nd import NDArray, zeros
from .base import Index, PerWeight, RatedArgs, State, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(PerWeight):
    """AdaGrad with one history per row of a 2-dimensional weight, without weight decay."""

    def __init__(self, eps: float = 1e-5, **kwargs: Unpack[RatedArgs]) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Index, weight: NDArray) -> NDArray:
        """The history, of shape (rows, 1). Raises AssertionError unless a weight has 2 axes."""
        assert len(weight.shape) == 2, f"the weight must have 2 axes, got {len(weight.shape)}"
        return zeros((weight.shape[0], 1), weight.context, weight.dtype)

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """Update once. Raises AssertionError for a weight decay."""
        assert wd == 0, "Weight decay is not supported for GroupAdaGrad"
        given: dict[str, object] = {"lr": lr, "epsilon": self.float_stable_eps}
        if grad.stype == "default":
            grad = self._bounded(grad * self.rescale_grad)
        else:  # the operator treats a bound of 0 as none
            given.update(self._scales())
        nd.contrib.group_adagrad_update(weight, grad, state, out=weight, **given)

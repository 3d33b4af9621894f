"""The base of losses, and operations that they share."""

from __future__ import annotations

from types import ModuleType

from ... import nd
from ..._core.shapes import is_np_array
from ...base import numeric_types
from ..hybrid_block import HybridBlock
from ..naming import BlockArgs
from ..types import Tensor, Unpack

TINY = 1e-12  # keeps logarithms and quotients finite


class Loss(HybridBlock):
    """Base of all losses: ``weight`` scales every value, ``batch_axis`` is the axis of samples."""

    def __init__(self, weight: float | None, batch_axis: int, **kwargs: Unpack[BlockArgs]) -> None:
        super().__init__(**kwargs)
        self._weight = weight
        self._batch_axis = batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _weighted(
        self,
        F: ModuleType,
        loss: Tensor,
        sample_weight: Tensor | None = None,
        weight: float | None = None,
    ) -> Tensor:
        weight = self._weight if weight is None else weight
        return _apply_weighting(F, loss, weight, sample_weight)

    def _mean(self, F: ModuleType, loss: Tensor) -> Tensor:
        """The mean over all axes except the batch axis."""
        return F.mean(loss, axis=self._batch_axis, exclude=True)


# Loss classes of other packages import these two names from MXNet.
def _apply_weighting(
    F: ModuleType, loss: Tensor, weight: float | None = None, sample_weight: Tensor | None = None
) -> Tensor:
    """``loss`` times the broadcast weights of samples, and times one factor."""
    if sample_weight is not None:
        loss = product(F, loss, sample_weight)
    if weight is not None:
        assert isinstance(weight, numeric_types), f"weight must be a number, got {weight!r}"
        loss = loss * weight
    return loss


def product(F: ModuleType, x: Tensor, y: Tensor) -> Tensor:
    """x * y with broadcasting; arrays of NumPy mode may differ in their element types."""
    return x * y if is_np_array() else F.broadcast_mul(x, y)


def reshape_like(F: ModuleType, x: Tensor, other: Tensor) -> Tensor:
    """``x`` in the shape of ``other``, which has the same number of elements."""
    if isinstance(x, numeric_types):
        raise AttributeError(f"a loss takes arrays, got {x!r}: pass nd.array(x)")
    return x.reshape(other.shape) if F is nd else F.reshape_like(x, other)

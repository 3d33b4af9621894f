"""Losses of numbers: squared and absolute errors, Huber, Poisson."""

from __future__ import annotations

import math
from types import ModuleType

from ..naming import BlockArgs
from ..types import Tensor, Unpack
from .base import Loss, reshape_like


class L2Loss(Loss):
    """Squared error: weight / 2 * (label - pred)^2.

    Call ``loss(pred, label, sample_weight=None)``: ``label`` has as many elements as ``pred``.
    ``sample_weight`` is broadcast to the losses. The result has one element per sample, the mean
    over all other axes.

    Parameters
    ----------
    weight : float
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> gluon.loss.L2Loss()(nd.array([[1, 2]]), nd.array([[1, 4]])).asnumpy()
    array([1.], dtype=float32)
    """

    def __init__(
        self, weight: float = 1.0, batch_axis: int = 0, **kwargs: Unpack[BlockArgs]
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        loss = F.square(reshape_like(F, label, pred) - pred)
        half = None if self._weight is None else self._weight / 2
        return self._mean(F, self._weighted(F, loss, sample_weight, half))


class L1Loss(Loss):
    """Absolute error: |label - pred|.

    Call ``loss(pred, label, sample_weight=None)``: ``label`` has as many elements as ``pred``.
    ``sample_weight`` is broadcast to the losses. The result has one element per sample, the mean
    over all other axes.

    Parameters
    ----------
    weight : float, optional
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> gluon.loss.L1Loss()(nd.array([[1, 2]]), nd.array([[1, 4]])).asnumpy()
    array([1.], dtype=float32)
    """

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, **kwargs: Unpack[BlockArgs]
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        loss = F.abs(reshape_like(F, label, pred) - pred)
        return self._mean(F, self._weighted(F, loss, sample_weight))


class HuberLoss(Loss):
    """Huber loss: quadratic up to a distance of ``rho``, linear beyond.

    Call ``loss(pred, label, sample_weight=None)``: ``label`` has as many elements as ``pred``.
    ``sample_weight`` is broadcast to the losses. The result has one element per sample, the mean
    over all other axes.

    Parameters
    ----------
    rho : float
        Distance at which the loss becomes linear.
    weight : float, optional
        Factor of all losses.
    batch_axis : int
        Axis of the samples.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Raises
    ------
    ValueError
        For ``rho`` 0.

    Examples
    --------
    >>> gluon.loss.HuberLoss()(nd.array([[0], [0]]), nd.array([[1], [3]])).asnumpy()
    array([0.5, 2.5], dtype=float32)
    """

    def __init__(
        self,
        rho: float = 1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if rho == 0:
            raise ValueError("HuberLoss divides by rho, got 0: use L1Loss, its limit")
        self._rho = rho

    def hybrid_forward(  # type: ignore[override]
        self, F: ModuleType, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        distance = F.abs(reshape_like(F, label, pred) - pred)
        linear = distance - 0.5 * self._rho
        quadratic = (0.5 / self._rho) * F.square(distance)
        loss = F.where(distance > self._rho, linear, quadratic)
        return self._mean(F, self._weighted(F, loss, sample_weight))


class PoissonNLLLoss(Loss):
    """Negative log-likelihood of counts under a Poisson distribution.

    Call ``loss(pred, target, sample_weight=None, epsilon=1e-8)``. The result is one mean over
    all elements.

    Parameters
    ----------
    weight : float, optional
        Factor of all losses.
    from_logits : bool
        True: predictions are logarithms of the rate; False: rates, to which ``epsilon`` is added
        before the logarithm.
    batch_axis : int
        Axis of the samples.
    compute_full : bool
        Whether Stirling's approximation of log(target!) is added where the target is above 1.
    **kwargs
        ``prefix`` and ``params``, as in :class:`Block`.

    Examples
    --------
    >>> loss = gluon.loss.PoissonNLLLoss()
    >>> loss(nd.array([[0]]), nd.array([[1]])).asnumpy()
    array([1.], dtype=float32)
    """

    def __init__(
        self,
        weight: float | None = None,
        from_logits: bool = True,
        batch_axis: int = 0,
        compute_full: bool = False,
        **kwargs: Unpack[BlockArgs],
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._compute_full = compute_full

    def hybrid_forward(  # type: ignore[override]
        self,
        F: ModuleType,
        pred: Tensor,
        target: Tensor,
        sample_weight: Tensor | None = None,
        epsilon: float = 1e-8,
    ) -> Tensor:
        target = reshape_like(F, target, pred)
        if self._from_logits:
            loss = F.exp(pred) - target * pred
        else:
            loss = pred - target * F.log(pred + epsilon)
        if self._compute_full:
            loss = loss + _log_factorial(F, target) * (target > 1)
        return F.mean(self._weighted(F, loss, sample_weight))


def _log_factorial(F: ModuleType, n: Tensor) -> Tensor:
    """Stirling: n log(n) - n + log(2 pi n) / 2."""
    return n * F.log(n) - n + 0.5 * F.log(2 * n * math.pi)

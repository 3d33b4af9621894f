"""Gradient descent and its simple variants: momentum, Nesterov, signs, noise, delay."""

from __future__ import annotations

import math
from typing import Any

from .. import nd
from .._core.types import Unpack
from ..nd import NDArray
from ..nd.random import normal
from ..ops.attrs import Attrs
from .base import (
    Index,
    OptimizerArgs,
    PerWeight,
    RatedArgs,
    State,
    WithCopy,
    WithMomentum,
    register,
    zeros_like,
)
from .by_operator import ByOperator, in_one_call


def descend(
    weight: NDArray, grad: NDArray, state: State, has_copy: bool, momentum: float, **given: object
) -> None:
    """Gradient descent on a weight, or on the copy in its state, with or without momentum."""
    mom, *copy = state if has_copy else (state,)
    update: Any
    if mom is None:
        update = nd.mp_sgd_update if copy else nd.sgd_update
        update(weight, grad, *copy, out=weight, **given)
    else:
        update = nd.mp_sgd_mom_update if copy else nd.sgd_mom_update
        update(weight, grad, mom, *copy, out=weight, momentum=momentum, **given)


@in_one_call
@register
class SGD(WithMomentum, WithCopy, ByOperator):
    """Gradient descent: w -= lr (g + wd w), with momentum along a running sum.

    Parameters
    ----------
    momentum : float
        Decay of the previous step; 0: none.
    lazy_update : bool
        Whether a row_sparse gradient leaves the rows that it lacks unchanged.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=0.1))
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.8], dtype=float32)
    """

    has_rates_of_lists = True

    def __init__(
        self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Unpack[RatedArgs]
    ) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lazy_update = lazy_update
        self.aggregate_num = 4

    def operator(self, weight: NDArray, state: State) -> tuple[str, tuple[NDArray, ...]]:
        """The operators of several weights, as in MXNet: they reject rates that are not finite."""
        mom, *copy = state if self._has_copy(weight) else (state,)
        mixed = "mp_" if copy else ""
        if mom is None:
            return f"multi_{mixed}sgd_update", tuple(copy)
        return f"multi_{mixed}sgd_mom_update", (mom, *copy)

    def told(self) -> Attrs:
        """Momentum, scale and bound, and whether updates skip rows without a gradient."""
        lazy = {"lazy_update": self.lazy_update}
        return {"momentum": self.positive_momentum, **lazy, **self._scales()}


@in_one_call
@register
class ccSGD(SGD):  # noqa: N801 (MXNet's name)
    """SGD under another name."""


@in_one_call
@register
class NAG(WithMomentum, WithCopy, ByOperator):
    """Nesterov's accelerated gradient; without momentum, gradient descent.

    Parameters
    ----------
    momentum : float
        Decay of the previous step; 0: none.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.NAG(learning_rate=0.1, momentum=0.9))
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.62], dtype=float32)
    """

    def __init__(self, momentum: float = 0.0, **kwargs: Unpack[RatedArgs]) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum

    def operator(self, weight: NDArray, state: State) -> tuple[str, tuple[NDArray, ...]]:
        """The operator; Nesterov's if there is a momentum."""
        mom, *copy = state if self._has_copy(weight) else (state,)
        mixed = "mp_" if copy else ""
        if mom is None:
            return f"{mixed}sgd_update", tuple(copy)
        return f"{mixed}nag_mom_update", (mom, *copy)

    def told(self) -> Attrs:
        """Momentum, scale and bound."""
        return {"momentum": self.positive_momentum, **self._scales()}


@in_one_call
@register
class Signum(WithMomentum, ByOperator):
    """Steps of fixed size along the sign of the momentum, or of the negative gradient.

    Parameters
    ----------
    learning_rate : float
        Learning rate.
    momentum : float
        Decay of the previous step; 0: none.
    wd_lh : float
        Weight decay that is applied to the weight directly; it needs momentum.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.Signum(learning_rate=0.1))
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.9], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float = 0.01,
        momentum: float = 0.9,
        wd_lh: float = 0.0,
        **kwargs: Unpack[OptimizerArgs],
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def operator(self, weight: NDArray, state: State) -> tuple[str, tuple[NDArray, ...]]:
        """The operator; with momentum if there is one."""
        if state is None:
            return "signsgd_update", ()
        return "signum_update", (state,)

    def told(self) -> Attrs:
        """Momentum, ``wd_lh``, scale and bound."""
        return {"momentum": self.positive_momentum, "wd_lh": self.wd_lh, **self._scales()}

    def takes(self, weight: NDArray) -> bool:
        """False for ``wd_lh`` without momentum, an error that ``step`` raises."""
        return self.momentum != 0.0 or not self.wd_lh

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """Update once. Raises MXNetError for ``wd_lh`` without momentum."""
        if state is None and self.wd_lh:
            given: Attrs = {"lr": lr, "wd": wd, "wd_lh": self.wd_lh, **self._scales()}
            nd.signsgd_update(weight, grad, out=weight, **given)
        super().step(index, weight, grad, state, lr, wd)


@register
class DCASGD(PerWeight):
    """Gradient descent with delay compensation (Zheng et al., ICML 2017).

    Parameters
    ----------
    momentum : float
        Decay of the previous step; 0: none.
    lamda : float
        Factor of the compensation.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.DCASGD(learning_rate=0.1))
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.8], dtype=float32)
    """

    def __init__(
        self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Unpack[RatedArgs]
    ) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.weight_previous: dict[Index, NDArray] = {}
        self.lamda = lamda

    def create_state(self, index: Index, weight: NDArray) -> tuple[NDArray | None, NDArray]:
        """The momentum or None, and the weight before the latest step."""
        return zeros_like(weight) if self.momentum != 0.0 else None, weight.copy()

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """Update once."""
        g = self._bounded(grad * self.rescale_grad)
        mom, previous = state
        change = -lr * (g + wd * weight + self.lamda * g * g * (weight - previous))
        if mom is not None:
            mom[:] = self.momentum * mom + change
            change = mom
        previous[:] = weight
        weight[:] = weight + change


@register
class SGLD(PerWeight):
    """Stochastic gradient Langevin dynamics: half a step, and noise of variance ``lr``."""

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """Update once."""
        g = self._bounded(grad * self.rescale_grad)
        noise = normal(0, math.sqrt(lr), weight.shape, weight.dtype, weight.context)
        weight[:] = weight - lr / 2 * (g + wd * weight) + noise


@register
class Test(PerWeight):
    """w += g, for tests of updaters."""

    def create_state(self, index: Index, weight: NDArray) -> NDArray:
        """A copy of the weight after each step."""
        return zeros_like(weight)

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """Update once."""
        weight[:] = weight + grad * self.rescale_grad
        state[:] = weight

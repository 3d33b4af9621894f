"""Optimizers for large batches: steps are scaled by norms of complete weights."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import nd
from .._core.errstate import quiet
from .._core.types import Unpack
from ..nd import NDArray
from ..nd.ndarray import invoke
from ..ops.attrs import Attrs
from ..ops.registry import lookup
from .base import (
    Index,
    Indices,
    OptimizerArgs,
    RatedArgs,
    State,
    Weights,
    WithCopy,
    WithMoments,
    WithMomentum,
    register,
)
from .descent import descend


@register
class LAMB(WithMoments):
    """LAMB: Adam's direction, scaled by the norm of the weight (You et al., ICLR 2020).

    Parameters
    ----------
    learning_rate : float
        Learning rate.
    beta1 : float
        Decay of the mean of gradients.
    beta2 : float
        Decay of the mean of squared gradients.
    epsilon : float
        Added to the divisor.
    lower_bound : float, optional
        Lower bound of the weight's norm.
    upper_bound : float, optional
        Upper bound of the weight's norm.
    bias_correction : bool
        Whether means are divided by 1 - beta^t.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.LAMB(learning_rate=0.1))
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.9], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        bias_correction: bool = True,
        **kwargs: Unpack[OptimizerArgs],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.bias_correction = bias_correction
        self.aggregate_num = 45

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """Update once, with the operators of several weights: they reject infinite rates."""
        has_copy = self.multi_precision and weight.dtype == np.float16
        *copy, (mean, var) = state if has_copy else (state,)
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        given: Attrs = {
            "learning_rates": [lr],
            "wds": [wd],
            "step_count": [self._index_update_count[index]],
            "beta1": self.beta1,
            "beta2": self.beta2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            **{name: bound for name, bound in bounds.items() if bound},
            **self._scales(),
        }
        self._require_numbers(**given)
        op = lookup("_multi_mp_lamb_update" if has_copy else "_multi_lamb_update")
        invoke(op, (weight, grad, mean, var, *copy), given, weight)

    def update_multi_precision(
        self, index: Indices, weight: Weights, grad: Weights, state: State
    ) -> None:
        """Update the weights, or the float32 copies of float16 weights.

        As in MXNet, an ``update`` that a subclass defines is not called.
        """
        self._step_each(index, weight, grad, state)


@register
class LARS(WithMomentum, WithCopy):
    """LARS: gradient descent with rates from norms of weights and gradients (You et al. 2017).

    Parameters
    ----------
    momentum : float
        Decay of the previous step; 0: none.
    lazy_update : bool
        Whether a row_sparse gradient leaves the rows that it lacks unchanged.
    eta : float
        Factor of the rates.
    eps : float
        Added to the divisor.
    momentum_correction : bool
        Whether the momentum is scaled when the learning rate changes.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.LARS(learning_rate=0.1))
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.9999], dtype=float32)
    """

    has_rates_of_lists = True

    def __init__(
        self,
        momentum: float = 0.0,
        lazy_update: bool = True,
        eta: float = 0.001,
        eps: float = 0,
        momentum_correction: bool = True,
        **kwargs: Unpack[RatedArgs],
    ) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.momentum_correction = momentum_correction
        self.lazy_update = lazy_update
        self.aggregate_num = 4
        self.eta = eta
        self.eps = eps
        self.skip = 0
        self.last_lr: float | None = None
        self.cur_lr: float | None = None

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """Update once."""
        if self._is_scaled(index):
            lr = self._scaled(weight, grad, lr, wd)
        has_copy, scales = self._has_copy(weight), self._scales()
        if grad.stype != "default":  # operators of several weights do not support sparse rows
            descend(weight, grad, state, has_copy, self._momentum(), lr=lr, wd=wd, **scales)
            return
        mom, *copy = state if has_copy else (state,)
        name = f"{'mp_' if has_copy else ''}sgd_{'' if mom is None else 'mom_'}update"
        states = copy if mom is None else [mom, *copy]
        given = scales if mom is None else {"momentum": self._momentum(), **scales}
        rates = nd.array([lr]), nd.array([wd])
        op = lookup(f"preloaded_multi_{name}")  # accepts rates that are not finite
        invoke(op, (weight, grad, *states, *rates), given, weight)

    def _decays(self, name: str) -> bool:
        return name.endswith("_weight")

    def _get_lrs(self, indices: Sequence[Index]) -> list[float]:
        """As elsewhere; the rates of the previous call are kept for the momentum."""
        rate = self.learning_rate
        self.last_lr = rate if self.cur_lr is None else self.cur_lr
        self.cur_lr = rate
        return [rate * self._multiplier(i, "lr_mult") for i in indices]

    def _is_scaled(self, index: Index) -> bool:
        name = self.idx2name.get(index, str(index))
        return not name.endswith(("gamma", "beta", "bias"))

    def _scaled(self, weight: NDArray, grad: NDArray, lr: float, wd: float) -> float:
        rates = nd.multi_lars(
            nd.array([lr]),
            nd.multi_sum_sq(weight, num_arrays=1),
            nd.multi_sum_sq(grad, num_arrays=1),
            nd.array([wd]),
            eta=self.eta,
            eps=self.eps,
            rescale_grad=self.rescale_grad,
        )
        return rates.asscalar()

    def _momentum(self) -> float:
        if self.momentum_correction and self.last_lr and self.cur_lr is not None:
            return self.positive_momentum * (self.cur_lr / self.last_lr)
        return self.positive_momentum


@register
class LBSGD(WithMomentum, WithCopy):
    """Gradient descent with the mean of ``batch_scale`` gradients, and a warm-up of the rate.

    ``warmup_strategy`` is "linear", "power2" or "sqrt", over ``warmup_epochs`` epochs of
    ``updates_per_epoch`` updates; or "lars", by the norms of weight and gradient.
    """

    def __init__(
        self,
        momentum: float = 0.0,
        multi_precision: bool = False,
        warmup_strategy: str = "linear",
        warmup_epochs: int = 5,
        batch_scale: int = 1,
        updates_per_epoch: int = 32,
        begin_epoch: int = 0,
        num_epochs: int = 60,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        logging.info("Running Large-Batch SGD Algorithm")
        logging.info(
            "(Batch_scale=%f, warmup_epochs=%d, warmup_strategy=%s, updates_per_epoch=%d)",
            batch_scale,
            warmup_epochs,
            warmup_strategy,
            updates_per_epoch,
        )
        self.momentum = momentum
        self.multi_precision = multi_precision
        self.warmup_strategy = warmup_strategy
        self.warmup_epochs = warmup_epochs
        self.batch_scale = batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self.lbmult = 1
        self.cumgrads: dict[Index, dict[str, Any]] = {}
        self.adaptive = False
        self.admult = 1

    def update(self, index: Indices, weight: Weights, grad: Weights, state: State) -> None:
        """Update once, or accumulate a gradient; the rate is that before the update is counted."""
        lr, wd = self._get_lr(index), self._get_wd(index)
        self._update_count(index)
        total, number = self._add(index, grad)
        if number % self.batch_scale == 0:
            mean = total / self.batch_scale
            lr *= self._warmed(weight, mean, wd, number)
            given: Attrs = {"lr": lr, "wd": wd, **self._scales()}
            momentum = self.positive_momentum
            descend(weight, mean, state, self._has_copy(weight), momentum, **given)
            self.cumgrads[index]["cum_grad"] = 0

    def update_multi_precision(
        self, index: Indices, weight: Weights, grad: Weights, state: State
    ) -> None:
        """The same as :meth:`update`; the state shows whether there is a copy."""
        self.update(index, weight, grad, state)

    def _add(self, index: Index, grad: NDArray) -> tuple[Any, int]:
        """The sum of gradients since the latest step, and the total number of gradients."""
        known = self.cumgrads.get(index)
        if known is None or known["num_cums"] <= 0:
            known = {"cum_grad": 0, "num_cums": self.init_updates}
        found = {"cum_grad": grad + known["cum_grad"], "num_cums": known["num_cums"] + 1}
        self.cumgrads[index] = found
        return found["cum_grad"], found["num_cums"]

    @quiet
    def _warmed(self, weight: NDArray, grad: NDArray, wd: float, number: int) -> float:
        """The warm-up factor of the learning rate for this gradient."""
        if self.warmup_strategy == "lars":
            own, other = (float(np.square(x.asnumpy()).sum()) for x in (weight, grad))
            ratio = math.sqrt(own / (other + wd * own + 1e-18))
            return 0.01 if ratio < 0.01 else 100.0 if ratio > 100 else ratio  # NaN stays NaN
        steps = self.warmup_epochs * self.updates_per_epoch
        if number >= steps:
            return float(self.batch_scale)
        if steps <= 1 or self.warmup_strategy not in _WARMING:
            return 1.0
        return 1.0 + (self.batch_scale - 1) * _WARMING[self.warmup_strategy](number / steps)


_WARMING = {"linear": float, "power2": lambda share: share * share, "sqrt": math.sqrt}

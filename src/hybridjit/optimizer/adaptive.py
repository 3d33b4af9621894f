"""Optimizers that scale each element's step by its previous gradients."""

from __future__ import annotations

import numpy as np

from .. import nd
from .._core.types import Unpack
from ..nd import NDArray
from ..ops.attrs import Attrs, Declared
from .base import Index, OptimizerArgs, PerWeight, RatedArgs, WithMoments, register, zeros_like
from .by_operator import ByOperator, in_one_call

State = tuple[NDArray, ...]


@in_one_call
@register
class Adam(WithMoments, ByOperator):
    """Adam: the mean of gradients divided by the root of the mean of their squares.

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
    lazy_update : bool
        Whether a row_sparse gradient leaves the rows that it lacks unchanged.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.Adam(learning_rate=0.1))
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
        epsilon: float = 1e-8,
        lazy_update: bool = True,
        **kwargs: Unpack[OptimizerArgs],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.lazy_update = lazy_update

    def operator(self, weight: NDArray, state: State) -> tuple[str, tuple[NDArray, ...]]:
        """The operator with mean and variance."""
        return "adam_update", state

    def told(self) -> Attrs:
        """Decay factors of both means, epsilon, scale and bound."""
        betas = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        return {**betas, "lazy_update": self.lazy_update, **self._scales()}

    @property
    def unbiased(self) -> tuple[float, float]:
        """Decay factors of mean and variance, which start at 0."""
        return self.beta1, self.beta2


@register
class Adamax(PerWeight):
    """Adam with the largest gradient as divisor (Kingma and Ba 2015, section 7).

    Parameters
    ----------
    learning_rate : float
        Learning rate.
    beta1 : float
        Decay of the mean of gradients.
    beta2 : float
        Decay of the largest gradient.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.Adamax(learning_rate=0.1))
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.9], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float = 0.002,
        beta1: float = 0.9,
        beta2: float = 0.999,
        **kwargs: Unpack[OptimizerArgs],
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2

    def create_state(self, index: Index, weight: NDArray) -> State:
        """Mean and largest gradient."""
        return zeros_like(weight), zeros_like(weight)

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """Update once; a gradient of 0 from the first step on gives NaN, as in MXNet."""
        lr /= 1.0 - self.beta1 ** self._index_update_count[index]
        g = self._bounded(grad * self.rescale_grad + wd * weight)
        mean, largest = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * g
        largest[:] = nd.maximum(self.beta2 * largest, nd.abs(g))
        weight[:] = weight - lr * mean / largest


@register
class Nadam(WithMoments):
    """Adam with Nesterov's momentum (Dozat 2016).

    The schedule of the momentum is shared by all weights: each update advances it.

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
    schedule_decay : float
        Decay of the schedule of the momentum.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.Nadam(learning_rate=0.1))
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.8944], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        schedule_decay: float = 0.004,
        **kwargs: Unpack[OptimizerArgs],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **kwargs)
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """Update once."""
        t = self._index_update_count[index]
        now, later = self._momentum(t), self._momentum(t + 1)
        self.m_schedule *= now
        g = self._bounded(grad * self.rescale_grad + wd * weight)
        mean, var = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * g
        var[:] = self.beta2 * var + (1.0 - self.beta2) * g * g
        new = g / (1.0 - self.m_schedule)
        old = mean / (1.0 - self.m_schedule * later)
        root = nd.sqrt(var / (1.0 - self.beta2**t)) + self.epsilon
        weight[:] = weight - lr * ((1.0 - now) * new + later * old) / root

    def _momentum(self, t: int) -> float:
        return self.beta1 * (1.0 - 0.5 * 0.96 ** (t * self.schedule_decay))


@in_one_call
@register
class AdaGrad(ByOperator):
    """AdaGrad: the gradient divided by the root of the sum of its squares.

    Parameters
    ----------
    eps : float
        Added to the divisor.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.AdaGrad(learning_rate=0.1))
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.9], dtype=float32)
    """

    def __init__(self, eps: float = 1e-7, **kwargs: Unpack[RatedArgs]) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Index, weight: NDArray) -> NDArray:
        """The sum of squares."""
        return zeros_like(weight)

    def operator(self, weight: NDArray, state: NDArray) -> tuple[str, tuple[NDArray, ...]]:
        """The operator with the sum of squares."""
        return "_sparse_adagrad_update", (state,)

    def told(self) -> Attrs:
        """Epsilon, scale and bound; a bound of 0 is a bound."""
        return {"epsilon": self.float_stable_eps, **self._exact_scales()}

    def takes(self, weight: NDArray) -> bool:
        """True for float32, unless the bound is negative, which the operator treats as none."""
        return weight.dtype == np.float32 and not self.is_bound_negative

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: NDArray, lr: float, wd: float
    ) -> None:
        """Update once."""
        if self.takes(weight):
            super().step(index, weight, grad, state, lr, wd)
            return
        g = self._bounded(grad * self.rescale_grad)
        given: Attrs = {"lr": lr, "wd": wd, "epsilon": self.float_stable_eps}
        nd.sparse.adagrad_update(weight, g, state, out=weight, **given)


@in_one_call
@register
class RMSProp(ByOperator):
    """RMSProp: the gradient divided by the root of the mean of its squares.

    Parameters
    ----------
    learning_rate : float
        Learning rate.
    gamma1 : float
        Decay of the mean of squared gradients.
    gamma2 : float
        Momentum of the centered variant.
    epsilon : float
        Added to the divisor.
    centered : bool
        Whether the divisor is the root of the variance.
    clip_weights : float, optional
        Bound of each weight.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.RMSProp(learning_rate=0.1))
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.6838], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        gamma1: float = 0.9,
        gamma2: float = 0.9,
        epsilon: float = 1e-8,
        centered: bool = False,
        clip_weights: float | None = None,
        **kwargs: Unpack[OptimizerArgs],
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.centered = centered
        self.epsilon = epsilon
        self.clip_weights = clip_weights

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The mean of squares; if ``centered`` also the mean and the previous change."""
        return tuple(zeros_like(weight) for _ in range(3 if self.centered else 1))

    def operator(self, weight: NDArray, state: State) -> tuple[str, tuple[NDArray, ...]]:
        """The operator; with the variance if ``centered``."""
        return "rmspropalex_update" if self.centered else "rmsprop_update", state

    def told(self) -> Attrs:
        """Decay factors, epsilon, scale and bounds."""
        given: dict[str, Declared] = {"gamma1": self.gamma1, "gamma2": self.gamma2}
        if self.clip_weights:
            given["clip_weights"] = self.clip_weights
        return {**given, "epsilon": self.epsilon, **self._scales()}


@in_one_call
@register
class AdaDelta(ByOperator):
    """AdaDelta: steps in the size of earlier steps, without a learning rate (Zeiler 2012).

    Parameters
    ----------
    rho : float
        Decay of the means of squared gradients and steps.
    epsilon : float
        Added to the divisor.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.AdaDelta())
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.99], dtype=float32)
    """

    def __init__(
        self, rho: float = 0.90, epsilon: float = 1e-5, **kwargs: Unpack[RatedArgs]
    ) -> None:
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def create_state(self, index: Index, weight: NDArray) -> State:
        """Running means of the squares of gradients and of changes."""
        return zeros_like(weight), zeros_like(weight)

    def operator(self, weight: NDArray, state: State) -> tuple[str, tuple[NDArray, ...]]:
        """The operator with both means."""
        return "_adadelta_update", state

    def told(self) -> Attrs:
        """Decay factor, epsilon, scale and bound; a bound of 0 is a bound."""
        means = {"rho": self.rho, "rest": 1.0 - self.rho, "epsilon": self.epsilon}
        return {**means, **self._exact_scales()}

    def takes(self, weight: NDArray) -> bool:
        """True for float32, unless the bound is negative, which the operator treats as none."""
        return weight.dtype == np.float32 and not self.is_bound_negative

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """Update once. The gradient does not change; MXNet rescales it in place."""
        if self.takes(weight):
            super().step(index, weight, grad, state, lr, wd)
            return
        g = self._bounded(grad * self.rescale_grad)
        gradients, changes = state
        gradients[:] = self.rho * gradients + (1.0 - self.rho) * g * g
        change = nd.sqrt(changes + self.epsilon) / nd.sqrt(gradients + self.epsilon) * g
        changes[:] = self.rho * changes + (1.0 - self.rho) * change * change
        weight[:] = weight - (change + wd * weight)


@in_one_call
@register
class Ftrl(ByOperator):
    """Follow the regularized leader: weights with little influence become 0.

    Parameters
    ----------
    lamda1 : float
        Factor of the L1 regularization.
    learning_rate : float
        Learning rate.
    beta : float
        Added to the root of the sum of squares.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.Ftrl(learning_rate=0.1))
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.5997], dtype=float32)
    """

    def __init__(
        self,
        lamda1: float = 0.01,
        learning_rate: float = 0.1,
        beta: float = 1,
        **kwargs: Unpack[OptimizerArgs],
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        if self.lr_scheduler is None:  # MXNet has no default here
            self._require_numbers(learning_rate=learning_rate)
        self.lamda1 = lamda1
        self.beta = beta

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The states z and n."""
        return zeros_like(weight), zeros_like(weight)

    def operator(self, weight: NDArray, state: State) -> tuple[str, tuple[NDArray, ...]]:
        """The operator with z and n."""
        return "ftrl_update", state

    def told(self) -> Attrs:
        """``lamda1``, ``beta``, scale and bound."""
        return {"lamda1": self.lamda1, "beta": self.beta, **self._scales()}


@register
class FTML(PerWeight):
    """Follow the moving leader.

    Parameters
    ----------
    beta1 : float
        Decay of the state.
    beta2 : float
        Decay of the mean of squared gradients.
    epsilon : float
        Added to the divisor.
    **kwargs
        Arguments of :class:`Optimizer`: ``learning_rate``, ``wd``, ``clip_gradient``,
        ``lr_scheduler`` ...

    Examples
    --------
    >>> step = mx.optimizer.get_updater(mx.optimizer.FTML(learning_rate=0.1))
    >>> weight = nd.array([1.0])
    >>> step(0, nd.array([2.0]), weight)  # index, gradient, weight
    >>> weight.asnumpy().round(4)
    array([0.9], dtype=float32)
    """

    def __init__(
        self,
        beta1: float = 0.6,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        **kwargs: Unpack[RatedArgs],
    ) -> None:
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The states d, v and z."""
        return zeros_like(weight), zeros_like(weight), zeros_like(weight)

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """Update once."""
        given: dict[str, Declared] = {
            "beta1": self.beta1,
            "beta2": self.beta2,
            "epsilon": self.epsilon,
        }
        given["rescale_grad"] = self.rescale_grad
        if self.clip_gradient:
            given["clip_grad"] = self.clip_gradient
        self._require_numbers(**given)
        t = self._index_update_count[index]
        d, v, z = state
        nd.ftml_update(weight, grad, d, v, z, out=weight, lr=lr, wd=wd, t=t, **given)

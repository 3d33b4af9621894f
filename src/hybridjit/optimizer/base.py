"""Base of all optimizers: names, learning rates and weight decays of parameters, update counts.

Input: an index, a weight, its gradient and the state from ``create_state``. Output: weight and
state, updated in place. The caller defines the meaning of an index, an integer or a string.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Protocol, TypeAlias, TypedDict, TypeVar

import numpy as np

from .._core.frames import public, warn
from .._core.types import Unpack
from ..errors import did_you_mean, refuse_synonyms, require_no_more
from ..lr_scheduler import LRScheduler
from ..nd import NDArray, zeros
from ..ops.attrs import Attrs
from ..sym import Symbol

Index = int | str
State: TypeAlias = Any  # result of create_state: None, an array, or nested tuples of arrays
# An Index with its weight or gradient (an NDArray), or lists of each.
Indices: TypeAlias = Any
Weights: TypeAlias = Any
_Class = TypeVar("_Class", bound="type[Optimizer]")

# Names of arguments in other libraries.
_OTHER_NAMES = {
    "lr": "learning_rate",
    "weight_decay": "wd",
    "betas": "beta1",
    "eps": "epsilon",
    "alpha": "gamma1",
}
_OVERWRITTEN = (
    "learning rate from ``lr_scheduler`` has been overwritten by ``learning_rate`` in optimizer."
)


class Multiplied(Protocol):
    """The attributes of a parameter that an optimizer reads."""

    lr_mult: float
    wd_mult: float


class OptimizerArgs(TypedDict, total=False):
    """Arguments of every optimizer, except the learning rate."""

    rescale_grad: float
    param_idx2name: Mapping[Index, str] | None
    wd: float
    clip_gradient: float | None
    lr_scheduler: LRScheduler | None
    sym: Symbol | None
    begin_num_update: int
    multi_precision: bool
    param_dict: Mapping[Index, Multiplied] | None


class RatedArgs(OptimizerArgs, total=False):
    """The same with the learning rate, for optimizers without a specific default."""

    learning_rate: float | None


class Optimizer:
    """Base of all optimizers. A subclass overrides ``create_state`` and ``update``.

    Parameters
    ----------
    rescale_grad : float
        Factor of gradients; a Trainer sets it to 1 / batch size.
    param_idx2name : dict, optional
        Names of parameters by index, for ``set_lr_mult`` and ``set_wd_mult``.
    wd : float
        Weight decay: its product with the weight is added to the gradient.
    clip_gradient : float, optional
        Bound of each gradient element after rescaling.
    learning_rate : float, optional
        Learning rate; by default 0.01, or that of the scheduler.
    lr_scheduler : LRScheduler, optional
        Schedule of the learning rate.
    sym : Symbol, optional
        Graph whose variables have attributes ``lr_mult`` and ``wd_mult``.
    begin_num_update : int
        Number of updates before the first.
    multi_precision : bool
        Whether a float32 copy of float16 weights is updated.
    param_dict : dict, optional
        Parameters by index, whose ``lr_mult`` and ``wd_mult`` apply.

    Examples
    --------
    >>> mx.optimizer.create("sgd", learning_rate=0.1).learning_rate
    0.1
    """

    opt_registry: ClassVar[dict[str, type[Optimizer]]] = {}

    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: Mapping[Index, str] | None = None,
        wd: float = 0.0,
        clip_gradient: float | None = None,
        learning_rate: float | None = None,
        lr_scheduler: LRScheduler | None = None,
        sym: Symbol | None = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: Mapping[Index, Multiplied] | None = None,
        **unknown: NoReturn,
    ) -> None:
        require_no_more(self, unknown)
        self._require_numbers(rescale_grad=rescale_grad, wd=wd)
        if learning_rate is not None:
            self._require_numbers(learning_rate=learning_rate)
        self.rescale_grad = rescale_grad
        if lr_scheduler is not None and not callable(lr_scheduler):
            raise TypeError(
                "lr_scheduler is a function of the number of updates, such as "
                f"mx.lr_scheduler.FactorScheduler(1000, 0.9), got {lr_scheduler!r}; "
                "learning_rate is a number"
            )
        self.lr_scheduler = lr_scheduler
        if lr_scheduler is None and learning_rate is None:
            learning_rate = 0.01
        self.lr = learning_rate
        base = getattr(lr_scheduler, "base_lr", None)  # a plain function has none
        if lr_scheduler is not None and learning_rate not in (None, base):
            print(_OVERWRITTEN)
            lr_scheduler.base_lr = learning_rate
        self.wd = wd
        self.lr_mult: dict[Index, float] = {}
        self.wd_mult: dict[Index, float] = {}
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        self._all_index_update_counts: dict[int, dict[Index, int]] = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.aggregate_num = 0
        names = {} if param_idx2name is None else param_idx2name
        assert isinstance(names, dict), "param_idx2name should be a dict of param indexes to names."
        self.idx2name: dict[Index, str] = dict(names)
        self.sym_info = () if sym is None else (sym.attr_dict(), sym.list_arguments())
        self.param_dict = param_dict or {}
        self.allow_np_array = False
        self.set_lr_mult({})
        self.set_wd_mult({})

    # ---- by name ------------------------------------------------------------------------------

    @staticmethod
    def register(klass: _Class) -> _Class:
        """Register a subclass for ``create`` under its name in lower case."""
        assert isinstance(klass, type)
        known = Optimizer.opt_registry.get(klass.__name__.lower())
        if known is not None:
            warn(
                f"WARNING: New optimizer {klass.__module__}.{klass.__name__} is overriding "
                f"existing optimizer {known.__module__}.{known.__name__}"
            )
        Optimizer.opt_registry[klass.__name__.lower()] = klass
        return klass

    @staticmethod
    @public
    def create_optimizer(name: str, **kwargs: Any) -> Optimizer:
        """Make an optimizer by its name, in any case. Raises ValueError for an unknown one."""
        if not isinstance(name, str):
            way = f": write {name.__name__}()" if isinstance(name, type) else ""
            raise AttributeError(
                f"an optimizer is a name such as 'sgd' or an object, got {name!r}{way}"
            )
        if name.lower() not in Optimizer.opt_registry:
            hint = did_you_mean(name, Optimizer.opt_registry)
            raise ValueError(f"Cannot find optimizer {name}{hint}")
        kind = Optimizer.opt_registry[name.lower()]
        refuse_synonyms(kind, kwargs, _OTHER_NAMES)
        return kind(**kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(learning_rate={self.learning_rate:g}, wd={self.wd:g})"

    # ---- to override --------------------------------------------------------------------------

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The state of this weight for ``update``: an array, a tuple of arrays, or None."""
        return None

    def create_state_multi_precision(self, index: Index, weight: NDArray) -> State:
        """The same; for float16 weights with ``multi_precision`` a float32 copy and its state."""
        if weight.dtype == np.float16:
            if self.multi_precision:
                copy = weight.astype(np.float32)
                return copy, self.create_state(index, copy)
            _warn_of_half("the optimizer")
        return self.create_state(index, weight)

    def update(self, index: Indices, weight: Weights, grad: Weights, state: State) -> None:
        """Update a weight and its state, or those of a list of indices, in place."""
        raise NotImplementedError

    def update_multi_precision(
        self, index: Indices, weight: Weights, grad: Weights, state: State
    ) -> None:
        """:meth:`update`, on the float32 copy of a float16 weight."""
        if not isinstance(index, (list, tuple)):
            self._update_one(index, weight, grad, state)
            return
        for one in zip(index, weight, grad, state):
            self._update_one(*one)

    def _update_one(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        if self.multi_precision and weight.dtype == np.float16:
            copy, own = state
            self.update(index, copy, grad.astype(np.float32), own)
            weight[:] = copy.astype(weight.dtype)
        else:
            self.update(index, weight, grad, state)

    # ---- learning rates -----------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The current rate; with a scheduler, its rate at the current number of updates."""
        if self.lr_scheduler is not None:
            return self.lr_scheduler(self.num_update)
        assert self.lr is not None
        return self.lr

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate. Raises UserWarning if there is a scheduler."""
        if self.lr_scheduler is not None:
            raise UserWarning(
                "LRScheduler of the optimizer has already been defined. Note that "
                "set_learning_rate can mutate the value of the learning rate of the optimizer "
                "only when the LRScheduler of the optimizer is undefined."
            )
        self.lr = lr

    def set_lr_scale(self, args_lrscale: Mapping[Index, float]) -> None:
        """Raises DeprecationWarning: use :meth:`set_lr_mult`."""
        raise DeprecationWarning("Use set_lr_mult instead.")

    def set_lr_mult(self, args_lr_mult: Mapping[Index, float]) -> None:
        """Set factors of the learning rate by index or name; they override those of the symbol."""
        self.lr_mult = {**self._multipliers("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: Mapping[Index, float]) -> None:
        """Set factors of the weight decay by index or name; they override those of the symbol.

        The default factor is 0 for a named parameter that is neither a weight nor a gamma.
        """
        exempt: dict[Index, float] = {
            name: 0.0 for name in self.idx2name.values() if not self._decays(name)
        }
        self.wd_mult = {**exempt, **self._multipliers("__wd_mult__"), **args_wd_mult}

    def _decays(self, name: str) -> bool:
        return name.endswith(("_weight", "_gamma"))

    def _multipliers(self, attribute: str) -> dict[Index, float]:
        """Factors from the attributes of the symbol's arguments."""
        if not self.sym_info:
            return {}
        attrs, names = self.sym_info
        return {
            name: float(attrs[name][attribute])
            for name in names
            if attribute in attrs.get(name, {})
        }

    def _get_lrs(self, indices: Sequence[Index]) -> list[float]:
        """The learning rate of each index at the current number of updates."""
        rate = self.learning_rate
        return [rate * self._multiplier(i, "lr_mult") for i in indices]

    def _get_wds(self, indices: Sequence[Index]) -> list[float]:
        """The weight decay of each index."""
        return [self.wd * self._multiplier(i, "wd_mult") for i in indices]

    def _multiplier(self, index: Index, which: str) -> float:
        """The factor of a parameter, by default that of its index, then that of its name."""
        if index in self.param_dict:
            return getattr(self.param_dict[index], which)
        by_index = getattr(self, which)
        if index in by_index:
            return by_index[index]
        return by_index.get(self.idx2name[index], 1.0) if index in self.idx2name else 1.0

    def _get_lr(self, index: Index) -> float:
        return self._get_lrs([index])[0]

    def _get_wd(self, index: Index) -> float:
        return self._get_wds([index])[0]

    # ---- counts -------------------------------------------------------------------------------

    def _set_current_context(self, device_id: int) -> None:
        """Select the counts of this device: an index is updated once on every device."""
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    def _update_count(self, index: Indices) -> None:
        counts = self._index_update_count
        for i in index if isinstance(index, (list, tuple)) else [index]:
            counts[i] = counts.get(i, self.begin_num_update) + 1
            self.num_update = max(counts[i], self.num_update)

    # ---- pickles ------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, object]:
        state = self.__dict__.copy()
        del state["param_dict"]  # a Trainer sets it after loading
        return state

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__ = dict(state)
        self.param_dict = {}

    # ---- for optimizers of this package -------------------------------------------------------

    def _require_numbers(self, **values: object) -> None:
        """Raise TypeError for None and strings, of which operators would make other numbers."""
        for name, value in values.items():
            if value is None or isinstance(value, str):
                raise TypeError(f"{name} of {type(self).__name__} is a number, got {value!r}")

    def _scales(self) -> Attrs:
        """Scale and bound of gradients as attributes of operators; they treat a bound of 0 as
        none."""
        scales: dict[str, object] = {"rescale_grad": self.rescale_grad}
        if self.clip_gradient:
            scales["clip_gradient"] = self.clip_gradient
        return scales

    def _bounded(self, grad: NDArray) -> NDArray:
        """The gradient clipped to ``clip_gradient``; a bound of 0 is a bound."""
        if self.clip_gradient is None:
            return grad
        return grad.clip(-self.clip_gradient, self.clip_gradient)


register = Optimizer.register
create: Callable[..., Optimizer] = Optimizer.create_optimizer


class PerWeight(Optimizer):
    """An optimizer whose rule updates one weight at a time: it overrides ``step``."""

    # Whether MXNet's optimizer calls _get_lrs and _get_wds for rates, or _get_lr and _get_wd: a
    # subclass of a program overrides those that are called.
    has_rates_of_lists: ClassVar[bool] = False

    @public
    def update(self, index: Indices, weight: Weights, grad: Weights, state: State) -> None:
        """Count the update, then update the weight and its state, or those of a list."""
        self._step_each(index, weight, grad, state)

    def _step_each(self, index: Indices, weight: Weights, grad: Weights, state: State) -> None:
        one = not isinstance(index, (list, tuple))
        indices = [index] if one else list(index)
        lists = ([weight], [grad], [state]) if one else (weight, grad, state)
        self._update_count(indices)
        for i, w, g, s, (lr, wd) in zip(indices, *lists, self._rates(indices)):
            self.step(i, w, g, s, lr, wd)

    def _rates(self, indices: list[Index]) -> list[tuple[float, float]]:
        """Learning rate and weight decay of each index."""
        if not self.has_rates_of_lists:
            return [(self._get_lr(i), self._get_wd(i)) for i in indices]
        lrs, wds = self._get_lrs(indices), self._get_wds(indices)
        if not len(lrs) == len(wds) == len(indices):
            raise ValueError(
                f"{type(self).__name__} has {len(lrs)} learning rates and {len(wds)} weight decays "
                f"for {len(indices)} weights: _get_lrs and _get_wds return one for each index"
            )
        return list(zip(lrs, wds))

    def step(
        self, index: Index, weight: NDArray, grad: NDArray, state: State, lr: float, wd: float
    ) -> None:
        """To override: update one weight and its state with this learning rate and weight decay."""
        raise NotImplementedError


def zeros_like(weight: NDArray) -> NDArray:
    """Zeros of a weight's shape and type, on its context."""
    return zeros(weight.shape, weight.context, weight.dtype, weight.stype)


class WithMomentum(PerWeight):
    """An optimizer whose state is the running sum of its steps, unless ``momentum`` is 0."""

    momentum: float

    @property
    def positive_momentum(self) -> float:
        """The momentum for operators: MXNet passes only positive values."""
        return self.momentum if self.momentum > 0 else 0.0

    def create_state(self, index: Index, weight: NDArray) -> NDArray | None:
        """The momentum, or None without."""
        return zeros_like(weight) if self.momentum != 0.0 else None


class WithMoments(PerWeight):
    """An optimizer with running means of gradients and of their squares, like Adam."""

    def __init__(
        self,
        learning_rate: float,
        beta1: float,
        beta2: float,
        epsilon: float,
        **kwargs: Unpack[OptimizerArgs],
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def create_state(self, index: Index, weight: NDArray) -> State:
        """Mean and variance."""
        return zeros_like(weight), zeros_like(weight)


def _warn_of_half(whose: str) -> None:
    warn(
        "Accumulating with float16 in optimizer can lead to poor accuracy or slow convergence. "
        f"Consider using multi_precision=True option of {whose}"
    )


class WithCopy(PerWeight):
    """An optimizer with operators that update the float32 copy of a float16 weight themselves.

    Its state is then a pair of the ordinary state and the copy.
    """

    def create_state_multi_precision(self, index: Index, weight: NDArray) -> State:
        """The state; for float16 weights with ``multi_precision`` a pair with a float32 copy."""
        if weight.dtype == np.float16:
            if self.multi_precision:
                copy = weight.astype(np.float32)
                return self.create_state(index, copy), copy
            _warn_of_half(f"the {type(self).__name__} optimizer")
        return self.create_state(index, weight)

    def update_multi_precision(
        self, index: Indices, weight: Weights, grad: Weights, state: State
    ) -> None:
        """Update the weights; the state shows whether there is a copy.

        As in MXNet, an ``update`` that a subclass defines is not called.
        """
        self._step_each(index, weight, grad, state)

    def _has_copy(self, weight: NDArray) -> bool:
        return self.multi_precision and weight.dtype == np.float16

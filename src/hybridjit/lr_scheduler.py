"""``mx.lr_scheduler``: learning rates as functions of the number of updates.

Input: ``scheduler(num_update)``, with non-decreasing numbers. Output: the learning rate. A
scheduler has a state: it can only advance.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import cos, pi

from ._core.frames import public
from .errors import suggesting

__all__ = [
    "CosineScheduler",
    "FactorScheduler",
    "LRScheduler",
    "MultiFactorScheduler",
    "PolyScheduler",
]


class LRScheduler:
    """Base of schedules: warm-up, then the schedule of a subclass.

    Called with the number of updates, a schedule returns the learning rate.

    Parameters
    ----------
    base_lr : float
        Learning rate at the beginning of the schedule.
    warmup_steps : int
        Number of updates before the schedule begins.
    warmup_begin_lr : float
        Learning rate of the first update.
    warmup_mode : str
        linear rises to ``base_lr``; constant keeps ``warmup_begin_lr``.

    Raises
    ------
    ValueError
        If ``warmup_begin_lr`` exceeds ``base_lr``, and for another mode.

    Examples
    --------
    >>> schedule = mx.lr_scheduler.FactorScheduler(step=10, warmup_steps=4, base_lr=0.4)
    >>> [round(schedule(update), 4) for update in (0, 2, 4)]
    [0.0, 0.2, 0.4]
    """

    def __init__(
        self,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        assert isinstance(warmup_steps, int), f"warmup_steps is an integer, got {warmup_steps!r}"
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_final_lr = base_lr
        self.warmup_begin_lr = warmup_begin_lr
        if warmup_begin_lr > base_lr:
            raise ValueError("Base lr has to be higher than warmup_begin_lr")
        if warmup_steps < 0:
            raise ValueError("Warmup steps has to be positive or 0")
        if warmup_mode not in ("linear", "constant"):
            raise ValueError("Supports only linear and constant modes of warmup")
        self.warmup_mode = warmup_mode

    def get_warmup_lr(self, num_update: int) -> float:
        """The rate at this update, which is part of the warm-up."""
        assert num_update < self.warmup_steps
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = self.warmup_final_lr - self.warmup_begin_lr
        return self.warmup_begin_lr + rise * float(num_update) / float(self.warmup_steps)

    def __call__(self, num_update: int) -> float:
        """To override: the rate at this update."""
        raise NotImplementedError("__call__ method must be overridden.")


class FactorScheduler(LRScheduler):
    """Multiply the learning rate by a factor after every ``step`` updates.

    Parameters
    ----------
    step : int
        Number of updates at one rate.
    factor : float
        Factor, at most 1.
    stop_factor_lr : float
        Smallest learning rate.
    base_lr : float
        Learning rate at the beginning of the schedule.
    warmup_steps : int
        Number of updates before the schedule begins.
    warmup_begin_lr : float
        Learning rate of the first update.
    warmup_mode : str
        linear rises to ``base_lr``; constant keeps ``warmup_begin_lr``.

    Raises
    ------
    ValueError
        For a step below 1, and a factor above 1.

    Examples
    --------
    >>> schedule = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=0.8)
    >>> [round(schedule(update), 4) for update in (1, 3, 5)]
    [0.8, 0.4, 0.2]
    """

    @public
    def __init__(
        self,
        step: int,
        factor: float = 1,
        stop_factor_lr: float = 1e-8,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        _check_step(step)
        _check_factor(factor)
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr
        self.count = 0

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore attributes. Raises ValueError for a step below 1, which would loop forever."""
        self.__dict__.update(state)
        _check_step(self.step)

    def __call__(self, num_update: int) -> float:
        """The rate at this update, counted from the first one, including the warm-up."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr *= self.factor
            if self.base_lr < self.stop_factor_lr:
                self.base_lr = self.stop_factor_lr
                logging.info(
                    "Update[%d]: now learning rate arrived at %0.5e, will not change in the future",
                    num_update,
                    self.base_lr,
                )
            else:
                _log_change(num_update, self.base_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiply the learning rate by a factor after given updates.

    Parameters
    ----------
    step : list of int
        Increasing numbers of updates.
    factor : float
        Factor, at most 1.
    base_lr : float
        Learning rate at the beginning of the schedule.
    warmup_steps : int
        Number of updates before the schedule begins.
    warmup_begin_lr : float
        Learning rate of the first update.
    warmup_mode : str
        linear rises to ``base_lr``; constant keeps ``warmup_begin_lr``.

    Raises
    ------
    ValueError
        For steps below 1 or not increasing, and a factor above 1.

    Examples
    --------
    >>> schedule = mx.lr_scheduler.MultiFactorScheduler(step=[2, 4], factor=0.5, base_lr=0.8)
    >>> [round(schedule(update), 4) for update in (1, 3, 5)]
    [0.8, 0.4, 0.2]
    """

    @public
    def __init__(
        self,
        step: Sequence[int],
        factor: float = 1,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        assert isinstance(step, list) and step, f"step is a list of counts of updates, got {step!r}"
        if any(later <= earlier for earlier, later in zip(step, step[1:])):
            raise ValueError("Schedule step must be an increasing integer list")
        _check_step(step[0])
        _check_factor(factor)
        self.step = step
        self.cur_step_ind = 0
        self.factor = factor
        self.count = 0

    def __call__(self, num_update: int) -> float:
        """The rate at this update."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            _log_change(num_update, self.base_lr)
        return self.base_lr


class _Decaying(LRScheduler):
    """Decay from ``base_lr`` to ``final_lr`` at ``max_update``, then constant."""

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        assert isinstance(max_update, int), f"max_update is an integer, got {max_update!r}"
        if max_update < 1:
            raise ValueError("maximum number of updates must be strictly positive")
        self.base_lr_orig = base_lr
        self.max_update = max_update
        self.final_lr = final_lr
        self.max_steps = max_update - warmup_steps

    def _share(self, done: float) -> float:
        """The remaining fraction of the decay after the fraction ``done`` of the updates."""
        raise NotImplementedError

    def __call__(self, num_update: int) -> float:
        """The rate at this update."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            done = float(num_update - self.warmup_steps) / float(self.max_steps)
            self.base_lr = self.final_lr + (self.base_lr_orig - self.final_lr) * self._share(done)
        return self.base_lr


class PolyScheduler(_Decaying):
    """Decay by a power of the remaining fraction of the updates.

    Parameters
    ----------
    max_update : int
        Number of updates until ``final_lr``.
    base_lr : float
        Learning rate at the beginning of the schedule.
    pwr : int
        Exponent.
    final_lr : float
        Learning rate at the end.
    warmup_steps : int
        Number of updates before the schedule begins.
    warmup_begin_lr : float
        Learning rate of the first update.
    warmup_mode : str
        linear rises to ``base_lr``; constant keeps ``warmup_begin_lr``.

    Raises
    ------
    ValueError
        For a ``max_update`` below 1.

    Examples
    --------
    >>> schedule = mx.lr_scheduler.PolyScheduler(max_update=4, base_lr=0.8)
    >>> [round(schedule(update), 4) for update in (0, 2, 4)]
    [0.8, 0.2, 0.0]
    """

    @public
    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        pwr: int = 2,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def _share(self, done: float) -> float:
        return pow(1 - done, self.power)


class CosineScheduler(_Decaying):
    """Decay along half a period of the cosine.

    Parameters
    ----------
    max_update : int
        Number of updates until ``final_lr``.
    base_lr : float
        Learning rate at the beginning of the schedule.
    final_lr : float
        Learning rate at the end.
    warmup_steps : int
        Number of updates before the schedule begins.
    warmup_begin_lr : float
        Learning rate of the first update.
    warmup_mode : str
        linear rises to ``base_lr``; constant keeps ``warmup_begin_lr``.

    Raises
    ------
    ValueError
        For a ``max_update`` below 1.

    Examples
    --------
    >>> schedule = mx.lr_scheduler.CosineScheduler(max_update=4, base_lr=0.8)
    >>> [round(schedule(update), 4) for update in (0, 2, 4)]
    [0.8, 0.4, 0.0]
    """

    def _share(self, done: float) -> float:
        return (1 + cos(pi * done)) / 2


def _check_step(step: float) -> None:
    if step < 1:
        raise ValueError("Schedule step must be greater or equal than 1 round")


def _check_factor(factor: float) -> None:
    if factor > 1.0:
        raise ValueError("Factor must be no more than 1 to make lr reduce")


def _log_change(num_update: int, rate: float) -> None:
    logging.info("Update[%d]: Change learning rate to %0.5e", num_update, rate)


__getattr__ = suggesting(__name__, "SCHEDULES")

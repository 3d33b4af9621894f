"""Handlers of the training loop: updates, metrics, validation, and stopping.

Input: calls at the events of :mod:`.events`. Output: weights, metrics, or a request to stop.
Logging and checkpoints are in separate modules; this module has all names, as in MXNet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....metric import CompositeEvalMetric, EvalMetric
from ....metric import Loss as LossMetric
from ....nd import NDArray
from ...data import DataLoader
from .checkpoint import CheckpointHandler
from .events import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    Handlers,
    TrainBegin,
    TrainEnd,
)
from .events import EventHandler as EventHandler  # MXNet has these two here
from .events import _check_event_handlers as _check_event_handlers
from .log_lines import LoggingHandler
from .monitoring import comparison, monitored, worst
from .state import EstimatorState
from .utils import Metrics, _check_metrics

__all__ = [
    "BatchBegin",
    "BatchEnd",
    "CheckpointHandler",
    "EarlyStoppingHandler",
    "EpochBegin",
    "EpochEnd",
    "GradientUpdateHandler",
    "LoggingHandler",
    "MetricHandler",
    "StoppingHandler",
    "TrainBegin",
    "TrainEnd",
    "ValidationHandler",
]


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Ends training after the number of epochs or batches of ``fit``."""

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None) -> None:
        self._start(max_epoch, max_batch)

    def _start(self, max_epoch: int | None, max_batch: int | None) -> None:
        self.max_epoch = max_epoch
        self.max_batch = max_batch
        self.current_batch = 0
        self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        self._start(estimator.max_epoch, estimator.max_batch)

    def batch_end(self, estimator: EstimatorState, *args: object, **kwargs: object) -> bool:
        self.current_batch += 1
        self.stop_training |= self.current_batch == self.max_batch
        return self.stop_training

    def epoch_end(self, estimator: EstimatorState, *args: object, **kwargs: object) -> bool:
        self.current_epoch += 1
        self.stop_training |= self.current_epoch == self.max_epoch
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Resets metrics at the start of an epoch, and updates them with every batch.

    Metrics of losses are updated with losses, others with labels and predictions.
    """

    def __init__(self, metrics: Metrics, priority: float = -1000) -> None:
        self.metrics = _check_metrics(metrics)
        self.priority = priority  # before handlers that read metrics

    def epoch_begin(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator: EstimatorState, *args: object, **kwargs: Any) -> None:
        for metric in self.metrics:
            if isinstance(metric, LossMetric):
                metric.update([], kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Calls ``eval_fn(val_data=, batch_axis=, event_handlers=)`` at every n-th epoch or batch.

    A period of None means never.
    """

    def __init__(
        self,
        val_data: DataLoader,
        eval_fn: Callable[..., object],
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        priority: float = -1000,
        event_handlers: Handlers = None,
    ) -> None:
        self.val_data = val_data
        self.eval_fn = eval_fn
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = 0
        self.current_epoch = 0
        self.priority = priority  # before handlers that read validation metrics
        self.event_handlers = event_handlers

    def train_begin(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        self.current_batch = 0
        self.current_epoch = 0

    def batch_end(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        self.current_batch += 1
        self._evaluate_every(self.batch_period, self.current_batch, estimator)

    def epoch_end(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        self.current_epoch += 1
        self._evaluate_every(self.epoch_period, self.current_epoch, estimator)

    def _evaluate_every(self, period: int | None, done: int, estimator: EstimatorState) -> None:
        if period and done % period == 0:
            self.eval_fn(
                val_data=self.val_data,
                batch_axis=estimator.batch_axis,
                event_handlers=self.event_handlers,
            )


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Ends training if ``monitor`` has not improved for ``patience`` epochs.

    An improvement exceeds the best value (initially ``baseline``) by more than ``min_delta``.
    ``mode`` is "min", "max", or "auto", which is "max". Raises ValueError if ``monitor`` is not
    a metric, or is a composite one.
    """

    def __init__(
        self,
        monitor: EvalMetric,
        min_delta: float = 0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
    ) -> None:
        _require_simple(monitor)
        self.monitor = monitor
        self.baseline = baseline
        self.patience = patience
        self.monitor_op = comparison(monitor, mode, "EarlyStopping")
        self.min_delta = min_delta if worst(self.monitor_op) < 0 else -min_delta
        self._start()

    def _start(self) -> None:
        self.wait = 0
        self.stopped_epoch = 0
        self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        self._start()
        self.best = worst(self.monitor_op) if self.baseline is None else self.baseline

    def epoch_end(self, estimator: EstimatorState, *args: object, **kwargs: object) -> bool:
        if found := monitored(self.monitor):
            self._judge(found[1])
        self.current_epoch += 1
        return self.stop_training

    def _judge(self, value: float) -> None:
        if self.monitor_op(value - self.min_delta, self.best):
            self.best = value
            self.wait = 0
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.stopped_epoch = self.current_epoch
            self.stop_training = True

    def train_end(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        if self.stopped_epoch > 0:
            estimator.logger.info(
                "[Epoch %d] EarlyStoppingHanlder: early stopping due to %s not improving",
                self.stopped_epoch,
                self.monitor.get()[0],
            )


class GradientUpdateHandler(BatchEnd):
    """Updates the weights; gradients are divided by the number of losses."""

    def __init__(self, priority: float = -2000) -> None:
        self.priority = priority  # before all other handlers

    def batch_end(self, estimator: EstimatorState, *args: object, **kwargs: Any) -> None:
        loss = kwargs["loss"]
        parts = [loss] if isinstance(loss, NDArray) else loss
        estimator.trainer.step(sum(part.shape[0] for part in parts))


def _require_simple(monitor: object) -> None:
    if not isinstance(monitor, EvalMetric):
        raise ValueError(
            "Please provide one of the metric objects from estimator.train_metrics and "
            "estimator.val_metrics as monitor."
        )
    if isinstance(monitor, CompositeEvalMetric):
        raise ValueError(
            "CompositeEvalMetric is not supported for EarlyStoppingHandler, please specify a "
            "simple metric instead."
        )

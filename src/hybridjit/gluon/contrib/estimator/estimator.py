"""The training loop of a network, with handlers that are called at its events.

Input: a network, a loss, metrics, and batches from a DataLoader. Output: the trained parameters of
the network; handlers write logs and checkpoints.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Collection, Sequence
from typing import Any

from ...._core.frames import warn
from ....context import Context, cpu, gpu, num_gpus
from ....initializer import Initializer
from ....metric import EvalMetric
from ....metric import Loss as LossMetric
from ...block import Block
from ...data import DataLoader
from ...loss import Loss
from ...trainer import Trainer
from .batch_processor import BatchProcessor, Parts, split_pair
from .event_handler import (
    GradientUpdateHandler,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    ValidationHandler,
)
from .events import EventHandler, Handlers, Moments, _check_event_handlers
from .state import EstimatorState
from .utils import Metrics, _check_handler_metric_ref, _check_metrics, _suggest_metric_for_loss

__all__ = ["Estimator"]

_NO_TRAINER = "No trainer specified, default SGD optimizer with learning rate 0.001 is used."
_INITIALIZED = (
    "Network already fully initialized, skipping initialization. You don't need to pass "
    "initializer if you already initialized your net. You can use "
    "net.initialize(init=your_initializer, force_reinit=True) to force re-initialize."
)
_NO_LOADER = (
    "Estimator only support input as Gluon DataLoader. Alternatively, you can transform your "
    "DataIter or any NDArray into Gluon DataLoader. Refer to gluon.data.DataLoader"
)
_BOTH_OR_NONE = (
    "Fit only support exactly one type of iteration, train by number of epochs or number of "
    "batches. Please specify one and only one of: epochs or batches."
)


class Estimator(EstimatorState):
    """Trains ``net`` to minimise ``loss``, and evaluates ``val_net`` with ``val_loss``.

    Defaults: ``train_metrics`` are the loss and a suitable metric, ``val_metrics`` copies of them,
    ``val_net`` and ``val_loss`` those of training, the trainer is SGD with learning rate 0.001, the
    context is the CPU. Names of metrics get the prefix "training" or "validation". An uninitialised
    network is initialised. ``batch_processor`` processes the batches. ``logger`` writes to stdout.
    Raises ValueError for arguments of other types, AssertionError for an unavailable device.
    """

    def __init__(
        self,
        net: Block,
        loss: Loss,
        train_metrics: Metrics = None,
        val_metrics: Metrics = None,
        initializer: Initializer | None = None,
        trainer: Trainer | None = None,
        context: Context | list[Context] | None = None,
        val_net: Block | None = None,
        val_loss: Loss | None = None,
        batch_processor: BatchProcessor | None = None,
    ) -> None:
        self.net = net
        self.loss = _checked_loss(loss)
        self._train_metrics = _check_metrics(train_metrics) or _default_metrics(loss)
        for metric in self._train_metrics:
            metric.name = f"training {metric.name}"
        self._val_metrics = _check_metrics(val_metrics) or copy.deepcopy(self._train_metrics)
        for metric in self._val_metrics:
            metric.name = _validation_name(metric.name)
        self.val_loss = self.loss if val_loss is None else _checked_loss(val_loss)
        self.val_net = net if val_net is None else val_net
        self.logger = logging.Logger("Estimator", logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = _checked_contexts(context)
        self._initialize(initializer)
        self.trainer = self._checked_trainer(trainer)
        self.batch_processor = _checked_processor(batch_processor)

    def _initialize(self, initializer: Initializer | None) -> None:
        if self._is_initialized():
            if initializer:
                warn(_INITIALIZED)
        elif initializer:
            self.net.initialize(init=initializer, ctx=self.context)
        else:
            self.net.initialize(ctx=self.context)

    def _is_initialized(self) -> bool:
        try:
            for param in self.net.collect_params().values():
                param.list_ctx()
        except RuntimeError:
            return False
        return True

    def _checked_trainer(self, trainer: Trainer | None) -> Trainer:
        if not trainer:
            warn(_NO_TRAINER)
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise ValueError(
                f"Trainer must be a Gluon Trainer instance, refer to gluon.Trainer:{trainer}"
            )
        return trainer

    def _get_data_and_label(
        self, batch: Sequence[object], ctx: list[Context], batch_axis: int = 0
    ) -> tuple[Parts, Parts]:
        return split_pair(batch, ctx, batch_axis)

    # ---- loops --------------------------------------------------------------------------------

    def evaluate(
        self, val_data: DataLoader, batch_axis: int = 0, event_handlers: Handlers = None
    ) -> None:
        """Update ``val_metrics`` over ``val_data``; handlers of metrics and logs are added.

        Raises ValueError for other data than a DataLoader, and for handlers of other metrics.
        """
        _require_loader(val_data)
        for metric in self.val_metrics:
            metric.reset()
        handlers = self._prepare_default_validation_handlers(event_handlers)
        moments = self._categorize_handlers(handlers)
        for starting in moments.epoch_begin:
            starting.epoch_begin(self)
        for batch in val_data:
            self._run_batch(self.batch_processor.evaluate_batch, batch, batch_axis, moments)
        for ending in moments.epoch_end:
            ending.epoch_end(self)

    def fit(
        self,
        train_data: DataLoader,
        val_data: DataLoader | None = None,
        epochs: int | None = None,
        event_handlers: Handlers = None,
        batches: int | None = None,
        batch_axis: int = 0,
    ) -> None:
        """Train for a number of epochs, or of batches, or until a handler stops training.

        Default handlers for updates, metrics, validation, logging and stopping are added for
        missing kinds; handlers with lower ``priority`` are called first. Raises ValueError for
        other data than a DataLoader, for both numbers or none, and for handlers of metrics that are
        not the estimator's.
        """
        _require_loader(train_data)
        if bool(epochs) == bool(batches):
            raise ValueError(_BOTH_OR_NONE)
        self.max_epoch = epochs
        self.max_batch = batches
        self.batch_axis = batch_axis
        handlers = self._prepare_default_handlers(val_data, event_handlers)
        moments = self._categorize_handlers(handlers)
        for starting in moments.train_begin:
            starting.train_begin(self)
        while not self._run_epoch(train_data, batch_axis, moments):
            pass
        for ending in moments.train_end:
            ending.train_end(self)

    def _run_epoch(self, train_data: DataLoader, batch_axis: int, moments: Moments) -> bool:
        """Train one epoch; return whether a handler stops training after it."""
        for starting in moments.epoch_begin:
            starting.epoch_begin(self)
        for batch in train_data:
            if self._run_batch(self.batch_processor.fit_batch, batch, batch_axis, moments):
                break
        return _any_of([handler.epoch_end(self) for handler in moments.epoch_end])

    def _run_batch(self, process: Any, batch: Any, batch_axis: int, moments: Moments) -> bool:
        """Train one batch; return whether a handler ends the epoch after it."""
        for starting in moments.batch_begin:
            starting.batch_begin(self, batch=batch)
        _, label, pred, loss = process(self, batch, batch_axis)
        found = {"batch": batch, "pred": pred, "label": label, "loss": loss}
        return _any_of([handler.batch_end(self, **found) for handler in moments.batch_end])

    # ---- handlers -----------------------------------------------------------------------------

    def _prepare_default_handlers(
        self, val_data: DataLoader | None, event_handlers: Handlers
    ) -> list[EventHandler]:
        given = _check_event_handlers(event_handlers)
        defaults: list[EventHandler] = [StoppingHandler(self.max_epoch, self.max_batch)]
        if _lacks(given, GradientUpdateHandler):
            defaults.append(GradientUpdateHandler())
        if _lacks(given, MetricHandler):
            defaults.append(MetricHandler(self.train_metrics))
        if val_data and _lacks(given, ValidationHandler):
            defaults.append(ValidationHandler(val_data, self.evaluate))
        if _lacks(given, LoggingHandler):
            defaults.append(LoggingHandler(metrics=self.train_metrics))
        return _in_order(given, defaults, [*self.train_metrics, *self.val_metrics])

    def _prepare_default_validation_handlers(self, event_handlers: Handlers) -> list[EventHandler]:
        given = _check_event_handlers(event_handlers)
        defaults: list[EventHandler] = []
        if _lacks(given, MetricHandler):
            defaults.append(MetricHandler(self.val_metrics))
        if _lacks(given, LoggingHandler):
            defaults.append(LoggingHandler(metrics=self.val_metrics))
        return _in_order(given, defaults, self.val_metrics)

    def _categorize_handlers(self, event_handlers: list[EventHandler]) -> Moments:
        return Moments.of(event_handlers)


def _lacks(handlers: list[EventHandler], kind: type[EventHandler]) -> bool:
    return not any(isinstance(handler, kind) for handler in handlers)


def _in_order(
    given: list[EventHandler], defaults: list[EventHandler], known: Collection[EvalMetric]
) -> list[EventHandler]:
    """All handlers by priority, the user's first. A mixture may only use known metrics."""
    handlers = given + defaults
    if given and defaults:
        for handler in handlers:
            _check_handler_metric_ref(handler, known)
    return sorted(handlers, key=lambda handler: getattr(handler, "priority", 0))


def _any_of(answers: list[bool | None]) -> bool:
    """Whether any answer is true; a list, because every handler must be called."""
    return any(answers)


def _checked_loss(loss: object) -> Loss:
    if not isinstance(loss, Loss):
        raise ValueError(f"loss must be a Loss, refer to gluon.loss.Loss:{loss}")
    return loss


def _default_metrics(loss: Loss) -> list[EvalMetric]:
    suggested = _suggest_metric_for_loss(loss)
    return [*([suggested] if suggested else []), LossMetric(loss.name.rstrip("1234567890"))]


def _validation_name(name: str) -> str:
    return name.replace("training", "validation") if "training" in name else f"validation {name}"


def _checked_contexts(context: object) -> list[Context]:
    available = [gpu(i) for i in range(num_gpus())]
    if not context:
        return available[:1] or [cpu()]
    contexts = [context] if isinstance(context, Context) else context
    if not isinstance(contexts, list) or not all(isinstance(c, Context) for c in contexts):
        raise ValueError(
            "context must be a Context or a list of Context, for example mx.cpu() or "
            f"[mx.gpu(0), mx.gpu(1)], refer to mxnet.Context:{context}"
        )
    for ctx in contexts:
        assert ctx in available or str(ctx).startswith("cpu"), (
            f"{ctx} is not available, please make sure your context is in one of: mx.cpu(), "
            f"{', '.join(map(str, available))}"
        )
    return contexts


def _checked_processor(processor: Any) -> BatchProcessor:
    if processor is None:
        return BatchProcessor()
    for method in ("fit_batch", "evaluate_batch"):
        if not callable(getattr(processor, method, None)):
            raise ValueError(
                "Customized Batch Processor must contain fit_batch() and evaluate_batch() methods"
            )
    return processor


def _require_loader(data: object) -> None:
    if not isinstance(data, DataLoader):
        raise ValueError(_NO_LOADER)

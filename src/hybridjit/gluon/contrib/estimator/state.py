"""The state of an estimator that handlers and batch processors read."""

from __future__ import annotations

import logging

from ....context import Context
from ....metric import EvalMetric
from ...block import Block
from ...loss import Loss
from ...trainer import Trainer


class EstimatorState:
    """Networks, losses, metrics and limits of an estimator, without its training loop."""

    net: Block
    loss: Loss
    val_net: Block
    val_loss: Loss
    context: list[Context]
    trainer: Trainer
    logger: logging.Logger = None  # type: ignore[assignment]  # each estimator's own
    max_epoch: int | None  # the limit of `fit`, minus previous training
    max_batch: int | None
    batch_axis: int
    _train_metrics: list[EvalMetric]
    _val_metrics: list[EvalMetric]

    @property
    def train_metrics(self) -> list[EvalMetric]:
        """The metrics of training."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[EvalMetric]:
        """The metrics of ``evaluate``."""
        return self._val_metrics

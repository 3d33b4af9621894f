"""The metrics of an estimator: parsed from arguments, chosen for a loss, checked for handlers.

Input: arguments of the user. Output: lists of metrics, or a ValueError. Names are MXNet's, because
programs use them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

from ....metric import Accuracy, CompositeEvalMetric, EvalMetric
from ...loss import Loss, SoftmaxCrossEntropyLoss

Metrics: TypeAlias = EvalMetric | Iterable[EvalMetric] | None


def _check_metrics(metrics: Metrics) -> list[EvalMetric]:
    """The metrics as a list without composites. Raises ValueError for other objects."""
    if isinstance(metrics, CompositeEvalMetric):
        return [part for metric in metrics.metrics for part in _check_metrics(metric)]
    if isinstance(metrics, EvalMetric):
        return [metrics]
    listed = list(metrics or [])
    if not all(isinstance(metric, EvalMetric) for metric in listed):
        raise ValueError(
            "metrics must be a Metric or a list of Metric, refer to mxnet.metric.EvalMetric: "
            f"{metrics}"
        )
    return listed


def _check_handler_metric_ref(handler: object, known_metrics: Collection[EvalMetric]) -> None:
    """Raise ValueError unless all metrics in attributes of ``handler`` named "*metric*" are
    known."""
    for name in dir(handler):
        held = getattr(handler, name) if "metric" in name else None
        for metric in held if isinstance(held, list) else [held] if held else []:
            _check_metric_known(handler, metric, known_metrics)


def _check_metric_known(
    handler: object, metric: EvalMetric, known_metrics: Collection[EvalMetric]
) -> None:
    if metric not in known_metrics:
        raise ValueError(
            f"Event handler {type(handler).__name__} refers to a metric instance {metric} outside "
            "of the known training and validation metrics. Please use the metrics from "
            "estimator.train_metrics and estimator.val_metrics instead."
        )


def _suggest_metric_for_loss(loss: Loss) -> EvalMetric | None:
    """Accuracy for the loss of a classifier; None for others."""
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None

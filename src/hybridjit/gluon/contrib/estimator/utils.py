"""The metrics of an estimator: taken from arguments, suggested for a loss, known to its handlers.

In: what the user gave. Out: lists of metrics, or a ValueError. MXNet's names, which programs use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

from ....metric import Accuracy, CompositeEvalMetric, EvalMetric
from ...loss import Loss, SoftmaxCrossEntropyLoss

Metrics: TypeAlias = EvalMetric | Iterable[EvalMetric] | None


def _check_metrics(metrics: Metrics) -> list[EvalMetric]:
    """The metrics as a list, composite ones taken apart. ValueError for what is none."""
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
    """ValueError unless all that ``handler`` has under a name with "metric" in it is known."""
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
    """The accuracy for a classifier's loss; none for others."""
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None

"""Processing of one batch by an estimator: forward and backward, or only forward.

Input: an estimator and a batch, a pair of data and labels. Output: the parts of both on each
context, predictions and losses. Weights do not change: a handler updates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from .... import autograd
from ....context import Context
from ....nd import NDArray
from ...utils import split_and_load
from .state import EstimatorState

__all__ = ["BatchProcessor"]

Parts: TypeAlias = list[NDArray]  # one per context
Processed: TypeAlias = tuple[Parts, Parts, Parts, Parts]  # data, labels, predictions, losses


class BatchProcessor:
    """Override :meth:`fit_batch` and :meth:`evaluate_batch` for batches of another kind."""

    def _get_data_and_label(
        self, batch: Sequence[object], ctx: list[Context], batch_axis: int = 0
    ) -> tuple[Parts, Parts]:
        return split_pair(batch, ctx, batch_axis)

    def evaluate_batch(
        self, estimator: EstimatorState, val_batch: Sequence[object], batch_axis: int = 0
    ) -> Processed:
        """Run ``val_net`` and ``val_loss``, unrecorded."""
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(part) for part in data]
        loss = [estimator.val_loss(*pair) for pair in zip(pred, label)]
        return data, label, pred, loss

    def fit_batch(
        self, estimator: EstimatorState, train_batch: Sequence[object], batch_axis: int = 0
    ) -> Processed:
        """Run ``net`` and ``loss`` recorded, then the backward pass of each context's loss."""
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(part) for part in data]
            loss = [estimator.loss(*pair) for pair in zip(pred, label)]
        for part in loss:
            part.backward()
        return data, label, pred, loss


def split_pair(batch: Sequence[object], ctx: list[Context], batch_axis: int) -> tuple[Parts, Parts]:
    """Data and labels of a batch split along ``batch_axis``, one part per context."""
    data, label = (split_and_load(batch[i], ctx, batch_axis=batch_axis) for i in (0, 1))
    return data, label

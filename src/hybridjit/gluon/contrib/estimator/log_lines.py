"""Log of training: lines at the start and end of each epoch, or at every n-th batch.

Input: calls at every event of training. Output: MXNet's log lines, to the estimator's logger.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .events import BatchBegin, BatchEnd, EpochBegin, EpochEnd, TrainBegin, TrainEnd
from .state import EstimatorState
from .utils import Metrics, _check_metrics


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Logs the values of ``metrics`` at the end of each epoch and of training.

    ``log_interval`` is "epoch", or a number of batches after which values are logged too. Metrics
    with "training" in their name are those of training. Raises ValueError for another interval.
    """

    def __init__(
        self,
        log_interval: int | str = "epoch",
        metrics: Metrics = None,
        priority: float = np.inf,
    ) -> None:
        if not isinstance(log_interval, int) and log_interval != "epoch":
            raise ValueError("log_interval must be either an integer or string 'epoch'")
        self.metrics = _check_metrics(metrics)
        self.priority = priority  # last, after all metrics are updated
        self.log_interval = log_interval
        self._start()

    def _start(self) -> None:
        self.batch_index = 0
        self.current_epoch = 0
        self.processed_samples = 0
        self.log_interval_time = 0.0

    def train_begin(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        self.train_start = time.time()
        estimator.logger.info(
            "Training begin: using optimizer %s with current learning rate %.4f ",
            type(estimator.trainer.optimizer).__name__,
            estimator.trainer.learning_rate,
        )
        epochs = estimator.max_epoch
        wanted, unit = (epochs, "epochs") if epochs else (estimator.max_batch, "batches")
        estimator.logger.info("Train for %d %s.", wanted, unit)
        self._start()

    def train_end(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        seconds, epochs = time.time() - self.train_start, self.current_epoch
        self._log(estimator, f"Train finished using total {int(seconds)}s with {epochs} epochs. ")

    def batch_begin(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        self.batch_start = time.time()

    def batch_end(self, estimator: EstimatorState, *args: object, **kwargs: Any) -> None:
        if isinstance(self.log_interval, int):
            self.processed_samples += kwargs["batch"][0].shape[0]
            self.log_interval_time += time.time() - self.batch_start
            if self.batch_index % self.log_interval == 0:
                self._log_interval(estimator)
        self.batch_index += 1

    def _log_interval(self, estimator: EstimatorState) -> None:
        place = f"[Epoch {self.current_epoch}][Batch {self.batch_index}]"
        counted = f"[Samples {self.processed_samples}]"
        self._log(estimator, f"{place}{counted} time/interval: {self.log_interval_time:.3f}s ")
        self.log_interval_time = 0.0

    def epoch_begin(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        self.epoch_start = time.time()
        if not any("training" in metric.name for metric in self.metrics):
            estimator.logger.info("Validation Begin")
            return
        rate = estimator.trainer.learning_rate
        estimator.logger.info(
            "[Epoch %d] Begin, current learning rate: %.4f", self.current_epoch, rate
        )

    def epoch_end(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        seconds = time.time() - self.epoch_start
        self._log(estimator, f"[Epoch {self.current_epoch}] Finished in {seconds:.3f}s, ")
        self.current_epoch += 1
        self.batch_index = 0

    def _log(self, estimator: EstimatorState, start: str) -> None:
        values = ["{}: {:.4f}".format(*metric.get()) for metric in self.metrics]
        estimator.logger.info("%s", (start + ", ".join(values)).rstrip(", "))

"""``mx.contrib.tensorboard``: a callback for ``fit`` that writes metrics for TensorBoard.

The package mxboard writes them; it is not installed with hybridjit.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

from ..callback import BatchEndParam

__all__ = ["LogMetricsCallback"]


class LogMetricsCallback:
    """Writes all metrics to a folder, under ``prefix-name`` if there is a prefix.

    Without mxboard the constructor logs an error, and calls raise ImportError.
    """

    def __init__(self, logging_dir: str, prefix: str | None = None) -> None:
        self.prefix = prefix
        self.summary_writer: Any = None
        try:
            self.summary_writer = importlib.import_module("mxboard").SummaryWriter(logging_dir)
        except ImportError:
            logging.error("You can install mxboard via `pip install mxboard`.")

    def __call__(self, param: BatchEndParam) -> None:
        """Write the metrics of this epoch."""
        if param.eval_metric is None:
            return
        if self.summary_writer is None:
            raise ImportError(
                "LogMetricsCallback needs mxboard, which is not installed: pip install mxboard"
            )
        for name, value in param.eval_metric.get_name_value():
            shown = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(shown, value, global_step=param.epoch)

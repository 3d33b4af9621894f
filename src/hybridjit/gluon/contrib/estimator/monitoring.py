"""Improvement of a metric, for the best checkpoint and early stopping.

Input: a metric and "min", "max" or "auto". Output: a comparison, and whether a value is better.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ...._core.frames import warn
from ....metric import EvalMetric

Comparison: TypeAlias = Callable[[float, float], bool]

_UNKNOWN = (
    "{what} mode {mode} is unknown, fallback to auto mode. CheckpointHandler will use max mode for "
    "f1 and accuracy metric comparison and use min mode other wise"
)
_ASSUMED = (
    "`greater` operator will be used to determine if {name} has improved. Please specify "
    "`mode='min'` to use the `less` operator. Specify `mode='max' to disable this warning.`"
)


def comparison(monitor: EvalMetric, mode: str, what: str) -> Comparison:
    """``np.less`` for "min", else ``np.greater``; "auto" selects that for every metric, as in
    MXNet.

    Warns of "auto", and of an unknown mode, which is treated as "auto".
    """
    if mode not in ("auto", "min", "max"):
        warn(_UNKNOWN.format(what=what, mode=mode), RuntimeWarning)
        mode = "auto"
    if mode == "auto":
        warn(_ASSUMED.format(name=monitor.get()[0]))
    return np.less if mode == "min" else np.greater


def worst(better: Comparison) -> float:
    """The value that is worse than all others."""
    return np.inf if better is np.less else -np.inf


def monitored(monitor: EvalMetric, consequence: str = "") -> tuple[str, float] | None:
    """Name and value of a metric with one value; None, with a warning, if it has no value yet."""
    name, value = monitor.get()
    if np.isnan(value):
        warn(
            f"{consequence}{name} is not updated, make sure you pass one of the metric objects "
            "from estimator.train_metrics and estimator.val_metrics as monitor.",
            RuntimeWarning,
        )
        return None
    return str(name), float(value)  # type: ignore[arg-type]

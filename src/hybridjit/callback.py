"""``mx.callback``: callbacks of modules after a batch or an epoch, for logs and checkpoints.

Input: a ``BatchEndParam`` (epoch, nbatch, eval_metric) after a batch; epoch and parameters after an
epoch. Output: lines in the log, or checkpoints.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from .io.checkpoint import save_checkpoint
from .metric import EvalMetric
from .nd import NDArray
from .sym import Symbol

__all__ = [
    "LogValidationMetricsCallback",
    "ProgressBar",
    "Speedometer",
    "do_checkpoint",
    "log_train_metric",
    "module_checkpoint",
]


class BatchEndParam(NamedTuple):
    """Argument of callbacks after a batch."""

    epoch: int
    nbatch: int
    eval_metric: EvalMetric | None
    locals: dict[str, object] | None


Callback: TypeAlias = Callable[[BatchEndParam], object]
Callbacks: TypeAlias = Callback | list[Callback] | tuple[Callback, ...]


class _Saves(Protocol):
    """A module with ``save_checkpoint``."""

    def save_checkpoint(self, prefix: str, epoch: int, save_optimizer_states: bool) -> None: ...


class Speedometer:
    """Logs samples per second and the metric, after every ``frequent`` batches.

    Parameters
    ----------
    batch_size : int
        Samples of a batch.
    frequent : int
        Number of batches between two lines of the log.
    auto_reset : bool
        Whether the metric is reset each time, so that it covers only the batches since the
        previous line.

    Examples
    --------
    >>> speed = mx.callback.Speedometer(batch_size=32, frequent=10)
    >>> param = mx.model.BatchEndParam(epoch=0, nbatch=1, eval_metric=None, locals=None)
    >>> speed(param)  # as Module.fit does with batch_end_callback=speed
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True) -> None:
        self.batch_size = batch_size
        self.frequent = frequent
        self.auto_reset = auto_reset
        self.init = False
        self.tic = 0.0
        self.last_count = 0

    def __call__(self, param: BatchEndParam) -> None:
        count = param.nbatch
        if count < self.last_count:  # another epoch
            self.init = False
        self.last_count = count
        if not self.init:
            self.init = True
            self.tic = time.time()
        elif count % self.frequent == 0:
            seconds = time.time() - self.tic
            speed = self.frequent * self.batch_size / seconds if seconds else math.inf
            self._log(param, f"Speed: {speed:.2f} samples/sec")
            self.tic = time.time()

    def _log(self, param: BatchEndParam, speed: str) -> None:
        count = param.nbatch
        if param.eval_metric is None:
            logging.info("Iter[%d] Batch [%d]\t%s", param.epoch, count, speed)
            return
        values = "".join(f"\t{name}={value:f}" for name, value in _name_value(param.eval_metric))
        first = count - self.frequent if self.auto_reset else 0
        if self.auto_reset:
            param.eval_metric.reset_local()
        logging.info("Epoch[%d] Batch [%d-%d]\t%s%s", param.epoch, first, count, speed, values)


class ProgressBar:
    """Logs the progress through an epoch as a bar.

    Parameters
    ----------
    total : int
        Number of batches of an epoch.
    length : int
        Characters of the bar.

    Examples
    --------
    >>> bar = mx.callback.ProgressBar(total=100, length=40)
    >>> bar(mx.model.BatchEndParam(epoch=0, nbatch=50, eval_metric=None, locals=None))
    """

    def __init__(self, total: int, length: int = 80) -> None:
        self.total = total
        self.bar_len = length

    def __call__(self, param: BatchEndParam) -> None:
        share = param.nbatch / self.total
        filled = round(self.bar_len * share)
        bar = "=" * filled + "-" * (self.bar_len - filled)
        logging.info("[%s] %s%%\r", bar, math.ceil(100 * share))


class LogValidationMetricsCallback:
    """Logs the metric at the end of an epoch, as ``eval_end_callback`` of ``Module.fit``.

    Examples
    --------
    >>> log = mx.callback.LogValidationMetricsCallback()
    >>> log(mx.model.BatchEndParam(0, 10, mx.metric.create("acc"), None))
    """

    def __call__(self, param: BatchEndParam) -> None:
        for name, value in _name_value(param.eval_metric):
            logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[BatchEndParam], None]:
    """Make a callback that logs the metric every ``period`` batches.

    Parameters
    ----------
    period : int
        Number of batches between two lines of the log.
    auto_reset : bool
        Whether the metric is reset each time.

    Examples
    --------
    >>> log = mx.callback.log_train_metric(period=20)
    >>> log(mx.model.BatchEndParam(0, 20, mx.metric.create("acc"), None))
    """

    def log(param: BatchEndParam) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in _name_value(param.eval_metric):
                logging.info(
                    "Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value
                )
            if auto_reset:
                param.eval_metric.reset_local()

    return log


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """Make a callback that saves graph and parameters, as ``epoch_end_callback`` of ``Module.fit``.

    It is called with ``(epoch, symbol, arg_params, aux_params)`` and writes ``PREFIX-symbol.json``
    and ``PREFIX-NNNN.params``, where NNNN is the epoch's number from 1.

    Parameters
    ----------
    prefix : str
        Beginning of the files' names, with the folder.
    period : int
        Number of epochs between two files.

    Raises
    ------
    MXNetError
        At the call, for a folder that does not exist or cannot be written.

    Examples
    --------
    >>> save = mx.callback.do_checkpoint("digits", period=2)
    >>> save(1, sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc"), {}, {})
    >>> mx.model.load_checkpoint("digits", 2)[0].list_outputs()
    ['fc_output']
    """
    period = max(1, int(period))

    def save(
        epoch: int, sym: Symbol, arg: Mapping[str, NDArray], aux: Mapping[str, NDArray]
    ) -> None:
        if (epoch + 1) % period == 0:
            save_checkpoint(prefix, epoch + 1, sym, arg, aux)

    return save


def module_checkpoint(
    mod: _Saves, prefix: str, period: int = 1, save_optimizer_states: bool = False
) -> Callable[..., None]:
    """Make a callback that saves a module, as ``epoch_end_callback`` of ``Module.fit``.

    Parameters
    ----------
    mod : Module
        The module; it needs the method ``save_checkpoint``.
    prefix : str
        Beginning of the files' names, with the folder.
    period : int
        Number of epochs between two files.
    save_optimizer_states : bool
        Whether the optimizer's states are saved too, in ``PREFIX-NNNN.states``.

    Examples
    --------
    >>> module = mx.mod.Module(sym.FullyConnected(sym.var("data"), num_hidden=2), label_names=None)
    >>> save = mx.callback.module_checkpoint(module, "digits", period=2)
    >>> save(0)  # epoch 0 of 2: nothing is written
    """
    period = max(1, int(period))

    def save(epoch: int, sym: object = None, arg: object = None, aux: object = None) -> None:
        if (epoch + 1) % period == 0:
            mod.save_checkpoint(prefix, epoch + 1, save_optimizer_states)

    return save


def _name_value(metric: EvalMetric | None) -> list[tuple[str, float]]:
    return [] if metric is None else metric.get_name_value()

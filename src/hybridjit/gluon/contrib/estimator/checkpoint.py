"""Checkpoints of training, and resumption from one.

Input: an estimator at the ends of its batches and epochs. Output: parameters and trainer states in
files ``<prefix>-epoch<n>batch<m>`` and ``<prefix>-best``, written atomically, and a graph file.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ....formats.atomic import system_errors, together
from ....metric import EvalMetric
from ...hybrid_block import HybridBlock
from .events import BatchEnd, EpochEnd, TrainBegin
from .monitoring import Comparison, comparison, monitored, worst
from .state import EstimatorState

_NO_MONITOR = (
    "To save best model only, please provide one of the metric objects from "
    "estimator.train_metrics and estimator.val_metrics as monitor."
)
_PERIODS = (
    "To use resume from checkpoint, you must only specify the same type of period you used for "
    "training. For example, if you are training based on number of epochs, you must save only "
    "based on epochs, and set batch_period to None."
)
_NO_GRAPH = (
    "Model architecture(symbol file) is not saved, please use HybridBlock to construct your model, "
    "and call net.hybridize() before passing to Estimator in order to save model architecture as "
    "%s."
)
_NAMES = (
    "Error parsing checkpoint file, please check your checkpoints have the format: "
    "{model_name}-epoch{epoch_number}batch{batch_number}.params, there should also be a .states "
    "file for each .params file"
)
_REACHED = (
    "Found checkpoint with maximum number of {unit} {number} reached, please specify "
    "resume_from_checkpoint=False (default value) if you wan to train from scratch."
)


class _Place(NamedTuple):
    """Progress of training: the last complete epoch and batch; -1 before the first."""

    epoch: int
    batch: int


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves parameters and trainer states to ``model_dir`` at every n-th epoch or batch.

    ``max_checkpoints`` of them are kept, and with ``save_best`` also that with the best
    ``monitor``. ``resume_from_checkpoint`` continues from the latest one: ``fit`` counts previous
    training. Raises ValueError for ``save_best`` without a metric, MXNetError if files cannot be
    written.
    """

    def __init__(
        self,
        model_dir: str,
        model_prefix: str = "model",
        monitor: EvalMetric | None = None,
        verbose: int = 0,
        save_best: bool = False,
        mode: str = "auto",
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        max_checkpoints: int = 5,
        resume_from_checkpoint: bool = False,
    ) -> None:
        with system_errors(model_dir):
            os.makedirs(model_dir, exist_ok=True)
        self.model_dir = model_dir
        self.model_prefix = model_prefix
        self.monitor = monitor
        self.verbose = verbose
        self.save_best = save_best
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.max_checkpoints = max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.current_batch = 0
        self.current_epoch = 0
        self.saved_checkpoints: list[str] = []
        if save_best:
            self._init_best(monitor, mode)

    def _init_best(self, monitor: EvalMetric | None, mode: str) -> None:
        if not isinstance(monitor, EvalMetric):
            raise ValueError(_NO_MONITOR)
        self.monitor_op: Comparison = comparison(monitor, mode, "ModelCheckpoint")
        self.best = worst(self.monitor_op)

    # ---- moments ------------------------------------------------------------------------------

    def train_begin(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        self.current_epoch = 0
        self.current_batch = 0
        if self.save_best:
            self.best = worst(self.monitor_op)
        if self.resume_from_checkpoint:
            self._check_periods(estimator)
            self._resume(estimator)

    def batch_end(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator: EstimatorState, *args: object, **kwargs: object) -> None:
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator)
        self.current_epoch += 1

    # ---- saving -------------------------------------------------------------------------------

    def _save_symbol(self, estimator: EstimatorState) -> None:
        path = self._path("-symbol.json")
        net = estimator.net
        graph = net._exportable() if isinstance(net, HybridBlock) else None
        if graph is None:
            estimator.logger.info(_NO_GRAPH, path)
        else:
            graph.symbol.save(path)

    def _save_checkpoint(self, estimator: EstimatorState) -> None:
        place = self._place(estimator)
        name = f"{self.model_prefix}-epoch{place.epoch}batch{place.batch}"
        self._save_files(estimator, name)
        self._tell(
            estimator,
            "trained total %d batches, saving model at %s with prefix: %s",
            *(self.current_batch + 1, self.model_dir, name),
        )
        self.saved_checkpoints.append(name)
        if len(self.saved_checkpoints) > self.max_checkpoints:
            self._remove(self.saved_checkpoints.pop(0))
        if self.save_best:
            self._save_if_best(estimator)

    def _place(self, estimator: EstimatorState) -> _Place:
        """Epoch and batch in the name of the next checkpoint, counted from the start of
        training."""
        if not self.resume_from_checkpoint:
            return _Place(self.current_epoch, self.current_batch)
        counted = (
            0 if estimator.max_epoch else 1
        )  # at the end of an epoch its last batch is counted already
        return _Place(
            self.current_epoch + self.trained_epoch + 1,
            self.current_batch + self.trained_batch + counted,
        )

    def _save_if_best(self, estimator: EstimatorState) -> None:
        assert self.monitor is not None  # set by _init_best
        found = monitored(self.monitor, "Skipping save best because ")
        if found is None:
            return
        name, value = found
        if not self.monitor_op(value, self.best):
            told = "%s did not improve from %0.5f, skipping updating best model"
            self._tell(estimator, told, name, self.best)
            return
        prefix = f"{self.model_prefix}-best"
        self._save_files(estimator, prefix)
        self._tell(
            estimator,
            "%s improved from %0.5f to %0.5f, updating best model at %s with prefix: %s",
            *(name, self.best, value, self.model_dir, prefix),
        )
        self.best = value

    def _save_files(self, estimator: EstimatorState, name: str) -> None:
        """Write both files or none; states first, because parameters make a checkpoint valid."""
        together(
            lambda: estimator.trainer.save_states(self._named(name, ".states")),
            lambda: estimator.net.save_parameters(self._named(name, ".params")),
        )

    def _remove(self, name: str) -> None:
        for suffix in (".params", ".states"):
            path = self._named(name, suffix)
            with system_errors(path):
                if os.path.exists(path):
                    os.remove(path)

    def _tell(self, estimator: EstimatorState, text: str, *values: object) -> None:
        if self.verbose > 0:
            place = (self.current_epoch, *values)
            estimator.logger.info(f"[Epoch %d] CheckpointHandler: {text}", *place)

    def _path(self, suffix: str) -> str:
        return self._named(self.model_prefix, suffix)

    def _named(self, name: str, suffix: str) -> str:
        return os.path.join(self.model_dir, name + suffix)

    # ---- going on -----------------------------------------------------------------------------

    def _check_periods(self, estimator: EstimatorState) -> None:
        if estimator.max_batch:
            assert self.batch_period and not self.epoch_period, _PERIODS
        if estimator.max_epoch:
            assert self.epoch_period and not self.batch_period, _PERIODS

    def _resume(self, estimator: EstimatorState) -> None:
        self.trained_epoch, self.trained_batch = place = self._latest()
        if place.epoch == -1:
            wanted = _counted(estimator)
            told = "CheckpointHandler: No checkpoint found, training from scratch for %s"
            estimator.logger.info(told, wanted)
            return
        _leave_the_rest(estimator, place)
        name = f"{self.model_prefix}-epoch{place.epoch}batch{place.batch}"
        params, states = self._named(name, ".params"), self._named(name, ".states")
        for path in (params, states):
            assert os.path.exists(path), f"Failed to load checkpoint, {path} does not exist"
        estimator.net.load_parameters(params, ctx=estimator.context)
        estimator.trainer.load_states(states)
        told = "CheckpointHandler: Checkpoint resumed from epoch %d batch %d, continue to train for"
        estimator.logger.warning(f"{told} %s ", *place, _counted(estimator))

    def _latest(self) -> _Place:
        """The largest epoch of all checkpoints, and its largest batch."""
        start = f"{self.model_prefix}-epoch"
        with system_errors(self.model_dir):
            names = os.listdir(self.model_dir)
        found = [
            _parsed(name[len(start) :])
            for name in names
            if name.startswith(start) and name.endswith(".params")
        ]
        return max(found, default=_Place(-1, -1))


def _parsed(rest: str) -> _Place:
    match = re.fullmatch(r"(\d+)batch(\d+)\.params", rest)
    if match is None:
        raise ValueError(_NAMES)
    return _Place(int(match[1]), int(match[2]))


def _leave_the_rest(estimator: EstimatorState, place: _Place) -> None:
    """Reduce ``fit`` to the remaining training. Raises ValueError if nothing remains."""
    if estimator.max_epoch:
        if place.epoch >= estimator.max_epoch - 1:
            raise ValueError(_REACHED.format(unit="epoch", number=estimator.max_epoch))
        estimator.max_epoch -= place.epoch + 1
    if estimator.max_batch:
        if place.batch >= estimator.max_batch - 1:
            raise ValueError(_REACHED.format(unit="batch", number=estimator.max_batch))
        estimator.max_batch -= place.batch + 1


def _counted(estimator: EstimatorState) -> str:
    if estimator.max_batch:
        return f"{estimator.max_batch} batches"
    return f"{estimator.max_epoch} epochs"

"""Base of all modules: training, prediction and scoring over iterators, parameter files.

Input: batches. Output: outputs, values of metrics, and trained parameters.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from .. import metric, nd
from .._core.frames import public_methods
from .._core.types import Shape
from ..callback import BatchEndParam, Callbacks
from ..errors import ModelFormatError
from ..initializer import Initializer, Uniform
from ..io import DataBatch, DataDesc, DataIter
from ..metric import EvalMetric
from ..metric.base import Described
from ..monitor import Monitor
from ..nd import NDArray
from ..nd import files as nd_files
from ..sym import Symbol
from .updates import Options, Rule, Store

Arrays = dict[str, NDArray]
Shapes = Sequence[tuple[str, Shape]]  # DataDescs, or tuples of their arguments

Merged: TypeAlias = Any  # an NDArray; unmerged: a list with one per context
OutGrads: TypeAlias = NDArray | Sequence[NDArray] | None
State: TypeAlias = NDArray | list[NDArray] | tuple[NDArray, ...]  # merged, or split by context
Logger: TypeAlias = ModuleType | logging.Logger


@public_methods
class BaseModule:
    """Base of all modules: training, prediction and scoring over iterators, files of parameters.

    A subclass overrides the methods that raise NotImplementedError here.

    Parameters
    ----------
    logger : module or Logger
        Receives the lines of the log.

    Examples
    --------
    >>> issubclass(mx.mod.Module, mx.mod.BaseModule)
    True
    """

    def __init__(self, logger: Logger = logging) -> None:
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol: Symbol | None = None

    @property
    def symbol(self) -> Symbol | None:
        """The graph, or None."""
        return self._symbol

    # ---- to override ----------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        """Names of the inputs."""
        raise _undefined(self, "data_names")

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        raise _undefined(self, "output_names")

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Names, shapes and element types of the bound inputs."""
        raise _undefined(self, "data_shapes")

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """The same for the labels; None if none are bound."""
        raise _undefined(self, "label_shapes")

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs."""
        raise _undefined(self, "output_shapes")

    def bind(
        self,
        data_shapes: Shapes,
        label_shapes: Shapes | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: str = "write",
    ) -> None:
        """To override: bind to inputs of these shapes."""
        raise _undefined(self, "bind")

    def get_params(self) -> tuple[Arrays, Arrays]:
        """To override: ``(arg_params, aux_params)``, arrays by name."""
        raise _undefined(self, "get_params")

    def init_params(
        self,
        initializer: Initializer | None = Uniform(0.01),  # noqa: B008 (has no state)
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """To override: give every parameter a value."""
        raise _undefined(self, "init_params")

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """To override: compute the outputs of a batch."""
        raise _undefined(self, "forward")

    def get_outputs(self, merge_multi_context: bool = True) -> list[Merged]:
        """To override: the outputs of the latest batch."""
        raise _undefined(self, "get_outputs")

    def update_metric(
        self, eval_metric: EvalMetric, labels: Sequence[NDArray] | None, pre_sliced: bool = False
    ) -> None:
        """To override: update a metric with the latest outputs and these labels."""
        raise _undefined(self, "update_metric")

    # ---- parameters -----------------------------------------------------------------------------

    def set_params(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray],
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set the values of parameters.

        Parameters
        ----------
        arg_params, aux_params : dict of str to NDArray
            Values of parameters and of auxiliary states by name.
        allow_missing : bool
            Whether parameters may be left without a value.
        force_init : bool
            Whether values that are set are replaced.
        allow_extra : bool
            Whether further names are ignored.

        Raises
        ------
        RuntimeError
            For a missing value, unless ``allow_missing``.
        """
        self.init_params(None, arg_params, aux_params, allow_missing, force_init, allow_extra)

    def save_params(self, fname: str) -> None:
        """Write all parameters, under their names with the prefix ``arg:`` or ``aux:``."""
        args, auxs = self.get_params()
        named = {f"arg:{name}": array for name, array in args.items()}
        nd_files.save(fname, {**named, **{f"aux:{name}": a for name, a in auxs.items()}})

    def load_params(self, fname: str) -> None:
        """Read a file of :meth:`save_params`. Raises ModelFormatError for names without prefix."""
        loaded = nd_files.load(fname)
        if not isinstance(loaded, dict):
            raise ModelFormatError(f"{fname} holds arrays without names; a checkpoint has names")
        found: dict[str, Arrays] = {"arg": {}, "aux": {}}
        for name, array in loaded.items():
            kind, _, rest = name.partition(":")
            if kind not in found:
                raise ModelFormatError(f"{fname}: name {name!r} starts with neither arg: nor aux:")
            found[kind][rest] = array
        self.set_params(found["arg"], found["aux"])

    def get_states(self, merge_multi_context: bool = True) -> list[NDArray]:
        """The states, arrays that persist from batch to batch; empty in this class."""
        return []

    def set_states(
        self,
        states: Sequence[State] | None = None,
        value: float | None = None,
    ) -> None:
        """Write the states. Raises AssertionError: this class has none."""
        assert not states and not value, "this module has no states"

    # ---- running over iterators -----------------------------------------------------------------

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: object = None) -> None:
        """Prepare for a batch. No effect: a module holds all rows of sparse parameters."""

    def _batches(
        self, eval_data: DataIter, num_batch: int | None, reset: bool
    ) -> Iterator[tuple[int, DataBatch]]:
        """Number and batch, each after its ``forward``."""
        assert self.binded and self.params_initialized, "call bind and init_params first"
        if reset:
            eval_data.reset()
        for number, batch in enumerate(eval_data):
            if number == num_batch:
                return
            self.prepare(batch)
            self.forward(batch, is_train=False)
            yield number, batch

    def _unpadded(self, batch: DataBatch) -> list[NDArray]:
        return [out[: out.shape[0] - (batch.pad or 0)] for out in self.get_outputs()]

    def iter_predict(
        self,
        eval_data: DataIter,
        num_batch: int | None = None,
        reset: bool = True,
        sparse_row_id_fn: object = None,
    ) -> Iterator[tuple[list[NDArray], int, DataBatch]]:
        """Yield ``(outputs, number, batch)`` for each batch, without the results of its padding.

        Parameters
        ----------
        eval_data : DataIter
            The batches.
        num_batch : int, optional
            Number of batches; by default all.
        reset : bool
            Whether the iterator is reset first.
        sparse_row_id_fn : optional
            No effect.
        """
        for number, batch in self._batches(eval_data, num_batch, reset):
            yield self._unpadded(batch), number, batch

    def predict(
        self,
        eval_data: DataIter | NDArray | np.ndarray,
        num_batch: int | None = None,
        merge_batches: bool = True,
        reset: bool = True,
        always_output_list: bool = False,
        sparse_row_id_fn: object = None,
    ) -> NDArray | list[NDArray] | list[list[NDArray]]:
        """The outputs for an array, or for all batches of an iterator, joined without padding.

        Parameters
        ----------
        eval_data : DataIter, NDArray or numpy.ndarray
            The inputs.
        num_batch : int, optional
            Number of batches; by default all.
        merge_batches : bool
            Whether the outputs of all batches are joined; otherwise the result is a list per batch.
        reset : bool
            Whether the iterator is reset first.
        always_output_list : bool
            Whether a single output is returned in a list, too.
        sparse_row_id_fn : optional
            No effect.

        Raises
        ------
        AssertionError
            Before ``bind`` and ``init_params``, and for batches with unequal numbers of outputs.
        ValueError
            For other data.
        """
        assert self.binded and self.params_initialized, "call bind and init_params first"
        if isinstance(eval_data, (NDArray, np.ndarray)):
            data = eval_data if isinstance(eval_data, NDArray) else nd.array(eval_data)
            self.forward(DataBatch([data]))
            return self.get_outputs()[0]
        if not isinstance(eval_data, DataIter):
            raise ValueError("eval_data must be of type NDArray or DataIter")
        batches = self._batches(eval_data, num_batch, reset)
        found = [[out.copy() for out in self._unpadded(batch)] for _, batch in batches]
        if not found or not merge_batches:
            return found
        assert len({len(outputs) for outputs in found}) == 1, (
            "Cannot merge batches, as num of outputs is not the same in mini-batches. Maybe "
            "bucketing is used?"
        )
        merged = [nd.concatenate(parts) for parts in zip(*found)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def score(
        self,
        eval_data: DataIter,
        eval_metric: Described,
        num_batch: int | None = None,
        batch_end_callback: Callbacks | None = None,
        score_end_callback: Callbacks | None = None,
        reset: bool = True,
        epoch: int = 0,
        sparse_row_id_fn: object = None,
    ) -> list[tuple[str, float]]:
        """Names and values of a metric over all batches.

        Parameters
        ----------
        eval_data : DataIter
            Batches with labels.
        eval_metric : EvalMetric or str
            A metric or its name; it is reset first.
        num_batch : int, optional
            Number of batches; by default all.
        batch_end_callback, score_end_callback : callable or list, optional
            Called with a ``BatchEndParam`` after each batch, and at the end.
        reset : bool
            Whether the iterator is reset first.
        epoch : int
            Number for the callbacks.
        sparse_row_id_fn : optional
            No effect.

        Raises
        ------
        AssertionError
            Before ``bind`` and ``init_params``, and for an unknown metric.
        """
        if not isinstance(eval_metric, metric.EvalMetric):
            eval_metric = metric.create(eval_metric)
        eval_metric.reset()
        count = 0
        for number, batch in self._batches(eval_data, num_batch, reset):
            self.update_metric(eval_metric, batch.label)
            call_each(batch_end_callback, BatchEndParam(epoch, number, eval_metric, locals()))
            count += 1
        call_each(score_end_callback, BatchEndParam(epoch, count, eval_metric, locals()))
        return eval_metric.get_name_value()

    # ---- training -------------------------------------------------------------------------------

    def backward(self, out_grads: OutGrads = None) -> None:
        """To override: the gradients of the latest batch."""
        raise _undefined(self, "backward")

    def update(self) -> None:
        """To override: apply the optimizer once."""
        raise _undefined(self, "update")

    def init_optimizer(
        self,
        kvstore: Store = "local",
        optimizer: Rule = "sgd",
        optimizer_params: Options = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """To override: set the optimizer."""
        raise _undefined(self, "init_optimizer")

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Merged]:
        """To override: the gradients of the data."""
        raise _undefined(self, "get_input_grads")

    def forward_backward(self, data_batch: DataBatch) -> None:
        """Compute the outputs of a batch, then the gradients."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def fit(
        self,
        train_data: DataIter,
        eval_data: DataIter | None = None,
        eval_metric: Described = "acc",
        epoch_end_callback: Callbacks | None = None,
        batch_end_callback: Callbacks | None = None,
        kvstore: Store = "local",
        optimizer: Rule = "sgd",
        optimizer_params: Options = (("learning_rate", 0.01),),
        eval_end_callback: Callbacks | None = None,
        eval_batch_end_callback: Callbacks | None = None,
        initializer: Initializer | None = Uniform(0.01),  # noqa: B008 (has no state)
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_rebind: bool = False,
        force_init: bool = False,
        begin_epoch: int = 0,
        num_epoch: int | None = None,
        validation_metric: Described | None = None,
        monitor: Monitor | None = None,
        sparse_row_id_fn: object = None,
    ) -> None:
        """Train: bind, initialize, then compute gradients and update for each batch of each epoch.

        Values of metrics are logged per epoch. Ctrl-C stops training between two updates of
        parameters, never within one.

        Parameters
        ----------
        train_data : DataIter
            Batches with labels; an epoch is one pass over them.
        eval_data : DataIter, optional
            Batches of the validation after each epoch.
        eval_metric : EvalMetric or str
            Metric of training, an object or a name.
        epoch_end_callback : callable or list, optional
            Called with ``(epoch, symbol, arg_params, aux_params)``.
        batch_end_callback, eval_end_callback, eval_batch_end_callback : callable or list, optional
            Called with a ``BatchEndParam`` after a batch, after the validation, and in it.
        kvstore, optimizer, optimizer_params
            As in :meth:`init_optimizer`.
        initializer : Initializer
            Of the parameters without values.
        arg_params, aux_params : dict of str to NDArray, optional
            Values of parameters and auxiliary states, such as those of another training.
        allow_missing : bool
            Whether parameters that these do not have are initialized.
        force_rebind, force_init : bool
            Whether a module that is bound, or initialized, begins again.
        begin_epoch, num_epoch : int
            The first epoch, and the end: ``num_epoch`` is needed, and is not trained itself.
        validation_metric : EvalMetric or str, optional
            Metric of the validation; by default ``eval_metric``.
        monitor : Monitor, optional
            Prints statistics of values.
        sparse_row_id_fn : optional
            No effect.

        Raises
        ------
        AssertionError
            Without ``num_epoch``.
        ValueError
            For data and labels with other names than the module's, and an unknown optimizer.
        MXNetError
            For shapes that do not fit the graph.
        """
        assert num_epoch is not None, "please specify number of epochs"
        self.bind(
            train_data.provide_data,
            train_data.provide_label,
            for_training=True,
            force_rebind=force_rebind,
        )
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(initializer, arg_params, aux_params, allow_missing, force_init=force_init)
        self.init_optimizer(kvstore, optimizer, optimizer_params)
        measured = metric.create(eval_metric)
        checked = measured if validation_metric is None else metric.create(validation_metric)
        for epoch in range(begin_epoch, num_epoch):
            self._start_epoch(epoch, train_data)
            self._fit_epoch(epoch, train_data, measured, monitor, batch_end_callback)
            args, auxs = self.get_params()
            call_each(epoch_end_callback, epoch, self.symbol, args, auxs)
            if eval_data is not None:
                found = self.score(
                    eval_data,
                    checked,
                    score_end_callback=eval_end_callback,
                    batch_end_callback=eval_batch_end_callback,
                    epoch=epoch,
                )
                for name, value in found:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            self._end_epoch(train_data)

    def _start_epoch(self, epoch: int, train_data: DataIter) -> None:
        """Hook for subclasses before an epoch."""

    def _end_epoch(self, train_data: DataIter) -> None:
        train_data.reset()

    def _fit_epoch(
        self,
        epoch: int,
        train_data: DataIter,
        measured: EvalMetric,
        monitor: Monitor | None,
        batch_end_callback: Callbacks | None,
    ) -> None:
        """Train on one pass over the data."""
        start = time.perf_counter()
        measured.reset()
        for number, batch in enumerate(train_data):
            if monitor is not None:
                monitor.tic()
            self.prepare(batch)
            self.forward_backward(batch)
            self.update()
            self.update_metric(measured, batch.label)
            if monitor is not None:
                monitor.toc_print()
            call_each(batch_end_callback, BatchEndParam(epoch, number, measured, locals()))
        for name, value in measured.get_global_name_value():
            self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
        self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.perf_counter() - start)

    def install_monitor(self, mon: Monitor) -> None:
        """Let ``mon``, a ``mx.mon.Monitor``, collect the tensors of each batch."""
        raise _undefined(self, "install_monitor")


def described(given: Shapes) -> list[DataDesc]:
    """Descriptions from descriptions, or from tuples or lists of their arguments.

    Raises TypeError for others.
    """
    for desc in given:
        if not (isinstance(desc, (tuple, list)) and desc and isinstance(desc[0], str)):
            raise TypeError(
                f"shapes are a list of names with shapes, [('data', (2, 3))], got {given!r}"
            )
    return [desc if isinstance(desc, DataDesc) else DataDesc(*desc) for desc in given]


def call_each(callbacks: Any, *args: object, **kwargs: object) -> None:
    """Call one function, all in a list, or none."""
    if callbacks is None:
        return
    for callback in callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]:
        callback(*args, **kwargs)


def _undefined(module: BaseModule, what: str) -> NotImplementedError:
    return NotImplementedError(f"{type(module).__name__} does not define {what}")

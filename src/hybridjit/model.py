"""``mx.model``: checkpoints in files, and ``FeedForward``, MXNet's oldest interface to networks.

Input: a prefix and an epoch, or a Symbol with its parameters. Output: these, or predictions.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._core.frames import public_methods
from ._core.lazy import arrived as _arrived
from .callback import BatchEndParam, Callbacks
from .context import Context, cpu
from .initializer import Initializer, Uniform
from .io import DataIter, NDArrayIter
from .io.checkpoint import load_checkpoint, load_params, save_checkpoint
from .metric.base import Described
from .mod import Module
from .mod.base_module import Logger
from .mod.updates import Rule, Store
from .monitor import Monitor
from .nd import NDArray
from .sym import Symbol

__all__ = ["BatchEndParam", "FeedForward", "load_checkpoint", "load_params", "save_checkpoint"]

Data = NDArray | np.ndarray
Pair = tuple[Data, Data]


@public_methods
class FeedForward:
    """A Symbol with parameters, trained on arrays or iterators, which predicts for others.

    ``kwargs`` are the optimizer's arguments.
    """

    def __init__(
        self,
        symbol: Symbol,
        ctx: Context | list[Context] | None = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Rule = "sgd",
        initializer: Initializer | None = None,
        numpy_batch_size: int = 128,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
        begin_epoch: int = 0,
        **kwargs: object,
    ) -> None:
        self.symbol = symbol
        self.optimizer = optimizer
        self.optimizer_params = kwargs
        self.initializer = Uniform(0.01) if initializer is None else initializer
        self.ctx = ctx or cpu()
        self.num_epoch = num_epoch
        self.begin_epoch = begin_epoch
        self.numpy_batch_size = numpy_batch_size
        self.arg_params = arg_params
        self.aux_params = aux_params
        self.allow_extra_params = allow_extra_params

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Context | None = None, **kwargs: Any) -> FeedForward:
        """Load the network of ``prefix-symbol.json`` and ``prefix-<epoch>.params``."""
        symbol, args, auxs = load_checkpoint(prefix, epoch)
        return FeedForward(
            symbol, ctx, arg_params=args, aux_params=auxs, begin_epoch=epoch, **kwargs
        )

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Write both files; ``epoch`` is by default the latest one of training."""
        number = self.num_epoch if epoch is None else epoch
        assert number is not None, "save needs an epoch"
        args, auxs = self._params()
        save_checkpoint(prefix, number, self.symbol, args, auxs, remove_amp_cast)

    def predict(
        self,
        X: DataIter | Data,
        num_batch: int | None = None,
        return_data: bool = False,
        reset: bool = True,
    ) -> Any:
        """The outputs for X (an array or an iterator) as NumPy arrays; a single one without a list.

        With ``return_data`` also the data and the labels.
        """
        batches = self._iterator(X)
        module = self._module(batches, [])
        outputs, data, labels = [], [], []
        for found, _, batch in module.iter_predict(batches, num_batch, reset):
            outputs.append([out.asnumpy() for out in found])
            kept = batches.batch_size - (batch.pad or 0)
            data.append([array[:kept].asnumpy() for array in batch.data or ()])
            labels.append([array[:kept].asnumpy() for array in batch.label or ()])
        if not return_data:
            return _joined(outputs)
        return _joined(outputs), _joined(data), _joined(labels)

    def score(
        self,
        X: DataIter,
        eval_metric: Described = "acc",
        num_batch: int | None = None,
        batch_end_callback: Callbacks | None = None,
        reset: bool = True,
    ) -> float:
        """The value of a metric, given as object or name, over an iterator with labels."""
        names = [desc.name for desc in X.provide_label]
        module = self._module(X, names)
        return module.score(X, eval_metric, num_batch, batch_end_callback, reset=reset)[0][1]

    def fit(
        self,
        X: DataIter | Data,
        y: Data | None = None,
        eval_data: DataIter | Pair | None = None,
        eval_metric: Described = "acc",
        epoch_end_callback: Callbacks | None = None,
        batch_end_callback: Callbacks | None = None,
        kvstore: Store = "local",
        logger: Logger | None = None,
        work_load_list: object = None,
        monitor: Monitor | None = None,
        eval_end_callback: Callbacks | None = None,
        eval_batch_end_callback: Callbacks | None = None,
    ) -> None:
        """Train on X with the labels y, or on an iterator of both.

        ``eval_data`` is an iterator, or a pair (X, y). The parameters are stored in ``arg_params``
        and ``aux_params``.
        """
        batches = self._labelled(X, y)
        if isinstance(eval_data, (tuple, list)):
            eval_data = self._labelled(*eval_data)
        module = Module(
            self.symbol,
            [desc.name for desc in batches.provide_data],
            [desc.name for desc in batches.provide_label],
            logger or logging,
            self.ctx,
        )
        module.fit(
            batches,
            eval_data,
            eval_metric,
            epoch_end_callback,
            batch_end_callback,
            kvstore,
            self.optimizer,
            self.optimizer_params,
            eval_end_callback,
            eval_batch_end_callback,
            self.initializer,
            self.arg_params,
            self.aux_params,
            allow_missing=True,
            begin_epoch=self.begin_epoch,
            num_epoch=self.num_epoch,
            monitor=monitor,
        )
        self.arg_params, self.aux_params = module.get_params()

    @staticmethod
    def create(
        symbol: Symbol,
        X: DataIter | Data,
        y: Data | None = None,
        ctx: Context | list[Context] | None = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Rule = "sgd",
        initializer: Initializer | None = None,
        eval_data: DataIter | Pair | None = None,
        eval_metric: Described = "acc",
        epoch_end_callback: Callbacks | None = None,
        batch_end_callback: Callbacks | None = None,
        kvstore: Store = "local",
        logger: Logger | None = None,
        work_load_list: object = None,
        eval_end_callback: Callbacks | None = None,
        eval_batch_end_callback: Callbacks | None = None,
        **kwargs: Any,
    ) -> FeedForward:
        """Make a network and train it on X and y; ``kwargs`` are the optimizer's."""
        made = FeedForward(symbol, ctx, num_epoch, epoch_size, optimizer, initializer, **kwargs)
        made.fit(
            X,
            y,
            eval_data,
            eval_metric,
            epoch_end_callback,
            batch_end_callback,
            kvstore,
            logger,
            eval_end_callback=eval_end_callback,
            eval_batch_end_callback=eval_batch_end_callback,
        )
        return made

    def _labelled(self, X: DataIter | Data, y: Data | None) -> DataIter:
        """An iterator over samples and labels, shuffled in each pass."""
        if isinstance(X, DataIter):
            return X
        if y is None:
            raise ValueError("y must be specified when X is numpy.ndarray")
        if len(X) != len(y):
            raise ValueError(f"The numbers of data points and labels not equal: {len(X)}, {len(y)}")
        size = min(len(X), self.numpy_batch_size)
        return NDArrayIter(X, y, size, shuffle=True, last_batch_handle="roll_over")

    def _params(self) -> tuple[Mapping[str, NDArray], Mapping[str, NDArray]]:
        assert self.arg_params is not None, "this FeedForward has no parameters: use load()"
        return self.arg_params, self.aux_params or {}

    def _iterator(self, X: DataIter | Data) -> DataIter:
        if isinstance(X, DataIter):
            return X
        if not isinstance(X, (np.ndarray, NDArray)):
            raise TypeError(f"X must be a DataIter, NDArray or numpy.ndarray, got {type(X)}")
        return NDArrayIter(X, None, min(len(X), self.numpy_batch_size))

    def _module(self, batches: DataIter, label_names: list[str]) -> Module:
        """A module bound to the iterator's shapes, with this network's parameters."""
        names = [desc.name for desc in batches.provide_data]
        inputs = self.symbol.list_arguments()
        args, auxs = self._params()
        module = Module(self.symbol, names, label_names, logging, self.ctx)
        labels = batches.provide_label if label_names else None
        module.bind(batches.provide_data, labels, for_training=False)
        if not self.allow_extra_params:
            extra = [name for name in args if name not in inputs]
            assert not extra, f"parameters that the symbol does not have: {', '.join(extra)}"
        module.set_params(args, auxs)
        return module


def _joined(batches: list[list[np.ndarray]]) -> np.ndarray | list[np.ndarray]:
    """Each array concatenated over all batches; a single one without a list."""
    arrays = [np.concatenate(parts) for parts in zip(*batches)]
    return arrays[0] if len(arrays) == 1 else arrays


_arrived(__name__)

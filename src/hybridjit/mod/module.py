"""``Module``: a Symbol with its parameters, bound to input shapes, run and trained.

Input: a Symbol, the names of its inputs and labels, parameters by name, batches. Output: outputs of
the latest batch, gradients, updated parameters. The graph is compiled once per input shape, like a
hybridized block.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import autograd, monitor, nd
from .._core.async_safety import restoring
from .._core.frames import public_methods
from ..errors import MXNetError
from ..formats.atomic import together
from ..graph_exec.training import Heads, head_gradients
from ..io import DataBatch, DataDesc, checkpoint
from ..metric import EvalMetric
from ..nd import NDArray
from ..nd.interpreter import Monitor
from ..nd.taped import alias
from ..optimizer import Updater
from .base_module import Arrays, Merged
from .binding import BoundModule
from .executor_group import ExecutorGroup
from .updates import (
    Options,
    Rule,
    Store,
    Updates,
    make_optimizer,
    open_store,
    updates_there,
    workers_of,
)

if TYPE_CHECKING:
    from ..optimizer import Optimizer


@public_methods
class Module(BoundModule):
    """A graph with its parameters: bound to the shapes of its inputs, run, trained, saved.

    Without ``label_names``' arrays it is run for inference. Arguments of its methods are described
    at :class:`BaseModule` where they are the same.

    Parameters
    ----------
    symbol : Symbol
        The graph; for training its outputs are losses, such as ``SoftmaxOutput``.
    data_names, label_names : list of str, optional
        Inputs of the graph that batches give, in the order of ``batch.data`` and
        ``batch.label``; all other variables are parameters.
    logger : module or Logger
        Receives the lines of the log.
    context : Context or list of Context, optional
        Contexts of the parameters; by default the CPU. One computation serves all of a list.
    work_load_list : optional
        No effect.
    fixed_param_names : list of str, optional
        Parameters that are not trained.
    state_names : list of str, optional
        Inputs that keep their values from batch to batch: see ``set_states``.
    group2ctxs : dict or list of dict, optional
        Contexts of the groups of ``AttrScope(ctx_group=...)``.
    compression_params : dict, optional
        No effect.

    Raises
    ------
    ValueError
        For a name that the graph does not have; a warning for a label.

    Examples
    --------
    >>> fc = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    >>> module = mx.mod.Module(sym.SoftmaxOutput(fc, name="softmax"))
    >>> batches = mx.io.NDArrayIter(np.ones((4, 3)), np.zeros(4), batch_size=2)
    >>> module.fit(batches, num_epoch=2, optimizer_params={"learning_rate": 0.1})
    >>> module.predict(batches).shape
    (4, 2)
    """

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """Make a module from the files of a checkpoint. It is not bound.

        Parameters
        ----------
        prefix : str
            Beginning of the names ``PREFIX-symbol.json`` and ``PREFIX-NNNN.params``.
        epoch : int
            The number NNNN.
        load_optimizer_states : bool
            Whether ``init_optimizer`` reads ``PREFIX-NNNN.states``.
        **kwargs
            Further arguments of :class:`Module`.

        Raises
        ------
        MXNetError
            For files that are missing or malformed.
        """
        symbol, args, auxs = checkpoint.load_checkpoint(prefix, epoch)
        module = Module(symbol, **kwargs)
        if load_optimizer_states:
            module._states_file = f"{prefix}-{epoch:04d}.states"
        module._given = args, auxs
        module.params_initialized = True
        return module

    def save_checkpoint(
        self,
        prefix: str,
        epoch: int,
        save_optimizer_states: bool = False,
        remove_amp_cast: bool = True,
    ) -> None:
        """Write the files that :meth:`load` reads: all or none.

        Parameters
        ----------
        prefix : str
            Beginning of the names of the files, with the folder.
        epoch : int
            Number in the name of the parameters' file.
        save_optimizer_states : bool
            Whether the optimizer's states are written to ``PREFIX-NNNN.states``.
        remove_amp_cast : bool
            Whether casts of automatic mixed precision are left out of the graph.

        Raises
        ------
        MXNetError
            For a folder that does not exist or cannot be written.
        """
        args, auxs = self.get_params()
        writers = [
            lambda: checkpoint.save_checkpoint(
                prefix, epoch, self._symbol, args, auxs, remove_amp_cast
            )
        ]
        states = f"{prefix}-{epoch:04d}.states"
        if save_optimizer_states:
            writers.append(lambda: self.save_optimizer_states(states))
        together(*writers)
        if save_optimizer_states:
            logging.info('Saved optimizer state to "%s"', states)

    # ---- running --------------------------------------------------------------------------------

    @restoring(autograd.FLAGS)
    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch; shapes that differ from the bound ones bind again.

        Parameters
        ----------
        data_batch : DataBatch
            Arrays in the order of ``data_names``, and labels.
        is_train : bool, optional
            Whether operators behave as in training, and ``backward`` follows; by default as
            ``bind`` was called.

        Raises
        ------
        MXNetError
            While parameters have no values, and for shapes that do not fit them.
        ValueError
            For another number of arrays.
        """
        assert self.binded and self.params_initialized, "call bind and init_params first"
        if self._unset:
            raise MXNetError(f"parameters without values: {', '.join(sorted(self._unset))}")
        self._fit_shapes(data_batch)
        trains = self.for_training if is_train is None else is_train
        for desc, array in self._values_in(data_batch):
            if desc.name in self._inputs:
                moved = array.as_in_context(self._context[0])
                stype = self._stypes.get(desc.name, "default")
                if moved.stype != stype:
                    moved = moved.tostype(stype)
                # backward reads it again, and the program may have overwritten its own array by
                # then
                self._inputs[desc.name] = moved.astype(np.dtype(desc.dtype), copy=trains)
        self.compute(trains)

    def compute(self, is_train: bool) -> None:
        """Compute the outputs for the contents of the inputs."""
        inputs = [self._variable(name, array) for name, array in self._inputs.items()]
        with autograd.record() if is_train else autograd.predict_mode():
            made = self._graph(inputs)
        self._recorded = made if is_train else []
        self._outputs = [output.detach() for output in made]

    def _variable(self, name: str, array: NDArray) -> NDArray:
        """An input as an operand of the graph, with a gradient if inputs need one."""
        found = alias(array)
        if name in self._input_grads:
            autograd.mark_variables(found, self._input_grads[name], self._request_of(name))
        return found

    # ---- training -------------------------------------------------------------------------------

    @restoring(autograd.FLAGS)
    def backward(self, out_grads: Heads = None) -> None:
        """Compute the gradients of the latest batch; its ``forward`` was in training mode.

        Parameters
        ----------
        out_grads : NDArray or list of NDArray, optional
            A gradient for each output; without them every output must be a loss.

        Raises
        ------
        MXNetError
            For outputs that are not losses without ``out_grads``.
        AssertionError
            Without a ``forward`` in training mode.
        """
        assert self.binded and self.params_initialized, "call bind and init_params first"
        assert self._recorded, "call forward with is_train=True first"
        if all(output._entry is None for output in self._recorded):
            return  # the outputs do not depend on a variable with a gradient
        heads = head_gradients(self._symbol.outputs, out_grads)
        autograd.backward(self._recorded, heads, retain_graph=True)

    # MXNet's private attributes, which programs use.

    @property
    def _optimizer(self) -> Optimizer | None:
        return None if self._updates is None else self._updates.optimizer

    @property
    def _updater(self) -> Updater | None:
        return None if self._updates is None else self._updates.updater

    @property
    def _kvstore(self) -> Any:
        return None if self._updates is None else self._updates.store

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Merged]:
        """The gradients of the data, in the order of ``data_names``; None for those without one."""
        assert self.binded and self.params_initialized and self.inputs_need_grad, (
            "call bind with inputs_need_grad=True, and init_params, first"
        )
        found = [self._input_grads.get(name) for name in self._data_names]
        if merge_multi_context:
            return found
        return [grad if grad is None else self._parts(grad, None) for grad in found]

    def init_optimizer(
        self,
        kvstore: Store = "local",
        optimizer: Rule = "sgd",
        optimizer_params: Options = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Set the optimizer that ``update`` applies.

        Parameters
        ----------
        kvstore : KVStore or str, optional
            Store of the parameters, its name, or None.
        optimizer : Optimizer or str
            An optimizer, or its name; with a name, gradients are divided by the batch size.
        optimizer_params : dict or sequence of pairs
            Arguments of an optimizer that is given by name.
        force_init : bool
            Whether an optimizer that is set is replaced; otherwise a warning is logged.

        Raises
        ------
        MXNetError
            For a store that is not available.
        ValueError
            For an unknown optimizer.
        """
        assert self.binded and self.params_initialized, "call bind and init_params first"
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        first = self._data_shapes[0]
        size = first.shape[DataDesc.get_batch_axis(first.layout)]
        store = open_store(kvstore, len(self._context))
        made = make_optimizer(
            optimizer, optimizer_params, self._symbol, self._param_names, size, workers_of(store)
        )
        largest = max((self._params[name].data().size for name in self._param_names), default=0)
        self._updates = Updates(made, store, updates_there(kvstore, store, largest))
        self._updates.share({name: self._params[name] for name in self._param_names})
        self.optimizer_initialized = True
        if self._states_file is not None:
            self.load_optimizer_states(self._states_file)
            self._states_file = None

    def borrow_optimizer(self, shared_module: Module) -> None:
        """Update with another module's optimizer and states."""
        assert shared_module.optimizer_initialized, "the other module has no optimizer"
        self._updates = shared_module._updates
        self.optimizer_initialized = True

    def update(self) -> None:
        """Apply the optimizer once to all parameters with gradients."""
        assert self.binded and self.params_initialized and self.optimizer_initialized, (
            "call bind, init_params and init_optimizer first"
        )
        assert self._updates is not None
        self._updates.apply({name: self._params[name] for name in self._param_names})

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimizer's states to a file."""
        assert self._updates is not None, "call init_optimizer first"
        self._updates.save(fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states. Raises MXNetError for a file without states."""
        assert self._updates is not None, "call init_optimizer first"
        self._updates.load(fname)

    # ---- shapes of batches ----------------------------------------------------------------------

    def _fit_shapes(self, batch: DataBatch) -> None:
        shapes = [array.shape for array in self._arrays_of(batch)]
        if shapes == [tuple(desc.shape) for desc in self._data_shapes]:
            return
        label_shapes = getattr(batch, "provide_label", None) or self._label_shapes_for(batch)
        data_shapes = getattr(batch, "provide_data", None) or [
            DataDesc(d.name, shape, d.dtype, d.layout)
            for d, shape in zip(self._data_shapes, shapes)
        ]
        states = {name: self._inputs[name] for name in self._state_names}
        self._require_bound()
        self._set_shapes(data_shapes, label_shapes or None, self._params, states)

    def _label_shapes_for(self, batch: DataBatch) -> list[DataDesc]:
        """Descriptions of the labels in the batch; without labels, derived from the samples."""
        bound = self._label_shapes or []
        label = getattr(batch, "label", None)
        if label:
            shapes = [array.shape for array in label]
        else:
            old, new = self._data_shapes[0].shape[0], self._arrays_of(batch)[0].shape[0]
            shapes = [(new, *d.shape[1:]) if d.shape[0] == old else d.shape for d in bound]
        return [DataDesc(d.name, s, d.dtype, d.layout) for d, s in zip(bound, shapes)]

    def _arrays_of(self, batch: DataBatch) -> Sequence[NDArray]:
        """The arrays of a batch. Raises ValueError unless their number equals that of the
        inputs."""
        data = batch.data or ()
        if len(data) != len(self._data_shapes):
            raise ValueError(
                f"the batch has {len(data)} arrays, the module is bound to {len(self._data_shapes)}"
            )
        return data

    def _values_in(self, batch: DataBatch) -> Iterator[tuple[DataDesc, NDArray]]:
        """Descriptions and arrays of a batch, including labels if they are bound."""
        yield from zip(self._data_shapes, self._arrays_of(batch))
        yield from zip(self._label_shapes or [], getattr(batch, "label", None) or [])

    def get_outputs(self, merge_multi_context: bool = True) -> list[Merged]:
        """The outputs of the latest batch; unmerged, each is a list with one part per context.

        One computation serves all contexts of the module.
        """
        assert self.binded and self.params_initialized, "call bind and init_params first"
        if merge_multi_context:
            return list(self._outputs)
        attrs = [self._symbol[i].attr("__layout__") for i in range(len(self._symbol))]
        return [self._parts(out, layout) for out, layout in zip(self._outputs, attrs)]

    def _parts(self, out: NDArray, layout: str | None) -> list[NDArray]:
        """The part of an output for each context; the complete output if it has no batch axis."""
        count = len(self._context)
        first = self.data_shapes[0]
        samples = first.shape[DataDesc.get_batch_axis(first.layout)]
        axis = DataDesc.get_batch_axis(layout)
        if axis < 0 or axis >= out.ndim or out.shape[axis] != samples:
            return [out] * count
        ends = np.cumsum([0, *_shares(samples, count)]).tolist()
        return [
            nd.slice_axis(out, axis=axis, begin=begin, end=end)
            for begin, end in zip(ends, ends[1:])
        ]

    def install_monitor(self, mon: monitor.Monitor) -> None:
        """Let ``mon`` collect the tensors of each batch, which are then computed one by one."""
        assert self.binded, "call bind first"
        mon.install(self)

    def set_monitor_callback(
        self, callback: Callable[[str, NDArray], object], monitor_all: bool = False
    ) -> None:
        """Call ``callback(name, array)`` for the results of every operator, as an Executor does."""

        def report(tensor_name: str, op_name: str, tensor: NDArray) -> None:
            callback(tensor_name, tensor)

        self._monitor = Monitor(report, monitor_all, variables=True)
        self._graph.monitor = self._monitor

    @property
    def _exec_group(self) -> ExecutorGroup | None:
        """The view of the module's arrays for programs; None before binding."""
        return ExecutorGroup(self) if self.binded else None

    _copies: tuple[Arrays, Arrays] | None = None

    def _sync_params_from_devices(self) -> None:
        """Refresh ``_arg_params`` and ``_aux_params`` from the current values."""
        self._copies = self.get_params()

    @property
    def _arg_params(self) -> Arrays | None:
        """Copies of the parameters, made at the first access; None while they have no values."""
        if self._copies is None and self.params_initialized:
            self._sync_params_from_devices()
        return None if self._copies is None else self._copies[0]

    @property
    def _aux_params(self) -> Arrays | None:
        """Copies of the auxiliary states, like :attr:`_arg_params`."""
        return None if self._arg_params is None or self._copies is None else self._copies[1]

    def update_metric(
        self, eval_metric: EvalMetric, labels: Sequence[NDArray] | None, pre_sliced: bool = False
    ) -> None:
        """Update a metric with the latest outputs and these labels."""
        if pre_sliced:
            labels = [nd.concatenate(list(parts)) for parts in zip(*labels or ())]
        names = [desc.name for desc in self._label_shapes or []] or self._label_names
        named = dict(zip(names, labels or []))
        eval_metric.update_dict(named, dict(zip(self.output_names, self._outputs)))


def _shares(samples: int, count: int) -> list[int]:
    """The number of samples of each of ``count`` contexts; the last one takes the remainder.

    Raises ValueError if a context would get no sample.
    """
    shares = [round(samples / count)] * (count - 1)
    shares.append(samples - sum(shares))
    if min(shares) < 1:
        raise ValueError("Too many slices. Some splits are empty.")
    return shares

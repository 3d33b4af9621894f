"""``SVRGModule``: a module whose gradients are corrected by full gradients at older weights.

Input: the arguments of a Module, and the period of full gradients in epochs. Output: parameters,
trained with g(w, batch) - g(w_old, batch) + g(w_old, all data). One computation serves all
contexts, so there is one set of full gradients.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ... import nd
from ...context import Context
from ...graph_exec.training import Heads
from ...io import DataBatch, DataIter
from ...mod import Module
from ...mod.base_module import Arrays, Logger, Shapes
from ...mod.binding import BoundModule, GradReq, Groups
from ...mod.updates import Options, Store
from ...nd import NDArray
from ...optimizer import Optimizer
from ...sym import Symbol
from .svrg_optimizer import _SVRGOptimizer

__all__ = ["SVRGModule"]

_FREQUENCY = (
    "update_freq in SVRGModule must be {kind} to represent the frequency for calculating full "
    "gradients, got {given!r}"
)


class SVRGModule(Module):
    """A Module; full gradients are computed every ``update_freq`` epochs.

    Raises TypeError if ``update_freq`` is not an int, ValueError if it is below 1.
    """

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Logger = logging,
        context: Context | Sequence[Context] | None = None,
        work_load_list: object = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Groups = None,
        compression_params: object = None,
        update_freq: int | None = None,
    ) -> None:
        devices = (context, work_load_list)
        names = (fixed_param_names, state_names)
        inputs = (symbol, data_names, label_names, logger)
        given = (*inputs, *devices, *names, group2ctxs, compression_params)
        super().__init__(*given)
        if not isinstance(update_freq, int):
            raise TypeError(_FREQUENCY.format(kind="an integer", given=update_freq))
        if update_freq <= 0:
            raise ValueError(_FREQUENCY.format(kind="a positive integer", given=update_freq))
        self.update_freq = update_freq
        self._mod_aux = Module(*given)  # the older weights
        self._param_dict: list[Arrays] = []
        self._ctx_len = 1

    # ---- both modules -------------------------------------------------------------------------

    def bind(
        self,
        data_shapes: Shapes,
        label_shapes: Shapes | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: BoundModule | None = None,
        grad_req: GradReq = "write",
    ) -> None:
        """As :meth:`Module.bind`; for training also bind the module of the older weights."""
        given = (data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind)
        super().bind(*given, shared_module, grad_req)
        if for_training:
            older = shared_module._mod_aux if isinstance(shared_module, SVRGModule) else None
            self._mod_aux.bind(*given, older, grad_req)

    def reshape(self, data_shapes: Shapes, label_shapes: Shapes | None = None) -> None:
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch; in training also with the older weights.

        Raises AssertionError in training before :meth:`update_full_grads`.
        """
        super().forward(data_batch, is_train)
        if self._recorded:
            assert self._mod_aux.params_initialized, "call update_full_grads first"
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads: Heads = None) -> None:
        super().backward(out_grads)
        self._mod_aux.backward(out_grads)

    # ---- updates ------------------------------------------------------------------------------

    def init_optimizer(
        self,
        kvstore: Store = "local",
        optimizer: str | Optimizer = "sgd",
        optimizer_params: Options = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Set an optimizer for corrected gradients; a ``kvstore`` gets keys for full gradients."""
        shapes = {name: array.shape for name, array in self.get_params()[0].items()}
        self._param_dict = [{name: nd.zeros(shape) for name, shape in shapes.items()}]
        made = self._create_optimizer(optimizer, optimizer_params)
        super().init_optimizer(kvstore, made, optimizer_params, force_init)
        if self._kvstore is not None:
            for name, shape in shapes.items():
                self._kvstore.broadcast(
                    f"{name}_full", nd.zeros(shape), out=self._param_dict[0][name]
                )

    def _create_optimizer(self, wanted: str | Optimizer, options: Options) -> _SVRGOptimizer:
        keys = [*self._param_names, *(f"{name}_full" for name in self._param_names)]
        assert self._exec_group is not None, "call bind first"
        given = {"rescale_grad": 1.0 / self._exec_group.batch_size, **dict(options)}
        return _SVRGOptimizer(wanted, param_idx2name=dict(enumerate(keys)), **given)

    def update(self) -> None:
        """Update once with the corrected gradients, which replace those of the batch."""
        self._update_svrg_gradients()
        super().update()

    def _update_svrg_gradients(self) -> None:
        for name in self._trained():
            grad = self._params[name].grad()
            grad -= self._mod_aux._params[name].grad()
            grad += self._param_dict[0][name]

    def _trained(self) -> list[str]:
        return [name for name in self._param_names if self._params[name].grad_req != "null"]

    # ---- full gradients -----------------------------------------------------------------------

    def update_full_grads(self, train_data: DataIter) -> None:
        """Copy the weights to the older weights, and compute their mean gradient over all batches.

        As in MXNet the previous mean is one term of the new mean.
        """
        self._mod_aux.set_params(*self.get_params())
        full = self._param_dict[0]
        train_data.reset()
        count, pad = 0, 0
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            for name in self._trained():
                full[name] = full[name] + self._mod_aux._params[name].grad()
            count, pad = count + 1, batch.pad or 0
        assert count, "train_data has no batches"
        for name in self._trained():
            full[name] /= count - pad / train_data.batch_size
            if self._kvstore is not None:
                self._accumulate_kvstore(name, [full[name]])

    def _accumulate_kvstore(self, key: str, value: list[NDArray]) -> None:
        """Add up the full gradients of all workers."""
        self._kvstore.pushpull(f"{key}_full", value, out=value)
        self._param_dict[0][key] = value[0] / self._ctx_len

    def _start_epoch(self, epoch: int, train_data: DataIter) -> None:
        is_first = not self._mod_aux.params_initialized
        if is_first or epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
        train_data.reset()

    def _end_epoch(self, train_data: DataIter) -> None:
        """No effect: an epoch starts with a reset."""

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: object = None) -> None:
        super().prepare(data_batch, sparse_row_id_fn)
        self._mod_aux.prepare(data_batch)

"""``BucketingModule``: a module per bucket (such as a sequence length) with shared parameters.

Input: ``sym_gen(bucket_key)``, which returns a Symbol with its data and label names; batches with a
bucket key. Output: as for a Module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import nd, sym
from .._core.async_safety import restoring
from .._core.frames import public_methods
from ..context import Context
from ..formats.atomic import together
from ..initializer import Initializer, Uniform
from ..io import DataBatch, DataDesc, checkpoint
from ..metric import EvalMetric
from ..monitor import Monitor
from ..name import STACK as NAMES
from ..name import NameManager
from ..nd import NDArray
from ..nd import files as nd_files
from ..sym import Symbol
from .base_module import Arrays, BaseModule, Logger, Merged, OutGrads, Shapes, State
from .binding import GradReq
from .module import Module
from .updates import Options, Rule, Store

Generated = tuple[Symbol, Sequence[str] | None, Sequence[str] | None]  # data and label names
SymGen = Callable[..., Generated]


@public_methods
class BucketingModule(BaseModule):
    """Modules by bucket key, such as the length of a sequence, that share their parameters.

    Inputs of varying size need no buckets: a hybridized block, and a :class:`Module`, take each
    size.

    Parameters
    ----------
    sym_gen : callable
        ``sym_gen(bucket_key)`` returns the graph of a bucket, its data names and label names.
    default_bucket_key : hashable
        The bucket that is bound first: the largest, whose graph has all parameters.
    logger : module or Logger
        Receives the lines of the log.
    context : Context or list of Context, optional
        Contexts of the parameters; by default the CPU.
    **options
        Further arguments of :class:`Module`, for each bucket.

    Raises
    ------
    AssertionError
        Without ``default_bucket_key``.

    Examples
    --------
    >>> def sym_gen(length):
    ...     total = sym.sum(sym.var("data"), axis=1, keepdims=True)
    ...     fc = sym.FullyConnected(total, num_hidden=2, name="fc")
    ...     return sym.SoftmaxOutput(fc, name="softmax"), ("data",), ("softmax_label",)
    >>> module = mx.mod.BucketingModule(sym_gen, default_bucket_key=8)
    >>> module.bind([("data", (4, 8))], [("softmax_label", (4,))])
    >>> module.init_params()
    >>> module.switch_bucket(5, [("data", (4, 5))], [("softmax_label", (4,))])
    >>> module.output_shapes
    [('softmax_output', (4, 2))]
    """

    def __init__(
        self,
        sym_gen: SymGen,
        default_bucket_key: Hashable | None = None,
        logger: Logger = logging,
        context: Context | Sequence[Context] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(logger)
        assert default_bucket_key is not None, "default_bucket_key is needed"
        self._default_bucket_key = default_bucket_key
        self._sym_gen = sym_gen
        self._options = {"context": context, "logger": logger, **options}
        self._watcher: Monitor | None = None
        self._grad_req: GradReq = "write"
        self._buckets: dict[Hashable, Module] = {}
        self._current = self._module_of(default_bucket_key)

    def _module_of(self, key: Hashable) -> Module:
        """The module of a bucket, made at the first use."""
        if key not in self._buckets:
            symbol, data_names, label_names = self._generated(key)
            self._buckets[key] = Module(symbol, data_names, label_names, **self._options)
        return self._buckets[key]

    @restoring(NAMES)
    def _generated(self, key: Hashable) -> Generated:
        with NameManager():  # equal names in every bucket
            made = self._sym_gen(key)
        if not isinstance(made, (tuple, list)) or len(made) != 3:
            raise ValueError(
                f"sym_gen returns (symbol, data_names, label_names), got {type(made).__name__}"
            )
        return made

    @property
    def _curr_module(self) -> Module:
        """The current bucket's module, under MXNet's name, which programs use."""
        return self._current

    @property
    def _fixed_param_names(self) -> list[str]:
        """Parameters that are not trained, under MXNet's name, which sockeye reads."""
        return self._current._fixed_param_names

    # ---- properties of the current module ------------------------------------------------------

    @property
    def symbol(self) -> Symbol | None:
        assert self.binded, "call bind first"
        return self._current.symbol

    @property
    def data_names(self) -> list[str]:
        return self._current.data_names

    @property
    def output_names(self) -> list[str]:
        return self._current.output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        return self._current.data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        return self._current.label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return self._current.output_shapes

    # ---- binding and parameters ----------------------------------------------------------------

    def bind(
        self,
        data_shapes: Shapes,
        label_shapes: Shapes | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: object = None,
        grad_req: GradReq = "write",
    ) -> None:
        """Bind the default bucket; the others are bound by the first switch to them."""
        assert shared_module is None, "shared_module for BucketingModule is not supported"
        self._current = self._module_of(self._default_bucket_key)
        self._current.bind(
            data_shapes,
            label_shapes,
            for_training,
            inputs_need_grad,
            force_rebind,
            grad_req=grad_req,
        )
        self._grad_req, self.inputs_need_grad = grad_req, inputs_need_grad
        if force_rebind:
            self._buckets = {self._default_bucket_key: self._current}
        self.for_training, self.binded = for_training, True
        self.params_initialized = self._current.params_initialized

    def switch_bucket(
        self, bucket_key: Hashable, data_shapes: Shapes | None, label_shapes: Shapes | None = None
    ) -> None:
        """Select the module of this bucket, which shares the parameters of the default one."""
        assert self.binded, "call bind before switching bucket"
        module = self._module_of(bucket_key)
        if not module.binded:
            default = self._buckets[self._default_bucket_key]
            module.bind(
                data_shapes or (),
                label_shapes,
                self.for_training,
                self.inputs_need_grad,
                shared_module=default,
                grad_req=self._grad_req,
            )
            if self.optimizer_initialized:
                module.borrow_optimizer(default)
            if self._watcher is not None:
                module.install_monitor(self._watcher)
        self._current = module

    def get_params(self) -> tuple[Arrays, Arrays]:
        assert self.params_initialized, "call init_params or set_params first"
        return self._module_of(self._default_bucket_key).get_params()

    def init_params(
        self,
        initializer: Initializer | None = Uniform(0.01),  # noqa: B008 (has no state)
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        if self.params_initialized and not force_init:
            return
        assert self.binded, "call bind before initializing the parameters"
        self._module_of(self._default_bucket_key).init_params(
            initializer, arg_params, aux_params, allow_missing, force_init, allow_extra
        )
        self.params_initialized = True

    # ---- running --------------------------------------------------------------------------------

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        assert self.binded and self.params_initialized, "call bind and init_params first"
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._current.forward(data_batch, is_train)

    def backward(self, out_grads: OutGrads = None) -> None:
        self._current.backward(out_grads)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Merged]:
        return self._current.get_input_grads(merge_multi_context)

    def init_optimizer(
        self,
        kvstore: Store = "local",
        optimizer: Rule = "sgd",
        optimizer_params: Options = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Set an optimizer, shared by all buckets."""
        assert self.binded and self.params_initialized, "call bind and init_params first"
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        owner = self._buckets[self._default_bucket_key]
        owner.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for module in self._buckets.values():
            if module is not owner and module.binded:
                module.borrow_optimizer(owner)
        self.optimizer_initialized = True

    def update(self) -> None:
        self._current.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Merged]:
        return self._current.get_outputs(merge_multi_context)

    def update_metric(
        self, eval_metric: EvalMetric, labels: Sequence[NDArray] | None, pre_sliced: bool = False
    ) -> None:
        self._current.update_metric(eval_metric, labels, pre_sliced)

    def get_states(self, merge_multi_context: bool = True) -> list[NDArray]:
        return self._current.get_states(merge_multi_context)

    def set_states(
        self,
        states: Sequence[State] | None = None,
        value: float | None = None,
    ) -> None:
        self._current.set_states(states, value)

    def install_monitor(self, mon: Monitor) -> None:
        assert self.binded, "call bind first"
        self._watcher = mon
        for module in self._buckets.values():
            if module.binded:
                module.install_monitor(mon)

    # ---- files ----------------------------------------------------------------------------------

    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Write the parameters, a symbol file per bucket, and the list of bucket numbers."""
        keys = nd.array(list(self._buckets), dtype=np.int32)  # type: ignore[arg-type]

        def save_graphs() -> None:
            for key in self._buckets:
                self._generated(key)[0].save(f"{prefix}-{key}-symbol.json", remove_amp_cast)

        together(
            lambda: self.save_params(f"{prefix}-{epoch:04d}.params"),
            save_graphs,
            lambda: nd_files.save(f"{prefix}.buckets", keys),
        )

    @staticmethod
    def load(
        prefix: str,
        epoch: int,
        sym_gen: SymGen | None = None,
        default_bucket_key: Hashable | None = None,
        **kwargs: Any,
    ) -> BucketingModule:
        """Read the files of :meth:`save_checkpoint`. The module is not bound."""
        keys = nd_files.load(f"{prefix}.buckets")[0].asnumpy()  # type: ignore[index]
        symbols: dict[Hashable, Symbol] = {
            int(key): sym.load(f"{prefix}-{int(key)}-symbol.json") for key in keys
        }
        args, auxs = checkpoint.load_params(prefix, epoch)
        return BucketingModule.load_dict(symbols, sym_gen, default_bucket_key, args, auxs, **kwargs)

    @staticmethod
    def load_dict(
        sym_dict: Mapping[Hashable, Symbol] | None = None,
        sym_gen: SymGen | None = None,
        default_bucket_key: Hashable | None = None,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        **kwargs: Any,
    ) -> BucketingModule:
        """A module of these symbols by bucket key, with these values. It is not bound."""
        assert sym_dict is not None and sym_gen is not None, "sym_dict and sym_gen are needed"
        assert arg_params is not None and aux_params is not None, "parameters are needed"
        module = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        for key, symbol in sym_dict.items():
            _, data_names, label_names = module._generated(key)
            module._buckets[key] = Module(symbol, data_names, label_names, **module._options)
        module._current = module._module_of(default_bucket_key)
        module._current._given = arg_params, aux_params
        module._current.params_initialized = module.params_initialized = True
        return module

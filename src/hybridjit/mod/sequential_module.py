"""``SequentialModule``: a chain of modules; outputs of one are the data of the next."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from .._core.frames import public_methods
from ..initializer import Initializer, Uniform
from ..io import DataBatch, DataDesc
from ..metric import EvalMetric
from ..monitor import Monitor
from ..nd import NDArray
from .base_module import Arrays, BaseModule, Logger, Merged, OutGrads, Shapes, described
from .updates import Options, Rule, Store


@public_methods
class SequentialModule(BaseModule):
    """A chain of modules: each reads the outputs of the previous one.

    Parameters
    ----------
    logger : module or Logger
        Receives the lines of the log.

    Examples
    --------
    >>> one = sym.FullyConnected(sym.var("data"), num_hidden=5, name="one")
    >>> two = sym.SoftmaxOutput(sym.FullyConnected(sym.var("data"), num_hidden=2), name="softmax")
    >>> chain = mx.mod.SequentialModule()
    >>> _ = chain.add(mx.mod.Module(one, label_names=None))
    >>> _ = chain.add(mx.mod.Module(two), take_labels=True, auto_wiring=True)
    >>> chain.bind([("data", (4, 3))], [("softmax_label", (4,))])
    >>> chain.output_shapes
    [('softmax_output', (4, 2))]
    """

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: Logger = logging) -> None:
        super().__init__(logger)
        self._modules: list[BaseModule] = []
        self._metas: list[Mapping[str, bool]] = []
        self._label_shapes: list[DataDesc] | None = None

    def add(self, module: BaseModule, **kwargs: bool) -> SequentialModule:
        """Append a module; ``auto_wiring`` renames incoming outputs to its data. Returns
        ``self``."""
        for key in kwargs:
            assert key in (self.META_TAKE_LABELS, self.META_AUTO_WIRING), f'Unknown meta "{key}"'
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = False
        return self

    @property
    def data_names(self) -> list[str]:
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> list[str]:
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> list[DataDesc]:
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return self._modules[-1].output_shapes

    def bind(
        self,
        data_shapes: Shapes,
        label_shapes: Shapes | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: object = None,
        grad_req: str = "write",
    ) -> None:
        """Bind each module to the output shapes of its predecessor."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        assert self._modules, "Attempting to bind an empty SequentialModule"
        assert shared_module is None, "Shared module is not supported"
        shapes = described(data_shapes)
        takes_labels = False
        for module, meta in zip(self._modules, self._metas):
            if meta.get(self.META_AUTO_WIRING):
                names = module.data_names
                shapes = [DataDesc(new, desc.shape) for new, desc in zip(names, shapes)]
            labels = label_shapes if meta.get(self.META_TAKE_LABELS) else None
            takes_labels |= labels is not None
            is_first = module is self._modules[0]
            needs = inputs_need_grad if is_first else for_training
            module.bind(shapes, labels, for_training, needs, force_rebind, None, grad_req)
            shapes = [DataDesc(name, shape) for name, shape in module.output_shapes]
        self._label_shapes = described(label_shapes) if takes_labels and label_shapes else None
        self.for_training, self.binded = for_training, True
        self.inputs_need_grad = inputs_need_grad

    def get_params(self) -> tuple[Arrays, Arrays]:
        args: Arrays = {}
        auxs: Arrays = {}
        for module in self._modules:
            for together, own in zip((args, auxs), module.get_params()):
                together.update(own)
        return args, auxs

    def init_params(
        self,
        initializer: Initializer | None = Uniform(0.01),  # noqa: B008 (has no state)
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Initialise all modules. Raises AssertionError if two have parameters of the same name."""
        if self.params_initialized and not force_init:
            return
        assert self.binded, "call bind before initializing the parameters"
        owners: dict[str, int] = {}
        for i, module in enumerate(self._modules):
            module.init_params(
                initializer, arg_params, aux_params, allow_missing, force_init, allow_extra
            )
            for name in (name for params in module.get_params() for name in params):
                assert owners.setdefault(name, i) == i, (
                    f'Duplicated parameter names: "{name}" is in modules {owners[name]} and {i}'
                )
        self.params_initialized = True

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        assert self.binded and self.params_initialized, "call bind and init_params first"
        data = data_batch.data
        for module in self._modules:
            module.forward(DataBatch(data, data_batch.label), is_train)
            data = module.get_outputs()

    def backward(self, out_grads: OutGrads = None) -> None:
        """Compute each module's gradients, from the input gradients of its successor."""
        for position, module in reversed(list(enumerate(self._modules))):
            module.backward(out_grads)
            if position:
                out_grads = module.get_input_grads()

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Merged]:
        return self._modules[0].get_input_grads(merge_multi_context)

    def init_optimizer(
        self,
        kvstore: Store = "local",
        optimizer: Rule = "sgd",
        optimizer_params: Options = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Set a separate optimizer for every module."""
        assert self.binded and self.params_initialized, "call bind and init_params first"
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    def update(self) -> None:
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Merged]:
        return self._modules[-1].get_outputs(merge_multi_context)

    def install_monitor(self, mon: Monitor) -> None:
        for module in self._modules:
            module.install_monitor(mon)

    def update_metric(
        self, eval_metric: EvalMetric, labels: Sequence[NDArray] | None, pre_sliced: bool = False
    ) -> None:
        """Update a metric by every module that receives labels."""
        for module, meta in zip(self._modules, self._metas):
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

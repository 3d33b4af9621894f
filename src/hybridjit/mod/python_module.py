"""``PythonModule``: a module without parameters whose outputs are computed by user code."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import nd
from .._core.frames import public_methods
from ..initializer import Initializer, Uniform
from ..io import DataBatch, DataDesc
from ..metric import EvalMetric
from ..monitor import Monitor
from ..nd import NDArray
from .base_module import Arrays, BaseModule, Logger, Merged, OutGrads, Shapes, described
from .updates import Options, Rule, Store


@public_methods
class PythonModule(BaseModule):
    """Base of modules in Python. A subclass defines ``forward``, ``backward`` and the shapes.

    It has no parameters.

    Parameters
    ----------
    data_names, label_names, output_names : list of str
        Names of the inputs, labels and outputs; ``label_names`` may be None.
    logger : module or Logger
        Receives the lines of the log.

    Examples
    --------
    >>> class Twice(mx.mod.PythonModule):
    ...     def _compute_output_shapes(self):
    ...         return [("twice", self.data_shapes[0].shape)]
    >>> module = Twice(["data"], None, ["twice"])
    >>> module.bind([mx.io.DataDesc("data", (2, 3))])
    >>> module.output_shapes
    [('twice', (2, 3))]
    """

    def __init__(
        self,
        data_names: Sequence[str],
        label_names: Sequence[str] | None,
        output_names: Sequence[str],
        logger: Logger = logging,
    ) -> None:
        super().__init__(logger)
        self._data_names = list(data_names)
        self._label_names = list(label_names or [])
        self._output_names = list(output_names)
        self._data_shapes: list[DataDesc] = []
        self._label_shapes: list[DataDesc] | None = None
        self._output_shapes: list[tuple[str, tuple[int, ...]]] = []

    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def output_names(self) -> list[str]:
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return self._output_shapes

    def bind(
        self,
        data_shapes: Shapes,
        label_shapes: Shapes | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: object = None,
        grad_req: object = "write",
    ) -> None:
        """Set the shapes."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        assert grad_req == "write", "Python module only support write gradient"
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._data_shapes = described(data_shapes)
        self._label_shapes = described(label_shapes) if label_shapes else None
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        raise NotImplementedError(f"{type(self).__name__} does not define _compute_output_shapes")

    def get_params(self) -> tuple[Arrays, Arrays]:
        """Two empty mappings: the module has no parameters."""
        return {}, {}

    def init_params(
        self,
        initializer: Initializer | None = Uniform(0.01),  # noqa: B008 (has no state)
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """No effect: the module has no parameters."""
        self.params_initialized = True

    def init_optimizer(
        self,
        kvstore: Store = "local",
        optimizer: Rule = "sgd",
        optimizer_params: Options = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """No effect: the module has no parameters."""
        self.optimizer_initialized = True

    def update(self) -> None:
        """No effect: the module has no parameters."""

    def update_metric(
        self, eval_metric: EvalMetric, labels: Sequence[NDArray] | None, pre_sliced: bool = False
    ) -> None:
        """Update a metric with the outputs and labels, if there are labels."""
        if self._label_shapes is not None:
            assert not pre_sliced, "PythonModule does not support presliced labels"
            eval_metric.update(list(labels or []), self.get_outputs())

    def install_monitor(self, mon: Monitor) -> None:
        """No effect: a monitor observes operators, and this module has none."""


@public_methods
class PythonLossModule(PythonModule):
    """A loss in Python at the end of a :class:`SequentialModule`: it passes scores on.

    Parameters
    ----------
    name : str
        Beginning of the names of its outputs.
    data_names, label_names : list of str
        Names of one input, the scores, and one label.
    logger : module or Logger
        Receives the lines of the log.
    grad_func : callable, optional
        ``grad_func(scores, labels)`` returns the gradient with respect to the scores; otherwise a
        subclass defines ``_backward_impl``.

    Examples
    --------
    >>> loss = mx.mod.PythonLossModule(grad_func=lambda scores, labels: scores - labels)
    >>> loss.bind([mx.io.DataDesc("data", (2,))], [mx.io.DataDesc("softmax_label", (2,))])
    >>> loss.output_names
    ['pyloss_output']
    """

    def __init__(
        self,
        name: str = "pyloss",
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] = ("softmax_label",),
        logger: Logger = logging,
        grad_func: Callable[[NDArray, NDArray], Any] | None = None,
    ) -> None:
        super().__init__(data_names, label_names, [f"{name}_output"], logger)
        assert len(data_names) == len(label_names) == 1, "one data and one label"
        assert grad_func is None or callable(grad_func), "grad_func is a function"
        self._grad_func = grad_func
        self._scores: NDArray | None = None
        self._labels: NDArray | None = None
        self._scores_grad: NDArray | None = None

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(self._output_names[0], tuple(self._data_shapes[0].shape))]

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Store the data and, in training, the label."""
        (self._scores,) = data_batch.data or ()
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0] if data_batch.label else None

    def get_outputs(self, merge_multi_context: bool = True) -> list[Merged]:
        """The data itself."""
        assert merge_multi_context, "there is one part only"
        return [self._scores]

    def backward(self, out_grads: OutGrads = None) -> None:
        """Compute the gradient by ``grad_func``. Raises NotImplementedError without one."""
        assert out_grads is None, "For a loss module, out_grads should be None"
        assert self.for_training, "call bind with for_training=True first"
        self._backward_impl()

    def _backward_impl(self) -> None:
        if self._grad_func is None:
            raise NotImplementedError(f"{type(self).__name__} has no grad_func")
        assert self._scores is not None and self._labels is not None, "call forward first"
        found = self._grad_func(self._scores, self._labels)
        self._scores_grad = found if isinstance(found, NDArray) else nd.array(found)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Merged]:
        """The gradient of the data."""
        assert merge_multi_context, "there is one part only"
        return [self._scores_grad]

"""``DataParallelExecutorGroup``: executors of one symbol on several contexts, splitting batches.

Input: a symbol, contexts, shapes of a batch. Output: outputs and gradients of batches. All contexts
are this CPU; programs that implement their own modules use this class.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from .. import nd
from ..context import Context
from ..io import DataBatch, DataDesc
from ..metric import EvalMetric
from ..nd import NDArray
from ..sym import Symbol
from ..sym.binding import requests_by_name, simple_bind
from ..sym.executor import Executor, Requests
from .base_module import Logger, Merged, Shapes, described
from .by_hand import load_general, split_input_slice

Parts = list[list[tuple[slice, NDArray]]]
Placed = Mapping[str, Context | Sequence[Context]]


class DataParallelExecutorGroup:
    """Executors, one per context, with equal parameter values.

    ``workload`` is the relative share of samples of each context. The parameters of
    ``shared_group`` are shared.
    """

    def __init__(
        self,
        symbol: Symbol,
        contexts: Sequence[Context],
        workload: Sequence[float] | None,
        data_shapes: Shapes,
        label_shapes: Shapes | None,
        param_names: Sequence[str],
        for_training: bool,
        inputs_need_grad: bool,
        shared_group: DataParallelExecutorGroup | None = None,
        logger: Logger = logging,
        fixed_param_names: Sequence[str] | None = None,
        grad_req: Requests = "write",
        state_names: Sequence[str] | None = None,
        group2ctxs: Placed | Sequence[Placed] | None = None,
    ) -> None:
        self.symbol, self.contexts = symbol, list(contexts)
        self.workload = list(workload or [1] * len(self.contexts))
        self.arg_names = symbol.list_arguments()
        self.aux_names = symbol.list_auxiliary_states()
        self.param_names = list(param_names)
        self.fixed_param_names = list(fixed_param_names or [])
        self.state_names = list(state_names or [])
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self.shared_group, self.logger = shared_group, logger
        self.group2ctxs = group2ctxs
        self.output_names = symbol.list_outputs()
        self.execs: list[Executor] = []
        self.num_outputs = len(self.output_names)
        self.output_layouts = [self._output_axis(i) for i in range(self.num_outputs)]
        self._asked = grad_req
        self.bind_exec(data_shapes, label_shapes, shared_group)

    # ---- binding --------------------------------------------------------------------------------

    def bind_exec(
        self,
        data_shapes: Shapes,
        label_shapes: Shapes | None,
        shared_group: DataParallelExecutorGroup | None = None,
        reshape: bool = False,
    ) -> None:
        """Bind to shapes of a batch; with ``reshape`` keep the parameters."""
        self.decide_slices(data_shapes)
        self.data_shapes = described(data_shapes)
        self.label_shapes = None if label_shapes is None else described(label_shapes)
        self.data_names = [desc.name for desc in self.data_shapes]
        self.label_names = [desc.name for desc in self.label_shapes or ()]
        self.data_layouts, self.label_layouts = _axes(self.data_shapes), _axes(self.label_shapes)
        shapes = [dict(self._shapes_of(part)) for part in self.slices]
        if reshape:
            self.execs = [
                executor.reshape(partial_shaping=True, allow_up_sizing=True, **given)
                for executor, given in zip(self.execs, shapes)
            ]
        else:
            old = shared_group.execs if shared_group is not None else [None] * len(shapes)
            self.execs = [self._bound(*each) for each in zip(self.contexts, shapes, old)]

    def reshape(self, data_shapes: Shapes, label_shapes: Shapes | None) -> None:
        """Bind to other shapes of a batch."""
        self.bind_exec(data_shapes, label_shapes, reshape=True)

    def decide_slices(self, data_shapes: Shapes) -> list[int]:
        """Split the samples of a batch among the contexts; return each input's batch axis.

        Raises ValueError for inputs with different numbers of samples.
        """
        found = described(data_shapes)
        axes = _axes(found)
        counts = {desc.shape[axis] for desc, axis in zip(found, axes) if axis >= 0}
        if len(counts) > 1:
            raise ValueError(f"all data must have the same batch size, got {sorted(counts)}")
        self.batch_size = counts.pop() if counts else 0
        self.slices = split_input_slice(self.batch_size, self.workload)
        return axes

    def _shapes_of(self, part: slice) -> list[tuple[str, tuple[int, ...]]]:
        """The shapes of the inputs of one context."""
        found = []
        for desc in [*self.data_shapes, *(self.label_shapes or ())]:
            axis = DataDesc.get_batch_axis(desc.layout)
            sizes = list(desc.shape)
            if axis >= 0:
                sizes[axis] = part.stop - part.start
            if desc.name in self.arg_names:
                found.append((desc.name, tuple(sizes)))
        return found

    def _bound(
        self, ctx: Context, shapes: Mapping[str, tuple[int, ...]], shared: Executor | None
    ) -> Executor:
        dtypes = {d.name: d.dtype for d in [*self.data_shapes, *(self.label_shapes or ())]}
        dtypes = {name: dtype for name, dtype in dtypes.items() if name in shapes}
        executor = simple_bind(self.symbol, ctx, dtypes, None, shapes, self.grad_req)
        if shared is None:
            return executor
        args = {n: shared.arg_dict.get(n, a) if n in self.param_names else a
                for n, a in executor.arg_dict.items()}  # fmt: skip
        aux = {n: shared.aux_dict.get(n, a) for n, a in executor.aux_dict.items()}
        grads = {n: shared.grad_dict.get(n) if n in self.param_names else g
                 for n, g in executor.grad_dict.items()}  # fmt: skip
        return Executor(
            self.symbol, ctx, args, aux, {n: g for n, g in grads.items() if g is not None},
            executor._requests,
        )  # fmt: skip

    @property
    def grad_req(self) -> dict[str, str]:
        """``grad_req`` by argument: "null" for labels, states, fixed parameters, and data by
        default."""
        asked = requests_by_name(self.arg_names, self._asked)
        for name in self.arg_names:
            is_trained = name in self.param_names and name not in self.fixed_param_names
            is_wanted = is_trained or name in self.data_names and self.inputs_need_grad
            if not is_wanted or not self.for_training:
                asked[name] = "null"
            elif name in self.data_names:
                asked[name] = "write" if asked[name] == "null" else asked[name]
        return asked

    # ---- arrays ---------------------------------------------------------------------------------

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """For each parameter its arrays, one per context."""
        return self._arrays([n for n in self.param_names if n in self.arg_names], "arg_dict")

    @property
    def grad_arrays(self) -> list[list[NDArray]] | None:
        """The gradients of the parameters; None if not for training."""
        names = [n for n in self.param_names if n in self.arg_names]
        return self._arrays(names, "grad_dict") if self.for_training else None

    @property
    def aux_arrays(self) -> list[list[NDArray]]:
        """For each auxiliary state its arrays."""
        return self._arrays(self.aux_names, "aux_dict")

    @property
    def state_arrays(self) -> list[list[NDArray]]:
        """For each state its arrays."""
        return self._arrays(self.state_names, "arg_dict")

    @property
    def input_grad_arrays(self) -> list[list[NDArray]] | None:
        """The gradients of the inputs; None if they are not computed."""
        names = [name for name in self.data_names if name in self.arg_names]
        return self._arrays(names, "grad_dict") if self.inputs_need_grad else None

    @property
    def data_arrays(self) -> Parts:
        """For each input, per context, the slice of samples and the array that holds them."""
        return self._sliced(self.data_names)

    @property
    def label_arrays(self) -> Parts | None:
        """The same for the labels."""
        return None if self.label_shapes is None else self._sliced(self.label_names)

    def _arrays(self, names: Sequence[str], which: str) -> list[list[NDArray]]:
        return [[getattr(executor, which)[name] for executor in self.execs] for name in names]

    def _sliced(self, names: Sequence[str]) -> Parts:
        pairs = list(zip(self.slices, self.execs))
        return [
            [(part, executor.arg_dict[name]) for part, executor in pairs]
            for name in names
            if name in self.arg_names
        ]

    def set_params(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray],
        allow_extra: bool = False,
    ) -> None:
        """Copy values to all contexts. Raises ValueError for an unknown name."""
        for executor in self.execs:
            executor.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Write the means over all contexts into the arrays of these dictionaries."""
        for names, arrays, target in (
            (self.param_names, self.param_arrays, arg_params),
            (self.aux_names, self.aux_arrays, aux_params),
        ):
            for name, copies in zip(names, arrays):
                mean = nd.add_n(*copies) / len(copies)
                mean.astype(target[name].dtype).copyto(target[name])

    # ---- running --------------------------------------------------------------------------------

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch."""
        load_general(data_batch.data or (), self.data_arrays, self._axes(self.data_shapes))
        if self.label_arrays and getattr(data_batch, "label", None):
            load_general(data_batch.label or (), self.label_arrays, self._axes(self.label_shapes))
        for executor in self.execs:
            executor.forward(self.for_training if is_train is None else is_train)

    def _axes(self, shapes: Sequence[DataDesc] | None) -> list[int]:
        return _axes([desc for desc in shapes or () if desc.name in self.arg_names])

    def backward(self, out_grads: NDArray | Sequence[NDArray] | None = None) -> None:
        """Compute the gradients. Raises AssertionError unless the group is for training."""
        assert self.for_training, "re-bind with for_training=True to run backward"
        given = [out_grads] if isinstance(out_grads, NDArray) else list(out_grads or ())
        for part, executor in zip(self.slices, self.execs):
            heads = [self._part(grad, i, part) for i, grad in enumerate(given)]
            executor.backward(heads or None)

    def _part(self, grad: NDArray, number: int, part: slice) -> NDArray:
        axis = self._output_axis(number)
        return grad if axis < 0 else grad.slice_axis(axis, part.start, part.stop)

    def _output_axis(self, number: int) -> int:
        return DataDesc.get_batch_axis(self.symbol[number].attr("__layout__"))

    def get_outputs(
        self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None
    ) -> list[Merged]:
        """Outputs ``begin`` to ``end``, concatenated, or each as a list per context."""
        count = len(self.output_names)
        numbers = range(count)[begin:end]
        found = [[executor.outputs[i] for executor in self.execs] for i in numbers]
        if not merge_multi_context:
            return list(found)
        return [_joined(parts, self._output_axis(i)) for i, parts in zip(numbers, found)]

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """The names and shapes of the outputs for a complete batch."""
        return [(n, x.shape) for n, x in zip(self.output_names, self.get_outputs())]  # type: ignore[union-attr]

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Merged]:
        """The gradients of the data. Raises AssertionError if they are not computed."""
        assert self.inputs_need_grad, "bind with inputs_need_grad=True"
        found = self.input_grad_arrays or []
        if not merge_multi_context:
            return list(found)
        return [_joined(parts, axis) for parts, axis in zip(found, self._axes(self.data_shapes))]

    def get_states(self, merge_multi_context: bool = True) -> list[Merged]:
        """The states, concatenated, or each as a list per context."""
        return [_joined(x, 0) for x in self.state_arrays] if merge_multi_context else [
            *self.state_arrays
        ]  # fmt: skip

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        """Set the states from arrays, each a list per context, or all to one number."""
        assert (states is None) != (value is None), "set_states takes states or a value"
        for number, arrays in enumerate(self.state_arrays):
            for device, array in enumerate(arrays):
                array[:] = value if states is None else states[number][device]

    def update_metric(
        self, eval_metric: EvalMetric, labels: Sequence[NDArray], pre_sliced: bool = False
    ) -> None:
        """Update a metric with the outputs and labels of each context."""
        axes = self._axes(self.label_shapes)
        for device, (part, executor) in enumerate(zip(self.slices, self.execs)):
            mine = list(labels[device]) if pre_sliced else [
                x if axis < 0 else x.slice_axis(axis, part.start, part.stop)
                for x, axis in zip(labels, axes)
            ]  # fmt: skip
            eval_metric.update_dict(dict(zip(self.label_names, mine)), executor.output_dict)

    def install_monitor(self, mon: Any) -> None:
        """Install ``mon`` on every executor."""
        for executor in self.execs:
            mon.install(executor)


def _axes(shapes: Sequence[DataDesc] | None) -> list[int]:
    """The batch axis of each array."""
    return [DataDesc.get_batch_axis(desc.layout) for desc in shapes or ()]


def _joined(parts: Sequence[NDArray], axis: int) -> NDArray:
    if axis < 0 or len(parts) == 1:
        return parts[0]
    return nd.concat(*parts, dim=axis)


def merge_multi_context(
    outputs: Sequence[Sequence[NDArray]], major_axis: Sequence[int]
) -> list[NDArray]:
    """The outputs of all contexts, concatenated along their batch axes."""
    return [_joined(parts, axis) for parts, axis in zip(outputs, major_axis)]

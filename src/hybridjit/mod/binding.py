"""A Symbol bound to input shapes: names, arrays and parameter values.

Input: a Symbol, the names of its inputs and labels, shapes, values by name. Output: parameters and
inputs as arrays, and the graph, compiled once per input shape.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .. import nd
from .._core.async_safety import finished
from .._core.frames import public_methods, warn
from .._core.types import TensorType
from ..context import Context, cpu
from ..errors import MXNetError
from ..gluon.inference import finish_deferred
from ..gluon.parameter import Parameter
from ..graph_exec.cached_graph import CachedGraph
from ..initializer import InitDesc, Initializer, Uniform
from ..io import DataDesc
from ..ir.node import topological
from ..ir.roles import sort_variables
from ..nd import NDArray
from ..nd.interpreter import Monitor
from ..nd.storage import together_written
from ..passes.infer import NodeTypes, infer_node_types
from ..sym import Symbol
from ..sym.binding import gradient_stypes
from ..sym.outputs import declared_stypes
from .base_module import Arrays, BaseModule, Logger, Shapes, State, described
from .names import check_names, match_names
from .updates import Updates

# Contexts of the variable groups of AttrScope(ctx_group=): a mapping, or one per context.
ByGroup = Mapping[str, Context | Sequence[Context]]
Groups = ByGroup | Sequence[ByGroup] | None
GradReq = str | Sequence[str] | Mapping[str, str]


class _SparseParameter(Parameter):
    """A sparse parameter that returns its complete arrays, because a module holds all rows."""

    def data(self, ctx: Context | None = None) -> NDArray:
        """The live array on ``ctx``."""
        return self._check_and_get(self._data, ctx)

    def list_data(self) -> list[NDArray]:
        """The live arrays."""
        return self.arrays()


@public_methods
class BoundModule(BaseModule):
    """The part of a module with a Symbol that manages shapes and values."""

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
    ) -> None:
        super().__init__(logger)
        self._symbol: Symbol = symbol
        context = cpu() if context is None else context
        self._context = [context] if isinstance(context, Context) else list(context)
        self._groups = _first_of(group2ctxs)
        self._data_names = list(data_names or [])
        self._label_names = list(label_names or [])
        self._state_names = list(state_names or [])
        names = symbol.list_arguments()
        check_names(names, self._data_names, "data", True)
        check_names(names, self._label_names, "label", False)
        check_names(names, self._state_names, "state", True)
        self._fixed_param_names = list(fixed_param_names or [])
        check_names(names, self._fixed_param_names, "fixed_param", True)
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        inputs.update(sort_variables(symbol.outputs, ()).labels)
        self._param_names = [name for name in names if name not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._given: tuple[Mapping[str, NDArray], Mapping[str, NDArray]] | None = None
        self._params: dict[str, Parameter] = {}
        self._unset: set[str] = set()
        self._inputs: Arrays = {}
        self._outputs: list[NDArray] = []
        self._recorded: list[NDArray] = []
        self._grad_req: GradReq = "write"
        self._input_grads: Arrays = {}
        self._updates: Updates | None = None
        self._states_file: str | None = None
        self._monitor: Monitor | None = None
        self._stypes: Mapping[str, str] = {}  # of the variables that are not dense
        self._grad_stypes: Mapping[str, str] = {}
        self._data_shapes: list[DataDesc] = []
        self._label_shapes: list[DataDesc] | None = None

    # ---- properties -----------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """Names of the labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        return self._symbol.list_outputs()

    @property
    def data_shapes(self) -> list[DataDesc]:
        self._require_bound()
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        self._require_bound()
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        self._require_bound()
        given = {desc.name: desc.shape for desc in self._described_inputs()}
        return list(zip(self.output_names, self._symbol.infer_shape(**given)[1]))

    @property
    def arg_dict(self) -> dict[str, NDArray]:
        """The arrays of the symbol's arguments that have values."""
        return self._held(self._symbol.list_arguments())

    @property
    def aux_dict(self) -> dict[str, NDArray]:
        """The arrays of the symbol's auxiliary states that have values."""
        return self._held(self._symbol.list_auxiliary_states())

    def _held(self, names: list[str]) -> dict[str, NDArray]:
        known = {name: param.data() for name, param in self._params.items()}
        known.update(self._inputs)
        return {name: known[name] for name in names if name in known}

    def compute(self, is_train: bool) -> None:
        """To override: compute the outputs for the contents of the inputs."""
        raise NotImplementedError

    def set_monitor_callback(
        self, callback: Callable[[str, NDArray], object], monitor_all: bool = False
    ) -> None:
        """To override: call ``callback(name, array)`` for the results of every operator."""
        raise NotImplementedError

    def _require_bound(self) -> None:
        assert self.binded, "call bind first"

    def _described_inputs(self) -> list[DataDesc]:
        names = set(self._symbol.list_arguments())
        return [d for d in [*self._data_shapes, *(self._label_shapes or [])] if d.name in names]

    # ---- binding --------------------------------------------------------------------------------

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
        """Make arrays for all inputs and parameters from the shapes of the inputs.

        A module that is bound ignores the call, with a line in the log.

        Parameters
        ----------
        data_shapes : list of DataDesc or (str, tuple)
            Names and shapes of the inputs, as ``provide_data`` of an iterator.
        label_shapes : list of DataDesc or (str, tuple), optional
            The same for the labels; not needed for inference.
        for_training : bool
            Whether gradients are computed: the default of ``is_train`` of ``forward``.
        inputs_need_grad : bool
            Whether gradients with respect to the inputs are computed: see ``get_input_grads``.
        force_rebind : bool
            Whether a module that is bound is bound again.
        shared_module : Module, optional
            A bound module whose parameters are used.
        grad_req : str, list or dict
            "write", "add" or "null": one for all, for each argument in order, or by name.

        Raises
        ------
        ValueError
            For names of inputs other than ``data_names`` and ``label_names``.
        MXNetError
            For shapes that do not fit the graph, or do not determine those of all parameters.
        """
        if force_rebind:
            self._keep_values()
        elif self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._grad_req = grad_req
        shared = {} if shared_module is None else shared_module._params
        self._set_shapes(data_shapes, label_shapes, shared)
        if shared_module is not None:
            self.params_initialized, self._unset = True, shared_module._unset
        elif self._given is not None:
            self._take(*self._given, allow_extra=False)
        self.binded = True

    def _keep_values(self) -> None:
        """Keep the values of parameters for the new binding."""
        if self.binded and self.params_initialized:
            self._given = self.get_params()
        self._params, self._inputs, self.binded = {}, {}, False

    def _set_shapes(
        self,
        data_shapes: Shapes,
        label_shapes: Shapes | None,
        shared: Mapping[str, Parameter],
        states: Arrays | None = None,
    ) -> None:
        """Make all objects that depend on the shapes, then assign them together.

        ``states`` are arrays to reuse if their shapes did not change.
        """
        data, label = described(data_shapes), described(label_shapes or ())
        match_names(self._data_names, data, "data", True)
        match_names(self._label_names, label, "label", False)
        if self.for_training and label_shapes is not None:
            self._require_labels([desc.name for desc in label])
        params: dict[str, Parameter] = {}
        inputs: Arrays = {}
        types = self._node_types([*data, *label])
        self._stypes = declared_stypes(self._symbol)
        self._grad_stypes = gradient_stypes(self._symbol, types, self._stypes)
        for name, found in self._variable_types(types, [*data, *label]).items():
            state = None if states is None else states.get(name)
            if name in self._param_names or name in self._aux_names:
                params[name] = shared.get(name) or self._parameter(name, found)
            elif state is not None and state.shape == found.dims:
                inputs[name] = state
            else:
                stype = self._stypes.get(name)
                inputs[name] = nd.empty(found.dims, self._context[0], found.dtype, stype)
        graph = self._graph_of(list(inputs), params)
        graph.monitor = self._monitor
        self._take_shapes(data, label or None, params, inputs, graph)

    def _require_labels(self, given: list[str]) -> None:
        """Raise KeyError or AssertionError if training would read a label that is not given."""
        arguments = set(self._symbol.list_arguments())
        missing = [n for n in self._label_names if n in arguments and n not in given]
        strangers = [name for name in given if name not in arguments]
        if missing and strangers:
            raise KeyError(
                f"{strangers[0]} is not an input of the graph, which reads the label {missing[0]}: "
                f"make the iterator with label_name={missing[0]!r}, or the module with "
                f"label_names=[{strangers[0]!r}] and a graph that has this label"
            )
        assert given or not missing, (
            f"training reads the label {missing[0]}, and the batches have no labels: pass them to "
            "the iterator"
        )

    def _graph_of(self, names: list[str], params: dict[str, Parameter]) -> CachedGraph:
        """The graph for these parameters: the present one, with its compiled code, if it fits."""
        is_known = self._params.keys() == params.keys() and [*self._inputs] == names
        if is_known and all(self._params[name] is param for name, param in params.items()):
            return self._graph
        return CachedGraph(self._symbol.outputs, names, params, {}, "module", finish_deferred)

    @finished
    def _take_shapes(
        self,
        data: list[DataDesc],
        label: list[DataDesc] | None,
        params: dict[str, Parameter],
        inputs: Arrays,
        graph: CachedGraph,
    ) -> None:
        self._data_shapes, self._label_shapes = data, label
        self._params, self._inputs, self._graph = params, inputs, graph
        self._recorded = []
        asked = self._data_names if self.inputs_need_grad else []
        wanted = [name for name in asked if self._request_of(name) != "null"]
        attrs = self._symbol.attr_dict()
        groups = {n: attrs.get(n, {}).get("__ctx_group__", "") for n in wanted}
        places = {n: self._groups.get(group, self._context[0]) for n, group in groups.items()}
        self._input_grads = {
            n: nd.zeros(inputs[n].shape, places[n], inputs[n].dtype, stype=self._grad_stypes.get(n))
            for n in wanted
        }

    def _node_types(
        self, described_inputs: list[DataDesc], known: Mapping[str, TensorType] | None = None
    ) -> NodeTypes:
        arguments = set(self._symbol.list_arguments())
        given = {
            desc.name: TensorType(tuple(desc.shape), np.dtype(desc.dtype))
            for desc in described_inputs
            if desc.name in arguments
        }
        return infer_node_types(self._symbol.outputs, {**(known or {}), **given})

    def _variable_types(
        self, types: NodeTypes, described_inputs: list[DataDesc]
    ) -> dict[str, TensorType]:
        """The type of every variable. Raises MXNetError if one cannot be inferred."""
        found = {n.name: types[n][0] for n in topological(self._symbol.outputs) if n.is_variable}
        known = ", ".join(d.name for d in described_inputs if d.name in found)
        for name, kind in found.items():
            if not kind.is_known:
                raise MXNetError(
                    f"bind: the shapes of {known or 'no inputs'} do not determine the shape of "
                    f"{name}. If it is an input, add it to data_names or label_names and give its "
                    "shape"
                )
        return found

    def _parameter(self, name: str, found: TensorType) -> Parameter:
        """A parameter of zeros, marked as uninitialised."""
        if name in self._params and self._params[name].shape == found.dims:
            return self._params[name]
        is_trained = self.for_training and name in self._param_names
        is_trained = is_trained and name not in self._fixed_param_names
        assert found.dtype is not None
        request = self._request_of(name) if is_trained else "null"
        kind = _SparseParameter if name in self._stypes else Parameter
        param = kind(
            name,
            request,
            found.dims,
            found.dtype,
            stype=self._stypes.get(name, "default"),
            grad_stype=self._grad_stypes.get(name, "default"),
        )
        param.allocate(nd.empty(found.dims, dtype=found.dtype), self._context[:1])
        self._unset.add(name)
        return param

    def _request_of(self, name: str) -> str:
        if isinstance(self._grad_req, str):
            return self._grad_req
        if isinstance(self._grad_req, Mapping):
            return self._grad_req.get(name, "write")
        return dict(zip(self._symbol.list_arguments(), self._grad_req))[name]

    def reshape(self, data_shapes: Shapes, label_shapes: Shapes | None = None) -> None:
        """Bind to other input shapes, and keep the parameters.

        Raises MXNetError for shapes that do not fit them.
        """
        self._require_bound()
        known = {n: TensorType(p.shape, np.dtype(p.dtype)) for n, p in self._params.items()}
        self._node_types([*described(data_shapes), *described(label_shapes or ())], known)
        self._set_shapes(data_shapes, label_shapes, self._params)

    # ---- parameters -----------------------------------------------------------------------------

    def get_params(self) -> tuple[Arrays, Arrays]:
        """``(arg_params, aux_params)`` , copied."""
        assert self.params_initialized, "call init_params or set_params first"
        if not self._params and self._given is not None:
            return dict(self._given[0]), dict(self._given[1])
        args, auxs = (
            {name: self._params[name].data().copy() for name in names}
            for names in (self._param_names, self._aux_names)
        )
        return args, auxs

    @together_written
    def init_params(
        self,
        initializer: Initializer | None = Uniform(0.01),  # noqa: B008 (has no state)
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Give every parameter a value.

        Parameters
        ----------
        initializer : Initializer, optional
            Of the parameters without a value in the mappings.
        arg_params, aux_params : dict of str to NDArray, optional
            Values of parameters and of auxiliary states by name.
        allow_missing : bool
            Whether the mappings may lack a parameter, which is then initialized.
        force_init : bool
            Whether values that are set are replaced; otherwise the call is ignored, with a warning.
        allow_extra : bool
            No effect: further names are ignored.

        Raises
        ------
        RuntimeError
            For a parameter that a mapping lacks, unless ``allow_missing``.
        AssertionError
            Before ``bind``.
        """
        if self.params_initialized and not force_init:
            warn("Parameters already initialized and force_init=False. init_params call ignored.")
            return
        assert self.binded, "call bind before initializing the parameters"
        attrs = self._symbol.attr_dict()
        for names, given in ((self._param_names, arg_params), (self._aux_names, aux_params)):
            for name in sorted(names):
                if given is not None and name in given:
                    self._set(name, given[name])
                    continue
                if given is not None and not allow_missing:
                    raise RuntimeError(f"{name} is not presented")
                if initializer is not None:
                    self._initialize(InitDesc(name, attrs.get(name)), initializer)
                self._unset.discard(name)
        self.params_initialized = True

    def _initialize(self, desc: InitDesc, initializer: Initializer) -> None:
        values = self._params[desc].data()
        whole = values if values.stype == "default" else nd.zeros(values.shape, dtype=values.dtype)
        initializer(desc, whole)
        if whole is not values:
            self._params[desc].set_data(whole)

    def set_params(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray],
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set the values of parameters, as :meth:`init_params` without an initializer.

        Parameters
        ----------
        arg_params, aux_params : dict of str to NDArray
            Values of parameters and of auxiliary states by name.
        allow_missing : bool
            Whether parameters may be left out.
        force_init : bool
            Whether values that are set are replaced.
        allow_extra : bool
            Whether further names are ignored where ``allow_missing`` is set; otherwise they are
            always ignored.

        Raises
        ------
        RuntimeError
            For a missing value, unless ``allow_missing``.
        ValueError
            For a further name with ``allow_missing``, unless ``allow_extra``.
        """
        if not allow_missing:
            super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        if self.params_initialized and not force_init:
            warn("Parameters already initialized and force_init=False. set_params call ignored.")
            return
        self._require_bound()
        self._take(arg_params, aux_params, allow_extra)
        self._unset.clear()
        self.params_initialized = True

    @together_written
    def _take(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray] | None,
        allow_extra: bool,
    ) -> None:
        kinds = (
            (arg_params, self._param_names, "arguments"),
            (aux_params or {}, self._aux_names, "auxiliary states"),
        )
        for given, names, what in kinds:
            for name, array in given.items():
                if name in names:
                    self._set(name, array)
                elif not allow_extra and name not in self._inputs:
                    raise ValueError(f'Find name "{name}" that is not in the {what}')

    def _set(self, name: str, values: NDArray) -> None:
        param = self._params[name]
        if tuple(values.shape) != tuple(param.shape):
            raise MXNetError(
                f"parameter {name} has shape {param.shape} for these input shapes, "
                f"its value has shape {values.shape}"
            )
        param.set_data(values)
        self._unset.discard(name)

    # ---- states ---------------------------------------------------------------------------------

    def get_states(self, merge_multi_context: bool = True) -> list[NDArray]:
        """The arrays of ``state_names``."""
        return [self._inputs[name] for name in self._state_names]

    def set_states(
        self,
        states: Sequence[State] | None = None,
        value: float | None = None,
    ) -> None:
        """Set states from arrays, each optionally a list per context, or all to one number."""
        assert (states is None) != (value is None), "set_states takes states or a value"
        for i, state in enumerate(self.get_states()):
            state[:] = value if states is None else _merged(states[i])


def _first_of(groups: Groups) -> dict[str, Context]:
    """The context of each group on the first context of a module, which computes for all."""
    if groups is None:
        return {}
    first = groups if isinstance(groups, Mapping) else groups[0]
    return {n: c if isinstance(c, Context) else c[0] for n, c in first.items()}


def _merged(state: State) -> NDArray:
    return nd.concatenate(list(state)) if isinstance(state, (list, tuple)) else state

"""Executor: a Symbol bound to arrays, compiled once for any number of runs.

Input: a Symbol, and NDArrays for its arguments and auxiliary states. Output: NDArrays. Operands
that operators use as weights stay bound to the code; all others are read at every call. Gradients
are written into the arrays bound for them. Compiled code reads dense arrays: with a sparse argument
the graph is interpreted operator by operator, on the stored values for operators that support it.
With a sparse gradient only training is interpreted.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._core.async_safety import restoring
from .._core.frames import public
from .._core.recording import FLAGS, predict_mode, record, train_mode
from .._core.types import TensorType
from ..context import Context
from ..errors import MXNetError
from ..graph_exec.cached_graph import CachedGraph, HeldArray
from ..graph_exec.training import Heads, head_gradients, require_gradients
from ..ir.node import Node, Output, topological
from ..ir.roles import sort_variables
from ..nd import NDArray, array, empty, zeros
from ..nd.fixed_gamma import put_ones
from ..nd.interpreter import Monitor, interpret_nodes
from ..nd.sparse_dispatch import makes_sparse, sparse_arrays
from ..nd.storage import together_written
from ..nd.taped import alias, run_backward
from ..passes.infer import NodeTypes, infer_node_types
from ..runtime.holders import GRADIENTS
from .infer import by_argument_name, decided_shapes
from .outputs import Outputs
from .repeats import are_shared, without_repeats

Arrays = Mapping[str, NDArray] | Sequence[NDArray]
Requests = str | Sequence[str] | Mapping[str, str]


# Key: node of a symbol's first output. Programs bind the same symbol repeatedly.
_LATEST: weakref.WeakKeyDictionary[Node, weakref.ref[Executor]] = weakref.WeakKeyDictionary()


class Executor:
    """A Symbol and the arrays that it reads. ``forward`` reads their current contents.

    ``outputs`` are the same arrays in every call and hold the results of the latest one.
    ``grads`` are the gradient arrays and ``requests`` the ``grad_req`` values, by argument.
    """

    def __init__(
        self,
        symbol: Outputs,
        ctx: Context,
        args: dict[str, NDArray],
        aux: dict[str, NDArray],
        grads: Mapping[str, NDArray] | None = None,
        requests: Mapping[str, str] | None = None,
        like: Executor | None = None,
    ) -> None:
        self._symbol = symbol
        self._ctx = ctx
        self.arg_dict = args
        self.aux_dict = aux
        self.grad_dict = {name: (grads or {}).get(name) for name in args}
        self._requests = dict(requests or {})
        self._arrays = {**args, **aux}
        self._recorded: list[NDArray] | None = None
        self._is_train: bool | None = None  # the mode of the latest forward
        self._draws = _draws(symbol)
        self._shares = are_shared()
        require_gradients(symbol.outputs, self._wanted())
        self._types: NodeTypes = infer_node_types(symbol.outputs, types_of(self._arrays))
        stypes = {name: array.stype for name, array in self._arrays.items()}
        self._sparse = {name: stype for name, stype in stypes.items() if stype != "default"}
        self._gives_rows = any(x is not None and x.stype != "default" for x in self.grad_arrays)
        self.outputs = self._empty_outputs()
        learned = set(sort_variables(symbol.outputs, ()).missing)
        self._inputs = [name for name in self._arrays if name not in learned]
        self._monitor: Monitor | None = None
        self._learned = {n: a for n, a in self._arrays.items() if n in learned}
        self._graph = (
            self._graph_of(like)
            or self._graph_of(_latest(symbol))
            or CachedGraph(
                symbol.outputs,
                self._inputs,
                {n: HeldArray(n, _on(ctx, a)) for n, a in self._learned.items()},
                {},
                "executor",
            )
        )
        _LATEST[symbol.outputs[0].node] = weakref.ref(self)
        GRADIENTS.add(self)

    def _graph_of(self, other: Executor | None) -> CachedGraph | None:
        """The graph of another executor, with its compiled code.

        None if its symbol or its parameters differ.
        """
        if other is None or other._symbol.outputs != self._symbol.outputs:
            return None
        same = other._ctx == self._ctx and other._learned.keys() == self._learned.keys()
        if same and all(other._learned[n] is a for n, a in self._learned.items()):
            return other._graph
        return None

    def _held(self) -> Iterator[np.ndarray]:
        """Memory of the gradients."""
        return (grad._data for grad in self.grad_dict.values() if grad is not None)

    def _empty_outputs(self) -> list[NDArray]:
        """Arrays for the outputs with known shapes."""
        outputs = self._symbol.outputs
        shown = [self._types[output.node][output.index] for output in outputs]
        stypes: Sequence[str] = ["default"] * len(outputs)
        if self._sparse or makes_any_sparse(outputs):
            stypes = sparse_arrays().StorageTypes(outputs, self._types, self._sparse).outputs
        return [
            empty(t.dims, self._ctx, t.dtype, stype)
            for t, stype in zip(shown, stypes)
            if t.is_known
        ]

    # ---- arrays ---------------------------------------------------------------------------------

    @property
    def arg_arrays(self) -> list[NDArray]:
        """The arrays of the arguments, in order."""
        return list(self.arg_dict.values())

    @property
    def aux_arrays(self) -> list[NDArray]:
        """The arrays of the auxiliary states, in order."""
        return list(self.aux_dict.values())

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """The outputs by name."""
        return dict(zip(self._symbol.list_outputs(), self.outputs))

    @property
    def grad_arrays(self) -> list[NDArray | None]:
        """The gradients in the order of the arguments; None for arguments without one."""
        return list(self.grad_dict.values())

    @public
    @together_written
    def copy_params_from(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy arrays by name. Raises ValueError for an unknown name."""
        _copy_in(arg_params, self.arg_dict, "arguments", allow_extra_params)
        _copy_in(aux_params or {}, self.aux_dict, "auxiliary states", allow_extra_params)

    # ---- running --------------------------------------------------------------------------------

    @public
    @restoring(FLAGS)
    def forward(self, is_train: bool = False, **kwargs: object) -> list[NDArray]:
        """Copy ``kwargs`` into the arguments of the same names, and compute the outputs.

        Raises TypeError for an unknown argument, ValueError for another shape and for a value that
        is not an array.
        """
        for name, given in kwargs.items():
            self._write(name, given)
        self._is_train = is_train
        put_ones(self._graph.training.fixed(self._arrays))
        if self._wanted() and (is_train or self._draws):
            self._keep(self._record(is_train))
        else:
            self._recorded = None
            with train_mode() if is_train else predict_mode():
                self._keep(self._evaluate())
        return self.outputs

    def _wanted(self) -> dict[str, NDArray]:
        """The gradients to compute, by argument."""
        return {
            name: grad
            for name, grad in self.grad_dict.items()
            if grad is not None and self._requests.get(name, "null") != "null"
        }

    def _record(self, is_train: bool) -> list[NDArray]:
        """Outputs, recorded on a separate tape: the caller's arrays are not marked."""
        named = {name: alias(array) for name, array in self._arrays.items()}
        for name, grad in self._wanted().items():
            named[name]._mark(grad, self._requests[name])
        with record(is_train):
            if self._monitor is not None or self._sparse or self._gives_rows:
                self._recorded = self._interpret(named)
            else:
                self._recorded = self._graph.training(named, self._ctx)
        return self._recorded

    def _keep(self, results: list[NDArray]) -> None:
        """Write the results into the outputs, because programs keep references to those arrays."""
        if [out.shape for out in self.outputs] != [result.shape for result in results]:
            self.outputs = results
            return
        for out, result in zip(self.outputs, results):
            result.copyto(out)

    def _write(self, name: str, given: object) -> None:
        if not isinstance(given, (NDArray, np.ndarray)):
            raise ValueError("only accept keyword argument of NDArrays and numpy.ndarray")
        if name not in self.arg_dict:
            raise TypeError(f"Unknown argument {name}")
        target = self.arg_dict[name]
        if given.shape != target.shape:
            raise ValueError(
                f'Shape not match! Argument "{name}", need: {target.shape}, received: {given.shape}'
            )
        target[:] = given

    def _evaluate(self) -> list[NDArray]:
        if self._inputs and not self._sparse and self._monitor is None:
            return self._graph([_on(self._ctx, self._arrays[name]) for name in self._inputs])
        return self.interpreted()

    def interpreted(self) -> list[NDArray]:
        """The outputs, computed operator by operator: for a graph that runs once."""
        return self._interpret(self._arrays)

    def _interpret(self, named: Mapping[str, NDArray]) -> list[NDArray]:
        outputs = self._symbol.outputs
        return interpret_nodes(outputs, named, self._types, self._ctx, self._monitor)

    @public
    @restoring(FLAGS)
    def backward(self, out_grads: Heads = None, is_train: bool = True) -> None:
        """Compute the gradients of the latest ``forward``, in its mode.

        If ``forward`` was never called, it runs now; ``is_train`` selects its mode.
        ``out_grads`` is an array per output: a single one, a list, or a mapping by output name.
        Without it every output must be a loss with its own gradient, otherwise MXNetError is
        raised. Arrays are cast to the element types of their outputs.
        """
        if not self._wanted():
            return
        given = head_gradients(self._symbol.outputs, out_grads)
        if self._recorded is None:
            self._record(is_train if self._is_train is None else self._is_train)
        assert self._recorded is not None
        heads = [
            head if head is None else head.astype(out.dtype, copy=False)
            for head, out in zip(given, self._recorded)
        ]
        run_backward(self._recorded, heads, True, is_train)

    def set_monitor_callback(
        self, callback: Callable[..., object], monitor_all: bool = False
    ) -> None:
        """Call ``callback(tensor_name, array)`` for the results of every operator.

        With ``monitor_all`` also for variables and operands. Disables compilation from now on.
        """

        def report(tensor_name: str, op_name: str, tensor: NDArray) -> None:
            callback(tensor_name, tensor)

        self._monitor = Monitor(report, monitor_all, variables=True)

    # ---- other shapes ---------------------------------------------------------------------------

    @public
    def reshape(
        self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any
    ) -> Executor:
        """Make an Executor for other input shapes that shares memory as far as sizes permit.

        Both share their compiled code, as long as their parameters are the same arrays.
        Raises MXNetError if an argument outside of ``kwargs`` changes its shape, unless
        ``partial_shaping``, and if one grows, unless ``allow_up_sizing``.
        """
        shapes, _, states = decided_shapes(self._symbol, by_argument_name(self._symbol, (), kwargs))
        if shapes is None:
            raise MXNetError(f"the shapes {kwargs} do not determine the shapes of all arguments")
        new = {}
        for (name, values), shape in zip(self._arrays.items(), [*shapes, *states]):
            if values.shape != shape and name not in kwargs and not partial_shaping:
                raise MXNetError(
                    f"reshape: {name} of shape {values.shape} becomes {shape} and is not among the "
                    "given shapes: pass partial_shaping=True to permit it"
                )
            new[name] = _resized(values, shape, name, allow_up_sizing)
        args = {name: new[name] for name in self.arg_dict}
        aux = {name: new[name] for name in self.aux_dict}
        grads = {
            name: _resized(grad, new[name].shape, name, True)
            for name, grad in self.grad_dict.items()
            if grad is not None
        }
        made = Executor(self._symbol, self._ctx, args, aux, grads, self._requests, self)
        made.outputs = [
            _beginning(old, new) for old, new in zip(self.outputs, made.outputs, strict=True)
        ]
        return made

    # ---- text -----------------------------------------------------------------------------------

    def debug_str(self) -> str:
        """Description of the graph, node by node."""
        return self._symbol.debug_str()

    def get_optimized_symbol(self) -> Any:
        """The Symbol with equal operators on equal operands as one, as in MXNet; or unchanged if
        ``MXNET_ELIMINATE_COMMON_EXPR`` was 0. ``hybridjit dump`` shows what is compiled.
        """
        if not self._shares:
            return self._symbol
        return type(self._symbol)(without_repeats(self._symbol.outputs))


def _latest(symbol: Outputs) -> Executor | None:
    """The latest executor of a symbol with the same first output."""
    found = _LATEST.get(symbol.outputs[0].node)
    return None if found is None else found()


def _draws(symbol: Outputs) -> bool:
    """Whether results of a graph in prediction mode may differ from call to call."""
    uses = ((node.op, node.attrs) for node in topological(symbol.outputs))
    return any(op is not None and op.in_mode(attrs, False).is_random for op, attrs in uses)


def _beginning(old: NDArray, new: NDArray) -> NDArray:
    """The start of the memory of ``old`` in the shape of ``new``; ``new`` if ``old`` is too
    small."""
    is_alike = (old.dtype, old.stype) == (new.dtype, new.stype)
    return _resized(old, new.shape, "", True) if is_alike else new


def _resized(values: NDArray, shape: tuple[int, ...], name: str, may_grow: bool) -> NDArray:
    """``values``, the start of its memory in ``shape``, or a new array if ``shape`` is larger."""
    if values.shape == shape:
        return values
    if values.stype != "default":
        return zeros(shape, values.context, values.dtype, values.stype)
    size = math.prod(shape)
    if size <= values.size:
        return values.reshape((-1,))[:size].reshape(shape)
    if not may_grow:
        raise MXNetError(
            f"reshape: {name} grows from {values.shape} to {shape}: make the larger executor "
            "first, or pass allow_up_sizing=True"
        )
    return empty(shape, values.context, values.dtype)


def makes_any_sparse(outputs: Sequence[Output]) -> bool:
    """Whether dense arguments may have a sparse result or gradient."""
    nodes = topological(outputs)
    return any(node.op is not None and makes_sparse(node.op, node.attrs) for node in nodes)


def types_of(arrays: Mapping[str, NDArray]) -> dict[str, TensorType]:
    """Shapes and element types of arrays by name."""
    return {
        name: TensorType(values.shape, np.dtype(values.dtype)) for name, values in arrays.items()
    }


def _on(ctx: Context, values: NDArray) -> NDArray:
    """An array of the same memory on ``ctx``: all contexts are host memory."""
    return values if values.context == ctx else NDArray(values._data, ctx, values._storage)


def _copy_in(
    source: Mapping[str, Any], target: Mapping[str, NDArray], what: str, allow_extra: bool
) -> None:
    for name, values in source.items():
        if name in target:
            given = values if isinstance(values, NDArray) else array(values)
            given.astype(target[name].dtype).copyto(target[name])
        elif not allow_extra:
            raise ValueError(f'Find name "{name}" that is not in the {what}')

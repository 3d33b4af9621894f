"""SymbolBlock: a block made from an existing graph, usually from files.

Input: outputs and inputs as symbols, or the names of two files. Output: a block whose parameters
are the graph's other variables, under their full names. It is executed as a graph from the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter
from os.path import commonprefix
from types import ModuleType
from typing import Any

import numpy as np

from .. import sym
from .._core.frames import public
from .._core.types import DType, PartialShape
from ..context import Context
from ..formats.mxnet import symbol_json
from ..ir.node import topological
from ..ir.signature import fixed_shapes
from ..nd import NDArray
from ..passes.infer import hinted_dtype
from ..sym import Symbol
from ..sym.outputs import declared_stypes
from ..sym.symbol import FUNCTIONS
from .call_checks import check_structure
from .hybrid_block import HybridBlock
from .parameter import ParameterDict
from .structure import Nested, flatten, regroup, tensors_in
from .trace import Trace, of_symbols
from .types import Tensor

# Parameters of BatchNorm remain float32 with float16 data; these names identify them.
_VARIANCES = ("_running_var", "_moving_var")
_SIBLINGS = (*_VARIANCES, "_running_mean", "_moving_mean", "_gamma", "_beta")


class SymbolBlock(HybridBlock):
    """A graph as a block, made from symbols or files.

    ``hybridize(active=False)`` runs it operator by operator; ``hybridize()`` compiles it again.

    Parameters
    ----------
    outputs : Symbol or list of Symbol
        The outputs.
    inputs : Symbol or list of Symbol
        The variables that a call provides, in this order. All others are parameters.
    params : ParameterDict, optional
        Parameters to share.

    Examples
    --------
    >>> x = sym.var("x")
    >>> net = gluon.SymbolBlock(sym.tanh(x), x)
    >>> net(nd.zeros((2,))).asnumpy()
    array([0., 0.], dtype=float32)
    """

    @public
    def __init__(
        self, outputs: object, inputs: object, params: ParameterDict | None = None
    ) -> None:
        self._begin(params)
        self._trace: Trace = of_symbols(outputs, inputs)
        self._add_params()

    def _begin(self, params: ParameterDict | None) -> None:
        """Initialise a block with full names and without a graph."""
        super().__init__(prefix=None, params=None)
        self._prefix = ""
        self._params = ParameterDict("", params)

    @staticmethod
    @public
    def imports(
        symbol_file: str,
        input_names: str | Sequence[str],
        param_file: str | None = None,
        ctx: Context | Sequence[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> SymbolBlock:
        """Make a block from files of ``export``.

        Parameters
        ----------
        symbol_file : str
            The ``-symbol.json`` file.
        input_names : str or list of str
            Names of the inputs, in the order of a call.
        param_file : str, optional
            The ``.params`` file; parameters take its element types.
        ctx : Context or list of Context, optional
            Contexts; by default the current one.
        allow_missing : bool
            Whether parameters may be absent from the file.
        ignore_extra : bool
            Whether the file may contain other names.

        Raises
        ------
        MXNetError
            If a file cannot be read.
        AssertionError
            For missing and for extra parameters.
        """
        names = [input_names] if isinstance(input_names, str) else list(input_names)
        graph = Symbol(symbol_json.load(symbol_file))
        block = SymbolBlock(graph, [sym.var(name) for name in names])
        if param_file is not None:
            try:
                block.collect_params().load(
                    param_file, ctx, allow_missing, ignore_extra, "", True, "saved"
                )
            except AssertionError as error:
                absent = [name for name in names if name not in graph.list_inputs()]
                if absent:
                    way = f"the graph of {symbol_file} has no input {', '.join(absent)}"
                    raise AssertionError(f"{error} Or {way}: {graph.list_inputs()}") from None
                raise
        return block

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of the arguments."""
        return tuple(self._trace.input_names)

    @property
    def input_shapes(self) -> dict[str, PartialShape | None]:
        """The shapes of inputs in the graph; None for unknown shapes and sizes."""
        found = fixed_shapes(self._trace.outputs)
        return {name: found.get(name) for name in self._trace.input_names}

    def _parameters_of_call(self) -> Mapping[str, object]:
        return dict.fromkeys(self.input_names, Parameter.empty)

    def _add_params(self) -> None:
        """Make a parameter for every variable that is not an input; auxiliary states come last."""
        graph = self._trace.symbol
        hints = _hinted_dtypes(graph)
        stypes = declared_stypes(graph)
        inputs = set(self._trace.input_names)
        for names, req in (
            (graph.list_arguments(), "write"),
            (graph.list_auxiliary_states(), "null"),
        ):
            for name in dict.fromkeys(names):
                assert name in inputs or name not in stypes, (
                    f"SymbolBlock doesn't support Parameter '{name}' because its storage type is "
                    f"'{stypes[name]}'."
                )
                if name not in inputs and self.params.find(name) is None:
                    dtype = hints.get(name, np.float32)
                    self.params.get(name, grad_req=req, allow_deferred_init=True, dtype=dtype)
        cut = len(_shared_start(list(self.params)))
        self._reg_params = {name[cut:]: param for name, param in self.params.items()}

    def __repr__(self) -> str:
        symbol, inputs = self._trace.symbol, self._trace.input_names
        return f"{type(self).__name__}(\n{symbol} : {len(inputs)} -> {len(symbol)}\n)"

    def _clear_cached_op(self) -> None:
        self._cached = None  # keep the trace, which defines the block

    def hybridize(
        self, active: bool = True, backend: str | None = None, clear: bool = True, **flags: object
    ) -> None:
        """Compile from the next call on, with these flags; with ``active=False`` interpret."""
        self._is_compiled = active
        super().hybridize(active, backend, True, **flags)

    def reset_ctx(self, ctx: Context | list[Context]) -> None:
        """Move all parameters to other contexts. Raises ValueError if one is uninitialised."""
        self.collect_params().reset_ctx(ctx)

    def cast(self, dtype: DType) -> None:
        """Change all element types; with float16, BatchNorm's parameters remain float32."""
        super().cast(dtype)
        if np.dtype(dtype) != np.float16:
            return
        for name in self.params:
            for ending in _VARIANCES:
                if name.endswith(ending):
                    self._keep_float32(name.removesuffix(ending))

    def _keep_float32(self, start: str) -> None:
        for ending in _SIBLINGS:
            param = self.params.find(start + ending)
            if param is not None:
                param.cast("float32")

    def _forward_any(self, args: tuple[object, ...]) -> Nested:
        first = args[0]
        way = ": pass nd.array(x), or call net.predict(x)" if hasattr(first, "__array__") else ""
        assert isinstance(first, (NDArray, Symbol)), (
            "HybridBlock requires the first argument to forward be either Symbol or NDArray, but "
            f"got {type(first)}{way}"
        )
        if isinstance(first, NDArray):
            return self._call_graph([a for a in tensors_in(args) if isinstance(a, NDArray)], args)
        return self.forward_symbols(*args)

    def forward_symbols(self, *args: Nested) -> Nested:
        """The graph with its inputs replaced by ``args``, which must have the graph's sizes.

        Raises ValueError for another number of arguments: the graph exists, and has its inputs.
        """
        flat, form = flatten(args, "input")
        check_structure(self._trace, form)
        shapes = fixed_shapes(self._trace.outputs)
        given: dict[str, Any] = {
            name: _of_shape(arg, name, shapes[name]) if shapes.get(name) else arg
            for name, arg in zip(self._trace.input_names, flat)
        }
        spliced = self._trace.symbol(**given)
        each = [type(spliced)((output,)) for output in spliced.outputs]
        return regroup(each, self._trace.out_format)

    def hybrid_forward(self, F: ModuleType, x: Tensor, *args: Nested, **kwargs: Nested) -> Nested:
        """Not used: the graph exists already."""
        raise NotImplementedError("a SymbolBlock has no hybrid_forward")

    def _exportable(self) -> Trace | None:
        return self._trace


def _of_shape(x: Nested, name: str, shape: PartialShape) -> Symbol:
    """``x`` with a check that it has this shape: a second operand provides the shape."""
    axes = tuple(axis for axis, size in enumerate(shape) if size is not None)
    ones = sym.sum(x, axis=axes, keepdims=True)
    like = sym.broadcast_to(ones, shape=tuple(size or 0 for size in shape))
    same = FUNCTIONS["_internal"]["_identity_with_attr_like_rhs"]
    return same(x, like, name=f"{name}_sizes")  # type: ignore[no-any-return]


def _hinted_dtypes(graph: Symbol) -> Mapping[str, object]:
    """The dtypes that variables declare."""
    variables = [node for node in topological(graph.outputs) if node.is_variable]
    declared = {node.name: hinted_dtype(node) for node in variables}
    return {name: dtype.type for name, dtype in declared.items() if dtype is not None}


def _shared_start(names: list[str]) -> str:
    """The longest common prefix of all names that is shorter than each name."""
    start = commonprefix(names)
    return start if start not in names else start[: start.rfind("_") + 1]

"""HybridBlock: a block that is traced to a graph once, and then executed as that graph.

Input: ``hybrid_forward(F, x, ...)``, written once for arrays and symbols. Output: eager results, or
after ``hybridize()`` those of a :class:`CachedGraph`. This module does not depend on the graph's
implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from inspect import Parameter as Argument
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from .. import nd, sym
from .._core.async_safety import holding, restoring, uncollected
from .._core.fork_locks import Rank, held_at_fork
from .._core.frames import public, warn
from .._core.keywords import by_position, of_function
from .._core.lazy import Above, Late, Replaceable
from .._core.options import Flag, Options
from .._core.recording import FLAGS
from .._core.shapes import is_np_array
from .._core.types import DType, TensorType
from ..attribute import STACK as ATTRIBUTES
from ..context import STACK as CONTEXTS
from ..context import Context
from ..errors import DeferredInitializationError, MXNetError, did_you_mean
from ..ir.node import Output, precision_of
from ..name import STACK as NAMES
from ..name import TRACED, tracing
from ..nd import NDArray
from ..nd.interpreter import Monitor
from ..nd.memory import DENSE_KINDS
from ..sym import Symbol
from .block import Block
from .call_checks import (
    check_outputs,
    check_structure,
    data_of,
    explain_missing_argument,
    input_types,
    on_one_context,
    params_in,
    require_one_context,
    warn_unused,
)
from .inference import deferred_failures, finish_deferred, set_shapes, variable_types
from .model_file import described_graph
from .naming import OPEN, name_within
from .parameter import Parameter, ParameterDict
from .precision import DEFAULT
from .saving import export_graph
from .structure import (
    Format,
    Nested,
    conversion_advice,
    flatten,
    regroup,
    same_arguments,
    tensors_in,
)
from .trace import Trace, as_mode, mode_of, trace

if TYPE_CHECKING:
    from .. import verification
    from ..graph_exec import cached_graph, training
    from ..io.batches import DataDesc
    from ..ir.calibrated import Ranges
    from ..np import arrays as numpy_mode
    from . import bound, calibration, interface
else:  # not needed for eager execution: each of them imports the compiler
    verification = Late("..verification", __package__)
    numpy_mode = Late("..np.arrays", __package__)
    bound = Late(".bound", __package__)
    calibration = Late(".calibration", __package__)
    cached_graph = Late("..graph_exec.cached_graph", __package__)
    training = Late("..graph_exec.training", __package__)
    interface = Late(".interface", __package__)

onnx = Above("onnx.export")

# Held while a block is traced: two threads may make the first call at the same time.
_tracing = held_at_fork(Rank.TRACING)


class _Cached(NamedTuple):
    """A traced, callable block. Replaced as a whole, so that threads see all of it or nothing."""

    graph: cached_graph.CachedGraph
    trace: Trace
    arity: int  # number of arguments; -1 if they are nested or None
    is_plain: bool  # one input array, one output array
    called: Mapping[str, TensorType]  # types of the first call's inputs


_FLAGS = (
    *(field.name for field in fields(Options)),
    *("calibration", "exclude", "cache_size", "inline_limit"),
    # of MXNet, without effect
    *("static_alloc", "static_shape", "forward_bulk_size", "backward_bulk_size", "is_dynamic"),
    *("data_indices", "param_indices", "backend_opts", "partition_if_dynamic"),
)


def _warn_of_misspelt(flags: Collection[str]) -> None:
    """Warn of flags that are not known and spelt nearly as one that is."""
    for name in flags:
        near = "" if name in _FLAGS else did_you_mean(name, _FLAGS)
        if near:
            warn(f"hybridize() has no flag {name!r}{near}")


def _warn_of_unknown_inputs(dynamic: object, inputs: Sequence[str]) -> None:
    """Warn of names in ``hybridize(dynamic={...})`` that no input of the graph has."""
    names = dynamic if isinstance(dynamic, Mapping) else ()
    for name in names:
        if name not in inputs:
            known = ", ".join(inputs)
            warn(f"hybridize(dynamic=...): {name!r} is not an input of the network; it has {known}")


class HybridBlock(Block):
    """Base of layers and networks that can be compiled. A subclass overrides ``hybrid_forward``.

    ``hybrid_forward(F, x, ..., **params)`` computes with functions of ``F``, which is ``nd`` in
    eager calls and ``sym`` while the network is traced. The block's parameters are passed by
    their attribute names. After ``hybridize()`` the first call traces and compiles, later calls
    run the machine code. Children must be hybrid too.

    Parameters
    ----------
    prefix : str, optional
        Prefix of the names of parameters; by default made from the class's name and a count.
    params : ParameterDict, optional
        Parameters to share.

    Examples
    --------
    >>> class Scaled(gluon.HybridBlock):
    ...     def __init__(self):
    ...         super().__init__()
    ...         with self.name_scope():
    ...             self.scale = self.params.get("scale", shape=(1,), init="ones")
    ...
    ...     def hybrid_forward(self, F, x, scale):
    ...         return F.broadcast_mul(F.tanh(x), scale)
    >>> net = Scaled()
    >>> net.initialize()
    >>> net.hybridize()
    >>> net(nd.zeros((2, 3))).shape
    (2, 3)
    """

    _is_compiled = True  # False interprets the graph that a call traced
    # Types of inputs and of outputs in the file of the graph.
    _declared: tuple[Mapping[str, TensorType], Mapping[str, TensorType]] = ({}, {})
    _ranges: Ranges | None = None  # of precision "int8"
    _excluded: frozenset[str] = frozenset()
    _precision = ""  # default of ``hybridize``; "" selects the default of all networks

    def __init__(
        self,
        prefix: str | None = None,
        params: ParameterDict | None = None,
        **unknown: NoReturn,
    ) -> None:
        super().__init__(prefix, params, **unknown)
        self._active = False
        self._flags: dict[str, object] = {}
        self._trace: Trace | None = None
        self._cached: _Cached | None = None
        self._monitor: Monitor | None = None

    @public
    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if isinstance(value, (HybridBlock, Parameter)):
            self._clear_cached_op()

    def __getstate__(self) -> dict[str, object]:
        """State for copies and pickles, without the compiled graph, which a call makes again."""
        return {**vars(self), "_cached": None}

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a child. Raises ValueError unless it is a HybridBlock."""
        if not isinstance(block, HybridBlock):
            way = "If you are using Sequential, please try HybridSequential instead."
            if isinstance(block, type):
                way = f"Call the class to make a layer: {block.__name__}(...)."
            elif isinstance(block, (list, tuple)):
                way = "Pass layers one by one: add(*layers)."
            elif callable(block) and not isinstance(block, Block):
                way = "nn.HybridLambda(function) makes a layer of a function(F, x)."
            raise ValueError(
                f"Children of HybridBlock must also be HybridBlock, but {block} has type "
                f"{type(block)}. {way}"
            )
        super().register_child(block, name)
        self._clear_cached_op()

    def _clear_cached_op(self) -> None:
        """Discard the graph; the next call traces again."""
        self._cached = None
        self._trace = None

    @public
    def hybridize(
        self, active: bool = True, backend: str | None = None, clear: bool = True, **flags: Flag
    ) -> None:
        """Compile from the next call on, or stop compiling.

        Parameters
        ----------
        active : bool
            True compiles; False runs operator by operator on NumPy.
        backend : str, optional
            Accepted for MXNet's programs.
        clear : bool
            False keeps a graph that was traced before.
        **flags
            - ``cache_size``: number of signatures (shapes and dtypes of the inputs) that stay
              compiled. By default as many as take 256 MB, and at least 16. The least recently
              used one is released.
            - ``dynamic``: sizes of inputs that one compilation serves in all values. By default
              those that vary from call to call, from the second signature on; False for none, True
              for all from the first call on, ``{"data": (0, 2)}`` for axes of inputs by name.
            - ``precision``: "int8" multiplies bytes in convolutions and dense layers, with exact
              sums; it needs ``calibration``: batches of typical inputs (arrays, lists that begin
              with the inputs, a ``DataLoader``), or a table of ranges by layer or its path.
              ``exclude`` names layers that stay in float32. Such a network is not trained.
              "bfloat16" stores the operands of dense layers, convolutions and
              products of activations in 16 bits and adds in float32. The default is "float32",
              unless ``contrib.amp`` set another. Parameters, inputs and outputs remain float32.
            - ``memory``: "small" saves fewer values of a recorded call for its backward pass, which
              recomputes the others with the same bits.
            - ``winograd``: False computes convolutions by the definition's sums; "always" uses
              Winograd's and Strassen's algorithms wherever possible; by default where they are
              faster.
            - ``inline_limit``: the number of operators up to which ``autograd.get_symbol`` shows
              them instead of one for the network; 2 by default.
            - ``static_alloc``, ``static_shape`` and other names are accepted without effect; a
              warning names a flag above that is spelt nearly so.

        Raises
        ------
        ValueError
            For other values of ``dynamic``, ``precision`` and ``memory``.
        MXNetError
            For a calibration that is absent, has no batch, or has data that are not finite; at the
            next call for one of another network.
        """
        _warn_of_misspelt(flags)
        calibrated = flags.pop("calibration", None)
        excluded = calibration.excluded_layers(flags.pop("exclude", ()))
        own, options, ranges = dict(flags), Options.of(flags), None
        if active and options.precision == "int8":
            del flags["precision"]  # children have no calibration
            ranges = calibration.ranges_for(self, calibrated)
        elif calibrated is not None or excluded:
            raise ValueError('calibration and exclude are for hybridize(precision="int8")')
        if clear or not active:
            self._cached = None  # first, because it was made with the old flags
        self._active = active
        self._flags, self._ranges, self._excluded = own, ranges, excluded
        if clear:
            self._clear_cached_op()
        elif not active:
            self._cached = None
        if active and (self._forward_hooks or self._forward_pre_hooks):
            warn(
                f'"{self}" is being hybridized while still having forward hook/pre-hook. '
                f'If "{self}" is a child of HybridBlock, the hooks will not take effect.'
            )
        super().hybridize(active, backend=backend, clear=clear, **flags)

    @public
    def cast(self, dtype: DType) -> None:
        if dtype == "bfloat16":
            raise MXNetError(
                "parameters must be float16, float32 or float64, got bfloat16: "
                'hybridize(precision="bfloat16") stores operands of products in bfloat16'
            )
        self._clear_cached_op()
        super().cast(dtype)

    def register_op_hook(self, callback: Callable[..., object], monitor_all: bool = False) -> None:
        """Call ``callback(tensor_name, op_name, array)`` for the results of every operator.

        Only while hybridized. With ``monitor_all`` also for operands, before the results.
        """
        self._monitor = Monitor(callback, monitor_all)
        if self._cached is not None:
            self._cached.graph.monitor = self._monitor
        super().register_op_hook(callback, monitor_all)

    # ---- calling: the hot path ----------------------------------------------------------------

    def forward(self, x: Nested, *args: Nested) -> Nested:
        """Compute eagerly with F = nd, as a graph if hybridized, or with F = sym for symbols.

        Raises ValueError for arguments without a tensor, or with both kinds.
        """
        cached = self._cached  # None unless the block runs as a graph
        is_one = cached is not None and cached.is_plain and not args
        if is_one and (type(x) is NDArray or type(x) in DENSE_KINDS):
            return cached.graph.call_one(x)  # type: ignore[union-attr]
        arrays = (x, *args)
        if cached is not None and len(arrays) == cached.arity and on_one_context(arrays):
            results = cached.graph(arrays)
            out_format = cached.trace.out_format
            return results[0] if out_format == 0 else regroup(results, out_format)
        return self._forward_any(arrays)

    @public
    def bind(
        self, *args: Nested, out: NDArray | Sequence[NDArray] | None = None, **named: Nested
    ) -> bound.BoundCall:
        """A callable on fixed arrays: each call reads ``args`` and writes ``out``.

        It avoids the overhead of a call, for small networks.

        Parameters
        ----------
        *args, **named : NDArray
            The inputs, by position or name; write new values into them.
        out : NDArray or list of NDArray, optional
            The outputs; allocated by default.

        Raises
        ------
        ValueError
            If the block is not hybridized, or an argument is not an array.
        ShapeError, DTypeError
            For an ``out`` of another type.
        """
        if not self._active and self._exportable() is None:
            raise ValueError("bind() needs a hybridized block: call hybridize() first")
        args = self._arguments(args, named)
        results = self(*args)
        cached = self._cached
        if cached is None or cached.arity != len(args):
            raise ValueError("bind() needs arrays as arguments, not nested lists or None")
        wanted = [results] if isinstance(results, NDArray) else list(results)
        given = wanted if out is None else [out] if isinstance(out, NDArray) else list(out)
        check_outputs(wanted, given)
        return bound.BoundCall(cached.graph, list(args), given, cached.trace.out_format)

    def _of_graph(self, args: Sequence[Nested], named: Mapping[str, Nested]) -> tuple[Nested, ...]:
        """The arguments of the graph for those of a call, by position."""
        return self._arguments(args, named)

    def for_arrays(self, *args: Nested) -> HybridBlock:
        """The block whose graph serves these arrays; subclasses may select one by sizes."""
        return self

    @public
    def verify(
        self,
        *args: Nested,
        tolerance: float | None = None,
        train: bool = False,
        **named: Nested,
    ) -> verification.Verdict:
        """Compare compiled with eager results on these arguments.

        The result's ``agrees`` is the answer. Printed, it names the first step that differs by
        more than ``tolerance``, the program's line, the part of the compiler without which the
        difference disappears, and the first NaN or infinity.

        Parameters
        ----------
        *args, **named
            Arguments of a call.
        tolerance : float, optional
            Allowed difference as a fraction of the largest value; 2e-4, and 0.05 for bfloat16.
        train : bool
            True compares in training mode, forward and backward, with the gradients of
            parameters and of arguments that are variables (of all arguments, if none is).

        Raises
        ------
        NoGradientError
            With ``train``, for an operator without a gradient. Other errors are those of a call.
        TypeError
            Without an array among the arguments.
        """
        args = self._of_graph(args, named)
        flat, _ = flatten(args, "input")
        arrays = [array for array in flat if array is not None]
        if not arrays:
            raise TypeError("verify compares two calls on arrays, and got none: net.verify(x)")
        require_one_context(arrays)
        traced, params = self._traced_with_values(args)
        outputs = self._ranged(traced.outputs, params)
        ctx = arrays[0].context
        given = dict(zip(traced.input_names, arrays))
        fixed = {name: param.data(ctx) for name, param in params.items()}
        options = options_of(self)
        precision = precision_of(outputs) or options.precision
        usual = verification.TOLERANCES[precision]
        how = (options, usual if tolerance is None else tolerance, self.name or "graph")
        if train:
            named = {**given, **fixed}
            wanted = training.leading_variables(named) or training.floating(given)
            return verification.verify_training(outputs, data_of(named), wanted, *how)
        return verification.verify_graph(outputs, data_of(given), data_of(fixed), *how)

    @Replaceable
    def inputs(self) -> list[DataDesc]:
        """Names, shapes, element types and layouts of the inputs, in the order of a call.

        Sizes are None where the graph serves all values. If it serves any number of axes, the shape
        is that of the first call, and None before. Raises RuntimeError before the first hybridized
        call; networks of files have descriptions from the start. They may be
        passed by these names or by those of ``hybrid_forward``.

        Examples
        --------
        >>> net = mx.load("examples/digits/digits")
        >>> [(x.name, x.shape, x.layout) for x in net.inputs]
        [('data', (None, 1, None, None), 'NCHW')]
        """
        return self._interface()[0]

    @Replaceable
    def outputs(self) -> list[DataDesc]:
        """Names, shapes, element types and layouts of the outputs; see :attr:`inputs`."""
        return self._interface()[1]

    def _interface(self) -> tuple[list[DataDesc], list[DataDesc]]:
        traced = self._exportable()
        if traced is None:
            raise RuntimeError(
                "inputs and outputs are known after the first call of a hybridized block: call "
                "hybridize(), then the block"
            )
        called = {} if self._cached is None else self._cached.called
        params = params_in(traced, self.collect_params())
        return interface.described(traced, params, self._declared, called)

    def _by_position(self, args: Sequence[Nested], named: Mapping[str, Nested]) -> list[Nested]:
        """Arguments by the names of ``hybrid_forward``, else by those of :attr:`inputs`."""
        parameters, traced = self._parameters_of_call(), self._exportable()
        if traced is not None and traced.in_format == [0] * len(traced.inputs):
            inputs = dict.fromkeys(traced.input_names, Argument.empty)
            if not named.keys() <= parameters.keys() and named.keys() <= inputs.keys():
                parameters = inputs
        return by_position(parameters, args, named)

    def _parameters_of_call(self) -> Mapping[str, object]:
        """The array arguments of ``hybrid_forward``."""
        if type(self).forward is not HybridBlock.forward:
            return super()._parameters_of_call()
        found = of_function(self.hybrid_forward, skipped=1)  # after F
        return {name: default for name, default in found.items() if name not in self._reg_params}

    def _forward_any(self, args: tuple[object, ...]) -> Nested:
        tensors = list(tensors_in(args))
        symbols = [t for t in tensors if isinstance(t, Symbol)]
        if not tensors:
            raise ValueError(
                "In HybridBlock, there must be one NDArray or one Symbol in the input. "
                f"Please check the type of the args: got {_types(args)}.{conversion_advice(args)}"
            )
        if not symbols:
            if self._active:
                return self._call_graph(tensors, args)
            return self._call_eagerly(tensors[0].context, args)
        if len(symbols) < len(tensors):
            raise ValueError(
                "In HybridBlock, we do not support mixed NDArrays and Symbols types for the input. "
                "Please check the type of the args."
            )
        return self.forward_symbols(*args)

    def _call_graph(self, tensors: list[NDArray], args: tuple[object, ...]) -> Nested:
        flat, form = flatten(args, "input")
        cached = self._cached or self._build(args)
        check_structure(cached.trace, form)
        require_one_context(tensors)
        arrays = [array for array in flat if array is not None]
        return regroup(cached.graph(arrays), cached.trace.out_format)

    @restoring(CONTEXTS)
    def _call_eagerly(self, ctx: Context, args: tuple[object, ...]) -> Nested:
        with ctx:
            try:
                params = {name: p.data(ctx) for name, p in self._reg_params.items()}
            except DeferredInitializationError:
                self._finish_own_params(args)
                params = {name: p.data(ctx) for name, p in self._reg_params.items()}
            try:
                found = self.hybrid_forward(nd, *args, **params)
            except TypeError as error:
                explain_missing_argument(error, params)
                raise
        if isinstance(found, (tuple, list)) and is_np_array():
            mode_of(list(tensors_in(found)))
        return found

    @restoring(OPEN, NAMES, TRACED)
    def forward_symbols(self, *args: object) -> Nested:
        """Call ``hybrid_forward`` with F = sym, with operator names in this block's scope."""
        params = {name: as_mode(p.var()) for name, p in self._reg_params.items()}
        with self.name_scope(), tracing(self, name_within(TRACED.block, self)):
            try:
                return self.hybrid_forward(sym, *args, **params)
            except TypeError as error:
                explain_missing_argument(error, params)
                raise

    def hybrid_forward(self, F: ModuleType, x: Nested, *args: Nested, **kwargs: Nested) -> Nested:
        """To override: compute the outputs with functions of ``F`` (``nd`` or ``sym``)."""
        raise NotImplementedError(f"{type(self).__name__} does not define hybrid_forward")

    # ---- tracing ------------------------------------------------------------------------------

    @holding(_tracing)
    @restoring(OPEN, NAMES, TRACED, ATTRIBUTES, CONTEXTS, FLAGS)  # also for scopes of the user
    def _traced(self, args: Sequence[object]) -> Trace:
        """The block's graph for arguments of this structure, traced at the first use."""
        found = self._trace
        if found is not None:
            _, form = flatten(args, "input")
            if same_arguments(found.in_format, form):
                return found
            if self._cached is not None:
                check_structure(found, form)
        found = trace(self, args)
        params_in(
            found, self.collect_params()
        )  # raises for unknown variables, before the graph is stored
        self._trace = found
        return found

    # Programs store the formats of a network, and set those of its SymbolBlock.

    @property
    def _in_format(self) -> Format | None:
        return None if self._trace is None else self._trace.in_format

    @_in_format.setter
    def _in_format(self, form: Format) -> None:
        self._replace_trace(in_format=form)

    @property
    def _out_format(self) -> Format | None:
        return None if self._trace is None else self._trace.out_format

    @_out_format.setter
    def _out_format(self, form: Format) -> None:
        self._replace_trace(out_format=form)

    def _replace_trace(self, **formats: Any) -> None:
        assert self._trace is not None, "call the network once: its graph has the formats"
        self._trace, self._cached = replace(self._trace, **formats), None

    @holding(_tracing)
    @uncollected
    def _build(self, args: Sequence[object]) -> _Cached:
        """Trace, and bind the graph to its parameters; once, for any number of calling threads."""
        if self._cached is None:
            traced = self._traced(args)
            params = self.collect_params()
            used = params_in(traced, params)
            if self._infers_itself():
                self._finish_as_it_says(args, used)
            outputs = self._ranged(traced.outputs, used)
            graph = cached_graph.CachedGraph(
                outputs, traced.input_names, used, flags_of(self), finish=finish_deferred
            )
            graph.monitor = self._monitor
            graph.kind = _kind_of(traced.mode)
            graph.compiled &= self._is_compiled
            warn_unused(traced, params)
            _warn_of_unknown_inputs(graph.options.dynamic, traced.input_names)
            arity = len(traced.inputs)
            is_flat = traced.in_format == [0] * arity
            is_plain = is_flat and arity == 1 and traced.out_format == 0
            called = input_types(traced, args)
            self._cached = _Cached(graph, traced, arity if is_flat else -1, is_plain, called)
        return self._cached

    def _ranged(
        self, outputs: tuple[Output, ...], params: Mapping[str, Parameter]
    ) -> tuple[Output, ...]:
        """The graph with the ranges of calibration, if there are any."""
        if self._ranges is None:
            return outputs
        shapes = {name: param.shape for name, param in params.items()}
        return calibration.with_ranges(outputs, params, self._ranges, self._excluded, shapes)

    def _traced_with_values(self, args: Sequence[object]) -> tuple[Trace, dict[str, Parameter]]:
        """The graph for these arguments, and its parameters, all of which have values."""
        traced = self._traced(args)
        params = params_in(traced, self.collect_params())
        finish_deferred(traced.outputs, input_types(traced, args), params)
        return traced, params

    def _finish_own_params(self, args: tuple[object, ...]) -> None:
        """Complete the parameters of this block only; children complete theirs."""
        own = self._reg_params.values()
        with deferred_failures():
            if self._infers_itself():
                self.infer_shape(*args)
            else:
                self._infer_shapes(args, own)
        for param in own:
            param._finish_deferred_init()

    def _finish_as_it_says(self, args: Sequence[Any], params: Mapping[str, Parameter]) -> None:
        """Complete deferred parameters with the shapes that an overridden ``infer_shape`` sets."""
        deferred = [param for param in params.values() if param.is_deferred]
        if deferred:
            with deferred_failures():
                self.infer_shape(*args)
        for param in deferred:
            param._finish_deferred_init()

    @public
    def infer_shape(self, *args: Nested) -> None:
        """Set the shape of every parameter in the graph from the arguments' shapes.

        Raises ValueError if a shape cannot be inferred.
        """
        self._infer_shapes(args)

    def _infers_itself(self) -> bool:
        """Whether a subclass overrides ``infer_shape``."""
        return type(self).infer_shape is not HybridBlock.infer_shape

    def _infer_shapes(self, args: Sequence[object], needed: Iterable[Parameter] = ()) -> None:
        traced = self._traced(args)
        params = params_in(traced, self.collect_params())
        set_shapes(traced.outputs, input_types(traced, args), params, needed)

    @public
    def infer_type(self, *args: Nested) -> None:
        """Set the dtype of every parameter in the graph from the arguments' dtypes."""
        traced = self._traced(args)
        params = params_in(traced, self.collect_params())
        types = variable_types(traced.outputs, input_types(traced, args), params)
        for name, param in params.items():
            found = types[name].dtype
            if found is not None and found != param.array_dtype:
                param.dtype = found.type

    # ---- files and other functions ------------------------------------------------------------

    @public
    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> tuple[str, str]:
        """Write ``path-symbol.json`` and ``path-NNNN.params``; returns both names.

        Parameters
        ----------
        path : str
            Prefix of the file names.
        epoch : int
            Number in the name of the parameters' file.
        remove_amp_cast : bool
            Whether precisions that ``contrib.amp`` set are removed.

        Raises
        ------
        RuntimeError
            If the block was not hybridized and called before.
        MXNetError
            If the files cannot be written; old files then remain.
        """
        traced = self._exportable()
        if traced is None:
            raise RuntimeError(
                "Please first call block.hybridize() and then run forward with this block at least "
                "once before calling export."
            )
        return export_graph(traced, self.collect_params(), path, epoch, remove_amp_cast)

    @public
    def export_onnx(
        self,
        path: str,
        *args: object,
        dynamic: bool = False,
        dynamic_input_shapes: Sequence[Sequence[int | str | None]] | None = None,
    ) -> str:
        """Write the network as an ONNX file; returns ``path``.

        The file is read back and its nodes are computed on the arguments before it replaces an
        old one.

        Parameters
        ----------
        path : str
            The file.
        *args : NDArray
            Arguments of a call.
        dynamic : bool
            Whether sizes stay open.
        dynamic_input_shapes : list of tuple, optional
            With ``dynamic``, a shape for each array; sizes that are None or a name are open. By
            default all sizes that no operator fixes.

        Raises
        ------
        UnknownOpError
            For operators that cannot be written, with all their nodes.
        ShapeError
            For a size that cannot be open.
        MXNetError
            If a node's result in the file differs; it names the node.
        ValueError
            Without the arguments of a call.
        """
        if not args:
            raise ValueError(
                "export_onnx needs the arrays of a call, which decide the shapes in the file: "
                f"net.export_onnx({str(path)!r}, x)"
            )
        args = self._of_graph(args, {})
        flat, _ = flatten(args, "input")
        arrays = [array for array in flat if array is not None]
        traced, params = self._traced_with_values(args)
        given = data_of(dict(zip(traced.input_names, arrays)))
        fixed = data_of({name: param.data() for name, param in params.items()})
        wanted = dynamic_input_shapes and dict(zip(given, dynamic_input_shapes))
        onnx.write_graph(path, traced.outputs, fixed, given, dynamic, wanted or None)
        return path

    def _exportable(self) -> Trace | None:
        """The graph for export; None if it was only traced to infer shapes."""
        return None if self._cached is None else self._cached.trace

    def _described_graph(self) -> dict[str, object]:
        return described_graph(self._exportable())

    def _forget_graph(self, activate: bool) -> None:
        self._active = self._active or activate
        self._clear_cached_op()

    @public
    def optimize_for(
        self,
        x: object,
        *args: object,
        backend: str | None = None,
        clear: bool = False,
        **flags: object,
    ) -> None:
        """Hybridize and build the graph without running it. Other backends do not exist.

        Raises ValueError without ``backend``.
        """
        if backend is None:
            raise ValueError('Must specify "backend" to optimize_for')
        self.hybridize(True, backend, clear, **flags)
        self._build((x, *args))


def _kind_of(mode: str) -> type[NDArray] | None:
    """The class of the results of a block that was traced with symbols of this kind."""
    return None if not mode else NDArray if mode == "nd" else numpy_mode.ndarray


def options_of(block: HybridBlock) -> Options:
    """Compiler options of the block, from its latest ``hybridize``."""
    return Options.of(flags_of(block))


def flags_of(block: HybridBlock) -> dict[str, Flag]:
    """Arguments of the block's ``hybridize``, with its precision."""
    return {"precision": block._precision or DEFAULT.precision, **block._flags}


def _types(args: tuple[object, ...]) -> str:
    return ", ".join(type(arg).__name__ for arg in args)

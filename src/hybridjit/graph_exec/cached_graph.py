"""CachedGraph: a traced graph bound to its parameters, callable with arrays.

Input: a graph, the names of its inputs, its parameters, the flags of ``hybridize``. Output: for
each call, the graph's outputs. This module does not depend on blocks, formats or hooks.

A graph is compiled once for every signature (shapes and dtypes of the inputs). Parameters may
change at any time: every write increments a counter that each call compares once, and the weights
are packed again if it has changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter, is_
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._core.async_safety import holding
from .._core.config import config
from .._core.fork_locks import Rank, held_at_fork
from .._core.options import Flag, Options
from .._core.recording import FLAGS
from .._core.symbolic import Scope
from .._core.types import TensorType, type_of
from ..compilation import compile_variant, load_or_compile
from ..context import Context
from ..errors import MXNetError
from ..ir.node import Output, topological, with_live_operands
from ..nd import NDArray
from ..nd.eviction import evict, type_of_array
from ..nd.interpreter import Monitor, interpret_nodes
from ..nd.sparse_dispatch import HOOK
from ..nd.storage import NEVER, WRITES, Storage
from ..passes.infer import NodeTypes, infer_node_types
from ..runtime.binding import Evictable, PackedStore
from ..runtime.cache import Entry, SignatureCache
from ..runtime.executable import Executable
from ..runtime.sized_call import SizedCall
from ..runtime.split_batch import SplitBatch
from ..runtime.variant import NotServedError, Variant, Variants
from .training import TrainingGraph

# Held from the check of the parameters until they are bound. Calls that detect no change do not
# lock.
_binding = held_at_fork(Rank.BINDING)
_DATA = attrgetter("_data")
_LOOKS = 3  # attempts to read parameters that another thread writes without the lock
_MOST_TYPES = 64  # signatures of interpreted calls with cached types


class _Live(NamedTuple):
    """Arrays of all parameters on one context, and the lists that contain them.

    ``replaced`` is the value of ``WRITES.replaced`` for which the lists contain these arrays.
    """

    ctx: Context
    lists: list[object]
    named: dict[str, NDArray]
    replaced: int

    def holds(self, ctx: Context, lists: list[object]) -> bool:
        """Whether these are the arrays in ``lists`` on this context."""
        if ctx is not self.ctx or self.replaced != WRITES.replaced:
            return False
        return all(map(is_, lists, self.lists))


class GraphParameter(Protocol):
    """A parameter as a graph uses it: one of ``gluon``, or a :class:`HeldArray`."""

    @property
    def _data(self) -> list[NDArray] | None:
        """The arrays on all contexts, before a subclass of a user changes them."""

    @property
    def _is_plain(self) -> bool:
        """Whether ``data`` and ``list_data`` return these arrays."""

    @property
    def is_deferred(self) -> bool:
        """Whether its shape is not known yet."""

    @property
    def stype(self) -> str: ...

    @property
    def grad_stype(self) -> str: ...

    def data(self, ctx: Context) -> NDArray: ...

    def list_data(self) -> list[NDArray]: ...


class HeldArray:
    """An array as a parameter of a graph, without a copy."""

    stype = grad_stype = "default"
    is_deferred, _is_plain = False, True

    def __init__(self, name: str, array: NDArray) -> None:
        self.name = name
        self._data = [array]

    def data(self, ctx: Context) -> NDArray:
        """The array. Raises RuntimeError for another context."""
        (array,) = self._data
        if array.context != ctx:
            raise RuntimeError(
                f"Parameter '{self.name}' was not initialized on context {ctx}. It was only "
                f"initialized on [{array.context}]."
            )
        return array

    def list_data(self) -> list[NDArray]:
        """The array in a list."""
        return self._data


# Makes the arrays of deferred parameters, from a graph, the types of its inputs and its parameters.
Finish = Callable[[Sequence[Output], Mapping[str, TensorType], Mapping[str, Any]], None]


class CachedGraph:
    """A callable graph.

    params      the parameters in the graph, by variable name
    flags       arguments of ``hybridize``
    compiled    False runs every operator on NumPy, which is necessary if a shape depends on values
    monitor     receives the results of every operator
    by_rows     gradients of parameters are sparse: training is not compiled
    by_stored   parameters are sparse: nothing is compiled
    finish      initialises deferred parameters
    made_for    for a graph with symbolic sizes in its attributes: their scope, and the types of the
                inputs. It is compiled once, with that scope
    """

    def __init__(
        self,
        outputs: tuple[Output, ...],
        input_names: list[str],
        params: Mapping[str, GraphParameter],
        flags: Mapping[str, Flag],
        name: str = "graph",
        finish: Finish | None = None,
    ) -> None:
        if flags.get("static_shape") and not flags.get("static_alloc"):
            raise MXNetError("static_alloc must be True when static_shape is True")
        live: dict[str, Callable[[], NDArray | None] | None] = {
            name: partial(_only_array, param) for name, param in params.items()
        }
        outputs = with_live_operands(outputs, {**live, **dict.fromkeys(input_names)})
        self.outputs = outputs
        self.input_names = input_names
        self.params = dict(params)
        self.by_rows = any(param.grad_stype != "default" for param in params.values())
        self.by_stored = any(param.stype != "default" for param in params.values())
        self.options = Options.of(flags)
        self.name = name
        self.kind: type[NDArray] | None = None  # class of the results; None: that of the inputs
        self.compiled = not self._is_sized_by_values()
        self.monitor: Monitor | None = None
        self.made_for: tuple[Scope, Sequence[TensorType]] | None = None
        self.cache = SignatureCache(name, input_names, flags.get("cache_size"))
        self.training = TrainingGraph(
            outputs, input_names, self.options, name, self.cache.limit.size
        )
        self._variants: dict[object, Variants[Variant]] = {}
        self._latest: Entry | None = None
        self._live: _Live | None = None  # of the previous call, if parameters are plain
        self._is_plain = all(param._is_plain for param in params.values())
        self._finish = finish
        self.seen_writes = NEVER
        # Storages, not their ids: a new object may get the id of a freed one, with the same
        # version.
        self._versions: list[tuple[Storage, int]] = []
        self._bound: list[NDArray] = []  # parts of one array have one storage
        self._param_types: list[TensorType] = []
        self._packed = PackedStore()
        self._types: dict[tuple[object, ...], NodeTypes] = {}

    def _is_sized_by_values(self) -> bool:
        """Whether a shape depends on values: compilation needs every shape in advance."""
        for node in topological(self.outputs):
            if node.op is not None and node.op.traits.sized_by_values:
                if config.explain:
                    why = "its result has a shape that depends on values"
                    print(f"{self.name} runs operator by operator: {node.describe()}: {why}",
                          file=sys.stderr)  # fmt: skip
                return True
        return False

    def __call__(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """Compute the outputs for these inputs, on the context of the first.

        Raises RuntimeError for an uninitialised parameter, ValueError if a deferred parameter's
        shape cannot be inferred from the inputs, MXNetError that names the operator for inputs that
        do not fit.
        """
        if self.monitor is not None or not self.compiled or self._is_sparse(arrays):
            return self._interpret(arrays)
        if FLAGS.training or FLAGS.recording:
            if self.by_rows:
                return self._interpret(arrays)  # compiled code computes dense gradients
            made = self.training(self._named(arrays), arrays[0].context)
            return made if self.kind is None else [y._of_kind(self.kind) for y in made]
        entry = self._latest if self.seen_writes == WRITES.count else None  # in this order
        inputs = [array._data for array in arrays]
        if entry is None or not entry.fits(inputs):
            entry = self._entry_for(arrays)
        ctx, kind = arrays[0]._ctx, self.kind or arrays[0]._plain
        return [kind(output, ctx) for output in entry.executable(inputs)]

    def call_one(self, x: NDArray) -> NDArray:
        """The same as a call, for one array and one result, with the least overhead."""
        entry = self._latest if self.seen_writes == WRITES.count else None  # in this order
        data = x._data
        if (
            entry is None
            or data.shape != entry.shape
            or data.dtype != entry.dtype
            or self.monitor is not None
            or FLAGS.training
            or FLAGS.recording
            or not self.compiled
            or (HOOK.run is not None and self._is_sparse((x,)))
        ):
            return self((x,))[0]
        kind = self.kind or x._plain
        return kind(entry.executable.output_for(data), x._ctx)  # type: ignore[no-any-return]

    def _is_sparse(self, arrays: Sequence[NDArray]) -> bool:
        """Whether an input or a parameter is sparse: compiled code reads dense arrays."""
        return HOOK.run is not None and (
            self.by_stored or any(array.stype != "default" for array in arrays)
        )

    # ---- compiled -----------------------------------------------------------------------------

    def compiled_for(self, arrays: Sequence[NDArray]) -> Executable | SplitBatch:
        """The executable for these inputs, bound to the current parameters."""
        found = self._entry_for(arrays).executable
        return found.whole() if isinstance(found, SizedCall) else found

    @holding(_binding)
    def _entry_for(self, arrays: Sequence[NDArray]) -> Entry:
        """The compiled graph for these inputs, with the current parameters."""
        unwritten = self._unwritten(arrays)
        params = unwritten or self._parameter_arrays(arrays)
        types = [type_of(array._data) for array in arrays]
        for _ in range(_LOOKS):
            seen = self.seen_writes if unwritten else self._notice_writes(params)
            unwritten = None
            entry = self.cache.find(types) or self._new_entry(types, params)
            if entry.is_bound:
                break
            self._bind(entry, params)
            if seen in (NEVER, WRITES.count):
                break
        # Set last: calls that find both unchanged check nothing else.
        self._latest = entry
        self.seen_writes = seen
        return entry

    def _unwritten(self, arrays: Sequence[NDArray]) -> dict[str, NDArray] | None:
        """The arrays of the parameters if nothing was written since the latest call; else None."""
        if self._latest is None or self.seen_writes != WRITES.count or self._live is None:
            return None
        return self._live.named if self._live.ctx is arrays[0].context else None

    def _bind(self, entry: Entry, params: Mapping[str, NDArray]) -> None:
        """Pack the current parameters; a writer of several parameters waits for the lock."""
        if entry.variant is None:
            entry.executable.bind(_Arrays(params), self._packed)
        elif not entry.variant.bind_as_before(entry.executable, self._packed):
            entry.variant.bind(entry.executable, _Arrays(params), self._packed)
        entry.executable.pack()
        entry.is_bound = True

    def _new_entry(self, types: list[TensorType], params: Mapping[str, NDArray]) -> Entry:
        """Use a variant that serves these sizes, or compile one: symbolic if sizes vary."""
        variants = self._variants_now()
        found = variants.call_for(types)
        if found is not None:
            return self.cache.add(types, found[1], found[0], is_compiled=False)
        known = {name: type_of_array(array) for name, array in params.items()}

        def compiled(scope: Scope, sized: list[TensorType]) -> Variant:
            inputs = dict(zip(self.input_names, sized))
            return compile_variant(self.outputs, inputs, known, scope, self.options, name=self.name)

        if self.made_for is not None:
            return self._first_entry(types, compiled)
        made = variants.compiled(types, compiled, self.name)
        if made is not None:
            own = made.sizes_for(types)
            assert own is not None, "guards hold for the sizes that recorded them"
            return self.cache.add(types, made.at(own), made)
        inputs = dict(zip(self.input_names, types))
        executable = load_or_compile(self.outputs, inputs, known, self.options, name=self.name)
        variants.note(types)
        return self.cache.add(types, executable)

    def _first_entry(
        self, types: list[TensorType], compiled: Callable[[Scope, list[TensorType]], Variant]
    ) -> Entry:
        """Compile the graph with the scope of its symbolic sizes. Raises NotServedError if it is
        compiled already: other sizes need another graph.
        """
        assert self.made_for is not None
        scope, sized = self.made_for
        if scope.is_closed:
            raise NotServedError
        variant = compiled(scope, [*sized])
        self._variants_now().add(variant)
        own = variant.sizes_for(types)
        if own is None:
            raise NotServedError
        return self.cache.add(types, variant.at(own), variant)

    def variants(self) -> list[Variant]:
        """The compilations with symbolic sizes."""
        return [variant for each in self._variants.values() for variant in each.variants]

    def _variants_now(self) -> Variants[Variant]:
        """The variants for the current switches."""
        key = config.fingerprint()
        if key not in self._variants:
            self._variants[key] = Variants(self.input_names, self.options.dynamic)
        return self._variants[key]

    def _notice_writes(self, params: Mapping[str, NDArray]) -> int:
        """Discard packed weights if any parameter was written or replaced since the last check.

        Returns the count of writes that later calls compare. It is read first, so that the next
        call detects a write during the check. Memory with uncounted writers counts as changed
        every time. The state is stored after the check took effect: if an exception ends a check,
        it is repeated.
        """
        count = WRITES.count
        # Also the values from which a parameter of a user's class computes its array.
        held = [array for param in self.params.values() for array in param._data or ()]
        for array in (*params.values(), *held):
            array._storage.watched = True
        versions = [(a._storage, a._storage.version) for a in params.values()]
        is_exposed = any(storage.exposed for storage, _ in versions)
        is_bound = versions == self._versions and all(map(is_, params.values(), self._bound))
        if is_exposed or not is_bound:
            self._latest = None
            self._packed = PackedStore()
            self.cache.unbind()
            self._notice_casts(params)
            self._versions, self._bound = versions, [*params.values()]
        return NEVER if is_exposed else count

    def _notice_casts(self, params: Mapping[str, NDArray]) -> None:
        """Discard compiled code if the type of a parameter changed."""
        types = [type_of_array(array) for array in params.values()]
        if types != self._param_types:
            self.cache = SignatureCache(self.name, self.input_names, self.cache.limit.size)
            self._variants.clear()
            self._param_types = types

    # ---- interpreted --------------------------------------------------------------------------

    def _interpret(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        named = self._named(arrays)
        types = self._checked_types(named)
        ctx = arrays[0].context
        found = interpret_nodes(self.outputs, named, types, ctx, self.monitor)
        kind = self.kind or arrays[0]._plain
        return [y._of_kind(kind) for y in found]

    def _named(self, arrays: Sequence[NDArray]) -> dict[str, NDArray]:
        """The array of every variable: inputs, and parameters that are not inputs."""
        return {**self._parameter_arrays(arrays), **dict(zip(self.input_names, arrays))}

    def _parameter_arrays(self, arrays: Sequence[NDArray]) -> dict[str, NDArray]:
        """The array of every parameter, after deferred initialisation."""
        ctx: Context = arrays[0].context
        live, lists, replaced = self._live, [*map(_DATA, self.params.values())], WRITES.replaced
        if live is not None and live.holds(ctx, lists):
            return live.named
        named = self._found_arrays(arrays, ctx)
        if self._is_plain and all(map(is_, lists, map(_DATA, self.params.values()))):
            self._live = _Live(ctx, lists, named, replaced)  # none was replaced in the meantime
        return named

    def _found_arrays(self, arrays: Sequence[NDArray], ctx: Context) -> dict[str, NDArray]:
        deferred = any(param.is_deferred for param in self.params.values())
        if deferred and self._finish is not None:
            for param in self.params.values():
                if not param.is_deferred:
                    param.data(ctx)
            self._finish(self.outputs, _types(self.input_names, arrays), self.params)
        return {name: param.data(ctx) for name, param in self.params.items()}

    def _checked_types(self, named: Mapping[str, NDArray]) -> NodeTypes:
        """The type of every node for arrays of these types. Raises MXNetError if they do not
        fit."""
        types = _types(named, named.values())
        signature = tuple(types.values())
        if signature not in self._types:
            if len(self._types) >= _MOST_TYPES:
                self._types.clear()
            self._types[signature] = infer_node_types(self.outputs, types)
        return self._types[signature]


def _only_array(param: GraphParameter) -> NDArray | None:
    """The array of a parameter on one context, else None."""
    arrays = param.list_data()
    return arrays[0] if len(arrays) == 1 else None


class _Arrays(Evictable):
    """The parameters as NumPy arrays, which the executable may free once they are packed."""

    def __init__(self, params: Mapping[str, NDArray]) -> None:
        self._params = params
        self._versions = {name: array._storage.version for name, array in params.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._params[name]._data

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def evict(self, name: str, restore: Callable[[], np.ndarray]) -> None:
        """Replace the parameter's array by ``restore``, called at the next access."""
        evict(self._params[name], restore, self._versions[name])


def _types(names: Iterable[str], arrays: Iterable[NDArray]) -> dict[str, TensorType]:
    return {
        name: TensorType(array.shape, np.dtype(array.dtype)) for name, array in zip(names, arrays)
    }

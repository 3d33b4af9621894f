"""Build a library from a network: plan, kernels for every CPU, functions, weights, files.

Input: a graph with its parameters, and shapes. Output: an object, an archive, a header and, on
request, a separate file of weights. They contain nothing of Python or LLVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from .._core.compile_log import CompileLog
from .._core.frozen import dataclass, replace
from .._core.options import Options
from .._core.symbolic import Scope, hint_of
from .._core.target import Target
from .._core.types import Shape, TensorType
from ..codegen.llvm.jit import Unit, compile_together
from ..codegen.llvm.types import Value
from ..codegen.packing import pack
from ..codegen.targets import portable_target
from ..compilation import plan_one_sample
from ..compiler import new_log, plan_graph, purpose_with
from ..errors import MXNetError
from ..ir.mode import Purpose
from ..ir.node import Output
from ..ir.plan import Plan
from ..passes.plan.split_batch import batch_of, is_sample_of
from ..runtime.binding import Binding, PackedStore
from .archive import archive
from .cover import Plans
from .elf import with_section
from .entries import emit_entries
from .functions import Emitter
from .grid import Bound, Grid
from .header import header_text
from .interface import Array, Interface, identifier
from .mapping import SECTION, emit_inside, emit_mapped
from .parts import Bindings, SizedVariant, emit_sized_variant, make_sized_variant
from .sized_entries import emit_sized_entries
from .step_entries import emit_step_entries
from .step_variant import StepPlan, make_step_variant, plan_step
from .training import Memory, Training
from .variants import Variant, emit_variant, make_variant
from .weights_file import Weights

# Larger weights need a file: code reaches addresses up to 2 GB away.
MOST_INSIDE = 1 << 30


@dataclass(frozen=True)
class Request:
    """Options of a library.

    name        prefix of its functions and its files
    any_batch   whether the batch size is an argument of a call; the first axis of every input type
                is then 1
    bounds      the bounds of named sizes of the inputs, which calls give
    targets     CPUs of one architecture; the one with the widest vectors first
    threads     whether a context may have several threads
    mapped      whether the weights are in a separate file
    options     options of the compiler
    """

    name: str
    any_batch: bool
    targets: tuple[Target, ...]
    threads: bool
    mapped: bool
    options: Options = Options()  # noqa: RUF009 (frozen)
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True)
class Network:
    """A graph, the names of its outputs, the types of its variables, and its parameters.

    sizes  names of the axes of inputs whose sizes calls give, by the inputs' names; "" for others
    at     for a graph that depends on the shapes of its inputs: a function that gives the network
           for these shapes, whose sizes may be symbolic
    """

    outputs: tuple[Output, ...]
    output_names: tuple[str, ...]
    input_types: Mapping[str, TensorType]
    param_types: Mapping[str, TensorType]
    params: Mapping[str, np.ndarray]
    sizes: Mapping[str, tuple[str, ...]]
    at: Callable[[Mapping[str, Shape]], Network] | None = None


@dataclass(frozen=True)
class Built:
    """A library in memory, before it is written.

    code        the object, without weights inside
    head        start of the file of weights; empty if the weights are inside the object
    symbols     the public functions
    """

    interface: Interface
    code: bytes
    weights: Weights
    head: bytes
    symbols: tuple[str, ...]

    def object(self) -> Iterator[bytes | memoryview]:
        """The relocatable object's bytes."""
        if self.head:
            return iter([self.code])
        return with_section(self.code, SECTION, self.weights.pieces(), self.weights.nbytes)

    def archive(self) -> Iterator[bytes | memoryview]:
        """The static library's bytes."""
        nbytes = sum(len(piece) for piece in self.object())
        return archive(self.interface.name, self.object(), nbytes, self.symbols)

    def weights_file(self) -> Iterator[bytes | memoryview]:
        """The bytes of the file of weights."""
        return self.weights.file(self.head)

    def header(self, version: str) -> str:
        """The header file; ``version`` is the compiler's."""
        return header_text(self.interface, version)


def build(network: Network, request: Request, log: CompileLog) -> Built:
    """Compile a network. Raises MXNetError for features that libraries do not support."""
    if request.bounds:
        try:
            return build_sized(network, request, log)
        except NotSeparableError as error:
            raise MXNetError(str(error)) from None
    plan, rounds = _plan(network, request, log)
    interface = _interface(plan, network.output_names, rounds, request)
    binding, weights = Binding(plan, pack, network.params, PackedStore()), Weights()
    variants = [
        make_variant(plan, t, request.options.winograd, log, interface, binding, weights)
        for t in request.targets
    ]
    return _built(interface, request, variants, weights, emit_entries, log)


def build_sized(network: Network, request: Request, log: CompileLog) -> Built:
    """Compile a network whose inputs have sizes that calls give."""
    grid, weights = Grid(request.bounds), Weights()
    plans = Plans(grid, lambda scope: _symbolic_plan(network, request, scope, log))
    bindings = Bindings(weights)
    winograd = request.options.winograd
    variants = [
        make_sized_variant(plans, grid, target, winograd, log, bindings)
        for target in request.targets
    ]
    interface = _sized_interface(network, request, plans)
    registers = max(t.instructions.registers for v in variants for t in v.tables)

    def emit(emitter: Emitter, interface: Interface, records: Value) -> None:
        emit_sized_entries(emitter, interface, records, registers)

    return _built(interface, request, variants, weights, emit, log)


def build_training(training: Training, request: Request, log: CompileLog) -> Built:
    """Compile a training step for a fixed batch size, that of the inputs.

    Raises MXNetError for features that libraries do not support, and as the compiler does.
    """
    weights = Weights()
    plan, memory = plan_step(training, weights, log, request.name)
    first_place = weights.place(memory.first)
    interface = _step_interface(training, memory, plan, request)
    variants = [
        make_step_variant(plan, training, memory, weights, target, log)
        for target in request.targets
    ]

    def emit(emitter: Emitter, interface: Interface, variants: Value) -> None:
        emit_step_entries(emitter, interface, variants, training, memory, first_place)

    return _built(interface, request, variants, weights, emit, log)


def _step_interface(
    training: Training, memory: Memory, plan: StepPlan, request: Request
) -> Interface:
    inputs = zip(training.input_names, training.inputs.values())
    outputs = zip(training.output_names, plan.plans[0].outputs)
    return Interface(
        name=identifier(request.name),
        inputs=tuple(Array(name, _dtype(t), t.dims) for name, t in inputs),
        outputs=tuple(Array(name, view.dtype, view.shape) for name, view in outputs),
        any_batch=False,
        rounds=1,
        threads=request.threads,
        weights=_weights_name(request),
        targets=tuple(target.name for target in request.targets),
        states=memory.states(),
    )


def _weights_name(request: Request) -> str:
    return f"{identifier(request.name)}.weights" if request.mapped else ""


def _built(
    interface: Interface,
    request: Request,
    variants: Sequence[Variant | SizedVariant],
    weights: Weights,
    emit: Callable[[Emitter, Interface, Value], None],
    log: CompileLog,
) -> Built:
    """Assemble the library of these variants; ``emit`` writes the public functions."""
    emitter = Emitter(interface.name, _least(request.targets))
    records = [
        emit_sized_variant(emitter, variant)
        if isinstance(variant, SizedVariant)
        else emit_variant(emitter, variant)
        for variant in variants
    ]
    head = _emit_weights(emitter, weights, request)
    emit(emitter, interface, emitter.record("variants", records))
    code = log.timed("library", "one object", lambda: _compiled(emitter, variants))
    return Built(interface, code, weights, head, tuple(emitter.public))


def _least(targets: Sequence[Target]) -> Target:
    """The target of all functions except kernels: any CPU, so that ``init`` can refuse to run."""
    return portable_target("sse2" if "x86" in targets[0].triple else "neon")


def _compiled(emitter: Emitter, variants: Sequence[Variant | SizedVariant]) -> bytes:
    functions = Unit(str(emitter.module), emitter.target, emitter.public)
    return compile_together([functions, *(u for variant in variants for u in variant.units())])


def _emit_weights(emitter: Emitter, weights: Weights, request: Request) -> bytes:
    """Emit the functions that open the weights; return the start of their file, or nothing."""
    if request.mapped:
        head = weights.head()
        emit_mapped(emitter, head, weights.nbytes)
        return head
    if weights.nbytes > MOST_INSIDE:
        raise MXNetError(
            f"the weights inside a library have at most {MOST_INSIDE} bytes, got {weights.nbytes}: "
            "write them to a file with --weights file"
        )
    emit_inside(emitter)
    return b""


# --- plans ---


def _plan(network: Network, request: Request, log: CompileLog) -> tuple[Plan, int]:
    """Plan of one round, and the number of rounds of a call (of one sample, for any batch)."""
    types = network.input_types, network.param_types
    purpose = purpose_with(request.options)
    plan = plan_graph(network.outputs, *types, log, request.name, purpose)
    if request.any_batch:
        _require_separable(plan, network, purpose)
        return plan, 1
    one = plan_one_sample(plan, network.outputs, *types, log)
    return (plan, 1) if one is None else (one, plan.graph.inputs[0].shape[0])


def _symbolic_plan(
    network: Network, request: Request, scope: Scope, log: CompileLog
) -> tuple[Plan, Mapping[str, np.ndarray]]:
    """The plan with symbols of the scope for named sizes, and for one sample of any batch; and its
    parameters.
    """
    purpose = replace(purpose_with(request.options), is_library=True)
    symbols: Mapping[str, Any] = scope.symbols
    inputs = {
        name: t.with_shape(
            tuple(symbols.get(n, size) for n, size in zip(network.sizes[name], t.dims))
        )
        for name, t in network.input_types.items()
    }
    if network.at is not None:
        network = network.at({name: t.dims for name, t in inputs.items()})
    types = inputs, network.param_types
    plan = plan_graph(network.outputs, *types, log, request.name, purpose)
    if request.any_batch:
        _require_separable_at(network, inputs, purpose)
    return plan, network.params


def _require_separable_at(
    network: Network, inputs: Mapping[str, TensorType], purpose: Purpose
) -> None:
    """Raise MXNetError if samples of a batch depend on each other, at the hints of the sizes."""
    hints = {n: t.with_shape(tuple(map(hint_of, t.dims))) for n, t in inputs.items()}
    at_hints = replace(network, input_types=hints)
    types = hints, network.param_types
    plan = plan_graph(network.outputs, *types, new_log(), purpose=purpose)
    sizes = {size for t in hints.values() for size in t.dims}
    batch = next(size for size in count(2) if size not in sizes)
    try:
        _require_separable(plan, at_hints, purpose, batch)
    except MXNetError as error:
        raise NotSeparableError(str(error)) from None


def _sized_interface(network: Network, request: Request, plans: Plans) -> Interface:
    plan = plans.first.plan
    named = [
        tuple(name or size for name, size in zip(network.sizes[v.name], v.type.dims))
        for v in plan.graph.inputs
    ]
    inputs = [Array(v.name, _dtype(v.type), s) for v, s in zip(plan.graph.inputs, named)]
    outputs = [
        Array(name, view.dtype, tuple(n if isinstance(n, int) else str(n) for n in view.shape))
        for name, view in zip(network.output_names, plan.outputs)
    ]
    names = [name for each in network.sizes.values() for name in each if name]
    return Interface(
        name=identifier(request.name),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        any_batch=request.any_batch,
        rounds=1,
        threads=request.threads,
        weights=_weights_name(request),
        targets=tuple(target.name for target in request.targets),
        sizes=tuple(dict.fromkeys(names)),
        bounds=request.bounds,
        refusals=tuple(refused.text for refused in plans.refused),
    )


class NotSeparableError(Exception):
    """Samples of a batch depend on each other: no sizes can be served."""


def _require_separable(one: Plan, network: Network, purpose: Purpose, batch: int = 2) -> None:
    """Raise MXNetError if samples of a batch depend on each other.

    ``batch`` is a size that differs from those of the other axes.
    """
    many = {n: t.with_shape((batch, *t.dims[1:])) for n, t in network.input_types.items()}
    try:
        types = many, network.param_types
        whole = plan_graph(network.outputs, *types, new_log(), purpose=purpose).graph
    except MXNetError as error:
        raise MXNetError(
            "N in a shape means any batch size, and the graph does not compile for a batch of "
            f"{batch}: {error}"
        ) from None
    if batch_of(whole) != batch or not is_sample_of(one.graph, whole):
        raise MXNetError(
            "N in a shape means any batch size, but samples of this graph depend on each other, "
            "or its first axis is not always the batch: give a fixed size, or --bound 'N<=8'"
        )


def _interface(plan: Plan, output_names: Sequence[str], rounds: int, request: Request) -> Interface:
    graph = plan.graph

    def array(name: str, shape: Sequence[int], dtype: np.dtype) -> Array:
        sizes = shape if request.any_batch or rounds == 1 else (rounds, *shape[1:])
        return Array(name, dtype, tuple(sizes))

    inputs = [array(v.name, v.type.dims, _dtype(v.type)) for v in graph.inputs]
    outputs = [array(n, view.shape, view.dtype) for n, view in zip(output_names, plan.outputs)]
    return Interface(
        name=identifier(request.name),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        any_batch=request.any_batch,
        rounds=rounds,
        threads=request.threads,
        weights=_weights_name(request),
        targets=tuple(target.name for target in request.targets),
    )


def _dtype(type_: TensorType) -> np.dtype:
    assert type_.dtype is not None
    return type_.dtype

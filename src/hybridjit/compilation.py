"""Compilations: for inference and training, of fixed and of symbolic sizes, of eager calls.

Each runs the pipeline of ``compiler`` and gives its plans to the code generator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

from ._core.async_safety import holding, uncollected
from ._core.compile_log import CompileLog
from ._core.config import config, override
from ._core.fork_locks import Rank, held_at_fork
from ._core.frozen import dataclass
from ._core.lazy import Late
from ._core.options import Options
from ._core.symbolic import Scope
from ._core.types import TensorType
from .errors import DTypeError, MXNetError, ShapeError
from .ir.graph import Graph
from .ir.kinds import KIND_NAMED
from .ir.mode import INFERENCE, Purpose
from .ir.node import Output, topological
from .ir.plan import Plan
from .ir.signature import without_sizes
from .ir.stored_plan import NotStorableError, key_text
from .ir.update import UpdateRule
from .ir.verify import Verified
from .runtime.compile_stats import counted
from .runtime.executable import Executable, take_turns
from .runtime.leftovers import release_code, release_freed
from .runtime.routine import Routine
from .runtime.split_batch import SplitBatch
from .runtime.threads import THREADS
from .runtime.variant import Signature, Variant

if TYPE_CHECKING:
    from . import compiler, trained
    from ._core import limits
    from ._core.target import Target
    from .passes.plan import last_layers, one_sample, split_batch
else:
    compiler = Late(".compiler", __package__)  # for graphs whose plan is not stored
    last_layers = Late(".passes.plan.last_layers", __package__)  # for large batches
    limits = Late("._core.limits", __package__)  # for the first compilation
    one_sample = Late(".passes.plan.one_sample", __package__)
    split_batch = Late(".passes.plan.split_batch", __package__)
    trained = Late(".trained", __package__)  # for the first training step

_LOCK = held_at_fork(Rank.COMPILING)
# Number of values of a forward graph whose kernels take LLVM longer than a worker needs to start.
_MANY_VALUES = 32
# The same of nodes of a symbol, with its variables: AlexNet has 38, ResNet-18 171.
_MANY_NODES = 96
# Bytes of saved values and arena above which memory that compiling freed is returned to the system.
_LARGE = 1 << 25


@dataclass(frozen=True)
class _Typed:
    """A graph with the known types of its variables, those of the inputs in call order."""

    outputs: tuple[Output, ...]
    input_types: Mapping[str, TensorType]
    param_types: Mapping[str, TensorType]


@holding(_LOCK)
@counted("compilations")
def compile_graph(
    outputs: Iterable[Output],
    input_types: Mapping[str, TensorType],
    param_types: Mapping[str, TensorType],
    options: Options = Options(),  # noqa: B008 (frozen)
    log: CompileLog | None = None,
    name: str = "graph",
    purpose: Purpose = INFERENCE,
) -> Executable | SplitBatch:
    """Symbol in, executable out.

    input_types  the inputs, in call order, with their types
    param_types  the known types of all other variables
    purpose      which outputs update inputs, which are saved, in which mode

    Raises ShapeError, DTypeError and the like as ``infer`` does; InternalError for bugs of
    hybridjit.
    """
    log = log or compiler.new_log(config.dump)
    log.name = name
    graph = _Typed(tuple(outputs), input_types, param_types)
    return _compiled(graph, options, log, compiler.purpose_with(options, purpose))


@holding(_LOCK)
@counted("compilations")
@uncollected  # imports many modules
def load_or_compile(
    outputs: Iterable[Output],
    input_types: Mapping[str, TensorType],
    param_types: Mapping[str, TensorType],
    options: Options = Options(),  # noqa: B008 (frozen)
    log: CompileLog | None = None,
    name: str = "graph",
) -> Executable | SplitBatch:
    """:func:`compile_graph` for inference, with the plan that an earlier process stored."""
    graph = _Typed(tuple(outputs), input_types, param_types)
    key = _key_of(graph, options)
    found = _loaded(key, graph, options, log or CompileLog((), name=name), name) if key else None
    if found is not None:
        return found
    log = log or compiler.new_log(config.dump)
    log.name = name
    made = _compiled(graph, options, log, compiler.purpose_with(options))
    if key:
        _store(key, made)
    return made


@dataclass(frozen=True)
class _Planned:
    """The plan of a graph; if samples run one by one, that of one sample and their number.

    last  the plan of the last layers, if they run for all samples at once
    """

    plan: Plan
    samples: int = 0
    last: Plan | None = None


def _compiled(
    graph: _Typed, options: Options, log: CompileLog, purpose: Purpose
) -> Executable | SplitBatch:
    found: list[_Planned] = []
    logs = [log]

    def planned() -> Iterator[tuple[Plan, CompileLog]]:
        made = _planned_samples(graph, log, purpose)
        found.append(made)
        yield made.plan, log
        if made.last is not None:
            logs.append(replace(log, times=[], details=[], notes=[]))
            yield made.last, logs[-1]

    # A worker starts while the passes run, not when the first kernels have been emitted.
    is_large = len(topological(graph.outputs)) >= _MANY_NODES
    executables = generate_all(planned(), options, is_large=is_large)
    for each in logs:
        each.report()
    return _joined(executables, found[0].samples)


def _joined(executables: Sequence[Executable], samples: int) -> Executable | SplitBatch:
    """The executable of the batch, from that of one sample and that of the last layers, if any."""
    one, *last = executables
    return SplitBatch(one, samples, *last) if samples else one


def _planned_samples(graph: _Typed, log: CompileLog, purpose: Purpose) -> _Planned:
    known = (graph.input_types, graph.param_types, log)
    plan = compiler.plan_graph(graph.outputs, *known, log.name, purpose)
    one = plan_one_sample(plan, graph.outputs, *known)
    if one is None:
        return _Planned(plan)
    samples = plan.graph.inputs[0].shape[0]
    parts = last_layers.with_last_layers_apart(one.graph, plan.graph)
    if parts is None:
        return _Planned(one, samples)
    log.notes.append(f"{plan.graph.name} runs its last layers for all samples at once")
    first, last = (compiler.plan_hoisted(part, CompileLog((), name=log.name)) for part in parts)
    return _Planned(first, samples, last)


def _key_of(graph: _Typed, options: Options) -> str | None:
    """The key of a graph's plan; None if none is stored, or if a switch shows its stages."""
    is_seen = config.dump or config.explain or config.timing or config.check
    if is_seen or config.skip or config.tuned or config.cache_dir == "off":
        return None
    try:
        text = key_text(graph.outputs, graph.input_types, graph.param_types)
    except NotStorableError:
        return None
    key: str | None = _stored_plans().plan_key(
        f"{options.winograd!r} {options.precision} {text}", find_target()
    )
    return key


def _loaded(
    key: str, graph: _Typed, options: Options, log: CompileLog, name: str
) -> Executable | SplitBatch | None:
    """The executable whose plan is stored."""
    target = config.target

    @cache
    @holding(_LOCK)
    def planned() -> _Planned:
        with override(skip="", tuned="", target=target):
            again = CompileLog((), name=name)
            return _planned_samples(graph, again, compiler.purpose_with(options))

    def with_calls(plan: Plan | None) -> tuple[Plan, Any]:
        from .codegen.emit.generate import choose_calls  # noqa: PLC0415 (see test_layers.py)

        assert plan is not None
        again = CompileLog((), name=name)
        with override(skip="", tuned="", target=target):
            return plan, choose_calls(plan, find_target(), options.winograd, again)

    load = partial(_stored_plans().load_plan, target=find_target(), log=log)
    found = load(key, whole=cache(lambda: with_calls(planned().plan)))
    if found is None:
        return None
    plan, code, samples, has_last = found
    executables = [Executable(cast(Plan, plan), code)]
    if has_last:
        last = load(_key_of_last(key), whole=cache(lambda: with_calls(planned().last)))
        if last is None:
            return None
        executables.append(Executable(cast(Plan, last[0]), last[1]))
    return _joined(executables, samples)


def _store(key: str, made: Executable | SplitBatch) -> None:
    """Store the plans of an executable: that of last layers first, which the other refers to."""
    store = _stored_plans().store_plan
    if isinstance(made, Executable):
        store(key, made.plan, made.code)
        return
    if made.last:
        store(_key_of_last(key), made.last.plan, made.last.code)
    store(key, made.plan, made.code, made.samples, has_last=made.last is not None)


def _key_of_last(key: str) -> str:
    return f"{key}-last"


def _stored_plans() -> Any:
    with limits.explained_shortage():
        from .codegen.emit import stored_plans  # noqa: PLC0415 (see test_layers.py)

    return stored_plans


@holding(_LOCK)
@counted("compilations", "variants")
def compile_variant(
    outputs: Iterable[Output],
    input_types: Mapping[str, TensorType],
    param_types: Mapping[str, TensorType],
    scope: Scope,
    options: Options = Options(),  # noqa: B008 (frozen)
    log: CompileLog | None = None,
    name: str = "graph",
) -> Variant:
    """:func:`compile_graph` for all sizes that satisfy the guards.

    ``input_types`` have symbols of the ``scope``, which gets the guards of this compilation.
    """
    log = log or compiler.new_log(config.dump)
    outputs = tuple(outputs)
    purpose = compiler.purpose_with(options)
    plan = compiler.plan_graph(outputs, input_types, param_types, log, name, purpose)
    one = plan_one_sample(plan, outputs, input_types, param_types, log)
    templates = generate_symbolic(one or plan, log, options, scope)
    log.report()
    samples = None if one is None else split_batch.batch_of(plan.graph)
    signature = Signature(tuple(input_types.values()), scope.symbols)
    return Variant(signature, scope, templates, samples)


@dataclass(frozen=True)
class TrainingLogs:
    """The logs of one compilation for training: for the joint graph, and for each part."""

    joint: CompileLog
    forward: CompileLog
    backward: CompileLog

    @staticmethod
    def new(wanted: tuple[str, ...] = ()) -> TrainingLogs:
        """Logs that dump the ``wanted`` stages."""
        return TrainingLogs(
            compiler.new_log(wanted, stages=compiler.JOINT_STAGES),
            compiler.new_log(wanted),
            compiler.new_log(wanted),
        )


@holding(_LOCK)
@counted("compilations")
def compile_training(
    outputs: Iterable[Output],
    types: Mapping[str, TensorType],
    wanted: Collection[str],
    training: bool,
    options: Options = Options(),  # noqa: B008 (frozen)
    name: str = "graph",
    logs: TrainingLogs | None = None,
) -> trained.Trained:
    """Symbol in, forward and backward executables out.

    types     every variable, in call order, with its type
    wanted    the variables whose gradients are requested
    training  whether operators behave as in training mode
    logs      the logs of the three compilations

    Raises as :func:`compile_graph`, and NoGradientError for an operator that has no gradient.
    """
    logs = logs or TrainingLogs.new(config.dump)
    seen = Verified()
    joint, parts = compiler.training_parts(
        outputs, types, wanted, training, options, logs.joint, name, seen
    )
    both = [(parts.forward, logs.forward)]
    if parts.backward.outputs:
        both.append((parts.backward, logs.backward))
    is_large = len(parts.forward.values) >= _MANY_VALUES
    executables = generate_all((_planned(*one, seen) for one in both), options, is_large=is_large)
    for _, log in both:
        log.report()
    forward = executables[0]
    backward = executables[1] if len(executables) > 1 else None
    if backward is not None:
        take_turns((forward, backward))
    if parts.saved_bytes + forward.room.arena > _LARGE:
        release_freed()
        release_code()
    return trained.Trained(joint, parts, forward, backward)


@holding(_LOCK)
@counted("compilations", "variants")
def compile_training_variant(
    outputs: Iterable[Output],
    types: Mapping[str, TensorType],
    inputs: Collection[str],
    wanted: Collection[str],
    training: bool,
    scope: Scope,
    options: Options = Options(),  # noqa: B008 (frozen)
    name: str = "graph",
    logs: TrainingLogs | None = None,
) -> trained.TrainedVariant:
    """:func:`compile_training` for all sizes that satisfy the guards.

    The types of the ``inputs`` have symbols of the ``scope``, which gets the guards.
    """
    logs = logs or TrainingLogs.new(config.dump)
    seen = Verified()
    joint, parts = compiler.training_parts(
        outputs, types, wanted, training, options, logs.joint, name, seen
    )
    forward = generate_symbolic(*_planned(parts.forward, logs.forward, seen), options, scope)
    backward = None
    if parts.backward.outputs:
        backward = generate_symbolic(*_planned(parts.backward, logs.backward, seen), options, scope)
    logs.forward.report()
    logs.backward.report()
    signature = Signature(tuple(types[name] for name in inputs), scope.symbols)
    return trained.TrainedVariant(signature, scope, joint, parts, forward, backward)


@holding(_LOCK)
@counted("eager")
def compile_call(graph: Graph, name: str) -> Executable | None:
    """The executable of an eager call's graph; None if no kernel computes a part of it."""
    log = compiler.new_log()
    log.name = name
    plan = compiler.plan_typed(graph, log)
    return generate(plan, Options(), log) if _has_kernel(plan) else None


@holding(_LOCK)
@counted("eager")
def compile_call_templates(graph: Graph, scope: Scope, name: str) -> Any:
    """:func:`compile_call` for all sizes that satisfy the guards, which the ``scope`` gets.

    Raises MXNetError if no kernel computes a part of the graph.
    """
    log = compiler.new_log()
    log.name = name
    plan = compiler.plan_typed(graph, log)
    if not _has_kernel(plan):
        raise MXNetError(f"{name}: no kernel computes a part of it")
    return generate_symbolic(plan, log, Options(), scope)


def _has_kernel(plan: Plan) -> bool:
    """Whether a kernel computes elements: views and copies alone are NumPy's work."""
    kinds = {step.group.kind for step in plan.steps}
    return any(kind not in ("copy", "view") and KIND_NAMED[kind].has_kernel for kind in kinds)


def _planned(graph: Graph, log: CompileLog, seen: Verified) -> tuple[Plan, CompileLog]:
    log.name = graph.name
    return compiler.plan_typed(graph, log, seen), log


def plan_one_sample(
    plan: Plan,
    outputs: tuple[Output, ...],
    input_types: Mapping[str, TensorType],
    param_types: Mapping[str, TensorType],
    log: CompileLog,
) -> Plan | None:
    """The plan for a batch of 1, where running sample by sample gives the same and is faster.

    Not for a part of training: its results combine samples.
    """
    purpose = plan.graph.purpose
    if replace(purpose, precision=INFERENCE.precision, winograd=True) != INFERENCE:
        return None
    if compiler.SPLIT_BATCH in config.skip:
        return None
    return _planned_again(plan, outputs, input_types, param_types, log) or _plan_of_sample(
        plan, log
    )


def _plan_of_sample(plan: Plan, log: CompileLog) -> Plan | None:
    """The plan of one sample where the graph has the batch in sizes that it states."""
    graph = one_sample.graph_of_sample(plan.graph) if split_batch.is_worth_splitting(plan) else None
    if graph is None:
        return None
    log.notes.append(_one_by_one(plan.graph))
    return compiler.plan_hoisted(graph, log)


def _one_by_one(graph: Graph) -> str:
    return f"{graph.name} runs its {graph.inputs[0].shape[0]} samples one by one"


def _planned_again(
    plan: Plan,
    outputs: tuple[Output, ...],
    input_types: Mapping[str, TensorType],
    param_types: Mapping[str, TensorType],
    log: CompileLog,
) -> Plan | None:
    """The plan for a batch of 1, if its graph differs from the batch's in the batch only."""
    if not split_batch.should_split_batch(plan):
        return None
    purpose = plan.graph.purpose
    first = {name: t.with_shape((1, *t.dims[1:])) for name, t in input_types.items()}
    try:
        log_of_one = compiler.new_log(log.wanted)
        one = compiler.plan_graph(
            without_sizes(outputs), first, param_types, log_of_one, plan.graph.name, purpose
        )
    except (ShapeError, DTypeError):
        return None  # a shape is written out in the graph: it is for this batch alone
    if not split_batch.is_sample_of(one.graph, plan.graph):
        return None
    log.notes.append(_one_by_one(plan.graph))
    return one


def generate(
    plan: Plan, options: Options, log: CompileLog, decide: Callable[..., Any] | None = None
) -> Executable:
    """From Plan to machine code. Imports the code generator on first use, and with it llvmlite.

    ``decide`` chooses between candidates for a kernel: see ``codegen.call.Decide``.
    """
    return generate_all([(plan, log)], options, decide)[0]


def generate_all(
    plans: Iterable[tuple[Plan, CompileLog]],
    options: Options,
    decide: Callable[..., Any] | None = None,
    is_large: bool = False,
) -> list[Executable]:
    """:func:`generate` for each plan: one is compiled while the next is made.

    ``is_large`` announces, before the first is made, that there will be many kernels.
    """
    codes = _generator()(plans, options.winograd, THREADS.count, decide, is_large)
    return [Executable(plan, code) for plan, code in codes]


@uncollected
def _generator() -> Callable[..., Any]:
    """``generate_codes`` of the code generator: without collections its import takes 60 % of the
    time."""
    with limits.explained_shortage():
        from .codegen.emit.generate import (  # noqa: PLC0415 (see test_layers.py)
            generate_codes,
        )
    return generate_codes


def generate_symbolic(plan: Plan, log: CompileLog, options: Options, scope: Scope) -> Any:
    """:func:`generate` for a plan with symbolic sizes: its templates."""
    from .codegen.emit.templates import Templates  # noqa: PLC0415 (see test_layers.py)

    return Templates(plan, log, scope, options.winograd, THREADS.count)


@dataclass(frozen=True)
class UpdateCode:
    """An update rule's kernel, which lives as long as this object, and the driver that calls it."""

    kernel: Any
    driver: Any


@holding(_LOCK)
def compile_update(rule: UpdateRule) -> UpdateCode:
    """The kernel of an update rule, for weights of any size: see ``codegen/updates.py``."""
    with limits.explained_shortage():
        from .codegen.emit.generate import (  # noqa: PLC0415 (see test_layers.py)
            load_kernel,
        )
        from .codegen.updates import update_spec  # noqa: PLC0415 (see test_layers.py)

    code = UpdateCode(*load_kernel(update_spec(rule), compiler.new_log()))
    release_code()
    return code


@holding(_LOCK)
def compile_routine(name: str, facts: tuple[object, ...]) -> Routine:
    """A routine for eager operators, for arrays of any size: see ``codegen/routines``."""
    with limits.explained_shortage():
        from .codegen.emit.generate import (  # noqa: PLC0415 (see test_layers.py)
            load_kernel,
        )
        from .codegen.routines import routine_spec  # noqa: PLC0415 (see test_layers.py)

    found = Routine(*load_kernel(routine_spec(name, facts), compiler.new_log()))
    release_code()
    return found


def prepare() -> None:
    """Import the modules of the first compilation ahead of time."""
    with limits.explained_shortage():
        from .codegen.emit import generate  # noqa: F401, PLC0415 (see test_layers.py)


def find_target() -> Target:
    """The target that the switches select."""
    with limits.explained_shortage():
        from .codegen.targets import (  # noqa: PLC0415 (see test_layers.py)
            find_target as find,
        )

    return find(config.target)

"""The compiler on one page: Symbol in, executable out.

``PIPELINE`` is the order of the passes; ``compile_graph`` shows where one representation becomes
the next; only ``run_pass`` knows about skipping, timing, verifying and dumping.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ._core.async_safety import holding, uncollected
from ._core.compile_log import CompileLog, Sink, warn_of_unknown
from ._core.config import PREFIX, config
from ._core.fork_locks import Rank, held_at_fork
from ._core.frozen import dataclass
from ._core.lazy import Late
from ._core.options import Options
from ._core.symbolic import Scope
from ._core.types import TensorType
from .control import unrolled
from .errors import DTypeError, MXNetError, ShapeError, did_you_mean
from .ir.graph import Graph, from_symbol
from .ir.kinds import KIND_NAMED
from .ir.mode import INFERENCE, Purpose
from .ir.node import Output, precision_of
from .ir.plan import Plan
from .ir.print import graph_text, node_text, pass_text, plan_text, purpose_lines
from .ir.signature import without_sizes
from .ir.sized import at_hints, is_symbolic_plan
from .ir.update import UpdateRule
from .ir.verify import Verified, verify
from .passes.infer import infer_node_types, require_known
from .passes.layouts.choose import choose_layouts, layout_dense
from .passes.layouts.space_to_depth import space_to_depth
from .passes.layouts.strides import move_strides
from .passes.lower.bfloat16 import lower_bfloat16, lower_bfloat16_trained
from .passes.lower.expand import expand
from .passes.lower.float16 import lower_float16
from .passes.lower.integers import lower_integers
from .passes.lower.quantize import quantize
from .passes.plan.batch_axis import infer_batch_axis
from .passes.plan.fuse import fuse
from .passes.plan.plan_memory import plan_memory
from .passes.plan.split_batch import batch_of, is_sample_of, should_split_batch
from .passes.plan.verify_plan import verify_plan
from .passes.rewrite.channel_group_sums import sum_channel_groups
from .passes.rewrite.cse import share_equal
from .passes.rewrite.fold_batchnorm import fold_batchnorm
from .passes.rewrite.forward_slices import forward_slices
from .passes.rewrite.fuse_attention import fuse_attention
from .passes.rewrite.hoist import hoist
from .passes.rewrite.hoist_pointwise import hoist_pointwise
from .passes.rewrite.merge_dense import merge_dense
from .passes.rewrite.one_hot_sum import one_hot_sum
from .passes.rewrite.precompute_embeddings import precompute_embeddings
from .passes.rewrite.views import merge_views
from .passes.training.differentiate import Joint, differentiate
from .passes.training.enter_training import as_differentiated, as_purposed
from .passes.training.partition import Parts, partition
from .runtime.compile_stats import counted
from .runtime.executable import Executable, take_turns
from .runtime.leftovers import release_code, release_freed
from .runtime.routine import Routine
from .runtime.split_batch import SplitBatch
from .runtime.threads import THREADS
from .runtime.variant import Signature, Variant
from .trained import Trained, TrainedVariant

if TYPE_CHECKING:
    from ._core import limits
    from ._core.target import Target
else:
    limits = Late("._core.limits", __package__)  # for the first compilation


@dataclass(frozen=True)
class Pass:
    """One row of the pipeline. ``needs`` and ``gives`` are facts, checked by a test."""

    name: str
    run: Callable[[Graph, list[str]], Graph]
    description: str
    needs: str = "typed"
    gives: str = ""
    can_skip: bool = True


PIPELINE = (
    Pass("lower-float16", lower_float16, "compute float16 operators in single precision"),
    Pass("expand", expand, "expand operators to operators with kernels", gives="canonical"),
    Pass(
        "hoist-pointwise",
        hoist_pointwise,
        "move pointwise operators before the reshape of a product",
        "canonical",
    ),
    Pass(
        "infer-batch-axis",
        infer_batch_axis,
        "mark the rows of dense layers that belong to one sample",
        "canonical",
    ),
    Pass(
        "views",
        merge_views,
        "compose adjacent reshapes and transposes, drop identities",
        "canonical",
    ),
    Pass("cse", share_equal, "share equal values"),
    Pass(
        "fuse-attention",
        fuse_attention,
        "turn the softmax between two products into attention in tiles",
        "canonical",
    ),
    Pass(
        "precompute-embeddings",
        precompute_embeddings,
        "precompute dense layers on embedding tables",
        "canonical",
    ),
    Pass("fold-bn", fold_batchnorm, "fold BatchNorm into the layer before it", "canonical"),
    Pass(
        "sum-channel-groups",
        sum_channel_groups,
        "turn sums over channel groups into sums of slices",
        "canonical",
    ),
    Pass("layout", choose_layouts, "use channels-last layout in convolution regions", "canonical"),
    Pass(
        "layout-dense",
        layout_dense,
        "permute weights of dense layers that follow such regions",
        "canonical",
    ),
    Pass(
        "space-to-depth",
        space_to_depth,
        "turn strided first layers into layers of stride 1",
        "canonical",
    ),
    Pass("views-again", merge_views, "views again, for transposes between regions", "canonical"),
    Pass("strides", move_strides, "skip pixels that no strided consumer reads", "canonical"),
    Pass(
        "lower-bfloat16",
        lower_bfloat16,
        "store operands of products in bfloat16 on request",
        "canonical",
    ),
    Pass(
        "quantize",
        quantize,
        "store data and weights of calibrated layers in 8 bits",
        "canonical",
    ),
    Pass(
        "lower-integers",
        lower_integers,
        "multiply bytes where operands of products are dequantized",
        "canonical",
    ),
    Pass("merge-dense", merge_dense, "merge small dense layers with the same input", "canonical"),
    Pass(
        "hoist",
        hoist,
        "move parameter-only values to the bind graph",
        gives="hoisted",
        can_skip=False,
    ),
    Pass("fuse", fuse, "group values that become one kernel", "hoisted", "grouped", False),
)
# The first pass: it settles the mode, so that later passes do not need to know it.
TRAINING = Pass("training", as_purposed, "use the training variants of operators", can_skip=False)
DIFFERENTIATED = replace(TRAINING, run=as_differentiated)
# Passes on a training graph before it is partitioned, for values that forward and backward share,
# and for layouts of saved values that suit their readers. Each part then goes through all of
# PIPELINE.
_SHARED = {row.name: row for row in PIPELINE}
JOINT = (
    _SHARED["expand"],
    Pass("forward-slices", forward_slices, "slice(concat(xs)) -> xs[i]", "canonical"),
    Pass("one-hot-sum", one_hot_sum, "sum over a one-hot row -> its nonzero element", "canonical"),
    _SHARED["cse"],
    _SHARED["layout"],
    replace(_SHARED["lower-bfloat16"], run=lower_bfloat16_trained),
)
STAGES = (
    *("trace", "infer", TRAINING.name),
    *(row.name for row in PIPELINE),
    *("plan", "spec", "llvm", "asm"),
)
JOINT_STAGES = (
    *("trace", "infer", TRAINING.name, "differentiate"),
    *(row.name for row in JOINT),
    "partition",
)
STAGE_NAMES = tuple(dict.fromkeys((*JOINT_STAGES, *STAGES, "all")))
# Names for HYBRIDJIT_SKIP; leaving out any of them does not change results.
SPLIT_BATCH = "by-sample"  # batch splitting; listed apart because it is not a pass
CHOICES = (*(row.name for row in PIPELINE if row.can_skip), "fuse", "winograd", "plan")


def require_names() -> None:
    """Raises ValueError for an unknown stage or choice in the switches."""
    known = {"dump": STAGE_NAMES, "skip": (*CHOICES, SPLIT_BATCH)}
    for switch, names in known.items():
        for name in getattr(config, switch):
            if name not in names:
                raise ValueError(
                    f"{PREFIX}{switch.upper()}: there is no {name!r}{did_you_mean(name, names)}; "
                    f"known are {', '.join(names)}"
                )


def new_log(
    wanted: tuple[str, ...] = (), sink: Sink | None = None, stages: tuple[str, ...] = STAGES
) -> CompileLog:
    """A log for one compilation; ``wanted`` names stages to dump, or is ``("all",)``.

    ``stages`` are :data:`JOINT_STAGES` for the passes on the joint graph of forward and backward.
    """
    warn_of_unknown("no stage is called", wanted, STAGE_NAMES)
    warn_of_unknown("HYBRIDJIT_SKIP cannot leave out", config.skip, (*CHOICES, SPLIT_BATCH))
    return CompileLog(stages, wanted, sink)


class Checked:
    """The state of checks during a compilation: facts of the graph, and verified values.

    ``verified`` holds the values of an earlier graph that were verified.
    """

    def __init__(self, verified: Verified | None = None) -> None:
        self.facts = {"typed"}
        self.verified = verified or Verified()


_LOCK = held_at_fork(Rank.COMPILING)
# Number of values of a forward graph whose kernels take LLVM longer than a worker needs to start.
_MANY_VALUES = 32
# Bytes of saved values and arena above which memory that compiling freed is returned to the system.
_LARGE = 1 << 25


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
    """Symbol in, executable out. This is the whole compiler.

    input_types  the inputs, in call order, with their types
    param_types  the known types of all other variables
    purpose      which outputs update inputs, which are saved, in which mode

    Raises ShapeError, DTypeError and the like as ``infer`` does; InternalError for bugs of
    hybridjit.
    """
    log = log or new_log(config.dump)
    outputs = tuple(outputs)
    purpose = purpose_with(options, purpose)
    plan = plan_graph(outputs, input_types, param_types, log, name, purpose)
    one = plan_one_sample(plan, outputs, input_types, param_types, log)
    executable = generate(one or plan, options, log)
    log.report()
    if one is None:
        return executable
    return SplitBatch(executable, batch_of(plan.graph))


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
    log = log or new_log(config.dump)
    outputs = tuple(outputs)
    purpose = purpose_with(options)
    plan = plan_graph(outputs, input_types, param_types, log, name, purpose)
    one = plan_one_sample(plan, outputs, input_types, param_types, log)
    templates = generate_symbolic(one or plan, log, options, scope)
    log.report()
    samples = None if one is None else batch_of(plan.graph)
    return Variant(Signature(tuple(input_types.values())), scope, templates, samples)


@dataclass(frozen=True)
class TrainingLogs:
    """The logs of one compilation for training: for the joint graph, and for each part."""

    joint: CompileLog
    forward: CompileLog
    backward: CompileLog

    @staticmethod
    def new(wanted: tuple[str, ...] = ()) -> TrainingLogs:
        """Logs that dump the ``wanted`` stages."""
        return TrainingLogs(new_log(wanted, stages=JOINT_STAGES), new_log(wanted), new_log(wanted))


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
) -> Trained:
    """Symbol in, forward and backward executables out.

    types     every variable, in call order, with its type
    wanted    the variables whose gradients are requested
    training  whether operators behave as in training mode
    logs      the logs of the three compilations

    Raises as :func:`compile_graph`, and NoGradientError for an operator that has no gradient.
    """
    logs = logs or TrainingLogs.new(config.dump)
    seen = Verified()
    joint, parts = training_parts(outputs, types, wanted, training, options, logs.joint, name, seen)
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
    return Trained(joint, parts, forward, backward)


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
) -> TrainedVariant:
    """:func:`compile_training` for all sizes that satisfy the guards.

    The types of the ``inputs`` have symbols of the ``scope``, which gets the guards.
    """
    logs = logs or TrainingLogs.new(config.dump)
    seen = Verified()
    joint, parts = training_parts(outputs, types, wanted, training, options, logs.joint, name, seen)
    forward = generate_symbolic(*_planned(parts.forward, logs.forward, seen), options, scope)
    backward = None
    if parts.backward.outputs:
        backward = generate_symbolic(*_planned(parts.backward, logs.backward, seen), options, scope)
    logs.forward.report()
    logs.backward.report()
    signature = Signature(tuple(types[name] for name in inputs))
    return TrainedVariant(signature, scope, joint, parts, forward, backward)


@holding(_LOCK)
@counted("eager")
def compile_call(graph: Graph, name: str) -> Executable | None:
    """The executable of an eager call's graph; None if no kernel computes a part of it."""
    log = new_log()
    log.name = name
    plan = plan_typed(graph, log)
    return generate(plan, Options(), log) if _has_kernel(plan) else None


@holding(_LOCK)
@counted("eager")
def compile_call_templates(graph: Graph, scope: Scope, name: str) -> Any:
    """:func:`compile_call` for all sizes that satisfy the guards, which the ``scope`` gets.

    Raises MXNetError if no kernel computes a part of the graph.
    """
    log = new_log()
    log.name = name
    plan = plan_typed(graph, log)
    if not _has_kernel(plan):
        raise MXNetError(f"{name}: no kernel computes a part of it")
    return generate_symbolic(plan, log, Options(), scope)


def _has_kernel(plan: Plan) -> bool:
    """Whether a kernel computes elements: views and copies alone are NumPy's work."""
    kinds = {step.group.kind for step in plan.steps}
    return any(kind not in ("copy", "view") and KIND_NAMED[kind].has_kernel for kind in kinds)


@uncollected
def training_parts(
    outputs: Iterable[Output],
    types: Mapping[str, TensorType],
    wanted: Collection[str],
    training: bool,
    options: Options,
    log: CompileLog,
    name: str = "graph",
    seen: Verified | None = None,
) -> tuple[Joint, Parts]:
    """The graphs of forward and backward: arguments and errors as :func:`compile_training`.

    Verified values are added to ``seen``.
    """
    outputs = tuple(outputs)
    if options.precision == "int8":
        raise MXNetError(
            'a network of precision "int8" is not trained: call hybridize() with "float32" or '
            '"bfloat16", train, and quantize again'
        )
    graph = typed_graph(outputs, types, {}, log, name, Purpose(training=training))
    precision = precision_of(outputs) or options.precision
    joint = differentiate_graph(graph, wanted, log, precision, seen)
    is_small = options.memory == "small"
    parts = log.timed("partition", "forward and backward apart", lambda: partition(joint, is_small))
    log.made("partition", parts, lambda: "\n".join([graph_text(parts.backward), *parts.reasons]))
    log.notes += parts.reasons
    log.report()
    return joint, parts


def _planned(graph: Graph, log: CompileLog, seen: Verified) -> tuple[Plan, CompileLog]:
    log.name = graph.name
    return plan_typed(graph, log, seen), log


def differentiate_graph(
    graph: Graph,
    wanted: Collection[str],
    log: CompileLog,
    precision: str = "float32",
    seen: Verified | None = None,
) -> Joint:
    """Forward and backward as one graph, in the mode of the graph's purpose.

    Values are rounded to bfloat16 here, once for all of their readers: a gradient rule may compare
    an
    operand with the result, as that of a maximum does.
    """
    state = Checked(seen)
    graph = run_pass(DIFFERENTIATED, graph, state, log)
    joint = log.timed(
        "differentiate", "gradient of each variable", lambda: differentiate(graph, wanted)
    )
    log.made("differentiate", joint, lambda: graph_text(joint.graph))
    purpose = replace(joint.graph.purpose, precision=precision)
    together = replace(joint.graph, purpose=purpose)
    for row in JOINT:
        together = run_pass(row, together, state, log)
    return joint.with_graph(together)


def purpose_with(options: Options, purpose: Purpose = INFERENCE) -> Purpose:
    """The purpose, extended by the options that passes use."""
    winograd = bool(options.winograd) and "winograd" not in config.skip
    return replace(purpose, precision=options.precision, winograd=winograd)


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
    if SPLIT_BATCH in config.skip or not should_split_batch(plan):
        return None
    first = {name: t.with_shape((1, *t.dims[1:])) for name, t in input_types.items()}
    try:
        log_of_one = new_log(log.wanted)
        one = plan_graph(
            without_sizes(outputs), first, param_types, log_of_one, plan.graph.name, purpose
        )
    except (ShapeError, DTypeError):
        return None  # a shape is written out in the graph: it is for this batch alone
    if not is_sample_of(one.graph, plan.graph):
        return None
    log.notes.append(f"{plan.graph.name} runs its {batch_of(plan.graph)} samples one by one")
    return one


@uncollected
def plan_graph(
    outputs: Iterable[Output],
    input_types: Mapping[str, TensorType],
    param_types: Mapping[str, TensorType],
    log: CompileLog,
    name: str = "graph",
    purpose: Purpose = INFERENCE,
) -> Plan:
    """The part of the compiler without LLVM: from Symbol to Plan.

    Products have the purpose's precision, or the one that the graph requests.
    """
    outputs = tuple(outputs)
    if asked := precision_of(outputs):
        purpose = replace(purpose, precision=asked)
    graph = typed_graph(outputs, input_types, param_types, log, name, purpose)
    return plan_typed(graph, log)


def typed_graph(
    outputs: Iterable[Output],
    input_types: Mapping[str, TensorType],
    param_types: Mapping[str, TensorType],
    log: CompileLog,
    name: str,
    purpose: Purpose = INFERENCE,
) -> Graph:
    """From Symbol to a graph with a type on every value."""
    log.name = name
    known = {**param_types, **input_types}
    outputs = unrolled(tuple(outputs), known)
    log.made("trace", outputs, lambda: node_text(outputs, name))
    types = log.timed(
        "infer", "a shape and dtype for every value", lambda: infer_node_types(outputs, known)
    )
    require_known(types)
    graph = from_symbol(outputs, input_types, types, name, purpose)
    purpose.require_fitting(input_types, [use.type for use in graph.outputs])
    log.made("infer", graph, lambda: graph_text(graph))
    return graph


@uncollected
def plan_typed(graph: Graph, log: CompileLog, seen: Verified | None = None) -> Plan:
    """Run all of PIPELINE and plan memory. Values in ``seen`` are not verified again."""
    state = Checked(seen)
    _check(graph, state, "infer")
    for row in (TRAINING, *PIPELINE):
        graph = run_pass(row, graph, state, log)
    plan = log.timed("plan", "views, and one arena", lambda: plan_memory(graph))
    if config.verify:
        verify_plan(plan if not is_symbolic_plan(plan) else at_hints(plan))
    log.notes += purpose_lines(plan)
    log.made("plan", plan, lambda: plan_text(plan))
    return plan


def run_pass(row: Pass, graph: Graph, state: Checked, log: CompileLog) -> Graph:
    """Run one pass, with skipping, timing, verifying and dumping."""
    if row.can_skip and row.name in config.skip:
        return graph
    fired: list[str] = []
    after = log.timed(row.name, row.description, lambda: row.run(graph, fired))
    if row.gives:
        state.facts.add(row.gives)
    log.notes += [note for note in fired if note.startswith("not fused")]
    if after is not graph or row.gives:
        _check(after, state, row.name)
    if after is graph:
        log.made(row.name, after, lambda: f"{row.name}: no change", fired)
    else:
        log.made(row.name, after, lambda: pass_text(after, fired), fired)
    return after


def _check(graph: Graph, state: Checked, stage: str) -> None:
    if config.verify:
        verify(graph, frozenset(state.facts), stage, state.verified)


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
    with limits.loading_compiler():
        from .codegen.emit.generate import (  # noqa: PLC0415 (see test_layers.py)
            generate_codes,
        )
    return generate_codes


def generate_symbolic(plan: Plan, log: CompileLog, options: Options, scope: Scope) -> Any:
    """:func:`generate` for a plan with symbolic sizes: its templates."""
    from .codegen.emit.generate import Templates  # noqa: PLC0415 (see test_layers.py)

    return Templates(plan, log, scope, options.winograd, THREADS.count)


@dataclass(frozen=True)
class UpdateCode:
    """An update rule's kernel, which lives as long as this object, and the driver that calls it."""

    kernel: Any
    driver: Any


@holding(_LOCK)
def compile_update(rule: UpdateRule) -> UpdateCode:
    """The kernel of an update rule, for weights of any size: see ``codegen/updates.py``."""
    with limits.loading_compiler():
        from .codegen.emit.generate import (  # noqa: PLC0415 (see test_layers.py)
            load_kernel,
        )
        from .codegen.updates import update_spec  # noqa: PLC0415 (see test_layers.py)

    code = UpdateCode(*load_kernel(update_spec(rule), new_log()))
    release_code()
    return code


@holding(_LOCK)
def compile_routine(name: str, facts: tuple[object, ...]) -> Routine:
    """A routine for eager operators, for arrays of any size: see ``codegen/routines``."""
    with limits.loading_compiler():
        from .codegen.emit.generate import (  # noqa: PLC0415 (see test_layers.py)
            load_kernel,
        )
        from .codegen.routines import routine_spec  # noqa: PLC0415 (see test_layers.py)

    found = Routine(*load_kernel(routine_spec(name, facts), new_log()))
    release_code()
    return found


def prepare() -> None:
    """Import the modules of the first compilation ahead of time."""
    with limits.loading_compiler():
        from .codegen.emit import generate  # noqa: F401, PLC0415 (see test_layers.py)


def find_target() -> Target:
    """The target that the switches select."""
    with limits.loading_compiler():
        from .codegen.llvm.jit import (  # noqa: PLC0415 (see test_layers.py)
            find_target as find,
        )

    return find(config.target)

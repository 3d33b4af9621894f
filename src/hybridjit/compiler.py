"""The pipeline of passes: Symbol in, Plan out.

``PIPELINE`` is the order of the passes; ``plan_graph`` shows where one representation becomes the
next, and ``training_parts`` the same for forward and backward; only ``run_pass`` knows about
skipping, timing, verifying and dumping.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ._core.async_safety import uncollected
from ._core.compile_log import CompileLog, Sink, warn_of_unknown
from ._core.config import PREFIX, config
from ._core.frozen import dataclass
from ._core.lazy import Late
from ._core.options import Options
from ._core.types import TensorType
from .control import unrolled
from .errors import MXNetError, did_you_mean
from .ir.graph import Graph, from_symbol
from .ir.mode import INFERENCE, Purpose
from .ir.node import Output, precision_of
from .ir.plan import Plan
from .ir.print import graph_text, node_text, pass_text, plan_text, purpose_lines
from .ir.sized import at_hints, is_symbolic_plan
from .ir.verify import Verified, verify
from .passes.infer import infer_node_types, require_known
from .passes.layouts.choose import choose_layouts, layout_dense
from .passes.layouts.joined_phases import join_phases
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
from .passes.plan.verify_plan import verify_plan
from .passes.rewrite.channel_group_sums import sum_channel_groups
from .passes.rewrite.cse import share_equal
from .passes.rewrite.dense_pixels import dense_pixels
from .passes.rewrite.fold_batchnorm import fold_batchnorm
from .passes.rewrite.forward_slices import forward_slices
from .passes.rewrite.fuse_attention import fuse_attention
from .passes.rewrite.hoist import hoist
from .passes.rewrite.hoist_pointwise import hoist_pointwise
from .passes.rewrite.merge_dense import merge_dense
from .passes.rewrite.one_hot_sum import one_hot_sum
from .passes.rewrite.precompute_embeddings import precompute_embeddings
from .passes.rewrite.views import merge_views
from .passes.training.enter_training import as_differentiated, as_purposed

if TYPE_CHECKING:
    from .passes.lower import checked_indices
    from .passes.training import differentiate, partition
else:  # for HYBRIDJIT_CHECK, and for the first training step
    checked_indices = Late(".passes.lower.checked_indices", __package__)
    differentiate = Late(".passes.training.differentiate", __package__)
    partition = Late(".passes.training.partition", __package__)


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
    Pass(
        "dense-pixels",
        dense_pixels,
        "turn 1x1 convolutions of one pixel into dense layers",
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
    Pass(
        "join-phases",
        join_phases,
        "give transposed layers of few filters stride 1",
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
) -> tuple[differentiate.Joint, partition.Parts]:
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
    parts = log.timed(
        "partition",
        "forward and backward apart",
        lambda: partition.partition(joint, is_small),
    )
    log.made("partition", parts, lambda: "\n".join([graph_text(parts.backward), *parts.reasons]))
    log.notes += parts.reasons
    log.report()
    return joint, parts


def differentiate_graph(
    graph: Graph,
    wanted: Collection[str],
    log: CompileLog,
    precision: str = "float32",
    seen: Verified | None = None,
) -> differentiate.Joint:
    """Forward and backward as one graph, in the mode of the graph's purpose.

    Values are rounded to bfloat16 here, once for all of their readers: a gradient rule may compare
    an
    operand with the result, as that of a maximum does.
    """
    state = Checked(seen)
    graph = run_pass(DIFFERENTIATED, graph, state, log)
    joint = log.timed(
        "differentiate",
        "gradient of each variable",
        lambda: differentiate.differentiate(graph, wanted),
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
    if config.check:
        graph = checked_indices.check_indices(graph)
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
    return _in_memory(graph, log)


def plan_hoisted(graph: Graph, log: CompileLog) -> Plan:
    """The plan of a graph on which all passes but the last have run."""
    state = Checked(None)
    state.facts |= {row.gives for row in PIPELINE[:-1] if row.gives}
    return _in_memory(run_pass(PIPELINE[-1], graph, state, log), log)


def _in_memory(graph: Graph, log: CompileLog) -> Plan:
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

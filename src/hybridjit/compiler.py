"""The compiler on one page: Symbol in, executable out.

``PIPELINE`` is the order of the passes; ``compile_graph`` shows where one noun becomes the next.
:class:`Journal` is the only thing that knows about verifying, timing, dumping and skipping.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .config import config
from .errors import DTypeError, MXNetError, ShapeError
from .forks import Rank, held_at_fork
from .ir.graph import Graph, Value, from_symbol
from .ir.node import Output
from .ir.plan import Plan, plan_text
from .ir.printer import graph_text, group_text, node_text
from .ir.verify import verify
from .passes.by_sample import batch_of, is_sample_of, should_run_by_sample
from .passes.fold_batchnorm import fold_batchnorm
from .passes.fuse import fuse
from .passes.hoist import hoist
from .passes.infer import infer_node_types, require_known
from .passes.layout import choose_layouts
from .passes.plan_memory import plan_memory
from .passes.simplify import simplify
from .passes.verify_plan import verify_plan
from .runtime.by_sample import SampleBySample
from .runtime.executable import Executable
from .runtime.threads import THREADS
from .types import TensorType

if TYPE_CHECKING:
    from .target import Target


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
    Pass("simplify", simplify, "one spelling for each idea; identities go", gives="canonical"),
    Pass("fold-bn", fold_batchnorm, "BatchNorm into the layer before it", "canonical"),
    Pass("layout", choose_layouts, "channels last in convolution regions", "canonical"),
    Pass(
        "hoist", hoist, "what depends on parameters alone leaves", gives="hoisted", can_skip=False
    ),
    Pass("fuse", fuse, "group values that become one kernel", "hoisted", "grouped", False),
)
STAGES = (
    "trace", "infer", *(p.name for p in PIPELINE), "plan", "spec", "llvm", "asm",
)  # fmt: skip
# What HYBRIDJIT_SKIP can leave out, each by itself, without another result.
BY_SAMPLE = "by-sample"
CHOICES = (*(row.name for row in PIPELINE if row.can_skip), "fuse", "winograd", "plan")


@dataclass(frozen=True)
class Options:
    """What a caller may choose for one network.

    winograd  True where it pays, False never, "always" wherever it is possible
    """

    winograd: bool | str = True

    def __post_init__(self) -> None:
        if self.winograd not in (True, False, "always"):
            raise ValueError(f'winograd is True, False or "always", got {self.winograd!r}')


def _warn_of_unknown(what: str, names: Iterable[str], known: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        warnings.warn(f"{what} {', '.join(unknown)}; known are {', '.join(known)}")


@dataclass
class Journal:
    """What a compilation says of itself: dumped stages, times, and reasons.

    ``details`` are times within a stage, such as each kernel's; processes may share them out.
    ``sink(number, stage, text)`` receives each stage that is wanted; by default it prints, or
    writes numbered files where HYBRIDJIT_DUMP_DIR says. ``name`` is what is being compiled.
    """

    wanted: tuple[str, ...] = ()
    sink: Callable[[int, str, str], None] | None = None
    times: list[tuple[str, str, float]] = field(default_factory=list)
    details: list[tuple[str, str, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    typed: set[Value] = field(default_factory=set)  # values whose types the verifier found right
    name: str = "graph"

    def __post_init__(self) -> None:
        _warn_of_unknown("no stage is called", self.wanted, (*STAGES, "all"))
        _warn_of_unknown("HYBRIDJIT_SKIP cannot leave out", config.skip, (*CHOICES, BY_SAMPLE))

    @cached_property
    def folder(self) -> str:
        """Below HYBRIDJIT_DUMP_DIR, numbered: no compilation of a process replaces another's."""
        safe = re.sub(r"[^\w.-]+", "_", self.name)
        return os.path.join(config.dump_dir, f"{next(_COMPILATIONS):02}-{safe}")

    def wants(self, stage: str) -> bool:
        return stage in self.wanted or "all" in self.wanted

    def dump(self, stage: str, text: Callable[[], str]) -> None:
        if self.wants(stage):
            (self.sink or self.show)(STAGES.index(stage), stage, text())

    def show(self, number: int, stage: str, text: str) -> None:
        """Print a stage, or write it to a file in :attr:`folder`."""
        if config.dump_dir:
            write_stage(self.folder, number, stage, text)
        else:
            print(f"==== {stage}\n{text}", file=sys.stderr)

    def timed(self, name: str, description: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = work()
        self.times.append((name, description, time.perf_counter() - start))
        return result

    def report(self) -> None:
        """Print what the switches ask for."""
        if config.timing:
            print(self.timing_table(), file=sys.stderr)
        if config.explain:
            for note in self.notes:
                print(note, file=sys.stderr)

    def timing_table(self) -> str:
        rows = [_time_row(*row) for row in self.times]
        total = sum(t for _, _, t in self.times)
        details = [_time_row(*row) for row in sorted(self.details, key=lambda row: -row[2])]
        if details:
            details.insert(0, "of these, wherever they were compiled")
        return "\n".join(["compile times", *rows, f"  {1e3 * total:9.2f} ms  total", *details])


def _time_row(name: str, text: str, seconds: float) -> str:
    return f"  {1e3 * seconds:9.2f} ms  {name:<10} {text}"


def write_stage(folder: str | os.PathLike[str], number: int, stage: str, text: str) -> str:
    """Write ``NN-stage.txt`` in ``folder``, which is made; returns the file.

    Raises MXNetError where that cannot be done.
    """
    path = os.path.join(folder, f"{number:02}-{stage}.txt")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise MXNetError(f"{path} cannot be written: {error.strerror or error}") from None
    return path


_COMPILATIONS = itertools.count()
_LOCK = held_at_fork(Rank.COMPILING)


def compile_graph(
    outputs: Iterable[Output],
    input_types: Mapping[str, TensorType],
    param_types: Mapping[str, TensorType],
    options: Options = Options(),  # noqa: B008 (frozen)
    journal: Journal | None = None,
    name: str = "graph",
) -> Executable | SampleBySample:
    """Symbol in, executable out. This is the whole compiler.

    input_types  the inputs, in call order, with their types
    param_types  what is known of every other variable
    Raises ShapeError, DTypeError and the like as ``infer`` does; InternalError for our own bugs.
    """
    journal = journal or Journal(config.dump)
    outputs = tuple(outputs)
    with _LOCK:
        plan = plan_graph(outputs, input_types, param_types, journal, name)
        one = plan_one_sample(plan, outputs, input_types, param_types, journal)
        executable = generate(one or plan, options, journal)
    journal.report()
    if one is None:
        return executable
    return SampleBySample(executable, batch_of(plan.graph))


def plan_one_sample(
    plan: Plan,
    outputs: tuple[Output, ...],
    input_types: Mapping[str, TensorType],
    param_types: Mapping[str, TensorType],
    journal: Journal,
) -> Plan | None:
    """The plan for a batch of 1, where running sample by sample gives the same and is faster."""
    if BY_SAMPLE in config.skip or not should_run_by_sample(plan):
        return None
    first = {name: t.with_shape((1, *t.dims[1:])) for name, t in input_types.items()}
    try:
        one = plan_graph(outputs, first, param_types, Journal(journal.wanted), plan.graph.name)
    except (ShapeError, DTypeError):
        return None  # a shape is written out in the graph: it is for this batch alone
    if not is_sample_of(one.graph, plan.graph):
        return None
    journal.notes.append(f"{plan.graph.name} runs its {batch_of(plan.graph)} samples one by one")
    return one


def plan_graph(
    outputs: Iterable[Output],
    input_types: Mapping[str, TensorType],
    param_types: Mapping[str, TensorType],
    journal: Journal,
    name: str = "graph",
) -> Plan:
    """The part of the compiler that knows no LLVM: from Symbol to Plan."""
    outputs = tuple(outputs)
    journal.name = name
    journal.dump("trace", lambda: node_text(outputs, name))
    known = {**param_types, **input_types}
    types = journal.timed(
        "infer", "a shape and dtype for every value", lambda: infer_node_types(outputs, known)
    )
    require_known(types)
    graph = from_symbol(outputs, input_types, types, name)
    facts = {"typed"}
    _check(graph, facts, "infer", journal)
    journal.dump("infer", lambda: graph_text(graph))
    for row in PIPELINE:
        graph = run_pass(row, graph, facts, journal)
    plan = journal.timed("plan", "views, and one arena", lambda: plan_memory(graph))
    if config.verify:
        verify_plan(plan)
    journal.dump("plan", lambda: plan_text(plan))
    return plan


def run_pass(row: Pass, graph: Graph, facts: set[str], journal: Journal) -> Graph:
    """One pass, with everything around it: skipping, timing, verifying, dumping."""
    if row.can_skip and row.name in config.skip:
        return graph
    fired: list[str] = []
    after = journal.timed(row.name, row.description, lambda: row.run(graph, fired))
    if row.gives:
        facts.add(row.gives)
    journal.notes += [note for note in fired if note.startswith("not fused")]
    _check(after, facts, row.name, journal)
    if after is graph:
        journal.dump(row.name, lambda: f"{row.name}: no change")
    else:
        journal.dump(row.name, lambda: pass_text(after, fired))
    return after


def pass_text(graph: Graph, fired: list[str]) -> str:
    """A graph after a pass: itself, its groups, its bind graph, and which rules fired."""
    parts = [graph_text(graph)]
    if graph.groups:
        parts.append(group_text(graph))
    elif graph.bind is not None:
        parts.append(graph_text(graph.bind))
    return "\n".join([*parts, *(f"  # {note}" for note in fired)])


def _check(graph: Graph, facts: set[str], stage: str, journal: Journal) -> None:
    if config.verify:
        verify(graph, frozenset(facts), stage, journal.typed)


def generate(plan: Plan, options: Options, journal: Journal) -> Executable:
    """From Plan to machine code. Imports the code generator on first use, and with it llvmlite."""
    from .codegen.generate import generate_code  # noqa: PLC0415 (see tests/test_layers.py)

    code = generate_code(plan, options.winograd, journal, THREADS.count)
    return Executable(plan, code)


def prepare() -> None:
    """Import what the first compilation would import: for who has time for that already."""
    from .codegen import generate  # noqa: F401, PLC0415 (see tests/test_layers.py)


def find_target() -> Target:
    """The target that the switches select."""
    from .codegen.jit import find_target as find  # noqa: PLC0415 (see tests/test_layers.py)

    return find(config.target)

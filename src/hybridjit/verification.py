"""Verification: a compiled graph beside NumPy, step by step, and what is to blame.

In: a graph and an array for every variable. Out: a :class:`Verdict`, which prints as text. Each
step of the plan is held against its own references on the same operands, and against the value
that the graph as it was written has there. When something differs, the graph is compiled again
with one choice of the compiler left out after the other: the culprit is that without which all
agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from .compiler import CHOICES, SPLIT_BATCH, Options, compile_graph, new_log
from .config import config, override
from .errors import InternalError
from .ir.graph import Graph, Value, from_symbol
from .ir.interpret import run_in_order, run_value
from .ir.node import Output
from .passes.infer import infer_node_types
from .records import dataclass
from .runtime.checking import TOLERANCE, Checker, Ran, difference, is_random
from .runtime.executable import Executable, Instance
from .runtime.threads import THREADS as RUNNING
from .runtime.threads import threads
from .table import indented, table
from .types import type_of
from .unwinding import restoring

# What a type's own rounding may lose, as a part of the largest value.
_COARSE = {"float16": 4e-3}
THREADS = "threads"

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Gap:
    """How far one array is from another.

    absolute  the largest difference; inf where only one of the two is a number
    ulp       the same in units of the last place of the right value there
    relative  the same as a part of the largest right value
    """

    absolute: float
    ulp: float
    relative: float
    coarse: float = 0.0

    def exceeds(self, tolerance: float) -> bool:
        """Whether it is more than ``tolerance``, or than the element type can tell apart."""
        return not self.relative <= max(tolerance, self.coarse)

    def __str__(self) -> str:
        return f"{self.absolute:.3g} ({self.ulp:.3g} ulp), {self.relative:.2g} of the largest value"


def gap_between(found: np.ndarray, right: np.ndarray) -> Gap:
    """The gap of two arrays of one shape."""
    relative = difference(found, right)
    if relative == 0.0:
        return Gap(0.0, 0.0, 0.0)
    gaps = np.abs(found.astype(np.float64) - right.astype(np.float64)).reshape(-1)
    at = int(np.argmax(np.where(np.isnan(gaps), np.inf, gaps)))
    absolute = float(gaps[at]) if np.isfinite(gaps[at]) else float("inf")
    unit = 1.0
    if right.dtype.kind == "f" and np.isfinite(right.reshape(-1)[at]):
        unit = float(np.spacing(np.abs(right.reshape(-1)[at])))
    return Gap(absolute, absolute / unit, relative, _COARSE.get(right.dtype.name, 0.0))


@dataclass(frozen=True)
class Checked:
    """A step that was run.

    own    from what its references give for the same operands; None where they draw numbers
    eager  from the value of that name in the graph as it was written; None where there is none
    """

    number: int
    kind: str
    what: str
    source: str
    own: Gap | None
    eager: Gap | None

    def text(self) -> str:
        """The step, how far off it is, and the line of the program that it comes from."""
        lines = [f"step {self.number} ({self.kind}: {self.what})"]
        lines += [f"    from its own operands    {self.own}"] if self.own else []
        lines += [f"    from the eager values    {self.eager}"] if self.eager else []
        lines += [f"  created at {self.source}"] if self.source else []
        return "\n".join(lines)


@dataclass(frozen=True)
class Verdict:
    """What was found. ``agrees`` is the answer; ``str`` says it with the step and the culprit.

    problem   how a step broke the rules of memory, if one did
    outputs   each output's name and how far a usual call is from the eager values
    culprits  choices without which all agrees, when it does not
    """

    name: str
    tolerance: float
    steps: tuple[Checked, ...]
    outputs: tuple[tuple[str, Gap], ...]
    problem: str = ""
    culprits: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether compiled and interpreted results agree."""
        gaps = [*(step.own for step in self.steps), *(gap for _, gap in self.outputs)]
        return not self.problem and not any(g and g.exceeds(self.tolerance) for g in gaps)

    @property
    def first(self) -> Checked | None:
        """The first step that is beyond the tolerance; None if all agrees."""
        if self.agrees:
            return None
        for step in self.steps:
            if any(g and g.exceeds(self.tolerance) for g in (step.own, step.eager)):
                return step
        return None

    def __str__(self) -> str:
        head = f"{self.name}: {len(self.steps)} steps, tolerance {self.tolerance:g}"
        rows = [(name, str(gap)) for name, gap in self.outputs]
        if self.agrees:
            return "\n".join([f"{head}; compiled agrees with eager", indented(table(rows))])
        lines = [f"{head}; compiled differs from eager", indented(table(rows))]
        if self.first is not None:
            lines.append(f"the first step that differs: {self.first.text()}")
        lines += [self.problem] if self.problem else []
        return "\n".join([*lines, *self._blame()])

    def _blame(self) -> Iterator[str]:
        for name in self.culprits:
            how = "HYBRIDJIT_NUM_THREADS=1" if name == THREADS else f"HYBRIDJIT_SKIP={name}"
            yield f"culprit: {name}; without it all agrees ({how})"
        if not self.culprits:
            yield f"no choice alone is to blame (left out in turn: {', '.join(CHOICES)}, {THREADS})"

    def step_table(self) -> str:
        """A line for each step."""
        heading = ("step", "kernel", "absolute", "ulp", "from eager", "ulp", "operator", "line")
        rows = [
            (str(s.number), s.kind, *_cells(s.own), *_cells(s.eager), s.what, s.source)
            for s in self.steps
        ]
        return table(rows, heading, range(2, 6))


def _cells(gap: Gap | None) -> tuple[str, str]:
    return ("", "") if gap is None else (f"{gap.absolute:.2g}", f"{gap.ulp:.2g}")


@restoring(config, RUNNING)
def verify_graph(
    outputs: Sequence[Output],
    inputs: Arrays,
    params: Arrays,
    options: Options = Options(),  # noqa: B008 (frozen)
    tolerance: float = TOLERANCE,
    name: str = "graph",
) -> Verdict:
    """Compare a graph compiled with the same graph run by NumPy, operator by operator.

    inputs  in call order; ``tolerance`` is a part of the largest value of each array
    Raises what compiling the graph raises.
    """
    given, fixed = ({n: type_of(a) for n, a in arrays.items()} for arrays in (inputs, params))
    graph = from_symbol(outputs, given, infer_node_types(outputs, {**fixed, **given}), name)
    eager = dict(_eager_values(graph, {**inputs, **params}))

    def examine() -> Verdict:
        with override(skip=(*config.skip, SPLIT_BATCH)):  # so that steps and values correspond
            executable = compile_graph(outputs, given, fixed, options, new_log(), name)
        assert isinstance(executable, Executable)
        executable.bind(params)
        return _examine(executable, graph, eager, list(inputs.values()), tolerance, name)

    verdict = examine()
    if verdict.agrees:
        return verdict
    return replace(verdict, culprits=tuple(find_culprits(lambda: examine().agrees)))


def find_culprits(agrees: Callable[[], bool]) -> Iterator[str]:
    """The choices of the compiler without which ``agrees()``, each left out by itself."""
    for choice in CHOICES:
        with override(skip=(*config.skip, choice)):
            if agrees():
                yield choice
    with threads(1):
        if agrees():
            yield THREADS


def _eager_values(graph: Graph, arrays: Arrays) -> Iterator[tuple[tuple[str, int], np.ndarray]]:
    """The outputs of each value by name and number, without those that follow from chance."""
    given = {(value, 0): arrays[value.name] for value in (*graph.inputs, *graph.params)}
    results = run_in_order(graph.values, given, run_value)
    unsure: set[Value] = set()
    for value in graph.values:
        if value.op is None:
            continue
        if value.op.is_random or any(u.value in unsure for u in value.inputs):
            unsure.add(value)
        else:
            for index in range(len(value.types)):
                yield (value.name, index), results[value, index]
    for number, use in enumerate(graph.outputs):
        if use.value not in unsure:
            yield (_OUTPUT, number), results[use]


_OUTPUT = ""  # no value has this name


def _examine(
    executable: Executable,
    graph: Graph,
    eager: Mapping[tuple[str, int], np.ndarray],
    inputs: Sequence[np.ndarray],
    tolerance: float,
    name: str,
) -> Verdict:
    """One compilation against the eager values: its steps one by one, then a usual call."""
    assert executable.binding is not None
    given = [np.ascontiguousarray(array) for array in inputs]
    steps: list[Checked] = []
    problem = ""
    try:
        instance = Instance(executable, executable.binding, 1)
        for ran in Checker(executable, instance, given).steps():
            steps.append(_checked(ran, eager))
    except InternalError as error:
        problem = str(error)
    with override(check=False):
        found = executable(given)
    gaps = [
        (use.value.name, gap_between(array, eager[_OUTPUT, number]))
        for number, (use, array) in enumerate(zip(graph.outputs, found))
        if (_OUTPUT, number) in eager
    ]
    return Verdict(name, tolerance, tuple(steps), tuple(gaps), problem)


def _checked(ran: Ran, eager: Mapping[tuple[str, int], np.ndarray]) -> Checked:
    step = ran.step
    pairs = list(zip(ran.found, ran.wanted))
    own = None if is_random(step) else _worst([gap_between(f, w) for f, w in pairs])
    known = [
        _gap_in_some_layout(found, eager[use.value.name, use.index])
        for use, found in zip(step.group.results, ran.found)
        if step.group.kind != "copy" and (use.value.name, use.index) in eager
    ]
    source = next((v.source for v in step.group.members if v.source), "")
    seen = [gap for gap in known if gap is not None]
    what = ", ".join(value.describe() for value in step.group.members)
    return Checked(step.number, step.kind, what, source, own, _worst(seen))


def _worst(gaps: Sequence[Gap]) -> Gap | None:
    return max(gaps, key=lambda gap: gap.relative, default=None)


def _gap_in_some_layout(found: np.ndarray, right: np.ndarray) -> Gap | None:
    """Passes keep a value's name when they put its channels last; None if it was reshaped."""
    forms = [found, np.moveaxis(found, -1, 1)] if found.ndim > 2 else [found]
    gaps = [gap_between(form, right) for form in forms if form.shape == right.shape]
    return min(gaps, key=lambda gap: gap.relative, default=None)

"""Inference, compiled and by NumPy, and what is to blame where they differ.

In: a graph and an array for every variable. Out: a :class:`.verdict.Verdict`. Each step of the
plan is held against its own references on the same operands, and against the value that the graph
as it was written has there. When something differs, the graph is compiled again with one choice of
the compiler left out after the other: the culprit is that without which all agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from .._core.async_safety import restoring
from .._core.config import config, override
from .._core.options import Options
from .._core.types import type_of
from ..compiler import CHOICES, SPLIT_BATCH, compile_graph, new_log
from ..ir.graph import from_symbol
from ..ir.node import Output
from ..passes.infer import infer_node_types
from ..runtime.checking import TOLERANCE
from ..runtime.executable import Executable
from ..runtime.threads import THREADS as RUNNING
from ..runtime.threads import threads
from .steps import Arrays, Reference, Stepped
from .verdict import THREADS, Verdict, gap_between


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
    eager = Reference(graph, {**inputs, **params})

    def examine() -> Verdict:
        with override(skip=(*config.skip, SPLIT_BATCH)):  # so that steps and values correspond
            executable = compile_graph(outputs, given, fixed, options, new_log(), name)
        assert isinstance(executable, Executable)
        executable.bind(params)
        return _examine(executable, eager, list(inputs.values()), tolerance)

    return with_culprits(examine)


def with_culprits(examine: Callable[[], Verdict]) -> Verdict:
    """What ``examine`` finds, and without which choices of the compiler it finds nothing."""
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


def _examine(
    executable: Executable, eager: Reference, inputs: Sequence[np.ndarray], tolerance: float
) -> Verdict:
    """One compilation against the eager values: its steps one by one, then a usual call."""
    given = [np.ascontiguousarray(array) for array in inputs]
    stepped = Stepped(executable, given, "")
    with override(check=False):
        found = executable(given)
    gaps = [
        (use.value.name, gap_between(array, right))
        for use, array in zip(eager.graph.outputs, found)
        if (right := eager.output_of(use)) is not None
    ]
    return Verdict(
        eager.graph.name,
        tolerance,
        tuple(stepped.checked(eager, tolerance)),
        tuple(gaps),
        stepped.problem,
        eager.first_special() or stepped.first_special(),
    )

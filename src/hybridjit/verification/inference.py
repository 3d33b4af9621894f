"""Verification of inference against NumPy, and the compiler choice that causes a difference.

Input: a graph and an array for every variable. Output: a :class:`.verdict.Verdict`. Each step of
the plan is compared with its references on the same operands, and with the same value of the
original graph. If they differ, the graph is compiled again for each choice of the compiler, without
that choice: a culprit is a choice without which the results agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from .._core.async_safety import restoring
from .._core.config import config, override
from .._core.options import Options
from .._core.types import type_of
from ..compilation import compile_graph
from ..compiler import CHOICES, SPLIT_BATCH, new_log
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
    """Compare a compiled graph with the same graph run by NumPy, operator by operator.

    inputs      in call order; ``tolerance`` is relative to the largest value of each array
    Raises the exceptions of compiling the graph.
    """
    given, fixed = ({n: type_of(a) for n, a in arrays.items()} for arrays in (inputs, params))
    graph = from_symbol(outputs, given, infer_node_types(outputs, {**fixed, **given}), name)
    eager = Reference(graph, {**inputs, **params})

    def examine() -> Verdict:
        with override(skip=(*config.skip, SPLIT_BATCH)):  # so that steps correspond to values
            executable = compile_graph(outputs, given, fixed, options, new_log(), name)
        assert isinstance(executable, Executable)
        executable.bind(params)
        return _examine(executable, eager, list(inputs.values()), tolerance)

    return with_culprits(examine)


def with_culprits(examine: Callable[[], Verdict]) -> Verdict:
    """The verdict of ``examine``; if it differs, with the choices that cause the difference."""
    verdict = examine()
    if verdict.agrees:
        return verdict
    return replace(verdict, culprits=tuple(find_culprits(lambda: examine().agrees)))


def find_culprits(agrees: Callable[[], bool]) -> Iterator[str]:
    """The choices of the compiler without which ``agrees()`` holds, tried one at a time."""
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
    """Compare one compilation with the eager values: step by step, then in an ordinary call."""
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

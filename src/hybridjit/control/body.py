"""Graph inside of an operator: its types, its results, the gradients of its variables.

Input: outputs of nodes, and a type or an array for each variable, in the order in which MXNet lists
them. Output: the same for each output.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._core.types import UNKNOWN
from ..errors import MXNetError
from ..ir.interpret import run_in_order
from ..ir.node import Node, Output, topological
from ..ops.building import ON_ARRAYS, Builder, X
from ..ops.gradient import Traced, Tracer, backpropagate
from ..ops.rules import Types, merged
from ..ops.subgraphs import MOST_NESTED
from ..passes.infer import NodeTypes, settle, variable_type

MOST_STEPS = 1 << 24  # of one call of an operator, nested loops included
_REMEMBERED = 8  # cached results of the type rule, which is called repeatedly


class Body:
    """A graph whose variables are its operands.

    variables   in MXNet's order
    nested      depth of nested graphs, this one included
    """

    def __init__(self, outputs: Sequence[Output]) -> None:
        self.outputs = tuple(outputs)
        order = topological(self.outputs)
        self.variables = [node for node in order if node.op is None]
        self.nodes = [node for node in order if node.op is not None]
        inner = [graph for node in self.nodes if node.op for graph in node.op.subgraphs]
        self.nested: int = 1 + max((Body(graph).nested for graph in inner), default=0)
        self._answers: dict[tuple[object, ...], tuple[Types, Types]] = {}

    def is_random(self, training: bool) -> bool:
        """Whether results in this mode may differ from run to run."""
        uses = ((node.op, node.attrs) for node in self.nodes)
        return any(op is not None and op.in_mode(attrs, training).is_random for op, attrs in uses)

    def types(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        """Types of variables and outputs that follow from the known ones."""
        key = tuple(tuple(known.form for known in side) for side in (ins, outs))
        if key not in self._answers:
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[key] = self._infer(ins, outs)
        return self._answers[key]

    def _infer(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        types: NodeTypes = {
            node: merged((variable_type(node, {}),), (known,))
            for node, known in zip(self.variables, ins)
        }
        for node in self.nodes:
            types[node] = (UNKNOWN,) * len(node.output_names)
        for (node, index), known in zip(self.outputs, outs):
            row = list(types[node])
            row[index] = merged((row[index],), (known,))[0]
            types[node] = tuple(row)
        settle(self.nodes, types)
        found = tuple(types[node][0] for node in self.variables)
        return found, tuple(types[node][index] for node, index in self.outputs)

    def run(self, g: Builder[X], operands: Sequence[X], training: bool) -> list[X]:
        """The outputs in this mode, computed by any builder."""

        def step(node: Node, inputs: list[X]) -> Sequence[X]:
            assert node.op is not None
            op = node.op.in_mode(node.attrs, training)
            return g.outputs(op, *inputs, at=node.name, **node.attrs)

        given = {(node, 0): x for node, x in zip(self.variables, operands)}
        results = run_in_order(self.nodes, given, step)
        return [results[output] for output in self.outputs]

    def pull(
        self, operands: Sequence[np.ndarray], heads: Sequence[np.ndarray], training: bool
    ) -> list[np.ndarray | None]:
        """Gradient with respect to each variable, from the gradients of the outputs."""
        tracer: Tracer[np.ndarray] = Tracer(ON_ARRAYS)
        traced = [Traced(x) for x in operands]
        made = self.run(tracer, traced, training)
        return backpropagate(ON_ARRAYS, tracer.uses, zip(made, heads), traced)


def require_nesting(bodies: Sequence[Body]) -> None:
    """Raise MXNetError if graphs are nested too deeply."""
    if any(body.nested > MOST_NESTED for body in bodies):
        raise MXNetError(f"graphs are nested more than {MOST_NESTED} deep")


class _Steps(threading.local):
    """Number of steps that this thread may still take in the running operator."""

    left: int | None = None


_STEPS = _Steps()


@contextmanager
def steps_left() -> Iterator[Any]:
    """Yield a function to call for each step; it raises MXNetError if there are too many.

    Operators that run inside of an operator count against the same limit.
    """
    before = _STEPS.left
    _STEPS.left = MOST_STEPS if before is None else before

    def step() -> None:
        assert _STEPS.left is not None
        _STEPS.left -= 1
        if _STEPS.left < 0:
            raise MXNetError(f"loops may take at most {MOST_STEPS} steps in one call")

    try:
        yield step
    finally:
        _STEPS.left = before if before is None else _STEPS.left

"""Differentiate: graph -> graph of its outputs and its gradients.

Input: a typed graph of operators as the user wrote them, in the mode in which it runs. Output: the
joint graph of forward and backward. Each operator's rule gives the gradients with respect to its
operands (:mod:`...ops.gradient`). Gradients of a value with several readers are added in the order
of the graph, last reader first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import replace

from ..._core.frozen import dataclass
from ...ir.building import ValueBuilder
from ...ir.graph import Graph, Use, Value, uses_of
from ...ir.rewrite import uniquely_named
from ...ops.algebra import add
from ...ops.gradient import gradients, needs_heads, read_results


@dataclass(frozen=True)
class Joint:
    """Forward and backward as one graph.

    Its inputs are the forward graph's inputs and one head gradient for each output, integer outputs
    included, because rules pass those on. Its outputs are the forward graph's outputs, then the
    gradients, then the new values of auxiliary states.

    origin     the graph that was differentiated, which passes leave as it is
    wanted     the inputs whose gradients are requested
    heads      for each head gradient, the number of its output
    gradients  for each gradient, its input; inputs without a gradient are omitted
    updates    the input that each new auxiliary state replaces, in the backward pass
    """

    graph: Graph
    forward: Graph
    origin: Graph
    wanted: frozenset[str]
    heads: tuple[int, ...]
    gradients: tuple[str, ...]
    updates: tuple[str, ...]

    def with_graph(self, graph: Graph) -> Joint:
        """This joint graph after a pass over ``graph``, which keeps the order of the outputs."""
        outputs = graph.outputs[: len(self.forward.outputs)]
        return replace(self, graph=graph, forward=replace(self.forward, outputs=outputs))

    def moving(self, wanted: Collection[str]) -> Collection[str]:
        """The auxiliary states that a backward pass for only the ``wanted`` inputs updates."""
        if self.wanted.issubset(wanted):
            return self.updates
        roots = [value for value in self.origin.inputs if value.name in wanted]
        return _new_states(self.origin, _leading_to(self.origin, roots))

    @property
    def backward_outputs(self) -> tuple[Use, ...]:
        """The gradients and the new states."""
        return self.graph.outputs[len(self.forward.outputs) :]


def differentiate(graph: Graph, wanted: Collection[str]) -> Joint:
    """The joint graph, with gradients with respect to the inputs that ``wanted`` names.

    Raises NoGradientError if an operator between those inputs and the outputs has no gradient.
    """
    heads = {
        number: Value(None, f"head{number}", {}, (), (use.type,))
        for number, use in enumerate(graph.outputs)
    }
    roots = [value for value in graph.inputs if value.name in wanted]
    needed = _leading_to(graph, roots)
    reached = _run_back(graph, needed, heads)
    found = {v.name: reached[Use(v)] for v in roots if Use(v) in reached}
    new = _new_states(graph, needed)
    joint = replace(
        graph.with_outputs((*graph.outputs, *found.values(), *new.values())),
        inputs=(*graph.inputs, *heads.values()),
        params=(),
    )
    names = (tuple(found), tuple(new))
    return Joint(joint, graph, graph, frozenset(wanted), tuple(heads), *names).with_graph(
        uniquely_named(joint)
    )


def _run_back(graph: Graph, needed: Set[Use], heads: Mapping[int, Value]) -> dict[Use, Use]:
    """The gradients with respect to the needed uses, from the head gradients."""
    reached: dict[Use, Use] = {}
    for number, head in heads.items():
        _collect(reached, graph.outputs[number], Use(head), _builder(graph.outputs[number].value))
    for value in reversed(graph.values):
        wanted = [use in needed for use in value.inputs]
        if value.op is None or not any(wanted):
            continue
        douts = [reached.get(use) for use in uses_of(value)]
        g = _builder(value)
        found = gradients(value.op, g, value.inputs, uses_of(value), douts, value.attrs, wanted)
        for use, d in zip(value.inputs, found):
            if d is not None:
                _collect(reached, use, d, g)
    return reached


def _collect(reached: dict[Use, Use], use: Use, d: Use, g: ValueBuilder) -> None:
    reached[use] = add(g, reached[use], d) if use in reached else d


def _leading_to(graph: Graph, roots: list[Value]) -> set[Use]:
    """The roots, and the values that depend on them through operators that pass gradients on."""
    needed = set(map(Use, roots))
    for value in graph.values:
        wanted = [use in needed for use in value.inputs]
        if value.op is not None and needs_heads(value.op, value.attrs, wanted):
            needed.update(read_results(value.op, uses_of(value)))
    return needed


def _builder(value: Value, what: str = "grad") -> ValueBuilder:
    return ValueBuilder(f"{value.name}.{what}", value.source)


def _new_states(graph: Graph, needed: Set[Use]) -> dict[str, Use]:
    """The new auxiliary states of the operators whose backward pass is needed, by name.

    An operator without a ``needed`` operand leaves its states unchanged, as in MXNet: a frozen
    network keeps its statistics. Operators that share a state update it one after the other, in the
    order of the eager backward pass: the most downstream one first.
    """
    found: dict[str, Use] = {}
    for value in reversed(graph.values):
        traits = None if value.op is None else value.op.traits
        if value.op is None or traits is None or traits.updates is None:
            continue
        if traits.updates_ahead or any(use in needed for use in value.inputs):
            g, states = _builder(value, "state"), value.op.aux_positions(value.attrs)
            ins = [
                found.get(use.value.name, use) if i in states else use
                for i, use in enumerate(value.inputs)
            ]
            made = traits.updates(g, ins, uses_of(value), **value.attrs)
            found.update((value.inputs[i].value.name, new) for i, new in made.items())
    return found

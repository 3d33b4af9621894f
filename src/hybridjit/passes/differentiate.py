"""Differentiate: a graph that computes its outputs, and what reaches its inputs from them.

In: a typed graph of operators as the user wrote them, in the mode in which it runs. Out: the joint
graph of forward and backward. Each operator's own rule says what reaches its operands
(:mod:`..ops.gradient`); what reaches a value along several ways is added in the order of the graph,
last reader first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import replace

from ..ir.building import ValueBuilder
from ..ir.graph import Graph, Use, Value, uses_of
from ..ir.rewrite import uniquely_named
from ..ops.algebra import add
from ..ops.gradient import gradients, needs_heads, read_results
from ..records import dataclass


@dataclass(frozen=True)
class Joint:
    """Forward and backward as one graph.

    Its inputs are the forward graph's and a head gradient for each output, of whole numbers too,
    for rules pass those on; its outputs are the forward graph's, then the gradients, then what
    auxiliary states become.

    origin     the graph that was differentiated, which passes leave as it is
    wanted     the inputs whose gradients are asked for
    heads      the number of the output that each head gradient is of
    gradients  the input that each gradient is of; inputs that nothing reaches are not there
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
        """The same after a pass over the joint graph, which keeps the outputs' order."""
        outputs = graph.outputs[: len(self.forward.outputs)]
        return replace(self, graph=graph, forward=replace(self.forward, outputs=outputs))

    def moving(self, wanted: Collection[str]) -> Collection[str]:
        """The states that a backward pass for some of the wanted inputs alone moves."""
        if self.wanted.issubset(wanted):
            return self.updates
        roots = [value for value in self.origin.inputs if value.name in wanted]
        return _new_states(self.origin, _leading_to(self.origin, roots))

    @property
    def backward_outputs(self) -> tuple[Use, ...]:
        """The gradients and the new states."""
        return self.graph.outputs[len(self.forward.outputs) :]


def differentiate(graph: Graph, wanted: Collection[str]) -> Joint:
    """The joint graph, with gradients of the inputs that are ``wanted`` by name.

    Raises NoGradientError for an operator on the way that has none.
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
    """The gradients of the needed uses, from those of the outputs."""
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
    """The roots, and what depends on them by operators that pass gradients on."""
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

    An operator none of whose operands is ``needed`` leaves its states alone, as in MXNet: those of
    a frozen network stay. Of operators that share a state each moves the state that the one
    downstream of it made, in the order of the eager backward pass.
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

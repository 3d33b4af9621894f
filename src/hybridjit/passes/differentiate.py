"""Differentiate: a graph that computes its outputs, and what reaches its inputs from them.

In: a typed graph of operators as the user wrote them, in the mode in which it runs. Out: the joint
graph of forward and backward. Each operator's own rule says what reaches its operands
(:mod:`..ops.gradient`); what reaches a value along several ways is added in the order of the graph,
last reader first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ..ir.building import ValueBuilder
from ..ir.graph import Graph, Use, Value, uses_of
from ..ir.rewrite import uniquely_named
from ..ops.algebra import add
from ..ops.gradient import gradients
from ..records import dataclass


@dataclass(frozen=True)
class Joint:
    """Forward and backward as one graph.

    Its inputs are the forward graph's and a head gradient for each output, of whole numbers too,
    for rules pass those on; its outputs are the forward graph's, then the gradients, then what
    auxiliary states become.

    heads      the number of the output that each head gradient is of
    gradients  the input that each gradient is of; inputs that nothing reaches are not there
    updates    the input that each new auxiliary state replaces, on the way back
    """

    graph: Graph
    forward: Graph
    heads: tuple[int, ...]
    gradients: tuple[str, ...]
    updates: tuple[str, ...]

    def with_graph(self, graph: Graph) -> Joint:
        """The same after a pass over the joint graph, which keeps the outputs' order."""
        outputs = graph.outputs[: len(self.forward.outputs)]
        return replace(self, graph=graph, forward=replace(self.forward, outputs=outputs))

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
    reached = _run_back(graph, roots, heads)
    found = {v.name: reached[Use(v)] for v in roots if Use(v) in reached}
    new = _new_states(graph)
    joint = replace(
        graph.with_outputs((*graph.outputs, *found.values(), *new.values())),
        inputs=(*graph.inputs, *heads.values()),
        params=(),
    )
    names = (tuple(found), tuple(new))
    return Joint(joint, graph, tuple(heads), *names).with_graph(uniquely_named(joint))


def _run_back(graph: Graph, roots: list[Value], heads: Mapping[int, Value]) -> dict[Use, Use]:
    """What reaches every use on the way from the heads to the roots."""
    reached: dict[Use, Use] = {}
    for number, head in heads.items():
        _collect(reached, graph.outputs[number], Use(head), _builder(graph.outputs[number].value))
    needed = _leading_to(graph, roots)
    for value in reversed(graph.values):
        if value.op is None or value not in needed:
            continue
        douts = [reached.get(use) for use in uses_of(value)]
        wanted = [use.value in needed for use in value.inputs]
        g = _builder(value)
        found = gradients(value.op, g, value.inputs, uses_of(value), douts, value.attrs, wanted)
        for use, d in zip(value.inputs, found):
            if d is not None:
                _collect(reached, use, d, g)
    return reached


def _collect(reached: dict[Use, Use], use: Use, d: Use, g: ValueBuilder) -> None:
    reached[use] = add(g, reached[use], d) if use in reached else d


def _leading_to(graph: Graph, roots: list[Value]) -> set[Value]:
    """The roots, and what depends on them: nothing else needs a gradient."""
    needed = set(roots)
    for value in graph.values:
        if any(use.value in needed for use in value.inputs):
            needed.add(value)
    return needed


def _builder(value: Value, what: str = "grad") -> ValueBuilder:
    return ValueBuilder(f"{value.name}.{what}", value.source)


def _new_states(graph: Graph) -> dict[str, Use]:
    """What operators of training mode make of their auxiliary states, by the state's name.

    Of operators that share a state each moves what the one behind it on the graph has made, as
    eager calls do on the way back.
    """
    found: dict[str, Use] = {}
    for value in reversed(graph.values):
        if value.op is not None and value.op.traits.updates is not None:
            g, states = _builder(value, "state"), value.op.aux_positions(value.attrs)
            ins = [
                found.get(use.value.name, use) if i in states else use
                for i, use in enumerate(value.inputs)
            ]
            made = value.op.traits.updates(g, ins, uses_of(value), **value.attrs)
            found.update((value.inputs[i].value.name, new) for i, new in made.items())
    return found

"""Rebuilding graphs: replace values and copy only what changed, and titled rewrite rules."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple

from ..ops.building import infer_types
from ..ops.record import OpDef
from ..records import dataclass, replace
from .graph import Graph, Use, Value, typed_by_rule, unique_name, uses_of, walk

Replacement = Use | tuple[Use, ...] | None


class Match(NamedTuple):
    """Where a rule looks: the graph before this walk, and the value as it was there."""

    graph: Graph
    old: Value

    def is_sole_use(self, position: int) -> bool:
        """Whether this value alone reads its input ``position``, which is no graph output."""
        source = self.old.inputs[position].value
        alone = self.graph.uses[source] == (self.old,)
        return alone and source not in self.graph.output_values

    def is_fixed(self, use: Use) -> bool:
        """Whether a value depends on parameters alone: then it is computed when they are bound."""
        return all(
            value in self.graph.params if value.op is None else not value.op.is_random
            for value in walk([use])
        )


@dataclass(frozen=True)
class Rule:
    """A rewrite of one value, titled by its algebra.

    ``apply(value, match)`` returns None for "not mine", else what stands for the value's outputs.
    It is asked about values of the operators ``of``; of all where none is named.
    """

    title: str
    apply: Callable[[Value, Match], Replacement]
    of: tuple[OpDef, ...] = ()


def rule(title: str, *of: OpDef) -> Callable[[Callable[[Value, Match], Replacement]], Rule]:
    """Make a :class:`Rule` of a function ``(value, match) -> replacement or None``."""
    return lambda function: Rule(title, function, of)


def rebuild(value: Value, inputs: tuple[Use, ...]) -> Value:
    """``value`` with other inputs: itself when they are the same, retyped by its rule if not."""
    if inputs == value.inputs:
        return value
    old, new = ([use.type for use in each] for each in (value.inputs, inputs))
    types = value.types
    if value.op is None or old == new:
        made = Value(value.op, value.name, value.attrs, inputs, types, value.source)
        return typed_by_rule(made) if value.is_ruled else made
    types = infer_types(value.op, new, value.attrs)
    return typed_by_rule(Value(value.op, value.name, value.attrs, inputs, types, value.source))


def uniquely_named(graph: Graph) -> Graph:
    """The same graph with a name of its own for each value: the first keeps the one it has."""
    if len({value.name for value in graph.values}) == len(graph.values):
        return graph
    taken: dict[str, int] = {}

    def renamed(value: Value, match: Match) -> tuple[str, Replacement]:
        name = unique_name(value.name, taken)
        if name == value.name:
            return "", None
        return "", uses_of(replace(value, name=name))

    return replace_values(graph, renamed)


def rewrite(graph: Graph, rules: tuple[Rule, ...], fired: list[str] | None = None) -> Graph:
    """One walk over the graph, inputs first, trying the rules in order on each rebuilt value.

    The same graph object comes back when no rule applied. Titles of rules that did are added to
    ``fired``.
    """

    def first_match(value: Value, match: Match) -> tuple[str, Replacement]:
        for r in rules:
            if r.of and value.op not in r.of:
                continue
            result = r.apply(value, match)
            if result is not None:
                return r.title, result
        return "", None

    named = {op for r in rules for op in r.of} if all(r.of for r in rules) else None
    return replace_values(graph, first_match, fired, named)


def replace_values(
    graph: Graph,
    change: Callable[[Value, Match], tuple[str, Replacement]],
    fired: list[str] | None = None,
    of: Container[OpDef | None] | None = None,
) -> Graph:
    """One walk as :func:`rewrite` makes it; ``change`` gives a title with each replacement.

    It is asked about values of the operators ``of``; None is all of them, and variables.
    """
    replaced: dict[Use, Use] = {}
    moved = replaced.keys()
    for value in graph.values:
        new, result = value, None
        if not moved.isdisjoint(value.inputs):
            new = rebuild(value, tuple([replaced.get(use, use) for use in value.inputs]))
        if of is None or value.op in of:
            title, result = change(new, Match(graph, value))
            if result is not None and fired is not None:
                fired.append(f"{value.name}: {title}")
        if result is None and new is not value:
            result = uses_of(new)
        if result is not None:
            outputs = (result,) if isinstance(result, Use) else result
            replaced.update((Use(value, i), use) for i, use in enumerate(outputs))
    if not replaced:
        return graph
    return graph.with_outputs(replaced.get(use, use) for use in graph.outputs)

"""Replace values of graphs, copying only changed parts; titled rewrite rules."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple

from .._core.frozen import dataclass, replace
from ..ops.building import infer_types
from ..ops.record import OpDef
from .graph import Graph, Use, Value, typed_by_rule, unique_name, uses_of, walk

Replacement = Use | tuple[Use, ...] | None


class Match(NamedTuple):
    """The context of a rule: the graph before the rewrite, and the value in it."""

    graph: Graph
    old: Value

    def is_sole_use(self, position: int) -> bool:
        """Whether only this value reads its input ``position``, which is not a graph output."""
        source = self.old.inputs[position].value
        alone = self.graph.uses[source] == (self.old,)
        return alone and source not in self.graph.output_values

    def is_fixed(self, use: Use) -> bool:
        """Whether a value depends on parameters only: then it is computed at bind time."""
        return all(
            value in self.graph.params if value.op is None else not value.op.is_random
            for value in walk([use])
        )


@dataclass(frozen=True)
class Rule:
    """A rewrite of one value, with its algebra as title.

    ``apply(value, match)`` returns None if the rule does not apply, else the replacements of the
    value's outputs. It is called for values of the operators ``of``; for all values if none is
    named.
    """

    title: str
    apply: Callable[[Value, Match], Replacement]
    of: tuple[OpDef, ...] = ()


def rule(title: str, *of: OpDef) -> Callable[[Callable[[Value, Match], Replacement]], Rule]:
    """Make a :class:`Rule` from a function ``(value, match) -> replacement or None``."""
    return lambda function: Rule(title, function, of)


def rebuild(value: Value, inputs: tuple[Use, ...]) -> Value:
    """``value`` with other inputs: the same object if they are equal, else retyped by its rule."""
    if inputs == value.inputs:
        return value
    old, new = ([use.type for use in each] for each in (value.inputs, inputs))
    types = value.types
    if value.op is None or old == new:
        made = Value(value.op, value.name, value.attrs, inputs, types, value.source, value.layer)
        return typed_by_rule(made) if value.is_ruled else made
    types = infer_types(value.op, new, value.attrs)
    made = Value(value.op, value.name, value.attrs, inputs, types, value.source, value.layer)
    return typed_by_rule(made)


def uniquely_named(graph: Graph) -> Graph:
    """The same graph with unique names: the first value of a name keeps it."""
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
    """One pass over the graph, inputs first, that tries the rules in order on each rebuilt value.

    Returns the same graph object if no rule applied. Titles of applied rules are added to
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
    """One pass as in :func:`rewrite`; ``change`` returns a title with each replacement.

    It is called for values of the operators ``of``; None means all values, variables included.
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

"""Share: what is computed twice from the same operands is computed once.

NASNet's cells apply ``relu`` to what their neighbours have applied it to; gluon's own blocks repeat
shape arithmetic. Random operators are no two of them equal.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..ir.graph import Graph, Use, Value
from ..ir.rewrite import rebuild


def share_equal(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The graph without values that an earlier one equals: operator, attributes and operands.

    What its purpose repeats is not what it computes besides.
    """
    known: dict[object, Value] = {}
    replaced: dict[Use, Use] = {}
    moved = replaced.keys()
    repeats = graph.purpose.repeats
    for value in graph.values:
        new = value
        if not moved.isdisjoint(value.inputs):
            new = rebuild(value, tuple(replaced.get(use, use) for use in value.inputs))
        if value.op is not None and not value.op.is_random:
            place = (value.name in repeats, value.op.name, new.inputs)
            first = known.setdefault(place, new)
            if first is not new:  # most are alone there, and their attributes need no text
                known.setdefault((place, _rest(first)), first)
                first = known.setdefault((place, _rest(new)), new)
            if first is not new and fired is not None:
                fired.append(f"{value.name}: is {first.name}")
            new = first
        if new is not value:
            replaced.update((Use(value, i), Use(new, i)) for i in range(len(value.types)))
    if not replaced:
        return graph
    return graph.with_outputs(replaced.get(use, use) for use in graph.outputs)


def _rest(value: Value) -> Hashable:
    """What makes a value besides its operator and its operands."""
    return tuple(sorted((key, repr(item)) for key, item in value.attrs.items())), value.types

"""Share: equal operators on equal operands -> one value.

NASNet's cells apply ``relu`` to the same value several times; Gluon's own blocks repeat shape
arithmetic. Two random draws are never equal. Operators around other graphs, such as branches, have
one name and are equal only if they are the same record.
"""

from __future__ import annotations

from collections.abc import Hashable

from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import rebuild


def share_equal(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Replace each value by an earlier one with equal operator, attributes and operands.

    Values that the graph's purpose repeats are shared among themselves only.
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
            place = (value.name in repeats, value.op, new.inputs)
            first = known.setdefault(place, new)
            if first is not new:  # most keys are unique: only equal keys compare attributes
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
    """The part of a value's key beyond operator and operands: attributes and types."""
    return tuple(sorted((key, repr(item)) for key, item in value.attrs.items())), value.types

"""Invariants of graphs, verified after every pass.

Always
  A1  every value is defined before it is used, and the graph has no cycle
  A2  names are unique
  A3  inputs and parameters have no operator, all other values have one
  A4  outputs exist: their index is one of the value's outputs
  A5  the number of inputs is the one that the operator takes
From ``infer`` on
  T1  every value is fully typed
  T2  a value's types are those that its operator's rule gives for its inputs; values made by the
      rule (``ir.graph.make``) are not checked again
From ``hoist`` on
  H1  no value of the run graph depends on parameters only, except for sizes in a library
From ``fuse`` on
  G1  each value with an operator is in exactly one group
  G2  the groups' order can be executed: a group reads only values that an earlier one wrote
  G3  a member that values outside its group read is one of the group's outputs

All violations are collected; one InternalError carries the listing with a mark on each bad line.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import InternalError, MXNetError
from ..ops.building import infer_types
from .graph import Graph, Value
from .print import graph_text
from .sized import has_sizes

Violation = tuple["Value | None", str]


class Verified:
    """Values that were verified before and need no second check: values are frozen.

    typed   values with the right number of operands and the right types
    ruled   a value for each of its tuples of types, which copies with other operands share
    """

    def __init__(self) -> None:
        self.typed: set[Value] = set()
        self.ruled: dict[int, Value] = {}

    def has_same_rule(self, value: Value) -> bool:
        """Whether a verified value applies the same rule to the same types."""
        known = self.ruled.get(id(value.types))
        return (
            known is not None
            and known.op is value.op
            and known.attrs is value.attrs
            and [use.type for use in known.inputs] == [use.type for use in value.inputs]
        )

    def add(self, value: Value) -> None:
        self.typed.add(value)
        self.ruled[id(value.types)] = value


def verify(
    graph: Graph, facts: frozenset[str], stage: str, verified: Verified | None = None
) -> None:
    """Raise InternalError, naming ``stage``, if the graph breaks an invariant.

    ``facts`` are the properties that hold at this point: ``typed``, ``hoisted``, ``grouped``.
    Verified values are added to ``verified``.
    """
    verified = verified or Verified()
    found = list(_always(graph, verified))
    if "typed" in facts and not found:
        found += _typed(graph, verified)
    if "hoisted" in facts and not found:
        found += _hoisted(graph)
    if "grouped" in facts and not found:
        found += _grouped(graph)
    if found:
        raise InternalError(_report(graph, found, stage))


def _report(graph: Graph, found: list[Violation], stage: str) -> str:
    marks: dict[Value, str] = {}
    loose = []
    for value, text in found:
        if value is None:
            loose.append(text)
        else:
            marks[value] = f"<-- {text}"
    lines = [f"bug in hybridjit: the graph is invalid after {stage}", graph_text(graph, marks)]
    return "\n".join(lines + loose)


def _always(graph: Graph, verified: Verified) -> Iterator[Violation]:
    seen: set[Value] = set()
    names: set[str] = set()
    sources = {*graph.inputs, *graph.params}
    for value in graph.values:
        for source, _ in value.inputs:
            if source not in seen:
                yield value, "A1 reads a value that is not defined before it"
        if value.name in names:
            yield value, "A2 the name is taken"
        if (value.op is None) is not (value in sources):
            yield value, "A3 neither input, parameter nor operator"
        if value not in verified.typed and _has_wrong_count(value):
            yield value, f"A5 has {len(value.inputs)} inputs"
        seen.add(value)
        names.add(value.name)
    for use in graph.outputs:
        if use.value not in seen or use.index >= len(use.value.types):
            yield None, f"A4 output {use.index} of {use.value.name} does not exist"


def _has_wrong_count(value: Value) -> bool:
    return value.op is not None and len(value.op.input_names(value.attrs)) != len(value.inputs)


def _typed(graph: Graph, verified: Verified) -> Iterator[Violation]:
    for value in graph.values:
        if value in verified.typed:
            continue
        if value.is_ruled and id(value.types) in verified.ruled:
            verified.typed.add(value)
            continue
        is_ruled = value.is_ruled or verified.has_same_rule(value)
        problem = _problem_of_types(value, is_ruled)
        if problem:
            yield value, problem
        else:
            verified.add(value)


def _problem_of_types(value: Value, is_ruled: bool) -> str:
    if not all(t.is_known for t in value.types):
        return "T1 not fully typed"
    if value.op is None or is_ruled:
        return ""
    try:
        types = infer_types(value.op, [u.type for u in value.inputs], value.attrs)
    except MXNetError as error:
        return f"T2 the rule refuses: {error}"
    if any(t.is_known and t != mine for t, mine in zip(types, value.types)):
        return f"T2 the rule gives {' '.join(map(str, types))}"
    return ""


def _hoisted(graph: Graph) -> Iterator[Violation]:
    varying: set[Value] = set(graph.inputs)
    for value in graph.values:
        if value.op is None:
            continue
        depends = any(use.value in varying for use in value.inputs) or value.op.is_random
        if depends or has_sizes(value):
            varying.add(value)
        else:
            yield value, "H1 depends on parameters alone"


def _grouped(graph: Graph) -> Iterator[Violation]:
    owner: dict[Value, int] = {}
    written: set[Value] = {v for v in graph.values if v.op is None}
    exported = {v for group in graph.groups for v in group.outputs}
    for number, group in enumerate(graph.groups):
        for value in group.members:
            if value in owner:
                yield value, f"G1 in groups {owner[value]} and {number}"
            owner[value] = number
        for use in group.inputs:
            if use.value not in written:
                yield group.anchor, f"G2 group {number} reads {use.value.name} too early"
        written.update(group.outputs)
    for value in graph.values:
        if value.op is not None and value not in owner:
            yield value, "G1 in no group"
    for value, users in graph.uses.items():
        if value in owner:
            outside = any(owner.get(u) != owner[value] for u in users)
            if (outside or value in graph.output_values) and value not in exported:
                yield value, "G3 read outside its group but not one of its outputs"

"""Graphs as records: every stage of a compilation, its changes, the rules that fired.

Input: the stages recorded by :class:`Watcher`. Output: :class:`.schema.Stage` records that refer to
one table of values; a value that occurs in many stages is stored once.
"""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._core.symbolic import hint_of
from ..compiler import JOINT, PIPELINE, TRAINING
from ..ir.graph import Graph, unique_name
from ..ir.graph import Use as GraphUse
from ..ir.graph import Value as GraphValue
from ..ir.node import Node, Output, topological
from ..ir.print import attributes_off_default
from ..passes.training.differentiate import Joint
from ..passes.training.partition import Parts
from .schema import Group, Reference, Rule, Stage, Value
from .texts import short_name, short_text

# Larger stages are listed by their counts only: a page cannot draw them.
MOST_VALUES = 20_000
_MOST_ATTRS = 40
_LINE = re.compile(r"(.*):(\d+) in [^:]*", re.S)
_DESCRIPTIONS = {
    "trace": "the graph of the model, without types",
    "infer": "a shape and an element type for every value",
    "differentiate": "gradients of the outputs with respect to each variable",
    "partition": "the backward graph; it reads saved values",
    "bind": "computed when parameters are bound, by NumPy",
    **{row.name: row.description for row in (TRAINING, *JOINT, *PIPELINE)},
}


@dataclass
class Watcher:
    """Records the result of each stage: the ``watch`` function of a log."""

    seen: list[tuple[str, Any, tuple[str, ...]]] = field(default_factory=list)

    def __call__(self, stage: str, made: object, fired: Sequence[str]) -> None:
        self.seen.append((stage, made, tuple(fired)))


class ValueTable:
    """The values of all stages, without duplicates."""

    def __init__(self) -> None:
        self.records: list[Value] = []
        self._places: dict[tuple[object, ...], int] = {}
        self._known: dict[GraphValue, int] = {}

    def place(self, record: Value) -> int:
        """Index of this record; adds it if it is new."""
        key = (
            *(record["name"], record["op"], record["role"], record["source"]),
            *(tuple(record["attrs"].items()), tuple(record["inputs"]), tuple(record["types"])),
        )
        place = self._places.setdefault(key, len(self.records))
        if place == len(self.records):
            self.records.append(record)
        return place

    def place_of(self, value: GraphValue, role: str) -> int:
        """Index of the record of a graph's value."""
        if value not in self._known:
            self._known[value] = self.place(_value(value, role))
        return self._known[value]

    def lines(self) -> dict[str, str]:
        """The source line of each value, if its file is readable."""
        sources = dict.fromkeys(r["source"] for r in self.records if r["source"])
        found = {source: _line(source) for source in sources}
        return {source: text for source, text in found.items() if text}


def _line(source: str) -> str:
    match = _LINE.fullmatch(source)
    return short_text(linecache.getline(match[1], int(match[2])).strip()) if match else ""


def stages(watcher: Watcher, table: ValueTable) -> list[Stage]:
    """A record for each recorded graph, in order."""
    found: list[Stage] = []
    for name, made, fired in watcher.seen:
        if name == "trace":
            found.append(_traced(made, table))
        elif isinstance(graph := _graph_of(made), Graph):
            found.append(_stage(name, graph, fired, table, found[-1] if found else None))
        if isinstance(made, Graph) and made.bind is not None and name == "hoist":
            found[-1]["bind"] = _places(made.bind, table)
    return found


def _graph_of(made: object) -> object:
    if isinstance(made, Joint):
        return made.graph
    return made.backward if isinstance(made, Parts) else made


def _traced(outputs: Iterable[Output], table: ValueTable) -> Stage:
    """The untyped graph. Names may repeat in files: nodes get unique names here."""
    outputs = tuple(outputs)
    order = topological(outputs)
    taken: dict[str, int] = {}
    names = {node: short_name(unique_name(node.name, taken)) for node in order}
    few = order if len(order) <= MOST_VALUES else []
    stage = _new_stage("trace", Counter(node.op.name for node in order if node.op))
    stage["values"] = [table.place(_node(node, names)) for node in few]
    stage["outputs"] = [(names[o.node], o.index) for o in outputs]
    return stage


def block_paths(outputs: Iterable[Output]) -> dict[str, list[str]]:
    """The names of the Gluon blocks around each node, outermost first; without nodes of none."""
    return {
        short_name(node.name): [short_name(name) for name in node.block]
        for node in topological(tuple(outputs))
        if node.block
    }


def _node(node: Node, names: Mapping[Node, str]) -> Value:
    text = {k: v for k, v in node.text.items() if node.op and not k.startswith("__")}
    return {
        "name": names[node],
        "op": node.op.name if node.op else "",
        "role": "operator" if node.op else "variable",
        "attrs": _short_attrs(text),
        "inputs": [(names[i.node], i.index) for i in node.inputs],
        "types": [],
        "bytes": 0,
        "source": short_text(node.source),
    }


def _stage(
    name: str, graph: Graph, fired: Sequence[str], table: ValueTable, before: Stage | None
) -> Stage:
    stage = _new_stage(name, Counter(v.op.name for v in graph.values if v.op))
    stage["values"] = _places(graph, table)
    stage["outputs"] = [reference(use) for use in graph.outputs]
    stage["groups"] = [_group(group) for group in graph.groups if stage["values"]]
    stage["rules"], stage["notes"] = _rules(fired, {value.name for value in graph.values})
    if before is not None and before["name"] != "trace":
        _mark_changes(stage, before, table.records)
    return stage


def _new_stage(name: str, counts: Counter[str]) -> Stage:
    return {
        "name": name,
        "description": _DESCRIPTIONS.get(name, ""),
        "values": [],
        "outputs": [],
        "counts": dict(sorted(counts.items())),
        "added": [],
        "removed": [],
        "changed": [],
        "rules": [],
        "notes": [],
        "groups": [],
        "bind": [],
    }


def _places(graph: Graph, table: ValueTable) -> list[int]:
    if len(graph.values) > MOST_VALUES:
        return []
    inputs = set(graph.inputs)
    return [table.place_of(v, "input" if v in inputs else "parameter") for v in graph.values]


def _value(value: GraphValue, role: str) -> Value:
    return {
        "name": short_name(value.name),
        "op": value.op.name if value.op else "",
        "role": "operator" if value.op else role,
        "attrs": _short_attrs(attributes_off_default(value)),
        "inputs": [reference(use) for use in value.inputs],
        "types": [str(t) for t in value.types],
        "bytes": hint_of(sum(t.nbytes for t in value.types)),
        "source": short_text(value.source),
    }


def reference(use: GraphUse) -> Reference:
    """A value's name, and the index of its output."""
    return short_name(use.value.name), use.index


def _short_attrs(attrs: Mapping[str, object]) -> dict[str, str]:
    shown = sorted(attrs.items())[:_MOST_ATTRS]
    return {short_name(k, 60): short_text(_attr(v), 200) for k, v in shown}


def _attr(value: object) -> str:
    return str(value).replace(" ", "") if isinstance(value, tuple) else str(value)


def _group(group: Any) -> Group:
    members = [short_name(member.name) for member in group.members]
    return {"kind": group.kind, "name": short_name(group.layer), "members": members}


def _rules(fired: Sequence[str], names: set[str]) -> tuple[list[Rule], list[str]]:
    """Titles of rules with the values that they fired on, and other notes."""
    rules: dict[str, list[str]] = {}
    notes = []
    for text in fired:
        name, title = _titled(text, names)
        if title:
            rules.setdefault(short_text(title), []).append(short_name(name))
        else:
            notes.append(short_text(text))
    return [{"title": title, "values": values} for title, values in rules.items()], notes


def _titled(text: str, names: set[str]) -> tuple[str, str]:
    """Value and title of ``name: title``; names may contain colons, and the value may be
    removed."""
    ends = [match.start() for match in re.finditer(": ", text)]
    known = [end for end in ends if text[:end] in names]
    if text.startswith("not fused") or not ends:
        return "", ""
    end = (known or ends)[0]
    return text[:end], text[end + 2 :]


def _mark_changes(stage: Stage, before: Stage, records: Sequence[Value]) -> None:
    """Set the values that a stage added, removed and changed."""
    old = {records[place]["name"]: place for place in before["values"]}
    new = {records[place]["name"]: place for place in stage["values"]}
    stage["added"] = [name for name in new if name not in old]
    stage["removed"] = [name for name in old if name not in new]
    stage["changed"] = [name for name in new if old.get(name, new[name]) != new[name]]

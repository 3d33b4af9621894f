"""Reader of graph files: untrusted JSON in, nodes out.

Three steps: JSON becomes :class:`RawNode` records with every type and index checked; records are
upgraded to the current version (``symbol_upgrade.py``); operators are applied in order
(``symbol_nodes.py``). An input can only refer to an earlier node, so cycles are impossible. Nothing
is evaluated, and every count of the file is checked against a limit. All memory, including that of
objects that attributes multiply, is taken from one :class:`Budget` in advance.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..._core.async_safety import uncollected
from ..._core.frames import warn
from ..._core.shapes import is_np_shape
from ...errors import ModelFormatError, MXNetError, UnknownOpError
from ...ir.node import Output
from ...ops import custom, subgraphs
from ...ops.record import OpDef
from ...ops.registry import find, lookup
from ..json_stream import JSON, SLACK, Budget, JsonStream
from .checked_json import INVALID, fail, list_of, object_of, required, shown, text_of, unknown_field
from .symbol_nodes import MAX_INPUTS, MAX_OUTPUTS, built_nodes, check_counts, output_of
from .symbol_upgrade import (
    CURRENT,
    MAX_NODES,
    UNSTATED,
    Changes,
    RawEntry,
    RawNode,
    mark_unknown_sizes,
    upgrade,
)

_MAX_NAME = 4096
_MAX_ATTR = 1 << 16  # hidden `__x__` attributes, which are not parsed, may be longer
_MAX_LISTED = 20
_MAX_GRAPHS = 3  # limit for one node

_TOP_KEYS = frozenset(["nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"])
_NODE_KEYS = frozenset(["op", "name", "attrs", "inputs", "control_deps", "subgraphs"])
_OLD_NODE_KEYS = frozenset(["attr", "param", "backward_source_id"])
_ATTRIBUTE_KEYS = ("attr", "param", "attrs")

# Estimated bytes of objects from JSON to nodes, without strings and parsed attributes.
_NODE_BYTES = 640
_ENTRY_BYTES = 160
_HEAD_BYTES = 128
_OUTPUT_BYTES = 256  # output of a subgraph, including its type
_KEY_BYTES = 200  # entry in the table of attribute names

Outputs = tuple[Output, ...]


@uncollected
def read_document(data: str | bytes, name: str, changes: Changes | None = None) -> Outputs:
    """Outputs of the graph in ``data``; ``name`` is the file's name for messages.

    ``changes`` collects the changes made to a file of an older version.
    """
    changes = Changes() if changes is None else changes
    try:
        nodes = _Nodes(changes)
        top = _read(data, nodes)
        _check_arg_nodes(top, nodes.raw)
        positions = _head_positions(top, len(nodes.raw))
        version = _version(top)
        if is_np_shape() and "is_np_shape" not in top.get("attrs", {}):
            mark_unknown_sizes(nodes.raw)
        for record in nodes.raw:
            check_counts(record)  # first: every later step allocates memory for each input
        built = built_nodes(upgrade(nodes.raw, version, changes, nodes.budget), nodes.budget)
        return tuple(
            output_of((nodes.raw[index], output, 0), built, f"head {k}")
            for k, (index, output) in enumerate(positions)
        )
    except MXNetError as error:
        raise _about_file(error, name) from None


class RawLine(NamedTuple):
    """Node as written in the file: its operator may be unknown, its attributes invalid."""

    op: str
    name: str
    attrs: Mapping[str, str]
    inputs: tuple[tuple[int, int], ...]
    problem: str


def read_outline(data: str | bytes, name: str) -> tuple[list[RawLine], list[tuple[int, int]]]:
    """Nodes and heads of a file, also if operators are unknown.

    Inputs and heads are (node, output); ``problem`` is the reason why an operator is rejected.
    Raises ModelFormatError as :func:`read_document` does, but not for operators.
    """
    try:
        outline = _Outline()
        top = _read(data, outline)
        return outline.lines, list(_head_positions(top, len(outline.lines)))
    except MXNetError as error:
        raise _about_file(error, name) from None


def _about_file(error: MXNetError, name: str) -> MXNetError:
    """Error with the file's name appended to its first line."""
    first, *rest = str(error).split("\n")
    if isinstance(error, ModelFormatError) and not first.startswith(INVALID):
        first = f"{INVALID}{first}"
    return type(error)("\n".join([f"{first} (in {name})", *rest]))


# From JSON to records


class _Collector:
    """Collects the nodes of a file in order, and their memory."""

    budget: Budget

    def __init__(self) -> None:
        self.known: dict[str, str] = {}  # attribute names, shared by nodes

    def add(self, item: object) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Called after the last node."""

    def attributes(self, node: Mapping[str, object], place: str) -> dict[str, str]:
        """Attributes of a node from any of the three keys of MXNet's versions."""
        merged: dict[str, str] = {}
        for key in filter(node.__contains__, _ATTRIBUTE_KEYS):
            for name, value in object_of(node[key], f"{key} of {place}").items():
                if type(value) is not str or len(value) > _MAX_ATTR or not value.isascii():
                    hidden = name.startswith("__") and name.endswith("__")
                    limit = _MAX_ATTR if not hidden else SLACK
                    text_of(value, f"attribute {shown(name)} of {place}", limit)
                merged[self.known.get(name) or self._new(name, place)] = value
        return merged

    def _new(self, name: str, place: str) -> str:
        text_of(name, f"attribute name in {place}", _MAX_NAME)
        self.budget.take(sys.getsizeof(name) + _KEY_BYTES, place)
        return self.known.setdefault(name, name)


def _read(data: str | bytes, collector: _Collector) -> dict[str, JSON]:
    """Pass every node to ``collector``; returns the rest of the document, heads as flat
    integers."""
    try:
        text = data.encode("utf-8") if isinstance(data, str) else bytes(data)
    except UnicodeEncodeError:
        fail("the text contains half of a surrogate pair")
    collector.budget = Budget(len(text))
    stream = JsonStream(text, collector.budget)
    if stream.peek() != "{":
        object_of(stream.value(), "the document")
    top: dict[str, object] = {}
    for key in stream.members():
        if key in top:
            fail(f"{key} occurs twice in the document")
        top[key] = _part(key, stream, collector)
    stream.finish()
    required(top, "nodes", "the document")
    collector.finish()
    return top


def _part(key: str, stream: JsonStream, collector: _Collector) -> JSON:
    if key not in _TOP_KEYS:
        unknown_field(key, "the document", _TOP_KEYS)
    if key == "nodes":
        for number, item in enumerate(_elements(stream, key)):
            if number == MAX_NODES:
                fail(f"the graph has more than {MAX_NODES} nodes")
            collector.add(item)
        return None
    if key == "heads":
        return _heads(stream, collector.budget)
    if key == "arg_nodes":
        return _arg_nodes(stream)
    return stream.value()


def _elements(stream: JsonStream, what: str) -> Iterator[JSON]:
    if stream.peek() != "[":
        list_of(stream.value(), what)
    return stream.elements()


def _heads(stream: JsonStream, budget: Budget) -> array[int]:
    """Node and output of each head, flat."""
    flat = array("q")
    for k, item in enumerate(_elements(stream, "heads")):
        index, output, _ = _position(item, MAX_NODES, f"head {k}")
        if output > MAX_OUTPUTS:
            fail(f"head {k} refers to output {output}; the limit is {MAX_OUTPUTS}")
        budget.take(_HEAD_BYTES, f"head {k}")
        flat.extend((index, output))
    return flat


def _arg_nodes(stream: JsonStream) -> array[int]:
    found = array("q")
    for item in _elements(stream, "arg_nodes"):
        if type(item) is not int or not 0 <= item < MAX_NODES:
            fail(f"arg_nodes refers to {shown(item)}; the range is 0 to {MAX_NODES - 1}")
        if len(found) == MAX_NODES:
            fail(f"arg_nodes has more than {MAX_NODES} items")
        found.append(item)
    return found


def _head_positions(top: Mapping[str, object], nodes: int) -> Iterator[tuple[int, int]]:
    """(node, output) of each head. Raises ModelFormatError for a node out of range."""
    flat = required(top, "heads", "the document")
    if not flat:
        fail("heads is empty: the graph does not have outputs")
    for k, index in enumerate(flat[::2]):
        _require_node(index, nodes, f"head {k}")
    return zip(flat[::2], flat[1::2])


def _check_arg_nodes(top: Mapping[str, object], raw: list[RawNode]) -> None:
    for index in required(top, "arg_nodes", "the document"):
        if index >= len(raw):
            fail(f"arg_nodes refers to {index}; the graph has {len(raw)} nodes")
        if raw[index].op is not None:
            fail(f"arg_nodes refers to {raw[index].place}, which is not a variable")


def _version(top: Mapping[str, object]) -> int:
    attrs = object_of(top.get("attrs", {}), "attrs of the graph")
    pair = attrs.get("mxnet_version", ["int", UNSTATED])
    if not (isinstance(pair, list) and len(pair) == 2 and type(pair[1]) is int):
        fail(f'mxnet_version must be ["int", number], got {shown(pair)}')
    if pair[1] > CURRENT:
        warn(
            f"loading symbol saved by MXNet version {pair[1]}, newer than {CURRENT}; "
            "its meaning may have changed"
        )
    return pair[1]


class _Nodes(_Collector):
    """Collector of records. One error at the end lists all unknown operators."""

    def __init__(self, changes: Changes, depth: int = 0) -> None:
        super().__init__()
        self.raw: list[RawNode] = []
        self._depth = depth
        self._changes = changes
        self._refused: dict[str, list[str]] = {}

    def add(self, item: object) -> None:
        number = len(self.raw)
        node = object_of(item, f"node {number}", _NODE_KEYS | _OLD_NODE_KEYS)
        record = RawNode(number, None, _node_name(node, f"node {number}"), {})
        place = record.place
        is_known = self._look_up(node, record, place)
        if record.op is not None and node["op"] != record.op.name:
            self._changes.note(f"{node['op']} is called {record.op.name}", record.name)
        if not _OLD_NODE_KEYS.isdisjoint(node):
            self._changes.note("attributes have the keys attr and param", record.name)
        record.text = self.attributes(node, place)
        entries = list_of(required(node, "inputs", place), f"inputs of {place}")
        self.budget.take(_node_bytes(record.name, record.text, len(entries)), place)
        if is_known:
            record.inputs = _inputs(entries, record, self.raw)
        self.raw.append(record)

    def _look_up(self, node: Mapping[str, object], record: RawNode, place: str) -> bool:
        """Set the record's operator; False if it is unknown."""
        name = text_of(required(node, "op", place), f"op of {place}", _MAX_NAME)
        try:
            if name == custom.NAME:
                record.op = custom.custom_operator(self.attributes(node, place))
            elif name in subgraphs.NAMES:
                record.op = self._around_graphs(name, node, place)
            else:
                record.op = _operator(name, bool(node.get("subgraphs")), self._refused)
            return True
        except UnknownOpError as error:
            self._refused.setdefault(str(error), []).append(place)
            return False

    def _around_graphs(self, name: str, node: Mapping[str, JSON], place: str) -> OpDef:
        """Operator whose subgraphs are in the node: control flow, or fused operators."""
        if self._depth >= subgraphs.MOST_NESTED:
            fail(f"{place}: graphs are nested more than {subgraphs.MOST_NESTED} deep")
        graphs = list_of(required(node, "subgraphs", place), f"subgraphs of {place}")
        if len(graphs) > _MAX_GRAPHS:
            fail(f"{place} has {len(graphs)} subgraphs, at most {_MAX_GRAPHS} are allowed")
        made = [self._graph(item, f"subgraph {k} of {place}") for k, item in enumerate(graphs)]
        try:
            return subgraphs.operator_of(name, self.attributes(node, place), made)
        except MXNetError as error:
            raise type(error)(f"{place}: {error}") from None

    def _graph(self, item: object, place: str) -> Outputs:
        """Outputs of a subgraph, which has the version of the document."""
        document = object_of(item, place, _TOP_KEYS)
        inner = _Nodes(self._changes, self._depth + 1)
        inner.budget, inner.known = self.budget, self.known
        for node in list_of(required(document, "nodes", place), f"nodes of {place}"):
            inner.add(node)
        inner.finish()
        positions = [
            _position(head, len(inner.raw), f"head {k} of {place}")
            for k, head in enumerate(list_of(required(document, "heads", place), place))
        ]
        for record in inner.raw:
            check_counts(record)
        built = built_nodes(upgrade(inner.raw, CURRENT, self._changes, self.budget), self.budget)
        outputs = sum(len(node.output_names) for node in built.values())
        self.budget.take(outputs * _OUTPUT_BYTES, place)
        return tuple(
            output_of((inner.raw[index], output, 0), built, f"head {k} of {place}")
            for k, (index, output, _) in enumerate(positions)
        )

    def finish(self) -> None:
        """Raise UnknownOpError with every unknown operator and its nodes."""
        if self._refused:
            lines = [f"{why}: {_some(where)}" for why, where in self._refused.items()]
            raise UnknownOpError("\n".join(lines[:_MAX_LISTED]))


class _Outline(_Collector):
    """Collector of nodes as lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[RawLine] = []
        self._problems: dict[str, None] = {}

    def add(self, item: object) -> None:
        number = len(self.lines)
        place = f"node {number}"
        node = object_of(item, place, _NODE_KEYS | _OLD_NODE_KEYS)
        op = text_of(required(node, "op", place), f"op of {place}", _MAX_NAME)
        problem = ""
        try:
            if op == custom.NAME:
                custom.custom_operator(self.attributes(node, place))
            elif op not in subgraphs.NAMES:
                _operator(op, bool(node.get("subgraphs")), self._problems)
        except MXNetError as error:
            problem = str(error)
            self._problems[problem] = None
        entries = list_of(required(node, "inputs", place), f"inputs of {place}")
        name, attrs = _node_name(node, place), self.attributes(node, place)
        taken = _node_bytes(name, attrs, len(entries))
        self.budget.take(taken + 2 * len(problem), place)
        edges = [_position(e, number, f"input {k} of {place}")[:2] for k, e in enumerate(entries)]
        self.lines.append(RawLine(op, name, attrs, tuple(edges), problem))


def _node_bytes(name: str, text: Mapping[str, str], inputs: int) -> int:
    """Memory of a node, from record to :class:`Node`, without parsed attributes."""
    texts = sum(map(sys.getsizeof, (name, text, *text.values())))
    return _NODE_BYTES + texts + inputs * _ENTRY_BYTES


def _node_name(node: Mapping[str, object], place: str) -> str:
    return text_of(required(node, "name", place), f"name of {place}", _MAX_NAME)


def _operator(name: str, has_subgraphs: bool, refused: Mapping[str, object]) -> OpDef | None:
    """Operator, None for a variable. Raises UnknownOpError, at first with similar names."""
    if has_subgraphs:
        fused = name.startswith("_sg_")
        what = "operators fused for another backend" if fused else "neither a loop nor a branch"
        raise UnknownOpError(f"Operator {name} is not supported: it has a subgraph ({what})")
    if name == "null":
        return None
    if len(refused) >= _MAX_LISTED and find(name) is None:
        raise UnknownOpError(f"Operator {name} is not registered")
    return lookup(name, internal=False)


def _some(places: list[str]) -> str:
    more = len(places) - _MAX_LISTED
    return ", ".join(places[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def _inputs(items: list[JSON], record: RawNode, earlier: list[RawNode]) -> list[RawEntry]:
    place = record.place
    if len(items) > MAX_INPUTS:
        fail(f"{place} has {len(items)} inputs, at most {MAX_INPUTS} are allowed")
    if items and record.op is None:
        fail(f"{place} is a variable, but has {len(items)} inputs")
    return [_entry(item, earlier, f"input {k} of {place}") for k, item in enumerate(items)]


def _entry(item: object, nodes: list[RawNode], what: str) -> RawEntry:
    """``[node, output]`` or ``[node, output, version]`` that refers to one of ``nodes``."""
    index, output, version = _position(item, len(nodes), what)
    return nodes[index], output, version


def _position(item: object, count: int, what: str) -> tuple[int, int, int]:
    """``[node, output, version]`` as integers, the node below ``count``."""
    numbers = list_of(item, what)
    if len(numbers) not in (2, 3) or {*map(type, numbers)} != {int}:
        fail(f"{what} must be [node, output, version], got {shown(item)}")
    index, output, version = (*numbers, 0)[:3]
    _require_node(index, count, what)
    if output < 0 or version < 0:
        fail(f"{what} has a negative number: {shown(item)}")
    return index, output, version


def _require_node(index: int, count: int, what: str) -> None:
    if not 0 <= index < count:
        fail(f"{what} refers to node {index}; the range is 0 to {count - 1}")


# From records to nodes


# Checked types

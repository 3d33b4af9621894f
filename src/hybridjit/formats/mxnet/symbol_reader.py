"""Reading a graph file: untrusted text in, nodes out.

Three steps: JSON text becomes :class:`RawNode` records with every type and index checked; old
spellings are brought up to date (``symbol_upgrade.py``); operators are applied in order. An input
may only name an earlier node, so a cycle cannot be built. Nothing is evaluated, and no count in
the file is believed before it was held against a bound.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from ...errors import AttributeValueError, ModelFormatError, MXNetError, UnknownOpError
from ...ir.node import Node, Output, apply
from ...ops.record import OpDef
from ...ops.registry import lookup
from ...shapes import is_np_shape
from .symbol_upgrade import (
    CURRENT,
    UNSTATED,
    Changes,
    RawEntry,
    RawNode,
    mark_unknown_sizes,
    upgrade,
)

_MAX_NODES = 1 << 15
_MAX_INPUTS = 1 << 14  # of one node; also the bound on attributes that say how many there are
_MAX_NAME = 4096
_MAX_ATTR = 1 << 16  # hidden `__x__` attributes, which nothing parses, may be longer
_MAX_DIGITS = 19
_MEMORY_SLACK = 64 << 20  # what the parsed text may take beyond twice its length
_MAX_LISTED = 20

_TOP_KEYS = frozenset(["nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"])
_NODE_KEYS = frozenset(["op", "name", "attrs", "inputs", "control_deps", "subgraphs"])
_OLD_NODE_KEYS = frozenset(["attr", "param", "backward_source_id"])
_COUNTS = frozenset(["num_args", "num_outputs", "num_weights", "num_arrays", "sections"])

Outputs = tuple[Output, ...]


def read_document(data: str | bytes, name: str, changes: Changes | None = None) -> Outputs:
    """The outputs of the graph in ``data``; ``name`` is what messages call the file.

    ``changes`` takes what had to be changed in a file of an older version.
    """
    changes = Changes() if changes is None else changes
    try:
        top = _mapping(parse(data), "the document", _TOP_KEYS)
        raw = _raw_nodes(top, changes)
        _check_arg_nodes(top, raw)
        heads = [
            _entry(head, raw, f"head {k}")
            for k, head in enumerate(_list(_required(top, "heads", "the document"), "heads"))
        ]
        if not heads:
            _fail("heads is empty, the graph has no output")
        for record in raw:
            _check_counts(record)  # first: every later step makes a name for each input
        version = _version(top)
        if is_np_shape() and "is_np_shape" not in top.get("attrs", {}):
            mark_unknown_sizes(raw)
        nodes = _built(upgrade(raw, version, changes))
        return tuple(_output(entry, nodes, f"head {k}") for k, entry in enumerate(heads))
    except MXNetError as error:
        raise _about_file(error, name) from None


class RawLine(NamedTuple):
    """A node as the file has it: its operator may be unknown, its attributes may be wrong."""

    op: str
    name: str
    attrs: Mapping[str, str]
    inputs: tuple[tuple[int, int], ...]
    problem: str


def read_outline(data: str | bytes, name: str) -> tuple[list[RawLine], list[tuple[int, int]]]:
    """The nodes of a file and its heads, for a look at a graph whose operators are not all known.

    Inputs and heads are (node, output); ``problem`` says why an operator is refused. Raises
    ModelFormatError as :func:`read_document` does, but not for operators.
    """
    try:
        top = _mapping(parse(data), "the document", _TOP_KEYS)
        lines = [_raw_line(item, f"node {i}", i) for i, item in enumerate(_node_items(top))]
        heads = _list(_required(top, "heads", "the document"), "heads")
        return lines, [_position(h, len(lines), f"head {k}")[:2] for k, h in enumerate(heads)]
    except MXNetError as error:
        raise _about_file(error, name) from None


def _raw_line(item: Any, place: str, number: int) -> RawLine:
    node = _mapping(item, place, _NODE_KEYS | _OLD_NODE_KEYS)
    op = _text(_required(node, "op", place), f"op of {place}", _MAX_NAME)
    problem = ""
    try:
        _operator(op, bool(node.get("subgraphs")))
    except UnknownOpError as error:
        problem = str(error)
    inputs = _list(_required(node, "inputs", place), f"inputs of {place}")
    edges = [_position(e, number, f"input {k} of {place}")[:2] for k, e in enumerate(inputs)]
    return RawLine(op, _node_name(node, place), _attributes(node, place), tuple(edges), problem)


def _about_file(error: MXNetError, name: str) -> MXNetError:
    """The same error with the file's name at the end of its first line."""
    first, *rest = str(error).split("\n")
    return type(error)("\n".join([f"{first} (in {name})", *rest]))


def _fail(what: str) -> NoReturn:
    raise ModelFormatError(f"Invalid symbol file: {what}")


# From text to records


def parse(data: str | bytes) -> Any:
    """What JSON text holds, in memory bounded by its length. Raises ModelFormatError."""
    try:
        text = data if isinstance(data, str) else bytes(data).decode("utf-8")
    except UnicodeDecodeError as error:
        _fail(f"not UTF-8 at byte {error.start}")
    _bound_memory(text)
    try:
        return json.loads(text, strict=False, parse_int=_bounded_int)
    except RecursionError:
        _fail("lists or objects are nested too deeply")
    except ValueError as error:
        _fail(f"not JSON: {error}")


def _bound_memory(text: str) -> None:
    """Refuse text that would parse to far more memory than a graph of its length can need.

    The weights are what CPython takes for an object, a list, an item and half a string. A graph
    as MXNet writes it takes some ten times its text, so this admits files of about 8 MB.
    """
    objects, lists, items, quotes = (text.count(c) for c in '{[,"')
    estimate = 240 * objects + 96 * lists + 16 * items + 30 * quotes
    if estimate > 2 * len(text) + _MEMORY_SLACK:
        _fail(f"{len(text)} characters hold too many objects ({objects}) and lists ({lists})")


def _bounded_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"number of {len(digits)} digits")
    return int(digits)


def _version(top: Mapping[str, Any]) -> int:
    attrs = _mapping(top.get("attrs", {}), "attrs of the graph")
    pair = attrs.get("mxnet_version", ["int", UNSTATED])
    if not (isinstance(pair, list) and len(pair) == 2 and type(pair[1]) is int):
        _fail(f'mxnet_version is ["int", number], got {_shown(pair)}')
    if pair[1] > CURRENT:
        warnings.warn(
            f"loading symbol saved by MXNet version {pair[1]}, newer than {CURRENT}; "
            "what it means may have changed",
            stacklevel=4,
        )
    return pair[1]


def _node_items(top: Mapping[str, Any]) -> list[Any]:
    items = _list(_required(top, "nodes", "the document"), "nodes")
    if len(items) > _MAX_NODES:
        _fail(f"{len(items)} nodes, possible are {_MAX_NODES}")
    return items


def _raw_nodes(top: Mapping[str, Any], changes: Changes) -> list[RawNode]:
    maps = [
        _mapping(item, f"node {i}", _NODE_KEYS | _OLD_NODE_KEYS)
        for i, item in enumerate(_node_items(top))
    ]
    names = [_node_name(m, f"node {i}") for i, m in enumerate(maps)]
    places = [f"node {i} '{name}'" for i, name in enumerate(names)]
    ops = _looked_up(maps, places)
    raw: list[RawNode] = []
    for node, op, name, place in zip(maps, ops, names, places):
        if op is not None and node["op"] != op.name:
            changes.note(f"{node['op']} is called {op.name}", name)
        if not _OLD_NODE_KEYS.isdisjoint(node):
            changes.note("attributes stand under attr and param", name)
        record = RawNode(place, op, name, _attributes(node, place))
        record.inputs = _inputs(node, op, raw, place)
        raw.append(record)
    return raw


def _node_name(node: Mapping[str, Any], place: str) -> str:
    return _text(_required(node, "name", place), f"name of {place}", _MAX_NAME)


def _looked_up(maps: list[dict[str, Any]], places: list[str]) -> list[OpDef | None]:
    """Every node's operator (None: a variable). All that are unknown are named in one error."""
    ops: list[OpDef | None] = []
    refused: dict[str, list[str]] = {}
    for node, place in zip(maps, places):
        name = _text(_required(node, "op", place), f"op of {place}", _MAX_NAME)
        try:
            ops.append(_operator(name, bool(node.get("subgraphs"))))
        except UnknownOpError as error:
            refused.setdefault(str(error), []).append(place)
    if refused:
        lines = [f"{why}: {_some(where)}" for why, where in refused.items()]
        raise UnknownOpError("\n".join(lines[:_MAX_LISTED]))
    return ops


def _operator(name: str, has_subgraphs: bool) -> OpDef | None:
    if has_subgraphs:
        fused = name.startswith("_sg_")
        what = "operators fused for another backend" if fused else "control flow"
        raise UnknownOpError(f"Operator {name} is not supported: it holds a subgraph ({what})")
    return None if name == "null" else lookup(name, internal=False)


def _some(places: list[str]) -> str:
    more = len(places) - _MAX_LISTED
    return ", ".join(places[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def _attributes(node: Mapping[str, Any], place: str) -> dict[str, str]:
    """A node's attributes from any of the three keys that versions of MXNet used."""
    merged: dict[str, str] = {}
    for key in ("attr", "param", "attrs"):
        for name, value in _mapping(node.get(key, {}), f"{key} of {place}").items():
            _text(name, f"attribute name in {place}", _MAX_NAME)
            hidden = name.startswith("__") and name.endswith("__")
            limit = _MAX_ATTR if not hidden else _MEMORY_SLACK
            merged[name] = _text(value, f"attribute {_shown(name)} of {place}", limit)
    return merged


def _inputs(
    node: Mapping[str, Any], op: OpDef | None, earlier: list[RawNode], place: str
) -> list[RawEntry]:
    items = _list(_required(node, "inputs", place), f"inputs of {place}")
    if len(items) > _MAX_INPUTS:
        _fail(f"{place} has {len(items)} inputs, possible are {_MAX_INPUTS}")
    if items and op is None:
        _fail(f"{place} is a variable and has {len(items)} inputs")
    return [_entry(item, earlier, f"input {k} of {place}") for k, item in enumerate(items)]


def _entry(item: Any, nodes: list[RawNode], what: str) -> RawEntry:
    """``[node, output]`` or ``[node, output, version]``, naming one of ``nodes``."""
    index, output, version = _position(item, len(nodes), what)
    return nodes[index], output, version


def _position(item: Any, count: int, what: str) -> tuple[int, int, int]:
    """``[node, output, version]`` as numbers, the node one of ``count``."""
    numbers = _list(item, what)
    if len(numbers) not in (2, 3) or any(type(n) is not int for n in numbers):
        _fail(f"{what} is [node, output, version], got {_shown(item)}")
    index, output, version = (*numbers, 0)[:3]
    if not 0 <= index < count:
        _fail(f"{what} names node {index}; possible here are 0 to {count - 1}")
    if output < 0 or version < 0:
        _fail(f"{what} has a negative number: {_shown(item)}")
    return index, output, version


def _check_arg_nodes(top: Mapping[str, Any], raw: list[RawNode]) -> None:
    for index in _list(_required(top, "arg_nodes", "the document"), "arg_nodes"):
        if type(index) is not int or not 0 <= index < len(raw):
            _fail(f"arg_nodes names {_shown(index)}; there are {len(raw)} nodes")
        if raw[index].op is not None:
            _fail(f"arg_nodes names {raw[index].place}, which is not a variable")


# From records to nodes


def _built(raw: list[RawNode]) -> dict[RawNode, Node]:
    nodes: dict[RawNode, Node] = {}
    for record in raw:
        inputs = tuple(
            _output(entry, nodes, f"input {k} of {record.place}")
            for k, entry in enumerate(record.inputs)
        )
        if record.op is None:
            nodes[record] = Node(None, record.name, record.text, (), {})
        else:
            nodes[record] = _applied(record, record.op, inputs)
            _keep_versions(nodes[record], record)
    return nodes


def _applied(record: RawNode, op: OpDef, inputs: Outputs) -> Node:
    try:
        return apply(op, record.name, inputs, record.text)
    except MXNetError as error:
        raise type(error)(f"{record.place}: {error}") from None


def _check_counts(record: RawNode) -> None:
    """Bound the attributes that say how many inputs or outputs there are: each gets a name."""
    for attr in record.op.attrs if record.op else ():
        if attr.name not in _COUNTS or attr.name not in record.text:
            continue
        try:
            count = attr.parse(record.text[attr.name])
        except AttributeValueError as error:
            raise AttributeValueError(f"{record.place}: {error}") from None
        if isinstance(count, int) and count > _MAX_INPUTS:
            raise AttributeValueError(
                f"{record.place}: {attr.name} is {count}, possible are {_MAX_INPUTS}"
            )


def _output(entry: RawEntry, nodes: Mapping[RawNode, Node], what: str) -> Output:
    record, index, _ = entry
    node = nodes[record]
    count = len(node.output_names)
    if index >= count:
        _fail(f"{what} names output {index} of {record.place}, which has {count}")
    return Output(node, index)


def _keep_versions(node: Node, record: RawNode) -> None:
    """Remember the first version under which a state is written, so that it is saved again."""
    assert node.op is not None
    for position in node.op.aux_positions(node.attrs):
        source, _, version = record.inputs[position]
        variable = node.inputs[position].node
        if source.op is None:
            variable.attrs.setdefault("version", version)  # type: ignore[attr-defined]


# Checked types


def _required(mapping: Mapping[str, Any], key: str, what: str) -> Any:
    if key not in mapping:
        _fail(f"{what} has no {key}")
    return mapping[key]


def _mapping(value: Any, what: str, keys: frozenset[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        _fail(f"{what} is an object, got {_shown(value)}")
    for key in value:
        if keys is not None and key not in keys:
            _fail(f"Unknown field {_shown(key)} in {what}; known are {', '.join(sorted(keys))}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        _fail(f"{what} is a list, got {_shown(value)}")
    return value


def _text(value: Any, what: str, limit: int) -> str:
    if not isinstance(value, str):
        _fail(f"{what} is a string, got {_shown(value)}")
    if len(value) > limit:
        _fail(f"{what} has {len(value)} characters, possible are {limit}")
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        _fail(f"{what} holds half of a surrogate pair")
    return value


def _shown(value: Any) -> str:
    """A value from the file for a message: its beginning is enough."""
    if isinstance(value, (dict, list)) and len(value) > 8:
        return f"a {'list' if isinstance(value, list) else 'object'} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."

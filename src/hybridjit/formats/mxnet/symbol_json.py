"""MXNet's graph files, ``-symbol.json``: conversion from JSON to graph outputs and back.

Written files are equal byte for byte to those of MXNet 1.9.1 (CPU build with oneDNN);
``symbol_reader.py`` reads. Types are not checked: a graph can be written before any are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import indent

from ..._core.safe_open import open_file
from ..._core.shapes import is_np_shape
from ...ir.node import Node, Output, precision_of, topological, with_precision
from ...ops.elementwise.element_type import AMP_CAST, AMP_MULTICAST
from ..atomic import Path, system_errors, write_atomically
from .symbol_reader import RawLine, read_document, read_outline
from .symbol_upgrade import CURRENT, Changes

Outputs = tuple[Output, ...]
Entry = tuple[int, int, int]

_LONG = 10  # MXNet breaks lists of more items than this over lines

_PIPE_BYTES = 256 << 20  # limit of bytes from a pipe, whose length is unknown


def load(path: Path, changes: Changes | None = None) -> Outputs:
    """Read a graph from a file. Raises as :func:`loads`, and MXNetError if it cannot be read.

    ``changes`` collects the changes made to a file of an older version.
    """
    with system_errors(path), open_file(path, _PIPE_BYTES) as file:
        data = file.read()
    return read_document(data, str(path), changes)


def load_outline(path: Path) -> tuple[list[RawLine], list[tuple[int, int]]]:
    """Nodes and heads of a file as written, for any operator names.

    Raises ModelFormatError for a file that is not a graph, MXNetError if it cannot be read.
    """
    with system_errors(path), open_file(path, _PIPE_BYTES) as file:
        data = file.read()
    return read_outline(data, str(path))


def loads(text: str | bytes) -> Outputs:
    """Outputs of the graph in ``text``, of any MXNet version up to 1.9.1.

    Raises ModelFormatError for text that is not a graph, UnknownOpError with every operator that is
    not registered, and the operator's error for an invalid attribute or number of inputs; all are
    MXNetErrors that contain the node's name.
    """
    return read_document(text, "symbol JSON")


def save(path: Path, outputs: Iterable[Output], remove_amp_cast: bool = True) -> None:
    """Write :func:`dumps` to a file; an old file is replaced only by a complete one."""
    write_atomically(path, [dumps(outputs, remove_amp_cast).encode("utf-8")])


def dumps(outputs: Iterable[Output], remove_amp_cast: bool = True) -> str:
    """Graph as JSON; casts of mixed precision are removed by default."""
    heads = tuple(outputs)
    if remove_amp_cast:
        heads = without_amp_casts(heads)
        heads = with_precision(heads, "") if precision_of(heads) else heads
    return _graph_text(heads, f'"attrs": {_graph_attrs_text()}')


def _graph_text(heads: Sequence[Output], *more: str) -> str:
    order = topological(heads)
    index = {node: i for i, node in enumerate(order)}
    rows = [0]
    for node in order:
        rows.append(rows[-1] + _total_outputs(node))
    entries = _input_entries(order, index)
    nodes = ", \n    ".join(_node_text(node, entries[node]) for node in order)
    variables = [str(i) for i, node in enumerate(order) if node.op is None]
    head_entries = [_entry_text((index[h.node], h.index, 0)) for h in heads]
    parts = (
        f'"nodes": [\n    {nodes}\n  ]',
        f'"arg_nodes": {_list_text(variables, 2)}',
        f'"node_row_ptr": {_list_text([str(row) for row in rows], 2)}',
        f'"heads": {_list_text(head_entries, 2)}',
        *more,
    )
    return "{\n  " + ", \n  ".join(parts) + "\n}"


def _graph_attrs_text() -> str:
    version = f'"mxnet_version": ["int", {CURRENT}]'
    if not is_np_shape():
        return "{" + version + "}"
    return f'{{\n    "is_np_shape": ["int", 1], \n    {version}\n  }}'


def without_amp_casts(outputs: Sequence[Output]) -> Outputs:
    """Graph without ``amp_cast`` and ``amp_multicast`` nodes: users read their inputs."""
    instead: dict[Output, Output] = {}
    for node in topological(outputs):
        inputs = tuple(instead.get(i, i) for i in node.inputs)
        if node.op in (AMP_CAST, AMP_MULTICAST):
            instead.update((Output(node, k), source) for k, source in enumerate(inputs))
        elif inputs != node.inputs:
            new = replace(node, inputs=inputs)
            names = range(len(node.output_names))
            instead.update((Output(node, k), Output(new, k)) for k in names)
    return tuple(instead.get(o, o) for o in outputs)


def _input_entries(order: list[Node], index: Mapping[Node, int]) -> dict[Node, list[Entry]]:
    """Inputs of each node as (node, output, version).

    The version of a variable counts the operators composed on it that write it (BatchNorm writes
    its moving averages). It has no effect on execution; a file that was read keeps the number of
    its first writer.
    """
    versions: dict[Node, int] = {}
    entries: dict[Node, list[Entry]] = {}
    for node in order:
        written = _written(node)
        entries[node] = []
        for position, (source, output) in enumerate(node.inputs):
            if position in written:
                versions[source] = _next_version(source, versions.get(source))
            entries[node].append((index[source], output, versions.get(source, 0)))
    return entries


def _written(node: Node) -> frozenset[int]:
    """Indices of inputs that are auxiliary states of the node or, by name, of its subgraphs."""
    if node.op is None:
        return frozenset()
    inner = [n for graph in node.op.subgraphs for n in topological(graph)]
    names = {n.inputs[i].node.name for n in inner for i in _written(n)}
    found = {i for i, x in enumerate(node.inputs) if x.node.is_variable and x.node.name in names}
    return node.op.aux_positions(node.attrs) | found


def _next_version(variable: Node, current: int | None) -> int:
    if current is None:
        return variable.attrs.get("version", 1)
    return current + 1 if current else 0


def _total_outputs(node: Node) -> int:
    """Outputs that ``node_row_ptr`` counts, including hidden statistics, masks and workspaces."""
    if node.op is None:
        return 1
    hidden = node.op.traits.total_outputs
    total = hidden(**node.attrs) if callable(hidden) else hidden
    return max(len(node.output_names), total)


# JSON


def _node_text(node: Node, entries: list[Entry]) -> str:
    parts = [
        f'"op": {_string("null" if node.op is None else node.op.name)}',
        f'"name": {_string(node.name)}',
    ]
    if node.text:
        parts.append(f'"attrs": {_attrs_text(node.text)}')
    parts.append(f'"inputs": {_list_text([_entry_text(e) for e in entries], 6)}')
    if node.op is not None and node.op.subgraphs:
        texts = (indent(_graph_text(graph), " " * 8) for graph in node.op.subgraphs)
        parts.append('"subgraphs": [\n' + ", \n".join(texts) + "\n      ]")
    return "{\n      " + ", \n      ".join(parts) + "\n    }"


def _attrs_text(text: Mapping[str, str]) -> str:
    pairs = [f"{_string(key)}: {_string(value)}" for key, value in _sorted_pairs(text)]
    if len(pairs) == 1:
        return "{" + pairs[0] + "}"
    return "{\n        " + ", \n        ".join(pairs) + "\n      }"


def _sorted_pairs(text: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Items sorted by the bytes of the key, as in MXNet's map."""
    return iter(sorted(text.items(), key=lambda pair: pair[0].encode("utf-8", "surrogatepass")))


def _entry_text(entry: Entry) -> str:
    return f"[{entry[0]}, {entry[1]}, {entry[2]}]"


def _list_text(items: list[str], indent: int) -> str:
    """JSON list, on one line up to ten items; ``indent`` is that of the line it starts on."""
    if len(items) <= _LONG:
        return "[" + ", ".join(items) + "]"
    inner = "\n" + " " * (indent + 2)
    return "[" + inner + f", {inner}".join(items) + "\n" + " " * indent + "]"


_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _string(text: str) -> str:
    """String with MXNet's quoting: five escapes, all other characters unchanged."""
    return f'"{text.translate(_ESCAPES)}"'

"""``hybridjit inspect``: requirements and contents of a model, without compiling.

Input: the files of a model, and optional shapes of its inputs for inference of types. Output:
inputs, outputs, operators, parameters, and obstacles: unknown operators with their nodes, missing
parameters, shapes that contradict the graph. Exit code 1 if there is an obstacle.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from .._core.text_table import indented, table
from .._core.types import TensorType, merge, type_of
from ..errors import MXNetError, UnknownOpError
from ..formats.mxnet import params as params_file
from ..formats.mxnet import symbol_json
from ..formats.mxnet.named_params import bare_name
from ..formats.mxnet.symbol_upgrade import Changes
from ..gluon.interface import inferred
from ..ir.node import Output, topological
from ..ir.roles import Reading, Roles, is_learned, roles_of
from ..ir.signature import in_call_order
from ..onnx.files import read_file
from ..onnx.functions import inlined
from ..onnx.graph import unknown_operators
from ..onnx.load import read_graph
from ..onnx.operators import KNOWN
from ..onnx.use import Use
from ..ops.registry import find, lookup
from ..passes.infer import NodeTypes, infer_node_types
from ..sym.outputs import auxiliary_nodes
from .arguments import UsageError, add_json, add_model, add_shapes, is_onnx, print_json
from .inputs import completed, given_early, listed, names_given
from .macs import multiply_adds
from .ops import kernel

_SHOWN = 3  # number of nodes to name in a long list


@dataclass(frozen=True)
class Line:
    """A node of the file, with a known or unknown operator; ``op`` "null" is a variable."""

    op: str
    name: str
    attrs: Mapping[str, str]
    inputs: tuple[int, ...]
    slots: Sequence[str] = ()
    problem: str = ""


@dataclass(frozen=True)
class Listing:
    """All nodes in order, the names of the outputs, and the variables that are states.

    graph       the outputs; None if an operator is unknown
    changes     upgrades of a file of an older version
    stated      types of inputs from the file
    """

    lines: list[Line]
    outputs: list[str]
    states: frozenset[str] = frozenset()
    graph: tuple[Output, ...] | None = None
    changes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    stated: Mapping[str, TensorType] = field(default_factory=dict)

    @property
    def variables(self) -> list[str]:
        return list(dict.fromkeys(line.name for line in self.lines if line.op == "null"))

    def in_call_order(self, inputs: Sequence[str]) -> list[str]:
        """All inputs of a call in order; an ONNX file may state inputs that no node reads."""
        if self.graph is None:
            return [*inputs]
        return [*self.stated] or in_call_order(self.graph, inputs)

    @property
    def readings(self) -> list[Reading]:
        return [
            Reading(self.lines[i].name, slot, _is_head(line.op))
            for line in self.lines
            for i, slot in zip(line.inputs, line.slots)
        ]


@dataclass(frozen=True)
class Inferred:
    """Types of inputs and outputs by name, and of all nodes if the inputs have shapes.

    error       the first contradiction, because of which only types that were given are known
    """

    interface: Mapping[str, TensorType]
    nodes: NodeTypes | None
    error: MXNetError | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_shapes(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    early = given_early(args)
    listing, arrays = read_files(args, early.shapes)
    held = {bare_name(name) for name in arrays}
    names = [name for name in listing.variables if name not in held]
    learned = {line.name for line in listing.lines if is_learned(line.attrs)}
    roles = roles_of(names, learned, listing.readings)
    inputs = listing.in_call_order(roles.inputs)
    args.given = completed(early, inputs, args)
    if strangers := names_given(args) - {*listing.variables, *inputs}:
        wrong = listed(sorted(strangers))
        raise UsageError(f"the graph has no input {wrong}; it has {listed(inputs)}")
    types = _inferred(args, listing, roles, arrays)
    if args.json:
        print_json(_document(listing, roles, arrays, types))
    else:
        _print(args, listing, roles, arrays, types)
    if types.error is not None:
        raise types.error  # after the listing, which shows what contradicts
    return 1 if _problems(listing) or (args.params and roles.missing) else 0


def _document(
    listing: Listing, roles: Roles, arrays: Mapping[str, np.ndarray], types: Inferred
) -> dict[str, object]:
    """The listing as a JSON document."""
    found = Counter(line.op for line in listing.lines if line.op != "null")
    known = {op: found_op for op in found if (found_op := find(op))}
    return {
        "nodes": len(listing.lines),
        "inputs": [*listing.in_call_order(roles.inputs)],
        "types": {name: str(found) for name, found in types.interface.items()},
        "labels": [*roles.labels],
        "outputs": [*listing.outputs],
        "operators": [
            {"name": op, "nodes": count, "kernel": kernel(known[op]) if op in known else None}
            for op, count in found.most_common()
        ],
        "parameters": [
            {
                "name": bare_name(name),
                "kind": _kind(name, listing),
                "shape": [*array.shape],
                "dtype": array.dtype.name,
            }
            for name, array in arrays.items()
        ],
        "missing_parameters": [*roles.missing],
        "not_supported": _problems(listing),
    }


def _print(
    args: argparse.Namespace,
    listing: Listing,
    roles: Roles,
    arrays: Mapping[str, np.ndarray],
    types: Inferred,
) -> None:
    sections = [
        _summary(args, listing),
        _typed("inputs", listing.in_call_order(roles.inputs), types.interface),
        _section("labels (not needed for inference)", list(roles.labels)),
        _typed("outputs", listing.outputs, types.interface),
        _operators(listing),
        _upgrades(listing),
    ]
    if args.params is None and not is_onnx(args.symbol):
        sections.append(_hinted(roles, listing, types.nodes))
    else:
        sections.append(_parameters(arrays, listing))
        sections.append(_section("missing parameters", list(roles.missing)))
        held = {bare_name(name) for name in arrays}
        extra = sorted(held - set(listing.variables))
        sections.append(_section("parameters that the graph does not read", extra))
    if types.nodes is not None:
        sections.append(_costs(types.nodes))
    sections.append(_section("operators that are not supported", _problems(listing)))
    print("\n".join(section for section in sections if section))


def _is_head(name: str) -> bool:
    op = find(name)
    return op is not None and op.traits.loss_head


def read_files(
    args: argparse.Namespace, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[Listing, dict[str, np.ndarray]]:
    """The nodes and the arrays of a model for these shapes. Raises MXNetError for other files."""
    if is_onnx(args.symbol):
        return _of_onnx(args.symbol, shapes)
    arrays = {} if args.params is None else read_arrays(args.params)
    return read_listing(args.symbol), arrays


def _of_onnx(
    path: str, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[Listing, dict[str, np.ndarray]]:
    """The nodes of an imported ONNX file; the file's own nodes if an operator is unknown."""
    try:
        imported = read_graph(path, shapes)
    except UnknownOpError:
        return _of_onnx_nodes(path), {}
    listing = _of_nodes(imported.heads, Changes())
    outputs = [*imported.outputs]
    return replace(listing, outputs=outputs, stated=imported.inputs), imported.params


def _of_onnx_nodes(path: str) -> Listing:
    graph = inlined(read_file(path)).graph
    assert graph is not None
    missing = unknown_operators(graph, KNOWN)
    held = {tensor.name for tensor in graph.initializer}
    lines = [Line("null", info.name, {}, ()) for info in graph.input if info.name not in held]
    for number, node in enumerate(graph.node):
        use = Use(node, number, 0, None)
        why = f"ONNX's {node.op_type} is not supported" if str(use) in missing else ""
        lines.append(Line(f"ONNX {node.op_type}", use.name, {}, (), (), why))
    return Listing(lines, [info.name for info in graph.output])


def read_listing(path: str) -> Listing:
    """The nodes of a file. Raises MXNetError for a file that is not a graph."""
    changes = Changes()
    try:
        return _of_nodes(symbol_json.load(path, changes), changes)
    except UnknownOpError:
        return _of_outline(path)


def _of_nodes(outputs: Sequence[Output], changes: Changes) -> Listing:
    order = topological(outputs)
    number = {node: i for i, node in enumerate(order)}
    lines = [
        Line(
            "null" if node.op is None else node.op.name,
            node.name,
            node.text,
            tuple(number[edge.node] for edge in node.inputs),
            node.input_names,
        )
        for node in order
    ]
    states = frozenset(node.name for node in auxiliary_nodes(outputs))
    names = [output.name for output in outputs]
    return Listing(lines, names, states, tuple(outputs), changes)


def _of_outline(path: str) -> Listing:
    """The same from the JSON alone; slots are known only for known operators."""
    raw, heads = symbol_json.load_outline(path)
    lines = []
    for r in raw:
        slots = () if r.problem or r.op == "null" else _slots(r.op, r.attrs)
        lines.append(Line(r.op, r.name, r.attrs, tuple(i for i, _ in r.inputs), slots, r.problem))
    outputs = [lines[i].name + ("" if lines[i].op == "null" else "_output") for i, _ in heads]
    return Listing(lines, outputs)


def _slots(op: str, attrs: Mapping[str, str]) -> Sequence[str]:
    known = lookup(op)
    try:
        return known.input_names(known.parse(attrs))
    except MXNetError:
        return ()


def read_arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of a parameter file under their full names, or by number without names."""
    arrays = params_file.load(path)
    return arrays if isinstance(arrays, dict) else {str(i): a for i, a in enumerate(arrays)}


# Text


def _section(title: str, items: Sequence[str]) -> str:
    return "\n".join([f"{title}: {len(items)}", *(f"  {item}" for item in items)]) if items else ""


def _typed(title: str, names: Sequence[str], types: Mapping[str, TensorType]) -> str:
    """A section of names with their types, as far as they are known; ``?`` is an open size."""
    rows = [(name, str(types[name])) if name in types else (name,) for name in names]
    return f"{title}: {len(names)}\n{indented(table(rows))}" if names else ""


def _summary(args: argparse.Namespace, listing: Listing) -> str:
    variables = sum(line.op == "null" for line in listing.lines)
    nodes = len(listing.lines)
    return f"{Path(args.symbol).name}: {nodes} nodes, {variables} of them variables"


def _operators(listing: Listing) -> str:
    found = Counter(line.op for line in listing.lines if line.op != "null")
    problems = {line.op for line in listing.lines if line.problem}
    rows = []
    for op, count in sorted(found.items(), key=lambda item: (-item[1], item[0])):
        found_op = find(op)
        how = "NOT SUPPORTED" if op in problems else kernel(found_op) if found_op else ""
        where = [line.name for line in listing.lines if line.op == op]
        rows.append((op, str(count), how, _brief(where)))
    return f"operators: {len(rows)}\n" + indented(table(rows, right={1})) if rows else ""


def _brief(names: Sequence[str]) -> str:
    """The first names, and the number of others."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _upgrades(listing: Listing) -> str:
    return _section(
        "upgrades of an older file",
        [f"{what}: {_brief(names)}" for what, names in listing.changes.items()],
    )


def _inferred(
    args: argparse.Namespace, listing: Listing, roles: Roles, arrays: Mapping[str, np.ndarray]
) -> Inferred:
    """The types that shapes, parameters and the graph determine, as far as they agree."""
    try:
        interface = _interface(args, listing, roles, arrays)
        return Inferred(interface, _types(args, listing, arrays))
    except MXNetError as error:
        known = _known(args, listing, arrays)
        names = [name for name in listing.in_call_order(roles.inputs) if name in known]
        return Inferred({name: known[name] for name in names}, None, error)


def _interface(
    args: argparse.Namespace, listing: Listing, roles: Roles, arrays: Mapping[str, np.ndarray]
) -> dict[str, TensorType]:
    """The types of inputs and outputs by name that shapes, parameters and the graph determine."""
    if listing.graph is None:
        return {}
    names = listing.in_call_order(roles.inputs)
    known = _known(args, listing, arrays)
    heads = listing.graph
    ins, outs = inferred(heads, names, known, {})
    found = {**ins, **dict(zip(listing.outputs, outs))}
    return {name: each for name, each in found.items() if each.shape is not None}


def _known(
    args: argparse.Namespace, listing: Listing, arrays: Mapping[str, np.ndarray]
) -> dict[str, TensorType]:
    """The types of variables from the file, its parameters and the command line."""
    shapes, dtypes = args.given.shapes, args.given.dtypes
    known: dict[str, TensorType] = dict(listing.stated)
    known |= {bare_name(name): type_of(array) for name, array in arrays.items()}
    given = {name: TensorType(shape, dtypes.get(name)) for name, shape in shapes.items()}
    return known | {n: merge(listing.stated.get(n, t), t) for n, t in given.items()}


def _types(
    args: argparse.Namespace, listing: Listing, arrays: Mapping[str, np.ndarray]
) -> NodeTypes | None:
    """The types of all nodes for ``--shape``; None without it, or if an operator is unknown."""
    is_stated = listing.stated and all(t.is_known for t in listing.stated.values())
    if listing.graph is None or not (args.given.shapes or is_stated):
        return None
    return infer_node_types(listing.graph, _known(args, listing, arrays))


def _costs(types: NodeTypes) -> str:
    """Multiply-adds by operator, for these input shapes."""
    costs: Counter[str] = Counter()
    unknown = []
    for node in types:
        found = multiply_adds(node, types)
        if found is None:
            unknown.append(node.name)
        elif found and node.op is not None:
            costs[node.op.name] += found
    rows = [(op, f"{count / 1e6:.3f} M") for op, count in costs.most_common()]
    text = f"multiply-adds: {costs.total()} ({costs.total() / 1e9:.3f} G)"
    if unknown:
        text += f", except those of {_brief(unknown)}, whose shapes are unknown"
    return text + ("\n" + indented(table(rows, right={1})) if rows else "")


def _problems(listing: Listing) -> list[str]:
    """One string for each unknown operator: the reason, and all its nodes."""
    places: dict[str, list[str]] = {}
    for number, line in enumerate(listing.lines):
        if line.problem:
            places.setdefault(line.problem, []).append(f"node {number} '{line.name}'")
    return [f"{why}: {', '.join(where)}" for why, where in places.items()]


def _parameters(arrays: Mapping[str, np.ndarray], listing: Listing) -> str:
    if not arrays:
        return "parameters: none"
    rows = [(_kind(name, listing), bare_name(name), str(type_of(a))) for name, a in arrays.items()]
    total = sum(array.nbytes for array in arrays.values())
    count = sum(array.size for array in arrays.values())
    head = f"parameters: {len(rows)}, {count} elements, {total / 1e6:.2f} MB"
    return f"{head}\n{indented(table(rows))}"


def _kind(name: str, listing: Listing) -> str:
    kind = name.partition(":")[0]
    if kind in ("arg", "aux") and ":" in name:
        return kind
    return "aux" if name in listing.states else "arg"


def _hinted(roles: Roles, listing: Listing, types: NodeTypes | None) -> str:
    """Parameters known from the graph without a parameter file, or the shapes of the inputs."""
    hints = {line.name: line.attrs.get("__shape__", "") for line in listing.lines}
    found = {n.name: t[0] for n, t in (types or {}).items() if n.is_variable and t[0].is_known}
    rows = [
        ("aux" if name in listing.states else "arg", name, str(found.get(name, hints[name])))
        for name in roles.missing
    ]
    if not rows:
        return "parameters: none can be told from inputs by the graph"
    head = f"parameters that the graph reads: {len(rows)}"
    if all(name in found for name in roles.missing):
        head += f", {sum(found[name].size for name in roles.missing)} elements"
    return f"{head}\n{indented(table(rows))}"

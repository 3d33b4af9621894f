"""Text forms of symbols, graphs, groups, passes and plans, for dumps, golden files and messages.

Values are numbered in the order of the listing, so equal graphs print equally.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .._core.types import shape_text
from ..ops.attrs import Attrs
from .graph import Graph, Use, Value
from .node import Node, Output, topological
from .plan import Plan, View


def node_text(outputs: Iterable[Output], name: str = "symbol") -> str:
    """The untyped graph upstream of ``outputs``, as it was traced or read from a file."""
    outputs = tuple(outputs)
    order = topological(outputs)
    number = {node: f"%{i}" for i, node in enumerate(order)}

    def refer(output: Output) -> str:
        several = len(output.node.output_names) > 1
        return number[output.node] + (f".{output.index}" if several else "")

    rows = [(number[n], n.name, _node_call(n, [refer(i) for i in n.inputs])) for n in order]
    lines = [f"symbol {name}", *_columns(rows, [n.source for n in order])]
    return "\n".join([*lines, f"  return {', '.join(refer(o) for o in outputs)}"])


def _node_call(node: Node, arguments: list[str]) -> str:
    if node.op is None:
        return "variable"
    text = {k: v for k, v in node.text.items() if not k.startswith("__")}
    return f"{node.op.name}({', '.join(arguments)}){_attr_text(text)}"


def graph_text(graph: Graph, marks: Mapping[Value, str] | None = None) -> str:
    """A typed graph, one value per line; the last column has its group, if groups exist, or the
    number of rows of one sample.
    """
    names = ValueNames(graph)
    group_of = {v: i for i, group in enumerate(graph.groups) for v in group.members}
    rows, notes = [], []
    for value in graph.values:
        if value in graph.inputs:
            continue
        rows_of_sample = graph.rows_of_sample(value)
        number = str(rows_of_sample) if rows_of_sample.count > 1 else ""
        number = f"group {group_of[value]}" if value in group_of else number
        types = " ".join(str(t) for t in value.types)
        rows.append((names.of_value(value), value.name, names.call(value), types, number))
        notes.append((marks or {}).get(value, ""))
    header = ", ".join(f"{v.name}: {v.type}" for v in graph.inputs)
    mode = " in training" if graph.purpose.training else ""
    lines = [f"graph {graph.name} ({header}){mode}", *_columns(rows, notes)]
    return "\n".join([*lines, f"  return {', '.join(_returned(graph, names))}"])


def _returned(graph: Graph, names: ValueNames) -> Iterator[str]:
    """``%3, w = %4, save %5``: returned outputs, updates of inputs, saved outputs."""
    updated = dict(graph.purpose.updates)
    visible = len(graph.outputs) - graph.purpose.saved
    for number, use in enumerate(graph.outputs):
        target = f"{updated[number]} = " if number in updated else ""
        yield f"{'' if number < visible else 'save '}{target}{names.of_use(use)}"


def group_text(graph: Graph) -> str:
    """The groups of a graph, one per line: kind, operands, results, fused operators."""
    names = ValueNames(graph)
    rows = []
    for i, group in enumerate(graph.groups):
        fused = ", ".join(v.op.name for v in group.epilogue if v.op)
        rows.append(
            (
                f"group {i}",
                group.kind,
                group.name,
                "reads " + ", ".join(names.of_use(u) for u in group.inputs),
                "writes " + ", ".join(names.of_value(v) for v in group.outputs),
                f"epilogue {fused}" if fused else "",
            )
        )
    return "\n".join([f"groups of {graph.name}", *_columns(rows)])


def pass_text(graph: Graph, fired: list[str]) -> str:
    """A graph after a pass, with its groups, its bind graph, and the rules that fired."""
    parts = [graph_text(graph)]
    if graph.groups:
        parts.append(group_text(graph))
    elif graph.bind is not None:
        parts.append(graph_text(graph.bind))
    return "\n".join([*parts, *(f"  # {note}" for note in fired)])


def plan_text(plan: Plan) -> str:
    """The plan, one step per line, then the arena with the offset and lifetime of each buffer."""
    steps = plan.steps
    lines = [
        f"plan {plan.graph.name}   {len(steps)} steps, arena {plan.arena_bytes} B, "
        f"largest set of live bytes {plan.live_bytes} B"
    ]
    for step in steps:
        reads = ", ".join(_view_text(plan, v) for v in step.reads)
        writes = ", ".join(_view_text(plan, v) for v in step.writes)
        fused = ", ".join(v.op.name for v in step.group.epilogue if v.op)
        tail = (f"   epilogue {fused}" if fused else "") + (f"   {step.note}" if step.note else "")
        lines.append(f"  step {step.number:<3} {step.kind:<10} {step.name}{tail}")
        lines.append(f"      reads  {reads}")
        lines.append(f"      writes {writes}")
    lines += [f"  {line}" for line in purpose_lines(plan)]
    arena = [b for b in plan.buffers if b.kind == "arena"]
    for b in arena:
        life = " " * b.first + "#" * (b.last - b.first + 1)
        # As text: a symbolic size that is formatted as a number becomes a guard.
        lines.append(f"  arena {b.offset!s:>9} +{b.nbytes!s:<9} |{life:<{len(steps)}}|")
    return "\n".join(lines)


def purpose_lines(plan: Plan) -> Iterator[str]:
    """The outputs that update inputs, with the writing steps, and the saved outputs."""
    for output, number in plan.graph.updated.items():
        name, buffer = plan.graph.inputs[number].name, plan.outputs[output].buffer
        steps = [s for s in plan.steps if any(view.buffer == buffer for view in s.writes)]
        how = ", ".join(
            f"{'copied' if s.kind == 'copy' else 'written'} by step {s.number}" for s in steps
        )
        yield f"output {output} updates input {number} {name}, {how or 'which holds it'}"
    for number in range(len(plan.outputs) - plan.graph.purpose.saved, len(plan.outputs)):
        use = plan.graph.outputs[number]
        yield f"output {number} is saved, {use.type.nbytes} B: {use.value.name}"


def _view_text(plan: Plan, view: View) -> str:
    buffer = plan.buffers[view.buffer]
    strides = "" if view.is_contiguous else f" strides ({','.join(map(str, view.strides))})"
    offset = f" at {view.offset}" if view.offset else ""
    return f"{buffer}{offset} [{','.join(map(str, view.shape))}]{strides}"


class ValueNames:
    """Short names for one graph's values: inputs by name, all others by number."""

    def __init__(self, graph: Graph) -> None:
        numbered = [v for v in graph.values if v not in graph.inputs]
        self._names = {v: v.name for v in graph.inputs}
        self._names.update({v: f"%{i}" for i, v in enumerate(numbered)})

    def of_value(self, value: Value) -> str:
        return self._names.get(value, value.name)

    def of_use(self, use: Use) -> str:
        several = len(use.value.types) > 1
        return self.of_value(use.value) + (f".{use.index}" if several else "")

    def call(self, value: Value) -> str:
        """``Convolution(data, %0) kernel=(3,3)``: operator, operands, non-default attributes."""
        if value.op is None:
            return "param"
        inputs = ", ".join(self.of_use(u) for u in value.inputs)
        return f"{value.op.name}({inputs}){_attr_text(attributes_off_default(value))}"


def attributes_off_default(value: Value) -> Attrs:
    """The attributes of a value that are worth printing."""
    defaults = {a.name: a.default for a in value.op.attrs} if value.op else {}
    return {k: v for k, v in value.attrs.items() if v != defaults.get(k) and k != "num_args"}


def _attr_text(attrs: Attrs) -> str:
    def one(value: object) -> str:
        return shape_text(value) if isinstance(value, tuple) else str(value)

    return "".join(f" {k}={one(v)}" for k, v in sorted(attrs.items()))


def _columns(rows: Sequence[tuple[str, ...]], notes: list[str] | None = None) -> list[str]:
    if not rows:
        return []
    widths = [min(max(len(row[i]) for row in rows), 70) for i in range(len(rows[0]))]
    lines = ["  " + "  ".join(f"{c:<{w}}" for c, w in zip(row, widths)).rstrip() for row in rows]
    if notes:
        lines = [f"{line}    {note}" if note else line for line, note in zip(lines, notes)]
    return lines

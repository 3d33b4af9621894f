"""Unroll ``_foreach`` loops with few steps, if types determine the number of steps.

Input: a graph and the known types of its variables. Output: the graph without those loops; each
node of a step is named after the loop and the step. Loops whose number of steps depends on values,
and branches, remain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .._core.symbolic import as_number
from .._core.types import TensorType
from ..ir.node import Node, Output, apply, topological
from ..ops.attrs import attr_text
from ..ops.subgraphs import MOST_NESTED
from ..ops.tensor.joining import STACK
from ..ops.tensor.slicing import SLICE_CHANNEL
from ..passes.infer import NodeTypes, infer_node_types
from .body import Body

MOST_NODES = 4000  # of all unrolled loops together


def unrolled(outputs: tuple[Output, ...], known: Mapping[str, TensorType]) -> tuple[Output, ...]:
    """The graph with its short loops unrolled; the same graph if it has none."""
    left = MOST_NODES
    for _ in range(MOST_NESTED):
        loops = [n for n in topological(outputs) if n.op and n.op.name == "_foreach"]
        if not loops:
            break
        types = infer_node_types(outputs, known)
        chosen: dict[Node, int] = {}
        for node in loops:
            steps = _steps(node, types)
            nodes = len(_body(node).nodes)
            if steps and steps * nodes <= left:
                chosen[node] = number = as_number(steps, f"{node.describe()} is unrolled")
                left -= number * nodes
        if not chosen:
            break
        outputs = _without(outputs, chosen)
    return outputs


def _body(node: Node) -> Body:
    assert node.op is not None
    return Body(node.op.subgraphs[0])


def _steps(node: Node, types: NodeTypes) -> int | None:
    """The number of rows of the first operand."""
    first = node.inputs[0]
    shape = types[first.node][first.index].shape
    return shape[0] if shape else None


def _without(outputs: Sequence[Output], chosen: Mapping[Node, int]) -> tuple[Output, ...]:
    instead: dict[Output, Output] = {}
    for node in topological(outputs):
        inputs = tuple(instead.get(i, i) for i in node.inputs)
        if node in chosen:
            made = _written_out(node, inputs, chosen[node])
            instead.update((Output(node, k), new) for k, new in enumerate(made))
        elif inputs != node.inputs:
            new = replace(node, inputs=inputs)
            instead.update((Output(node, k), Output(new, k)) for k in range(len(node.output_names)))
    return tuple(instead.get(o, o) for o in outputs)


def _written_out(loop: Node, operands: Sequence[Output], steps: int) -> list[Output]:
    """The nodes that replace the results of a loop."""
    body, places = _body(loop), _places(loop)
    data, states = (len(places[i]) for i in range(2))
    slices = [_rows(loop, x, steps, i) for i, x in enumerate(operands[:data])]
    carried, rest = list(operands[data : data + states]), operands[data + states :]
    order = [place for part in places for place in part]
    made: list[list[Output]] = []
    for step in range(steps):
        given = [*(rows[step] for rows in slices), *carried, *rest]
        by_place = dict(zip(order, given))
        variables = dict(zip(body.variables, (by_place[i] for i in range(len(order)))))
        results = _step(loop, body, variables, step)
        carried = results[len(results) - states :] if states else []
        made.append(results[: len(results) - states])
    return [*(_stacked(loop, rows, i) for i, rows in enumerate(zip(*made))), *carried]


def _places(loop: Node) -> list[list[int]]:
    keys = ("in_data_locs", "in_state_locs", "remain_locs")
    return [[int(n) for n in loop.text[key].strip("[]() ").split(",") if n.strip()] for key in keys]


def _rows(loop: Node, x: Output, steps: int, number: int) -> list[Output]:
    text = {"num_outputs": str(steps), "axis": "0", "squeeze_axis": "True"}
    node = apply(SLICE_CHANNEL, f"{loop.name}_rows{number}", (x,), text, loop.source)
    return [Output(node, i) for i in range(steps)]


def _stacked(loop: Node, rows: Sequence[Output], number: int) -> Output:
    text = {"num_args": attr_text(len(rows)), "axis": "0"}
    return Output(apply(STACK, f"{loop.name}_stack{number}", rows, text, loop.source))


def _step(loop: Node, body: Body, variables: Mapping[Node, Output], step: int) -> list[Output]:
    made = {Output(node): given for node, given in variables.items()}
    for node in body.nodes:
        inputs = tuple(made[i] for i in node.inputs)
        new = replace(node, name=f"{loop.name}_step{step}_{node.name}", inputs=inputs)
        made.update((Output(node, k), Output(new, k)) for k in range(len(node.output_names)))
    return [made[output] for output in body.outputs]

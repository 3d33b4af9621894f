"""Node-by-node execution of graphs by NumPy functions: executors, and networks not compiled.

Input: a graph, the types of its nodes and an array for every variable. Output: the graph's outputs.
Operators behave as in a compiled graph (strict shapes), and training variants apply under
``autograd.record``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ..context import Context
from ..ir.interpret import run_in_order
from ..ir.node import Node, Output, topological
from ..ops.attrs import Attrs
from ..ops.record import OpDef
from ..ops.tensor.new_arrays import resolved
from ..passes.infer import NodeTypes
from .ndarray import NDArray, invoke
from .tape import Some, Step


class Monitor(NamedTuple):
    """Callback for the tensors of an execution: ``callback(tensor name, operator, array)``.

    operands   report operands too, before the results
    variables  report variables too, before each operator that reads them
    """

    callback: Callable[..., object]
    operands: bool
    variables: bool = False


def interpret_nodes(
    outputs: Sequence[Output],
    named: Mapping[str, NDArray],
    types: NodeTypes,
    ctx: Context,
    monitor: Monitor | None = None,
) -> list[NDArray]:
    """Outputs of the graph. An output that is a variable is the caller's own array."""

    def run(node: Node, inputs: list[NDArray]) -> list[NDArray]:
        if node.op is None:
            return [named[node.name]]
        found = invoke(_on_stored(node.op, inputs), inputs, _settled_attrs(node, types), ctx=ctx)
        results = found if isinstance(found, list) else [found]
        if monitor is not None:
            _report(monitor, node, inputs, results)
            if monitor.variables:
                _report_gradients(monitor, node, inputs, results)
        return results

    results = run_in_order(topological(outputs), {}, run)
    return [results[output] for output in outputs]


def _on_stored(op: OpDef, inputs: Sequence[NDArray]) -> OpDef:
    """Operator that receives sparse arrays themselves where its class has a rule for them."""
    is_dense = op.traits.on_live is None or all(x.stype == "default" for x in inputs)
    return op if is_dense else on_own(op, inputs)


def on_own(op: OpDef, inputs: Sequence[NDArray]) -> OpDef:
    """Operator written in Python that receives the caller's own arrays."""
    assert op.traits.on_live is not None
    return op.traits.on_live({i: partial(_itself, x) for i, x in enumerate(inputs)})


def _itself(array: NDArray) -> NDArray:
    return array


def _settled_attrs(node: Node, types: NodeTypes) -> Attrs:
    """Attributes of a node; unknown sizes of a source are replaced by the inferred ones."""
    found = types[node][0]
    if node.op is None or node.inputs or not found.is_known:
        return node.text
    return {**node.text, **resolved(node.op, node.attrs, found)}


class _Text(str):
    """Name with ``decode``, for hooks written for MXNet, which passed bytes."""

    def decode(self, *args: object) -> str:
        return str(self)


def _report(
    monitor: Monitor,
    node: Node,
    inputs: Sequence[NDArray],
    outputs: Sequence[NDArray],
) -> None:
    """Report a node's operands and results to a monitor."""
    assert node.op is not None
    operands = _operands(node, inputs, monitor.variables) if monitor.operands else ()
    results = ((f"{node.name}_{name}", out) for name, out in zip(node.output_names, outputs))
    for name, array in (*operands, *results):
        monitor.callback(_Text(name), _Text(node.op.name), array)


def _report_gradients(
    monitor: Monitor,
    node: Node,
    inputs: Sequence[NDArray],
    outputs: Sequence[NDArray],
) -> None:
    """Report gradients with respect to the operands of a recorded node, once computed.

    Gradients that are not requested are reported as zeros. A node that receives no gradient is not
    reported.
    """
    entry = outputs[0]._entry
    if entry is None or not isinstance(entry.owner, Step) or entry.owner.pull is None:
        return
    assert node.op is not None
    pull, states = entry.owner.pull, node.op.aux_positions(node.attrs)
    operands = [(i, x) for i, x in enumerate(inputs) if i not in states]
    op_name = _Text(node.op.name)

    def watched(step: Step, douts: Some, wanted: Sequence[bool]) -> Some:
        found = pull(step, douts, wanted)
        for place, (i, x) in enumerate(operands if any(d is not None for d in found) else ()):
            d = found[i]
            number = place if len(operands) > 1 else ""
            told = NDArray(np.zeros_like(x._data), x._ctx) if d is None else d
            monitor.callback(_Text(f"{node.name}_backward_output{number}"), op_name, told)
        return found

    entry.owner.pull = watched


def _operands(
    node: Node, inputs: Sequence[NDArray], variables: bool
) -> Iterator[tuple[str, NDArray]]:
    """Operands of a node by name, each variable also by its own name first."""
    names = node.input_names
    if names == ("data",) and node.op is not None and not node.op.traits.names_data:
        names = ("input0",)  # MXNet's name
    for name, edge, array in zip(names, node.inputs, inputs):
        if variables and edge.node.is_variable:
            yield edge.node.name, array
        yield f"{node.name}_{name}", array

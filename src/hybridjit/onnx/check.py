"""Verification of a written ONNX file: it is read back and computed.

Input: the file's bytes, the graph, an array for each input. Each node's result is computed from the
graph's own operand values, so that the first difference identifies the node that was written
wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .._core.types import type_of
from ..errors import MXNetError
from ..formats.onnx import messages
from ..formats.onnx.tensors import read_array
from ..ir.interpret import run_in_order
from ..ir.node import Node, Output, topological
from ..ops.registry import run_ref
from ..passes.infer import infer_node_types
from ..runtime.checking import difference
from .exporter import attributes
from .graph import opset_of
from .importer import EVERYTHING, Importer, Value, as_supported
from .operators import KNOWN

TOLERANCE = 1e-4
"""Tolerance relative to the largest value of a node's result; float16 has a separate one."""
_COARSE = {"float16": 4e-3}

Arrays = Mapping[str, np.ndarray]


def computed(heads: Sequence[Output], arrays: Arrays) -> dict[Output, np.ndarray]:
    """Every output of every node, computed by the operators' NumPy functions."""
    order = topological(heads)
    given = {(n, 0): arrays[n.name] for n in order if n.is_variable}
    types = infer_node_types(heads, {name: type_of(a) for name, a in arrays.items()})

    def run(node: Node, operands: list[np.ndarray]) -> list[np.ndarray]:
        assert node.op is not None
        return run_ref(node.op, operands, attributes(node, types[node]))

    return {Output(node, i): a for (node, i), a in run_in_order(order, given, run).items()}


def require_same(
    data: bytes, heads: Sequence[Output], names: Mapping[Output, str], arrays: Arrays
) -> None:
    """Raise MXNetError for the first node whose result in the file differs.

    names   names in the file of outputs of the graph's nodes
    arrays  values of the graph's inputs and parameters
    """
    right = computed(heads, arrays)
    comparison = _Comparison(names, right, _drawn(heads))
    model = messages.read_model(data)
    graph = model.graph
    assert graph is not None
    importer = Importer(opset_of(model), None, limit=EVERYTHING)
    values = {
        t.name: importer.constant(as_supported(read_array(t), t.name)) for t in graph.initializer
    }
    values |= {i.name: importer.constant(arrays[i.name]) for i in graph.input}
    with np.errstate(all="ignore"):  # inf and nan are valid values
        importer.run(graph.node, values, KNOWN, comparison.seen)


def _drawn(heads: Sequence[Output]) -> set[Node]:
    """Nodes that draw random numbers, which the file draws again."""
    return {n for n in topological(heads) if n.op is not None and n.op.is_random}


class _Comparison:
    """Compares the values of a file's nodes with those of the graph."""

    def __init__(
        self, names: Mapping[Output, str], right: Mapping[Output, np.ndarray], drawn: set[Node]
    ) -> None:
        self._right = right
        self._drawn = drawn
        self._outputs: dict[str, list[Output]] = {}
        for output, name in names.items():
            self._outputs.setdefault(name, []).append(output)

    def seen(self, name: str, value: Value) -> Value:
        """Value for the following nodes: the graph's own if it has one."""
        for output in self._outputs.get(name, ()):
            right = self._right[output]
            self._compare(output, value, right)
            value = Value(type_of(right), right)
        return value

    def _compare(self, output: Output, value: Value, right: np.ndarray) -> None:
        what = output.node.describe()
        if value.type != type_of(right):
            raise MXNetError(
                f"{what} is written wrongly: its type in the file is {value.type}, in the graph "
                f"{type_of(right)}"
            )
        if output.node in self._drawn or not right.size:
            return
        made = value.later() if value.later is not None else value.array
        assert made is not None
        gap = difference(made, right)
        if not gap <= _COARSE.get(right.dtype.name, TOLERANCE if right.dtype.kind == "f" else 0.0):
            raise MXNetError(
                f"{what} is written wrongly: the file's result differs from the graph's by "
                f"{gap:.2g} "
                "of the largest value"
            )

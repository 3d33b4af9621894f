"""Storage types of a graph's values and gradients, inferred before execution as in MXNet.

Input: a graph, the types of its nodes and the storage types of its variables. Output: storage types
by output and of gradients by variable. Nothing is computed: :mod:`.rules` has the storage type of
each operator's result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..._core.types import TensorType
from ...errors import MXNetError, located
from ...formats.stored import ROW_SPARSE, nothing
from ...ir.node import Node, Output, topological
from ...ops.record import GradientStored
from ...passes.infer import NodeTypes
from ..ndarray import NDArray
from .array import wrapped
from .rules import Call, Found, find, is_ruled

DENSE = "default"


class StorageTypes:
    """Storage types of a graph.

    given  storage types of variables by name, where they are not dense
    """

    def __init__(
        self, outputs: Sequence[Output], types: NodeTypes, given: Mapping[str, str]
    ) -> None:
        self._outputs, self._types = outputs, types
        self._nodes = topological(outputs)
        self._stypes: dict[Output, str] = {}
        self._found: dict[Node, Found | None] = {}
        for node in self._nodes:
            self._settle(node, given)

    @property
    def outputs(self) -> list[str]:
        """Storage types of the outputs."""
        return [self._stypes[output] for output in self._outputs]

    def gradients(self) -> dict[str, str]:
        """Storage types of gradients by variable name, for variables that outputs depend on.

        Head gradients have the storage types of the outputs. A sum of gradients is row_sparse if
        all terms are row_sparse, else dense.
        """
        arrived: dict[Output, list[str]] = {}
        for output in self._outputs:
            arrived.setdefault(output, []).append(self._stypes[output])
        for node in reversed(self._nodes):
            heads = [_sum(arrived.get(Output(node, i), [])) for i in range(len(self._types[node]))]
            for number, source in enumerate(node.inputs):
                arrived.setdefault(source, []).append(self._back(node, number, heads[0]))
        variables = [node for node in self._nodes if node.is_variable]
        return {v.name: _sum(arrived.get(Output(v), [])) for v in variables}

    def _settle(self, node: Node, given: Mapping[str, str]) -> None:
        found = None
        if node.op is not None:
            operands = [self._stand_in(source) for source in node.inputs]
            if is_ruled(node.op, operands):
                found = self._find(node, operands)
        self._found[node] = found
        first = DENSE if found is None else found.stype
        if node.is_variable:
            first = given.get(node.name, DENSE)
        for index in range(len(self._types[node])):
            self._stypes[Output(node, index)] = DENSE if index else first

    def _find(self, node: Node, operands: list[NDArray]) -> Found | None:
        assert node.op is not None
        try:
            return find(Call(node.op, operands, node.attrs))
        except MXNetError as error:
            raise located(error, node.describe(), (), node.source) from None

    def _stand_in(self, source: Output) -> NDArray:
        """Array of the source's type and storage that takes no memory and stores nothing."""
        stype, kind = self._stypes[source], self._types[source.node][source.index]
        dtype = np.dtype(kind.dtype or np.float32)
        if stype == DENSE:
            return NDArray(np.broadcast_to(np.zeros((), dtype), _dims(kind)))
        return wrapped(nothing(stype, _dims(kind), dtype))

    def _back(self, node: Node, number: int, head: str) -> str:
        """Storage type of the gradient with respect to one operand of a node."""
        found = self._found[node]
        if found is not None and found.rows == number:
            return ROW_SPARSE
        assert node.op is not None
        operand = self._stypes[node.inputs[number]]
        rule = node.op.traits.gradient_stored
        if rule is GradientStored.HEAD:
            return head
        if rule is GradientStored.OPERAND:
            return operand
        return operand if rule is GradientStored.BOTH and operand == head else DENSE


def _dims(kind: TensorType) -> tuple[int, ...]:
    return kind.dims if kind.is_known else ()


def _sum(arrived: Sequence[str]) -> str:
    if len(arrived) == 1:
        return arrived[0]
    return ROW_SPARSE if arrived and set(arrived) == {ROW_SPARSE} else DENSE

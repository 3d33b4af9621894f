"""Writing operators on symbols: what expansions make of a graph that has no types yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir.node import Output
from ..ops.record import OpDef
from ..passes.infer import infer_node_types
from ..types import TensorType
from .compose import compose
from .symbol import Symbol


class SymbolBuilder:
    """An :class:`.ops.building.Builder` on symbols of one output.

    ``known`` is what is known of variables' types, by name; what their own hints say counts, too.
    A type is what follows from that: in part, or not at all. An expansion that needs more raises
    ShapeError or DTypeError.
    """

    def __init__(self, name: str, known: Mapping[str, TensorType] | None = None) -> None:
        self.name, self.known = name, known or {}

    def op(self, op: OpDef, /, *inputs: Symbol, at: str = "", **attrs: Any) -> Symbol:
        return self.outputs(op, *inputs, at=at, **attrs)[0]

    def outputs(
        self, op: OpDef, /, *inputs: Symbol, at: str = "", **attrs: Any
    ) -> tuple[Symbol, ...]:
        names = op.input_names(op.with_defaults(attrs))
        given = {name: x.outputs[0] for name, x in zip(names, inputs)}
        name = f"{self.name}:{at}" if at else self.name
        node = compose(op, name, given, attrs, name)
        return tuple(Symbol([Output(node, i)]) for i in range(len(node.output_names)))

    def type(self, x: Symbol) -> TensorType:
        (output,) = x.outputs
        return infer_node_types(x.outputs, self.known)[output.node][output.index]

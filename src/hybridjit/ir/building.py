"""ValueBuilder: how passes and expansions make graph values from operators."""

from __future__ import annotations

from .._core.frozen import replace
from .._core.types import TensorType
from ..ops.building import ON_TYPES, parts_of
from ..ops.record import OpDef
from .graph import Use, Value, make, typed_by_rule, uses_of


class ValueBuilder:
    """A :class:`..ops.building.Builder` on uses of values.

    New values take the name, the source line and the layer of the value that they are made for.
    """

    def __init__(self, name: str, source: str = "", layer: str = "") -> None:
        self.name, self.source, self.layer = name, source, layer

    def op(self, op: OpDef, /, *inputs: Use, at: str = "", **attrs: object) -> Use:
        return self.outputs(op, *inputs, at=at, **attrs)[0]

    def outputs(self, op: OpDef, /, *inputs: Use, at: str = "", **attrs: object) -> tuple[Use, ...]:
        made = make(op, self.named(at), inputs, self.source, **attrs)
        if self.layer:
            made = typed_by_rule(replace(made, layer=_joined(self.layer, at)))
        return uses_of(made)

    def named(self, at: str) -> str:
        return _joined(self.name, at)

    def type(self, x: Use) -> TensorType:
        return x.type


def _joined(name: str, at: str) -> str:
    return f"{name}:{at}" if at else name


def building(value: Value) -> ValueBuilder:
    """A builder of replacements for ``value``."""
    return ValueBuilder(value.name, value.source, value.layer)


def is_canonical(value: Value) -> bool:
    """Whether the operator of the value has no expansion for these operands."""
    assert value.op is not None
    types = [use.type for use in value.inputs]
    return parts_of(value.op, ON_TYPES, types, value.attrs) is None

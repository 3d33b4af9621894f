"""Writing operators on graph values: how passes and expansions make values."""

from __future__ import annotations

from ..ops.building import ON_TYPES, parts_of
from ..ops.record import OpDef
from ..types import TensorType
from .graph import Use, Value, make, uses_of


class ValueBuilder:
    """A :class:`.ops.building.Builder` on uses of values.

    What it makes bears the name and the source line of the value that it is made for.
    """

    def __init__(self, name: str, source: str = "") -> None:
        self.name, self.source = name, source

    def op(self, op: OpDef, /, *inputs: Use, at: str = "", **attrs: object) -> Use:
        return self.outputs(op, *inputs, at=at, **attrs)[0]

    def outputs(self, op: OpDef, /, *inputs: Use, at: str = "", **attrs: object) -> tuple[Use, ...]:
        return uses_of(make(op, self.named(at), inputs, self.source, **attrs))

    def named(self, at: str) -> str:
        return f"{self.name}:{at}" if at else self.name

    def type(self, x: Use) -> TensorType:
        return x.type


def building(value: Value) -> ValueBuilder:
    """A builder of what ``value`` becomes."""
    return ValueBuilder(value.name, value.source)


def is_canonical(value: Value) -> bool:
    """Whether the value stays as it is: its operator expands no further."""
    assert value.op is not None
    types = [use.type for use in value.inputs]
    return parts_of(value.op, ON_TYPES, types, value.attrs) is None

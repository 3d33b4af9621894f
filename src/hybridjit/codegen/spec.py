"""KernelSpec: one frozen, hashable, one-line description per kernel.

The spec alone is enough to emit. It names no weight, no address, no thread count and no batch
size: kernels take those as arguments, so nets of one shape share code, and a new batch size
compiles only what the batch is a dimension of. Sizes and strides on which no code depends but by a
multiplication are arguments too, see :class:`Given`: layers of one network share code. Strides
count elements, each operand's its own.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any, ClassVar, TypeAlias

from .._core.frozen import dataclass
from .._core.target import SINGLE

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Given:
    """A number of a spec that the call gives, at ``place`` behind its other arguments."""

    place: int

    def __str__(self) -> str:
        return f"#{self.place}"


Size: TypeAlias = int | Given
Sizes = tuple[Size, ...]
# Sizes and strides of a spec that a call may give: integers or :class:`Given`; symbolic sizes while
# a kernel is chosen, and indices while its code is emitted.
Extent: TypeAlias = Any
Extents: TypeAlias = tuple[Extent, ...]

# Independent sums along an axis: an addition takes four cycles.
CHAINS = 4


class Way(Enum):
    """What a kernel of several does; texts show the member's name in lower case."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[object]) -> str:
        return name.lower()

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Instr:
    """One pointwise operation on numbered values: inputs first, then earlier instructions.

    Operands count as the result's element type, ``dtype``.
    """

    op: str
    args: Ints
    attrs: tuple[tuple[str, object], ...] = ()
    dtype: str = "float32"

    def __str__(self) -> str:
        attrs = "".join(f" {k}={v}" for k, v in self.attrs)
        type_ = "" if self.dtype == "float32" else f":{self.dtype}"
        return f"{self.op}({','.join(map(str, self.args))}{attrs}){type_}"


@dataclass(frozen=True)
class Program:
    """What is computed on each element before it is stored.

    Values 0 .. inputs-1 come from outside (value 0 is the anchor's result, where there is an
    anchor); ``outputs`` are the values that are stored. ``types`` are the element types of the
    inputs, none where all are float32.
    """

    inputs: int
    instrs: tuple[Instr, ...] = ()
    outputs: Ints = (0,)
    types: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.instrs and self.outputs == (0,):
            return f"store {self.types[0]}" if self.types else "store"
        types = f"{','.join(self.types)}: " if self.types else ""
        body = ";".join(map(str, self.instrs)) or "-"
        return f"[{types}{body}->{','.join(map(str, self.outputs))}]"

    @property
    def value_types(self) -> tuple[str, ...]:
        """The element type of every value, in the order of their numbers."""
        inputs = self.types or ("float32",) * self.inputs
        return (*inputs, *(instr.dtype for instr in self.instrs))

    @property
    def output_types(self) -> tuple[str, ...]:
        return tuple(self.value_types[i] for i in self.outputs)


@dataclass(frozen=True)
class KernelSpec:
    """Base of all specs. ``kind`` is the row in ``KERNELS`` that emits it.

    ``needs_passes`` tells whether LLVM's optimiser has anything to do on what is emitted;
    ``element`` says what memory holds, what is computed in and what sums are carried in, where no
    other field does; ``extents`` are the names of fields in which sizes may be given.
    """

    kind = ""
    extents: ClassVar[tuple[str, ...]] = ()
    element = SINGLE
    needs_passes = True

    def __str__(self) -> str:
        parts = [self.kind]
        for f in fields(self):
            value = getattr(self, f.name)
            if value != f.default:
                parts.append(f"{f.name}={_text(value)}")
        return " ".join(parts)

    @property
    def given(self) -> int:
        """How many numbers its calls give."""
        return sum(_count_given(getattr(self, f.name)) for f in fields(self))


def _count_given(value: object) -> int:
    if isinstance(value, tuple):
        return sum(map(_count_given, value))
    return isinstance(value, Given)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ",".join(_text(v) for v in value) + ")"
    return str(value)

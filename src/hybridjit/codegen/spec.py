"""KernelSpec: one frozen, hashable, one-line description per kernel.

A spec is sufficient to emit the kernel. It contains no weights, addresses, thread counts or batch
sizes: these are arguments, so that nets of one shape share code, and a new batch size compiles only
kernels that have the batch as a dimension. Sizes and strides that occur only in multiplications are
arguments as well, see :class:`Given`, so that layers of a network share code. Strides count
elements of their operand.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

from .._core.frozen import dataclass
from .._core.target import SINGLE

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Given:
    """An integer of a spec that is argument number ``place`` after the call's other arguments."""

    place: int

    def __str__(self) -> str:
        return f"#{self.place}"


Size: TypeAlias = int | Given
Sizes = tuple[Size, ...]
# Sizes and strides of a spec that may be arguments: integers or :class:`Given`; symbolic sizes
# while a kernel is chosen, and indices while its code is emitted.
Extent: TypeAlias = Any
Extents: TypeAlias = tuple[Extent, ...]

# Independent sums along an axis, because an addition has a latency of four cycles.
CHAINS = 4


class Way(Enum):
    """Algorithms of a kernel that has several; printed as the member's name in lower case."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[object]) -> str:
        return name.lower()

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Instr:
    """One pointwise operation on numbered values: inputs first, then earlier instructions.

    Operands are converted to the result's element type, ``dtype``.
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
    """The pointwise operations on each element before it is stored.

    Values 0 .. inputs-1 are inputs (value 0 is the anchor's result, if there is an anchor);
    ``outputs`` are the values that are stored. ``types`` are the element types of the inputs, () if
    all are float32.
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
    """Base of all specs. ``kind`` is the entry of ``KERNELS`` that emits it.

    ``needs_passes`` states whether LLVM's passes improve the emitted code, as in ``optimised``;
    ``element`` gives
    the stored type, the computed type and the type of sums, unless other fields do; ``extents`` are
    the names of fields whose sizes may be given by calls; ``vector_bytes`` is the width of vectors,
    0 for that of the target's registers.
    """

    kind = ""
    extents: ClassVar[tuple[str, ...]] = ()
    element = SINGLE
    vector_bytes = 0
    needs_passes: ClassVar[int] = True

    def __str__(self) -> str:
        return self._line

    @cached_property
    def _line(self) -> str:
        parts = [self.kind]
        for f in fields(self):
            value = getattr(self, f.name)
            if value != f.default:
                parts.append(f"{f.name}={_text(value)}")
        return " ".join(parts)

    @property
    def given(self) -> int:
        """Number of integers of the spec that are arguments of its calls."""
        return sum(_count_given(getattr(self, f.name)) for f in fields(self))


def _count_given(value: object) -> int:
    if isinstance(value, tuple):
        return sum(map(_count_given, value))
    return isinstance(value, Given)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ",".join(_text(v) for v in value) + ")"
    return str(value)

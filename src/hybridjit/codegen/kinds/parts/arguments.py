"""A kernel's arguments: ``args``, a row of 64-bit slots, and its part of the work: number ``share``
of ``shares``, for the thread whose scratch memory has number ``tid``.

Emitters take pointers and integers in the order in which the chooser lists them, and after them the
integers that their spec declares as given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ...._core.frozen import replace
from ...llvm.builder import LoopBuilder
from ...llvm.elements import ELEMENTS
from ...llvm.indices import Index
from ...llvm.types import I64, PTR, Pointer, Type, Value
from ...spec import Given, KernelSpec, Program, Size

Spec = TypeVar("Spec", bound=KernelSpec)


class Arguments:
    """Reads the slots one after the other."""

    def __init__(
        self, builder: LoopBuilder, slots: Value, tid: Value, share: Value, shares: Value
    ) -> None:
        self._builder = builder
        self._slots = slots
        self._next = 0
        self._first_given: int | None = None
        self.tid = tid
        self.share = share
        self.shares = shares

    def pointer(self, name: str, dtype: str = "") -> Value:
        """An address of elements of this type; by default the stored type of operands."""
        dtype = dtype or self._builder.target.element.stored
        return Pointer(self._load(PTR, name).ref, dtype, ELEMENTS[dtype].stored)

    def pointers(self, name: str, count: int) -> list[Value]:
        """Addresses of operands or results with numbered names, of the stored type."""
        return [self.pointer(f"{name}{i}") for i in range(count)]

    def working(self, name: str) -> Value:
        """An address of packed weights or of scratch memory, which have the type of lanes."""
        return self.pointer(name, self._builder.dtype)

    def summed(self, name: str) -> Value:
        """An address of initial values of sums, in the type of sums."""
        return self.pointer(name, self._builder.target.element.accumulated)

    def of_program(self, program: Program) -> tuple[list[Value], list[Value]]:
        """The operands and the results of a kernel's program, each with its stored type."""
        operands = enumerate(program.value_types[1 : program.inputs])
        results = enumerate(program.output_types)
        return (
            [self.pointer(f"r{i}", dtype) for i, dtype in operands],
            [self.pointer(f"y{i}", dtype) for i, dtype in results],
        )

    def integer(self, name: str) -> Value:
        return self._load(I64, name)

    def number(self, name: str, dtype: str) -> Value:
        """The address of a number of this type, which is stored in the slot itself."""
        assert self._first_given is None, "given numbers are behind all other arguments"
        b = self._builder.b
        slot = b.gep(self._slots, [self._builder.i64(self._next)], True, source_etype=I64)
        self._next += 1
        return Pointer(slot.ref, dtype, ELEMENTS[dtype].stored)

    def given(self, sizes: Sequence[Size]) -> list[Index]:
        """Integers of a spec. All other arguments have to be taken before."""
        if self._first_given is None:
            self._first_given = self._next
        first = self._first_given
        return [s if isinstance(s, int) else self._load_at(first + s.place) for s in sizes]

    def sized(self, spec: Spec) -> Spec:
        """The spec with the integers and values of the call in the fields ``extents``. All other
        arguments have to be taken before.
        """
        if not spec.given:
            return spec
        return replace(spec, **{name: self._in(getattr(spec, name)) for name in spec.extents})

    def _in(self, item: Any) -> Any:
        if isinstance(item, tuple):
            return tuple(map(self._in, item))
        return self.given((item,))[0] if isinstance(item, Given) else item

    def _load(self, kind: Type, name: str) -> Value:
        assert self._first_given is None, "given numbers are behind all other arguments"
        self._next += 1
        return self._load_at(self._next - 1, kind, name)

    def _load_at(self, place: int, kind: Type = I64, name: str = "given") -> Value:
        b = self._builder.b
        slot = b.gep(self._slots, [self._builder.i64(place)], True, source_etype=I64)
        return b.load(slot, name=name, typ=kind, align=8)

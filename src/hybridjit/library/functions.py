"""Building blocks for emitting a library's functions.

Input: an :class:`Emitter`. Output: functions and data in its module.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._core.target import Target
from ..codegen.emit.pool_memory import load_slot, slot_at
from ..codegen.llvm import ir
from ..codegen.llvm.builder import LoopBuilder
from ..codegen.llvm.indices import Index
from ..codegen.llvm.types import I32, I64, PTR, Type, Value


class Emitter:
    """A module under construction; ``public`` lists the names of the public functions."""

    def __init__(self, name: str, target: Target) -> None:
        self.name = name
        self.target = target
        self.module = ir.Module(name)
        self.module.triple = target.triple
        self.public: list[str] = []

    def function(
        self, name: str, result: Type, kinds: Sequence[Type]
    ) -> tuple[LoopBuilder, tuple[ir.Argument, ...]]:
        """Make an internal function."""
        made = ir.Function(self.module, ir.FunctionType(result, kinds), name)
        made.linkage = "internal"
        return LoopBuilder(made, self.target), made.args

    def entry(
        self, name: str, result: Type, kinds: Sequence[Type]
    ) -> tuple[LoopBuilder, tuple[ir.Argument, ...]]:
        """Make a public function; its name gets the library's name as prefix."""
        public = f"{self.name}_{name}"
        self.public.append(public)
        made = ir.Function(self.module, ir.FunctionType(result, kinds), public)
        return LoopBuilder(made, self.target), made.args

    def known(self, name: str) -> Value:
        """A function or data already in the module, by name."""
        return self.module.globals[name]

    def text(self, name: str, text: str) -> Value:
        """A C string as constant data."""
        return ir.Bytes(self.module, text.encode() + b"\0", name)

    def numbers(self, name: str, numbers: Sequence[int]) -> Value:
        """64-bit integers as constant data."""
        return ir.Table(self.module, I64, numbers or [0], name)

    def record(self, name: str, values: Sequence[Value]) -> Value:
        """Integers and addresses as constant data."""
        return ir.Record(self.module, values or [ir.Constant(I64, 0)], name)


def code(value: int) -> Value:
    """An error code, or another C int."""
    return ir.Constant(I32, value)


def is_null(lb: LoopBuilder, pointer: Value) -> Value:
    """Whether a pointer is NULL."""
    return lb.b.icmp_unsigned("==", pointer, ir.Value(PTR, "null"))


def return_when(lb: LoopBuilder, condition: Value, result: int) -> None:
    """``if (condition) return result;`` with an error code."""
    with lb.when(condition):
        lb.b.ret(code(result))


def return_failure(lb: LoopBuilder, result: Value) -> None:
    """``if (result) return result;`` with the error code of another function."""
    with lb.when(lb.b.icmp_signed("!=", result, code(0))):
        lb.b.ret(result)


def table_of(lb: LoopBuilder, variant: Value, slot: int) -> tuple[Value, Value]:
    """A table of a variant: the number of rows and their address."""
    return load_slot(lb, variant, slot), load_slot(lb, variant, slot + 1, PTR)


def fields(lb: LoopBuilder, rows: Value, index: Value, count: int) -> list[Value]:
    """The values of a row."""
    first = lb.mul(index, count)
    return [load_slot(lb, rows, lb.add(first, i)) for i in range(count)]


def put(lb: LoopBuilder, base: Value, slot: Index, value: Value) -> None:
    """Store an integer or an address into a slot."""
    lb.b.store(value, slot_at(lb, base, slot), align=8)


def address(lb: LoopBuilder, number: Value) -> Value:
    """A slot's integer as a pointer."""
    return lb.b.inttoptr(number, PTR)


def number_of(lb: LoopBuilder, pointer: Value) -> Value:
    """A pointer as an integer."""
    return lb.b.ptrtoint(pointer, I64)


def whole_lines(lb: LoopBuilder, nbytes: Index) -> Value:
    """Bytes rounded up to a multiple of the cache line, 64."""
    return lb.b.and_(lb.i64(lb.add(nbytes, 63)), lb.i64(-64))

"""LLVM IR as text: functions, and a builder that writes one line for each instruction.

Input: the calls of emitters. Output: the text of a module for LLVM's parser. It has the names and
semantics of the part of ``llvmlite.ir`` that emitters use; a value is stored as its text, so that
an instruction takes 3 us instead of 20, which halves the time of a cold start. LLVM's parser and
verifier check the text, this module does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import cast

from .types import (
    BFloatType,
    Constant,
    DoubleType,
    FloatType,
    FunctionType,
    HalfType,
    IntType,
    PointerType,
    Type,
    Undefined,
    Value,
    VectorType,
    VoidType,
    number,
    vector_of,
)

__all__ = [
    "Argument",
    "Block",
    "Bytes",
    "Constant",
    "DoubleType",
    "FloatType",
    "Function",
    "FunctionType",
    "BFloatType",
    "HalfType",
    "IRBuilder",
    "IntType",
    "Module",
    "Phi",
    "PointerType",
    "Record",
    "Table",
    "Type",
    "Undefined",
    "Value",
    "VectorType",
    "VoidType",
]


class Phi(Value):
    """A value that depends on the preceding block; its line is complete when the module is."""

    __slots__ = ("_name", "_incoming")

    def __init__(self, kind: Type, ref: str) -> None:
        super().__init__(kind, ref)
        self._incoming: list[str] = []

    def add_incoming(self, value: Value, block: Block) -> None:
        self._incoming.append(f"[ {value.ref}, %{block.name} ]")

    def __str__(self) -> str:
        return f"  {self.ref} = phi {self.type.text} {', '.join(self._incoming)}"


Arm = AbstractContextManager[None]  # instructions that run in one case


class Block:
    """Instructions up to a jump, one per line."""

    __slots__ = ("function", "name", "lines")

    def __init__(self, function: Function, name: str) -> None:
        self.function = function
        self.name = name
        self.lines: list[str | Phi] = []


class Argument(Value):
    """A function's argument; it may be named until it is used."""

    @property
    def name(self) -> str:
        return self.ref[1:]

    @name.setter
    def name(self, name: str) -> None:
        super().__init__(self.type, f"%{name}")


class Function(Value):
    """A function of a module: declared, or defined once it has blocks."""

    __slots__ = ("module", "name", "kind", "args", "linkage", "attributes", "blocks", "_numbers")

    def __init__(self, module: Module, kind: FunctionType, name: str) -> None:
        super().__init__(kind, f"@{name}")
        self.module, self.kind, self.name = module, kind, name
        self.args = tuple(Argument(t, f"%arg{i}") for i, t in enumerate(kind.args))
        self.linkage = self.attributes = ""
        self.blocks: list[Block] = []
        self._numbers = 0
        module.globals[name] = self

    def append_basic_block(self, name: str) -> Block:
        self._numbers += 1
        block = Block(self, f"{name}.{self._numbers}")
        self.blocks.append(block)
        return block

    def __str__(self) -> str:
        if not self.blocks:
            kinds = ", ".join(t.text for t in self.kind.args)
            return f"declare {self.kind.result.text} {self.ref}({kinds})"
        args = ", ".join(a.pair for a in self.args)
        lines: list[str | Phi] = [
            f"define {self.linkage} {self.kind.result.text} {self.ref}({args}) {self.attributes}",
            "{",
        ]
        for block in self.blocks:
            lines.append(f"{block.name}:")
            lines += block.lines
        return "\n".join([*map(str, lines), "}"])


class Table(Value):
    """Constants in the data section: the address of the first."""

    __slots__ = ("_text",)

    def __init__(self, module: Module, kind: Type, numbers: Sequence[int], name: str) -> None:
        super().__init__(_PTR, f"@{name}")
        items = ", ".join(f"{kind.text} {number(kind, n)}" for n in numbers)
        array = f"[{len(numbers)} x {kind.text}]"
        self._text = f"{self.ref} = internal constant {array} [ {items} ], align 64"
        module.globals[name] = self

    def __str__(self) -> str:
        return self._text


class Record(Value):
    """64-bit values, including addresses, in the data section: the address of the first.

    If ``hidden``, LLVM assumes nothing about the values or the memory that they point to.
    """

    __slots__ = ("_text",)

    def __init__(
        self, module: Module, values: Sequence[Value], name: str, hidden: bool = False
    ) -> None:
        super().__init__(_PTR, f"@{name}")
        kind = "internal externally_initialized constant" if hidden else "internal constant"
        kinds = ", ".join(v.type.text for v in values)
        fields = ", ".join(v.pair for v in values)
        self._text = f"{self.ref} = {kind} {{ {kinds} }} {{ {fields} }}, align 64"
        module.globals[name] = self

    def __str__(self) -> str:
        return self._text


class Bytes(Value):
    """Bytes in the data section, or in a named section."""

    __slots__ = ("_text",)

    def __init__(self, module: Module, data: bytes, name: str, section: str = "") -> None:
        super().__init__(_PTR, f"@{name}")
        content = "".join(f"\\{byte:02X}" for byte in data)
        place = f', section "{section}"' if section else ""
        kind = f"[{len(data)} x i8]"
        self._text = f'{self.ref} = internal constant {kind} c"{content}"{place}, align 64'
        module.globals[name] = self

    def __str__(self) -> str:
        return self._text


class Module:
    """Functions and data by name, and their text."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.triple = ""
        self.globals: dict[str, Function | Table | Record | Bytes] = {}

    def __str__(self) -> str:
        head = [f"; ModuleID = '{self.name}'", f'target triple = "{self.triple}"']
        return "\n".join([*head, *map(str, self.globals.values()), ""])


class IRBuilder:
    """Appends instructions to a block."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._count = 0

    @property
    def count(self) -> int:
        """Number of values defined so far."""
        return self._count

    def position_at_end(self, block: Block) -> None:
        self.block = block

    def _define(self, kind: Type, text: str, name: str = "v") -> Value:
        self._count = count = self._count + 1
        ref = f"%{name}.{count}"
        self.block.lines.append(f"  {ref} = {text}")
        return Value(kind, ref)

    def _perform(self, text: str) -> None:
        self.block.lines.append(f"  {text}")

    # --- arithmetic ---

    def _binary(self, op: str, a: Value, b: Value) -> Value:
        return self._define(a.type, f"{op} {a.pair}, {b.ref}")

    def add(self, a: Value, b: Value, flags: Sequence[str] = ()) -> Value:
        return self._binary(" ".join(("add", *flags)) if flags else "add", a, b)

    def sub(self, a: Value, b: Value, flags: Sequence[str] = ()) -> Value:
        return self._binary(" ".join(("sub", *flags)) if flags else "sub", a, b)

    def mul(self, a: Value, b: Value, flags: Sequence[str] = ()) -> Value:
        return self._binary(" ".join(("mul", *flags)) if flags else "mul", a, b)

    def udiv(self, a: Value, b: Value) -> Value:
        return self._binary("udiv", a, b)

    def sdiv(self, a: Value, b: Value) -> Value:
        return self._binary("sdiv", a, b)

    def srem(self, a: Value, b: Value) -> Value:
        return self._binary("srem", a, b)

    def urem(self, a: Value, b: Value) -> Value:
        return self._binary("urem", a, b)

    def and_(self, a: Value, b: Value) -> Value:
        return self._binary("and", a, b)

    def or_(self, a: Value, b: Value) -> Value:
        return self._binary("or", a, b)

    def xor(self, a: Value, b: Value) -> Value:
        return self._binary("xor", a, b)

    def shl(self, a: Value, b: Value) -> Value:
        return self._binary("shl", a, b)

    def lshr(self, a: Value, b: Value) -> Value:
        return self._binary("lshr", a, b)

    def ashr(self, a: Value, b: Value) -> Value:
        return self._binary("ashr", a, b)

    def fadd(self, a: Value, b: Value) -> Value:
        return self._binary("fadd", a, b)

    def fsub(self, a: Value, b: Value) -> Value:
        return self._binary("fsub", a, b)

    def fmul(self, a: Value, b: Value) -> Value:
        return self._binary("fmul", a, b)

    def fdiv(self, a: Value, b: Value) -> Value:
        return self._binary("fdiv", a, b)

    def fneg(self, a: Value) -> Value:
        return self._define(a.type, f"fneg {a.pair}")

    def not_(self, a: Value) -> Value:
        """Bitwise complement."""
        kind = a.type
        ones = [-1] * kind.count if isinstance(kind, VectorType) else -1
        return self.xor(a, Constant(kind, ones))

    # --- comparisons and choices ---

    def _compare(self, op: str, a: Value, b: Value) -> Value:
        kind = a.type
        bits = vector_of(_I1, kind.count) if isinstance(kind, VectorType) else _I1
        return self._define(bits, f"{op} {a.pair}, {b.ref}")

    def icmp_signed(self, sign: str, a: Value, b: Value) -> Value:
        return self._compare(f"icmp {_SIGNED[sign]}", a, b)

    def icmp_unsigned(self, sign: str, a: Value, b: Value) -> Value:
        return self._compare(f"icmp {_SIGNED[sign].replace('s', 'u')}", a, b)

    def fcmp_ordered(self, sign: str, a: Value, b: Value) -> Value:
        return self._compare(f"fcmp {_FLOAT.get(sign, sign).replace('?', 'o')}", a, b)

    def fcmp_unordered(self, sign: str, a: Value, b: Value) -> Value:
        return self._compare(f"fcmp {_FLOAT.get(sign, sign).replace('?', 'u')}", a, b)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self._define(a.type, f"select {condition.pair}, {a.pair}, {b.pair}")

    # --- conversions ---

    def _convert(self, op: str, value: Value, kind: Type) -> Value:
        return self._define(kind, f"{op} {value.pair} to {kind.text}")

    def trunc(self, value: Value, kind: Type) -> Value:
        return self._convert("trunc", value, kind)

    def zext(self, value: Value, kind: Type) -> Value:
        return self._convert("zext", value, kind)

    def sext(self, value: Value, kind: Type) -> Value:
        return self._convert("sext", value, kind)

    def fptrunc(self, value: Value, kind: Type) -> Value:
        return self._convert("fptrunc", value, kind)

    def fpext(self, value: Value, kind: Type) -> Value:
        return self._convert("fpext", value, kind)

    def sitofp(self, value: Value, kind: Type) -> Value:
        return self._convert("sitofp", value, kind)

    def uitofp(self, value: Value, kind: Type) -> Value:
        return self._convert("uitofp", value, kind)

    def fptosi(self, value: Value, kind: Type) -> Value:
        return self._convert("fptosi", value, kind)

    def fptoui(self, value: Value, kind: Type) -> Value:
        return self._convert("fptoui", value, kind)

    def bitcast(self, value: Value, kind: Type) -> Value:
        return self._convert("bitcast", value, kind)

    def ptrtoint(self, value: Value, kind: Type) -> Value:
        return self._convert("ptrtoint", value, kind)

    def inttoptr(self, value: Value, kind: Type) -> Value:
        return self._convert("inttoptr", value, kind)

    # --- vectors ---

    def insert_element(self, vector: Value, value: Value, at: Value) -> Value:
        return self._define(vector.type, f"insertelement {vector.pair}, {value.pair}, {at.pair}")

    def extract_element(self, vector: Value, at: Value) -> Value:
        return self._define(vector.type.element, f"extractelement {vector.pair}, {at.pair}")

    def shuffle_vector(self, a: Value, b: Value, lanes: Value) -> Value:
        kind = vector_of(a.type.element, lanes.type.count)
        return self._define(kind, f"shufflevector {a.pair}, {b.pair}, {lanes.pair}")

    # --- memory ---

    def alloca(self, kind: Type, size: int = 1) -> Value:
        return self._define(_PTR, f"alloca {kind.text}, i32 {size}")

    def gep(
        self,
        base: Value,
        indices: Sequence[Value],
        inbounds: bool = False,
        *,
        source_etype: Type,
    ) -> Value:
        op = "getelementptr inbounds" if inbounds else "getelementptr"
        places = ", ".join([index.pair for index in indices])
        return self._define(_PTR, f"{op} {source_etype.text}, ptr {base.ref}, {places}")

    def load(self, address: Value, name: str = "v", align: int = 4, *, typ: Type) -> Value:
        return self._define(typ, f"load {typ.text}, ptr {address.ref}, align {align}", name)

    def store(self, value: Value, address: Value, align: int = 4) -> None:
        self._perform(f"store {value.pair}, ptr {address.ref}, align {align}")

    def load_atomic(self, address: Value, order: str, align: int, *, typ: Type) -> Value:
        text = f"load atomic {typ.text}, ptr {address.ref} {order}, align {align}"
        return self._define(typ, text)

    def atomic_rmw(self, op: str, address: Value, value: Value, order: str) -> Value:
        return self._define(value.type, f"atomicrmw {op} ptr {address.ref}, {value.pair} {order}")

    # --- control ---

    def call(self, function: Value, args: Sequence[Value]) -> Value:
        kind = cast(FunctionType, function.type).result
        text = f"call {kind.text} {function.ref}({', '.join([a.pair for a in args])})"
        if isinstance(kind, VoidType):
            self._perform(text)
            return function
        return self._define(kind, text)

    def assembly(self, text: str, constraints: str, args: Sequence[Value]) -> list[Value]:
        """One machine instruction in LLVM's notation; returns its results, 32 bits each.

        ``constraints`` begins with a register for each result.
        """
        count = constraints.count("=")
        kind = Type(f"{{ {', '.join([_I32.text] * count)} }}")
        operands = ", ".join([a.pair for a in args])
        result = self._define(kind, f'call {kind.text} asm "{text}", "{constraints}"({operands})')
        return [self._define(_I32, f"extractvalue {result.pair}, {i}") for i in range(count)]

    def phi(self, kind: Type, name: str = "v") -> Phi:
        self._count += 1
        phi = Phi(kind, f"%{name}.{self._count}")
        self.block.lines.append(phi)
        return phi

    def branch(self, block: Block) -> None:
        self._perform(f"br label %{block.name}")

    def cbranch(self, condition: Value, yes: Block, no: Block) -> None:
        self._perform(f"br i1 {condition.ref}, label %{yes.name}, label %{no.name}")

    def ret(self, value: Value) -> None:
        self._perform(f"ret {value.pair}")

    def ret_void(self) -> None:
        self._perform("ret void")

    @contextmanager
    def goto_entry_block(self) -> Iterator[None]:
        """Insert instructions at the start of the function's first block."""
        block, first = self.block, self.block.function.blocks[0]
        rest, first.lines = first.lines, []
        self.block = first
        yield
        first.lines += rest
        self.block = block

    @contextmanager
    def if_then(self, condition: Value) -> Iterator[None]:
        """Instructions that run if ``condition`` holds; they may end in a return."""
        inside, after = self.blocks("if", "endif")
        self.cbranch(condition, inside, after)
        self.position_at_end(inside)
        yield
        self._fall_to(after)
        self.position_at_end(after)

    @contextmanager
    def if_else(self, condition: Value) -> Iterator[tuple[Arm, Arm]]:
        """Two contexts: for the instructions if ``condition`` holds, and for the others."""
        yes, no, after = self.blocks("if", "else", "endif")
        self.cbranch(condition, yes, no)

        @contextmanager
        def part(block: Block) -> Iterator[None]:
            self.position_at_end(block)
            yield
            self._fall_to(after)

        yield part(yes), part(no)
        self.position_at_end(after)

    def blocks(self, *names: str) -> list[Block]:
        """New blocks of the function, empty."""
        function = self.block.function
        return [function.append_basic_block(name) for name in names]

    def _fall_to(self, block: Block) -> None:
        """Branch to ``block``, unless the current block has ended already."""
        last = self.block.lines[-1] if self.block.lines else ""
        if not str(last).startswith(("  br ", "  ret ")):
            self.branch(block)


_I1 = IntType(1)
_I32 = IntType(32)
_PTR = PointerType()
_SIGNED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
_FLOAT = {"<": "?lt", "<=": "?le", ">": "?gt", ">=": "?ge", "==": "?eq", "!=": "?ne"}

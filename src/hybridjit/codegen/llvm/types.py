"""LLVM's types, and constants of them, as text for the instructions of ``ir``."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias, cast


class Type:
    """A type and its text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def element(self) -> Type:
        """The type of a lane; the type itself for scalars."""
        return self

    @property
    def count(self) -> int:
        """Number of lanes."""
        return 1

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


class IntType(Type):
    __slots__ = ("width",)

    def __init__(self, width: int) -> None:
        super().__init__(f"i{width}")
        self.width = width


class HalfType(Type):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("half")


class BFloatType(Type):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("bfloat")


class FloatType(Type):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("float")


class DoubleType(Type):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("double")


class PointerType(Type):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("ptr")


class VoidType(Type):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("void")


class VectorType(Type):
    __slots__ = ("_element", "_count")

    def __init__(self, element: Type, count: int) -> None:
        super().__init__(f"<{count} x {element.text}>")
        self._element, self._count = element, count

    @property
    def element(self) -> Type:
        return self._element

    @property
    def count(self) -> int:
        return self._count


class FunctionType(Type):
    """A function's signature. ``as_pointer`` keeps it, for calls through a loaded address."""

    __slots__ = ("result", "args")

    def __init__(self, result: Type, args: Sequence[Type]) -> None:
        super().__init__("ptr")
        self.result, self.args = result, tuple(args)

    def as_pointer(self) -> FunctionType:
        return self


class Value:
    """A value's type, and the text by which instructions refer to it."""

    __slots__ = ("type", "ref", "pair")

    def __init__(self, kind: Type, ref: str) -> None:
        self.type = kind
        self.ref = ref
        self.pair = f"{kind.text} {ref}"


class Pointer(Value):
    """The address of elements of one type: NumPy's name of it, and LLVM's type in memory."""

    __slots__ = ("dtype", "stored")

    def __init__(self, ref: str, dtype: str, stored: Type) -> None:
        super().__init__(PTR, ref)
        self.dtype = dtype
        self.stored = stored


class Undefined:
    """The value of a constant whose bits are irrelevant."""


# Contents of a constant: a number; for a vector a list of numbers or constants; or undefined.
Content: TypeAlias = float | Sequence["float | Value"] | type[Undefined]


_UNDEFINED = "undef"


class Constant(Value):
    """A number, a list of numbers or constants for a vector, or ``Undefined``."""

    __slots__ = ()

    def __init__(self, kind: Type, value: Content) -> None:
        super().__init__(kind, _constant(kind, value))


def _constant(kind: Type, value: Content) -> str:
    if isinstance(value, type):
        return _UNDEFINED
    if not isinstance(kind, VectorType):
        return number(kind, cast(float, value))
    parts = cast("Sequence[float | Value]", value)
    items = [v.ref if isinstance(v, Value) else number(kind.element, v) for v in parts]
    if items[0] != _UNDEFINED and items.count(items[0]) == len(items):
        return f"splat ({kind.element.text} {items[0]})"
    return f"<{', '.join([f'{kind.element.text} {item}' for item in items])}>"


def number(kind: Type, value: float) -> str:
    """A number in LLVM's notation for this type."""
    if isinstance(kind, FloatType):
        return _double(_single(float(value)))
    return _double(float(value)) if isinstance(kind, DoubleType) else str(int(value))


def _single(value: float) -> float:
    """The f32 nearest to ``value``."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _double(value: float) -> str:
    """A number in LLVM's notation, also for f32: the bits of the equal double."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016x}"


I1 = IntType(1)
I8 = IntType(8)
I16 = IntType(16)
I32 = IntType(32)
I64 = IntType(64)
F32 = FloatType()
F64 = DoubleType()
PTR = PointerType()
VOID = VoidType()

_NAMES = {F32: "f32", F64: "f64", I1: "i1", I8: "i8", I16: "i16", I32: "i32", I64: "i64"}
_BYTES = {F32: 4, F64: 8, I8: 1, I16: 2, I32: 4, I64: 8}


def element_of(value: Value) -> Type:
    """The type of a scalar, or of a vector's elements."""
    return value.type.element if isinstance(value.type, VectorType) else value.type


def byte_count(element: Type) -> int:
    """Bytes of one element in memory."""
    return _BYTES[element]


def intrinsic_suffix(kind: Type) -> str:
    """The suffix of an intrinsic's name for its operand type."""
    if isinstance(kind, VectorType):
        return f"v{kind.count}{_NAMES[kind.element]}"
    return _NAMES[kind]


def constant_of(kind: Type, value: float) -> Value:
    """A constant of type ``kind``; for a vector, the same value in all lanes."""
    return _constant_of(kind, value, math.copysign(1.0, value))


# Kernels use few different constants, each of them often.
@lru_cache(maxsize=4096)
def int64(value: int) -> Value:
    """An integer as an index."""
    return Constant(I64, value)


@lru_cache(maxsize=64)
def vector_of(element: Type, count: int) -> VectorType:
    """Vectors of ``count`` elements; cached, because few types are used often."""
    return VectorType(element, count)


@lru_cache(maxsize=4096)
def _constant_of(kind: Type, value: float, _: float) -> Value:
    """The cache key includes the sign, because 0.0 == -0.0."""
    if isinstance(kind, VectorType):
        return Constant(kind, [value] * kind.count)
    return Constant(kind, value)

"""Element types: the stored form of elements, the form in registers, and conversions.

Input: NumPy's names of element types. float16 is held as an f32 that float16 can represent, bool as
bytes, bfloat16 as an f32 that is rounded when it is stored.

Conversions follow ``ops.casting.convert``: floats become integers by truncation, those out of range
the smallest integer, and narrower integers take the low bits.
"""

from __future__ import annotations

from ..._core.frozen import dataclass
from . import ir
from .builder import LoopBuilder
from .types import F32, F64, I8, I16, I32, I64, Type, Value, constant_of


@dataclass(frozen=True)
class Element:
    """``stored`` in memory, ``held`` in a register; kind is float, integer, unsigned or bool."""

    stored: ir.Type
    held: ir.Type
    kind: str


# int16 is not one of MXNet's types: copies use it for any element of two bytes.
ELEMENTS = {
    "float32": Element(F32, F32, "f"),
    "float64": Element(F64, F64, "f"),
    "float16": Element(I16, F32, "f"),
    "uint8": Element(I8, I8, "u"),
    "int8": Element(I8, I8, "i"),
    "int16": Element(I16, I16, "i"),
    "int32": Element(I32, I32, "i"),
    "int64": Element(I64, I64, "i"),
    "bool": Element(I8, I8, "b"),
    "bfloat16": Element(I16, F32, "f"),
    "bfloat16_pair": Element(I32, I32, "i"),
    "uint8_quad": Element(I32, I32, "i"),
    "int16_pair": Element(I32, I32, "i"),
}
# The type as which copies move elements, by their number of bytes.
MOVED_AS = {1: "uint8", 2: "int16", 4: "float32", 8: "float64"}


def with_element(kind: Type, element: Type) -> Type:
    """The scalar or vector type ``kind`` with other elements."""
    return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element


def held(b: LoopBuilder, value: Value, dtype: str) -> Value:
    """A loaded value in the form for registers."""
    if dtype == "bfloat16":
        return bfloat_to_single(b, value)
    return half_to_single(b, value) if dtype == "float16" else value


def stored(b: LoopBuilder, value: Value, dtype: str) -> Value:
    """A value in a register in its stored form."""
    if dtype == "bfloat16":
        return single_to_bfloat(b, value)
    return single_to_half(b, value) if dtype == "float16" else value


def converted(b: LoopBuilder, value: Value, source: str, target: str) -> Value:
    """A held value of type ``source`` converted to type ``target``."""
    if source == target or {source, target} == {"bfloat16", "float32"}:
        return value
    old, new = ELEMENTS[source], ELEMENTS[target]
    if new.kind == "b":
        return _whole(b, _is_nonzero(b, value, old), I8)
    if old.kind == "b":
        value, old = _whole(b, _is_nonzero(b, value, old), I8), ELEMENTS["uint8"]
    if old.kind == new.kind == "f":
        return _float_to_float(b, value, old, new, target)
    if old.kind == "f":
        return _float_to_integer(b, value, new)
    if new.kind == "f":
        return _integer_to_float(b, value, old, target)
    return _resized(b, value, old, new)


def _is_nonzero(b: LoopBuilder, value: Value, element: Element) -> Value:
    zero = b.constant(0, value)
    if element.kind == "f":
        return b.b.fcmp_unordered("!=", value, zero)
    return b.b.icmp_signed("!=", value, zero)


def _whole(b: LoopBuilder, mask: Value, element: Type) -> Value:
    return b.b.zext(mask, with_element(mask.type, element))


def _resized(b: LoopBuilder, value: Value, old: Element, new: Element) -> Value:
    kind = with_element(value.type, new.held)
    before, after = old.held.width, new.held.width  # type: ignore[attr-defined]
    if before == after:
        return value
    if after < before:
        return b.b.trunc(value, kind)
    return b.b.zext(value, kind) if old.kind == "u" else b.b.sext(value, kind)


def _integer_to_float(b: LoopBuilder, value: Value, old: Element, target: str) -> Value:
    kind = with_element(value.type, ELEMENTS[target].held)
    result = b.b.uitofp(value, kind) if old.kind == "u" else b.b.sitofp(value, kind)
    return rounded_to_half(b, result) if target == "float16" else result


def _float_to_integer(b: LoopBuilder, value: Value, new: Element) -> Value:
    """Convert through int32 or int64; values out of range become its smallest."""
    wide = I64 if new.held == I64 else I32
    kind = with_element(value.type, wide)
    limit = 2.0 ** (wide.width - 1)
    fits = b.b.and_(
        b.b.fcmp_ordered(">=", value, b.constant(-limit, value)),
        b.b.fcmp_ordered("<", value, b.constant(limit, value)),
    )
    whole = b.b.fptosi(b.b.select(fits, value, b.constant(-limit, value)), kind)
    return whole if new.held == wide else b.b.trunc(whole, with_element(kind, new.held))


def _float_to_float(b: LoopBuilder, value: Value, old: Element, new: Element, target: str) -> Value:
    if old.held == F64:
        value = _single_of_double(b, value, target == "float16")
    if target == "float16":
        return rounded_to_half(b, value)
    return b.b.fpext(value, with_element(value.type, F64)) if new.held == F64 else value


def _single_of_double(b: LoopBuilder, value: Value, to_odd: bool) -> Value:
    """f64 as f32: the nearest, or with ``to_odd`` (if it is rounded again) the inexact one that is
    odd.

    Rounding to odd first makes a second rounding to fewer bits equal to direct rounding.
    """
    single = b.b.fptrunc(value, with_element(value.type, F32))
    if not to_odd:
        return single
    back = b.b.fpext(single, value.type)
    bits_of = with_element(value.type, I32)
    is_inexact = b.b.fcmp_unordered("!=", back, value)
    is_larger = b.b.fcmp_ordered(">", b.intrinsic("fabs", back), b.intrinsic("fabs", value))
    bits = b.b.sub(b.b.bitcast(single, bits_of), b.b.zext(is_larger, bits_of))
    return b.b.bitcast(b.b.or_(bits, b.b.zext(is_inexact, bits_of)), single.type)


# --- bfloat16 ---


def bfloat_to_single(b: LoopBuilder, bits: Value) -> Value:
    """The f32 of bfloat16 bits, which are the upper half of a word."""
    wide = b.b.zext(bits, with_element(bits.type, I32))
    upper = b.b.shl(wide, constant_of(wide.type, 16))
    return b.b.bitcast(upper, with_element(bits.type, F32))


def single_to_bfloat(b: LoopBuilder, value: Value) -> Value:
    """The bits of the bfloat16 nearest to ``value``, ties to even.

    The instruction, where the target has it, treats denormal numbers as zeros.
    """
    narrow = with_element(value.type, I16)
    if b.target.has_bfloat16 and isinstance(value.type, ir.VectorType):
        short = b.b.fptrunc(value, with_element(value.type, ir.BFloatType()))
        return b.b.bitcast(short, narrow)
    wide = with_element(value.type, I32)

    def const(n: int) -> Value:
        return constant_of(wide, n)

    bits = b.b.bitcast(value, wide)
    even = b.b.and_(b.b.lshr(bits, const(16)), const(1))
    rounded = b.b.lshr(b.b.add(bits, b.b.add(even, const(0x7FFF))), const(16))
    quiet = b.b.or_(b.b.lshr(bits, const(16)), const(0x40))
    is_nan = b.b.fcmp_unordered("uno", value, value)
    return b.b.trunc(b.b.select(is_nan, quiet, rounded), narrow)


# --- float16 ---


def rounded_to_half(b: LoopBuilder, value: Value) -> Value:
    """The float16 value nearest to ``value``, as f32."""
    return half_to_single(b, single_to_half(b, value))


def half_to_single(b: LoopBuilder, bits: Value) -> Value:
    """The f32 of float16 bits; an instruction if the target has it."""
    kind = with_element(bits.type, F32)
    if b.target.has_half:
        return b.b.fpext(b.b.bitcast(bits, with_element(bits.type, ir.HalfType())), kind)
    wide = with_element(bits.type, I32)

    def const(n: int) -> Value:
        return constant_of(wide, n)

    full = b.b.zext(bits, wide)
    sign = b.b.shl(b.b.and_(full, const(0x8000)), const(16))
    size = b.b.shl(b.b.and_(full, const(0x7FFF)), const(13))
    # The exponents' biases differ by 112; a product also converts denormal numbers correctly.
    scaled = b.b.fmul(b.b.bitcast(size, kind), constant_of(kind, 2.0**112))
    is_special = b.b.icmp_signed(">=", size, const(0x0F800000))
    special = b.b.or_(size, const(0x7F800000))
    size = b.b.select(is_special, special, b.b.bitcast(scaled, wide))
    return b.b.bitcast(b.b.or_(size, sign), kind)


def single_to_half(b: LoopBuilder, value: Value) -> Value:
    """The bits of the float16 nearest to ``value``, ties to even."""
    narrow = with_element(value.type, I16)
    if b.target.has_half:
        half = b.b.fptrunc(value, with_element(value.type, ir.HalfType()))
        return b.b.bitcast(half, narrow)
    wide = with_element(value.type, I32)

    def const(n: int) -> Value:
        return constant_of(wide, n)

    bits = b.b.bitcast(value, wide)
    sign = b.b.and_(b.b.lshr(bits, const(16)), const(0x8000))
    size = b.b.and_(bits, const(0x7FFFFFFF))
    even = b.b.and_(b.b.lshr(size, const(13)), const(1))
    rounding = b.b.add(b.b.add(size, const(0xFFF)), even)
    normal = b.b.lshr(b.b.sub(rounding, const(112 << 23)), const(13))
    # Adding 1/2 leaves the rounded bits of a denormal number at the end of the mantissa.
    lifted = b.b.fadd(b.b.bitcast(size, value.type), constant_of(value.type, 0.5))
    denormal = b.b.sub(b.b.bitcast(lifted, wide), const(0x3F000000))
    result = b.b.select(b.b.icmp_signed("<", size, const(113 << 23)), denormal, normal)
    is_large = b.b.icmp_signed(">=", size, const(143 << 23))
    result = b.b.select(is_large, const(0x7C00), result)
    is_nan = b.b.icmp_signed(">", size, const(0x7F800000))
    payload = b.b.or_(b.b.and_(b.b.lshr(size, const(13)), const(0x3FF)), const(0x7E00))
    result = b.b.select(is_nan, payload, result)
    return b.b.trunc(b.b.or_(result, sign), narrow)

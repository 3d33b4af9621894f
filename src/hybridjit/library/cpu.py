"""Required CPU features of a variant, and their detection at run time.

Four words of bits: ``cpuid`` leaf 1 (ECX), leaf 7 (EBX), leaf 0x80000001 (ECX), and ``xgetbv``
(registers that the operating system saves) with leaf 7, subleaf 1 (EAX) in the upper half of the
fourth word. Code for AArch64 has no requirements.
"""

from __future__ import annotations

from functools import reduce

from .._core.target import Target
from ..codegen.emit.pool_memory import load_slot
from ..codegen.llvm import ir
from ..codegen.llvm.builder import LoopBuilder
from ..codegen.llvm.types import I32, I64, PTR, VOID, Value
from .functions import Emitter, put
from .layout import NEEDS

WORDS = 4


def _bits(*numbers: int) -> int:
    return reduce(lambda word, bit: word | 1 << bit, numbers, 0)


# The levels of the x86-64 ABI, as LLVM defines x86-64-v3 and x86-64-v4.
_V3 = (
    # SSE3, SSSE3, FMA, CX16, SSE4.1, SSE4.2, MOVBE, POPCNT, OSXSAVE, AVX, F16C
    _bits(0, 9, 12, 13, 19, 20, 22, 23, 27, 28, 29),
    _bits(3, 5, 8),  # BMI1, AVX2, BMI2
    _bits(0, 5),  # LAHF, LZCNT
    _bits(1, 2),  # XMM, YMM
)
_V4 = (
    _V3[0],
    _V3[1] | _bits(16, 17, 28, 30, 31),  # AVX512F, DQ, CD, BW, VL
    _V3[2],
    _V3[3] | _bits(5, 6, 7),  # masks, ZMM
)
_UPPER = 32
_BF16 = (*_V4[:3], _V4[3] | _bits(_UPPER + 5))  # AVX512_BF16
_NEEDED = {"avx512bf16": _BF16, "avx512": _V4, "avx2": _V3}


def needed(target: Target) -> tuple[int, ...]:
    """The feature bits that a variant for this CPU requires."""
    return _NEEDED.get(target.name, (0,) * WORDS)


_CPUID = "={ax},={bx},={cx},={dx},0,2,~{dirflag},~{fpsr},~{flags}"
_XGETBV = "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"
_OSXSAVE = 27


def emit_cpu_words(emitter: Emitter) -> None:
    """void cpu_words(words): read the features of this CPU."""
    lb, (words,) = emitter.function("cpu_words", VOID, [PTR])
    b = lb.b
    for word in range(WORDS):
        put(lb, words, word, lb.i64(0))
    if "x86" not in emitter.target.triple:
        b.ret_void()
        return
    most, extended = _cpuid(lb, 0)[0], _cpuid(lb, 0x80000000)[0]
    put(lb, words, 0, b.zext(_cpuid(lb, 1)[2], I64))
    with lb.when(b.icmp_unsigned(">=", most, _word(7))):
        put(lb, words, 1, b.zext(_cpuid(lb, 7)[1], I64))
    with lb.when(b.icmp_unsigned(">", extended, _word(0x80000000))):
        put(lb, words, 2, b.zext(_cpuid(lb, 0x80000001)[2], I64))
    saves = b.and_(load_slot(lb, words, 0), lb.i64(1 << _OSXSAVE))
    with lb.when(b.icmp_signed("!=", saves, lb.i64(0))):
        saved = b.zext(b.assembly("xgetbv", _XGETBV, [_word(0)])[0], I64)
        second = b.zext(_cpuid(lb, 7, 1)[0], I64)
        put(lb, words, 3, b.or_(saved, b.shl(second, lb.i64(_UPPER))))
    b.ret_void()


def _word(number: int) -> Value:
    return ir.Constant(I32, number)


def _cpuid(lb: LoopBuilder, leaf: int, part: int = 0) -> list[Value]:
    return lb.b.assembly("cpuid", _CPUID, [_word(leaf), _word(part)])


def emit_find_variant(emitter: Emitter, variants: Value, count: int) -> None:
    """ptr find_variant(): the first variant of the table that this CPU can run, or NULL."""
    lb, _ = emitter.function("find_variant", PTR, [])
    b = lb.b
    words = b.alloca(I64, WORDS)
    b.call(emitter.known("cpu_words"), [words])
    with lb.loop("variant", 0, count) as variant:
        found = load_slot(lb, variants, variant.index, PTR)
        lacks: Value = lb.i64(0)
        for word in range(WORDS):
            wanted = load_slot(lb, found, NEEDS + word)
            lacks = b.or_(lacks, b.and_(wanted, b.not_(load_slot(lb, words, word))))
        with lb.when(b.icmp_signed("==", lacks, lb.i64(0))):
            b.ret(found)
    b.ret(ir.Value(PTR, "null"))

"""Random draws of dropout in a library: NumPy's generator with its state in the context.

Input: a state of two 128-bit numbers, stored as four 64-bit words. Output: the keys that a step
draws, and the state for a seed. Both have the bits of ``numpy.random.default_rng``: a PCG64
generator (O'Neill 2014, "PCG: A family of simple fast space-efficient statistically good
algorithms"), and the hash of NumPy's ``SeedSequence``.
"""

from __future__ import annotations

import numpy as np

from .._core.frozen import dataclass
from ..codegen.call import Address, Call
from ..codegen.emit.driver import KERNEL
from ..codegen.emit.pool_memory import load_slot
from ..codegen.llvm import ir
from ..codegen.llvm.builder import LoopBuilder
from ..codegen.llvm.types import I32, I64, PTR, VOID, Value
from ..codegen.spec import KernelSpec
from ..ir.plan import Plan, Step
from ..ops.random.counter import DROPOUT_KEY
from .functions import Emitter

DRAW = "draw"  # name of the emitted function

_I128 = ir.IntType(128)
_FACTOR = 0x2360ED051FC65DA44385DF649FCCF645
_POOL = 4
_HASH, _HASH_FACTOR = 0x43B0D7E5, 0x931E8875
_OUT, _OUT_FACTOR = 0x8B51F9DD, 0x58F38DED
_LEFT, _RIGHT = 0xCA01F9DD, 0x4973F715


@dataclass(frozen=True)
class DrawSpec(KernelSpec):
    """Kernel that draws a key of two words. Arguments: the state, and the address of each word."""

    kind = "draw"


def draw_of(step: Step) -> tuple[Call, ...]:
    """The call that draws a key; empty for steps of other operators."""
    if step.group.anchor.op is not DROPOUT_KEY:
        return ()
    first, second = step.writes
    return (Call(DrawSpec(), (0, Address(first), Address(second))),)


def draws(plan: Plan) -> bool:
    """Whether a step of the plan draws random numbers."""
    return any(draw_of(step) for step in plan.steps)


def seeded(seed: int) -> np.ndarray:
    """State of the generator for a seed."""
    state = np.random.default_rng(seed).bit_generator.state["state"]
    words = [state[name] >> shift & 2**64 - 1 for name in ("state", "inc") for shift in (0, 64)]
    return np.array(words, np.uint64)


def emit_draw(emitter: Emitter) -> None:
    """void draw(arguments, thread, threads, poll): only the first thread draws."""
    lb, (arguments, tid, *_) = emitter.function(DRAW, KERNEL.result, KERNEL.args)
    b = lb.b
    with lb.when(b.icmp_signed("!=", tid, lb.i64(0))):
        b.ret_void()
    state, *words = (load_slot(lb, arguments, i, PTR) for i in range(3))
    number = _next(lb, b.load(state, typ=_I128, align=8), _increment(lb, state))
    b.store(number, state, align=8)
    drawn = _output(lb, number)
    b.store(b.trunc(drawn, I32), words[0])
    b.store(b.trunc(b.lshr(drawn, lb.i64(32)), I32), words[1])
    b.ret_void()


def _increment(lb: LoopBuilder, state: Value) -> Value:
    return lb.b.load(lb.b.gep(state, [lb.i64(1)], source_etype=_I128), typ=_I128, align=8)


def _next(lb: LoopBuilder, number: Value, increment: Value) -> Value:
    return lb.b.add(lb.b.mul(number, ir.Constant(_I128, _FACTOR)), increment)


def _output(lb: LoopBuilder, number: Value) -> Value:
    """Output function of PCG64: XOR of both halves, rotated right by the highest six bits."""
    b = lb.b
    high = b.trunc(b.lshr(number, ir.Constant(_I128, 64)), I64)
    both, turn = b.xor(high, b.trunc(number, I64)), b.lshr(high, lb.i64(58))
    back = b.and_(lb.sub(0, turn), lb.i64(63))
    return b.or_(b.lshr(both, turn), b.shl(both, back))


def emit_start(emitter: Emitter) -> None:
    """void start_chance(state, seed): set the state for a seed of 64 bits."""
    lb, (state, seed) = emitter.function("start_chance", VOID, [PTR, I64])
    b = lb.b
    halves = [b.trunc(seed, I32), b.trunc(b.lshr(seed, lb.i64(32)), I32)]
    words = _words(lb, _mixed_pool(lb, [*halves, _word(0), _word(0)]))
    first, second = (_joined(lb, words[i : i + 4]) for i in (0, 4))
    one = ir.Constant(_I128, 1)
    increment = b.or_(b.shl(second, one), one)
    # The generator starts at 0: the first advance gives the increment, the second adds the seed.
    number = _next(lb, b.add(increment, first), increment)
    b.store(number, state, align=8)
    b.store(increment, b.gep(state, [lb.i64(1)], source_etype=_I128), align=8)
    b.ret_void()


def _word(number: int) -> Value:
    return ir.Constant(I32, number & 2**32 - 1)


class _Hash:
    """Hash of ``SeedSequence``: its multiplier changes with every word."""

    def __init__(self, lb: LoopBuilder, start: int, factor: int) -> None:
        self._lb, self._constant, self._factor = lb, start, factor

    def __call__(self, word: Value) -> Value:
        b = self._lb.b
        word = b.xor(word, _word(self._constant))
        self._constant = self._constant * self._factor & 2**32 - 1
        return _folded(self._lb, b.mul(word, _word(self._constant)))


def _folded(lb: LoopBuilder, word: Value) -> Value:
    return lb.b.xor(word, lb.b.lshr(word, _word(16)))


def _mixed_pool(lb: LoopBuilder, entropy: list[Value]) -> list[Value]:
    hashed = _Hash(lb, _HASH, _HASH_FACTOR)
    pool = [hashed(word) for word in entropy]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = _mixed(lb, pool[target], hashed(pool[source]))
    return pool


def _mixed(lb: LoopBuilder, x: Value, y: Value) -> Value:
    b = lb.b
    return _folded(lb, b.sub(b.mul(x, _word(_LEFT)), b.mul(y, _word(_RIGHT))))


def _words(lb: LoopBuilder, pool: list[Value]) -> list[Value]:
    hashed = _Hash(lb, _OUT, _OUT_FACTOR)
    return [hashed(pool[i % _POOL]) for i in range(2 * _POOL)]


def _joined(lb: LoopBuilder, words: list[Value]) -> Value:
    """Four 32-bit words as one 128-bit number, the more significant 64 bits first."""
    b = lb.b
    number: Value = ir.Constant(_I128, 0)
    for word, shift in zip(words, (64, 96, 0, 32)):
        wide = b.zext(word, _I128)
        number = b.or_(number, b.shl(wide, ir.Constant(_I128, shift)))
    return number

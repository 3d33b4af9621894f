"""The time of every step of a run, noted by the thread that runs them, without leaving native code.

In: the driver of a compiled plan. Out: seconds per step. Only the calling thread notes times; the
workers run what they always run, so a watched run is as fast as any other (a look at the clock
costs about 25 ns).
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from ..target import Target
from . import llvmir as ir
from .builder import I32, I64, PTR, VOID, LoopBuilder
from .jit import Library, compile_object

_WATCH = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3, ctypes.c_void_p)


class Stopwatch:
    """``run`` has the arguments of the driver's ``run``; ``seconds`` are those of its last call."""

    def __init__(self, driver: Any, target: Target) -> None:
        self._run = ctypes.c_int64(driver.library.address("run"))
        self._library = Library([compile_object(str(_emit_watch(target)), target)], target)
        self._watch = _WATCH(self._library.address("watch"))
        self._stamps = (ctypes.c_int64 * 2)()
        self._count = 0

    def run(self, steps: int, barrier: int, first: int, last: int, tid: int, threads: int) -> None:
        """Steps [first, last) as thread 0 of ``threads``."""
        assert tid == 0, "a stopwatch runs on the calling thread"
        self._count = last - first
        if len(self._stamps) < 2 * (self._count + 1):
            self._stamps = (ctypes.c_int64 * (2 * (self._count + 1)))()
        run = ctypes.addressof(self._run)
        self._watch(run, steps, barrier, first, last, threads, self._stamps)

    @property
    def seconds(self) -> list[float]:
        """Seconds from the end of the step before (or the start) to the end of each step."""
        stamps = self._stamps
        times = [stamps[2 * i] + 1e-9 * stamps[2 * i + 1] for i in range(self._count + 1)]
        origin = stamps[0]
        times = [t - origin for t in times]
        return [after - before for before, after in zip(times, times[1:])]


def _emit_watch(target: Target) -> ir.Module:
    """watch(run, steps, barrier, first, last, threads, stamps): a time before, and after each step.

    ``run`` points to the address of the driver's function: it is in another library.
    """
    module = ir.Module("watch")
    module.triple = target.triple
    signature = ir.FunctionType(VOID, [PTR] * 3 + [I64] * 3 + [PTR])
    function = ir.Function(module, signature, "watch")
    run, steps, barrier, first, last, threads, stamps = function.args
    b = LoopBuilder(function, target)
    clock = b.declare("clock_gettime", I32, [I32, PTR])
    kind = ir.FunctionType(VOID, [PTR, PTR] + [I64] * 4)
    driver = b.b.load(run, typ=kind.as_pointer(), align=8)

    def note(position: Any) -> None:
        record = b.b.gep(stamps, [b.i64(b.mul(position, 2))], source_etype=I64)
        b.b.call(clock, [ir.Constant(I32, time.CLOCK_MONOTONIC), record])

    note(0)
    with b.loop("step", first, last) as step:
        following = b.add(step.index, 1)
        b.b.call(driver, [steps, barrier, step.index, following, b.i64(0), threads])
        note(b.sub(following, first))
    b.b.ret_void()
    return module

"""The peak rates of one core of this host, measured by two small kernels.

Input: a target. Output: multiply-adds per second with all operands in registers, and bytes per
second read from memory. All printed shares of the peak refer to these rates.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from .._core.target import Target
from .llvm import ir
from .llvm.builder import LoopBuilder
from .llvm.jit import compile_object
from .llvm.library import Library
from .llvm.types import I64, PTR, VOID

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_ROUNDS = 20_000
_UNROLL = 4
_MEGABYTES = 128  # more than the last cache of most hosts
_REPEATS = 15


@lru_cache(maxsize=8)
def measure_flops(target: Target) -> float:
    """Floating-point operations per second of one core, a multiply-add counted as two."""
    chains = _chains(target)
    result = np.zeros(16 * chains, np.float32)
    address = result.ctypes.data
    seconds = _least_seconds(_emit_chains(target), target, lambda run: run(address, _ROUNDS))
    return 2.0 * _ROUNDS * _UNROLL * chains * target.lanes / seconds


@lru_cache(maxsize=8)
def measure_read_bandwidth(target: Target) -> float:
    """Bytes per second that one core reads from memory, in order."""
    data = np.ones(_MEGABYTES << 18, np.float32)
    rounds = data.size // (_reads(target) * target.lanes)
    address = data.ctypes.data
    seconds = _least_seconds(_emit_reads(target), target, lambda run: run(address, rounds))
    return 4.0 * rounds * _reads(target) * target.lanes / seconds


def _least_seconds(module: ir.Module, target: Target, call: Callable[[Any], None]) -> float:
    """The least CPU time of several calls, which excludes time taken by other programs."""
    library = Library([compile_object(str(module), target)], target, ["measure"])
    run = _FUNCTION(library.address("measure"))
    times = []
    call(run)
    for _ in range(_REPEATS):
        start = time.thread_time()
        call(run)
        times.append(time.thread_time() - start)
    library.close()
    return min(times)


def _chains(target: Target) -> int:
    """Independent sums: enough to hide the latency of an FMA, few enough to stay in registers."""
    return target.vector_registers * 3 // 4


def _reads(target: Target) -> int:
    """Vectors read in one round."""
    return target.vector_registers // 2


def _emit_chains(target: Target) -> ir.Module:
    """measure(y, rounds): every chain is c = c * a + b, repeatedly."""
    module, b, (y, rounds) = _function(target)
    chains = _chains(target)
    a, addend = b.load(y), b.load(y, target.lanes)
    start = [b.splat(float(i)) for i in range(chains)]  # equal chains would become one
    with b.loop("rounds", 0, rounds, carry=start) as loop:
        values = loop.carried
        for _ in range(_UNROLL):
            values = [b.fma(value, a, addend) for value in values]
        loop.yields(values)
    for i, value in enumerate(loop.results):
        b.store(value, y, i * target.lanes)
    b.b.ret_void()
    return module


def _emit_reads(target: Target) -> ir.Module:
    """measure(x, rounds): the sum of x, stored in its first element."""
    module, b, (x, rounds) = _function(target)
    count = _reads(target)
    with b.loop("rounds", 0, rounds, carry=[b.splat(0.0)] * count) as loop:
        base = b.mul(loop.index, count * target.lanes)
        loop.yields(
            [
                b.b.fadd(value, b.load(x, b.add(base, i * target.lanes)))
                for i, value in enumerate(loop.carried)
            ]
        )
    total = loop.results[0]
    for value in loop.results[1:]:
        total = b.b.fadd(total, value)
    b.store(total, x)
    b.b.ret_void()
    return module


def _function(target: Target) -> tuple[ir.Module, LoopBuilder, tuple[ir.Argument, ...]]:
    module = ir.Module("measure")
    module.triple = target.triple
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, I64]), "measure")
    return module, LoopBuilder(function, target), function.args

"""The CPU's description of itself, on x86-64: equal for CPUs with equal code.

It is that of the CPU that executes this process: emulators such as valgrind have other features
than ``/proc/cpuinfo`` of the system.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator

from .memory import CODE, address_of, new_block, protect

# void cpuid(leaf, subleaf, results); behind it uint32_t xgetbv(): registers that the system saves.
_CPUID = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3").ljust(32)
_XGETBV = bytes.fromhex("31c9 0f01d0 c3")
_FIRST, _HAS_XGETBV = 1, 1 << 27
# The leaves, with their subleaves, from which LLVM determines name and features of a CPU.
_BASIC = (
    *((0, 0), (_FIRST, 0), (7, 0), (7, 1), (0xD, 0), (0xD, 1)),
    *((0x14, 0), (0x19, 0), (0x1E, 1), (0x24, 0)),
)
_EXTENDED = ((0x80000000, 0), (0x80000001, 0), (0x80000008, 0))
_OF_ANY_CORE = 0x00FFFFFF  # of the second number of the first leaf; the rest numbers the core
_Ask = Callable[[int, int, object], None]


def cpu_description() -> str:
    """The numbers of all leaves that decide which code a CPU can execute."""
    block = new_block(mmap.PAGESIZE)
    start = address_of(block)
    ctypes.memmove(start, _CPUID + _XGETBV, len(_CPUID + _XGETBV))
    protect(start, mmap.PAGESIZE, CODE)
    ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(start)
    saved = ctypes.CFUNCTYPE(ctypes.c_uint32)(start + len(_CPUID))
    found = dict([*_answers(ask, _BASIC), *_answers(ask, _EXTENDED)])
    registers = saved() if found[_FIRST, 0][2] & _HAS_XGETBV else 0
    block.close()
    return f"{found} {registers}"


def _answers(
    ask: _Ask, leaves: tuple[tuple[int, int], ...]
) -> Iterator[tuple[tuple[int, int], tuple[int, ...]]]:
    """The numbers of each leaf. The first leaf begins with the number of the last one."""
    largest = leaves[0][0]
    for leaf, subleaf in leaves:
        if leaf > largest:
            continue
        numbers = (ctypes.c_uint32 * 4)()
        ask(leaf, subleaf, numbers)
        if leaf == leaves[0][0]:
            largest = numbers[0]
        if leaf == _FIRST:
            numbers[1] &= _OF_ANY_CORE
        yield (leaf, subleaf), tuple(numbers)

"""Machine code in memory from relocatable objects, without LLVM: ELF of x86-64 on Linux.

Input: objects as LLVM emits them. Output: their sections in memory, relocated, and the addresses of
their functions. LLVM's linker does the same for other systems; loading LLVM takes 30 ms, which a
process saves that finds all of its objects in the cache.

Tables for unwinding are not loaded: no exception passes through kernels.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from ...errors import InternalError
from .memory import CODE, CONSTANTS, VARIABLES, address_of, new_block, process, protect

_SECTION = struct.Struct("<4xIQ8xQQIIQ8x")
_SYMBOL = np.dtype("<u4, u1, u1, <u2, <i8, <u8")
_RELOCATION = np.dtype("<i8, <u4, <u4, <i8")
# Kinds of sections, and their flags.
_SYMBOLS, _RELOCATIONS, _ZEROS, _UNWINDING = 2, 4, 8, 0x70000001
_IS_WRITABLE, _IS_LOADED, _IS_CODE = 1, 2, 4
# Kinds of relocations: the address of a symbol; the distance of a symbol, or of a slot that has its
# address.
_ADDRESS, _DISTANCES, _SLOTS = 1, (2, 4), (9, 41, 42)
# A stub is a jump to the address in the slot behind it. Calls reach functions within 2 GB directly,
# those of other libraries through stubs.
_JUMP = np.frombuffer(bytes.fromhex("ff25020000006690"), np.uint8)
_STUB, _SLOT = 16, 8
_LINE = 64  # code of an object begins with a cache line
_RIGHTS = (CODE, CONSTANTS, VARIABLES)


class Loaded:
    """Objects in memory: ``addresses`` of the functions with these names.

    ``provided`` are addresses of functions outside of them; the process has the others. Raises
    InternalError for a missing name, or a kind of relocation that is not known.
    """

    def __init__(
        self, codes: Sequence[bytes], names: Sequence[str], provided: Mapping[str, int]
    ) -> None:
        objects = [*map(_Object, codes)]
        bounds, stubs = _placed(objects)
        self._block = new_block(bounds[-1])
        start, memory = address_of(self._block), np.frombuffer(self._block, np.uint8)
        for each in objects:
            each.copy_to(memory, start)
        public = {name: at for each in objects for name, at in each.public()}
        for each, first in zip(objects, stubs):
            each.relocate(memory, start, first, {**provided, **public})
        for (low, high), rights in zip(pairwise(bounds), _RIGHTS):
            protect(start + low, high - low, rights)
        self.addresses = {name: _address_of(name, public) for name in names}

    def close(self) -> None:
        """Free the memory."""
        self._block.close()


class _Section(NamedTuple):
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int

    @property
    def part(self) -> int:
        """The index of its rights in ``_RIGHTS``; -1 if it is not loaded."""
        if not self.flags & _IS_LOADED or self.kind == _UNWINDING:
            return -1
        return 0 if self.flags & _IS_CODE else 2 if self.flags & _IS_WRITABLE else 1


class _Object:
    """The tables of an object.

    starts   for each section its offset in memory, later its address
    stubbed  numbers of the symbols that have a stub: undefined ones, and those read through slots
    """

    def __init__(self, code: bytes) -> None:
        (start,) = struct.unpack_from("<Q", code, 0x28)
        (count,) = struct.unpack_from("<H", code, 0x3C)
        self._code = code
        table = code[start : start + count * _SECTION.size]
        self.sections = [*map(_Section._make, _SECTION.iter_unpack(table))]
        self.starts = np.zeros(count, np.int64)
        symbols = next(s for s in self.sections if s.kind == _SYMBOLS)
        self._strings = self.sections[symbols.link].offset
        rows = self._rows(symbols, _SYMBOL)
        self._names, self._values = rows["f0"], rows["f4"]
        self._holders = np.where(rows["f3"] < count, rows["f3"], 0)
        is_public = rows["f1"] >> 4 > 0
        self._public = np.flatnonzero(is_public & (self._holders > 0))
        self._relocations = [
            (s.info, self._rows(s, _RELOCATION))
            for s in self.sections
            if s.kind == _RELOCATIONS and self.sections[s.info].part >= 0
        ]
        read = [rows["f2"][_is_in(rows["f1"], _SLOTS)].tolist() for _, rows in self._relocations]
        undefined = np.flatnonzero(is_public & (self._holders == 0)).tolist()
        self.stubbed = sorted({*undefined, *chain(*read)})

    def _rows(self, section: _Section, kind: np.dtype) -> np.ndarray:
        return np.frombuffer(self._code, kind, section.size // kind.itemsize, section.offset)

    def _name(self, symbol: int) -> str:
        start = self._strings + int(self._names[symbol])
        return self._code[start : self._code.index(b"\0", start)].decode()

    def public(self) -> Iterator[tuple[str, int]]:
        """Names and addresses of its public symbols."""
        for symbol in self._public.tolist():
            at = self.starts[self._holders[symbol]] + self._values[symbol]
            yield self._name(symbol), int(at)

    def copy_to(self, memory: np.ndarray, base: int) -> None:
        """Copy the sections; ``memory`` is at the address ``base``."""
        for section, start in zip(self.sections, self.starts.tolist()):
            if section.part >= 0 and section.kind != _ZEROS:
                data = np.frombuffer(self._code, np.uint8, section.size, section.offset)
                memory[start : start + section.size] = data
        self.starts += base

    def relocate(self, memory: np.ndarray, base: int, first: int, known: Mapping[str, int]) -> None:
        """Write the addresses of symbols; the stubs begin at the offset ``first``."""
        addresses = np.where(self._holders > 0, self.starts[self._holders] + self._values, 0)
        reached, slots = addresses.copy(), np.zeros_like(addresses)
        for number, symbol in enumerate(self.stubbed):
            stub = first + number * _STUB
            if not self._holders[symbol]:
                addresses[symbol] = _address_of(self._name(symbol), known)
                reached[symbol] = base + stub
            slots[symbol] = base + stub + _SLOT
            memory[stub : stub + _SLOT] = _JUMP
            memory[stub + _SLOT : stub + _STUB].view(np.int64)[0] = addresses[symbol]
        for holder, rows in self._relocations:
            offsets, kinds, symbols, addends = (rows[f"f{i}"] for i in range(4))
            places = self.starts[holder] + offsets
            is_slot, is_distance = _is_in(kinds, _SLOTS), _is_in(kinds, _DISTANCES)
            is_address = kinds == _ADDRESS
            if not np.all(is_slot | is_distance | is_address):
                raise InternalError(f"bug in hybridjit: relocations {sorted({*kinds.tolist()})}")
            targets = np.where(is_slot, slots[symbols], reached[symbols]) + addends - places
            _write(memory, (places - base)[~is_address], targets[~is_address].astype("<i4"))
            values = (addresses[symbols] + addends)[is_address]
            _write(memory, (places - base)[is_address], values)


def _placed(objects: Sequence[_Object]) -> tuple[list[int], list[int]]:
    """Set the offsets of all sections; returns the bounds of the parts with equal rights, and for
    each object the offset of its first stub."""
    bounds, stubs, end = [0], [], 0
    for part in range(len(_RIGHTS)):
        for each in objects:
            for number, section in enumerate(each.sections):
                if section.part == part:
                    end = _up(end, max(section.alignment, _LINE))
                    each.starts[number] = end
                    end += section.size
        if part == 0:
            for each in objects:
                stubs.append(_up(end, _STUB))
                end = stubs[-1] + _STUB * len(each.stubbed)
        end = _up(end, mmap.PAGESIZE)
        bounds.append(end)
    return bounds, stubs


def _is_in(kinds: np.ndarray, some: Sequence[int]) -> np.ndarray:
    """As ``np.isin``, which loads modules for 14 ms."""
    return np.any([kinds == kind for kind in some], axis=0)  # type: ignore[no-any-return]


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _write(memory: np.ndarray, offsets: np.ndarray, values: np.ndarray) -> None:
    """Write values of equal size at these offsets, which need no alignment."""
    raw = values.view(np.uint8).reshape(-1, values.itemsize)
    memory[offsets[:, np.newaxis] + np.arange(values.itemsize)] = raw


def _address_of(name: str, known: Mapping[str, int]) -> int:
    """The address of an undefined symbol. Raises InternalError if nothing defines it."""
    if name in known:
        return known[name]
    try:
        return ctypes.cast(getattr(process(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        text = f"bug in hybridjit: the compiled code does not link: no symbol {name!r}"
        raise InternalError(text) from None

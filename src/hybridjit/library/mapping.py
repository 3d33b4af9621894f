"""Weights of a context: constant data next to the code, or a mapped file.

A mapped file is shared by all contexts and processes, and its pages are read on demand.
"""

from __future__ import annotations

from ..codegen.emit.pool_memory import load_slot
from ..codegen.llvm import ir
from ..codegen.llvm.builder import LoopBuilder
from ..codegen.llvm.types import I8, I32, I64, PTR, VOID, Value
from .functions import Emitter, address, code, is_null, number_of, put, return_when
from .interface import FOREIGN, OPEN
from .layout import MAPPED, MAPPING, WEIGHTS
from .weights_file import HEAD, PAGE

SECTION = ".rodata.hybridjit"
# Constants of Linux, equal on all supported CPUs.
# O_CLOEXEC, O_NONBLOCK (a pipe opens without blocking, and its size is refused) and O_NOCTTY.
_OPENED = 0o2000000 | 0o4000 | 0o400
_SEEK_SET, _SEEK_END = 0, 2
_PROT_READ, _MAP_PRIVATE = 1, 2


def emit_inside(emitter: Emitter) -> None:
    """int open_weights(context, path) for weights in a section of the object.

    The section holds 64 zeros until :func:`.elf.with_section` inserts the weights. LLVM must not
    treat them as constants, therefore their address is loaded from a record.
    """
    data = ir.Bytes(emitter.module, bytes(64), "weights", SECTION)
    place = ir.Record(emitter.module, [data], "weights_place", hidden=True)
    lb, (context, path) = emitter.function("open_weights", I32, [PTR, PTR])
    return_when(lb, lb.b.not_(is_null(lb, path)), OPEN)
    put(lb, context, WEIGHTS, load_slot(lb, place, 0))
    lb.b.ret(code(0))
    lb, _ = emitter.function("close_weights", VOID, [PTR])
    lb.b.ret_void()


def emit_mapped(emitter: Emitter, head: bytes, nbytes: int) -> None:
    """int open_weights(context, path) for weights in a file that begins with ``head``."""
    ir.Bytes(emitter.module, head, "weights_head")
    _emit_map(emitter, PAGE + nbytes)
    lb, (context, path) = emitter.function("open_weights", I32, [PTR, PTR])
    b = lb.b
    return_when(lb, is_null(lb, path), OPEN)
    opening = lb.declare("open", I32, [PTR, I32])
    file = b.call(opening, [path, ir.Constant(I32, _OPENED)])
    return_when(lb, b.icmp_signed("<", file, code(0)), OPEN)
    result = b.call(emitter.known("map_weights"), [context, file])
    b.call(lb.declare("close", I32, [I32]), [file])
    b.ret(result)
    _emit_close(emitter)


def _emit_map(emitter: Emitter, size: int) -> None:
    """int map_weights(context, file): map the whole file, if size and head are right."""
    lb, (context, file) = emitter.function("map_weights", I32, [PTR, I32])
    b = lb.b
    seek = lb.declare("lseek", I64, [I32, I64, I32])
    found = b.call(seek, [file, lb.i64(0), ir.Constant(I32, _SEEK_END)])
    return_when(lb, b.icmp_signed("!=", found, lb.i64(size)), FOREIGN)
    mapping = lb.declare("mmap", PTR, [PTR, I64, I32, I32, I32, I64])
    how = [ir.Constant(I32, n) for n in (_PROT_READ, _MAP_PRIVATE)]
    anywhere = ir.Value(PTR, "null")
    start = b.call(mapping, [anywhere, lb.i64(size), *how, file, lb.i64(0)])
    return_when(lb, b.icmp_signed("==", number_of(lb, start), lb.i64(-1)), OPEN)
    compare = lb.declare("memcmp", I32, [PTR, PTR, I64])
    differs = b.call(compare, [start, emitter.known("weights_head"), lb.i64(HEAD)])
    with lb.when(b.icmp_signed("!=", differs, code(0))):
        _unmap(lb, start, lb.i64(size))
        b.ret(code(FOREIGN))
    put(lb, context, MAPPED, lb.i64(size))
    put(lb, context, MAPPING, number_of(lb, start))
    put(lb, context, WEIGHTS, b.gep(start, [lb.i64(PAGE)], source_etype=I8))
    b.ret(code(0))


def _unmap(lb: LoopBuilder, start: Value, nbytes: Value) -> None:
    lb.b.call(lb.declare("munmap", I32, [PTR, I64]), [start, nbytes])


def _emit_close(emitter: Emitter) -> None:
    """void close_weights(context)"""
    lb, (context,) = emitter.function("close_weights", VOID, [PTR])
    nbytes = load_slot(lb, context, MAPPED)
    with lb.when(lb.b.icmp_signed("!=", nbytes, lb.i64(0))):
        _unmap(lb, address(lb, load_slot(lb, context, MAPPING)), nbytes)
    lb.b.ret_void()

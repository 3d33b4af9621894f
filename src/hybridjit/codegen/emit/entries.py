"""Entries: built-in functions of Python, for calls with minimal overhead.

``connect(*arrays)`` stores the addresses of a call's arrays in the kernels' arguments, and
``run_all(*arrays)`` then runs all steps on the calling thread. Python calls them like its built-in
functions: LeNet's call takes 0.9 us less than through ctypes with addresses looked up by Python
(AMD Zen 5).

Both are bound to a record, a bytes object with :data:`FIELDS`. The table of places, to which it
refers, has three integers for each: the number of an array, the slot, and the offset to add to the
array's address.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..._core.target import Target
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.library import Library
from ..llvm.types import I8, I32, I64, PTR, VOID, Type, Value
from .pool_memory import load_slot, new_function, null, slot_at

# Fields of a record, 64 bits each: None; the class of arrays, and the offset of the data address in
# such an object; TypeError and its message; the job, which is steps, first, last and main thread;
# the address of the slots; the number of places and their address.
FIELDS = (
    *("none", "ndarray", "data", "type_error", "text"),
    *("steps", "first", "last", "main_thread", "slots", "count", "places"),
)
FROM_PYTHON = (
    *("PyBytes_AsString", "PyErr_Occurred", "PyErr_SetString", "PyType_IsSubtype", "Py_IncRef"),
)
_TEXT = ctypes.create_string_buffer(b"bug in hybridjit: a kernel's operand is not an array")
_METH_FASTCALL = 0x80


class _MethodDef(ctypes.Structure):
    """PyMethodDef of https://docs.python.org/3/c-api/structures.html."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class BoundEntries(NamedTuple):
    """The functions of a record, and the addresses of its numbers of steps and of places."""

    connect: Callable[..., None]
    run_all: Callable[..., None]
    last_at: int
    count_at: int


class Entries:
    """Makes the functions of records. It must outlive them."""

    def __init__(self, library: Library) -> None:
        self._definitions = {
            name: _MethodDef(name.encode(), library.address(name), _METH_FASTCALL, None)
            for name in ("connect", "run_all")
        }
        # A private prototype: other modules may set the types of the shared function object.
        new = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )
        self._new = new(("PyCFunction_NewEx", ctypes.pythonapi))

    def bound(
        self, steps: int, count: int, main_thread: int, slots: int, places: int, filled: int
    ) -> BoundEntries:
        """``connect`` and ``run_all`` of a new record.

        steps        the address of the table of ``count`` steps
        main_thread  the thread whose calls handle signals
        slots        the address of the kernels' arguments
        places       the address of the table of ``filled`` places, rows of: the number of an array,
                     inputs first; a slot; and the offset to add to the array's address
        """
        # The data address is the first field that NumPy adds to an object, see
        # https://numpy.org/doc/stable/reference/c-api/types-and-structures.html.
        known = [id(None), id(np.ndarray), object.__basicsize__, id(TypeError)]
        fields = [ctypes.addressof(_TEXT), steps, 0, count, main_thread, slots, filled, places]
        record = _bytes_of([*known, *fields])
        connect, run_all = (
            self._new(ctypes.addressof(definition), record, None)
            for definition in self._definitions.values()
        )
        start = id(record) + bytes.__basicsize__ - 1  # of the first byte; a zero follows the last
        last_at, count_at = (start + 8 * FIELDS.index(field) for field in ("last", "count"))
        return BoundEntries(connect, run_all, last_at, count_at)


def _bytes_of(numbers: Sequence[int]) -> bytes:
    return bytes((ctypes.c_int64 * len(numbers))(*numbers))


def emit_entries(module: ir.Module, target: Target, call: ir.Function) -> None:
    """Object *connect(record, arrays, count) and run_all(record, arrays, count)."""
    for name, runs in (("connect", False), ("run_all", True)):
        lb, function = new_function(module, target, name, PTR, [PTR, PTR, I64])
        numbers = lb.b.call(lb.declare("PyBytes_AsString", PTR, [PTR]), function.args[:1])
        record = _Record(lb, numbers)
        record.emit_connect(*function.args[1:])
        if runs:
            lb.b.call(call, [record.place_of("steps")])
            raised = lb.b.call(lb.declare("PyErr_Occurred", PTR, []), [])
            with lb.when(lb.b.icmp_unsigned("!=", raised, null())):
                lb.b.ret(null())  # a signal handler has raised
        none = record.load("none", PTR)
        lb.b.call(lb.declare("Py_IncRef", VOID, [PTR]), [none])
        lb.b.ret(none)


class _Record:
    """The fields of a record, for the function being emitted."""

    def __init__(self, lb: LoopBuilder, numbers: Value) -> None:
        self._lb, self._numbers = lb, numbers

    def place_of(self, field: str) -> Value:
        return slot_at(self._lb, self._numbers, FIELDS.index(field))

    def load(self, field: str, kind: Type = I64) -> Value:
        return load_slot(self._lb, self._numbers, FIELDS.index(field), kind)

    def emit_connect(self, arrays: Value, count: Value) -> None:
        """Store the addresses of ``count`` arrays in their places; other places are unchanged."""
        lb = self._lb
        data, slots, places = self.load("data"), self.load("slots", PTR), self.load("places", PTR)
        with lb.loop("place", 0, self.load("count")) as loop:
            row = lb.mul(loop.index, 3)
            number, slot, offset = (load_slot(lb, places, lb.add(row, i)) for i in range(3))
            with lb.when(lb.less(number, count)):
                array = load_slot(lb, arrays, number, PTR)
                self._emit_require_array(array, data)
                address = self._field(array, data, I64)
                lb.b.store(lb.add(address, offset), slot_at(lb, slots, slot), align=8)

    def _field(self, array: Value, offset: Value, kind: Type) -> Value:
        field = self._lb.b.gep(array, [offset], source_etype=I8)
        return self._lb.b.load(field, typ=kind, align=8)

    def _emit_require_array(self, array: Value, data: Value) -> None:
        """Raise TypeError unless it is an array; the class is the last field of PyObject."""
        lb, b, ndarray = self._lb, self._lb.b, self.load("ndarray", PTR)
        kind = self._field(array, lb.sub(data, 8), PTR)
        with lb.when(b.icmp_unsigned("!=", kind, ndarray)):
            is_subtype = lb.declare("PyType_IsSubtype", I32, [PTR, PTR])
            is_array = b.zext(b.call(is_subtype, [kind, ndarray]), I64)
            with lb.when(b.icmp_signed("==", is_array, lb.i64(0))):
                set_string = lb.declare("PyErr_SetString", VOID, [PTR, PTR])
                b.call(set_string, [self.load("type_error", PTR), self.load("text", PTR)])
                b.ret(null())

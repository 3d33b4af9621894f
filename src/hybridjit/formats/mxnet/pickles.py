"""Pickle reader without execution: plain values, and names that the caller provides.

Input: untrusted bytes. Output: the value. Only the caller's :class:`Names` resolves classes and
functions; a pickle cannot allocate memory out of proportion to its length.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...errors import ModelFormatError

_KEYS = (int, str, bytes, float, bool, type(None))  # types of a dictionary's keys


class Names(NamedTuple):
    """Names that a pickle may use, and the function that sets the state of objects.

    find   ``find(module, name)``: a class, or a function to call in its place, or None
    build  ``build(target, state)``
    """

    find: Callable[[str, str], Callable[..., object] | None]
    build: Callable[[object, object], None]


class _Named(NamedTuple):
    """Class or function on the stack, which can be called but not stored."""

    called: Callable[..., object]


_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read_pickle(data: bytes, names: Names) -> Any:
    """The value. Raises ModelFormatError for malformed, unknown or other than plain contents."""
    machine = _Machine(names)
    try:
        for opcode, argument, _ in pickletools.genops(data):
            machine.do(opcode.name, argument)
        return machine.result()
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ModelFormatError(f"malformed pickle: {error}") from None


class _Machine:
    """Stack and memory of a pickle, with one method per instruction."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._stack: list[Any] = []
        self._memo: dict[int, object] = {}

    def result(self) -> Any:
        if len(self._stack) != 1:
            raise ModelFormatError(f"a pickle must produce one value, got {len(self._stack)}")
        return self._plain(self._stack[0])

    def do(self, name: str, argument: Any) -> None:
        """Execute one instruction."""
        if name in _VALUES:
            self._stack.append(bytes(argument) if name == "BYTEARRAY8" else argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            count = _TUPLES[name]
            parts = tuple(map(self._plain, self._stack[-count:]))
            if len(parts) != count:
                raise ModelFormatError("malformed pickle: a tuple of missing values")
            self._stack[-count:] = [parts]
        else:
            perform = getattr(self, f"_do_{name.lower()}", None)
            if perform is None:
                raise ModelFormatError(f"a pickle of states does not contain {name}")
            perform(argument)

    def _plain(self, value: object) -> object:
        """Value that can be stored. Raises ModelFormatError for marks, classes and functions."""
        if value is _MARK or isinstance(value, _Named):
            raise ModelFormatError("malformed pickle: a class or a mark in place of a value")
        return value

    def _pop(self) -> Any:
        return self._plain(self._stack.pop())

    def _pop_to_mark(self) -> list[Any]:
        found = []
        while (value := self._stack.pop()) is not _MARK:
            found.append(self._plain(value))
        return found[::-1]

    # ---- instructions without effect, marks and memory ------------------------------------------

    def _do_proto(self, argument: int) -> None:
        """Ignore the version: the instructions are sufficient."""

    _do_frame = _do_proto
    _do_stop = _do_proto

    def _do_mark(self, argument: None) -> None:
        self._stack.append(_MARK)

    def _do_memoize(self, argument: None) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _do_binput(self, argument: int) -> None:
        self._memo[argument] = self._stack[-1]

    _do_put = _do_long_binput = _do_binput

    def _do_binget(self, argument: int) -> None:
        self._stack.append(self._memo[argument])

    _do_get = _do_long_binget = _do_binget

    # ---- containers -----------------------------------------------------------------------------

    def _do_empty_tuple(self, argument: None) -> None:
        self._stack.append(())

    def _do_empty_list(self, argument: None) -> None:
        self._stack.append([])

    def _do_empty_dict(self, argument: None) -> None:
        self._stack.append({})

    def _do_tuple(self, argument: None) -> None:
        parts = self._pop_to_mark()
        self._stack.append(tuple(parts))

    def _do_append(self, argument: None) -> None:
        value = self._pop()
        self._list().append(value)

    def _do_appends(self, argument: None) -> None:
        values = self._pop_to_mark()
        self._list().extend(values)

    def _do_setitem(self, argument: None) -> None:
        value, key = self._pop(), self._pop()
        self._set_items([key, value])

    def _do_setitems(self, argument: None) -> None:
        self._set_items(self._pop_to_mark())

    def _list(self) -> list[Any]:
        if not isinstance(self._stack[-1], list):
            raise ModelFormatError("malformed pickle: append to an object that is not a list")
        return self._stack[-1]

    def _set_items(self, flat: Sequence[object]) -> None:
        target = self._stack[-1]
        if type(target) is not dict or len(flat) % 2:
            raise ModelFormatError(
                "malformed pickle: item assignment to an object that is not a dictionary"
            )
        for key, value in zip(flat[::2], flat[1::2]):
            if not isinstance(key, _KEYS):
                raise ModelFormatError(f"a key must be a number or a string, got {type(key)}")
            target[key] = value

    # ---- names and calls
    # --------------------------------------------------------------------------

    def _do_global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._name(module, name)

    def _do_stack_global(self, argument: None) -> None:
        name, module = self._pop(), self._pop()
        self._name(module, name)

    def _name(self, module: object, name: object) -> None:
        found = None
        if isinstance(module, str) and isinstance(name, str):
            found = self._names.find(module, name)
        if found is None:
            raise ModelFormatError(f"a pickle of states does not contain {module}.{name}")
        self._stack.append(_Named(found))

    def _do_reduce(self, argument: None) -> None:
        given, target = self._pop(), self._stack.pop()
        if not isinstance(target, _Named) or isinstance(target.called, type):
            raise ModelFormatError("malformed pickle: the callee is not an allowed function")
        self._stack.append(target.called(*given))

    def _do_newobj(self, argument: None) -> None:
        given, target = self._pop(), self._stack.pop()
        if not isinstance(target, _Named) or not isinstance(target.called, type) or given:
            raise ModelFormatError(
                "malformed pickle: an object of a type that is not an allowed class"
            )
        self._stack.append(object.__new__(target.called))

    def _do_build(self, argument: None) -> None:
        state = self._pop()
        self._names.build(self._plain(self._stack[-1]), state)

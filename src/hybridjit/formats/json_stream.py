"""JSON from strangers, value by value, within the memory that its length allows.

In: bytes. Out: the members of objects and the elements of lists, one at a time. What is parsed in
one go is a small window of the text, decoded by itself, so that one wide character widens little
of it; a value that is longer is looked through before it is parsed.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from copy import copy
from typing import Any, NoReturn, TypeAlias

from ..errors import ModelFormatError

# A dictionary, a list, a text, a number, a truth value or None, as the text has it.
JSON: TypeAlias = Any

SLACK = 64 << 20  # what reading may take beyond twice the length of what is read

_WINDOW = 1 << 16  # bytes that are decoded together
_CAREFUL = 1 << 20  # bytes beyond which a value is looked through before it is parsed
_MAX_DIGITS = 19
_NEAR_END = 16  # characters: what is cut off there may be a number, a word or an escape
_BLANKS = re.compile(r"[ \t\n\r]*")
_WIDTHS = {4: re.compile(rb"[\xf0-\xff]"), 2: re.compile(rb"[\xc4-\xef]")}  # bytes a character
_SURROGATE = re.compile(rb"\\u[dD][89abAB]")  # half of a character of four bytes
_ESCAPE = 6  # bytes
# Up to 500 numbers, words and lists of them: parsed together, each takes a fifth of the time.
_FLAT = re.compile(
    r"((?:(?:\[[^][{}\"]*\]|[^][{}\",\s]+)[ \t\n\r]*,[ \t\n\r]*){1,499}"
    r"(?:\[[^][{}\"]*\]|[^][{}\",\s]+))[ \t\n\r]*,"
)
_PIECE = 1 << 18  # bytes that are looked through together

# Bytes that CPython takes at most, all versions: for a string beside its characters, and for what
# a sign outside strings stands for. A key has a place in its object and one in the parser's memory.
_STRING = 80
_SIGNS = {b"{": 256, b"[": 144, b",": 56, b":": 240}


class Budget:
    """What reading may take: twice the length of the text and 64 MB."""

    def __init__(self, length: int) -> None:
        self.limit = 2 * length + SLACK
        self.left = self.limit

    def take(self, count: int, what: str) -> None:
        """Raises ModelFormatError when what was taken is more than there is."""
        self.left -= count
        if self.left < 0:
            raise ModelFormatError(
                f"{what} would make reading take more than {self.limit} bytes, which is twice the "
                f"length of the text and {SLACK >> 20} MB"
            )


class JsonStream:
    """A place in a JSON text. Raises ModelFormatError for what is not JSON, or takes too much."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        self._data = data
        self._budget = budget
        budget.take(len(data), "the text")
        self._end = 0  # of the window, in bytes
        self._text = ""  # the window
        self._at = 0  # in the window
        self._decoder = json.JSONDecoder(strict=False, parse_int=_bounded_int)

    def peek(self) -> str:
        """The next character that is not blank; empty at the end of the text."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            assert blanks is not None
            self._at = blanks.end()
            if self._at < len(self._text) or self._end == len(self._data):
                return self._text[self._at : self._at + 1]
            self._decode(_WINDOW)

    def value(self) -> JSON:
        """The next value, whole."""
        self.peek()
        size = _WINDOW
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
                if end < len(self._text) - _NEAR_END or self._end == len(self._data):
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                if self._is_wrong(error):
                    self._fail(error.msg, error.pos)
            except RecursionError:
                raise ModelFormatError("lists or objects are nested too deeply") from None
            except ValueError as error:
                self._fail(str(error), self._at)
            self._decode(size)
            size *= 2

    def members(self) -> Iterator[str]:
        """The names in an object; whoever asks takes the value of each."""
        self._sign("{")
        sign = "," if self.peek() != "}" else self._sign("}")
        while sign == ",":
            if self.peek() != '"':
                self._fail("Expecting property name enclosed in double quotes", self._at)
            name = self.value()
            self._sign(":")
            yield name
            sign = self._sign(",}")

    def elements(self) -> Iterator[JSON]:
        """The values in a list."""
        self._sign("[")
        sign = "," if self.peek() != "]" else self._sign("]")
        while sign == ",":
            yield from self._run()
            yield self.value()
            sign = self._sign(",]")

    def _run(self) -> list[JSON]:
        """The elements from here on that are flat and followed by another, some of them."""
        self.peek()
        run = _FLAT.match(self._text, self._at)
        if run is None:
            return []
        try:
            found = self._decoder.decode(f"[{run.group(1)}]")
        except ValueError:
            return []  # one by one, it is found which is wrong
        self._at = run.end()
        return found

    def finish(self) -> None:
        """Nothing but blanks may follow."""
        if self.peek():
            self._fail("Extra data", self._at)

    def _sign(self, possible: str) -> str:
        found = self.peek()
        if not found or found not in possible:
            self._fail(f"Expecting {' or '.join(map(repr, possible))}", self._at)
        self._at += 1
        return found

    def _is_wrong(self, error: json.JSONDecodeError) -> bool:
        """Whether more text would not make it right."""
        if self._end == len(self._data):
            return True
        is_open = error.msg.startswith("Unterminated string")
        return not is_open and error.pos < len(self._text) - _NEAR_END

    def _fail(self, what: str, place: int) -> NoReturn:
        rest = len(self._text[place:].encode("utf-8", "surrogatepass"))
        raise ModelFormatError(f"not JSON: {what} at byte {self._end - rest}")

    def _decode(self, size: int) -> None:
        """Let the window begin where we are, and hold ``size`` bytes if there are so many."""
        start = self._end - len(self._text[self._at :].encode("utf-8"))
        self._text, self._at = "", 0
        end = min(start + size, len(self._data))
        if size > _CAREFUL:
            self._require_room(start, end)
        try:
            is_last = end == len(self._data)
            text, used = codecs.utf_8_decode(memoryview(self._data)[start:end], "strict", is_last)
        except UnicodeDecodeError as error:
            raise ModelFormatError(f"not UTF-8 at byte {start + error.start}") from None
        self._text = text
        self._end = start + used

    def _require_room(self, start: int, end: int) -> None:
        """Raises ModelFormatError when these bytes, parsed, would take more than is left."""
        room = copy(self._budget)
        for count in _needs(self._data, start, end):
            room.take(count, f"a value of more than {(end - start) // 2} bytes")


def _needs(data: bytes, start: int, end: int) -> Iterator[int]:
    """Bytes that part of a text takes at most when it is parsed, in parts."""
    raw, escaped, is_copied = _widths(data, start, end)
    yield (end - start) * (1 + raw if raw else 1)  # widened beside what there was before
    yield (end - start) * max(raw, escaped, 1) * (2 if is_copied else 1)
    for outside, strings in _outside_strings(data, start, end):
        yield strings * _STRING + sum(outside.count(sign) * n for sign, n in _SIGNS.items())


def _widths(data: bytes, start: int, end: int) -> tuple[int, int, bool]:
    """Bytes of the widest character: as it stands (0: all are ASCII), and as an escape.

    A string with a backslash in it is made piece by piece, in room that grows by a quarter.
    """
    raw = escaped = 0
    for at in range(start, end, _PIECE):
        piece = data[at : min(at + _PIECE + _ESCAPE, end)]
        if not piece.isascii():
            raw = max(raw, next((w for w, of in _WIDTHS.items() if of.search(piece)), 1))
        if escaped < 4 and b"\\u" in piece:
            escaped = 4 if _SURROGATE.search(piece) else 2
    return raw, escaped, data.find(b"\\", start, end) >= 0


def _outside_strings(data: bytes, start: int, end: int) -> Iterator[tuple[bytes, int]]:
    """Piece by piece, what stands outside strings, and how many of them begin or end there."""
    is_inside = is_escaped = False
    for at in range(start, end, _PIECE):
        piece = data[at + is_escaped : min(at + _PIECE, end)].replace(rb"\\", b"")
        is_escaped = piece.endswith(b"\\")
        parts = piece.replace(rb"\"", b"").split(b'"')
        yield b"".join(parts[is_inside::2]), (len(parts) + 1) // 2
        is_inside ^= len(parts) % 2 == 0


def _bounded_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"number of {len(digits)} digits")
    return int(digits)


def parse(data: bytes) -> JSON:
    """The one value that ``data`` holds. Raises ModelFormatError as :class:`JsonStream`."""
    stream = JsonStream(data, Budget(len(data)))
    value = stream.value()
    stream.finish()
    return value

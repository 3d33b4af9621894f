"""Streaming parser of untrusted JSON, within memory proportional to its length.

Input: bytes. Output: members of objects and elements of lists, one at a time. A small window of the
text is parsed at a time; it is decoded separately, so that a wide character widens only that
window. A longer value is scanned for its memory before it is parsed.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from copy import copy
from typing import Any, NoReturn, TypeAlias

from .._core.safe_open import open_file
from ..errors import ModelFormatError
from .atomic import system_errors

# A parsed value: dictionary, list, string, number, bool or None.
JSON: TypeAlias = Any

SLACK = 64 << 20  # memory limit beyond twice the length of the text

_WINDOW = 1 << 16  # bytes of a window
_PARAMETERS = (0x112).to_bytes(8, "little")  # the first bytes of a .params file
_CAREFUL = 1 << 20  # bytes of a value above which it is scanned first
_MAX_DIGITS = 19
_NEAR_END = 16  # characters: a number, literal or escape may be cut off there
_BLANKS = re.compile(r"[ \t\n\r]*")
_WIDTHS = {4: re.compile(rb"[\xf0-\xff]"), 2: re.compile(rb"[\xc4-\xef]")}  # bytes per character
_SURROGATE = re.compile(rb"\\u[dD][89abAB]")  # half of a four-byte character
_ESCAPE = 6  # bytes
# Up to 500 numbers, literals and lists of them; parsed together, each takes a fifth of the time.
_FLAT = re.compile(
    r"((?:(?:\[[^][{}\"]*\]|[^][{}\",\s]+)[ \t\n\r]*,[ \t\n\r]*){1,499}"
    r"(?:\[[^][{}\"]*\]|[^][{}\",\s]+))[ \t\n\r]*,"
)
_PIECE = 1 << 18  # bytes of a chunk in a scan

# Upper bounds of CPython's memory, all versions: for a string without its characters, and for the
# value that a character outside strings stands for. A key is in its object and the parser's memo.
_STRING = 80
_SIGNS = {b"{": 256, b"[": 144, b",": 56, b":": 240}


class Budget:
    """Memory limit of reading: twice the length of the text and 64 MB."""

    def __init__(self, length: int) -> None:
        self.limit = 2 * length + SLACK
        self.left = self.limit

    def take(self, count: int, what: str) -> None:
        """Raise ModelFormatError if the limit is exceeded."""
        self.left -= count
        if self.left < 0:
            raise ModelFormatError(
                f"{what} would need more than {self.limit} bytes in total, which is twice the "
                f"length of the text plus {SLACK >> 20} MB"
            )


class JsonStream:
    """Position in a JSON text. Raises ModelFormatError for invalid JSON and exceeded limits."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        self._data = data
        self._budget = budget
        budget.take(len(data), "the text")
        self._end = 0  # end of the window in bytes
        self._text = ""  # the window
        self._at = 0  # index in the window
        self._decoder = json.JSONDecoder(strict=False, parse_int=_bounded_int)

    def peek(self) -> str:
        """Next character that is not blank; empty at the end of the text."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            assert blanks is not None
            self._at = blanks.end()
            if self._at < len(self._text) or self._end == len(self._data):
                return self._text[self._at : self._at + 1]
            self._decode(_WINDOW)

    def value(self) -> JSON:
        """Next value, complete."""
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
        """Names of an object's members; the caller reads the value after each."""
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
        """Values of a list."""
        self._sign("[")
        sign = "," if self.peek() != "]" else self._sign("]")
        while sign == ",":
            yield from self._run()
            yield self.value()
            sign = self._sign(",]")

    def _run(self) -> list[JSON]:
        """Next flat elements that are followed by another one, at most 500."""
        self.peek()
        run = _FLAT.match(self._text, self._at)
        if run is None:
            return []
        try:
            found = self._decoder.decode(f"[{run.group(1)}]")
        except ValueError:
            return []  # parsing one by one locates the error
        self._at = run.end()
        return found

    def finish(self) -> None:
        """Require that only blanks follow."""
        if self.peek():
            self._fail("Extra data", self._at)

    def _sign(self, possible: str) -> str:
        found = self.peek()
        if not found or found not in possible:
            self._fail(f"Expecting {' or '.join(map(repr, possible))}", self._at)
        self._at += 1
        return found

    def _is_wrong(self, error: json.JSONDecodeError) -> bool:
        """Test whether an error remains with more text."""
        if self._end == len(self._data):
            return True
        is_open = error.msg.startswith("Unterminated string")
        return not is_open and error.pos < len(self._text) - _NEAR_END

    def _fail(self, what: str, place: int) -> NoReturn:
        rest = len(self._text[place:].encode("utf-8", "surrogatepass"))
        raise ModelFormatError(f"not JSON: {what} at byte {self._end - rest}")

    def _decode(self, size: int) -> None:
        """Move the window to the current position, with at most ``size`` bytes."""
        start = self._end - len(self._text[self._at :].encode("utf-8"))
        self._text, self._at = "", 0
        end = min(start + size, len(self._data))
        if size > _CAREFUL:
            self._require_room(start, end)
        try:
            is_last = end == len(self._data)
            text, used = codecs.utf_8_decode(memoryview(self._data)[start:end], "strict", is_last)
        except UnicodeDecodeError as error:
            way = ""
            if bytes(self._data[:8]) == _PARAMETERS:
                way = ": it is a file of parameters, which nd.load and load_parameters read"
            raise ModelFormatError(f"not UTF-8 at byte {start + error.start}{way}") from None
        self._text = text
        self._end = start + used

    def _require_room(self, start: int, end: int) -> None:
        """Raise ModelFormatError if parsing these bytes would exceed the remaining limit."""
        room = copy(self._budget)
        for count in _needs(self._data, start, end):
            room.take(count, f"a value of more than {(end - start) // 2} bytes")


def _needs(data: bytes, start: int, end: int) -> Iterator[int]:
    """Upper bound of the bytes that parsing a part of the text needs, as terms of a sum."""
    raw, escaped, is_copied = _widths(data, start, end)
    yield (end - start) * (1 + raw if raw else 1)  # widened copy next to the original
    yield (end - start) * max(raw, escaped, 1) * (2 if is_copied else 1)
    for outside, strings in _outside_strings(data, start, end):
        yield strings * _STRING + sum(outside.count(sign) * n for sign, n in _SIGNS.items())


def _widths(data: bytes, start: int, end: int) -> tuple[int, int, bool]:
    """Bytes of the widest character: unescaped (0: all are ASCII) and escaped; whether escapes
    occur.

    A string with a backslash is built incrementally, in memory that grows by a quarter.
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
    """Chunks of text outside strings, with a count of string delimiters in each."""
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


def read_file(path: str) -> JSON:
    """Single value in a file.

    Raises ModelFormatError that names the file as :class:`JsonStream`, MXNetError if the file
    cannot be read.
    """
    with system_errors(path), open_file(path) as file:
        data = file.read()
    try:
        return parse(data)
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from None


def parse(data: bytes) -> JSON:
    """Single value in ``data``. Raises ModelFormatError as :class:`JsonStream`."""
    stream = JsonStream(data, Budget(len(data)))
    value = stream.value()
    stream.finish()
    return value

"""What a graph file's JSON holds, checked where it is taken out: types, lengths, known keys.

Everything raises ModelFormatError, which says what stands where something else has to.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from typing import NoReturn

from ...errors import ModelFormatError
from ..json_stream import JSON

INVALID = "Invalid symbol file: "

_SURROGATE = re.compile("[\ud800-\udfff]")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxlevel = 2


def fail(what: str) -> NoReturn:
    """Raise what is wrong with the file."""
    raise ModelFormatError(f"{INVALID}{what}")


def required(mapping: Mapping[str, object], key: str, what: str) -> JSON:
    """What stands under a key that has to be there."""
    if key not in mapping:
        fail(f"{what} has no {key}")
    return mapping[key]


def object_of(value: object, what: str, keys: frozenset[str] | None = None) -> dict[str, JSON]:
    """The value as an object, whose keys are among ``keys`` where they are given."""
    if not isinstance(value, dict):
        fail(f"{what} is an object, got {shown(value)}")
    for key in value:
        if keys is not None and key not in keys:
            unknown_field(key, what, keys)
    return value


def unknown_field(key: str, what: str, keys: frozenset[str]) -> NoReturn:
    """Raise that no version of the format has this key."""
    fail(f"Unknown field {shown(key)} in {what}; known are {', '.join(sorted(keys))}")


def list_of(value: object, what: str) -> list[JSON]:
    """The value as a list."""
    if not isinstance(value, list):
        fail(f"{what} is a list, got {shown(value)}")
    return value


def text_of(value: object, what: str, limit: int) -> str:
    """The value as a text of at most ``limit`` characters that UTF-8 can hold."""
    if not isinstance(value, str):
        fail(f"{what} is a string, got {shown(value)}")
    if len(value) > limit:
        fail(f"{what} has {len(value)} characters, possible are {limit}")
    if not value.isascii() and _SURROGATE.search(value):
        fail(f"{what} holds half of a surrogate pair")
    return value


def shown(value: object) -> str:
    """A value from the file for a message: its beginning is enough."""
    if isinstance(value, (dict, list)) and len(value) > 8:
        return f"a {'list' if isinstance(value, list) else 'object'} of {len(value)}"
    return _SHORT.repr(value)

"""Checked access to the JSON of graph files: types, lengths, known keys.

All functions raise ModelFormatError with the value found and the requirement.
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
    """Raise ModelFormatError for the file."""
    raise ModelFormatError(f"{INVALID}{what}")


def required(mapping: Mapping[str, object], key: str, what: str) -> JSON:
    """Value of a required key."""
    if key not in mapping:
        fail(f"{what} has no {key}")
    return mapping[key]


def object_of(value: object, what: str, keys: frozenset[str] | None = None) -> dict[str, JSON]:
    """Value as an object; its keys must be in ``keys`` unless that is None."""
    if not isinstance(value, dict):
        fail(f"{what} must be an object, got {shown(value)}")
    for key in value:
        if keys is not None and key not in keys:
            unknown_field(key, what, keys)
    return value


def unknown_field(key: str, what: str, keys: frozenset[str]) -> NoReturn:
    """Raise ModelFormatError for a key that no version of the format has."""
    fail(f"Unknown field {shown(key)} in {what}; known are {', '.join(sorted(keys))}")


def list_of(value: object, what: str) -> list[JSON]:
    """Value as a list."""
    if not isinstance(value, list):
        fail(f"{what} must be a list, got {shown(value)}")
    return value


def text_of(value: object, what: str, limit: int) -> str:
    """Value as a string of at most ``limit`` characters that UTF-8 can encode."""
    if not isinstance(value, str):
        fail(f"{what} must be a string, got {shown(value)}")
    if len(value) > limit:
        fail(f"{what} has {len(value)} characters, at most {limit} are allowed")
    if not value.isascii() and _SURROGATE.search(value):
        fail(f"{what} contains half of a surrogate pair")
    return value


def shown(value: object) -> str:
    """Start of a value of the file, for a message."""
    if isinstance(value, (dict, list)) and len(value) > 8:
        return f"a {'list' if isinstance(value, list) else 'object'} of {len(value)}"
    return _SHORT.repr(value)

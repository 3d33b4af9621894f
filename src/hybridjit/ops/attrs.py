"""Operator attributes: declaration, and conversion from and to strings of symbol JSON.

Every attribute is a string in a file, in the notation of the program that wrote it (``(3, 3)``,
``[3,3]``, ``(3L, 3L)``, ``3``). The attribute's type determines the accepted strings. Strings are
parsed by regular expressions and never evaluated.

An operator declares its attributes in one line, ``"kernel:shape! stride:shape=() p:float=0.5"``:
name, type, then ``!`` for required or ``=default``; a trailing ``?`` on the type admits None, ``~``
reads None as ``()``; alternatives with a bar (``avg|max``) define an enumeration; ``float[0,1]``
has bounds. ``float`` and ``double`` are normal numbers or 0, ``single`` any number of float32.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from .._core.frozen import dataclass
from .._core.types import DTYPE_NAMES
from ..errors import AttributeValueError, did_you_mean

# Value of an attribute.
AttrValue = bool | int | float | str | tuple[int | None, ...] | tuple[float, ...] | np.dtype | None
# Value of an attribute that is passed by name; its type follows from the declaration.
Declared: TypeAlias = Any
# Values by name; their types follow from the operator's declaration.
Attrs = Mapping[str, Declared]

# Attributes that every operator accepts and ignores.
IGNORED = frozenset({"workspace", "cudnn_tune", "cudnn_off", "ctx", "name"})

_INT = re.compile(r"\s*[-+]?\d{1,19}\s*\Z", re.ASCII)
_FLOAT = re.compile(
    r"\s*[-+]?(\d+(\.\d*)?([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|inf|nan)\s*\Z", re.ASCII
)
_BEYOND_SINGLE = 2.0**128 - 2.0**103  # from here on, float32 rounds to infinity
LEAST_SINGLE = 1.1754943e-38  # MXNet's parser of numbers refuses smaller ones but 0: denormals
_LEAST_DOUBLE = 2.0**-1022
_TUPLE = re.compile(r"\s*[\(\[](.*)[\)\]]\s*\Z", re.DOTALL)
_BOUNDS = re.compile(r"\[(\d+),(\d+)\]")
_BLANKS = " \t\n\r\f\v"
_MAX_ITEMS = 4096
_SHOWN = 200  # characters of a value in a message


def _whole(text: str, bits: int) -> int:
    if not _INT.match(text):
        raise ValueError
    value = int(text)
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError
    return value


def _int(text: str) -> int:
    return _whole(text, 32)


def _long(text: str) -> int:
    return _whole(text, 64)


def _double(text: str) -> float:
    if not _FLOAT.match(text):
        raise ValueError
    value = float(text)
    if math.isinf(value) and "inf" not in text:
        raise ValueError
    return value


def _single(text: str) -> float:
    """A number that float32 can hold: MXNet stores attributes of this type in single precision."""
    value = _double(text)
    if math.isfinite(value) and abs(value) >= _BEYOND_SINGLE:
        raise ValueError
    return value


def _normal_single(text: str) -> float:
    return _require_normal(text, _single(text), LEAST_SINGLE)


def _normal_double(text: str) -> float:
    return _require_normal(text, _double(text), _LEAST_DOUBLE)


def _require_normal(text: str, value: float, least: float) -> float:
    """Numbers of lists, and those that may be None, are read by another parser without limit."""
    if _is_below(text, value, least):
        raise ValueError
    return value


def _is_below(text: str, value: float, least: float) -> bool:
    return abs(value) < least and bool(re.match(r"[-+\s0.]*[1-9]", text))


def _bool(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false", "1", "0"):
        raise ValueError
    return word in ("true", "1")


def _items(text: str) -> list[str]:
    match = _TUPLE.match(text)
    inner = match.group(1) if match else text
    if not match and "," in text:
        raise ValueError
    parts = inner.split(",")
    if parts and not parts[-1].strip():
        parts.pop()
    if len(parts) > _MAX_ITEMS:
        raise ValueError
    return parts


def _shape(text: str) -> tuple[int, ...]:
    return tuple(_size(part) for part in _items(text))


def _pairs(text: str) -> tuple[int, ...]:
    """Tuple of pairs, ``((1, 2), (0, 0))``, as one flat tuple."""
    outer = _TUPLE.match(text)
    if outer is None:
        raise ValueError
    inner = outer.group(1).strip().rstrip(",")
    if inner[:1] not in ("(", "["):  # already flat
        return _even(_shape(text))
    pairs = re.split(r"[\)\]]\s*,\s*[\(\[]", inner.strip()[1:-1]) if inner else []
    found = [_shape(f"({pair})") for pair in pairs]
    if any(len(pair) != 2 for pair in found):
        raise ValueError
    return tuple(number for pair in found for number in pair)


def _even(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if len(numbers) % 2:
        raise ValueError
    return numbers


def _size(text: str) -> int:
    """Integer, optionally followed by the L of Python 2."""
    return _long(text.rstrip(_BLANKS).removesuffix("L"))


def _optional_ints(text: str) -> tuple[int | None, ...]:
    if text.strip() == "None":
        return ()
    return tuple(None if p.strip() == "None" else _size(p) for p in _items(text))


def _limit(text: str, parse: Callable[[str], Any]) -> str:
    """The limit of its type that a number of this text passes, for a message."""
    if not _FLOAT.match(text) or not math.isfinite(value := float(text)):
        return ""
    for normal, least, name in _LIMITS:
        if parse is normal and _is_below(text, value, least):
            return f" of at least {least:.3g} (or 0), the least normal number of {name}"
    is_single = parse in (_single, _normal_single, _finite_single)
    return f" below {_BEYOND_SINGLE:.3g}, the limit of float32" if is_single else ""


_LIMITS = (
    (_normal_single, LEAST_SINGLE, "float32"),
    (_normal_double, _LEAST_DOUBLE, "float64"),
)


def _require_finite(value: float) -> float:
    """MXNet reads some types from a stream, which does not accept inf and nan."""
    if not math.isfinite(value):
        raise ValueError
    return value


def _finite_single(text: str) -> float:
    return _require_finite(_single(text))


def _finite_double(text: str) -> float:
    return _require_finite(_double(text))


def _floats(text: str) -> tuple[float, ...]:
    return tuple(_finite_single(part) for part in _items(text))


def _doubles(text: str) -> tuple[float, ...]:
    return tuple(_finite_double(part) for part in _items(text))


def _dtype(text: str) -> np.dtype:
    return DTYPE_NAMES[text.strip()]


_PARSERS: dict[str, Callable[[str], Any]] = {
    "int": _int,
    "long": _long,
    "float": _normal_single,
    "single": _single,
    "double": _normal_double,
    "bool": _bool,
    "shape": _shape,
    "pairs": _pairs,
    "ints": _optional_ints,
    "floats": _floats,
    "float?": _finite_single,
    "double?": _finite_double,
    "floats?": _doubles,
    "dtype": _dtype,
    "layout": str,
    "string": str,
}


@dataclass(frozen=True)
class Attr:
    """One attribute of an operator: its name, type and default (both as declared)."""

    name: str
    type: str
    default: Declared = None
    required: bool = False
    bounds: tuple[float, float] | None = None  # inclusive

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(self.base.split("|")) if "|" in self.base else ()

    @property
    def base(self) -> str:
        return self.type.rstrip("?~")

    @property
    def admits_none(self) -> bool:
        return self.type.endswith("?") or self.base == "ints"

    def parse(self, text: str) -> Declared:
        """Parsed value of ``text``. Raises AttributeValueError."""
        if self.type.endswith(("?", "~")) and text.strip() == "None":
            return None if self.type.endswith("?") else ()
        if self.choices:
            if text in self.choices:
                return text
            raise AttributeValueError(
                f"attribute {self.name} must be one of {', '.join(self.choices)}, got "
                f"{_shown(text)}"
            )
        parse = _PARSERS.get(self.type) or _PARSERS[self.base]
        try:
            value = parse(text)
        except (ValueError, KeyError):
            finite = (
                "finite " if parse in (_finite_single, _finite_double, _floats, _doubles) else ""
            )
            limit = _limit(text, parse)
            raise AttributeValueError(
                f"attribute {self.name} takes {finite}{self.type.rstrip('~')}{limit}, got "
                f"{_shown(text)}"
            ) from None
        if self.bounds is not None and (value < self.bounds[0] or value > self.bounds[1]):
            low, high = self.bounds
            raise AttributeValueError(
                f"attribute {self.name} must be between {low:g} and {high:g}, got {text}"
            )
        return value


def _shown(text: str) -> str:
    """Start of a value, for messages."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def declare(text: str) -> tuple[Attr, ...]:
    """Attributes of a declaration line; the module's docstring describes the notation."""
    return tuple(_declare_one(item) for item in text.split())


@cache  # operators share half of their attributes
def _declare_one(item: str) -> Attr:
    name, _, rest = item.partition(":")
    bounds = None
    if match := _BOUNDS.search(rest):
        bounds = (float(match.group(1)), float(match.group(2)))
        rest = rest.replace(match.group(), "")
    if rest.endswith("!"):
        return Attr(name, rest[:-1], required=True, bounds=bounds)
    kind, _, default = rest.partition("=")
    return Attr(name, kind, Attr(name, kind).parse(default), bounds=bounds)


_PLAIN = frozenset({str, int, float, bool})


def attr_text(value: object) -> str:
    """String of symbol JSON for a Python value, in MXNet's notation.

    A dtype becomes its name; other values become ``str(value)``, NumPy scalars as Python's.
    """
    if type(value) in _PLAIN:
        return str(value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return np.dtype(value).name
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, np.generic):
        return str(value.item())
    if isinstance(value, (tuple, list)):
        items = [v.item() if isinstance(v, np.generic) else v for v in value]
        return str(tuple(items) if isinstance(value, tuple) else items)
    return str(value)


_SAME = {"dim": "axis", "axis": "dim", "keepdim": "keepdims", "size": "shape", "p": "rate"}


def _meant(key: str, known: Collection[str]) -> str:
    """The attribute that has this name in other libraries, or the nearest name."""
    same = _SAME.get(key)
    return f"; did you mean {same!r}?" if same in known else did_you_mean(key, known)


def parse_attrs(declared: tuple[Attr, ...], text: Mapping[str, str]) -> dict[str, Declared]:
    """Values of all declared attributes from their strings.

    Keys of the form ``__x__`` and those in IGNORED are skipped. Raises AttributeValueError for a
    missing, unknown or malformed attribute.
    """
    known = {attr.name for attr in declared}
    for key in text:
        if key not in known and key not in IGNORED and not _is_hidden(key):
            raise AttributeValueError(
                f"unknown attribute {key}{_meant(key, known)}; known attributes: "
                f"{', '.join(sorted(known)) or 'none'}"
            )
    values = {}
    for attr in declared:
        if attr.name in text:
            values[attr.name] = attr.parse(text[attr.name])
        elif attr.required:
            raise AttributeValueError(f"required attribute {attr.name} of {attr.base} is missing")
        else:
            values[attr.name] = attr.default
    return values


def _is_hidden(key: str) -> bool:
    return len(key) > 4 and key.startswith("__") and key.endswith("__")

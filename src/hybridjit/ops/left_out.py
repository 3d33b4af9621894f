"""Families of MXNet's operators that are not here on purpose, by pattern, each with the reason.

In: a name that no operator has. Out: what to say about it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

_INTEGER = "int8 networks do not run here, export the float32 one"

LEFT_OUT = [
    ("_contrib_quantize*", _INTEGER),
    ("_contrib_requantize", _INTEGER),
    ("_contrib_dequantize", _INTEGER),
    ("_contrib_intgemm_*", _INTEGER),
    ("_contrib_calibrate_*", _INTEGER),
]


def why_left_out(name: str) -> str | None:
    """The reason, or None for a name that is of none of these families."""
    for pattern, reason in LEFT_OUT:
        if fnmatchcase(name, pattern):
            return reason
    return None

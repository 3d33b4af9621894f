"""Families of MXNet's operators that are deliberately not supported, with reasons.

Input: an unknown operator name. Output: the reason for a message.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

_INTEGER = "int8 networks are not supported, export the float32 network"

LEFT_OUT = [
    ("_contrib_quantize*", _INTEGER),
    ("_contrib_requantize", _INTEGER),
    ("_contrib_dequantize", _INTEGER),
    ("_contrib_intgemm_*", _INTEGER),
    ("_contrib_calibrate_*", _INTEGER),
]


def why_left_out(name: str) -> str | None:
    """Reason, or None for a name of no such family."""
    for pattern, reason in LEFT_OUT:
        if fnmatchcase(name, pattern):
            return reason
    return None

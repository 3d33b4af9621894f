"""Tables of calibrated ranges, in JSON: the least and the greatest value of each layer's data.

Input: a file, or ranges by the name of a layer. Output: the ranges, validated, or a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ModelFormatError
from ..ir.calibrated import Ranges
from .atomic import write_atomically
from .json_stream import read_file

_FORMAT = "hybridjit ranges"
_NUMBERS = (int, float, np.integer, np.floating)
_LARGEST = float(np.finfo(np.float32).max)


def read_ranges(path: str | os.PathLike[str]) -> dict[str, tuple[float, float]]:
    """The ranges in a file of :func:`write_ranges`.

    Raises ModelFormatError for another content, MXNetError if the file cannot be read.
    """
    name = os.fspath(path)
    content = read_file(name)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ModelFormatError(f"{name}: is not a table of ranges, which `format` would say")
    return checked_ranges(content.get("ranges"), name)


def checked_ranges(ranges: Any, where: str) -> dict[str, tuple[float, float]]:
    """Ranges with finite ends. Raises ModelFormatError that names ``where`` for others."""
    found: dict[str, tuple[float, float]] = {}
    for name, ends in ranges.items() if isinstance(ranges, Mapping) else [("ranges", ranges)]:
        is_pair = isinstance(ends, (list, tuple)) and len(ends) == 2
        if not is_pair or not all(isinstance(x, _NUMBERS) and abs(x) <= _LARGEST for x in ends):
            raise ModelFormatError(
                f"{where}: the range of {name!r} is not two numbers of float32: {ends!r}"
            )
        low, high = map(float, ends)
        if low > high:
            raise ModelFormatError(f"{where}: the range of {name!r} is from {low} down to {high}")
        found[name] = low, high
    return found


def write_ranges(path: str | os.PathLike[str], ranges: Ranges) -> None:
    """Write ranges as JSON. Raises MXNetError if the file cannot be written."""
    content = {"format": _FORMAT, "ranges": {name: list(ends) for name, ends in ranges.items()}}
    write_atomically(os.fspath(path), [(json.dumps(content, indent=1) + "\n").encode()])

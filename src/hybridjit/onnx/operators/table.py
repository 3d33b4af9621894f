"""Table of readers, which the other files of this folder fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..importer import Translation

MICROSOFT = "com.microsoft."
"""Prefix of the names of ONNX Runtime's own operators."""

KNOWN: dict[str, Translation] = {}

T = TypeVar("T", bound=Translation)


def translates(*op_types: str) -> Callable[[T], T]:
    """Register a reader of these ONNX operators."""

    def register(translation: T) -> T:
        for op_type in op_types:
            assert op_type not in KNOWN, op_type
            KNOWN[op_type] = translation
        return translation

    return register

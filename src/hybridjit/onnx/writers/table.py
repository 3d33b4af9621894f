"""The table of translations to ONNX, which the files beside this one fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..exporter import Translation

WRITTEN: dict[str, Translation] = {}

T = TypeVar("T", bound=Translation)


def writes(*names: str) -> Callable[[T], T]:
    """Register how these of MXNet's operators are written."""

    def register(translation: T) -> T:
        for name in names:
            assert name not in WRITTEN, name
            WRITTEN[name] = translation
        return translation

    return register

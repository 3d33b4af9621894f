"""Table of writers, which the other files of this folder fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..exporter import OPSET, Translation

WRITTEN: dict[str, Translation] = {}
NEEDED: dict[str, int] = {}
"""Operator set that a use needs, if it is not :data:`OPSET`."""

T = TypeVar("T", bound=Translation)


def writes(*names: str, opset: int = OPSET) -> Callable[[T], T]:
    """Register a writer of these MXNet operators for this operator set and newer ones."""

    def register(translation: T) -> T:
        for name in names:
            assert name not in WRITTEN, name
            WRITTEN[name] = translation
            if opset > OPSET:
                NEEDED[name] = opset
        return translation

    return register

"""The table of translations to ONNX, which the files beside this one fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..exporter import OPSET, Translation

WRITTEN: dict[str, Translation] = {}
NEEDED: dict[str, int] = {}
"""The operator set that a use takes, where it is not in :data:`OPSET`."""

T = TypeVar("T", bound=Translation)


def writes(*names: str, opset: int = OPSET) -> Callable[[T], T]:
    """Register how these of MXNet's operators are written, in this operator set or a newer one."""

    def register(translation: T) -> T:
        for name in names:
            assert name not in WRITTEN, name
            WRITTEN[name] = translation
            if opset > OPSET:
                NEEDED[name] = opset
        return translation

    return register

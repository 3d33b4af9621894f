"""Completion of hybridjit's modules with MXNet's names, as modules are loaded."""

from __future__ import annotations

from functools import partial

from .._core.lazy import complete
from .absent import explain_absent
from .elsewhere import place_elsewhere
from .placeholders import place_placeholders


def complete_package(package: str) -> None:
    """Complete the loaded modules, and every lazily loaded part when it is loaded."""
    _complete(package, "")
    complete(partial(_complete, package))


def _complete(package: str, part: str) -> None:
    place_elsewhere(package, part)
    place_placeholders(package, part)
    explain_absent(package, part)

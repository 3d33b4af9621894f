"""What existing programs look for in hybridjit's modules, put there as these are loaded."""

from __future__ import annotations

from functools import partial

from .._core.lazy import complete
from .absent import explain_absent
from .elsewhere import place_elsewhere
from .placeholders import place_placeholders


def complete_package(package: str) -> None:
    """Completes what is there, and from now on every late part as it comes."""
    _complete(package, "")
    complete(partial(_complete, package))


def _complete(package: str, part: str) -> None:
    place_elsewhere(package, part)
    place_placeholders(package, part)
    explain_absent(package, part)

"""Comparison of two documents: changes of plan, kernels and time.

Input: a file, or a document read from one. Output: a :class:`.schema.Comparison`. Steps are matched
by name, independent of their order. Two networks have different names: the page adds up the steps
by operator, block and kernel.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from .._core.safe_open import open_file
from ..errors import ModelFormatError
from ..formats.atomic import system_errors
from .schema import Change, ComparedPart, Comparison, Document, Part, Step, require_document

_MOST_BYTES = 64 << 20


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read a file of ``hybridjit view --json``.

    Raises MXNetError if it cannot be read, ModelFormatError if it is not a document.
    """
    name = os.fspath(path)
    with system_errors(name), open_file(name) as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ModelFormatError(f"{name}: must have at most {_MOST_BYTES} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{name}: not JSON: {error}") from None
    return require_document(found, name)


def compare(before: Document, after: Document) -> Comparison:
    """Changes from ``before`` to ``after``, part by part; parts are matched by name."""
    old = _runs(before)
    both = [(old[name], run) for name, run in _runs(after).items() if name in old]
    return {"before": before["name"], "parts": [_compared(a, b) for a, b in both]}


@dataclass(frozen=True)
class _Run:
    """A part of a document, with the operator of each value and the time of each step."""

    part: Part
    operators: Mapping[str, str]
    steps: Mapping[str, Step] = field(init=False)
    seconds: Mapping[int, float] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[int, float] = {}
        for timed in self.part["profile"]["parts"] if self.part["profile"] else ():
            found[timed["step"]] = found.get(timed["step"], 0.0) + timed["seconds"]
        object.__setattr__(self, "seconds", found)
        object.__setattr__(self, "steps", {step["name"]: step for step in self.part["steps"]})

    @property
    def whole(self) -> float | None:
        return self.part["profile"]["total"] if self.part["profile"] else None

    def specs(self, step: Step) -> str:
        return "\n".join(self.part["kernels"][call["kernel"]]["spec"] for call in step["calls"])

    def operator(self, step: Step) -> str:
        """The operator of the first member that has one; else the kind of the step."""
        return next(filter(None, map(self.operators.get, step["members"])), step["kind"])


def _runs(document: Document) -> dict[str, _Run]:
    values = document["values"]
    found = {}
    for part in document["parts"]:
        last = part["stages"][-1]["values"] if part["stages"] else []
        operators = {values[place]["name"]: values[place]["op"] for place in last}
        found[part["name"]] = _Run(part, operators)
    return found


def _compared(before: _Run, after: _Run) -> ComparedPart:
    a, b = before.part["plan"], after.part["plan"]
    # A row for each step of either plan, in the order of the later one; removed steps last.
    names = [*after.steps, *(name for name in before.steps if name not in after.steps)]
    return {
        "name": after.part["name"],
        "steps": (len(before.part["steps"]), len(after.part["steps"])),
        "arena_bytes": (a["arena_bytes"], b["arena_bytes"]),
        "live_bytes": (a["live_bytes"], b["live_bytes"]),
        "seconds": (before.whole, after.whole),
        "changes": [_change(name, before, after) for name in names],
    }


def _change(name: str, before: _Run, after: _Run) -> Change:
    old, new = before.steps.get(name), after.steps.get(name)
    a, b = (before.specs(old) if old else "", after.specs(new) if new else "")
    what = "new" if old is None else "gone" if new is None else "other kernel"
    if old is not None and new is not None and a == b:
        what = "same"
    return {
        "name": name,
        "what": what,
        "steps": (old["number"] if old else -1, new["number"] if new else -1),
        "operators": (before.operator(old) if old else "", after.operator(new) if new else ""),
        "algorithms": (old["algorithm"] if old else "", new["algorithm"] if new else ""),
        "specs": (a, b),
        "seconds": (
            before.seconds.get(old["number"]) if old else None,
            after.seconds.get(new["number"]) if new else None,
        ),
    }

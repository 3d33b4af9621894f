"""Comparison of two documents: changes of plan, kernels and time.

Input: a file, or a document read from one. Output: a :class:`.schema.Comparison`. Steps are matched
by name, independent of their order.
"""

from __future__ import annotations

import json
import os

from .._core.safe_open import open_file
from ..errors import ModelFormatError
from .schema import Change, ComparedPart, Comparison, Document, Part, Step, require_document

_MOST_BYTES = 64 << 20


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read a file of ``hybridjit view --json``.

    Raises OSError if it cannot be read, ModelFormatError if it is not a document.
    """
    name = os.fspath(path)
    with open_file(name) as file:
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
    old = {part["name"]: part for part in before["parts"]}
    both = [(old[part["name"]], part) for part in after["parts"] if part["name"] in old]
    return {"before": before["name"], "parts": [_compared(a, b) for a, b in both]}


def _compared(before: Part, after: Part) -> ComparedPart:
    a, b = before["plan"], after["plan"]
    return {
        "name": after["name"],
        "steps": (len(before["steps"]), len(after["steps"])),
        "arena_bytes": (a["arena_bytes"], b["arena_bytes"]),
        "live_bytes": (a["live_bytes"], b["live_bytes"]),
        "seconds": (_whole(before), _whole(after)),
        "changes": _changes(before, after),
    }


def _whole(part: Part) -> float | None:
    return part["profile"]["total"] if part["profile"] else None


def _changes(before: Part, after: Part) -> list[Change]:
    """A row for each step of either plan, in the order of the later one; removed steps last."""
    old = {step["name"]: step for step in before["steps"]}
    new = {step["name"]: step for step in after["steps"]}
    names = [*new, *(name for name in old if name not in new)]
    times = (_seconds(before), _seconds(after))
    return [_change(name, (old.get(name), new.get(name)), (before, after), times) for name in names]


def _change(
    name: str,
    found: tuple[Step | None, Step | None],
    parts: tuple[Part, Part],
    times: tuple[dict[int, float], dict[int, float]],
) -> Change:
    a, b = (_specs(step, part) for step, part in zip(found, parts))
    before, after = found
    what = "new" if before is None else "gone" if after is None else "other kernel"
    if before is not None and after is not None and a == b:
        what = "same"
    return {
        "name": name,
        "what": what,
        "steps": (before["number"] if before else -1, after["number"] if after else -1),
        "specs": (a, b),
        "seconds": (
            times[0].get(before["number"]) if before else None,
            times[1].get(after["number"]) if after else None,
        ),
    }


def _specs(step: Step | None, part: Part) -> str:
    calls = step["calls"] if step else []
    return "\n".join(part["kernels"][call["kernel"]]["spec"] for call in calls)


def _seconds(part: Part) -> dict[int, float]:
    """The time of all calls of each step."""
    found: dict[int, float] = {}
    for timed in part["profile"]["parts"] if part["profile"] else ():
        found[timed["step"]] = found.get(timed["step"], 0.0) + timed["seconds"]
    return found

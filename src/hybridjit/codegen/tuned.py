"""Kernels that were measured to be faster than the cost model's choice, from a file.

Input: the file that HYBRIDJIT_TUNED names. Output: the selected candidate for a layer. A line of
the file applies to one set of candidates on one CPU: layers of any network with this set use it.
For other sets of candidates the cost model chooses.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from .._core.frames import warn
from .._core.frozen import dataclass
from .._core.safe_open import open_file
from .._core.target import Target
from ..errors import ModelFormatError, MXNetError
from ..formats.atomic import write_atomically
from ..formats.json_stream import parse
from .call import Decide, Spec

FORMAT = "hybridjit tuned 1"
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Choice:
    """A selected kernel and the cost model's choice, with their times in milliseconds."""

    layer: str
    kernel: str
    ms: float
    instead_of: str
    its_ms: float


@dataclass(frozen=True)
class Tuned:
    """The contents of a file: for a CPU, choices by :func:`key_of` their candidates."""

    cpu: str
    choices: Mapping[str, Choice]

    def decide(self, candidates: Sequence[Spec], target: Target) -> Spec:
        """The candidate that the file names; else the first, the cost model's choice."""
        choice = self.choices.get(key_of(candidates)) if self.cpu == str(target) else None
        texts = [str(candidate) for candidate in candidates]
        if choice is None or choice.kernel not in texts:
            return candidates[0]
        return candidates[texts.index(choice.kernel)]


def key_of(candidates: Iterable[object]) -> str:
    """A key for a set of candidates, independent of their order."""
    texts = chr(0).join(sorted(set(map(str, candidates))))
    return hashlib.sha256(texts.encode()).hexdigest()[:16]


def tuned_for(path: str, target: Target) -> Decide:
    """The decision function of a file for this CPU. Raises as :func:`read_tuned`.

    A file for another CPU is ignored with a warning.
    """
    tuned = read_tuned(path)
    if tuned.cpu != str(target):
        warn(
            f"HYBRIDJIT_TUNED={path} decides nothing: it was measured on {tuned.cpu}, and this is "
            f"{target}",
            RuntimeWarning,
        )
    return tuned.decide


def read_tuned(path: str) -> Tuned:
    """The file's choices.

    Raises MXNetError if it cannot be read, and its subclass ModelFormatError if it is malformed.
    """
    try:
        with open_file(path) as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise MXNetError(f"{path}: {error.strerror or error}") from None
    if len(data) > _MOST_BYTES:
        raise ModelFormatError(f"{path}: a file of choices has at most {_MOST_BYTES} bytes")
    try:
        document = parse(data)
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from None
    return _tuned_of(document, path)


def _tuned_of(document: object, path: str) -> Tuned:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFormatError(f"{path}: a file of `hybridjit tune` has the format {FORMAT!r}")
    cpu, rows = document.get("cpu"), document.get("choices")
    if not isinstance(cpu, str) or not isinstance(rows, dict):
        raise ModelFormatError(f"{path}: `cpu` is a string and `choices` an object")
    return Tuned(cpu, {key: _choice_of(row, f"{path}: {key}") for key, row in rows.items()})


_NUMBER = (int, float)
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "layer": str, "kernel": str, "ms": _NUMBER, "instead_of": str, "its_ms": _NUMBER,
}  # fmt: skip


def _choice_of(row: object, where: str) -> Choice:
    if not isinstance(row, dict) or set(row) != set(_KINDS):
        raise ModelFormatError(f"{where}: a choice has {', '.join(_KINDS)}")
    for name, kind in _KINDS.items():
        if not isinstance(row[name], kind):
            raise ModelFormatError(f"{where}: {name} is not of type {type(row[name]).__name__}")
    return Choice(**row)


def write_tuned(path: str, tuned: Tuned) -> None:
    """Write the file atomically. Raises MXNetError with the system's reason."""
    rows = {
        key: {name: getattr(choice, name) for name in _KINDS}
        for key, choice in sorted(tuned.choices.items())
    }
    document = {"format": FORMAT, "cpu": tuned.cpu, "choices": rows}
    write_atomically(path, [json.dumps(document, indent=1).encode(), b"\n"])

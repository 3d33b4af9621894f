"""The two sides: processes that answer requests, and the comparison of their answers.

In: a request, one JSON object. Out: the arrays that a process wrote, or the reason why there
are none; and the difference of two answers in words.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hybridjit.formats.mxnet import params

SERVERS = Path(__file__).parent
PATIENCE = 120.0  # seconds for one answer

Answer = list[np.ndarray] | str  # outputs, or why there are none
Meaning = Callable[[list[np.ndarray]], list[np.ndarray]]

# How MXNet says that it cannot do something here, rather than that it is an error.
LACKS = re.compile(
    "CRASHED|not implemented|only support|[Nn]ot supported|does not support|[Uu]nsupported"
    "|[Tt]oo many|type_flag_|Unknown type enum|operator attributes|implmented|dim_size_is_known"
    "|Expect channel|nchannels == 3|only available for GPU|do not match target"
)


def is_rule(refusal: str) -> bool:
    """Whether MXNet refuses because of a rule, which then holds here too."""
    return not LACKS.search(refusal)


class Server:
    """A process that answers one request per line, started again when it dies."""

    def __init__(self, python: str, script: str, **environment: str) -> None:
        self.command = [python, str(SERVERS / script)]
        self.environment = {**os.environ, **environment}
        self.process: subprocess.Popen[str] | None = None

    def ask(self, request: dict[str, Any], out: Path | None = None) -> Answer:
        """The arrays that the answer wrote to ``out``, or the reason why not."""
        return self.ask_more(request, out)[0]

    def ask_more(self, request: dict[str, Any], out: Path | None = None) -> tuple[Answer, Any]:
        """The arrays, or why there are none; and other findings."""
        answer = self.tell({**request, "out": str(out)})
        if "refused" in answer:
            return str(answer["refused"]), None
        return _listed(params.load(out)) if out is not None else [], answer.get("found")

    def tell(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer itself: ``refused`` says why there is none, ``found`` has other results."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, env=self.environment,
            )  # fmt: skip
        line = self._exchange(self.process, json.dumps(request))
        if line is None:
            self.stop()
            return {"refused": "CRASHED or took too long"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _exchange(self, process: subprocess.Popen[str], line: str) -> str | None:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            return (process.stdout.readline() or None) if ready else None
        except BrokenPipeError:
            return None

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _listed(arrays: dict[str, np.ndarray] | list[np.ndarray]) -> list[np.ndarray]:
    return list(arrays.values()) if isinstance(arrays, dict) else arrays


def compare(
    ours: Answer, theirs: Answer, tolerance: float, has_values: bool = True,
    meaning: Meaning | None = None,
) -> str:  # fmt: skip
    """Differences, in words; empty without one.

    ``meaning`` turns the outputs of either side into the values to compare.
    """
    if isinstance(theirs, str):
        return "" if isinstance(ours, str) else f"hybridjit takes what MXNet refuses: {theirs}"
    if isinstance(ours, str):
        return f"hybridjit refuses: {ours}"
    if len(ours) != len(theirs):
        return f"{len(ours)} outputs, MXNet has {len(theirs)}"
    for position, (a, b) in enumerate(zip(ours, theirs)):
        why = _compare_types(a, b)
        if not why and has_values and meaning is None:
            why = _compare_arrays(a, b, tolerance)
        if why:
            return f"output {position}: {why}"
    return "" if meaning is None else compare(meaning(ours), meaning(theirs), tolerance)


def compare_types_found(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """Differences of two inferences of shapes and element types; more may be known here.

    Types may be unknown here where MXNet presumes float32. A 0 in its shapes is an unknown size.
    """
    if "refused" in theirs:
        return ""
    if "refused" in ours:
        return f"inference is refused: {ours['refused']}"
    for what in ("shapes", "types"):
        a, b = ours["found"][what], theirs["found"][what]
        if b[0] is None or a == b or (what == "types" and a[0] is None):
            continue
        if what == "types" or not any(0 in shape for shapes in b for shape in shapes):
            return f"{what} {a} are inferred, MXNet has {b}"
    return ""


def _compare_types(a: np.ndarray, b: np.ndarray) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)}, MXNet has {b.dtype}{list(b.shape)}"
    return ""


def _compare_arrays(a: np.ndarray, b: np.ndarray, tolerance: float) -> str:
    if a.dtype.kind != "f":
        wrong = a != b
        return f"{wrong.sum()} of {a.size} values differ" if wrong.any() else ""
    a, b = a.astype(np.float64), b.astype(np.float64)
    odd = ~np.isfinite(b)
    if not np.array_equal(a[odd], b[odd], equal_nan=True) or not np.isfinite(a[~odd]).all():
        return "inf or nan in other places"
    scale = max(np.abs(b[~odd]).max(initial=0.0), 1e-2)
    error = np.abs(a[~odd] - b[~odd]).max(initial=0.0) / scale
    return f"off by {error:.2e} of the largest value {scale:.3g}" if error > tolerance else ""

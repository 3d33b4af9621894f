"""Result of a verification: gaps, steps, and the verdict, which prints as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .._core.frozen import dataclass
from .._core.html_text import html_code, html_table
from .._core.text_table import indented, table
from ..compiler import CHOICES
from ..runtime.checking import difference

# Rounding error of each element type, relative to the largest value.
_COARSE = {"float16": 4e-3}
THREADS = "threads"


@dataclass(frozen=True)
class Gap:
    """Difference between one array and another.

    absolute    the largest difference; inf if only one of two elements is a number
    ulp         the same in units of the last place of the right value there
    relative    the same relative to the largest right value
    coarse      permitted ``relative`` due to rounding of the element type and of cancelling terms
    """

    absolute: float
    ulp: float
    relative: float
    coarse: float = 0.0

    def exceeds(self, tolerance: float) -> bool:
        """Whether the relative difference exceeds both ``tolerance`` and ``coarse``."""
        return not self.relative <= max(tolerance, self.coarse)

    def __str__(self) -> str:
        return f"{self.absolute:.3g} ({self.ulp:.3g} ulp), {self.relative:.2g} of the largest value"


def gap_between(found: np.ndarray, right: np.ndarray) -> Gap:
    """The gap of two arrays of the same shape."""
    relative = difference(found, right)
    if relative == 0.0:
        return Gap(0.0, 0.0, 0.0)
    wide, expected = found.astype(np.float64), right.astype(np.float64)
    # Equal elements have no gap: the difference of two equal infinities is NaN, with a warning.
    gaps = np.zeros(right.size)
    np.subtract(wide.reshape(-1), expected.reshape(-1), out=gaps, where=(wide != expected).ravel())
    gaps = np.abs(gaps)
    at = int(np.argmax(np.where(np.isnan(gaps), np.inf, gaps)))
    absolute = float(gaps[at]) if np.isfinite(gaps[at]) else float("inf")
    unit = 1.0
    if right.dtype.kind == "f" and np.isfinite(right.reshape(-1)[at]):
        unit = float(np.spacing(np.abs(right.reshape(-1)[at])))
    return Gap(absolute, absolute / unit, relative, _COARSE.get(right.dtype.name, 0.0))


@dataclass(frozen=True)
class Checked:
    """Comparison of one executed step.

    number      index in its plan; ``part`` is ``forward``, ``backward``, or empty for inference
    own         gap from its references on the same operands; None for steps that draw numbers
    eager       gap from the value of that name in the original graph; None if there is none
    """

    part: str
    number: int
    kind: str
    what: str
    source: str
    own: Gap | None
    eager: Gap | None

    @property
    def label(self) -> str:
        """``step 3``, ``backward step 3``."""
        return f"{self.part} step {self.number}".lstrip()

    def text(self) -> str:
        """The step, its gaps, and the line of the program that it comes from."""
        lines = [f"{self.label} ({self.kind}: {self.what})"]
        lines += [f"    from its own operands    {self.own}"] if self.own else []
        lines += [f"    from the eager values    {self.eager}"] if self.eager else []
        lines += [f"  created at {self.source}"] if self.source else []
        return "\n".join(lines)


@dataclass(frozen=True)
class Special:
    """The first value with a NaN or an infinity that is computed from finite values.

    part        ``forward``, ``backward``, or empty for inference
    what        the operator or variable, or the compiled step if eager values are finite
    kind        ``NaN``, or ``infinity`` without a NaN
    count       number of elements, among ``size``, that are not finite
    """

    part: str
    what: str
    kind: str
    count: int
    size: int
    source: str

    def __str__(self) -> str:
        where = f", {self.part}" if self.part else ""
        first = f"the first {self.kind}: {self.what}{where}, {self.count} of {self.size} elements"
        return f"{first}\n  created at {self.source}" if self.source else first


def special_in(part: str, what: str, arrays: Sequence[np.ndarray], source: str) -> Special | None:
    """The elements that are not finite in the arrays of an operator; None if all are finite."""
    floats = [array for array in arrays if array.dtype.kind == "f"]
    count = sum(int(array.size - np.isfinite(array).sum()) for array in floats)
    if not count:
        return None
    kind = "NaN" if any(np.isnan(array).any() for array in floats) else "infinity"
    return Special(part, what, kind, count, sum(array.size for array in floats), source)


@dataclass(frozen=True)
class Verdict:
    """Result of a verification. ``agrees`` is the answer; ``str`` adds the step and the culprit.

    problem     a violation of the memory rules by a step, or an empty string
    outputs     each output's name and its gap in an ordinary call from the eager values; for
                training also each gradient and each auxiliary state that a step changes
    special     the first NaN or infinity, if there is one; results still agree if eager and
                compiled values have the same
    culprits    choices without which the results agree, if they differ
    """

    name: str
    tolerance: float
    steps: tuple[Checked, ...]
    outputs: tuple[tuple[str, Gap], ...]
    problem: str = ""
    special: Special | None = None
    culprits: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether compiled and interpreted results agree."""
        gaps = [*(step.own for step in self.steps), *(gap for _, gap in self.outputs)]
        return not self.problem and not any(g and g.exceeds(self.tolerance) for g in gaps)

    @property
    def first(self) -> Checked | None:
        """The first step beyond the tolerance; None if the results agree."""
        if self.agrees:
            return None
        for step in self.steps:
            if any(g and g.exceeds(self.tolerance) for g in (step.own, step.eager)):
                return step
        return None

    def __str__(self) -> str:
        verb = "agrees with" if self.agrees else "differs from"
        head = f"{self.name}: {self._counts()}, tolerance {self.tolerance:g}"
        rows = [(name, str(gap)) for name, gap in self.outputs]
        lines = [f"{head}; compiled {verb} eager", indented(table(rows))]
        lines += [str(self.special)] if self.special else []
        if self.agrees:
            return "\n".join(lines)
        if self.first is not None:
            lines.append(f"the first step that differs: {self.first.text()}")
        lines += [self.problem] if self.problem else []
        return "\n".join([*lines, *self._blame()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The verdict for notebooks: a table of the results and their gaps."""
        lines = str(self).splitlines()
        rest = [line for line in lines[1:] if not line.startswith(" ")]
        rows = [(name, str(gap)) for name, gap in self.outputs]
        parts = [html_code(lines[0]), html_table(rows, ("result", "difference"))]
        return "".join([*parts, *map(html_code, rest)])

    def _counts(self) -> str:
        """``7 steps``, or ``7 forward and 9 backward steps``."""
        parts = [step.part for step in self.steps]
        counts = [f"{parts.count(part)} {part}".rstrip() for part in dict.fromkeys(parts)]
        return f"{' and '.join(counts) or '0'} steps"

    def _blame(self) -> Iterator[str]:
        for name in self.culprits:
            how = "HYBRIDJIT_NUM_THREADS=1" if name == THREADS else f"HYBRIDJIT_SKIP={name}"
            yield f"culprit: {name}; without it the results agree ({how})"
        if not self.culprits:
            tried = ", ".join([*CHOICES, THREADS])
            yield f"no single choice causes the difference (each was disabled in turn: {tried})"

    def step_table(self) -> str:
        """A table with a line for each step."""
        heading = (
            "part",
            "step",
            "kernel",
            "absolute",
            "ulp",
            "from eager",
            "ulp",
            "operator",
            "line",
        )
        rows = [
            (s.part, str(s.number), s.kind, *_cells(s.own), *_cells(s.eager), s.what, s.source)
            for s in self.steps
        ]
        if not any(s.part for s in self.steps):
            return table([row[1:] for row in rows], heading[1:], range(2, 6))
        return table(rows, heading, range(3, 7))


def _cells(gap: Gap | None) -> tuple[str, str]:
    return ("", "") if gap is None else (f"{gap.absolute:.2g}", f"{gap.ulp:.2g}")

"""What a verification found: gaps, steps, and the answer, which prints as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .._core.frozen import dataclass
from .._core.text_table import indented, table
from ..compiler import CHOICES
from ..runtime.checking import difference

# What a type's own rounding may lose, as a part of the largest value.
_COARSE = {"float16": 4e-3}
THREADS = "threads"


@dataclass(frozen=True)
class Gap:
    """How far one array is from another.

    absolute  the largest difference; inf where only one of the two is a number
    ulp       the same in units of the last place of the right value there
    relative  the same as a part of the largest right value
    coarse    what rounding may make of ``relative``: of the element type, of terms that cancel
    """

    absolute: float
    ulp: float
    relative: float
    coarse: float = 0.0

    def exceeds(self, tolerance: float) -> bool:
        """Whether it is more than ``tolerance``, or than rounding can make of it."""
        return not self.relative <= max(tolerance, self.coarse)

    def __str__(self) -> str:
        return f"{self.absolute:.3g} ({self.ulp:.3g} ulp), {self.relative:.2g} of the largest value"


def gap_between(found: np.ndarray, right: np.ndarray) -> Gap:
    """The gap of two arrays of one shape."""
    relative = difference(found, right)
    if relative == 0.0:
        return Gap(0.0, 0.0, 0.0)
    gaps = np.abs(found.astype(np.float64) - right.astype(np.float64)).reshape(-1)
    at = int(np.argmax(np.where(np.isnan(gaps), np.inf, gaps)))
    absolute = float(gaps[at]) if np.isfinite(gaps[at]) else float("inf")
    unit = 1.0
    if right.dtype.kind == "f" and np.isfinite(right.reshape(-1)[at]):
        unit = float(np.spacing(np.abs(right.reshape(-1)[at])))
    return Gap(absolute, absolute / unit, relative, _COARSE.get(right.dtype.name, 0.0))


@dataclass(frozen=True)
class Checked:
    """A step that was run.

    number  in its plan; ``part`` says which: ``forward``, ``backward``, or nothing for inference
    own     from what its references give for the same operands; None where they draw numbers
    eager   from the value of that name in the graph as it was written; None where there is none
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
        """The step, how far off it is, and the line of the program that it comes from."""
        lines = [f"{self.label} ({self.kind}: {self.what})"]
        lines += [f"    from its own operands    {self.own}"] if self.own else []
        lines += [f"    from the eager values    {self.eager}"] if self.eager else []
        lines += [f"  created at {self.source}"] if self.source else []
        return "\n".join(lines)


@dataclass(frozen=True)
class Special:
    """The first value that holds a NaN or an infinity though nothing that it is made of does.

    part   ``forward``, ``backward``, or nothing for inference
    what   the operator or variable, or a step of the compiled code if eager values are finite
    kind   ``NaN``, or ``infinity`` where there is no NaN
    count  how many of its ``size`` numbers are not finite
    """

    part: str
    what: str
    kind: str
    count: int
    size: int
    source: str

    def __str__(self) -> str:
        where = f", {self.part}" if self.part else ""
        first = f"the first {self.kind}: {self.what}{where}, {self.count} of {self.size} numbers"
        return f"{first}\n  created at {self.source}" if self.source else first


def special_in(part: str, what: str, arrays: Sequence[np.ndarray], source: str) -> Special | None:
    """What is not finite in the arrays that ``what`` made; None if nothing is."""
    floats = [array for array in arrays if array.dtype.kind == "f"]
    count = sum(int(array.size - np.isfinite(array).sum()) for array in floats)
    if not count:
        return None
    kind = "NaN" if any(np.isnan(array).any() for array in floats) else "infinity"
    return Special(part, what, kind, count, sum(array.size for array in floats), source)


@dataclass(frozen=True)
class Verdict:
    """What was found. ``agrees`` is the answer; ``str`` says it with the step and the culprit.

    problem   how a step broke the rules of memory, if one did
    outputs   each output's name and how far a usual call is from the eager values; for training
              each gradient, too, and each auxiliary state that a step changes
    special   where the first NaN or infinity arises, if there is one; it does not count against
              agreement where eager and compiled values have the same
    culprits  choices without which all agrees, when it does not
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
        """The first step that is beyond the tolerance; None if all agrees."""
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

    def _counts(self) -> str:
        """``7 steps``, or ``7 forward and 9 backward steps``."""
        parts = [step.part for step in self.steps]
        counts = [f"{parts.count(part)} {part}".rstrip() for part in dict.fromkeys(parts)]
        return f"{' and '.join(counts) or '0'} steps"

    def _blame(self) -> Iterator[str]:
        for name in self.culprits:
            how = "HYBRIDJIT_NUM_THREADS=1" if name == THREADS else f"HYBRIDJIT_SKIP={name}"
            yield f"culprit: {name}; without it all agrees ({how})"
        if not self.culprits:
            yield f"no choice alone is to blame (left out in turn: {', '.join(CHOICES)}, {THREADS})"

    def step_table(self) -> str:
        """A line for each step."""
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

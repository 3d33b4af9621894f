"""Cover a grid of sizes with code: symbolic plans, and the kernels of each class of sizes.

Input: a network whose inputs have named sizes, and their bounds. Output: parts, each of
which is the code for a class of sizes, and for each combination of sizes the number of its part.

A compilation answers comparisons with the sizes of one combination and records them as guards. It
serves all combinations that satisfy the guards. A failed one is treated in the same way: all
combinations with the same answers fail with the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from .._core.compile_log import CompileLog
from .._core.frozen import dataclass
from .._core.symbolic import Branch, Scope, guard_function, values_function
from .._core.target import Target
from ..codegen.call import Call
from ..codegen.choices import Choices, Made, Note
from ..codegen.emit.generate import choose_calls
from ..codegen.emit.link import link_symbolic
from ..errors import InternalError, MXNetError
from ..ir.graph import Use
from ..ir.plan import Plan
from ..ir.plan_image import Image
from ..ir.template import Repeat
from .grid import Grid
from .interface import MAX_BYTES
from .variants import require_kernels

Point = tuple[int, ...]
Make: TypeAlias = "Callable[[Scope], tuple[Plan, Mapping[str, np.ndarray]]]"
# Parts of one CPU, and refused classes of sizes: their numbers fit into a byte, and those of the
# refused classes begin at REFUSED.
MOST_PARTS, MOST_REFUSED, REFUSED = 200, 56, 200


@dataclass(frozen=True, eq=False)
class SymbolicPlan:
    """A plan for all combinations of sizes that satisfy the guards of its scope."""

    plan: Plan
    params: Mapping[str, np.ndarray]
    scope: Scope
    holds: Callable[..., bool]
    nbytes: Callable[..., tuple[list[int], ...]]


@dataclass(frozen=True)
class Refused:
    """Combinations that the network refuses, and the error of one of them."""

    holds: Callable[..., bool]
    text: str


class Plans:
    """The symbolic plans of a network, made when a combination of sizes needs one.

    make(scope)  plans the network with symbols of the scope, and gives its parameters
    """

    def __init__(self, grid: Grid, make: Make) -> None:
        self._grid, self._make = grid, make
        self._plans: list[SymbolicPlan] = []
        self.refused: list[Refused] = []

    @property
    def first(self) -> SymbolicPlan:
        """The plan that was made first. Raises MXNetError if the network refuses all sizes."""
        if not self._plans:
            raise MXNetError(self.refused[0].text)
        return self._plans[0]

    def at(self, point: Point) -> SymbolicPlan | int:
        """The plan for a combination of sizes, or the number of the class that refuses it."""
        for plan in self._plans:
            if plan.holds(*point):
                large = max(plan.nbytes(*point)[0]) > MAX_BYTES
                return self._too_large() if large else plan
        for number, refused in enumerate(self.refused):
            if refused.holds(*point):
                return REFUSED + number
        return self._new(point)

    def _new(self, point: Point) -> SymbolicPlan | int:
        scope = Scope()
        for bound, size in zip(self._grid.bounds, point):
            scope.symbol(bound.name, size, bound.low, bound.high)
        try:
            plan, params = self._make(scope)
        except InternalError:
            raise
        except MXNetError as error:
            scope.close()
            text = f"the network refuses sizes such as {self._grid.text(point)}: {error}"
            return self._refuse(Refused(guard_function(scope), text))
        scope.close()
        self._plans.append(_with_functions(plan, params, scope))
        return self.at(point)

    def _too_large(self) -> int:
        text = f"an array would have more than {MAX_BYTES} bytes"
        known = [refused.text for refused in self.refused]
        return REFUSED + known.index(text) if text in known else self._refuse(
            Refused(lambda *sizes: False, text)
        )  # fmt: skip

    def _refuse(self, refused: Refused) -> int:
        if len(self.refused) >= MOST_REFUSED:
            raise MXNetError(f"{refused.text}; and so do many others: use narrower bounds")
        self.refused.append(refused)
        return REFUSED + len(self.refused) - 1


@dataclass(frozen=True)
class Part:
    """Kernel calls of a plan for a class of sizes, and their image with symbolic integers.

    repeats  for kernel calls that are repeated, by their number in the image, the repetition
    """

    plan: SymbolicPlan
    calls: tuple[tuple[Call, ...], ...]
    image: Image
    repeats: Mapping[int, Repeat]


class _Class:
    """Sizes for which kernels are chosen by the same comparisons.

    ``numbers`` has the number of the part for each combination of choices that change bits.
    """

    def __init__(self, plan: SymbolicPlan, branch: Branch, notes: Sequence[Note]) -> None:
        self.plan, self.branch = plan, branch
        self.steps: Mapping[int, Sequence[Made]] = {}  # as in Choices
        self.text = f"{branch}; {[str(note.numbers) for note in notes]}"
        self.holds = branch.recorded()
        self.numbers: dict[tuple[Hashable, ...], int] = {}
        distinct = {note.same: note for note in notes}.values()
        columns = [[note.numbers for note in distinct]]
        self._numbers = values_function(plan.scope, tuple(plan.scope.symbols), columns)
        self._keys = [lru_cache(maxsize=None)(note.key) for note in distinct]

    def key(self, point: Point) -> tuple[Hashable, ...]:
        """A key that is equal for sizes with equal bits."""
        (numbers,) = self._numbers(*point)
        return tuple(key(each) for key, each in zip(self._keys, numbers))


class Parts:
    """The parts of one CPU, and the number of the part that serves each combination of sizes."""

    def __init__(self, plans: Plans, grid: Grid, target: Target, winograd: bool | str) -> None:
        self._plans, self._grid = plans, grid
        self._target, self._winograd = target, winograd
        self._memory: dict[SymbolicPlan, dict[Hashable, Any]] = {}
        self._classes: list[_Class] = []
        self.parts: list[Part] = []

    def table(self, log: CompileLog) -> bytes:
        """For each point of the grid the number of its part, or of the class that refuses it.

        Raises MXNetError if the sizes need too many parts, and for steps without a kernel.
        """
        points = reversed([*self._grid.points()])  # large sizes first: they lead to fewer guards
        return bytes(reversed([self._number(point, log) for point in points]))

    def _number(self, point: Point, log: CompileLog) -> int:
        plan = self._plans.at(point)
        if isinstance(plan, int):
            return plan
        within: _Class | None = None
        for each in self._classes:
            if each.plan is plan and each.holds(*point):
                number = each.numbers.get(each.key(point))
                if number is not None:
                    return number
                within = within or each
        return self._made(plan, point, log, within)

    def _made(
        self, plan: SymbolicPlan, point: Point, log: CompileLog, within: _Class | None
    ) -> int:
        if len(self.parts) >= MOST_PARTS:
            raise MXNetError(
                f"a library has kernels for at most {MOST_PARTS} classes of sizes, and these sizes "
                "need more: use narrower bounds, or steps as in --bound 'H%32==0'"
            )
        memory = self._memory.setdefault(plan, {})
        steps = within.steps if within else {}
        with plan.scope.branch(point, within.branch if within else None) as branch:
            choices = Choices(plan.scope, dict(zip(plan.scope.symbols, point)), memory, steps)
            winograd = self._winograd
            calls = choose_calls(plan.plan, self._target, winograd, log, choices=choices)
            require_kernels(plan.plan, calls, self._target)
            image, repeats = link_symbolic(plan.plan, calls)
        found = _Class(plan, branch, choices.notes)
        alike = (each for each in self._classes if each.plan is plan and each.text == found.text)
        found = next(alike, found)
        found.steps = choices.steps
        self._classes = [found, *(each for each in self._classes if each is not found)]
        found.numbers[found.key(point)] = len(self.parts)
        self.parts.append(Part(plan, calls, image, repeats))
        return len(self.parts) - 1


def _with_functions(plan: Plan, params: Mapping[str, np.ndarray], scope: Scope) -> SymbolicPlan:
    graph = plan.graph
    types = [use.type for use in (*map(Use, graph.inputs), *graph.outputs)]
    sizes = [plan.arena_bytes, *(t.nbytes for t in types)]
    nbytes = values_function(scope, tuple(scope.symbols), [sizes])
    return SymbolicPlan(plan, params, scope, guard_function(scope), nbytes)

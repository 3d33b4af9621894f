"""Measurement of candidate kernels of one network, in their context, on this machine.

Input: a plan, its parameters, inputs. Output: the time of every candidate relative to the choice of
the cost model, for each layer with a choice, and the choices that are worth saving. Two executables
alternate: one with the cost model's choices, one with other candidates. Each round yields the ratio
of their times, because clock rate and load change between rounds. Finally, the chosen candidates
are measured again together, and must confirm their gain.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from .._core.compile_log import CompileLog
from .._core.options import Options
from ..codegen.call import Decide
from ..codegen.tuned import Choice, Tuned, key_of
from ..compilation import generate
from ..ir.plan import Plan
from ..runtime.executable import Executable
from ..runtime.profiling import Profiler

# A candidate must take less than this fraction of the cost model's time: smaller gains are not
# reproducible.
_WORTH = 0.97
_ROUNDS = 5

# Arguments: two executables and a time. Result: per round the seconds of every step of both.
Round: TypeAlias = tuple[Sequence[float], Sequence[float]]
Measure: TypeAlias = Callable[[Executable, Executable, float], Sequence[Round]]


@dataclass(frozen=True)
class Tried:
    """The candidates of a layer, with their times relative to the first candidate's."""

    layer: str
    candidates: tuple[Any, ...]
    seconds: float
    ratios: tuple[float, ...]

    @property
    def best(self) -> int:
        """The index of the chosen candidate: the cost model's, unless another gains enough."""
        number = int(np.argmin(self.ratios))
        return number if self.ratios[number] < _WORTH else 0

    def confirmed(self, number: int, again: float) -> Tried:
        """A copy with the time ``again`` for candidate ``number``; no other can be the best."""
        least = {0: 1.0, number: again if number else 1.0}
        ratios = (max(ratio, least.get(i, 1.0)) for i, ratio in enumerate(self.ratios))
        return replace(self, ratios=tuple(ratios))


class _Trial:
    """Decision for candidate ``number`` if there are enough candidates; records the layers."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked: list[tuple[Any, ...]] = []

    def decide(self, candidates: Sequence[Any], target: object) -> Any:
        self.asked.append(tuple(candidates))
        return candidates[self.number if self.number < len(candidates) else 0]


def tune(
    plan: Plan,
    params: Mapping[str, np.ndarray],
    inputs: Sequence[np.ndarray],
    options: Options,
    seconds: float,
    log: CompileLog,
    measure: Measure | None = None,
) -> list[Tried]:
    """Measure for about ``seconds``, in addition to the time of compilations."""

    def bound(decide: Decide) -> Executable:
        executable = generate(plan, options, log, decide)
        executable.bind(params)
        return executable

    compare = measure or (lambda usual, other, time: _rounds(usual, other, inputs, time))
    return _Bench(bound, compare).tried(seconds)


class _Bench:
    """The cost model's executable, and its layers with a choice."""

    def __init__(self, bound: Callable[[Decide], Executable], measure: Measure) -> None:
        first = _Trial(0)
        self._bound, self._measure = bound, measure
        self._usual = bound(first.decide)
        self._layers = [row for row in _layers(self._usual, first.asked) if len(row[2]) > 1]

    def tried(self, seconds: float) -> list[Tried]:
        trials = max((len(asked) for _, _, asked in self._layers), default=0)
        if not trials:
            return []
        time = seconds / trials
        rows = [self._ratios(_Trial(number).decide, time) for number in range(1, trials)]
        found = [
            Tried(name, asked, rows[0][i][0], (1.0, *(r[i][1] for r in rows[: len(asked) - 1])))
            for i, (name, _, asked) in enumerate(self._layers)
        ]
        target = self._usual.code.target
        decide = tuned_of(found, str(target)).decide
        again = self._ratios(decide, time)
        taken = [each.candidates.index(decide(each.candidates, target)) for each in found]
        return [each.confirmed(n, ratio) for each, n, (_, ratio) in zip(found, taken, again)]

    def _ratios(self, decide: Decide, seconds: float) -> list[tuple[float, float]]:
        """For each layer the least seconds of the cost model's kernel, and the ratio of the
        other."""
        rounds = self._measure(self._usual, self._bound(decide), seconds)
        return [
            (
                min(before[step] for before, _ in rounds),
                statistics.median(after[step] / before[step] for before, after in rounds),
            )
            for _, step, _ in self._layers
        ]


def tuned_of(tried: Sequence[Tried], cpu: str) -> Tuned:
    """The choices with a gain; for layers with the same candidates the one with the largest
    gain in total."""
    rows: dict[str, list[Tried]] = {}
    for one in tried:
        rows.setdefault(key_of(one.candidates), []).append(one)
    return Tuned(cpu, {key: choice for key, same in rows.items() for choice in _choice(same)})


def _choice(same: Sequence[Tried]) -> Iterator[Choice]:
    """The choice for layers with the same candidates; empty if the cost model's is the best."""
    candidates, total = same[0].candidates, sum(one.seconds for one in same)
    texts = list(map(str, candidates))
    took = [
        sum(one.seconds * one.ratios[list(map(str, one.candidates)).index(text)] for one in same)
        for text in texts
    ]
    together = Tried(same[0].layer, candidates, total, tuple(one / total for one in took))
    if best := together.best:
        ms = 1e3 / len(same)
        yield Choice(together.layer, texts[best], ms * took[best], texts[0], ms * total)


def _layers(
    executable: Executable, asked: Sequence[tuple[Any, ...]]
) -> list[tuple[str, int, tuple[Any, ...]]]:
    """Name, step number and candidates of each layer with a choice, in order."""
    left, found = list(asked), []
    for number, (step, calls) in enumerate(zip(executable.plan.steps, executable.code.calls)):
        for call in calls:
            if left and call.spec is left[0][0]:
                found.append((step.name, number, left.pop(0)))
    return found


def _rounds(
    usual: Executable, other: Executable, inputs: Sequence[np.ndarray], seconds: float
) -> list[Round]:
    """The least seconds of each step, in rounds in which the two executables alternate."""
    one, two = (Profiler(each, inputs, each.results.arrays(inputs)) for each in (usual, other))
    time = seconds / (2 * _ROUNDS)
    return [(one.least(time), two.least(time)) for _ in range(_ROUNDS)]

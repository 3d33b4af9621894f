"""Candidates for the kernels of one network, measured in their places on this machine.

In: a plan, its parameters, inputs. Out: for each layer with a choice what every candidate took
beside the one that the cost model takes, and of these the choices that are worth a file. Two
executables at a time take turns: the cost model's, and one that takes another candidate wherever
there is one. What a step took is the least of many runs: other programs only add to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..codegen.tuned import Choice, Tuned, key_of
from ..compile_log import CompileLog
from ..compiler import generate
from ..ir.plan import Plan
from ..options import Options
from ..runtime.executable import Executable
from ..runtime.profiling import Profiler

# A candidate is taken that needs less than this of the time of the cost model's: what differs by
# less differs in the next run, too.
_WORTH = 0.97
_LEAST_ROUNDS = 5

# Of the executables, seconds of each step, at best.
Measure: TypeAlias = Callable[[Sequence[Executable], float], Sequence[Sequence[float]]]


@dataclass(frozen=True)
class Tried:
    """The candidates for a layer, and the part of the first one's time that each takes."""

    layer: str
    candidates: tuple[Any, ...]
    seconds: float
    ratios: tuple[float, ...]

    @property
    def best(self) -> int:
        """The number of the candidate to take: the cost model's, unless another gains enough."""
        number = int(np.argmin(self.ratios))
        return number if self.ratios[number] < _WORTH else 0


class _Trial:
    """Takes candidate ``number`` where there are as many, and notes all that it is asked."""

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
    """Measure for about ``seconds``, and as long as compiling takes."""
    measure = measure or (lambda executables, time: _least_times(executables, inputs, time))
    first = _Trial(0)
    usual = _bound(plan, params, options, log, first)
    layers = _layers(usual, first.asked)
    trials = max((len(asked) for asked in first.asked), default=1)
    ratios: list[list[float]] = [[1.0] for _ in layers]
    least = [float("inf")] * len(layers)
    for number in range(1, trials):
        other = _bound(plan, params, options, log, _Trial(number))
        before, after = measure((usual, other), seconds / (trials - 1))
        for i, (_, step, asked) in enumerate(layers):
            least[i] = min(least[i], before[step])
            if number < len(asked):
                ratios[i].append(after[step] / before[step])
    return [
        Tried(name, asked, least[i], tuple(ratios[i]))
        for i, (name, _, asked) in enumerate(layers)
        if len(asked) > 1
    ]


def tuned_of(tried: Sequence[Tried], cpu: str) -> Tuned:
    """The choices that gain something, of layers with the same candidates the one that gains most
    in the sum over them."""
    rows: dict[str, list[Tried]] = {}
    for one in tried:
        rows.setdefault(key_of(one.candidates), []).append(one)
    return Tuned(cpu, {key: choice for key, same in rows.items() for choice in _choice(same)})


def _choice(same: Sequence[Tried]) -> Iterator[Choice]:
    """The choice for layers with the same candidates; none where the cost model's is best."""
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


def _bound(
    plan: Plan,
    params: Mapping[str, np.ndarray],
    options: Options,
    log: CompileLog,
    trial: _Trial,
) -> Executable:
    executable = generate(plan, options, log, trial.decide)
    executable.bind(params)
    return executable


def _layers(
    executable: Executable, asked: Sequence[tuple[Any, ...]]
) -> list[tuple[str, int, tuple[Any, ...]]]:
    """Name, number of the step and candidates of each layer that was decided, in order."""
    left, found = list(asked), []
    for number, (step, calls) in enumerate(zip(executable.plan.steps, executable.code.calls)):
        for call in calls:
            if left and call.spec is left[0][0]:
                found.append((step.name, number, left.pop(0)))
    return found


def _least_times(
    executables: Sequence[Executable], inputs: Sequence[np.ndarray], seconds: float
) -> list[list[float]]:
    """The least seconds of each step, of runs in which all take turns."""
    profilers = [Profiler(each, inputs, each.results.arrays(inputs)) for each in executables]
    found = [profiler.least(0) for profiler in profilers]
    for _ in range(_LEAST_ROUNDS):
        for i, profiler in enumerate(profilers):
            now = profiler.least(seconds / (_LEAST_ROUNDS * len(profilers)))
            found[i] = list(map(min, found[i], now))
    return found

"""Profile of a training step: forward, backward, and the update of each parameter.

Input: a graph, an array for every variable, and the variables with gradients. Output: a
:class:`TrainingReport`. Forward and backward are compiled and measured like inference. An update is
the kernel call of a trainer, parameter by parameter, on copies; optimizers without a kernel run on
NumPy.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from .._core.html_text import html_code, html_fold, html_table
from .._core.options import Options
from .._core.text_table import milliseconds, table
from .._core.types import type_of
from ..compilation import compile_training
from ..context import cpu
from ..ir.node import Output
from ..nd import NDArray
from ..optimizer import Optimizer, create
from ..optimizer.base import State
from ..optimizer.one_call import gather
from ..runtime.profiling import faster_means
from ..runtime.threads import get_num_threads
from ..trained import Trained
from .report import (
    NATIVE,
    UPDATE,
    Event,
    Report,
    lanes_of,
    measure,
    named_lanes,
    write_events,
)

_LEAST_ROUNDS = 4
_MOST_ROUNDS = 400
# Shares of the measuring time: forward, backward and updates.
_SHARES = (0.4, 0.4, 0.2)


@dataclass(frozen=True)
class Update:
    """The update of one parameter: seconds, and the bytes that it reads and writes."""

    name: str
    rule: str
    is_native: bool
    seconds: float
    nbytes: int

    @property
    def algorithm(self) -> str:
        """The name of the algorithm, as for other steps."""
        return f"{'update' if self.is_native else 'host'} {self.rule}"


@dataclass(frozen=True)
class TrainingReport:
    """The parts of a step; ``backward`` is None if no gradient is computed."""

    forward: Report
    backward: Report | None
    updates: tuple[Update, ...]

    def __str__(self) -> str:
        parts = [f"forward: {self.forward}"]
        parts += [f"backward: {self.backward}"] if self.backward else []
        parts += [f"update:\n{self._update_table()}"] if self.updates else []
        return "\n\n".join([*parts, self._sums()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The report for notebooks."""
        parts = [("forward", self.forward._repr_html_())]
        parts += [("backward", self.backward._repr_html_())] if self.backward else []
        parts += [("update", html_table(*self._update_rows()))] if self.updates else []
        folds = [html_fold(name, inside, name == "forward") for name, inside in parts]
        return "".join([html_code(self._sums()), *folds])

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each part of a step."""
        found = {"forward": self.forward.profile.total}
        if self.backward:
            found["backward"] = self.backward.profile.total
        return {**found, "update": sum(update.seconds for update in self.updates)}

    def document(self) -> dict[str, Any]:
        """The report as a JSON document: seconds, operations per second, bytes."""
        return {
            "forward": self.forward.document(),
            "backward": self.backward and self.backward.document(),
            "update": [asdict(update) for update in self.updates],
            "seconds": self.seconds,
        }

    def write_trace(self, path: str) -> None:
        """Write the steps as a Chrome trace, for chrome://tracing or ui.perfetto.dev."""
        write_events(path, self._events())

    def _update_table(self) -> str:
        return table(*self._update_rows())

    def _update_rows(self) -> tuple[list[tuple[str, ...]], tuple[str, ...], range]:
        """Rows of the table of updates, its heading, and the indices of its numeric columns."""
        heading = ("step", "ms", "share", "GB/s", "algorithm", "parameter")
        whole = self.seconds["update"] or 1.0
        rows: list[tuple[str, ...]] = [
            (
                str(number),
                milliseconds(update.seconds),
                f"{100 * update.seconds / whole:.1f}%",
                f"{1e-9 * update.nbytes / update.seconds:.1f}" if update.seconds else "",
                update.algorithm,
                update.name,
            )
            for number, update in enumerate(self.updates)
        ]
        return rows, heading, range(4)

    def _sums(self) -> str:
        parts = self.seconds
        whole = sum(parts.values()) or 1.0
        shares = [
            f"{name} {milliseconds(took)} ms ({100 * took / whole:.1f}%)"
            for name, took in parts.items()
        ]
        return f"a step takes {milliseconds(whole)} ms: {', '.join(shares)}"

    def _events(self) -> Iterator[Event]:
        now = 0.0
        reports = [report for report in (self.forward, self.backward) if report is not None]
        graph = self.forward.profile.plan.graph.name
        lanes = lanes_of([report.profile for report in reports])
        lanes[NATIVE] = f"forward and backward, {lanes[NATIVE]}"
        if self.updates:
            lanes[UPDATE] = "updates of parameters"
        yield from named_lanes(f"training of {graph} on {self.forward.target}", lanes)
        for report in reports:
            for event in report.events():
                if event["ph"] != "M":
                    yield {**event, "ts": now + event["ts"]}
            now += 1e6 * report.profile.once
        for update in self.updates:
            shape = {"name": update.name, "cat": update.algorithm, "ph": "X", "pid": 0}
            took = 1e6 * update.seconds
            yield {**shape, "tid": UPDATE, "ts": now, "dur": took, "args": {"bytes": update.nbytes}}
            now += took


def profile_training(
    outputs: Sequence[Output],
    arrays: Mapping[str, np.ndarray],
    wanted: Collection[str],
    seconds: float = 3.0,
    optimizer: str | Optimizer = "sgd",
    name: str = "graph",
    inputs: Collection[str] = (),
    options: Options = Options(),  # noqa: B008 (frozen)
) -> TrainingReport:
    """Measure a training step for about ``seconds``. Output gradients are ones.

    arrays      of all variables, in call order; ``wanted`` are those with gradients, of which all
                but ``inputs`` are updated
    Raises the exceptions of compiling the graph, NoGradientError, ValueError for an unknown
    optimizer.
    """
    rule = create(optimizer) if isinstance(optimizer, str) else copy.deepcopy(optimizer)
    types = {n: type_of(array) for n, array in arrays.items()}
    trained = compile_training(outputs, types, wanted, True, options, name)
    return measure_training(trained, arrays, seconds, rule, inputs)


def measure_training(
    trained: Trained,
    arrays: Mapping[str, np.ndarray],
    seconds: float,
    rule: Optimizer,
    inputs: Collection[str] = (),
) -> TrainingReport:
    """As :func:`profile_training`, for a compiled graph; ``rule`` is a private optimizer."""
    forward, backward, update = (share * seconds for share in _SHARES)
    given = [np.array(array, order="C") for array in arrays.values()]
    trained.forward.bind({})
    ahead = measure(trained.forward, given, forward)
    back = None
    if trained.backward is not None:
        trained.backward.bind({})
        back = measure(trained.backward, _reads(trained, given), backward)
    learned = [n for n in trained.joint.gradients if n not in inputs]
    weights = {n: NDArray(np.array(arrays[n]), cpu()) for n in learned}
    return TrainingReport(ahead, back, tuple(_updates(rule, weights, update)))


def _reads(trained: Trained, given: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Inputs of the backward executable: values of a forward call, and output gradients of 1."""
    made = trained.forward(given)
    visible = len(trained.joint.forward.outputs)
    named = dict(zip((v.name for v in trained.joint.forward.inputs), given))
    heads = (np.ones_like(made[number]) for number in trained.parts.heads)
    return [*(named[name] for name in trained.parts.reads), *made[visible:], *heads]


def _updates(rule: Optimizer, weights: Mapping[str, NDArray], seconds: float) -> Iterator[Update]:
    """The update of each weight, measured in rounds."""
    grads = {name: weight * 1e-3 for name, weight in weights.items()}
    states = {n: rule.create_state_multi_precision(n, weight) for n, weight in weights.items()}
    calls = {n: _call(rule, n, weight, grads[n], states[n]) for n, weight in weights.items()}
    clock = time.thread_time if get_num_threads() == 1 else time.perf_counter
    rounds: list[list[float]] = []
    deadline = time.perf_counter() + seconds
    while len(rounds) < _LEAST_ROUNDS or (
        len(rounds) < _MOST_ROUNDS and time.perf_counter() < deadline
    ):
        took = []
        for run, _ in calls.values():
            start = clock()
            run()
            took.append(clock() - start)
        rounds.append(took)
    for (name, weight), mean in zip(weights.items(), faster_means(rounds)):
        moved = 3 * weight._data.nbytes + 2 * _state_bytes(states[name])
        yield Update(name, type(rule).__name__, calls[name][1], mean, moved)


def _call(
    rule: Optimizer, name: str, weight: NDArray, grad: NDArray, state: State
) -> tuple[Callable[[], None], bool]:
    """The update of one weight, and whether a kernel computes it.

    A trainer sets the learning rates of all weights once; the call of a kernel excludes that.
    """
    kernel = gather(rule, [name], [weight], [grad], [state])
    if kernel is not None and kernel.run([]):
        return partial(kernel.apply, []), True
    return partial(rule.update_multi_precision, name, weight, grad, state), False


def _state_bytes(state: object) -> int:
    if isinstance(state, NDArray):
        return state._data.nbytes
    return sum(map(_state_bytes, state)) if isinstance(state, (tuple, list)) else 0

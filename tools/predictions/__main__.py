"""How near the cost model is to the profile: each step's predicted time beside the measured one.

    python tools/predictions DIR [NETWORK...]    DIR/NETWORK-symbol.json, -0000.params, -io.npz

A step's terms are in ``model.py``, and in ``memory.py`` which memory its operands come from. The
measured time is the least of many runs on one thread. A line for each network, then for each kind,
says how many steps are within 15 %; ``--worst`` names those that are furthest off, with their
terms.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from memory import Operands, operands_of
from model import Terms, Work, terms

from hybridjit._core.options import Options
from hybridjit._core.text_table import table
from hybridjit.cli.model import parameters, read_model, variable_types
from hybridjit.codegen.families import family_of
from hybridjit.codegen.peak import measure_flops
from hybridjit.compilation import compile_graph
from hybridjit.profiling import part_name
from hybridjit.runtime.executable import Executable
from hybridjit.runtime.profiling import Part, Profiler
from hybridjit.runtime.threads import threads

NEAR = 0.15


@dataclass(frozen=True)
class Row:
    """One call of a step: its kind, its seconds, and those that were predicted, by their terms."""

    name: str
    kind: str
    seconds: float
    terms: Terms
    cycle: float

    @property
    def ratio(self) -> float:
        return self.terms.cycles * self.cycle / self.seconds

    @property
    def is_near(self) -> bool:
        return abs(self.ratio - 1) <= NEAR


def rows_of(prefix: Path, seconds: float) -> Iterator[Row]:
    executable, x = compiled(prefix)
    inputs = [x.astype(executable.plan.graph.inputs[0].type.dtype)]
    profiler = Profiler(executable, inputs, executable.results.arrays(inputs))
    rounds, end = [profiler.run_watched()], time.perf_counter() + seconds
    while len(rounds) < 9 or time.perf_counter() < end:
        rounds.append(profiler.run_watched())
    least = np.min(rounds, axis=0)
    target = executable.code.target
    peak = max(measure_flops(target) for _ in range(3))
    cycle = 2 * target.lanes * family_of(target).sums(target) / peak
    operands = operands_of(executable)
    calls = [(s, c) for s, r in zip(executable.plan.steps, executable.code.calls) for c in r or [0]]
    for (step, call), took in zip(calls, least):
        if call and took:
            part = Part(step, call, took)
            alone = sum(other is step for other, _ in calls) == 1
            found = terms(Work(part, operands[step.number] if alone else Operands(), target))
            name = f"{prefix.name} {step.name}: {part_name(part)}"
            yield Row(name, call.spec.kind, took, found, cycle)


def compiled(prefix: Path) -> tuple[Executable, np.ndarray]:
    """The network, bound, and its inputs."""
    x = np.load(f"{prefix}-io.npz")["x"]
    given = {"data": x.shape}
    model = read_model(f"{prefix}-symbol.json", f"{prefix}-0000.params", given, given)
    inputs, params = variable_types(model, given, {})
    executable = compile_graph(model.outputs, inputs, params, Options(), name=model.name)
    assert isinstance(executable, Executable), "one sample runs by itself"
    executable.bind(parameters(model, params))
    return executable, x


def summary(what: str, rows: Sequence[Row]) -> tuple[str, ...]:
    near, seconds = [row for row in rows if row.is_near], sum(row.seconds for row in rows)
    share = sum(row.seconds for row in near) / seconds
    ratios = np.quantile([row.ratio for row in rows], (0.1, 0.5, 0.9))
    return (
        what,
        f"{1e3 * seconds:.3f}",
        f"{len(near)} of {len(rows)}",
        f"{100 * len(near) / len(rows):.0f}%",
        f"{100 * share:.0f}%",
        *(f"{ratio:.2f}" for ratio in ratios),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="How near predicted times are.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=5, help="for each network (5)")
    parser.add_argument("--worst", type=int, default=0, help="so many steps, by time")
    options = parser.parse_args()
    names = options.names or sorted(
        path.name.removesuffix("-symbol.json") for path in options.folder.glob("*-symbol.json")
    )
    found: list[Row] = []
    by_net, by_kind = [], defaultdict(list)
    with threads(1):
        for name in names:
            rows = list(rows_of(options.folder / name, options.seconds))
            by_net.append(summary(name, rows))
            found += rows
    for row in found:
        by_kind[row.kind].append(row)
    lines = [*by_net, *(summary(*kind) for kind in sorted(by_kind.items())), summary("all", found)]
    heading = ("", "ms", f"within {100 * NEAR:.0f}%", "", "of the time", "10%", "median", "90%")
    print(table(lines, heading, right=range(1, 8)))
    far = sorted((r for r in found if not r.is_near), key=lambda row: -row.seconds)
    for row in far[: options.worst]:
        print(f"{1e6 * row.seconds:9.1f} us, {row.ratio:.2f} of it predicted: {row.name}")
        print(f"{'':14}{described(row)}")


def described(row: Row) -> str:
    """The terms of a prediction in microseconds."""
    each = ("compute", "weights", "operands", "beside")
    return ", ".join(f"{name} {1e6 * row.cycle * getattr(row.terms, name):.1f}" for name in each)


if __name__ == "__main__":
    main()

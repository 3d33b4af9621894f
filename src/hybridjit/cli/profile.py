"""``hybridjit profile``: the time of every step of a compiled model, and what it is a share of.

In: a graph and shapes. Out: a row for each kernel call and host step, measured within whole runs,
held against this host's measured peak; and on request the same as a Chrome trace.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..codegen.module import kernel_name
from ..codegen.peak import measure_flops
from ..codegen.stopwatch import Stopwatch
from ..compiler import Journal, compile_graph
from ..io.atomic import write_atomically
from ..ir.plan import Step
from ..runtime.executable import Executable
from ..runtime.profiling import Part, Profile, Profiler, bytes_moved
from ..runtime.threads import get_num_threads, threads
from .algorithm import algorithm
from .arguments import add_model, add_shapes, add_target, chosen_target
from .model import model_of, parameters, stand_in
from .table import table

_HEADING = (
    "step", "ms", "share", "GFLOP/s", "of peak", "GB/s", "algorithm", "operator", "fused", "line",
)  # fmt: skip
_CLOSE = 0.05
_LONG = 1e-3  # seconds from which the parts have to be the whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, " (without it, random ones)")
    add_shapes(parser)
    parser.add_argument("--threads", metavar="N", type=int, help="default: what a call uses")
    parser.add_argument("--seconds", metavar="S", type=float, default=3.0, help="time to take (3)")
    parser.add_argument("--trace", metavar="FILE", help="write a Chrome trace, for ui.perfetto.dev")
    parser.epilog = (
        "GFLOP/s counts two operations for each multiplication in the definition of the operator; "
        "Winograd needs fewer, so it can pass 100% of peak. GB/s counts each element that a step "
        "reads or writes once."
    )
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    model, input_types, param_types = model_of(args)
    with chosen_target(args.target) as target, threads(args.threads or get_num_threads()):
        graph = (model.outputs, input_types, param_types)
        executable = compile_graph(*graph, journal=Journal(), name=model.name)
        executable.bind(parameters(model, param_types))
        profile = profile_of(
            executable, [stand_in(n, t) for n, t in input_types.items()], args.seconds
        )
        peak = measure_flops(target)
    given = ", ".join(f"{name} {wanted}" for name, wanted in input_types.items())
    print(f"{model.name} ({given}) on {target}, {count_text(profile.threads, 'thread')}")
    print(report(profile, peak))
    if args.trace:
        write_atomically(args.trace, [json.dumps(trace(profile)).encode()])
    return 0


def profile_of(executable: Executable, inputs: list[np.ndarray], seconds: float) -> Profile:
    """A profile of a bound executable on these inputs."""
    outputs = [np.empty(shape, dtype) for shape, dtype in executable.output_types]
    stopwatch = Stopwatch(executable.code.driver, executable.code.target)
    return Profiler(executable, inputs, outputs, stopwatch).profile(seconds)


# The table


def report(profile: Profile, peak: float) -> str:
    """The table, its sums, and what they are worth. ``peak``: operations per second of a core."""
    most = peak * profile.threads
    rows = [part_row(part, profile, most) for part in profile.parts]
    lines = [
        table(rows, _HEADING, right=range(6)),
        f"peak {1e-9 * most:.0f} GFLOP/s on {count_text(profile.threads, 'thread')}; "
        f"kernels {sums_text(profile, most)}",
        difference_text(profile),
    ]
    return "\n".join(lines)


def part_row(part: Part, profile: Profile, most: float) -> tuple[str, ...]:
    step = part.step
    alone = sum(other.step is step for other in profile.parts) == 1
    rate = flops(part) / part.seconds if part.seconds else 0.0
    return (
        str(step.number),
        f"{1e3 * part.seconds:.4f}",
        f"{100 * part.seconds / profile.total:.1f}%",
        f"{1e-9 * rate:.1f}" if rate else "",
        f"{100 * rate / most:.0f}%" if rate else "",
        f"{1e-9 * bytes_moved(step) / part.seconds:.1f}" if alone and part.seconds else "",
        part_name(part),
        step.name,
        fused_text(step),
        source_of(step),
    )


def flops(part: Part) -> float:
    return 0.0 if part.call is None else 2.0 * part.call.work


def part_name(part: Part) -> str:
    """The algorithm, or which operator NumPy computes."""
    if part.call is not None:
        return algorithm(part.call.spec)
    op = part.step.group.anchor.op
    return f"host {op.name if op else 'copy'}"


def fused_text(step: Step) -> str:
    return ", ".join(value.op.name for value in step.group.epilogue if value.op)


def source_of(step: Step) -> str:
    """The user's line that the step comes from; a graph from a file has none."""
    return next((value.source for value in step.group.members if value.source), "")


def sums_text(profile: Profile, most: float) -> str:
    """What the kernels reach together, without the host's steps."""
    native = [part for part in profile.parts if part.call is not None]
    seconds = sum(part.seconds for part in native)
    work = sum(map(flops, native))
    if not seconds:
        return "none"
    rate = work / seconds
    host = sum(part.seconds for part in profile.parts if part.call is None)
    text = f"{1e3 * seconds:.3f} ms, {1e-9 * rate:.1f} GFLOP/s, {100 * rate / most:.0f}% of peak"
    return text + (f"; host steps {1e3 * host:.3f} ms" if host else "")


def difference_text(profile: Profile) -> str:
    """The parts together against runs that were not watched."""
    text = (
        f"steps together {1e3 * profile.total:.3f} ms, starting them {1e3 * profile.start:.3f} ms, "
        f"a whole run that was not looked into {1e3 * profile.whole:.3f} ms: "
        f"{100 * profile.excess:+.1f}% in {count_text(profile.rounds, 'round')}"
    )
    if profile.whole < _LONG:
        return text
    if abs(profile.excess) <= _CLOSE:
        return text + " (within 5%)"
    return text + " (MORE THAN 5%: something else used the machine, run it again)"


def count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


# The trace


def trace(profile: Profile) -> dict[str, Any]:
    """The parts end to end as complete events of the Trace Event Format; times in microseconds."""
    events = list(_events(profile.parts))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _events(parts: Iterable[Part]) -> Iterable[dict[str, Any]]:
    now = 0.0
    for part in parts:
        call = part.call
        details = {
            "step": part.step.number,
            "kernel": "" if call is None else kernel_name(call.spec),
            "spec": "" if call is None else str(call.spec),
            "fused": fused_text(part.step),
            "GFLOP/s": 1e-9 * flops(part) / part.seconds if part.seconds else 0.0,
            "bytes": bytes_moved(part.step),
            "line": source_of(part.step),
        }
        yield {
            "name": part.step.name,
            "cat": part_name(part),
            "ph": "X",
            "ts": 1e6 * now,
            "dur": 1e6 * part.seconds,
            "pid": 0,
            "tid": 0,
            "args": details,
        }
        now += part.seconds

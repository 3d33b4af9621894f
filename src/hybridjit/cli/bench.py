"""``hybridjit bench``: compile time, first call, latency and memory of a model.

Input: a graph, shapes, thread counts, batch sizes. Output: a table row for each. The timed call is
the compiled function with new outputs; ``net(x)`` adds a few microseconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._core.config import override
from .._core.options import Options
from .._core.text_table import milliseconds, table
from ..compilation import compile_graph
from ..runtime.memory import peak_memory
from ..runtime.threads import get_num_threads, threads
from .arguments import (
    UsageError,
    add_json,
    add_model,
    add_precision,
    add_shapes,
    add_target,
    chosen_target,
    counts,
    duration,
    is_onnx,
    print_json,
)
from .inputs import completed, given_early, names_given
from .model import Model, Types, example_inputs, parameters, read_model_of, variable_types

_HEADING = (
    "batch", "threads", "compile ms", "first call ms", "median ms", "p10", "p90", "calls",
    "samples/s", "peak MB",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, " (without it, random ones)")
    add_shapes(parser)
    parser.add_argument(
        "--threads",
        metavar="N,...",
        type=counts,
        help="numbers of threads (default: as for a call)",
    )
    parser.add_argument(
        "--batch",
        metavar="N,...",
        type=counts,
        help="batch sizes, which replace the first size of every --shape",
    )
    parser.add_argument(
        "--seconds", metavar="S", type=duration, default=2.0, help="duration of each row (2)"
    )
    parser.add_argument("--cold", action="store_true", help="ignore the cache of compiled objects")
    add_json(parser)
    add_precision(parser)
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    early = given_early(args)
    model = read_model_of(args, names_given(args), early.shapes)
    found = completed(early, model.inputs, args)
    shapes, dtypes, args.arrays = found.shapes, found.dtypes, found.arrays
    if args.batch and args.arrays:
        raise UsageError("--batch needs --shape, because an array of --input has its own size")
    options = Options(precision=args.precision)
    cold = override(cache_dir="off") if args.cold else nullcontext()
    with chosen_target(args.target) as target, cold:
        drawn = model.params is None
        rows: list[Row] = []
        for batch in args.batch or [None]:
            given = shapes if batch is None else with_batch(shapes, batch)
            # Constants that depend on sizes only are computed there.
            if batch is not None and is_onnx(args.symbol):
                model = read_model_of(args, given, given)
            inputs, params = variable_types(model, given, dtypes)
            arrays = [*example_inputs(args, inputs).values()]
            how = (options, args.threads, args.seconds)
            rows += measure_model(model, inputs, params, arrays, *how)
    if args.json:
        facts = {"model": model.name, "target": str(target), "random_parameters": drawn}
        print_json({**facts, "rows": [row._asdict() for row in rows]})
    else:
        print(f"{model.name} on {target}{', random parameters' if drawn else ''}")
        print(table([_cells(row) for row in rows], _HEADING, right=range(len(_HEADING))))
    return 0


def with_batch(shapes: Mapping[str, tuple[int, ...]], batch: int) -> dict[str, tuple[int, ...]]:
    """The shapes with another first size. Raises UsageError without shapes."""
    if not shapes:
        raise UsageError("--batch replaces the first size of every --shape: give --shape")
    return {name: (batch, *shape[1:]) for name, shape in shapes.items() if shape}


@dataclass(frozen=True)
class Latency:
    """Seconds of the first call, and of the calls after a warm-up."""

    first: float
    times: list[float]

    def quantile(self, part: float) -> float:
        return self.times[min(len(self.times) - 1, int(part * len(self.times)))]

    @property
    def median(self) -> float:
        return self.quantile(0.5)


def measure_model(
    model: Model,
    inputs: Types,
    params: Types,
    arrays: Sequence[np.ndarray],
    options: Options,
    thread_counts: list[int] | None,
    seconds: float,
) -> list[Row]:
    """A row per thread count, with one compilation."""
    start = time.perf_counter()
    executable = compile_graph(model.outputs, inputs, params, options, name=model.name)
    compiled = time.perf_counter() - start
    executable.bind(parameters(model, params))
    batch = arrays[0].shape[0] if arrays and arrays[0].ndim else 1
    rows = []
    for number, count in enumerate(thread_counts or [get_num_threads()]):
        with threads(count):
            latency = measure_call(lambda: executable(arrays), seconds)
        numbers = (1e3 * compiled, 1e3 * latency.first) if number == 0 else (None, None)
        rows.append(_row(batch, count, numbers, latency))
    return rows


class Row(NamedTuple):
    """One measurement; the times of compilation and of the first call are in a model's first."""

    batch: int
    threads: int
    compile_ms: float | None
    first_call_ms: float | None
    median_ms: float
    p10_ms: float
    p90_ms: float
    calls: int
    samples_per_second: float
    peak_mb: float


def _row(
    batch: int, count: int, once_only: tuple[float | None, float | None], latency: Latency
) -> Row:
    median, p10, p90 = (1e3 * latency.quantile(part) for part in (0.5, 0.1, 0.9))
    rate = batch / latency.median
    peak = 1e-6 * peak_memory()
    return Row(batch, count, *once_only, median, p10, p90, len(latency.times), rate, peak)


def _cells(row: Row) -> tuple[str, ...]:
    once_only = (row.compile_ms, row.first_call_ms)
    return (
        str(row.batch),
        str(row.threads),
        *("" if value is None else f"{value:.1f}" for value in once_only),
        *(milliseconds(1e-3 * value) for value in (row.median_ms, row.p10_ms, row.p90_ms)),
        str(row.calls),
        f"{row.samples_per_second:.1f}",
        f"{row.peak_mb:.0f}",
    )


def measure_call(call: Callable[[], object], seconds: float) -> Latency:
    """Time the first call, a warm-up of a tenth of ``seconds``, then calls for ``seconds``.

    At least one call is timed after the warm-up, whatever its duration.
    """
    clock = time.perf_counter
    start = clock()
    call()
    first = clock() - start
    end = clock() + seconds / 10
    while clock() < end:
        call()
    times: list[float] = []
    end = clock() + seconds
    while not times or clock() < end:
        start = clock()
        call()
        times.append(clock() - start)
    return Latency(first, sorted(times))

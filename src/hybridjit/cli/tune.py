"""``hybridjit tune``: choose the kernels of one model by measurement on this machine.

Input: a graph and shapes. Output: a file of kernels that were faster than those of the cost model;
compilations use it while HYBRIDJIT_TUNED names it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

import numpy as np

from .._core.options import Options
from .._core.text_table import milliseconds, table
from ..codegen.tuned import Choice, Tuned, read_tuned, write_tuned
from ..compilation import plan_one_sample
from ..compiler import new_log, plan_graph, purpose_with
from ..profiling import algorithm
from ..profiling.tuning import Tried, tune, tuned_of
from ..runtime.split_batch import take_sample
from ..runtime.threads import get_num_threads, threads
from .arguments import (
    UsageError,
    add_measuring,
    add_model,
    add_precision,
    add_shapes,
    add_target,
    chosen_target,
)
from .model import example_inputs, model_of, parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, " (without it, random ones)")
    add_shapes(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="file to which the kernels are added"
    )
    add_measuring(parser, 20)
    parser.epilog = (
        "With HYBRIDJIT_TUNED=FILE every later compilation on this kind of CPU uses the kernels of "
        "the file. Results may differ in their last digits where another algorithm is chosen; they "
        "depend only on the file."
    )
    add_precision(parser)
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    model, input_types, param_types = model_of(args)
    options, log = Options(precision=args.precision), new_log()
    purpose = purpose_with(options)
    plan = plan_graph(model.outputs, input_types, param_types, log, model.name, purpose)
    one = plan_one_sample(plan, model.outputs, input_types, param_types, log)
    inputs: Sequence[np.ndarray] = [*example_inputs(args, input_types).values()]
    inputs = inputs if one is None else take_sample(inputs, 0)
    with chosen_target(args.target) as target, threads(args.threads or get_num_threads()):
        before = _before(args.output, str(target))
        params = parameters(model, param_types)
        tried = tune(one or plan, params, inputs, options, args.seconds, log)
    found = tuned_of(tried, str(target))
    write_tuned(args.output, Tuned(found.cpu, {**before, **found.choices}))
    print(_report(tried, found))
    print(f"HYBRIDJIT_TUNED={args.output} makes {model.name} use these kernels on {target}")
    return 0


def _before(path: str, cpu: str) -> dict[str, Choice]:
    """The choices of an existing file, which are preserved."""
    if not os.path.exists(path):
        return {}
    there = read_tuned(path)
    if there.cpu != cpu:
        raise UsageError(
            f"{path} was measured on {there.cpu}, and this CPU is {cpu}: give another file"
        )
    return dict(there.choices)


def _report(tried: Sequence[Tried], found: Tuned) -> str:
    rows = [_row(one) for one in tried]
    heading = ("layer", "ms", "cost model's", "best", "of its time", "candidates")
    total, gained = sum(one.seconds for one in tried), sum(map(_gained, tried))
    return "\n".join(
        [
            table(rows, heading, right=(1, 4, 5)),
            f"{len(found.choices)} of {len(tried)} choices changed, which saves "
            f"{milliseconds(gained)} of {milliseconds(total)} ms",
        ]
    )


def _gained(one: Tried) -> float:
    return one.seconds * (1 - one.ratios[one.best])


def _row(one: Tried) -> tuple[str, ...]:
    return (
        one.layer,
        milliseconds(one.seconds),
        algorithm(one.candidates[0]),
        algorithm(one.candidates[one.best]) if one.best else "",
        f"{100 * one.ratios[one.best]:.0f}%" if one.best else "",
        str(len(one.candidates)),
    )

"""``hybridjit profile``: time of every step of a compiled model, with its share of the peak.

Input: a graph and shapes. Output: a row for each kernel call and host step, measured within
complete runs and compared with this host's measured peak; optionally a Chrome trace. With
``--train`` a training step: forward, backward, and the update of each parameter.
"""

from __future__ import annotations

import argparse

from .._core.options import Options
from .._core.symbolic import hint_of, scope_of, sizes_in
from ..compilation import compile_graph, compile_variant
from ..profiling import Report, TrainingReport, measure, profile_training
from ..runtime.executable import Executable
from ..runtime.split_batch import SplitBatch
from ..runtime.threads import get_num_threads, threads
from .arguments import (
    UsageError,
    add_json,
    add_measuring,
    add_model,
    add_precision,
    add_shapes,
    add_target,
    chosen_target,
    print_json,
    symbolic_shape,
)
from .model import Model, Types, example_inputs, learned, model_of, parameters
from .step import add_step
from .symbols import symbolic_shapes, with_symbols


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, " (without it, random ones)")
    add_shapes(parser, symbolic_shape, "; a capital letter is a symbolic size: data=N,3,H,W")
    add_measuring(parser, 3)
    add_step(parser, "profile a training step: forward, backward, update")
    parser.add_argument("--trace", metavar="FILE", help="write a Chrome trace, for ui.perfetto.dev")
    parser.epilog = (
        "GFLOP/s counts two operations for each multiplication in the definition of the operator; "
        "Winograd and Strassen need fewer, so they can exceed 100% of peak; a float64 operation "
        "counts as two. GB/s counts each element that a step reads or writes once. For networks in "
        "Python, hybridjit.profiling.profile(net, x) lists the steps with the lines of "
        "hybrid_forward."
    )
    add_json(parser)
    add_precision(parser)
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    scope, sized = symbolic_shapes(args.shape)
    if scope.symbols and args.train:
        raise UsageError("--train needs sizes that are integers: --shape has letters")
    args.shape = [(name, tuple(map(hint_of, shape))) for name, shape in sized.items()]
    model, input_types, param_types = model_of(args, any_batch=bool(scope.symbols))
    with chosen_target(args.target), threads(args.threads or get_num_threads()):
        report: Report | TrainingReport
        if args.train:
            report = _training(args, model, input_types, param_types)
        else:
            executable = _compiled(args, model, with_symbols(input_types, sized), param_types)
            executable.bind(parameters(model, param_types))
            arrays = [*example_inputs(args, input_types).values()]
            report = measure(executable, arrays, args.seconds)
    print_json(report.document()) if args.json else print(report)
    if args.trace:
        report.write_trace(args.trace)
    return 0


def _compiled(
    args: argparse.Namespace, model: Model, input_types: Types, param_types: Types
) -> Executable | SplitBatch:
    """The executable; that of a variant for the sizes that symbols stand for."""
    options = Options(precision=args.precision)
    graph = (model.outputs, input_types, param_types)
    symbolic = next(sizes_in(tuple(t.dims for t in input_types.values())), None)
    if symbolic is None:
        return compile_graph(*graph, options, name=model.name)
    scope = scope_of(symbolic)
    variant = compile_variant(*graph, scope, options, name=model.name)
    return variant.at(tuple(int(hint_of(n)) for n in scope.symbols.values()))


def _training(
    args: argparse.Namespace, model: Model, input_types: Types, param_types: Types
) -> TrainingReport:
    inputs = example_inputs(args, input_types)
    arrays, wanted = learned(model, inputs, parameters(model, param_types))
    return profile_training(
        model.outputs,
        arrays,
        wanted,
        args.seconds,
        args.optimizer,
        model.name,
        tuple(inputs),
        Options(precision=args.precision),
    )

"""``hybridjit verify``: compare a compiled model with the same model run by NumPy, step by step.

Input: a model's files, and an array or a shape for each input; the values for a shape follow from
the input's name. Output: whether the results agree; otherwise the first step that differs and the
compiler choice that causes it; and the source of the first NaN or infinity. Exit code 0 if they
agree, otherwise 1.
"""

from __future__ import annotations

import argparse

from .._core.options import Options
from ..verification import TOLERANCES, verify_graph, verify_training
from .arguments import add_model, add_precision, add_shapes, add_target, chosen_target
from .model import example_inputs, learned, model_of, parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, " (without it, random ones)")
    add_shapes(parser)
    parser.add_argument(
        "--tolerance",
        metavar="T",
        type=float,
        help="allowed difference, as a fraction of the largest value "
        + f"({', '.join(f'{name}: {value:g}' for name, value in TOLERANCES.items())})",
    )
    parser.add_argument(
        "--train",
        action="store_true",
        help="compare in training mode, forward and backward; give labels by --input or --shape",
    )
    parser.add_argument("--steps", action="store_true", help="print a line for every step")
    add_precision(parser)
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    model, types, param_types = model_of(args)
    inputs = example_inputs(args, types)
    params = parameters(model, param_types)
    usual = TOLERANCES[args.precision]
    tolerance = usual if args.tolerance is None else args.tolerance
    how = (Options(precision=args.precision), tolerance, model.name)
    with chosen_target(args.target):
        if args.train:
            arrays, wanted = learned(model, inputs, params)
            verdict = verify_training(model.outputs, arrays, wanted, *how)
        else:
            verdict = verify_graph(model.outputs, inputs, params, *how)
    if args.steps:
        print(verdict.step_table())
    print(verdict)
    return 0 if verdict.agrees else 1

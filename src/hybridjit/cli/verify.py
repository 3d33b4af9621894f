"""``hybridjit verify``: compare a compiled model with the same model run by NumPy, step by step.

Input: a model's files and arrays for its inputs. Output: whether they agree; otherwise the first
step that differs and the compiler choice that causes it; and the source of the first NaN or
infinity. Exit code 0 if they agree, otherwise 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np

from ..verification import TOLERANCE, verify_graph, verify_training
from .arguments import add_model, add_target, chosen_target, input_file
from .model import learned, parameters, read_model, variable_types
from .run import early_arrays, named_files, read_arrays, require_inputs, shapes_of, typed

Arrays = Mapping[str, np.ndarray]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, " (without it, random ones)")
    parser.add_argument(
        "--input",
        metavar="[NAME=]FILE.npy",
        type=input_file,
        action="append",
        default=[],
        help="array of an input; repeat for each (NAME= is optional for a single input)",
    )
    parser.add_argument(
        "--tolerance",
        metavar="T",
        type=float,
        default=TOLERANCE,
        help=f"allowed difference, as a fraction of the largest value ({TOLERANCE:g})",
    )
    parser.add_argument(
        "--train",
        action="store_true",
        help="compare in training mode, forward and backward; give labels by --input",
    )
    parser.add_argument("--steps", action="store_true", help="print a line for every step")
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    named = {name: file for name, file in args.input if name}
    early = early_arrays(args.symbol, named)
    model = read_model(args.symbol, args.params, named, shapes_of(early))
    files = named_files(model, args.input)
    require_inputs(model, files)
    arrays = early if early.keys() == files.keys() else read_arrays(files)
    types, param_types = variable_types(model, shapes_of(arrays), typed(arrays))
    inputs = {name: arrays[name].astype(types[name].dtype) for name in types}
    params = parameters(model, param_types)
    with chosen_target(args.target):
        if args.train:
            arrays, wanted = learned(model, inputs, params)
            verdict = verify_training(
                model.outputs, arrays, wanted, tolerance=args.tolerance, name=model.name
            )
        else:
            verdict = verify_graph(
                model.outputs, inputs, params, tolerance=args.tolerance, name=model.name
            )
    if args.steps:
        print(verdict.step_table())
    print(verdict)
    return 0 if verdict.agrees else 1

"""``hybridjit verify``: a model compiled beside the same model run by NumPy, step by step.

In: a model's files and arrays for its inputs. Out: whether they agree; if not, the first step that
differs and the part of the compiler to blame; and where the first NaN or infinity arises. Exit
code 0 if they agree, 1 if not.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import numpy as np

from ..verification import TOLERANCE, verify_graph, verify_training
from .arguments import UsageError, add_model, add_target, chosen_target, once
from .model import Model, learned, listed, parameters, read_model, variable_types
from .run import early_arrays, read_arrays, require_inputs, shapes_of, typed

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


def input_file(text: str) -> tuple[str, str]:
    """``data=x.npy``, or ``x.npy`` with an empty name."""
    name, _, file = text.rpartition("=")
    return name, file


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


def named_files(model: Model, given: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The files by the names of their inputs. Raises UsageError for one that needs a name."""
    if any(not name for name, _ in given) and len(model.inputs) != 1:
        raise UsageError(f"--input NAME=FILE: the inputs are {listed(model.inputs)}")
    return once([(name or model.inputs[0], file) for name, file in given], "--input")

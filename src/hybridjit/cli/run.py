"""``hybridjit run``: run a model on arrays from .npy files; write or print its outputs."""

from __future__ import annotations

import argparse
import io
from collections.abc import Mapping, Sequence

import numpy as np

from .. import nd
from ..errors import MXNetError
from ..formats.atomic import write_atomically
from ..loading import make_block
from ..nd import NDArray
from .arguments import (
    UsageError,
    add_json,
    add_model,
    add_precision,
    add_target,
    chosen_target,
    print_json,
)
from .inputs import (
    add_input,
    completed,
    files_by_input,
    given_early,
    listed,
    names_given,
    require_inputs,
    shapes_of,
    typed,
)
from .model import Model, read_model_of, variable_types


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_input(parser, "; float64 is cast to the graph's type")
    parser.set_defaults(shape=[], dtype=[])
    parser.add_argument(
        "--output",
        metavar="FILE.npy",
        action="append",
        default=[],
        help="file for an output; repeat for each, in the graph's order; optional with --json",
    )
    parser.add_argument("--eager", action="store_true", help="run on NumPy, compile nothing")
    add_json(parser)
    add_precision(parser)
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    if args.eager and args.precision != "float32":
        raise UsageError("--eager computes in float32 on NumPy: --precision needs a compiled graph")
    early = given_early(args)
    model = read_model_of(args, names_given(args), early.shapes)
    require_inputs(model.inputs, files_by_input(args, model.inputs))
    _require_files(model, args)
    arrays = completed(early, model.inputs, args).arrays
    outputs = outputs_of(model, arrays, args)
    for array, file in zip(outputs, args.output):
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        write_atomically(file, [buffer.getbuffer()])
        if not args.json:
            print(f"{file}: {array.dtype} {array.shape}")
    if args.json:
        print_json(_document(model, outputs, args.output))
    return 0


def _document(
    model: Model, outputs: Sequence[np.ndarray], files: Sequence[str]
) -> dict[str, object]:
    """The outputs with their files, or without files with their values."""
    rows = [
        {
            "name": name,
            "shape": list(array.shape),
            "dtype": array.dtype.name,
            **({"file": files[i]} if files else {"values": array.tolist()}),
        }
        for i, (name, array) in enumerate(zip(model.output_names, outputs))
    ]
    return {"model": model.name, "outputs": rows}


def outputs_of(
    model: Model, arrays: Mapping[str, np.ndarray], args: argparse.Namespace
) -> list[np.ndarray]:
    """Outputs of the model for these arrays, compiled or with ``--eager``."""
    if model.roles.missing and model.params is None:
        raise MXNetError(f"the graph has parameters ({listed(model.roles.missing)}): give --params")
    types, _ = variable_types(model, shapes_of(arrays), typed(arrays))
    block = make_block(model.outputs, model.roles, model.params or {})
    bits = "float32" if args.precision == "int8" else args.precision  # the graph has its ranges
    block.hybridize(active=not args.eager, precision=bits)
    inputs = [nd.array(arrays[n], dtype=types[n].dtype) for n in model.inputs]
    if args.eager:
        found = block(*inputs)
    else:
        with chosen_target(args.target):
            found = block(*inputs)
    return [array.asnumpy() for array in ([found] if isinstance(found, NDArray) else found)]


def _require_files(model: Model, args: argparse.Namespace) -> None:
    """Raise UsageError unless each output has a file, or with ``--json`` none has."""
    files = len(args.output)
    if files != len(model.outputs) and (files or not args.json):
        names = ", ".join(output.name for output in model.outputs)
        raise UsageError(
            f"{files} files for {len(model.outputs)} outputs: give --output once for each "
            f"of {names}"
        )

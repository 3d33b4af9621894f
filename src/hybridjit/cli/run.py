"""``hybridjit run``: run a model on arrays from .npy files; write its outputs to .npy files."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from .. import nd
from .._core.safe_open import open_file
from .._core.types import DTYPE_NAMES
from ..errors import MXNetError
from ..formats.atomic import system_errors, write_atomically
from ..loading import make_block
from ..nd import NDArray
from .arguments import (
    UsageError,
    add_model,
    add_precision,
    add_target,
    chosen_target,
    input_file,
    is_onnx,
    once,
)
from .model import Model, listed, read_model, variable_types

_PIPE_BYTES = 1 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--input",
        metavar="[NAME=]FILE.npy",
        type=input_file,
        action="append",
        default=[],
        help="array of an input; repeat for each (NAME= is optional for a single input; float64 is "
        "cast to the graph's type)",
    )
    parser.add_argument(
        "--output",
        metavar="FILE.npy",
        action="append",
        required=True,
        help="file for an output; repeat for each, in the graph's order",
    )
    parser.add_argument("--eager", action="store_true", help="run on NumPy, compile nothing")
    add_precision(parser)
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    if args.eager and args.precision != "float32":
        raise UsageError("--eager computes in float32 on NumPy: --precision needs a compiled graph")
    named = dict(pair for pair in args.input if pair[0])
    early = early_arrays(args.symbol, named)
    model = read_model(args.symbol, args.params, named, shapes_of(early))
    files = named_files(model, args.input)
    _require_files(model, files, args.output)
    arrays = early if early.keys() == files.keys() else read_arrays(files)
    for array, file in zip(outputs_of(model, arrays, args), args.output):
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        write_atomically(file, [buffer.getbuffer()])
        print(f"{file}: {array.dtype} {array.shape}")
    return 0


def outputs_of(
    model: Model, arrays: Mapping[str, np.ndarray], args: argparse.Namespace
) -> list[np.ndarray]:
    """Outputs of the model for these arrays, compiled or with ``--eager``."""
    if model.roles.missing and model.params is None:
        raise MXNetError(f"the graph has parameters ({listed(model.roles.missing)}): give --params")
    types, _ = variable_types(model, shapes_of(arrays), typed(arrays))
    block = make_block(model.outputs, model.roles, model.params or {})
    block.hybridize(active=not args.eager, precision=args.precision)
    inputs = [nd.array(arrays[n], dtype=types[n].dtype) for n in model.inputs]
    if args.eager:
        found = block(*inputs)
    else:
        with chosen_target(args.target):
            found = block(*inputs)
    return [array.asnumpy() for array in ([found] if isinstance(found, NDArray) else found)]


def named_files(model: Model, given: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The files by input name. Raises UsageError for a file that needs a name."""
    if any(not name for name, _ in given) and len(model.inputs) != 1:
        raise UsageError(f"--input NAME=FILE: the inputs are {listed(model.inputs)}")
    return once([(name or model.inputs[0], file) for name, file in given], "--input")


def early_arrays(symbol: str, files: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Arrays whose shapes an ONNX file needs before its graph is built; empty for other files."""
    return read_arrays(files) if is_onnx(symbol) else {}


def read_arrays(files: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The arrays in these files, by input. Raises MXNetError as :func:`read_array`."""
    return {name: read_array(name, file) for name, file in files.items()}


def shapes_of(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays by name."""
    return {name: array.shape for name, array in arrays.items()}


def typed(arrays: Mapping[str, np.ndarray]) -> dict[str, np.dtype]:
    """Element types that arrays determine: all except float64, NumPy's default for numbers."""
    return {name: array.dtype for name, array in arrays.items() if array.dtype != np.float64}


def require_inputs(model: Model, files: Mapping[str, str]) -> None:
    """Raise UsageError unless each input, and no other name, has a file."""
    missing = [name for name in model.inputs if name not in files]
    if missing:
        raise UsageError(f"no --input for {listed(missing)}")
    unknown = [name for name in files if name not in model.inputs]
    if unknown:
        raise UsageError(
            f"{listed(unknown)} is not an input; the inputs are {listed(model.inputs)}"
        )


def _require_files(model: Model, files: Mapping[str, str], outputs: list[str]) -> None:
    require_inputs(model, files)
    if len(outputs) != len(model.outputs):
        names = ", ".join(output.name for output in model.outputs)
        raise UsageError(
            f"{len(outputs)} files for {len(model.outputs)} outputs: give --output once for each "
            f"of {names}"
        )


def read_array(name: str, file: str) -> np.ndarray:
    """The array of a .npy file or of a pipe, such as ``<(command)``.

    Raises MXNetError for other files, and for arrays of objects.
    """
    try:
        with system_errors(file), open_file(file, _PIPE_BYTES) as source:
            content = source if source.seekable() else io.BytesIO(source.read())
            array = np.load(content, allow_pickle=False)
    except MemoryError:
        raise MXNetError(f"{file}: not enough memory for its array") from None
    except (ValueError, EOFError) as error:
        why = "" if "pickle" in str(error) else f": {error}"
        raise MXNetError(f"{file}: not a .npy file of numbers{why}") from None
    if not isinstance(array, np.ndarray) or array.dtype.name not in DTYPE_NAMES:
        kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        known = ", ".join(DTYPE_NAMES)
        raise MXNetError(f"{file}: contains {kind}; it must contain one array of {known}")
    if array.dtype == np.float64:
        print(f"{file}: float64, cast to the type of '{name}' in the graph", file=sys.stderr)
    return array

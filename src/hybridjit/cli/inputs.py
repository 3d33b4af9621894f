"""Arrays of inputs from ``--input``: files read, names found, shapes and types for the graph.

Input: parsed arguments. Output: :class:`Given`, by input name. A file without a name belongs to a
model's only input.
"""

from __future__ import annotations

import argparse
import io
import sys
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from zipfile import BadZipFile

import numpy as np

from .._core.safe_open import open_file
from .._core.types import DTYPE_NAMES
from ..errors import MXNetError
from ..formats.atomic import system_errors
from ..onnx.load import get_model_metadata
from .arguments import UsageError, input_file, is_onnx, once

_PIPE_BYTES = 1 << 30
Content = TypeVar("Content")


class Given(NamedTuple):
    """Arrays, shapes and element types of inputs, by name; shapes include those of the arrays."""

    arrays: dict[str, np.ndarray]
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, np.dtype]


def add_input(parser: argparse.ArgumentParser, more: str) -> None:
    """Add ``--input``; ``more`` ends its help."""
    parser.add_argument(
        "--input",
        metavar="[NAME=]FILE.npy",
        type=input_file,
        action="append",
        default=[],
        help=f"array of an input; repeat for each (NAME= is optional for a single input{more})",
    )


def given_early(args: argparse.Namespace) -> Given:
    """The shapes and types that are known without the graph, and for ONNX the arrays.

    The graph of an ONNX file may need the shapes. Raises UsageError for an input with ``--shape``
    and ``--input``.
    """
    if not is_onnx(args.symbol):
        return _given(args, {})
    names = [name for name, _ in get_model_metadata(args.symbol)["input_tensor_data"]]
    files = files_by_input(args, names)
    return _given(args, read_arrays({n: f for n, f in files.items() if n in names}))


def names_given(args: argparse.Namespace) -> set[str]:
    """The names of inputs in ``--shape`` and ``--input``."""
    return {name for name, _ in (*args.shape, *args.input) if name}


def files_by_input(args: argparse.Namespace, inputs: Sequence[str]) -> dict[str, str]:
    """The files of ``--input``. Raises UsageError for one without a name if there are several."""
    return once([(name or only(inputs), file) for name, file in args.input], "--input")


def completed(given: Given, inputs: Sequence[str], args: argparse.Namespace) -> Given:
    """The same with the arrays of all files; one without a name belongs to the only input."""
    files = files_by_input(args, inputs)
    missing = {name: file for name, file in files.items() if name not in given.arrays}
    return _given(args, {**given.arrays, **read_arrays(missing)}) if missing else given


def _given(args: argparse.Namespace, arrays: dict[str, np.ndarray]) -> Given:
    shapes, dtypes = once(args.shape, "--shape"), once(args.dtype, "--dtype")
    if twice := [name for name in arrays if name in shapes]:
        raise UsageError(f"{listed(twice)} has its shape from --input: omit --shape")
    return Given(arrays, {**shapes, **shapes_of(arrays)}, {**typed(arrays), **dtypes})


def only(inputs: Sequence[str]) -> str:
    """The name of the only input. Raises UsageError if there are several or none."""
    if len(inputs) != 1:
        raise UsageError(f"--input NAME=FILE: the inputs are {listed(inputs)}")
    return inputs[0]


def listed(names: Sequence[str]) -> str:
    """Names in quotation marks, or ``none``."""
    return ", ".join(f"'{name}'" for name in names) or "none"


def read_arrays(files: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The arrays in these files, by input. Raises MXNetError as :func:`read_array`."""
    return {name: read_array(name, file) for name, file in files.items()}


def shapes_of(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays by name."""
    return {name: array.shape for name, array in arrays.items()}


def typed(arrays: Mapping[str, np.ndarray]) -> dict[str, np.dtype]:
    """Element types that arrays determine: all except float64, NumPy's default for numbers."""
    return {name: array.dtype for name, array in arrays.items() if array.dtype != np.float64}


def require_inputs(inputs: Sequence[str], files: Collection[str]) -> None:
    """Raise UsageError unless each input, and no other name, has a file."""
    missing = [name for name in inputs if name not in files]
    if missing:
        raise UsageError(f"no --input for {listed(missing)}")
    unknown = [name for name in files if name not in inputs]
    if unknown:
        raise UsageError(f"{listed(unknown)} is not an input; the inputs are {listed(inputs)}")


def read_array(name: str, file: str) -> np.ndarray:
    """The array of a .npy file or of a pipe, such as ``<(command)``.

    Raises MXNetError for other files, and for arrays of objects.
    """
    array = _loaded(file, ".npy", np.asarray)
    _require_number(file, array)
    if array.dtype == np.float64:
        print(f"{file}: float64, cast to the type of '{name}' in the graph", file=sys.stderr)
    return array


def read_archive(file: str) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name. Raises MXNetError as :func:`read_array`."""
    found = _loaded(file, ".npz", dict)
    for array in found.values():
        _require_number(file, array)
    return found


def _loaded(file: str, kind: str, taken: Callable[[Any], Content]) -> Content:
    """``taken`` of the content of a NumPy file; members of an archive are read by it."""
    try:
        with system_errors(file), open_file(file, _PIPE_BYTES) as source:
            content = source if source.seekable() else io.BytesIO(source.read())
            loaded = np.load(content, allow_pickle=False)
            if isinstance(loaded, np.ndarray) != (kind == ".npy"):
                raise ValueError(f"it contains {type(loaded).__name__}")
            return taken(loaded)
    except MemoryError:
        raise MXNetError(f"{file}: not enough memory for its array") from None
    except (ValueError, EOFError, BadZipFile, zlib.error, KeyError) as error:
        why = "" if "pickle" in str(error) else f": {error}"
        raise MXNetError(f"{file}: not a {kind} file of numbers{why}") from None


def _require_number(file: str, array: np.ndarray) -> None:
    if array.dtype.name not in DTYPE_NAMES:
        known = ", ".join(DTYPE_NAMES)
        raise MXNetError(f"{file}: contains {array.dtype}; it must contain arrays of {known}")

"""Calibration data from the command line: arrays in files, as batches of the model's inputs.

Input: parsed arguments of ``hybridjit quantize`` and a model. Output: for each batch an array for
each input, in its type. An .npy or .npz file contains samples along the first axis, a folder one
batch in each file.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping

import numpy as np

from .arguments import UsageError
from .inputs import (
    files_by_input,
    listed,
    read_archive,
    read_array,
    read_arrays,
    require_inputs,
    shapes_of,
    typed,
)
from .model import Model, variable_types

Arrays = Mapping[str, np.ndarray]
_ENDINGS = (".npy", ".npz")
_BATCH = 32


def batches_of(args: argparse.Namespace, model: Model) -> list[dict[str, np.ndarray]]:
    """The batches of ``--calibration`` or ``--input``.

    Raises UsageError without data and for arrays that are not the inputs', MXNetError for files
    that cannot be read and for shapes that contradict the graph.
    """
    if (args.calibration is None) == (not args.input):
        raise UsageError("give typical inputs, by --calibration or by --input for each input")
    types = {}
    found = []
    for batch in _untyped(args, model):
        key = tuple((name, x.shape, x.dtype.str) for name, x in batch.items())
        if key not in types:
            types[key], _ = variable_types(model, shapes_of(batch), typed(batch))
        found.append({n: x.astype(types[key][n].dtype, copy=False) for n, x in batch.items()})
    return found


def _untyped(args: argparse.Namespace, model: Model) -> Iterator[Arrays]:
    path = args.calibration
    if path is None:
        files = files_by_input(args, model.inputs)
        require_inputs(model.inputs, files)
        yield read_arrays(files)
    elif os.path.isdir(path):
        names = sorted(name for name in os.listdir(path) if name.endswith(_ENDINGS))
        if not names:
            raise UsageError(f"{path} has no .npy or .npz file: --calibration needs batches")
        for name in names:
            yield _of_file(os.path.join(path, name), model)
    else:
        yield from _split(path, _of_file(path, model), args.batch or _stated_batch(model))


def _of_file(path: str, model: Model) -> Arrays:
    """The arrays of a file by input; the name of a single array does not matter."""
    if path.endswith(".npz"):
        found = read_archive(path)
    elif path.endswith(".npy"):
        found = {"": read_array(model.inputs[0], path)}
    else:
        raise UsageError(f"--calibration {path}: expected an .npz or .npy file, or a folder")
    if len(found) == len(model.inputs) == 1:
        return dict(zip(model.inputs, found.values()))
    if missing := [name for name in model.inputs if name not in found]:
        raise UsageError(
            f"{path} has no array for {listed(missing)}: the model's inputs are "
            f"{listed(model.inputs)}, the file's arrays {listed([*filter(None, found)])}"
        )
    return {name: found[name] for name in model.inputs}


def _stated_batch(model: Model) -> int:
    """The number of samples that the model's file fixes, else a usual one."""
    for name in model.inputs:
        known = model.stated.get(name)
        if known is not None and known.shape and isinstance(known.shape[0], int):
            return known.shape[0]
    return _BATCH


def _split(path: str, whole: Arrays, size: int) -> Iterator[Arrays]:
    """Batches of ``size`` samples; the last one may have fewer."""
    counts = {name: len(x) if x.ndim else 0 for name, x in whole.items()}
    if len({*counts.values()}) > 1 or not min(counts.values()):
        shown = ", ".join(f"{count} of '{name}'" for name, count in counts.items())
        raise UsageError(f"{path}: each input needs the same number of samples, got {shown}")
    for start in range(0, min(counts.values()), size):
        yield {name: x[start : start + size] for name, x in whole.items()}

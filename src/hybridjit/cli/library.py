"""``hybridjit compile --library``: write a network as a C library.

Input: parsed arguments. Output: ``NAME.h``, ``NAME.o`` and ``NAME.a`` in a folder, ``NAME.so`` if
a linker is installed, and ``NAME.weights`` on request.
"""

from __future__ import annotations

import argparse
import os
import time

from .._core.config import config
from .._core.options import Options
from .._core.target import Target
from ..compiler import new_log
from ..library.build import Built, Network, Request, build, build_training
from ..library.files import write_files
from ..library.targets import find_targets
from .arguments import BATCH, UsageError, folder
from .model import model_of, parameters
from .training import add_training, training_of_files


def add_library(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--library",
        metavar="DIR",
        type=folder,
        help="write the network as a C library into this folder; the first size of --shape may be "
        "N, any batch size: data=N,3,224,224",
    )
    parser.add_argument(
        "--name", help="prefix of the library's functions and files (default: the model's name)"
    )
    parser.add_argument(
        "--weights",
        choices=("inside", "file"),
        default="inside",
        help="location of the weights; a file is memory-mapped (default: inside)",
    )
    parser.add_argument(
        "--threads", action="store_true", help="allow contexts with several threads"
    )
    add_training(parser)


def write_library(args: argparse.Namespace) -> int:
    """Write the files, and print their paths."""
    start = time.perf_counter()
    if args.cache is not None:
        raise UsageError("--cache and --library exclude each other: give one of them")
    built = _built(args)
    written = write_files(built, args.library, _targets(args)[0])
    for path in written:
        print(f"{path}: {os.path.getsize(path)} bytes")
    targets = ", ".join(built.interface.targets)
    print(f"{built.interface.name} for {targets}: {time.perf_counter() - start:.1f} s")
    return 0


def _built(args: argparse.Namespace) -> Built:
    log = new_log(config.dump)
    if args.train is None:
        if args.optimizer is not None:
            raise UsageError("--optimizer needs --train with a loss")
        network = _network(args)  # also sets the library's name
        return build(network, _request(args), log)
    training = training_of_files(args)
    return build_training(training, _request(args), log)


def _network(args: argparse.Namespace) -> Network:
    args.shape, args.any_batch = _one_sample(args.shape)
    model, input_types, param_types = model_of(args, args.any_batch)
    if model.params is None:
        raise UsageError("a library contains the network's parameters: give --params")
    args.name = args.name or model.name
    params = parameters(model, param_types)
    return Network(model.outputs, model.output_names, input_types, param_types, params)


def _one_sample(
    shapes: list[tuple[str, tuple[int, ...]]],
) -> tuple[list[tuple[str, tuple[int, ...]]], bool]:
    """The shapes with 1 in place of N, and whether they have N. All have N, or none."""
    free = [name for name, shape in shapes if BATCH in shape]
    if free and len(free) < len(shapes):
        fixed = next(name for name, shape in shapes if BATCH not in shape)
        raise UsageError(f"N must be the first size of every input: '{fixed}' has none")
    if any(BATCH in shape[1:] for _, shape in shapes):
        raise UsageError("N means any batch size and can only be the first size of a shape")
    made = [(name, (1, *shape[1:]) if BATCH in shape else shape) for name, shape in shapes]
    return made, bool(free)


def _request(args: argparse.Namespace) -> Request:
    return Request(
        name=args.name,
        any_batch=args.any_batch,
        targets=_targets(args),
        threads=args.threads,
        mapped=args.weights == "file",
        options=Options(precision=args.precision),
    )


def _targets(args: argparse.Namespace) -> tuple[Target, ...]:
    """Targets from the arguments, the widest vectors first; by default this host."""
    try:
        return find_targets(args.target or "", args.precision)
    except ValueError as error:
        raise UsageError(str(error)) from None

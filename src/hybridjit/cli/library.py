"""``hybridjit compile --library``: write a network as a C library.

Input: parsed arguments. Output: ``NAME.h``, ``NAME.o`` and ``NAME.a`` in a folder, ``NAME.so`` if
a linker is installed, and ``NAME.weights`` on request.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Mapping, Sequence

from .._core.config import config
from .._core.options import Options
from .._core.target import Target
from ..compiler import new_log
from ..library.build import Built, Network, Request, build, build_training
from ..library.files import write_files
from ..library.grid import LARGEST_SIZE, Bound
from ..library.interface import BATCH_NAME
from ..library.targets import find_targets
from .arguments import BoundText, UsageError, bound, folder, is_onnx, once
from .model import model_of, parameters, read_model_of, variable_types
from .training import add_training, training_of_files


def add_library(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--library",
        metavar="DIR",
        type=folder,
        help="write the network as a C library into this folder; the first size of --shape may be "
        "N, any batch size: data=N,3,224,224; other capital letters are sizes that calls give, "
        "within their bounds: data=N,T,64",
    )
    parser.add_argument(
        "--bound",
        metavar="T<=N",
        type=bound,
        action="append",
        default=[],
        help="bounds of a size of --shape that is a letter: T<=512, 8<=T<=512, T>=8; H%%32==0 "
        "admits multiples of 32 only",
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
    shapes = once(args.shape, "--shape")
    named = {name: _names(shape) for name, shape in shapes.items()}
    args.any_batch = _is_any_batch(named, args.bound)
    args.bounds = _bounds(args, named)
    args.shape = [(name, _at_hints(args, shape)) for name, shape in shapes.items()]
    sized = is_onnx(args.symbol) and bool(args.bounds)
    model, input_types, param_types = model_of(args, not sized and (args.any_batch or args.bounds))
    if model.params is None:
        raise UsageError("a library contains the network's parameters: give --params")
    args.name = args.name or model.name
    params = parameters(model, param_types)

    def at(shapes: Mapping[str, tuple[int, ...]]) -> Network:
        """The network of an ONNX file, whose graph depends on sizes."""
        known, dtypes = dict(shapes), once(args.dtype, "--dtype")
        found = read_model_of(args, {}, known)
        inputs, types = variable_types(found, known, dtypes)
        arrays = parameters(found, types)
        return Network(found.outputs, found.output_names, inputs, types, arrays, {})

    sizes = {name: named.get(name, ("",) * t.ndim) for name, t in input_types.items()}
    return Network(
        model.outputs,
        model.output_names,
        input_types,
        param_types,
        params,
        sizes,
        at if sized else None,
    )


def _names(shape: Sequence[int | str]) -> tuple[str, ...]:
    """The letters of a shape; "" for numbers."""
    return tuple(size if isinstance(size, str) else "" for size in shape)


def _is_any_batch(named: Mapping[str, tuple[str, ...]], bounds: Sequence[BoundText]) -> bool:
    """Whether samples run one after the other: N is the first size of every input and unbounded.

    Raises UsageError for N without a bound at another place.
    """
    if any(each.name == BATCH_NAME for each in bounds):
        return False
    free = [name for name, letters in named.items() if BATCH_NAME in letters]
    if free and len(free) < len(named):
        fixed = next(name for name, letters in named.items() if BATCH_NAME not in letters)
        raise UsageError(f"N must be the first size of every input: '{fixed}' has none")
    if any(BATCH_NAME in letters[1:] for letters in named.values()):
        raise UsageError(
            "N means any batch size and can only be the first size of a shape; N with --bound, and "
            "other letters, may be any size"
        )
    return bool(free)


def _bounds(args: argparse.Namespace, named: Mapping[str, tuple[str, ...]]) -> tuple[Bound, ...]:
    """The bounds of the sizes that are letters, except a batch.

    Raises UsageError for a letter without an upper bound, and for bounds that admit no size.
    """
    letters = dict.fromkeys(letter for each in named.values() for letter in each if letter)
    for given in args.bound:
        if given.name not in letters:
            raise UsageError(f"--bound names {given.name}, but no size of --shape has this name")
    wanted = [n for n in letters if not (args.any_batch and n == BATCH_NAME)]
    return tuple(_bound_of(name, [b for b in args.bound if b.name == name]) for name in wanted)


def _bound_of(name: str, given: Sequence[BoundText]) -> Bound:
    highs = [b.high for b in given if b.high is not None]
    if not highs:
        raise UsageError(f"the size {name} needs an upper bound, for example --bound '{name}<=512'")
    step = math.lcm(*(b.step for b in given if b.step is not None))
    low = max([1, *(b.low for b in given if b.low is not None)])
    low, high = -(-low // step) * step, min(highs)
    if low > high or high > LARGEST_SIZE:
        raise UsageError(
            f"the bounds of {name} admit sizes from {low} to {high}: they must contain a size, and "
            f"at most {LARGEST_SIZE}"
        )
    return Bound(name, low, high, step)


def _at_hints(args: argparse.Namespace, shape: Sequence[int | str]) -> tuple[int, ...]:
    """The shape with the largest sizes for letters, and 1 for a batch."""
    largest = {bound.name: bound.values[-1] for bound in args.bounds}
    return tuple(largest.get(n, 1) if isinstance(n, str) else n for n in shape)


def _request(args: argparse.Namespace) -> Request:
    return Request(
        name=args.name,
        any_batch=args.any_batch,
        targets=_targets(args),
        threads=args.threads,
        mapped=args.weights == "file",
        options=Options(precision=args.precision),
        bounds=args.bounds,
    )


def _targets(args: argparse.Namespace) -> tuple[Target, ...]:
    """Targets from the arguments, the widest vectors first; by default this host."""
    try:
        return find_targets(args.target or "", args.precision)
    except ValueError as error:
        raise UsageError(str(error)) from None

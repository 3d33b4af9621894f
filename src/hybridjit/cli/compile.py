"""``hybridjit compile``: fill the cache of compiled objects, or write a library.

Input: a graph, and shapes. Output: objects in a folder, for all later processes that compile the
same kernels for the same CPU, with any parameters; or, with ``--library``, a network that does not
need Python, see :mod:`..library.build`.
"""

from __future__ import annotations

import argparse
import time
import warnings

from .._core.config import config, override
from .._core.options import Options
from ..compilation import load_or_compile
from ..compiler import new_log
from ..errors import MXNetError
from .arguments import (
    UsageError,
    add_model,
    add_precision,
    add_shapes,
    add_target,
    chosen_target,
    folder,
    symbolic_shape,
)
from .library import add_library, write_library
from .model import model_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, " (without it, their types are inferred)")
    add_shapes(parser, symbolic_shape)
    parser.add_argument(
        "--cache",
        metavar="DIR",
        type=folder,
        help="folder to fill (default: HYBRIDJIT_CACHE_DIR, or the user's)",
    )
    add_target(parser, " (with --library several, separated by commas, avx512bf16 among them)")
    add_precision(parser)
    add_library(parser)


def run(args: argparse.Namespace) -> int:
    if args.library is not None:
        return write_library(args)
    return _fill_cache(args)


def _fill_cache(args: argparse.Namespace) -> int:
    if any(isinstance(size, str) for _, shape in args.shape for size in shape):
        raise UsageError("N in a shape, any batch size, needs --library: give a number")
    model, input_types, param_types = model_of(args)
    cache = args.cache or config.cache_dir
    if cache == "off":
        raise UsageError("HYBRIDJIT_CACHE_DIR disables the cache: give a folder with --cache")
    log = new_log()
    start = time.perf_counter()
    with override(cache_dir=cache), chosen_target(args.target) as target:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", "hybridjit's cache", RuntimeWarning)
                options = Options(precision=args.precision)
                load_or_compile(model.outputs, input_types, param_types, options, log)
        except RuntimeWarning as unusable:
            raise MXNetError(str(unusable)) from None
    kinds = [kind for kind, _, _ in log.details]
    print(
        f"{model.name} for {target}: {kinds.count('kernel')} objects compiled, "
        f"{kinds.count('cached')} were cached, {time.perf_counter() - start:.1f} s"
    )
    return 0
